# ---
# title: A first model
# minutes: 16
# ---

# %% [markdown]
# # A first model
#
# **Question.** You have a function that recognises handwritten digits. Many programs on many machines call it at the same time. What does it take to serve it?
#
# Homework 1 of the course is assignment a1: a text classifier, deployed in the same form. [The syllabus](../../00__start/00__start.ipynb#The-syllabus) leads to it.

# %% [markdown]
# | a server has to | Triton brings |
# |---|---|
# | answer fast | [backends](https://github.com/triton-inference-server/backend): TensorRT, PyTorch, ONNX Runtime, OpenVINO, Python, FIL … |
# | take many requests at once | instances side by side, dynamic batching |
# | run anywhere | one folder for cloud, data centre, laptop; ensembles |
# | be observed and tuned | metrics; Performance Analyzer (how much load?), Model Analyzer (which config?) |
# | save hardware | many models per server, GPU or CPU |
#
# ![Triton; marked are clients, HTTP, gRPC, the model repository and the Python backend](architecture.svg)

# %%
import json
import textwrap

import setup
from workbook import measure, zoo
from workbook.lessons import Premise, claim, compare, folder, laboratory, place, predict, show, task
from workbook.lessons.shared import digits_model

pictures = zoo.data.digits().x_test
digits_model.show_pictures(pictures[:9])

# %% [markdown]
# ## The model repository
#
# Triton serves folders: one folder per model, with its name; in it a config, and one folder per version.
#
# ![The layout of a model repository](../../images/repository.svg)
#
# We fill a folder of our own, step by step. The next cell trains a small classifier, 64 pixels in, ten scores out, and saves its weights there.

# %%
models = folder("first_model")
home = models / "digits"
digits_model.save_weights(home / "1/weights.npy")

# %% [markdown]
# The **model** is a class. Triton calls `initialize` once when it loads an instance, `execute` for requests, `finalize` before it unloads. Only `execute` is required. It gets a *list* of requests, and returns a list with one response per request.
#
# The module `triton_python_backend_utils` exists inside Triton only.

# %%
place(models, "models/digits")  # copies the folder
show("models/digits/1/model.py")

# %% [markdown]
# The **config** describes the input and output tensors. One request may carry several pictures: with `max_batch_size` above 0, each tensor has one more dimension in front, which `dims` leaves out.
#
# `instance_group` says how many copies run (*instances*), and where: here one, on the CPU. For a Python model, `KIND_GPU` only tells its code which GPU to use.

# %%
place(models, "models/digits")
config = home / "config.pbtxt"
config.write_text(config.read_text().replace("backend:", 'name: "add_sub"\nbackend:'))
show(config)

# %% [markdown]
# We have added the name of another model, as in the seminar of [the architecture slides](../../00__start/00__start.ipynb#The-documents-behind-the-course), where the config was copied. The folder is called `digits`.
#
# Below, `laboratory` starts a server of our own on free ports, and loads the folder's models. The shared server is not touched.

# %%
predict(
    "first_model.name",
    "Which model will clients find?",
    {
        "digits: the folder's name wins": "The folder does give the name. But Triton does not "
        "ignore another name in the config: the config may belong to another model.",
        "add_sub: the config's name wins": "A config cannot rename a model. The name in it is "
        "optional, and is compared with the folder's.",
        "both names, for the same model": "A model has one name: its folder's.",
        "none: Triton refuses to load it": None,
    },
)

# %%
names, message = setup.try_to_serve(models)  # in a laboratory that ends at once
print("models:", names, textwrap.fill(message, 88), sep="\n")

# %%
its_name = Premise("add_sub" in message or bool(names), "the server had another reason, see above")
compare("first_model.name", setup.which(names), premise=its_name)
claim(
    not names,
    "Triton refused the model: the name in its config is not the folder's.",
    "Did you change the config? Then run the cells from the config on again.",
    premise=its_name,
    id="first_model.name",
)

# %% [markdown]
# > **Errata.** The seminar's slides write `name: "add_sub"` into the config of a model that squares numbers. The [guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md#name-platform-and-backend) says: the name is optional; where it stands, it must be the folder's. Some slides write `platform: "python"`: it is `backend: "python"`.
#
# The file beside this notebook has no such line. We copy it again, and the model loads.

# %%
place(models, "models/digits")
lab = laboratory(models)
lab.metadata("digits")["inputs"]

# %% [markdown]
# In the shape, -1 stands for any number of pictures.
#
# ## Three ways to ask
#
# The HTTP endpoint speaks [KServe v2](https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol): JSON in, JSON out. Any language can do that, and so can `curl`.

# %%
image = {"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32"}
body = json.dumps({"inputs": [{**image, "data": pictures[0].ravel().tolist()}]})
url = f"{lab.url}/v2/models/digits/infer"
# !curl -s {url} -d '{body}'

# %% [markdown]
# There are ten scores; the index of the largest is the digit. `tritonclient.http` sends the same request, with the numbers as bytes behind the JSON (the [binary data extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md)). `tritonclient.grpc` sends protobuf over HTTP/2. Here one request carries eight pictures.

# %%
import tritonclient.grpc as grpc
import tritonclient.http as http

http_client, grpc_client = lab.http_client(), lab.grpc_client()


def ask(client, api, rows):
    tensor = api.InferInput("image", rows.shape, "FP32").set_data_from_numpy(rows)
    return client.infer("digits", [tensor]).as_numpy("scores")


ask(http_client, http, pictures[:8]).argmax(1), ask(grpc_client, grpc, pictures[:8]).argmax(1)

# %%
ways = {
    "HTTP, JSON": lambda: lab.request("POST", "/v2/models/digits/infer", content=body),
    "HTTP, binary": lambda: ask(http_client, http, pictures[:1]),
    "gRPC": lambda: ask(grpc_client, grpc, pictures[:1]),
}
before = measure.statistics(lab, "digits")
times = setup.time_each(ways)
counted = measure.counted(lab, "digits", before, times.size)
all_there = counted.requests.item() == times.size
claim(
    all_there,
    f"The server counted all {times.size} requests for one model: the three ways end in one queue.",
    "Run this cell again: another program may have asked this server.",
    id="first_model.ways",
)
setup.plot_ways(times)

# %% [markdown]
# The notebook on [protocols](../09__wire/09__wire.ipynb) measures when the way matters.
#
# ## Nine pictures
#
# `max_batch_size` is 8. A client sends one request with 9 pictures.

# %%
predict(
    "first_model.nine",
    "How many answers does the client get, and how many executions does the server count?",
    {
        "answers: 9, executions: 1": "The model may rely on max_batch_size: Triton never gives it a "
        "larger batch.",
        "answers: 9, executions: 2": "You expected Triton to split the request. It joins requests, "
        "but it never splits one.",
        "answers: 8, executions: 1": "Triton computes a request with all of its rows, or refuses it. "
        "It drops no row.",
        "answers: 0, executions: 0": None,
    },
)

# %%
before = measure.statistics(lab, "digits")
answers, words = setup.try_to_ask(lambda: ask(http_client, http, pictures[:9]))
print(textwrap.fill(words, 88))
after = measure.difference(before, measure.statistics(lab, "digits")).iloc[0]
after[["requests", "failures", "executions"]].to_frame("count")

# %%
outcome = f"answers: {answers}, executions: {after.executions}"
compare("first_model.nine", outcome, premise=Premise(after.requests <= 1, "others asked"))
claim(
    after.executions == 0,
    "The core refused the request of nine rows, and the model did not run.",
    "Is max_batch_size still 8 in the config?",
    id="first_model.refused",
)

# %% [markdown]
# The *core* checks names, types and shapes before a request joins the queue of its model, so a model needs no code for that. The refused request is not even counted as a failure. The notebook on [metrics](../08__metrics/08__metrics.ipynb) shows which requests are.

# %% [markdown]
# ## Your turn
#
# This model reads its weights in each call of `execute`. Open [its file](models/digits/1/model.py) and change the class. `initialize(self, args)` shall read the weights once. `finalize(self)` shall write the line `answered N requests` to the log, where N counts the requests of this instance. Save the file, and run the cell below.

# %%
place(models, "models/digits")
lab.load("digits")
print(*[line[:88] for line in lab.log_text().splitlines() if "model.py" in line][-3:], sep="\n")
task("first_model.initialize", server=lab)

# %%
for closing in (http_client.close, grpc_client.close, lab.stop):  # when the task is done
    closing()

# %% [markdown]
# ## What to remember
#
# - A model is a folder: its name, numbered versions, a config. `workbook deploy FOLDER` puts a finished one into the shared repository.
# - `execute` gets a *list* of requests, each with one or more rows. Triton never splits a request.
# - JSON, binary HTTP and gRPC lead to one queue; the core checks requests before the model sees them.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A model without a batch dimension takes one text. What do you write for <code>max_batch_size</code> and <code>dims</code>?</summary>
#
# <code>max_batch_size: 0</code>, and then <code>dims</code> is the whole shape, <code>[ 1 ]</code> for one text. Triton will not batch it.
#
# </details>
#
# <details><summary><code>execute</code> gets four requests, and one makes no sense. How does it refuse only this one?</summary>
#
# It returns four responses, in the order of the requests. One carries an error (<code>InferenceResponse(error=TritonError(…))</code>); the other three clients get their answers.
#
# </details>
#
# <details><summary>What must you change to serve this folder in NVIDIA's container, on a machine with a GPU?</summary>
#
# Nothing. To compute on the GPU, write <code>KIND_GPU</code>, and let the model's code move its tensors there. We have not run this folder in the container.
#
# </details>
#
# Next: [inside the server](../02__inside_the_server/02__inside_the_server.ipynb).
