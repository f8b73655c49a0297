# ---
# title: "Point A: how fast is it?"
# minutes: 29
# ---

# %% [markdown]
# # Point A: how fast is it?
#
# **Question.** Two people measure the same server, and their numbers differ by a factor of a hundred. Which number can one promise to users?
#
# This lecture makes one deployment faster, step by step. [The acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) call the beginning *point A*: one object (a picture) per request, one instance, one request after the other.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("point_a")
place(models, "models/single", "models/hiccup")
setup.prepare(models)  # the network's file, and a picture as picture.npy
lab = laboratory(models)  # a Triton server of this notebook's own

# %% [markdown]
# ## The deployment
#
# The network is lecture 2's: is a picture of 3 × 64 × 64 numbers sharp or blurred? The Python backend serves it, and computes one picture after the other, with one thread:

# %%
show("models/single/config.pbtxt", "models/single/1/model.py")

# %% [markdown]
# ## The first requests
#
# A *blocking* client waits for an answer before it sends the next request. The *latency* of a request is the time from sending to the answer.

# %%
predict(
    "point_a.first",
    "The model was loaded a moment ago. The slowest of its first three requests: how does its latency "
    "compare with the median of the later ones?",
    {
        "about the same": "PyTorch prepares a network when it computes it for the first times.",
        "two to five times as long": "So it is with many networks. But the file model.pt is in PyTorch's format "
        "TorchScript, and such a network optimises itself at its first calls.",
        "more than five times as long": None,
    },
)

# %% tags=["triton"]
import os
import time

import numpy as np
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
image = grpc.InferInput("image", [1, 3, 64, 64], "FP32")
image.set_data_from_numpy(np.load(models / "picture.npy"))


# %% tags=["triton"]
def blocking(model, tensor, count):
    """Send requests one after the other; return the latency of each in milliseconds."""
    latencies = []
    for _ in range(count):
        began = time.perf_counter()
        client.infer(model, [tensor])
        latencies.append(1000 * (time.perf_counter() - began))
    return np.array(latencies)


client.unload_model("single")
client.load_model("single")
latencies = blocking("single", image, 200)
print("the first five:", *(f"{ms:.1f} ms" for ms in latencies[:5]))

# %%
times = latencies[:3].max() / np.median(latencies[5:])
slowest = (
    "more than five times as long"
    if times > 5
    else "two to five times as long"
    if times > 2
    else "about the same"
)
compare("point_a.first", slowest, premise=halves_agree(latencies[20:]))
claim(
    times > 5,
    f"One of the first three requests took {times:.0f} times as long as the median later.",
    "Run the cell with the requests again: it loads the model anew.",
    premise=halves_agree(latencies[20:]),
    id="point_a.first",
)

# %% [markdown]
# So a measurement begins after a *warm-up*: requests whose times do not count.
#
# ## Percentiles
#
# 95 of 100 requests take no longer than *p95*; *p50* is the median. *Throughput*: answered requests per second.
#
# How many requests does a p99 need? We send 3,000, and compute p99 of each 100 in a row, then of each 1,000.

# %% tags=["triton"]
warm = latencies[20:]
for percent in (50, 95, 99):
    print(f"p{percent}: {np.percentile(warm, percent):.2f} ms")
print(f"mean {warm.mean():.2f} ms, throughput {1000 / warm.mean():.0f} per second")

many = blocking("single", image, 3000)
for size in (100, 1000):
    p99s = np.percentile(many.reshape(-1, size), 99, axis=1)
    print(f"p99 of {size} requests: between {p99s.min():.1f} and {p99s.max():.1f} ms")

# %%
few, enough = setup.p99_spread(many, 100), setup.p99_spread(many, 1000)
claim(
    few > enough,
    f"Of 100 requests each, the largest p99 is {few:.1f} times the smallest; of 1,000 each, "
    f"{enough:.1f} times.",
    "Run the cell with the 3,000 requests again.",
    id="point_a.percentile",
)

# %% [markdown]
# Of 100 requests, one lies above p99, so chance decides which p99 you find. A rule of thumb: at least ten requests above the percentile. So p99 needs 1,000 requests, p99.9 needs 10,000.
#
# ## Little's law
#
# *Concurrency* is the number of requests under way. With `--concurrency-range 8`, perf_analyzer is eight blocking clients.

# %%
predict(
    "point_a.clients",
    "Eight blocking clients instead of one. The model has one instance. What becomes of the median "
    "latency and of the throughput?",
    {
        "both stay about the same": "A request waits until the instance has computed those before it.",
        "the latency grows much, the throughput little": None,
        "the latency stays, the throughput grows much": "One instance computes one picture at a "
        "time, however many requests wait.",
    },
)

# %% language="bash" tags=["triton"]
# for clients in 1 2 4 8; do  # input data: zeros; by default they are random bits, NaN among them
#   perf_analyzer -m single -i grpc -u $TRITON_GRPC --concurrency-range $clients \
#     --input-data zero -p 600 -s 100 -r 10 --verbose-csv -f $TRITON_MODELS/$clients.csv | grep -E '^Concurrency'
# done

# %% tags=["triton"]
import pandas as pd

closed = pd.concat([pd.read_csv(models / f"{clients}.csv") for clients in (1, 2, 4, 8)])
closed["throughput × mean latency"] = closed["Inferences/Second"] * closed["Avg latency"] / 1e6
columns = ["p50 latency", "p99 latency", "Server Queue"]  # microseconds
closed.set_index("Concurrency")[["Inferences/Second", *columns, "throughput × mean latency"]]

# %%
p50, rate = closed["p50 latency"].to_numpy(), closed["Inferences/Second"].to_numpy()
found = (
    "the latency grows much, the throughput little"
    if p50[3] / p50[0] > 2 * rate[3] / rate[0]
    else "the latency stays, the throughput grows much"
    if rate[3] > 3 * rate[0]
    else "both stay about the same"
)
compare("point_a.clients", found, premise=setup.alike(rate[1:]))
off = (closed["throughput × mean latency"] / closed["Concurrency"] - 1).abs().max()
claim(
    off < 0.1 and rate[3] < 2.5 * rate[0],
    f"Throughput × mean latency is the concurrency, within {off:.0%}. Eight clients got "
    f"{rate[3] / rate[0]:.1f} times the throughput of one.",
    "Run the cell with perf_analyzer again.",
    premise=setup.alike(rate[1:]),
    id="point_a.little",
)

# %% [markdown]
# [Little's law](https://en.wikipedia.org/wiki/Little%27s_law): requests under way = throughput × mean latency. One client leaves the instance idle while messages travel. Two keep it busy, further ones wait: see `Server Queue`, in microseconds.
#
# ## Users do not wait for each other
#
# Blocking clients send less when the server is slow: a *closed loop*. Users of a web site come whenever they like: an *open loop*.

# %%
predict_curve(
    "point_a.rate",
    "Requests come at random times. How long is p99?",
    x=[30, 60, 90],
    y_range=(0, 100),
    unit="ms",
    below="request rate, in percent of the highest throughput above",
)

# %% tags=["triton"]
best = closed["Inferences/Second"].max()
rates = [round(best * percent / 100) for percent in (30, 60, 90)]
os.environ["RATES"] = " ".join(map(str, rates))

# %% language="bash" tags=["triton"]
# for rate in $RATES; do  # poisson: at random times, as independent users come
#   perf_analyzer -m single -i grpc -u $TRITON_GRPC --request-rate-range $rate \
#     --request-distribution poisson --input-data zero -p 2000 -s 300 -r 4 \
#     -f $TRITON_MODELS/rate$rate.csv | grep -E '^Request Rate|p(50|99) latency'
# done

# %%
opened = measure.read_reports(*(models / f"rate{rate}.csv" for rate in rates))
p99 = opened["p99_ms"].to_list()
sent = reached_rate(rates, opened["throughput"])
calm = setup.undisturbed(opened) & sent
compare_curve("point_a.rate", [30, 60, 90], p99, premise=calm)
queued = opened["queue_ms"].to_list()
claim(
    queued[2] > 2 * queued[0],
    f"At 90% of the highest throughput a request waited {queued[2]:.1f} ms in the queue on "
    f"average, at 30% it was {queued[0]:.1f} ms.",
    "Run the cell with the three rates again.",
    premise=calm,
    id="point_a.rate",
)

# %% [markdown]
# Random arrivals form crowds, which wait at a busy instance. Promise the highest rate whose p99 is acceptable. Where other programs run, p99 may not grow.
#
# ## What a closed loop does not see
#
# `hiccup` takes 5 ms, but 1 s for two of 400 requests. It gets 400 from a blocking client, then 400 in an open loop (100/s).

# %% tags=["triton"]
# !cat $TRITON_MODELS/hiccup/1/model.py

# %%
predict(
    "point_a.hiccup",
    "The model stands still twice during each. What is p95?",
    {
        "about 5 ms in both": "In the open loop, requests keep coming while the model stands still.",
        "about 5 ms in the closed loop, hundreds of ms in the open one": None,
        "hundreds of ms in both": "While the model stands still, the blocking client sends nothing: "
        "two of its 400 requests are slow.",
    },
)

# %% tags=["triton"]
import queue


def open_loop(model, tensor, count, per_second):
    """Send requests at a steady pace; return the latency of each, from its planned time, in ms."""
    answers, began = queue.Queue(), time.perf_counter()
    for number in range(count):
        planned = began + number / per_second
        time.sleep(max(0, planned - time.perf_counter()))

        def keep(result, error, planned=planned):
            answers.put(1000 * (time.perf_counter() - planned))

        client.async_infer(model, [tensor], keep)
    return np.array([answers.get() for _ in range(count)])


# %% tags=["triton"]
x = grpc.InferInput("X", [1], "FP32").set_data_from_numpy(np.ones(1, np.float32))
alone, crowd = blocking("hiccup", x, 400), open_loop("hiccup", x, 400, per_second=100)
for name, ms in (("closed loop", alone), ("open loop", crowd)):
    print(f"{name}: p50 {np.percentile(ms, 50):.0f} ms, p95 {np.percentile(ms, 95):.0f} ms")

# %%
slow, quick = np.percentile(crowd, 95), np.percentile(alone, 95)
loops = (
    "about 5 ms in the closed loop, hundreds of ms in the open one"
    if quick < 100 < slow
    else "hundreds of ms in both"
    if quick > 100
    else "about 5 ms in both"
)
compare("point_a.hiccup", loops, premise=setup.often(alone))
claim(
    slow > 10 * quick,
    f"The same model: p95 is {quick:.0f} ms in the closed loop, {slow:.0f} ms in the open one.",
    "Run the cell with both loops again.",
    premise=setup.often(alone),
    id="point_a.hiccup",
)

# %% [markdown]
# The blocking client sent nothing while the model stood still. So it left out the very requests that would have been slow: in the open loop, 100 come meanwhile, and more until the model has caught up. This is called *coordinated omission*. Measure latencies in an open loop, and from the time at which a request was *planned*.

# %% [markdown]
# ## The scoreboard
#
# Each notebook of this lecture takes one step, and adds a row. A row compares the deployments before and after the step, measured in turns with eight blocking clients. *Verdicts changed*: of 200 pictures, those that are no longer judged as by the network at point A. *Repeated*: two measurements agreed (where not, a figure says *not steady*).

# %%
from workbook.lessons import scoreboard

scoreboard.add(lab, "point_a", after="single", what="one picture per request, one instance")
scoreboard.table()

# %% [markdown]
# *Memory* is that of the model's processes alone; *processor* is the time of all processes of the server. [NVIDIA's tutorial](https://github.com/triton-inference-server/tutorials/tree/main/Conceptual_Guide/Part_2-improving_resource_utilization) begins at 975 inferences per second: also one instance, no batcher, but a text recogniser on an A100. So compare its later gains with yours, not its 975.
#
# ## Three mistakes
#
# Two are in a *warm-up*; [here](../../1_architecture/07__model_repository_manager/07__model_repository_manager.ipynb#Warm-up) is a right one:

# %%
setup.mistakes(lab)

# %% [markdown]
# ## Your turn
#
# The first user after each start waits longest. Give `single` a [warm-up](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md#model-warmup): the server sends itself requests before the model is ready. Append it to `$TRITON_MODELS/single/config.pbtxt` in a cell of your own. Then run this one:

# %%
lab.load("single")
task("point_a.warmup", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# perf_analyzer has three modes:
#
# | option | loop | use it for |
# |---|---|---|
# | `--concurrency-range` | closed | the highest throughput |
# | `--request-rate-range` | open | latencies at a rate |
# | `--periodic-concurrency-range` | closed, growing | models with many answers per request ([decoupled](https://github.com/triton-inference-server/perf_analyzer/blob/main/docs/inference_load_modes.md)) |
#
# And an open loop in Python, latencies from the planned times. Raise the rate as long as p99 is acceptable:

# %%
show("at_work/open_loop.py")

# %% tags=["triton"]
# %run at_work/open_loop.py single 50 4

# %% [markdown]
# ## What to remember
#
# - Warm up, then measure. A p99 needs a thousand requests.
# - Requests under way = throughput × mean latency.
# - The highest throughput comes from a closed loop, latencies at your rate from an open one. Near the highest throughput p99 grows steeply: leave room.

# %% [markdown]
# ## Check yourself
#
# <details><summary>200 requests per second, mean latency 40 ms. How many requests are under way?</summary>
#
# 200 × 0.04 = 8.
#
# </details>
#
# <details><summary>A load test with ten blocking clients shows p99 = 30 ms. Users wait for seconds. Name a likely cause.</summary>
#
# Coordinated omission. While the server stands still, ten requests wait in the test; in truth, all users who come meanwhile wait, too.
#
# </details>
#
# <details><summary>Why not plan for 98 % of the highest throughput?</summary>
#
# Requests come at random times. Near the highest throughput each short crowd makes a queue that empties slowly.
#
# </details>
