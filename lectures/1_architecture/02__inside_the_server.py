# ---
# title: Inside the server
# minutes: 20
# ---

# %% [markdown]
# # Inside the server
#
# **Question.** Many models share one machine. Who gets the cores, the memory, the GPU and the disk, and which part of Triton decides?
#
# You will start a server of your own, look at its processes, and watch them compete.

# %%
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from tritonclient.http import InferInput

from workbook import measure
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons import (
    Premise,
    attempt,
    claim,
    compare,
    folder,
    laboratory,
    predict,
    write,
)
from workbook.server import all_models, deploy, ensure

course = ensure("language")  # the course's server, and a model that we shall look at

models = folder("inside_the_server")

# %% [markdown]
# ## Four things that run out
#
# | resource | what a model wants of it |
# |---|---|
# | CPU | cores; a *thread* is a piece of work that the operating system puts on a core |
# | RAM | weights, and the tensors of requests under way |
# | GPU | its own cores, its own memory |
# | disk | weights and configs, read when a model loads |

# %%
ram, disk = psutil.virtual_memory(), psutil.disk_usage(".")
pd.Series(
    {
        "cores": len(os.sched_getaffinity(0)),
        "RAM, GB": round(ram.total / 1e9, 1),
        "RAM free, GB": round(ram.available / 1e9, 1),
        "disk free, GB": round(disk.free / 1e9),
        "NVIDIA GPU": "yes" if os.path.exists("/dev/nvidia0") else "no",
    },
    name="this machine",
).to_frame()

# %% [markdown]
# ## One server, how many processes?
#
# A backend may be a library inside the server, or start processes of its own. On a laptop all our backends are of the second kind.

# %%
predict(
    "inside.processes",
    "A model with 1 instance is loaded. Its instance group grows to 4. How many processes serve it?",
    ["still 1, with 4 threads", "4, one per instance", "as many as the machine has cores"],
)

# %%
server = laboratory(models, only=[])
deploy(paths.root() / "model_repository" / "square", server=server)
measure.processes(server).round(1)

# %% [markdown]
# The first row is Triton: C++ with many threads. The *stub* is the Python process of the model's one instance. `memory_mb` is what a process shares with no other.
#
# The *fork server* is this course's own. It imports numpy once; stubs start as its copies. In NVIDIA's container each stub imports it for itself.


# %%
def with_instances(count):
    config = (models / "square/config.pbtxt").read_text()
    group = f"instance_group {{ count: {count} kind: KIND_CPU }}"
    kept = [line for line in config.splitlines() if not line.startswith("instance_group")]
    (models / "square/config.pbtxt").write_text("\n".join([*kept, group]))
    server.load("square")
    stubs = measure.processes(server).query("process == 'stub' and model == 'square'")
    return {"instances": count, "processes": len(stubs), "memory_mb": stubs.memory_mb.sum()}


# %% [markdown]
# An old process may take a moment to end. `attempt` runs an experiment again, three times at most, when its premise does not hold.


# %%
def settled(grown):
    seen = list(grown.processes)
    return Premise(seen in ([1, 1, 1], [1, 2, 4]), f"{seen} processes: an old one had not ended")


grown = attempt(lambda: pd.DataFrame([with_instances(n) for n in (1, 2, 4)]), settled)
grown.round(1)

# %%
each = (grown.memory_mb[2] - grown.memory_mb[0]) / 3
right = "4, one per instance" if grown.processes[2] == 4 else "still 1, with 4 threads"
compare(
    "inside.processes",
    right,
    published="a process for each instance (Python backend's guide)",
    premise=settled(grown),
)
plain = laboratory(models, only=[], plain=True)
deploy(paths.root() / "model_repository" / "square", server=plain)
by_itself = measure.processes(plain).query("process == 'stub'").memory_mb.sum()
plain.stop()
print(f"One more instance costs {each:.0f} MB here, as a copy of the fork server.")
print(f"A stub that imports Python and numpy for itself, as in the container: {by_itself:.0f} MB.")
claim(
    list(grown.processes) == [1, 2, 4],
    "Each Python instance is a process of its own: none waits for another one's interpreter lock.",
    "Run the cell before this one again: an old process may have been about to end.",
    premise=settled(grown),
)

# %% [markdown]
# The Python backend works like this, and so do our stand-ins. C++ backends stay inside the server: there, each instance works on a thread of that one process. One stand-in does both: where this machine has a C++ compiler, a process of its own checks an ONNX model, and the server then runs it.

# %% [markdown]
# ## When instances outnumber the cores
#
# More instances let more requests run at once. They bring no more cores. This model works for a fixed number of steps and says how long that took, and how much CPU time it got. To make it the same on every machine, its eight instances share two cores.

# %%
write(
    models / "worker/config.pbtxt",
    """
backend: "python"
max_batch_size: 0
input { name: "steps" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "wall_cpu" data_type: TYPE_FP64 dims: [ 2 ] }
instance_group { count: 8 kind: KIND_CPU }
""",
)
(models / "worker/1").mkdir(exist_ok=True)

# %%
# %%writefile {models}/worker/1/model.py
import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

    def execute(self, requests):
        return [self.work(request) for request in requests]

    def work(self, request):
        steps = int(pb_utils.get_input_tensor_by_name(request, "steps").as_numpy()[0])
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            pass
        spent = [time.perf_counter() - wall, time.process_time() - cpu]
        return pb_utils.InferenceResponse([pb_utils.Tensor("wall_cpu", np.array(spent))])


# %%
predict(
    "inside.crowd",
    "One request alone, then 8 at once: 8 instances, 2 cores. "
    "How many times longer does a request's own work take?",
    unit="×",
)


# %%
def ask(_):
    body = {"name": "steps", "shape": [1], "datatype": "INT32", "data": [3_000_000]}
    answer = server.request("POST", "/v2/models/worker/infer", json={"inputs": [body]})
    return answer["outputs"][0]["data"]


def alone_and_together():
    alone = pd.DataFrame(map(ask, range(12)), columns=["wall", "cpu"])
    with ThreadPoolExecutor(8) as pool:
        together = pd.DataFrame(pool.map(ask, range(24)), columns=["wall", "cpu"])
    return alone.loc[alone.wall.idxmin()], together.median()


# %%
def undisturbed(times):
    part = times[0].cpu / times[0].wall
    return Premise(part > 0.7, f"one request alone had a core for only {part:.0%} of its time")


server.load("worker")
alone, together = attempt(alone_and_together, undisturbed)

# %%
seconds = pd.DataFrame({"alone": alone, "8 at once": together})
seconds.loc["waited for a core"] = seconds.loc["wall"] - seconds.loc["cpu"]
parts = seconds.loc[["cpu", "waited for a core"]].T
measure.plot_bars(
    parts, title="One request's own work", below="seconds: the best of 12 alone, the median of 24"
)

# %%
slower = together.wall / alone.wall
compare("inside.crowd", slower, unit="×", premise=undisturbed((alone, together)))
claim(
    slower > 1.5,
    "Eight instances on two cores take turns: an instance is a place to work, not a core.",
    "Something else keeps the cores busy even for one request: close it and run the cells again.",
    premise=undisturbed((alone, together)),
)

# %% [markdown]
# Eight workers share two cores: 8 / 2 = 4, about four times as long. A higher number means that other programs, or the server itself, wanted those cores too, or that the two are halves of one physical core.

# %% [markdown]
# A framework may start threads of its own in each instance. Instances times threads should not exceed the cores.

# %% [markdown]
# GPUs are shared in the same way: by default every instance of every model may run at once, and the GPU's own scheduler takes turns. Triton's [rate limiter](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/rate_limiter.md) holds executions back when a resource is taken.

# %% [markdown]
# ## The core, part by part
#
# ![Triton's core between front ends and backends](../images/architecture.svg)
#
# The source of the core has a folder or a class for each part: [triton-inference-server/core](https://github.com/triton-inference-server/core). You will meet three parts of the core: repository agents, cache and server. And you will meet what it talks to: backends, above all the Python one.

# %% [markdown]
# ### Backend: instances, memory, requests
#
# A backend gets requests through the [Backend C API](https://github.com/triton-inference-server/core/blob/main/include/triton/core/tritonbackend.h), makes a model's instances, and owns the memory they need. Between a stub and the server, tensors lie in shared memory: one region per instance.


# %%
def region_mb():
    maps = psutil.Process(server.pid).memory_maps()
    regions = [Path(m.path) for m in maps if m.path.startswith("/dev/shm")]
    return max(region.stat().st_size for region in regions if region.exists()) / 1e6


server.unload("square")
server.load("square")  # with a fresh region
small = region_mb()
with server.http_client() as client:
    row = InferInput("INPUT", [1, 1_000_000], "FP32")
    row.set_data_from_numpy(np.ones((1, 1_000_000), "float32"))
    client.infer("square", [row])
print(f"largest region before: {small:.0f} MB; after 4 MB in and 4 MB out: {region_mb():.0f} MB")

# %%
claim(
    small < 4 < region_mb(),
    "A region starts small and grows with the tensors.",
    "Run the cell before this one again.",
)

# %% [markdown]
# A region starts at 1 MB ([shm-default-byte-size](https://github.com/triton-inference-server/python_backend#shared-memory)). In a container `/dev/shm` itself is small, 64 MB by default: so start it with `--shm-size`.

# %% [markdown]
# ### RepoAgent: something to do when a model loads
#
# An agent is a plug-in that checks, decrypts or converts a model before it loads. NVIDIA's example checks the files' [checksums](https://github.com/triton-inference-server/checksum_repository_agent). What does Triton do when the agent is not installed?

# %%
config = server.config("square")
agent = {"name": "checksum", "parameters": {"MD5:1/model.py": "0" * 32}}
try:
    server.load("square", config={**config, "model_repository_agents": {"agents": [agent]}})
    words = "loaded"
except WorkbookError as error:
    words = error.message.splitlines()[-1]
claim(
    "repoagent" in words.lower().replace(" ", "").replace("_", ""),
    f"No agent, no model. The server says: {words}",
    "Look at the server's own words above: does this Triton have the checksum agent?",
)

# %% [markdown]
# > **Errata.** The lecture's slides let the RepoAgent read cloud storage and load data into RAM. Cloud storage (S3, GCS, Azure) is read by the core's [file system layer](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md#model-repository-locations); the backend loads weights. An agent [acts](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/repository_agents.md) before and after that.

# %% [markdown]
# ### Cache: the same question twice
#
# With `response_cache { enable: true }` in a model's config, the server keeps the model's answers. The local cache lies in the server's memory (`--cache-config local,size=…`; our servers have one); another one talks to Redis.

# %%
predict(
    "inside.cache",
    "The same 5 images are sent 20 times each: 100 requests. How many times does the model run?",
)

# %%
deploy(paths.root() / "model_repository" / "digits_cached", server=server)
images = np.random.default_rng().random((5, 1, 1, 8, 8), dtype=np.float32)  # new in each run
before = measure.statistics(server, "digits_cached")
with server.http_client() as client:
    for pixels in list(images) * 20:
        image = InferInput("image", pixels.shape, "FP32")
        image.set_data_from_numpy(pixels)
        client.infer("digits_cached", [image])
counted = measure.difference(before, measure.statistics(server, "digits_cached")).iloc[0]
counted[["requests", "executions", "cache_hits", "cache_misses"]].to_frame("count")

# %%
complete = Premise(
    counted.requests == 20 * len(images),
    f"{20 * len(images)} requests were sent, and the server counted {counted.requests}",
)
compare("inside.cache", float(counted.executions), premise=complete)
claim(
    counted.executions == counted.cache_misses == len(images)
    and counted.cache_hits == 19 * len(images),
    "Every request counts, but the model ran once for each different input.",
    "Run the cell before this one again.",
    premise=complete,
)

# %% [markdown]
# ### Server: requests, models, metrics, logs
#
# The server passes each request to its model's scheduler, keeps statistics, and writes the log. Even logging is an API: change the level of a running server, and back. The first line may name one state twice; pass over it.

# %%
server.request("POST", "/v2/logging", json={"log_verbose_level": 1})
begin = server.log_size()
ask(0)
server.request("POST", "/v2/logging", json={"log_verbose_level": 0})
lines = server.log_text(begin).splitlines()
steps = [line for line in lines if "state from" in line]
print(f"{len(lines)} lines for one request; its states:", *steps[:8], sep="\n")

# %%
claim(
    len(steps) >= 3,
    "A request moves through states: initialized, pending, executing, released.",
    "Run the cell before this one again; another request may have come between.",
)

# %% [markdown]
# ### Python: models that speak with their neighbours
#
# The Python backend writes preprocessing as a model, forms the steps of an ensemble (a directed graph of models), and can ask the server about other models: load, unload, infer.

# %%
graph = course.config("language")["ensemble_scheduling"]["step"]
reads, writes = ([list(s[f"{way}_map"].values()) for s in graph] for way in ("input", "output"))
pd.DataFrame({"step": [s["model_name"] for s in graph], "reads": reads, "writes": writes})

# %%
write(
    models / "keeper/config.pbtxt",
    """
backend: "python"
max_batch_size: 0
input { name: "model" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "did" data_type: TYPE_STRING dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
""",
)
(models / "keeper/1").mkdir(exist_ok=True)

# %%
# %%writefile {models}/keeper/1/model.py
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.toggle(request) for request in requests]

    def toggle(self, request):
        name = pb_utils.get_input_tensor_by_name(request, "model").as_numpy()[0].decode()
        ready = pb_utils.is_model_ready(name)
        (pb_utils.unload_model if ready else pb_utils.load_model)(name)
        did = f"{'unloaded' if ready else 'loaded'} {name}".encode()
        return pb_utils.InferenceResponse([pb_utils.Tensor("did", np.array([did], object))])


# %%
server.load("keeper")
body = {"name": "model", "shape": [1], "datatype": "BYTES", "data": ["digits_cached"]}
for _ in range(2):
    answer = server.request("POST", "/v2/models/keeper/infer", json={"inputs": [body]})
    print(answer["outputs"][0]["data"][0])
claim(
    server.ready("digits_cached"),
    "A model unloaded another one and loaded it again, from inside the server.",
    "Look at the server's log: print(server.log_text()[-2000:]).",
)

# %% [markdown]
# ## The frameworks behind it
#
# The core knows no framework. It finds a backend by its name. Here are those that serve the shared repository, asked of the running server.

# %%
ready = [m for m in all_models.status(course) if m.state == "READY"]
rows = [{"backend": m.backend, "stand-in": m.stand_in, "models": m.name} for m in ready]
pd.set_option("display.max_colwidth", None)
pd.DataFrame(rows).groupby(["backend", "stand-in"]).models.agg(", ".join).to_frame()

# %% [markdown]
# In NVIDIA's container onnxruntime, pytorch, openvino, tensorflow, fil and dali are C++ libraries, and tensorrt and tensorrtllm join them. A *stand-in* follows the same rules in Python. Lecture 2 will visit each of them.

# %%
server.stop()

# %% [markdown]
# ## What to remember
#
# - One tritonserver process serves all models; each Python instance adds a process of its own.
# - An instance costs memory at once, and a core only while it works. More instances than cores wait.
# - The core has parts with plain tasks, such as server, cache and repository agents. Backends do the computing.
#
# | resource | who decides |
# |---|---|
# | cores | the operating system shares them |
# | memory | each backend takes what its instances need |
# | GPU | its own scheduler; the rate limiter, if it is on, holds executions back |
# | disk | the [repository manager](05__model_repository_manager.ipynb) says when a model loads; the backend then reads its weights |

# %% [markdown]
# ## Check yourself
#
# <details><summary>A model has 16 instances on a machine with 4 cores, and throughput is poor. What do you try first?</summary>
#
# Fewer instances: about as many as cores, if each computes with one thread.
#
# </details>
#
# <details><summary>A request is answered from the cache. Where does it <em>not</em> appear?</summary>
#
# In the executions: the model did not run. It does count as a request.
#
# </details>
#
# <details><summary>Who loads the weights: the core, the RepoAgent or the backend?</summary>
#
# The backend. The core finds the files; an agent may change or refuse them before.
#
# </details>

# %% [markdown]
# Next: [schedulers](03__schedulers.ipynb).
