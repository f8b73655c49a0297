# ---
# title: Instances
# minutes: 28
# ---

# %% [markdown]
# # Instances
#
# **Question.** At [point A](../01__point_a/01__point_a.ipynb), seven of eight clients wait while one core computes. How many instances should the model have, and would more threads not do the same?
#
# This is the lecture's first step, from the deployment `single` to `pair`.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("instances")
place(models, "../01__point_a/models/single", "../01__point_a/models/hiccup", "models/pair")
setup.prepare(models)  # the network's file, for both
lab = laboratory(models, rate_limit={"core": 2})  # a server; the rate limiter is for later

# %% [markdown]
# ## Two cores in two ways
#
# An *instance* computes one execution at a time. `pair` has two; each is a process that computes with one thread. `threads` has one instance. It computes each picture with two threads.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp -rT single threads
# sed -i 's/set_num_threads(1)/set_num_threads(2)/' threads/1/model.py
# diff single/config.pbtxt pair/config.pbtxt
# diff single/1/model.py threads/1/model.py
# curl -sX POST $TRITON_HTTP/v2/repository/models/threads/load

# %%
predict(
    "instances.threads",
    "Eight blocking clients. Which of the two answers more pictures per second?",
    {
        "the one with two threads": "Threads share each layer of the network. At its end, the faster one waits for "
        "the slower one, and a layer of this network is short.",
        "about the same": "Both may use two cores. But threads meet after each layer, and "
        "processes never wait for each other.",
        "the one with two instances": None,
    },
)

# %% [markdown]
# The server counts pictures. The operating system counts the *processor time* of each process: the time in which it was on a core. Here it is read with `psutil`. In the table, `pair.8` is `pair` under eight clients, and times are in ms.

# %% tags=["triton"]
import os
import queue
import re
from functools import partial

import numpy as np
import psutil
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def processes(model):
    """The processes of a model's instances; they run on the server's machine."""
    program = rf"\S*/triton_python_backend_stub {os.environ['TRITON_MODELS']}/{model}/1/"
    every = psutil.process_iter(["cmdline"])
    return [each for each in every if re.match(program, " ".join(each.info["cmdline"] or []))]


# %% tags=["triton"]
def used(model):
    """Pictures that a model has computed, and the processor time of its processes in ms."""
    pictures = client.get_inference_statistics(model).model_stats[0].inference_count
    times = [each.cpu_times() for each in processes(model)]
    return pictures, 1000 * sum(time.user + time.system for time in times)


load, cpu_ms = "--input-data zero -p 800 -s 1000 -r 5", {}
address = os.environ["TRITON_GRPC"]
for clients in (1, 8):
    for model in ("single", "threads", "pair"):
        before = used(model)
        report = models / f"{model}.{clients}.csv"
        # !perf_analyzer -m {model} -i grpc -u {address} --concurrency-range {clients} {load} -f {report} > /dev/null
        pictures, ms = (after - old for after, old in zip(used(model), before))
        cpu_ms[f"{model}.{clients}"] = ms / pictures

# %% tags=["triton"]
import pandas as pd

tables = {name: pd.read_csv(models / f"{name}.csv") for name in cpu_ms}
table = pd.concat(tables).droplevel(1)
for name in ("p50 latency", "Server Queue", "Server Compute Infer"):
    table[name] /= 1000  # from microseconds to ms
table["processor, ms"] = table.index.map(cpu_ms)
columns = ["Inferences/Second", "p50 latency", "Server Queue", "Server Compute Infer"]
table[[*columns, "processor, ms"]].round(1)

# %%
claim(
    setup.changed(lab) == 0,
    "The verdicts of pair on 200 pictures are those of the network: none has changed.",
    "Run the notebook's first cell again.",
    id="instances.same",
)
versus = table["Inferences/Second"]["pair.8"] / table["Inferences/Second"]["threads.8"]
kind = "the one with two instances" if versus > 1 else "the one with two threads"
found = "about the same" if 0.9 < versus < 1.1 else kind
compare("instances.threads", found, premise=setup.several_cores())
costly = cpu_ms["threads.8"] / cpu_ms["pair.8"]
claim(
    costly > 1.1,
    f"With two threads, a picture takes {costly:.1f} times the processor time that it takes in pair.",
    "Run the cells of this section again.",
    id="instances.threads",
)
waited = table["Server Queue"]["single.1"]
claim(
    waited < 0.2 * table["Server Compute Infer"]["single.1"],
    f"One client: a picture waits {waited:.1f} ms in the queue of single, so there is nothing that a "
    "second instance could take over.",
    "Run the cells of this section again.",
    id="instances.alone",
)

# %% [markdown]
# Threads meet after each layer, and the one that waits keeps its core busy. Where other programs run, one thread without a core stops both: then `threads.1` answers far fewer pictures than its p50 suggests. On free cores threads can shorten a single request: compare the p50 of `threads.1` and `single.1`.

# %% [markdown]
# Do two instances compute at the same time? We send forty requests at once, and look at the server's traces:

# %% tags=["triton"]
picture = grpc.InferInput("image", [1, 3, 64, 64], "FP32")
picture.set_data_from_numpy(np.zeros((1, 3, 64, 64), np.float32))


def send(model, count=40):
    """Send requests without waiting for answers; return when all are answered."""
    answers = queue.Queue()
    for _ in range(count):
        client.async_infer(model, [picture], lambda result, error: answers.put(error))
    return [answers.get() for _ in range(count)].count(None)


print("answered:", send("single"), send("pair"))

# %%
together = {}  # from the server's traces, which record reads
for model in ("single", "pair"):
    together[model] = setup.most_at_once(record(lab, model, partial(send, model)))
pd.Series(together, name="executions at the same time, at most")

# %%
rates = table["Inferences/Second"]
pair_gain = rates["pair.8"] / rates["single.8"]
claim(
    together == {"single": 1, "pair": 2},
    "Two instances computed two pictures at the same time. With eight clients, they answered "
    f"{pair_gain:.1f} times as many pictures as one.",
    "Run the cells of this section again.",
    id="instances.pair",
)

# %% [markdown]
# **Where instances do not help:** one blocking client. There is never a second request for the second instance.
#
# ## How many?
#
# Two instances serve the same queue, and each request waits for less time. Why stop at two? Before you draw: `nproc` in a terminal counts the cores that your notebook may use.

# %%
predict_curve(
    "instances.count",
    "Eight clients, and this machine's cores. How many pictures per second?",
    x=[1, 2, 4, 8],
    y_range=(0, 8),
    unit="times the throughput of one instance",
    below="instances",
)

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for count in 4 8; do
#   cp -rT pair pair$count
#   sed -i "s/count: 2/count: $count/" pair$count/config.pbtxt
#   curl -sX POST $TRITON_HTTP/v2/repository/models/pair$count/load
# done
# for model in single pair pair4 pair8; do
#   perf_analyzer -m $model -i grpc -u $TRITON_GRPC --concurrency-range 8 --input-data zero \
#     -p 500 -s 1000 -r 5 -f $model.csv > /dev/null
# done

# %% tags=["triton"]
names = ["single", "pair", "pair4", "pair8"]
counts = pd.concat([pd.read_csv(models / f"{name}.csv") for name in names])
counts.index = pd.Index([1, 2, 4, 8], name="instances")
for name in ("p99 latency", "Server Queue", "Server Compute Infer"):
    counts[name] /= 1000
counts[["Inferences/Second", "p99 latency", "Server Queue", "Server Compute Infer"]].round(1)

# %%
parts = counts[["Server Queue", "Server Compute Infer"]]
parts.columns = ["queue", "compute_infer"]
bars = parts.rename("instances: {}".format)
measure.plot_bars(bars, title="Where a picture's time goes", below="ms per picture")

# %%
computed = parts["compute_infer"]
times = (counts["Inferences/Second"] / counts["Inferences/Second"][1]).tolist()
predicted = setup.forecast(computed[1], [1, 2, 4, 8])
compare_curve("instances.count", [1, 2, 4, 8], times, premise=setup.several_cores())
claim(
    computed[8] > 1.5 * computed[1],
    f"A picture waits {parts['queue'][8]:.0f} ms for one of eight instances, not "
    f"{parts['queue'][1]:.0f}. But then it is computed in {computed[8]:.0f} ms, not {computed[1]:.0f}.",
    "Run the cells of this section again.",
    premise=setup.few_cores(),
    id="instances.count",
)
claim(
    predicted[3] > 1.5 * counts["Inferences/Second"][8],
    f"The simulator expects {predicted[1]:.0f} pictures per second of two instances (measured: "
    f"{counts['Inferences/Second'][2]:.0f}), and {predicted[3]:.0f} of eight (measured: "
    f"{counts['Inferences/Second'][8]:.0f}).",
    "Run the cells of this section again.",
    premise=setup.few_cores(),
    id="instances.forecast",
)

# %% [markdown]
# Instances beyond the cores take turns on them. The requests wait as long as before, only elsewhere: inside the computation, where no queue shows it. The simulator knows queues and instances, but no cores: it expects that eight compute as fast as one. Such a gap between forecast and measurement says: something is shared.

# %% [markdown]
# ## What an instance costs
#
# [The acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) say: about 64 MB for each instance of the Python backend. Do they have your model's imports in mind?

# %%
predict(
    "instances.memory",
    "In NVIDIA's container, each instance imports for itself. How much memory does each further "
    "instance of pair take, which imports torch?",
    {
        "less than 30 MB": "So it is on this course's server, whose processes share their imports.",
        "about 64 MB": "This is an older default, and of another memory: see the fold below.",
        "more than 100 MB": None,
    },
)

# %% tags=["triton"]
for model in ("hiccup", "pair", "pair8"):  # hiccup, of point A, imports numpy alone
    private = [each.memory_full_info().uss / 1e6 for each in processes(model)]
    print(f"{model:7}{len(private)} × {max(private):.0f} MB that no other process shares")

# %%
costs = setup.costs(models, lab)  # on a second server, too
costs

# %%
container = float(costs.loc["pair: numpy and torch", "MB, each process imports for itself"])
options = {container < 30: "less than 30 MB", 30 <= container < 100: "about 64 MB"}
compare("instances.memory", options.get(True, "more than 100 MB"), premise=setup.found(container))
claim(
    bool((costs.iloc[:, 1] > costs.iloc[:, 0]).all()),
    f"An instance of pair needs {container:.0f} MB of its own if it imports for itself, and "
    f"{costs.iloc[1, 0]:.0f} MB on this course's server.",
    "Run the cell before this one again.",
    id="instances.memory",
)

# %% [markdown]
# So the imports decide. This course's server starts instances as copies of a process that has imported torch (a *fork server*), and copies share what none of them changes: [more on it](../../2_backends/02__python/02__python.ipynb#What-an-instance-costs). At work, add up the private memory before you raise a count.
#
# <details><summary>Errata: the acceleration slides</summary>
#
# [The slides'](../../00__start/00__start.ipynb#The-documents-behind-the-course) 64 MB were right for older releases: the backend reserved this much *shared* memory for each instance, to exchange tensors. Since 2023 it is [1 MB, and grows by 1 MB](https://github.com/triton-inference-server/python_backend/pull/291) as needed (`shm-default-byte-size`). The imports come on top.
#
# </details>

# %% [markdown]
# ## The rate limiter
#
# Eight instances, but never more than two at work? The server was started with `--rate-limit=execution_count --rate-limit-resource=core:2`. Each instance of `limited` needs one `core` for an execution ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/rate_limiter.md)). The name is ours.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp -rT pair8 limited
# limiter='rate_limiter { resources { name: "core" count: 1 } }'
# sed -i "s/KIND_CPU/KIND_CPU $limiter/" limited/config.pbtxt
# tail -1 limited/config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/limited/load

# %%
most = {}
for name in ("pair8", "limited"):
    most[name] = setup.most_at_once(record(lab, name, partial(send, name)))
pd.Series(most, name="executions at the same time, at most")

# %%
claim(
    most["limited"] <= 2 < most["pair8"],
    f"Of eight instances, up to {most['pair8']} computed at the same time. With the rate limiter, no "
    f"more than {most['limited']} did.",
    "Run the cells of this section again.",
    id="instances.limiter",
)

# %% [markdown]
# For one model, a smaller count does the same with less memory. The rate limiter is for *several* models that share cores or a GPU: each names what it needs, and the server starts no execution for which nothing is left.

# %% [markdown]
# ## Two instances on one GPU
#
# Your instances have a core each. Two on a GPU share *one* device, and each holds its own weights. They gain where one does not fill it. An example, not a promise: Llama 2 7B on the A10G of [the Llama page](../../00__start/00__start.ipynb#The-documents-behind-the-course) went from 10.6 to 15.5 tokens per second, ×1.5.

# %%
from workbook.lessons import scoreboard

scoreboard.add(lab, "instances", before="single", after="pair", what="two instances")
scoreboard.table()

# %% [markdown]
# ## Four mistakes
#
# Where a message names a resource, compare it with the server's `--rate-limit-resource`, here `core:2`:

# %%
wrong = setup.mistakes(lab, models)
wrong

# %%
claim(
    len(wrong.refused) == 4 and setup.changed(lab) == 0,
    "The server refuses all four, and pair answers as before.",
    "Run the cell before this one again.",
    id="instances.mistakes",
)

# %% [markdown]
# ## Your turn
#
# `daily` answers customers, and its config tells the rate limiter what an execution needs. `nightly` shares the server: each of its executions computes a report on both cores, so nothing else may run meanwhile. Its config does not say so yet. Change [its config](models/nightly/config.pbtxt), save it, and run the cell.

# %%
show("models/daily/config.pbtxt")
place(models, "models/daily", "models/nightly")
for name in ("daily", "nightly"):
    lab.load(name)
task("instances.nightly", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# This program loads your model with each count that you give. It wants a server in mode explicit, and perf_analyzer. Take the smallest count beyond which `per s` hardly grows; if `compute ms` grows as fast as `queue ms` falls, the cores are used up:

# %%
show("at_work/instances.py")

# %% tags=["triton"]
# %run at_work/instances.py pair 1 2 4

# %% [markdown]
# ## What to remember
#
# - Use more instances when requests wait in the queue *and* cores are free. Begin with cores divided by threads.
# - Not for one blocking client, and not beyond the cores. Measure what each costs in private memory.
# - Look at queue *and* compute time: if their sum stays, the waiting has only moved.

# %% [markdown]
# ## Check yourself
#
# <details><summary>You double the instances. The queue time falls to nothing, the throughput stays. What happened?</summary>
#
# The instances share cores that were busy before. The compute time has grown by what the queue time has lost.
#
# </details>
#
# <details><summary>A model counts its requests in <code>self.seen</code>. What does it count with two instances?</summary>
#
# Each instance counts its own share. They are processes, and share no variables. The same holds for a cache in `self`.
#
# </details>
#
# <details><summary>16 cores, and a network with 4 threads per instance. With how many instances do you begin?</summary>
#
# With four; then measure three and six. If its layers are short, 16 instances of one thread may be better.
#
# </details>
