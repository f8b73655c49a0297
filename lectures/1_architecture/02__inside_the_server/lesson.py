# ---
# title: Inside the server
# minutes: 28
# ---

# %% [markdown]
# # Inside the server
#
# **Question.** Many models share one machine. Who gets the cores, the memory, the GPU and the disk, and which part of Triton decides?
#
# You will look at a server's processes, and let two models compete.
#
# ![Triton; marked are server, response cache, repository agents, rate limiter, instances and hardware](architecture.svg)

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("inside_the_server")
setup.digits(models)  # trains small classifiers of digits, and puts their models into the folder
lab = laboratory(models, only=["digits"])  # this notebook's own Triton; it loads digits

# %% [markdown]
# ## Four things that run out
#
# | resource | what a model needs it for | who shares it out |
# |---|---|---|
# | CPU | its threads | the operating system |
# | RAM | weights, tensors of requests | nobody: backends take what they need |
# | GPU | computation, weights | the GPU's own scheduler; the rate limiter, if it is on |
# | disk | weights and config, when it loads | the repository manager; the backend reads |

# %% language="bash" tags=["triton"]
# echo "$(nproc) cores"
# free -h | cut -c 1-48
# df -h --output=size,avail .
# nvidia-smi -L 2> /dev/null || echo "no NVIDIA GPU"

# %% [markdown]
# ## One server, how many processes?
#
# `digits` is the model of the last notebook: a Python model. `instance_group` in its config says how many instances it has. We load it with 1, 2 and 4.

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

# %% language="bash" tags=["triton"]
# for count in 1 2 4; do
#   sed -i "s/count: [0-9]*/count: $count/" $TRITON_MODELS/digits/config.pbtxt
#   curl -sX POST $TRITON_HTTP/v2/repository/models/digits/load
#   sleep 1  # a process of the load before may be about to end
#   echo "== $count"  # and the processes that run this model's code:
#   ps -o pid,rss,nlwp,comm -p $(pgrep -d, -f "^[^ ]*python_backend_stub $TRITON_MODELS/digits/")
# done

# %% [markdown]
# `ps` shows each process's number, memory (KB), threads (`NLWP`) and program. The next cell shows what the log says, and all processes of the server. Its column `memory_mb` leaves out what processes share.

# %%
print(*setup.log_lines(lab.log_text(), "ModelInstanceInitialize")[-4:], sep="\n")
processes = measure.processes(lab)
processes.round(1)

# %%
stubs = sum(processes["model"] == "digits")
seen = "4, one per instance" if stubs == 4 else "still 1, with 4 threads"
settled = Premise(stubs in (1, 4), f"there were {stubs} processes: an old one had not ended yet")
compare("inside.processes", seen, premise=settled)
claim(
    stubs == 4,
    "Each Python instance is a process of its own: none waits for another one's interpreter lock.",
    "Run the two cells above again: an old process may have been about to end.",
    premise=settled,
    id="inside.processes",
)

# %% [markdown]
# The *core* makes instances: for each it calls the backend ([source](https://github.com/triton-inference-server/core/blob/main/src/backend_model_instance.cc)), as the log says. The Python backend starts a process, a *stub*. In a C++ backend, threads of the server run the instances.
#
# The first processes were still there after each load: if only the count changes, Triton keeps the instances that run.
#
# <details><summary>Under the hood</summary>
#
# The first row of the table is Triton. On this course's server, stubs are copies of a *fork server*, which has loaded Python and NumPy once. So they start quickly, and share its memory. In NVIDIA's container, each stub is started anew.
#
# </details>

# %% [markdown]
# ## Two models, one core
#
# `careful` averages over thousands of noisy copies of a picture. It keeps a core busy for some milliseconds. `neighbour` is the same model again. `initialize` puts both onto one core, on every machine.

# %%
show("models/careful/1/model.py")

# %% [markdown]
# One client asks `careful`, request after request. Then a second client does the same with `neighbour`. The client is *perf_analyzer*, Triton's tool for load: it keeps one request under way, and measures in windows of `-p` milliseconds, `-r` at most, until three agree within `-s` percent. On a busy machine, `-s` is large. `-f` names its report.

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

# %% language="bash" tags=["triton"]
# ask_careful() {
#   perf_analyzer -m careful -i grpc -u $TRITON_GRPC -p 1000 -s 200 -r 20 \
#     -f $TRITON_MODELS/$1.csv | grep ^Concurrency
# }
# for model in careful neighbour; do
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done
# ask_careful alone
# perf_analyzer -m neighbour -i grpc -u $TRITON_GRPC -p 60000 > /dev/null 2>&1 &
# ask_careful beside_neighbour
# kill $!
# ask_careful alone_again

# %%
names = ("alone", "beside_neighbour", "alone_again")
runs = measure.read_reports(*(models / f"{name}.csv" for name in names))
parts = runs[["queue_ms", "compute_infer_ms"]]
measure.plot_bars(parts, title="One request to careful", below="ms per request")

# %%
queue, infer = parts.loc["beside_neighbour"] - parts.loc["alone"]
longer = "their computation" if infer > queue else "their time in the queue"
same = steady(parts["compute_infer_ms"][["alone", "alone_again"]], 1.5)
compare("inside.neighbour", longer, premise=same)
claim(
    infer > 3 * queue,
    f"Beside its neighbour, a request computed {infer:.0f} ms longer; its time in the queue "
    f"changed by {abs(queue):.1f} ms.",
    "Close other programs, and run the cell with perf_analyzer again.",
    premise=same,
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
# The server passes each request to its model's scheduler, and keeps statistics: how many requests a model had, in how many executions, and how many answers came from the cache.

# %% tags=["triton"]
import os
import time

import numpy as np
import tritonclient.http as http
from sklearn.datasets import load_digits

client = http.InferenceServerClient(os.environ["TRITON_HTTP"])
pictures = (load_digits().images[:, None, None] / 16).astype(np.float32)


def ask(model, picture):
    image = http.InferInput("image", picture.shape, "FP32").set_data_from_numpy(picture)
    return client.infer(model, [image]).as_numpy("scores")


def counts(model):
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics(model)["model_stats"][0]
    served, hits = (stats["inference_stats"][name]["count"] for name in ("success", "cache_hit"))
    return np.array([served, stats["execution_count"], hits])


# %% [markdown]
# A running server can be told to log more: below, the steps of one request.
#
# Another matter: at its start, it reserves two pools of memory for tensors that go to a GPU: *pinned* memory in RAM (256 MB, `--pinned-memory-pool-byte-size`) and memory on each GPU (`--cuda-memory-pool-byte-size`). Log and metrics name them:

# %% tags=["triton"]
client.update_log_settings({"log_verbose_level": 1})  # the steps of one request
ask("digits", pictures[0])
client.update_log_settings({"log_verbose_level": 0})
# !curl -s $TRITON_METRICS/metrics | grep ^nv_pinned

# %%
states = setup.log_lines(lab.log_text(), "state from")[-4:]
pools = setup.log_lines(lab.log_text(), "memory pool")
print("one request:", *states, "", "pools of memory:", *pools, sep="\n")

# %%
claim(
    len(states) > 2,
    "The server leads a request through states, and writes them into its log when told to.",
    "Run the two cells above again.",
    id="inside.states",
)

# %% [markdown]
# A request begins as INITIALIZED, and ends as RELEASED. Without a GPU there are no pools; the metric still names the size that was asked for.
#
# ### RepoAgent
#
# An agent is a plug-in that checks, decrypts or converts a model's files before it loads, such as NVIDIA's [checksum agent](https://github.com/triton-inference-server/checksum_repository_agent). A config asks for it, here with a checksum of `model.py`:

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/digits $TRITON_MODELS/guarded
# cat >> $TRITON_MODELS/guarded/config.pbtxt << 'END'
# model_repository_agents {
#   agents {
#     name: "checksum"
#     parameters { key: "MD5:1/model.py" value: "9e107d9d372bb6826bd81d3542a419d6" }
#   }
# }
# END
# curl -sX POST $TRITON_HTTP/v2/repository/models/guarded/load

# %%
reason = setup.log_lines(lab.log_text(), "repoagent")[-1:]
ready = client.is_model_ready("guarded")
print(*reason, f"guarded is ready: {ready}", sep="\n")

# %%
claim(
    bool(reason) and not ready,
    "The agent is not there, so the model was not loaded with this config.",
    "Read the server's words above: does this Triton have the checksum agent?",
    id="inside.agent",
)

# %% [markdown]
# This server has no agents. A missing one is an error, so no model is loaded unchecked. The [guide](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/repository_agents.md) tells how to write one.
#
# <details><summary>Errata: the architecture slides</summary>
#
# On [these slides](../../00__start/00__start.ipynb#The-documents-behind-the-course), the RepoAgent reads cloud storage and loads data into RAM. The core's [file system layer](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md#model-repository-locations) reads S3, GCS and Azure, and the backend loads weights. An agent acts before that.
#
# </details>

# %% [markdown]
# ### Cache
#
# The cache has two switches: an option of the server, which this one has (`--cache-config local,size=…` for its memory, or one for Redis), and `response_cache { enable: true }` in a model's config. Then this model's answers are kept.

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/digits $TRITON_MODELS/cached
# echo 'response_cache { enable: true }' >> $TRITON_MODELS/cached/config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/cached/load

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

# %% tags=["triton"]
import requests
import tritonclient.grpc as grpc

url = f"http://{os.environ['TRITON_HTTP']}/v2/models/cached/infer"
grpc_client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
new = np.random.default_rng().random((1, 1, 8, 8), np.float32)
body = {"name": "image", "shape": new.shape, "datatype": "FP32", "data": new.ravel().tolist()}
image = grpc.InferInput("image", new.shape, "FP32").set_data_from_numpy(new)

before = counts("cached")
print(requests.post(url, json={"inputs": [body]}).json()["outputs"][0]["data"][:3])
print(ask("cached", new)[0, :3])
print(grpc_client.infer("cached", [image]).as_numpy("scores")[0, :3])
answered, executions, cache_hits = counts("cached") - before
print(f"{answered} requests, {executions} executions, {cache_hits} cache hits")

# %%
twice = "twice: once for HTTP, once for gRPC"
ran = "once" if executions == 1 else twice if executions == 2 else "three times"
three = Premise(answered == 3, f"3 requests were sent, and the server counted {answered}")
compare("inside.cache", ran, premise=three)
claim(
    cache_hits == 2,
    "The model ran once; the second and the third way got the kept answer.",
    "Run the cell with the three requests again: it takes a new picture.",
    premise=three,
    id="inside.cache",
)

# %% [markdown]
# ## Models that ask models
#
# A Python model can ask other models of the server, load them and unload them: *business logic scripting* (BLS). This one asks `digits`; only if no score is above 5, it asks `careful`.
#
# <details><summary>Errata: the architecture slides</summary>
#
# [These slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) give ensembles to the Python backend. Their scheduler is [part of the core](https://github.com/triton-inference-server/core/tree/main/src/ensemble_scheduler); BLS is the Python backend's.
#
# </details>

# %%
show("models/cascade/1/model.py")

# %% tags=["triton"]
client.load_model("cascade")
few = pictures[::30]
unsure = sum(bool(ask("digits", picture).max() <= 5) for picture in few)
earlier, _, _ = counts("careful")
for picture in few:
    ask("cascade", picture)
calls = counts("careful")[0] - earlier
print(f"{len(few)} pictures; digits was unsure of {unsure}, and careful was asked {calls} times.")

# %%
claim(
    0 < calls == unsure,
    f"A model asked two others: careful was asked for {calls} of {len(few)} pictures only.",
    "Run the cell above again: is somebody else asking careful?",
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
# ## The same at work, without this course
#
# Which model keeps the machine busy? This program reads the statistics of all models. The time of a model that asks others includes theirs.
#
# | most of the time is | then |
# |---|---|
# | in your model's queue | more instances, or batching |
# | another model's computation | limit its instances, or move it |
# | repeated requests | `response_cache` |

# %%
show("at_work/who_computes.py")

# %% tags=["triton"]
# %run at_work/who_computes.py

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
