# ---
# title: A first model
# minutes: 20
# ---

# %% [markdown]
# # A first model
#
# **Question.** You have a function. Many programs want its result, at once, from many machines. What does it take to serve it?

# %% [markdown]
# A server for models has to answer fast, survive a rush, grow, be simple to keep running, and waste neither GPU nor CPU. A function behind a web framework gives you the first of these, perhaps.

# %% [markdown]
# | a server has to | Triton brings |
# |---|---|
# | answer fast | [backends](https://github.com/triton-inference-server/backend) for many frameworks: TensorRT, PyTorch, ONNX Runtime, OpenVINO, Python, FIL … |
# | survive a rush | instances side by side (copies of a model), dynamic batching (requests joined into one call) |
# | grow | the same folder of models in a cloud, a data centre or on a laptop; ensembles (graphs of models) and business logic |
# | be simple to keep running | metrics, traces; Performance Analyzer and Model Analyzer (NVIDIA's tools for load tests and for finding a good config) |
# | waste neither GPU nor CPU | many models in one server, with a GPU or CPU only |

# %% [markdown]
# ![Clients, front ends, core, backends and the model repository](../images/architecture.svg)

# %% [markdown]
# ## A server is running
#
# `make lab` has started one: the real Triton, on this machine. `connect()` finds it.

# %%
import textwrap

from workbook.server import connect

server = connect()
about = server.metadata()
print(about["name"], about["version"])
print(textwrap.fill(", ".join(about["extensions"]), 88))

# %% [markdown]
# Those words are [protocol extensions](https://github.com/triton-inference-server/server/tree/main/docs/protocol). Each adds endpoints, or fields to a request. The notebooks of lecture 1 use most of them.

# %% [markdown]
# ## The repository
#
# Triton serves folders. The layout *is* the interface: no code of yours starts the server.

# %% [markdown]
# ![The layout of a model repository](../images/repository.svg)

# %% [markdown]
# We write a model into a folder of our own: one name, one version, two files.

# %%
from workbook.lessons import Premise, claim, compare, folder, predict, write

models = folder("first_model")
home = models / "cube"
(home / "1").mkdir(parents=True, exist_ok=True)

# %% [markdown]
# The **model** is a class with three methods. `initialize` loads and `finalize` cleans up; both may be left out. `execute` takes a *list* of requests and returns a list of responses, one each. The module `triton_python_backend_utils` exists inside Triton only.

# %%
# %%writefile {home}/1/model.py
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        found = [pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() for r in requests]
        cubes = [pb_utils.Tensor("OUTPUT0", np.power(x, 3)) for x in found]
        return [pb_utils.InferenceResponse(output_tensors=[y]) for y in cubes]


# %% [markdown]
# The **config** says what goes in and out. With `max_batch_size` above 0, `dims` leave out the batch dimension. `instance_group` says how many copies of the model run (*instances*), and where: here one, on the CPU.

# %%
config = """\
backend: "python"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""

# %% [markdown]
# `KIND_GPU` would ask for a GPU. The Python backend then tells your model which one; moving the tensors there is your code's work.

# %% [markdown]
# A config may also name its model. Ours does not; what if it did, and got it wrong?

# %%
predict(
    "first.name",
    'Suppose the config says name: "add_sub", and the folder is called cube. What does Triton do?',
    ["It serves the model as add_sub.", "It serves the model as cube.", "It refuses to load it."],
)

# %% [markdown]
# We try it on a server of our own, so that the shared one is not disturbed. `laboratory` starts one on free ports and loads the folder's models.

# %%
from workbook.common.errors import LoadError
from workbook.lessons import laboratory

write(home / "config.pbtxt", 'name: "add_sub"\n' + config)
try:
    with laboratory(models) as wrong:
        verdict, reason = f"It serves the model as {wrong.index()[0]['name']}.", ""
except LoadError as error:
    verdict, reason = "It refuses to load it.", error.message
    print(reason)

# %%
compare(
    "first.name",
    verdict,
    published="the name must be the folder's (model configuration guide)",
    premise=Premise("add_sub" in reason or not reason, "the server had another reason, see above"),
)
claim(verdict.startswith("It refuses"), "A wrong name is refused.", "Read the server's log.")

# %% [markdown]
# > **Errata.** The older seminar slides write `name: "add_sub"` into the config of a model that squares. The name is optional; where it stands, it must be the folder's. Some guides write `platform: "python"`: it is `backend: "python"`.

# %% [markdown]
# With the first line gone, the model loads. In its metadata, -1 stands for the batch dimension: any size up to 8.

# %%
write(home / "config.pbtxt", config)
lab = laboratory(models)
lab.ready("cube"), lab.metadata("cube")["inputs"]

# %% [markdown]
# ## Way one: curl
#
# The HTTP endpoint speaks [KServe v2](https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol): JSON in, JSON out. Any language can do that.

# %%
body = '{"inputs": [{"name": "INPUT0", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}'
url = f"{lab.url}/v2/models/cube/infer"
# !curl -s {url} -d '{body}'

# %% [markdown]
# ## Way two: HTTP, binary
#
# `tritonclient.http` sends the same request, with the numbers as raw bytes behind the JSON ([binary data extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md)).

# %%
import numpy as np
import tritonclient.http as http

x = np.array([[1, 2, 3, 4]], np.float32)
tensor = http.InferInput("INPUT0", x.shape, "FP32").set_data_from_numpy(x)
with lab.http_client() as client:
    by_http = client.infer("cube", [tensor]).as_numpy("OUTPUT0")
by_http

# %% [markdown]
# ## Way three: gRPC
#
# The same call, other transport: protobuf over HTTP/2, one connection for many requests under way.

# %%
import tritonclient.grpc as grpc

tensor = grpc.InferInput("INPUT0", x.shape, "FP32").set_data_from_numpy(x)
with lab.grpc_client() as client:
    by_grpc = client.infer("cube", [tensor]).as_numpy("OUTPUT0")
claim(
    np.array_equal(by_http, x**3) and np.array_equal(by_grpc, x**3),
    "Both clients get what NumPy computes.",
    "Did you change model.py? Then restart the kernel and run all cells.",
)

# %% [markdown]
# ## What the server counts
#
# The same three requests once more, one each way. A fourth one is malformed: five numbers for four places.

# %%
predict("first.count", "How many executions of the model will the server count for these four?")

# %%
from workbook import measure
from workbook.common.errors import ServerError

bad = body.replace("[1, 4]", "[1, 5]").replace("3, 4]", "3, 4, 5]")
before = measure.statistics(lab, "cube")
lab.request("POST", "/v2/models/cube/infer", content=body)
for api, connected in ((http, lab.http_client), (grpc, lab.grpc_client)):
    with connected() as client:
        tensor = api.InferInput("INPUT0", x.shape, "FP32").set_data_from_numpy(x)
        client.infer("cube", [tensor])
try:
    lab.request("POST", "/v2/models/cube/infer", content=bad)
except ServerError as error:
    print(textwrap.fill(error.what, 88))

# %%
count = measure.difference(before, measure.statistics(lab, "cube"))
answered = count["requests"].item()
three = Premise(answered == 3, f"the server counted {answered} answered requests, not three")
compare("first.count", float(count["executions"].item()), premise=three)
count[["model", "requests", "failures", "inferences", "executions"]]

# %%
claim(
    count["executions"].item() == 3,
    "The core refused the malformed request: the model never saw it.",
    "Run the two cells before this one again.",
    premise=three,
)

# %% [markdown]
# The *core*, in the middle of the picture above, checks names, types and shapes *before* a request joins its model's queue. A model needs no code for that. All three ways end in the same queue.
#
# The refused request is not counted as a failure either: the notebook on [metrics](06__metrics.ipynb) comes back to that.

# %% [markdown]
# ## Into the shared repository
#
# `deploy(home)` or `workbook deploy` would copy the folder into the course's repository and load it there. Keep that for models that others shall use; ours goes away.

# %%
lab.stop()

# %% [markdown]
# ## What to remember
#
# - A model is a folder: a name, numbered versions, a config.
# - `execute` gets a *list* of requests. That list is where batching will come in.
# - JSON over HTTP, binary over HTTP and gRPC lead to one queue; the core checks requests before the model sees them.

# %% [markdown]
# ## Check yourself
#
# <details><summary>The config has <code>max_batch_size: 8</code> and <code>dims: [ 4 ]</code>. Which shapes may a client send?</summary>
#
# From `[1, 4]` to `[8, 4]`. The first dimension is the batch; `dims` leave it out.
#
# </details>
#
# <details><summary>Why does <code>execute</code> return a list?</summary>
#
# One response for each request, in the same order. Triton may hand over several requests at once.
#
# </details>
#
# <details><summary>What must you change to serve the same folder on a GPU machine?</summary>
#
# Nothing: NVIDIA's container reads the same repository. To compute on the GPU, say `KIND_GPU` in the instance group; a Python model must then put its tensors there itself.
#
# </details>

# %% [markdown]
# Next: [inside the server](02__inside_the_server.ipynb).
