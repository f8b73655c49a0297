# ---
# title: The Python backend
# minutes: 30
# ---

# %% [markdown]
# # The Python backend
#
# **Question.** Your code fits no model format: it checks its input, calls a library, or asks other models. How does it become a model that serves many clients?
#
# The [Python backend](https://github.com/triton-inference-server/python_backend) runs a class of yours in a process beside the server's. For a plain network take its own backend: there, tensors need no such detour.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("python")
setup.repository(models)  # once, it trains a network: 1 to 5 minutes
lab = laboratory(models, only=["first", "second", "countdown"])  # a server; we ask these later

# %% [markdown]
# ## Three methods
#
# This model of [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) adds and subtracts two lists. Triton calls `initialize` once per instance, at the load. `args["model_config"]` is the config as JSON text: from it, the code takes the output's type. `execute` gets a list of requests, and returns one response for each. `finalize` runs at the unload.

# %%
show("models/python_model/config.pbtxt", "models/python_model/1/model.py")

# %% tags=["triton"]
import os

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def infer(model, **arrays):
    """Send arrays by the names of the inputs; return those of the outputs."""
    inputs = []
    for name, array in arrays.items():
        kind = np_to_triton_dtype(array.dtype)
        inputs.append(grpc.InferInput(name, array.shape, kind).set_data_from_numpy(array))
    answer = client.infer(model, inputs)
    return {each.name: answer.as_numpy(each.name) for each in answer.get_response().outputs}


# %% tags=["triton"]
client.load_model("python_model")
three, one = np.array([[3, 3]], np.float32), np.array([[1, 2]], np.float32)
sums = infer("python_model", INPUT_0=three, INPUT_1=one)
client.unload_model("python_model")
print(sums)

# %%
claim(
    sums["OUTPUT_0"].tolist() == [[4, 5]]
    and setup.log_lines(lab, "goodbye")
    and all(setup.as_printed(lab)),
    "The model adds, and what finalize prints is in the server's log. (The program as the slides "
    "print it does not load; the fold below says why.)",
    "Run the cells of this section again.",
    id="python.example",
)

# %% [markdown]
# <details><summary>Errata: the backend slides</summary>
#
# The printed [initialize](models/python_model/model.as_printed.py) does not import `json`, and reads `model_config` where it stored `self.model_config`. Its config lacks braces and names.
#
# </details>
#
# ## The classifier
#
# `focus_python` is the network of this whole lecture: is a piece of a photo sharp or blurred? The network is a torch module, [network.py](models/focus_python/1/network.py), beside model.py.

# %%
show("models/focus_python/config.pbtxt")

# %% [markdown]
# `initialize` loads the network, because clients wait while `execute` runs. With `dynamic_batching`, `execute` gets all requests that wait: the code joins their rows, computes once, and cuts the result up again.
#
# Each picture gets two logits, for "blurred" and "sharp"; the larger one is the verdict.

# %% tags=["triton"]
# %%writefile {models}/focus_python/1/model.py
import network  # network.py, beside this file: the version folder is on Python's path
import numpy as np
import torch
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        version = f"{args['model_repository']}/{args['model_version']}"  # folder and number
        self.net = network.load(version + "/weights.pth")  # eval(), and no gradients

    def execute(self, requests):
        images = [pb.get_input_tensor_by_name(r, "image").as_numpy() for r in requests]
        logits = self.net(torch.from_numpy(np.concatenate(images))).numpy()
        ends = np.cumsum([len(rows) for rows in images])[:-1]  # where each request's rows end
        return [pb.InferenceResponse([pb.Tensor("logits", y)]) for y in np.split(logits, ends)]


# %% tags=["triton"]
client.load_model("focus_python")
parts = np.split(np.load(models / "pictures.npy"), 8)  # 8 requests with 25 pictures each
logits = np.concatenate([infer("focus_python", image=part)["logits"] for part in parts])
print(logits[:3])

# %%
claim(
    setup.apart(logits) < 1e-4,
    "Triton's 200 answers are those of the network in this notebook; the largest difference is "
    f"{setup.apart(logits):.1g}.",
    "Run the cells of this section again.",
    id="python.classifier",
)

# %% [markdown]
# ## One bad request among four
#
# `checked` is a price list: a request names a product, 0 to 2, and gets its price. The code refuses a negative product, but forgets those above 2: for them, numpy raises an `IndexError`. The prices are a *parameter*, text of your own in the config:

# %%
show("models/checked/config.pbtxt")

# %% tags=["triton"]
# %%writefile {models}/checked/1/model.py
import json

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.prices = np.array(json.loads(parameters["prices"]["string_value"]), np.float32)

    def execute(self, requests):
        pb.Logger.log_info(f"{len(requests)} requests in one execution")  # in the server's log
        return [self.answer(pb.get_input_tensor_by_name(r, "product").as_numpy()) for r in requests]

    def answer(self, product):
        if (product < 0).any():
            return pb.InferenceResponse(error=pb.TritonError("product is negative"))
        return pb.InferenceResponse([pb.Tensor("price", self.prices[product])])


# %%
predict(
    "python.errors",
    "Four clients ask at once, for the products 0, 1, 7, 2. Their requests share one execution, and "
    "the third makes the code raise. Who gets an error?",
    {
        "the third client only": "That is what InferenceResponse(error=…) does. An exception "
        "leaves execute as a whole: there is no list of responses.",
        "the third and the fourth": "The list is returned at the end. Before the exception, no "
        "answer had left the model.",
        "all four": None,
    },
)

# %% tags=["triton"]
from concurrent.futures import ThreadPoolExecutor


def reply(product):
    """Ask for a product's price; return Triton's error, or an empty text."""
    try:
        infer("checked", product=np.array([[product]], np.int32))
    except InferenceServerException as error:
        return error.message().splitlines()[0].partition("message: ")[2] or error.message()
    return ""


client.load_model("checked")
with ThreadPoolExecutor() as pool:
    raised = list(pool.map(reply, [0, 1, 7, 2]))
    returned = list(pool.map(reply, [0, 1, -1, 2]))
for product, replies in ((7, raised), (-1, returned)):
    print(f"product {product} among them:", *(each or "answered" for each in replies), sep="\n  ")

# %%
failed = [sum(map(bool, raised)), sum(map(bool, returned))]
who = {1: "the third client only", 2: "the third and the fourth"}
together = setup.in_one(lab)
compare("python.errors", who.get(failed[0], "all four"), premise=together)
claim(
    failed == [4, 1],
    "An exception fails every request of the execution; an error response fails its own.",
    "Run the cell before this one again.",
    premise=together,
    id="python.errors",
)

# %% [markdown]
# So answer a bad request with `error=`. Where a library may raise, write `try` around one request's part.
#
# ## Ask other models
#
# A Python model may ask other models of the same server: [*business logic scripting*, BLS](https://github.com/triton-inference-server/python_backend#business-logic-scripting). `tally` asks `focus_python`, and counts the sharp pictures in a [metric of its own](https://github.com/triton-inference-server/python_backend#custom-metrics). Without `dynamic_batching`, its list has one request.

# %% tags=["triton"]
# %%writefile {models}/tally/1/model.py
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.family = pb.MetricFamily("sharp_total", "Sharp so far", pb.MetricFamily.COUNTER)
        self.sharp = self.family.Metric(labels={"model": args["model_name"]})

    def execute(self, requests):
        given = {"model_name": "focus_python", "requested_output_names": ["logits"]}
        answer = pb.InferenceRequest(inputs=requests[0].inputs(), **given).exec()
        if answer.has_error():  # the other model's error becomes this model's
            return [pb.InferenceResponse(error=answer.error())]
        y = pb.get_output_tensor_by_name(answer, "logits").as_numpy()
        self.sharp.increment(int((y[:, 1] > y[:, 0]).sum()))
        return [pb.InferenceResponse(answer.output_tensors())]


# %% tags=["triton"]
client.load_model("tally")
# !curl -s $TRITON_METRICS/metrics | grep sharp_total
tallied = np.concatenate([infer("tally", image=part)["logits"] for part in parts])
# !curl -s $TRITON_METRICS/metrics | grep sharp_total

# %% [markdown]
# `exec` waits for the answer. With `async_exec`, a model asks several at once: [`panel`](models/panel/1/model.py) asks `first` and `second`, which need 150 ms each. `exec(decoupled=True)` reads the answers of a model that answers several times: [`collected`](models/collected/1/model.py) joins those of `countdown`, which counts from 4 to 1 here. We ask both:

# %%
sharp = sum(tallied[:, 1] > tallied[:, 0])
claim(
    setup.others(lab).right and setup.others(lab).counter % sharp == 0,
    f"{sharp} of the pictures are sharp. {setup.others(lab)}",
    "Run the cells of this section again.",
    id="python.bls",
)

# %% [markdown]
# ### The production guide's chat
#
# BLS may also ask in a loop. [The production guide's program](models/ibuddha_chitchat_bls/1/model.py) ([guide](../../00__start/00__start.ipynb#The-documents-behind-the-course)), on the CPU (`KIND_CPU`), asks a GPT on a GPU once per token; here [random logits](models/ibuddha_chitchat/1/model.py) replace it. Does it work without a GPT? For two rows? For one row, if logits come for each token, or for the last?

# %%
claim(setup.chat(lab).lost == 3, f"{setup.chat(lab)}", "Run it again.", id="python.chat")

# %% [markdown]
# (The warnings say that its answer lacks the batch's dimension.) So test a loop with several rows, and with a missing model. Yours is [assignment a6](../../../assignments/a6__llm/a6.ipynb).
#
# <details><summary>Errata: the production guide's loop</summary>
#
# It takes `logits[0, :]`; write `[0, -1]`, because a GPT may give logits for each token. It computes one row per request, and answers without the batch's dimension. It draws until the first token is not special: for ever, if top-p leaves only special ones.
#
# </details>

# %% [markdown]
# ## What an instance costs
#
# Each instance is a process (a *stub*), because the code of one Python process runs on one core at a time. The price is memory, mostly for imports such as torch. This course's server copies a process that has torch; in NVIDIA's container each imports for itself. The megabytes that processes do not share, both ways:

# %%
costs = setup.costs(models, lab)  # on two servers: half a minute to 3
costs

# %%
claim(
    costs["processes"].tolist() == [1, 4] and setup.add_row(lab).changed == 0,
    "There is one process per instance.",
    "Run the cells of this section again.",
    id="python.instances",
)

# %% [markdown]
# So add instances when requests wait *and* cores are free; else they only need memory.
#
# Without a GPU, `KIND_GPU` is refused. With one, move network and inputs there yourself: if `args["model_instance_kind"]` is `"GPU"`, to `"cuda:" + args["model_instance_device_id"]`.

# %% [markdown]
# ## Without a config
#
# A model may bring its own config, in the method `auto_complete_config`. We load one without a config.pbtxt, and once with a config that differs.
#
# <details><summary>Under the hood: the method</summary>
#
# ```python
# @staticmethod
# def auto_complete_config(config):
#     config.set_max_batch_size(8)
#     config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [-1]})
#     config.add_output({"name": "double", "data_type": "TYPE_FP32", "dims": [-1]})
#     return config
# ```
#
# Each load starts one more Python process to call it. The server's option `--disable-auto-complete-config` turns it off.
#
# </details>

# %%
claim(
    "dims" in setup.without_config(lab)["conflict"],
    "With the method and no config, the model is loaded; its input is "
    f"{setup.without_config(lab)['filled']}. With a config of other dims it is refused: "
    f"{setup.without_config(lab)['conflict']}",
    "Run this cell again.",
    id="python.auto",
)

# %% [markdown]
# ## Whose memory?
#
# Code reads an input with `as_numpy`, or with `to_dlpack`, which hands it to another framework ([DLPack](https://github.com/triton-inference-server/python_backend#interoperability-and-gpu-support)). In whose memory do the two arrays lie? [`handover`](models/handover/1/model.py) looks at their addresses.

# %%
claim(
    setup.handover(lab),
    "On the CPU, numpy's array lies in the model's own process. DLPack's lies in the memory that "
    "the process shares with the server.",
    "Run the cell before this one again.",
    id="python.dlpack",
)

# %% [markdown]
# So on the CPU take `as_numpy`: its copy is made in any case (`pb_tensor.cc`). Take `to_dlpack` on a GPU, and do not keep the tensor: it holds memory that the server needs for other requests.
#
# <details><summary>Errata: the production guide's text</summary>
#
# It says that `to_dlpack` costs less than `as_numpy`: not on a CPU. To have another model's answer on the CPU, set [`preferred_memory`](https://github.com/triton-inference-server/python_backend#business-logic-scripting).
#
# </details>
#
# ## Five mistakes
#
# Each in a copy of `focus_python`. "Triton's own words" are all that you get at work:

# %%
made = setup.provoke(lab)
claim(len(made.refused) == 5, "The server refuses all five.", "Run it again.", id="python.mistakes")
made

# %% [markdown]
# ## Your turn
#
# `verdict` has a config, but its program answers nothing. In a new cell (`%%writefile {models}/verdict/1/model.py`), write `initialize`, `execute` and `finalize`, and load it: `client.load_model("verdict")`.
#
# The card below says what it shall answer. The two texts lie in `labels.txt`, beside model.py; an output of texts is an array of `np.object_`. `finalize` logs `verdicts: N`, the number of answered rows.

# %%
show("models/verdict/config.pbtxt")

# %%
task("python.verdict", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# Copy this folder, and change what follows (1), (2) and (3). It computes once for all requests that came together, and a bad one gets an error of its own:

# %%
show("at_work/shares/config.pbtxt", "at_work/shares/1/model.py")

# %% language="bash" tags=["triton"]
# cp -rT at_work/shares $TRITON_MODELS/shares
# curl -sX POST $TRITON_HTTP/v2/repository/models/shares/load
# for data in '[1, 1, 2]' '[1, 1, -2]'; do
#   counts="{\"name\": \"counts\", \"datatype\": \"FP32\", \"shape\": [1, 3], \"data\": $data}"
#   curl -s $TRITON_HTTP/v2/models/shares/infer -d "{\"inputs\": [$counts]}"
#   echo
# done

# %% [markdown]
# - A plain network: export it, and take its backend ([map](../01__map_of_backends/01__map_of_backends.ipynb#Which-when)). Checks, look-ups, any library: Python.
# - Steps in a fixed order: an [ensemble](../12__ensembles/12__ensembles.ipynb). Decisions or loops: BLS.
# - Does it batch? In `/metrics`, `nv_inference_count` grows faster than `nv_inference_exec_count`.
# - Requests wait and cores are free: a larger `count`. Look at each process's memory first.

# %% [markdown]
# ## What to remember
#
# - `initialize` loads, once per instance and process. `execute` gets a list of requests: join their rows, compute once, split.
# - Return an error response for a bad request. An exception fails its neighbours as well.
# - Ask other models with `exec` or `async_exec`.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A model with one instance asks itself by BLS. What happens?</summary>
#
# It waits for itself, for ever. So does a circle of models ([limitation](https://github.com/triton-inference-server/python_backend#limitation)).
#
# </details>
#
# <details><summary>The dynamic batcher forms batches of eight, and the throughput does not grow. Where do you look?</summary>
#
# At `execute`: a loop that computes one request after the other undoes the batch.
#
# </details>
#
# Next: [Python environments](../03__python_environments/03__python_environments.ipynb).
