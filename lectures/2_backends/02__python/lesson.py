# ---
# title: The Python backend
# minutes: 30
# ---

# %% [markdown]
# # The Python backend
#
# **Question.** Your logic fits no model format: it refuses bad requests, or asks other models. What do you write, and what does each instance cost?
#
# The [Python backend](https://github.com/triton-inference-server/python_backend) calls your class, on CPU or GPU. For a plain network take a C++ backend: there no tensor goes to another process.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("python")
setup.repository(models)  # once, it trains a network: 1 to 5 minutes
lab = laboratory(models, only=["first", "second", "countdown"])  # a server of this notebook's own

# %% [markdown]
# ## The backend slides' example
#
# A model of [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) adds and subtracts. `initialize` runs once per instance, and gets the config as JSON text. `execute` gets a list of requests, and returns a response for each. `finalize` runs at the unload. (`auto_complete_config` is the next section's.)

# %%
show("models/python_model/config.pbtxt", "models/python_model/1/model.py")

# %% tags=["triton"]
import os

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def infer(model, **arrays):
    """Send one request; return the answer's arrays by their names."""
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
    "The model adds. What finalize prints is in the server's log. The slides' own program does not "
    "load, see the errata.",
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
# ## Without a config
#
# `auto_complete_config` completes the config. Three copies of this model: `filled` has no config. `bare` has neither a config nor the method. `conflict` has both.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for name in filled bare conflict; do cp -rT python_model $name; done
# rm filled/config.pbtxt bare/config.pbtxt
# sed -i 's/auto_complete_config/another_name/' bare/1/model.py
# sed -i 's/^name: .*//; s/dims: \[ -1 \]/dims: [ 3 ]/' conflict/config.pbtxt

# %%
predict(
    "python.conflict",
    "The config of conflict says dims: [ 3 ]. Its code adds the same inputs with [-1]. What happens?",
    {
        "the code wins: it is asked later": "add_input adds what is missing. An input that is "
        "there already is compared with it.",
        "the file wins: somebody wrote it on purpose": "The file is not overruled, and the code "
        "is not ignored either. Read the server's words.",
        "the model is refused": None,
    },
)

# %% tags=["triton"]
found = {}
for name in ("filled", "bare", "conflict"):
    try:
        client.load_model(name)
        found[name] = client.get_model_config(name, as_json=True)["config"]["input"]
    except InferenceServerException as error:
        found[name] = error.message().splitlines()[0]
    print(name, found[name])

# %%
refused = isinstance(found["conflict"], str) and "dims" in found["conflict"]
seen = "the model is refused" if refused else "the code wins: it is asked later"
completed = Premise(len(found["filled"]) == 2, "the model did not load without a config")
compare("python.conflict", seen, premise=completed)
claim(
    refused and isinstance(found["bare"], str),
    "The method fills an empty config. A file that differs from it is refused. Without the method, "
    "the config is empty, and initialize finds no output in it.",
    "Run the cells of this section again.",
    id="python.auto",
)

# %% [markdown]
# Each load first starts one more Python process, to call this method. The server's option `--disable-auto-complete-config` turns it off.
#
# ## The classifier
#
# `focus_python` serves the network of this whole lecture: is a piece of a photo sharp? Beside model.py lie `weights.pth` and `network.py`, which can be imported, because the version folder is on Python's path.

# %% tags=["triton"]
# %%writefile {models}/focus_python/1/model.py
import network  # network.py, beside this file
import torch
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        version = "{model_repository}/{model_version}".format(**args)
        self.net = network.load(version + "/weights.pth")

    def execute(self, requests):
        x = [torch.from_numpy(pb.get_input_tensor_by_name(r, "image").as_numpy()) for r in requests]
        logits = self.net(torch.cat(x)).split([len(rows) for rows in x])
        return [pb.InferenceResponse([pb.Tensor("logits", y.numpy())]) for y in logits]


# %% tags=["triton"]
client.load_model("focus_python")
parts = np.split(np.load(models / "pictures.npy"), 8)  # 200 pieces of photos
logits = np.concatenate([infer("focus_python", image=part)["logits"] for part in parts])
print(logits[:3])

# %%
from workbook.lessons import formats  # reference(): the logits without a server

apart = float(np.abs(logits - formats.reference()).max())
claim(
    apart < 1e-4,
    f"Computed by the server and in this notebook, the 200 answers differ by {apart:.0e} at most.",
    "Run the cells of this section again.",
    id="python.classifier",
)

# %% [markdown]
# `args["model_repository"]` is the model's folder. `execute` joins the rows of *all* requests, and computes once.
#
# ## One bad request among four
#
# `checked` has three weights, a parameter of its config:
#
# `parameters { key: "weights" value: { string_value: "[0.2, 0.5, 0.3]" } }`
#
# A request sends a place, and gets its weight. A negative place gets an error; one above 2 raises an `IndexError`: a bug. [Its batcher](models/checked/config.pbtxt) waits for four requests.

# %% tags=["triton"]
# %%writefile {models}/checked/1/model.py
import json

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.weights = np.array(json.loads(parameters["weights"]["string_value"]), np.float32)

    def execute(self, requests):
        pb.Logger.log_info(f"{len(requests)} requests in one execution")
        return [self.answer(pb.get_input_tensor_by_name(r, "place").as_numpy()) for r in requests]

    def answer(self, place):
        if (place < 0).any():
            return pb.InferenceResponse(error=pb.TritonError("place is negative"))
        return pb.InferenceResponse([pb.Tensor("weight", self.weights[place])])


# %%
predict(
    "python.errors",
    "Four clients ask at once, for the places 0, 1, 7, 2. Their requests share one execution, and "
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


def error_of(place):
    """Ask for a place's weight; return Triton's error, or an empty text."""
    try:
        infer("checked", place=np.array([[place]], np.int32))
    except InferenceServerException as error:
        return error.message().splitlines()[0]
    return ""


client.load_model("checked")
with ThreadPoolExecutor() as pool:
    raised = list(pool.map(error_of, [0, 1, 7, 2]))
    returned = list(pool.map(error_of, [0, 1, -1, 2]))
print(*[error or "answered" for error in (*raised, "--", *returned)], sep="\n")

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
# ## Ask other models, and count
#
# A Python model may ask other models ([*business logic scripting*, BLS](https://github.com/triton-inference-server/python_backend#business-logic-scripting)). `tally` asks one, and counts in a [metric of its own](https://github.com/triton-inference-server/python_backend#custom-metrics). It has no batcher, so its list has one request.

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
        if answer.has_error():
            return [pb.InferenceResponse(error=answer.error())]
        y = pb.get_output_tensor_by_name(answer, "logits").as_numpy()
        self.sharp.increment(int((y[:, 1] > y[:, 0]).sum()))
        return [pb.InferenceResponse(answer.output_tensors())]


# %% [markdown]
# `exec` waits for the answer. With `async_exec`, `panel` asks two models at once, which sleep 150 ms each. A third program, [`collected`](models/collected/1/model.py), asks `countdown`, which answers several times, and joins its [streamed answers](https://github.com/triton-inference-server/python_backend#using-bls-with-decoupled-models).

# %%
show("models/panel/1/model.py")

# %% tags=["triton"]
import re
import time

import requests


def sharp_so_far():
    text = requests.get(f"http://{os.environ['TRITON_METRICS']}/metrics").text
    return sum(map(float, re.findall(r"(?m)^sharp_total\{.*\} (\S+)$", text)))


for name in ("tally", "panel", "collected"):
    client.load_model(name)
before = sharp_so_far()
tallied = np.concatenate([infer("tally", image=part)["logits"] for part in parts])
grown, began = sharp_so_far() - before, time.perf_counter()
infer("panel", X=np.ones((1, 1), np.float32))
took = time.perf_counter() - began
counts = infer("collected", start=np.array([4], np.int32))["counts"]
print(f"sharp: {grown:.0f}, panel: {took:.2f} s, collected: {counts}")

# %%
sharp = sum(tallied[:, 1] > tallied[:, 0])
claim(
    grown == sharp and counts.tolist() == [4, 3, 2, 1],
    f"The counter has grown by {grown:.0f}, the number of sharp pictures. Asked at once, two models "
    f"of 150 ms each took {1000 * took:.0f} ms. Four streamed answers became one.",
    "Run the cells of this section again.",
    id="python.bls",
)

# %% [markdown]
# ## Whose memory?
#
# A model reads a tensor with `as_numpy`, or with `to_dlpack`: [DLPack](https://github.com/triton-inference-server/python_backend#interoperability-and-gpu-support) hands tensors between frameworks, also on a GPU. Where do the numbers of an input on the CPU lie: in the model's *own* process, or in memory that it *shares* with the server? [`handover`](models/handover/1/model.py) looks it up, and keeps all arrays.

# %% tags=["triton"]
(models / "handover/1/model.py").touch()  # so that it is loaded anew, and has kept nothing
client.load_model("handover")
for number in range(8):
    kept = infer("handover", x=np.full(1_000_000, number, np.float32))
print("memory of as_numpy and to_dlpack:", *[word.decode() for word in kept["memory"]])
print("first numbers of the arrays that it kept:", *kept["kept"][:, 0])

# %%
unchanged = kept["kept"].T.tolist() == [[*range(8)]] * 2
claim(
    kept["memory"].tolist() == [b"own", b"shared"] and unchanged,
    "numpy's array is a copy in the model's own process. DLPack's is the shared memory itself. "
    "Later requests changed neither. But a model that keeps DLPack's arrays takes memory from the "
    "server, which needs it for the next requests.",
    "Run the cell before this one again.",
    id="python.dlpack",
)

# %% [markdown]
# So on the CPU `to_dlpack` saves nothing: before `execute`, the backend has made numpy's copy of the input (`pb_tensor.cc`).
#
# ## The production guide's chat
#
# In [the production guide](../../00__start/00__start.ipynb#The-documents-behind-the-course), [a loop](models/ibuddha_chitchat_bls/1/model.py) on the CPU (`KIND_CPU`) asks a GPT on a GPU for one token after the other. Here [random logits](models/ibuddha_chitchat/1/model.py) take the GPT's place: for the last token, or for all.

# %%
chat, lost = setup.chat(lab)
print(*map(": ".join, chat.items()), sep="\n")

# %%
claim(
    lost == 3,
    "The loop fails in three of four cases. The errata say why.",
    "Run it again.",
    id="python.chat",
)

# %% [markdown]
# A loop that works is [assignment a6](../../../assignments/a6__llm/a6.ipynb)'s.
#
# <details><summary>Errata: the production guide's loop</summary>
#
# It takes `logits[0, :]`: write `[0, -1]`, because a GPT may answer for each place. It computes one row per request, and answers without the batch's dimension. While the first token is special, it draws again: for ever, where only special ones are left. The new id goes into the types, too.
#
# </details>
#
# <details><summary>Errata: the production guide's text</summary>
#
# It says that `to_dlpack` costs less than `as_numpy`. `preferred_memory` brings an answer [to the CPU](https://github.com/triton-inference-server/python_backend#business-logic-scripting). Write `error=` before `TritonError(…)`. `raise` fails the whole execution.
#
# </details>
#
# ## What an instance costs
#
# Instances are processes. Here they are copies of one, and share its imports. On a *plain* server, as in NVIDIA's container, each imports torch for itself.

# %% language="bash" tags=["triton"]
# for count in 4 1; do
#   sed -i "s/count: [0-9]*/count: $count/" $TRITON_MODELS/focus_python/config.pbtxt
#   curl -sX POST $TRITON_HTTP/v2/repository/models/focus_python/load
#   stubs="^[^ ]*/triton_python_backend_stub $TRITON_MODELS/focus_python/"
#   echo "$count instances: processes $(pgrep -f "$stubs" | xargs)"
# done

# %%
costs = setup.costs(models, lab)  # one instance and four, on both servers; half a minute to 3
row = setup.add_row(lab)  # for the lecture's table, which grows with each notebook
print(costs)
formats.table()  # "per s": pictures, with 1 and 8 requests under way, and without a server

# %%
claim(
    costs["processes"].tolist() == [1, 4] and row.changed == 0,
    f"There is one process per instance, and no verdict changed. {row.served}",
    "Run the cells of this section again.",
    id="python.instances",
)

# %% [markdown]
# The second table's memory is measured after 200 answers.
#
# `KIND_GPU` is refused without a GPU. With one, the code moves its network there, by `args["model_instance_kind"]` and `args["model_instance_device_id"]` (verified).
#
# ## Five mistakes

# %%
made = setup.provoke(lab)  # each in a copy of focus_python
claim(len(made.refused) == 5, "The server refuses all five.", "Run it again.", id="python.mistakes")
made

# %% [markdown]
# ## Your turn
#
# The code of `verdict` answers nothing. Below its config, write `initialize`, `execute` and `finalize` in a new cell (`%%writefile {models}/verdict/1/model.py`), and load it: `client.load_model("verdict")`.
#
# The input is two logits. The texts lie in `labels.txt`, beside model.py, and are arrays of `np.object_`. `finalize` logs `verdicts: N`, the number of rows that were answered.

# %%
show("models/verdict/config.pbtxt")

# %%
task("python.verdict", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# A model to begin with, and [its config](at_work/shares/config.pbtxt). It computes all requests in one call.

# %%
show("at_work/shares/1/model.py")

# %% language="bash" tags=["triton"]
# cp -rT at_work/shares $TRITON_MODELS/shares
# curl -sX POST $TRITON_HTTP/v2/repository/models/shares/load
# counts='{"name": "counts", "datatype": "FP32", "shape": [1, 3], "data": [1, 1, 2]}'
# curl -s $TRITON_HTTP/v2/models/shares/infer -d "{\"inputs\": [$counts]}"

# %% [markdown]
# ## What to remember
#
# - `initialize` loads, once per instance and process. `execute` gets a list of requests: join their rows.
# - Return an error response for a bad request. An exception fails its neighbours as well.
# - Ask other models with `exec` or `async_exec`.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A model with one instance asks itself by BLS. What happens?</summary>
#
# It waits for itself, for ever. So does a circle of models ([limitation](https://github.com/triton-inference-server/python_backend#limitation)). If you try it, give the client a time limit (`client.infer(…, client_timeout=5)`), and start the server again.
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
