# ---
# title: Inside the server
# minutes: 29
# ---

# %% [markdown]
# # Inside the server
#
# **Question.** Many models share one machine. Who gets the CPU, the memory, the GPU and the disk, and which part of Triton decides?
#
# First you count processes, and two models compete for a CPU core. Then you try parts of *Triton's core*, which lies between the *front ends* (HTTP, gRPC) and the *backends*, which run models.
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
# | resource | a model needs it for | shared out by |
# |---|---|---|
# | CPU | its threads | the operating system |
# | RAM | weights, tensors | nobody: backends take what they need |
# | GPU | computation, weights | its scheduler; Triton's rate limiter, if on |
# | disk | weights and config, when it loads | the operating system |
#
# So one model can slow down another, without an error.

# %% [markdown]
# ## One server, how many processes?
#
# `digits` is the Python model of the last notebook. Python models do not run in Triton's own process. The Python backend starts a program for them, the *stub* (`triton_python_backend_stub`), which loads `model.py`. `instance_group` in the config says how many instances a model has. We load it with 1, 2 and 4.

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
#   echo "== $count"  # and this model's stubs, found by their command lines:
#   ps -o pid,rss,nlwp,comm -p $(pgrep -d, -f "^[^ ]*python_backend_stub $TRITON_MODELS/digits/")
# done

# %% [markdown]
# `ps` shows each process's number, memory (`RSS`, KB), threads (`NLWP`) and program. What does Triton's log say about the last load?

# %%
processes = measure.processes(lab)  # counted for the comparison below
print(*setup.log_lines(lab.log_text(), "ModelInstanceInitialize")[-4:], sep="\n")

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
# Triton's core makes the instances: for each it calls the backend's function in the log ([source](https://github.com/triton-inference-server/core/blob/main/src/backend_model_instance.cc)). The Python backend then starts a stub; one of its threads runs the model. In a C++ backend, threads of the server run the instances.
#
# The first stubs kept their numbers: if only the count changes, Triton keeps the instances that run.

# %% [markdown]
# ## Two models, one core
#
# `careful` averages over thousands of noisy copies of a picture, and keeps a CPU core busy for some milliseconds. `neighbour` is the same model again. The first line of `initialize` puts both onto one CPU core, on every machine:

# %%
show("models/careful/1/model.py")

# %% [markdown]
# One client asks `careful`, request after request. Then a second one does the same with `neighbour`. The client is *perf_analyzer*, Triton's tool for load. It measures in windows of `-p` milliseconds, `-r` at most, until three in a row agree within `-s` percent. `-s` is large, because other programs disturb the results. `-f` names its report.

# %%
predict(
    "inside.neighbour",
    "What becomes longer for the requests to careful?",
    {
        "their time in the queue": "You expected one queue for both models. Each model has its own "
        "scheduler and its own queue, and no other request waited in this one.",
        "their computation": None,
        "nothing: each model has its own instance": "An instance is a process. It is not a CPU core, "
        "and the two processes take turns on this one.",
    },
)

# %% language="bash" tags=["triton"]
# ask_careful() {
#   echo "== $1"
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
# The latencies above include the way to the server and back. Meanwhile the neighbour has the core alone, so the computation need not take twice as long.
#
# <details><summary>One at a time: Triton's rate limiter</summary>
#
# With it, one model waits in its queue while the other computes. Start the server with `--rate-limit=execution_count`, and write `rate_limiter { resources { name: "turn" count: 1 } }` into both `instance_group`s: now an instance needs the only `turn` (any name) to compute ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/rate_limiter.md); not run here).
#
# </details>
#
# <details><summary>On a GPU</summary>
#
# *Processes* (Python models) take turns. Each needs memory for a *CUDA context*, its state on the GPU. *One* process (C++ backends) may overlap its computations ([NVIDIA's MPS guide](https://docs.nvidia.com/deploy/mps/architecture.html); not measured here).
#
# </details>

# %% [markdown]
# ## Triton's core, part by part
#
# ### Server: requests, statistics, logs
#
# The server passes each request to its model's scheduler, and counts. `counts` reads a model's requests, its executions, and its answers from the cache.

# %% tags=["triton"]
import os
import time

import numpy as np
import tritonclient.http as http
from sklearn.datasets import load_digits

client = http.InferenceServerClient(os.environ["TRITON_HTTP"])
pictures = (load_digits().images[:, None, None] / 16).astype(np.float32)


def ask(model, picture, request_id=""):
    image = http.InferInput("image", picture.shape, "FP32").set_data_from_numpy(picture)
    return client.infer(model, [image], request_id=request_id).as_numpy("scores")


def counts(model):
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics(model)["model_stats"][0]
    served, hits = (stats["inference_stats"][name]["count"] for name in ("success", "cache_hit"))
    return np.array([served, stats["execution_count"], hits])


# %% [markdown]
# A request hangs: does it wait, or is it computed? A running server can be told to log the states of requests, from now on: so send it again, with an id. PENDING: it waits in the queue. EXECUTING: the model has it. RELEASED: the server is done. Then switch it off: the log grows fast.

# %% tags=["triton"]
client.update_log_settings({"log_verbose_level": 1})
ask("digits", pictures[0], request_id="mine")
time.sleep(0.1)  # the request ends a moment after its answer
settings = client.update_log_settings({"log_verbose_level": 0})
print("log_verbose_level:", settings["log_verbose_level"])

# %%
states = setup.log_lines(lab.log_text(), "id: mine] Setting state")[-3:]
print(*states, sep="\n")

# %%
claim(
    len(states) > 2,
    "The server leads a request through states, and writes them into its log when told to.",
    "Run the two cells above again.",
    id="inside.states",
)

# %% [markdown]
# At work: `docker logs NAME 2>&1 | grep "id: mine"`. The last state PENDING points to the model's load, EXECUTING to its code.
#
# <details><summary>Under the hood: memory for GPUs</summary>
#
# For tensors that go to a GPU, the server reserves two pools: *pinned* memory in RAM (256 MB, `--pinned-memory-pool-byte-size`) and memory on each GPU (`--cuda-memory-pool-byte-size`).
#
# </details>
#
# ### RepoAgent
#
# Is a file damaged? An *agent* is a plug-in that checks, decrypts or converts files before they are loaded. NVIDIA's [checksum agent](https://github.com/triton-inference-server/checksum_repository_agent) compares files with sums in the config, here that of `model.py`:

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/digits $TRITON_MODELS/guarded
# sum=$(md5sum < $TRITON_MODELS/guarded/1/model.py | cut -c 1-32)
# cat >> $TRITON_MODELS/guarded/config.pbtxt << END
# model_repository_agents {
#   agents { name: "checksum" parameters { key: "MD5:1/model.py" value: "$sum" } }
# }
# END
# tail -3 $TRITON_MODELS/guarded/config.pbtxt
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
# The sum is right, but this server has no agents. A missing agent is an error, so nothing is loaded unchecked. NVIDIA's full image has this one ([source](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/compose.md)). Another goes into the folder named above ([guide](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/repository_agents.md)). A sum finds accidents, not attackers: they can change it, too.
#
# <details><summary>Errata: the architecture slides</summary>
#
# On [these slides](../../00__start/00__start.ipynb#The-documents-behind-the-course), the RepoAgent reads cloud storage and loads data into RAM. The core's [file system layer](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md#model-repository-locations) reads S3, GCS and Azure, and the backend loads weights. An agent acts before that.
#
# </details>

# %% [markdown]
# ### Cache
#
# Must each request be computed? The *response cache* keeps answers. It has two switches: an option of the server, which this one has (`--cache-config local,size=…`, in bytes of RAM, or one for Redis), and `response_cache { enable: true }` in a model's config.

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
        "twice: once for HTTP, once for gRPC": "The cache sits in Triton's core, behind the front ends. "
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
by_json = requests.post(url, json={"inputs": [body]}).json()["outputs"][0]["data"]
print("HTTP, JSON:  ", np.float32(by_json[:3]))
print("HTTP, binary:", ask("cached", new)[0, :3])
print("gRPC:        ", grpc_client.infer("cached", [image]).as_numpy("scores")[0, :3])
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
# Requests come from models, too. A Python model can ask other models of the server, load them and unload them: *business logic scripting* (BLS). This one asks the quick `digits`, and only if no score is above 5, the slow `careful`.

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
# <details><summary>Errata: the architecture slides</summary>
#
# [These slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) give ensembles to the Python backend. Their scheduler is [part of the core](https://github.com/triton-inference-server/core/tree/main/src/ensemble_scheduler); BLS is the Python backend's.
#
# </details>
#
# ## Your turn
#
# `careful` computes anew for a picture that it has seen. Its noise is always the same, so its answers may be kept. Let the server answer a repeated picture without a run of `careful`. Write its config in a new cell with `%%writefile {models}/careful/config.pbtxt`, and load it again: `lab.load("careful")`.

# %%
show(models / "careful/config.pbtxt")
task("inside_the_server.cached", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# Which model keeps the machine busy? This program sorts all models by their computation. A model that asks others, as `cascade`, has their time, too. While users complain, run it with a number of seconds: it counts what happens meanwhile. Here: since the start.

# %%
show("at_work/who_computes.py")

# %% tags=["triton"]
# %run at_work/who_computes.py

# %% [markdown]
# | you see | then |
# |---|---|
# | a large `queue s` of your model | more instances, or batching ([05](../05__dynamic_batcher/05__dynamic_batcher.ipynb)) |
# | a large `compute s` of another model | limit its instances, or move it |
# | many requests, the same again and again | `response_cache`; then `cached` grows |

# %% [markdown]
# ## What to remember
#
# - Each Python instance is a process beside the server's. It needs memory from the start, and a CPU core while it computes.
# - Models have queues of their own, and share CPU cores: another model's load lengthens your computation. Triton shares out neither CPU nor memory.
# - Triton's core schedules, caches, counts and makes instances. Backends compute.

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
# Next: [schedulers](../03__schedulers/03__schedulers.ipynb).
