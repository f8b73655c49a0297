# ---
# title: Inside the server
# minutes: 17
# ---

# %% [markdown]
# # Inside the server
#
# **Question.** Many models share one machine. Who gets the cores, the memory, the GPU and the disk, and which part of Triton decides?
#
# You will start a server of your own, look at its processes, and let two models compete.
#
# ![Triton; marked are server, response cache, repository agents, rate limiter, instances and hardware](architecture.svg)

# %%
import numpy as np
import pandas as pd

import setup
from workbook import measure, zoo
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons import attempt, claim, compare, folder, laboratory, place, predict, show, task
from workbook.lessons.premises import counted, steady
from workbook.lessons.shared import digits_model
from workbook.server import deploy

setup.this_machine()

# %% [markdown]
# ## Four things that run out
#
# | resource | what a model needs it for | who shares it out |
# |---|---|---|
# | CPU | its threads | the operating system |
# | RAM | weights, tensors of requests | nobody: backends take what they need |
# | GPU | computation, weights | the GPU's own scheduler; the rate limiter, if it is on |
# | disk | weights and config, when it loads | the repository manager; the backend reads |

# %% [markdown]
# ## One server, how many processes?
#
# `digits` is the model of the last notebook: a Python model. We load it with 1, 2 and 4 instances.

# %%
predict(
    "inside.processes",
    "The model has 4 instances. How many operating-system processes run its code?",
    {
        "still 1, with 4 threads": "That is how C++ backends work. Python code in one process would "
        "wait for its interpreter lock: one thread at a time.",
        "4, one per instance": None,
        "as many as the machine has cores": "Triton does not count cores. It starts as many "
        "instances as the config says.",
    },
)

# %%
models = folder("inside_the_server")
setup.add(models, "digits")
lab = laboratory(models)
grown = attempt(lambda: setup.grow(lab, "digits", (1, 2, 4)), setup.settled)
grown.round(1)

# %%
own = grown.processes[2] == 4
seen = "4, one per instance" if own else "still 1, with 4 threads"
compare("inside.processes", seen, premise=setup.settled(grown))
claim(
    own,
    "Each Python instance is a process of its own: none waits for another one's interpreter lock.",
    "Run the cell above again: an old process may have been about to end.",
    premise=setup.settled(grown),
    id="inside.processes",
)
print(*setup.log_lines(lab.log_text(), "ModelInstanceInitialize")[-4:], sep="\n")
measure.processes(lab).round(1)

# %% [markdown]
# The first row is Triton. A *stub* is the Python process of one instance. Here, stubs are copies of a *fork server*; `memory_mb` leaves out what they share.
#
# The *core* makes instances: for each it calls the backend ([source](https://github.com/triton-inference-server/core/blob/main/src/backend_model_instance.cc)), as the log says. The Python backend starts a process. In a C++ backend, threads of the server run the instances.

# %% [markdown]
# ## Two models, one core
#
# `careful` averages over thousands of noisy copies of a picture. It keeps a core busy for some milliseconds. `neighbour` does the same. On every machine, these two share one core. One client asks `careful`, request after request. Then a second client does the same with `neighbour`.

# %%
predict(
    "inside.neighbour",
    "What becomes longer for the requests to careful?",
    {
        "their time in the queue": "You expected one queue for both models. Each model has its own "
        "scheduler and its own queue, and no other request waited in this one.",
        "their computation": None,
        "nothing: each model has its own instance": "An instance is a process. It is not a core, "
        "and the two processes take turns on this one.",
    },
)

# %%
setup.add(models, "careful")
setup.add(models, "neighbour", source="careful")
lab.load("careful")
lab.load("neighbour")
picture = zoo.data.digits().x_test[:1]


def ours():
    before = measure.statistics(lab, "careful")
    for _ in range(25):
        digits_model.scores(lab, "careful", picture)
    return measure.difference(before, measure.statistics(lab, "careful")).iloc[0]


# %%
def compete():
    alone = ours()
    with setup.busy(lab, "neighbour", picture):
        beside = ours()
    runs = {"alone": alone, "beside neighbour": beside, "alone again": ours()}
    return pd.DataFrame(runs).loc[["queue_ms", "compute_infer_ms"]].astype(float).T


def undisturbed(runs):
    return steady(runs["compute_infer_ms"][["alone", "alone again"]], 1.25)


runs = attempt(compete, undisturbed)
measure.plot_bars(runs, title="One request to careful", below="ms per request")

# %%
queue, infer = runs.loc["beside neighbour"] - runs.loc["alone"]
longer = "their computation" if infer > queue else "their time in the queue"
compare("inside.neighbour", longer, premise=undisturbed(runs))
claim(
    infer > 3 * queue,
    f"Beside its neighbour, a request computed {infer:.0f} ms longer; its time in the queue "
    f"changed by {queue:.1f} ms.",
    "Close other programs, and run the cell before this one again.",
    premise=undisturbed(runs),
    id="inside.neighbour",
)

# %% [markdown]
# The *rate limiter* can hold executions back until a resource that you name is free ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/rate_limiter.md)). By default it lets every instance run.
#
# A GPU is shared likewise, with one difference: two *processes* take turns on it, while two streams of *one* process may overlap ([NVIDIA's MPS guide](https://docs.nvidia.com/deploy/mps/architecture.html)). We have not measured that here.

# %% [markdown]
# ## The core, part by part
#
# ### Server: requests, statistics, logs
#
# The server passes each request to its model's scheduler. It also keeps two pools of memory for tensors that go to a GPU: *pinned* memory in RAM (256 MB, `--pinned-memory-pool-byte-size`) and memory on each GPU (`--cuda-memory-pool-byte-size`). The log and the metrics show them.

# %%
begin = lab.log_size()
lab.request("POST", "/v2/logging", json={"log_verbose_level": 1})
digits_model.scores(lab, "digits", picture)
lab.request("POST", "/v2/logging", json={"log_verbose_level": 0})
states = setup.log_lines(lab.log_text(begin), "state from")
pools = setup.log_lines(lab.log_text(), "memory pool")
pools += [line for line in lab.metrics().splitlines() if line.startswith("nv_pinned")]
print(*states, "", *pools, sep="\n")
claim(
    len(states) > 2,
    "The server leads a request through states, and writes them into its log when told to.",
    "Run this cell again; another request may have come between.",
    id="inside.states",
)

# %% [markdown]
# Without a GPU there are no pools. The metric still names the size that was asked for.
#
# ### RepoAgent
#
# An agent is a plug-in that checks, decrypts or converts a model's files before it loads, such as NVIDIA's [checksum agent](https://github.com/triton-inference-server/checksum_repository_agent). This server has none; it refuses a model that wants one.

# %%
agent = {"name": "checksum", "parameters": {"MD5:1/model.py": "0" * 32}}
wants = {**lab.config("digits"), "model_repository_agents": {"agents": [agent]}}
try:
    lab.load("digits", config=wants)
    words = "loaded"
except WorkbookError as error:
    words = error.message.splitlines()[-1]
print(words)
claim(
    "repoagent" in words,
    "The agent is not there, so the model was not loaded with this config.",
    "Read the server's words above: does this Triton have the checksum agent?",
    id="inside.agent",
)

# %% [markdown]
# > **Errata.** On [the architecture slides](../../00__start/00__start.ipynb#The-documents-behind-the-course), the RepoAgent reads cloud storage and loads data into RAM. The core's [file system layer](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md#model-repository-locations) reads S3, GCS and Azure; the backend loads weights. An agent [acts](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/repository_agents.md) before that.
#
# ### Cache
#
# With `response_cache { enable: true }` in its config, a model's answers are kept: in the server's memory (`--cache-config local,size=…`), or in Redis.

# %%
predict(
    "inside.cache",
    "The same picture is sent three times: over HTTP in JSON, over HTTP in binary, over gRPC. "
    "How many times does the model run?",
    {
        "once": None,
        "twice: once for HTTP, once for gRPC": "The cache sits in the core, behind the front ends. "
        "There, all requests have the same form.",
        "three times": "The key is made of the model, its version and the input tensors. The bytes "
        "that crossed the network are not part of it.",
    },
)

# %%
deploy(paths.root() / "model_repository" / "digits_cached", server=lab)
new = np.random.default_rng().random((1, 1, 8, 8), dtype=np.float32)
before = measure.statistics(lab, "digits_cached")
setup.send_three_ways(lab, "digits_cached", new)
cached = measure.counted(lab, "digits_cached", before, 3).iloc[0]
cached[["requests", "executions", "cache_hits", "cache_misses"]].to_frame("count")

# %%
ran = {1: "once", 2: "twice: once for HTTP, once for gRPC"}.get(cached.executions, "three times")
compare("inside.cache", ran, premise=counted(cached, 3))
claim(
    cached.cache_hits == 2,
    "The model ran once; the second and the third way got the kept answer.",
    "Run the cell before this one again: it takes a new picture.",
    premise=counted(cached, 3),
    id="inside.cache",
)

# %% [markdown]
# ## Models that ask models
#
# A Python model can ask other models of the server, load them and unload them: *business logic scripting* (BLS). This one asks `digits`; only if no score is above 5, it asks `careful`.
#
# > **Errata.** The slides give ensembles to the Python backend. Their scheduler is [part of the core](https://github.com/triton-inference-server/core/tree/main/src/ensemble_scheduler); BLS is the Python backend's.

# %%
place(models, "models/cascade")
show("models/cascade/1/model.py")

# %%
lab.load("cascade")
before = measure.statistics(lab, "careful")
test = zoo.data.digits().x_test[:30, None]
unsure = sum(digits_model.scores(lab, "digits", x).max() <= 5 for x in test)
for x in test:
    digits_model.scores(lab, "cascade", x)
calls = measure.counted(lab, "careful", before, unsure).requests.item()
print(f"{len(test)} pictures; digits was unsure of {unsure}, and careful was asked {calls} times.")
claim(
    0 < calls == unsure,
    f"A model asked two others: careful was asked for {calls} of {len(test)} pictures only.",
    "Run this cell again: is somebody else asking careful?",
    id="inside.bls",
)

# %% [markdown]
# ## Your turn
#
# `careful` computes for milliseconds, also for a picture that it has seen before. Its noise is always the same, so its answers may be kept. Let the server answer a repeated picture without a run of `careful`. Write its config in a new cell with `%%writefile {models}/careful/config.pbtxt`, and load it again: `lab.load("careful")`.

# %%
show(models / "careful/config.pbtxt")
task("inside_the_server.cached", server=lab)

# %% [markdown]
# ## What to remember
#
# - One tritonserver process serves all models; each Python instance adds a process of its own.
# - An instance needs memory from the start, and a core only while it computes. Models have separate queues and shared cores: another model's load lengthens your computation time.
# - The core schedules, caches, counts and makes instances. Backends compute.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Since yesterday, the computation time of your model has doubled. Its requests have not changed. Where do you look?</summary>
#
# At the other models of this machine: their requests, their instances, their threads. A framework may start several threads in each instance.
#
# </details>
#
# <details><summary>A model samples its answers at random. What does the response cache do to it?</summary>
#
# The first answer is kept, and each repeated question gets the same one. Leave the cache off for this model.
#
# </details>
#
# <details><summary>Four instances of a small PyTorch model share a GPU: as Python models, or in the PyTorch backend. What differs?</summary>
#
# As Python models, four processes take turns on the GPU, and each has a CUDA context that costs memory. In the PyTorch backend they are threads of one process, with one stream each: their work may overlap.
#
# </details>
#
# Next: [schedulers](../03__schedulers/03__schedulers.ipynb).

# %%
lab.stop()  # when the task is done
