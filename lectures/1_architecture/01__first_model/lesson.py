# ---
# title: A first model
# minutes: 26
# ---

# %% [markdown]
# # A first model
#
# **Question.** You have a function that recognises handwritten digits. Many programs on many machines call it at the same time. What does it take to serve it?
#
# This is what a server has to do, and what Triton brings for it:

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
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("first_model")
lab = laboratory(models, only=[])  # a Triton server of this notebook's own, without a model yet
setup.digits(models)  # puts a small classifier into the folder, and draws nine pictures

# %% [markdown]
# ## The model repository
#
# Triton serves folders: one folder per model, with its name; in it a config, and one folder per version.
#
# ![The layout of a model repository](../../images/repository.svg)
#
# The folder above the models is the *model repository*. `TRITON_MODELS` is its path. The weights are those of a classifier that scikit-learn has trained: 64 pixels in, ten scores out.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# find digits -type f

# %% [markdown]
# The **model** is a class. Triton calls `initialize` once when it loads an instance, `execute` for requests, `finalize` before it unloads. Only `execute` is required. It gets a *list* of requests, and returns a list with one response per request.
#
# The module `triton_python_backend_utils` exists inside Triton only.

# %%
show("models/digits/1/model.py")

# %% [markdown]
# The **config** describes the input and output tensors. One request may carry several pictures: with `max_batch_size` above 0, each tensor has one more dimension in front, which `dims` leaves out.
#
# `instance_group` says how many copies run (*instances*), and where: here one, on the CPU. For a Python model, `KIND_GPU` only tells its code which GPU to use.

# %%
show("models/digits/config.pbtxt")

# %% [markdown]
# The server is in the mode *explicit*: it loads a model when it is told to. `TRITON_HTTP` is its address; at work it is often `localhost:8000`. The second command asks what the model looks like to a client.

# %% language="bash" tags=["triton"]
# curl -sX POST $TRITON_HTTP/v2/repository/models/digits/load
# curl -s $TRITON_HTTP/v2/models/digits

# %% [markdown]
# In the shape, -1 stands for any number of pictures.
#
# ## Three ways to ask
#
# The HTTP endpoint speaks [KServe v2](https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol): JSON in, JSON out. Any language can do that, and so can `curl`. The numbers are the pixels of the first picture, the 0: from 0 (white) to 1 (black).

# %% language="bash" tags=["triton"]
# curl -s $TRITON_HTTP/v2/models/digits/infer -d '{"inputs": [
#   {"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [
#     0, 0,   0.3, 0.8, 0.6, 0.1, 0,   0,
#     0, 0,   0.8, 0.9, 0.6, 0.9, 0.3, 0,
#     0, 0.2, 0.9, 0.1, 0,   0.7, 0.5, 0,
#     0, 0.2, 0.8, 0,   0,   0.5, 0.5, 0,
#     0, 0.3, 0.5, 0,   0,   0.6, 0.5, 0,
#     0, 0.2, 0.7, 0,   0.1, 0.8, 0.4, 0,
#     0, 0.1, 0.9, 0.3, 0.6, 0.8, 0,   0,
#     0, 0,   0.4, 0.8, 0.6, 0,   0,   0]}]}'

# %% [markdown]
# There are ten scores; the index of the largest is the digit. A Python program sends the same JSON with `requests`:

# %% tags=["triton"]
import os
import time

import numpy as np
import requests
from sklearn.datasets import load_digits

pictures = (load_digits().images[:, None] / 16).astype(np.float32)
session = requests.Session()
url = f"http://{os.environ['TRITON_HTTP']}/v2/models/digits/infer"


def by_json(rows):
    image = {"name": "image", "shape": rows.shape, "datatype": "FP32"}
    answer = session.post(url, json={"inputs": [{**image, "data": rows.ravel().tolist()}]})
    return np.reshape(answer.json()["outputs"][0]["data"], (-1, 10))


# %% [markdown]
# `tritonclient.http` sends the same request, with the numbers as bytes behind the JSON (the [binary data extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md)). `tritonclient.grpc` sends protobuf over HTTP/2. Both have the same functions. One request may carry eight pictures:

# %% tags=["triton"]
import tritonclient.grpc as grpc
import tritonclient.http as http

http_client = http.InferenceServerClient(os.environ["TRITON_HTTP"])
grpc_client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def by_http(rows):
    image = http.InferInput("image", rows.shape, "FP32").set_data_from_numpy(rows)
    return http_client.infer("digits", [image]).as_numpy("scores")


def by_grpc(rows):
    image = grpc.InferInput("image", rows.shape, "FP32").set_data_from_numpy(rows)
    return grpc_client.infer("digits", [image]).as_numpy("scores")


for way in (by_json, by_http, by_grpc):
    print(f"{way.__name__}: {way(pictures[:8]).argmax(1)}")

# %% [markdown]
# All three get the same answers, also the wrong one: the classifier takes the 5 for a 9. How long does one picture take in each way? Meanwhile the server counts the requests of the model, in its [statistics](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md).


# %% tags=["triton"]
def counts():
    """Requests that were answered, requests that failed, and executions of the model."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = http_client.get_inference_statistics("digits")["model_stats"][0]
    sums = stats["inference_stats"]
    return np.array([sums["success"]["count"], sums["fail"]["count"], stats["execution_count"]])


before, times = counts(), {by_json: [], by_http: [], by_grpc: []}
for _ in range(40):  # in turns, so that other programs disturb all three ways alike
    for ask, took in times.items():
        began = time.perf_counter()
        ask(pictures[:1])
        took.append(1000 * (time.perf_counter() - began))
answered = (counts() - before)[0]

# %%
setup.plot_ways(
    {"HTTP, JSON": times[by_json], "HTTP, binary": times[by_http], "gRPC": times[by_grpc]}
)

# %%
claim(
    answered == sum(map(len, times.values())),
    f"The server counted all {answered} requests for one model, whichever way they came.",
    "Run the cell with the times again: another program may have asked this server.",
    id="first_model.ways",
)

# %% [markdown]
# The ways differ in time, not in the answer. The notebook on [protocols](../09__wire/09__wire.ipynb) measures what makes the difference, and when it matters.
#
# ## A copied config
#
# Configs are often copied, with a name in them. Here a copy of `digits` lies in the folder `copied`, and its config names the model `add_sub`.

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/digits $TRITON_MODELS/copied
# sed -i '2i name: "add_sub"' $TRITON_MODELS/copied/config.pbtxt
# cat $TRITON_MODELS/copied/config.pbtxt

# %%
predict(
    "first_model.name",
    "Which model will clients find?",
    {
        "copied: the folder's name wins": "The folder does give the name. But Triton does not "
        "ignore another name in the config: the config may belong to another model.",
        "add_sub: the config's name wins": "A config cannot rename a model. The name in it is "
        "optional, and is compared with the folder's.",
        "both names, for the same model": "A model has one name: its folder's.",
        "none: Triton refuses to load it": None,
    },
)

# %% tags=["triton"]
# !curl -sX POST $TRITON_HTTP/v2/repository/models/copied/load
index = http_client.get_model_repository_index()
index

# %% [markdown]
# The answer is short. The *index* lists the models of the repository; one that was never loaded has no state there. Details are in the server's log; in NVIDIA's container, `docker logs` shows it.

# %%
reason = setup.last_line(lab.log_text(), "copied")
print(reason)

# %%
names = tuple(m["name"] for m in index if m.get("state") == "READY" and m["name"] != "digits")
options = {
    ("copied",): "copied: the folder's name wins",
    ("add_sub",): "add_sub: the config's name wins",
    (): "none: Triton refuses to load it",
}
of_name = Premise("add_sub" in reason or bool(names), "the server had another reason, see above")
compare("first_model.name", options.get(names, "both names, for the same model"), premise=of_name)
claim(
    not names,
    "Triton refused the model: the name in its config is not the folder's.",
    "Did you change the config? Then run the cells of this section again.",
    premise=of_name,
    id="first_model.name",
)

# %% [markdown]
# So leave the name out: a config without it can be copied, and the folder names the model ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md#name-platform-and-backend)).
#
# <details><summary>Errata: the architecture slides</summary>
#
# The seminar of [these slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) writes `name: "add_sub"` into the config of a model that squares numbers. The guide says: the name is optional; where it stands, it must be the folder's. Some slides write `platform: "python"`: it is `backend: "python"`.
#
# </details>

# %% [markdown]
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

# %% tags=["triton"]
from tritonclient.utils import InferenceServerException

earlier, answers = counts(), []
try:
    answers = by_http(pictures[:9]).argmax(1)
except InferenceServerException as error:
    print(error)
served, failed, executions = counts() - earlier
print(f"The server counted: {served} answered, {failed} failed, {executions} executions.")

# %%
outcome = f"answers: {len(answers)}, executions: {executions}"
compare("first_model.nine", outcome, premise=Premise(served <= 1, "others asked"))
claim(
    executions == 0,
    "The core refused the request of nine rows, and the model did not run.",
    "Is max_batch_size still 8 in the config?",
    id="first_model.refused",
)

# %% [markdown]
# The *core* checks names, types and shapes before a request joins the queue of its model, so a model needs no code for that. The refused request is not even counted as a failure. The notebook on [metrics](../08__metrics/08__metrics.ipynb) shows which requests count as failures.

# %% [markdown]
# ## Your turn
#
# This model reads its weights in each call of `execute`. Open [its file](models/digits/1/model.py) and change the class. `initialize(self, args)` shall read the weights once. `finalize(self)` shall write the line `answered N requests` to the log, where N counts the requests of this instance. Save the file, and run the cell below.

# %%
place(models, "models/digits")  # copies your file into the repository
lab.load("digits")
print(*[line[:88] for line in lab.log_text().splitlines() if "model.py" in line][-3:], sep="\n")
task("first_model.initialize", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# A new model is deployed. Does it answer? This program asks the server for the model's inputs, and sends zeros. If the model refuses or is not loaded, it ends with an error, which can stop a deployment.

# %%
show("at_work/smoke.py")

# %% tags=["triton"]
# %run at_work/smoke.py digits

# %% [markdown]
# ## What to remember
#
# - A model is a folder: its name, numbered versions, a config. In this course, `workbook deploy FOLDER` puts it into the shared repository.
# - `execute` gets a *list* of requests, each with one or more rows. Triton never splits a request.
# - JSON, binary HTTP and gRPC lead to one queue; the core checks requests before the model sees them.

# %% [markdown]
# Homework 1, assignment a1, serves a text classifier in the same form: [the syllabus](../../00__start/00__start.ipynb#The-syllabus) leads to it.

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
