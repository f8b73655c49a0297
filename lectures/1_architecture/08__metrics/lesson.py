# ---
# title: Metrics
# minutes: 30
# ---

# %% [markdown]
# # Metrics
#
# **Question.** Three services are slow. All three get more instances. Which of them profits, and do the numbers say so before?
#
# Triton counts requests, times and hardware. A collector such as [Prometheus](https://prometheus.io/docs/introduction/overview/) fetches the numbers as text, at port 8002; Triton sends them nowhere.
#
# ![Triton; marked are the metrics and who reads them](architecture.svg)

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("metrics")
setup.services(models)  # the digits, and services that sleep
lab = laboratory(models, options=["--metrics-config=summary_latencies=true"])

# %% [markdown]
# ## The endpoint
#
# We send one picture to the model `digits`. What does the endpoint say about its executions, and how many metrics of each kind does it have? `TRITON_METRICS` is what `localhost:8002` would be at work.

# %% tags=["triton"]
import os

import numpy as np
import tritonclient.grpc as grpc
from sklearn.datasets import load_digits

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
pictures = (load_digits().images[:8, None] / 16).astype(np.float32)


def send_pictures(count):
    image = grpc.InferInput("image", [count, 1, 8, 8], "FP32")
    image.set_data_from_numpy(pictures[:count])
    return client.infer("digits", [image]).as_numpy("logits")


print("This is a", send_pictures(1).argmax())

# %% language="bash" tags=["triton"]
# curl -s $TRITON_METRICS/metrics > $TRITON_MODELS/metrics.txt
# grep exec_count $TRITON_MODELS/metrics.txt | grep -E '#|"digits"'
# grep '# TYPE' $TRITON_MODELS/metrics.txt | cut -d ' ' -f 4 | sort | uniq -c

# %% [markdown]
# | kind | it … | you look at |
# |---|---|---|
# | counter | only grows | its growth per second |
# | gauge | goes up and down | its value |
# | summary | sums up how long requests took | its quantiles |
#
# Each line is a name, labels such as `model`, and a value. A program reads them with the parser of Prometheus' Python client:

# %% tags=["triton"]
import time

import pandas as pd
import requests
from prometheus_client.parser import text_string_to_metric_families


def metrics(model=""):
    """The metrics of a model now, or those of the server: name and labels → value."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered
    found, text = {}, requests.get(f"http://{os.environ['TRITON_METRICS']}/metrics").text
    for family in text_string_to_metric_families(text):
        for name, labels, value, *_ in family.samples:
            others = [labels[key] for key in labels if key not in ("model", "version")]
            if labels.get("model", "") == model:
                metric = name.removesuffix("_total")  # the parser adds it to counters
                found[" ".join([metric, *others])] = value
    return pd.Series(found)


# %% [markdown]
# ## CPU and GPU
#
# CPU metrics come from `/proc/stat` and `/proc/meminfo`, on Linux only, once per interval (`--metrics-interval-ms`). `nv_cpu_utilization` is the share of time in which the cores were busy, with any program.

# %% language="bash" tags=["triton"]
# curl -s $TRITON_METRICS/metrics | grep -E '^nv_(cpu|gpu)'
# grep MemTotal /proc/meminfo

# %%
claim(
    metrics()["nv_cpu_memory_total_bytes"] == setup.memory_of_linux(),
    f"Triton and Linux agree on the memory: {setup.memory_of_linux() / 1e9:.1f} GB.",
    "Does the server run on another machine, or in a container with a limit?",
    id="metrics.cpu",
)

# %% [markdown]
# With a GPU there are also, per GPU ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md#gpu-metrics), not run here): `nv_gpu_utilization`, `nv_gpu_memory_used_bytes` of `nv_gpu_memory_total_bytes`, `nv_gpu_power_usage` in watts, `nv_energy_consumption` in joules. [DCGM](https://developer.nvidia.com/dcgm) measures them.
#
# ## Requests
#
# A client sends `digits` one request with 1 picture, then one with 8 pictures. This copy of the model has no dynamic batching.

# %%
predict(
    "metrics.counts",
    "By how much do requests, inferences and executions grow?",
    {
        "2, 2, 2": "Inferences count rows: eight pictures are eight inferences.",
        "2, 9, 2": None,
        "9, 9, 2": "A request counts as one, however many rows it has.",
        "2, 9, 9": "The eight rows of one request are computed together, in one execution.",
    },
)


# %% tags=["triton"]
def growth(model, send):
    """What a function returns, and by how much a model's metrics grow while it runs."""
    before = metrics(model)
    answer = send()
    time.sleep(0.8)  # a request that the batcher refuses is counted some time later
    return answer, metrics(model) - before


_, grown = growth("digits", lambda: [send_pictures(1), send_pictures(8)])
counts = grown[[f"nv_inference_{name}" for name in ("request_success", "count", "exec_count")]]
counts

# %%
both = setup.counted(grown, 2)
compare(
    "metrics.counts",
    str(counts.astype(int).tolist())[1:-1],
    published="2, 9, 2 (Triton's guide)",
    premise=both,
)
claim(
    list(counts) == [2, 9, 2],
    "Eight rows in one request: one request, one execution, eight inferences.",
    "Run the cell above again, without other load.",
    premise=both,
    id="metrics.counts",
)

# %% [markdown]
# ## What counts as a failure?
#
# Six requests go wrong: nine rows where eight are allowed; a full queue; a timeout in the queue; a client that cancels; a model that raises; a model that answers with an error. The queue of [full](models/full/config.pbtxt) holds one request; in that of [hasty](models/hasty/config.pbtxt), none waits over 100 ms. All models are one program:

# %%
show("models/service/1/model.py")

# %%
predict(
    "metrics.failures",
    "How many of the six does `nv_inference_request_failure` count?",
    {
        "none": "It counts exceptions in the model, and some of what goes wrong in the queue.",
        "1": "A model that raises is not the only one: look at REJECTED and CANCELED in the table.",
        "3": None,
        "6": "A request that is refused before it enters the queue is not counted in this "
        "release, and an error that the model puts into its answer counts as a success.",
    },
)

# %% tags=["triton"]
import queue


def send(model, ms, rows=1, count=1, cancel=False):
    """Send requests at once. Return the errors of all; an error is "" if it went well."""
    answers = queue.Queue()
    x = grpc.InferInput("x", [rows, 4], "FP32")
    x.set_data_from_numpy(np.full((rows, 4), ms, np.float32))
    for _ in range(count):
        call = client.async_infer(model, [x], lambda result, error: answers.put(error))
        time.sleep(0.03)
    if cancel:
        call.cancel()  # the last one
    errors = [answers.get() for _ in range(count)]
    return [error.message() if error else "" for error in errors]


# %% tags=["triton"]
cases = {
    "9 rows where 8 are allowed": ("anton", lambda: send("anton", 1, rows=9)),
    "the queue is full": ("full", lambda: send("full", 120, count=3)),
    "waited too long": ("hasty", lambda: send("hasty", 240, count=2)),
    "the client gave up": ("hasty", lambda: send("hasty", 240, count=2, cancel=True)),
    "the model raises": ("anton", lambda: send("anton", -1)),
    "the model answers with an error": ("anton", lambda: send("anton", np.nan)),
}
rows = {}
for case, (name, fail) in cases.items():  # max(errors): one that is not ""
    errors, change = growth(name, fail)
    change = change.filter(regex="success|failure").rename(lambda metric: metric.split("_")[-1])
    change["success"] -= errors.count("")  # leave out those that went well
    rows[case] = {"the client reads": max(errors).split("] ")[-1][:50], **change.astype(int)}
wrong = pd.DataFrame(rows).T
wrong

# %%
failed = setup.all_went_wrong(wrong)
compare("metrics.failures", setup.count_failures(wrong), premise=failed)
claim(
    list(setup.reasons(wrong)) == [1, 1, 1, 0] and wrong["success"].sum() == 1,
    "Counted: the timeout, the cancelled request, the exception. One error counts as a success.",
    "A newer server may count differently: look at the table.",
    premise=failed,
    id="metrics.failures",
)

# %% [markdown]
# The label `reason` says why: `REJECTED` (timeout in the queue), `CANCELED` (by the client), `BACKEND` (in the model), `OTHER` (all else, such as a failed step of an ensemble). The error counted as success is a [known issue](https://github.com/triton-inference-server/server/issues/7713).
#
# So an alarm on failures alone misses much. Count errors at the client, or in the model with a [custom metric](https://github.com/triton-inference-server/python_backend#custom-metrics).

# %% [markdown]
# ## Where the time goes
#
# ![A request's way, with its timestamps](request.svg)
#
# Each part is a counter in microseconds. perf_analyzer divides its growth by the requests; it also measures what the client waits. Three services, for eight clients that ask in a loop:
#
# | service | instances | an execution |
# |---|---|---|
# | anton | 1 | sleeps 15 ms |
# | berta | 8 | sleeps 60 ms |
# | clara | 2 | copies 8 MB |
#
# Sleeping needs no core; copying does.

# %%
show("clients/load.sh")

# %% language="bash" tags=["triton"]
# sh clients/load.sh anton 1 8
# sh clients/load.sh berta 8 8
# sh clients/load.sh clara 2 8

# %%
few = setup.read(models, "anton.1.8", "berta.8.8", "clara.2.8")  # perf_analyzer's reports
setup.plot_shares(few)

# %%
predict(
    "metrics.cure",
    "Each gets twice its instances: anton 2, berta 16, clara 4. Which of them serves at least 1.5 "
    "times as many requests per second?",
    {
        "anton alone": None,
        "berta alone": "berta's queue is empty: nobody waits for an instance, so more instances "
        "find nothing to do.",
        "clara alone": "Copying needs cores and memory. More copies at once compete for them, so "
        "each of them gets slower.",
        "more than one": "Only anton has a long queue, and instances that need no core. Berta has "
        "no queue, and clara's instances share the cores.",
        "none": "anton's requests wait most of their time, and his instances need no core.",
    },
)

# %% language="bash" tags=["triton"]
# sh clients/load.sh anton 2 8
# sh clients/load.sh berta 16 8
# sh clients/load.sh clara 4 8

# %%
many = setup.read(models, "anton.2.8", "berta.16.8", "clara.4.8")
gain = many["throughput"] / few["throughput"]
measure.plot_bars(gain.to_frame("gain"), title="Twice the instances", below="times the throughput")

# %%
calm = setup.undisturbed(few, many)
waits = few["queue_ms"] / sum(few[f"{part}_ms"] for part in setup.SPANS)
compare("metrics.cure", setup.who_gains(gain), premise=calm)
claim(
    waits["anton"] > 0.5 and gain["anton"] >= 1.5 and gain["berta"] < 1.5,
    f"Queues took {waits['anton']:.0%} of anton's time and {waits['berta']:.0%} of berta's; twice "
    f"the instances gave ×{gain['anton']:.1f} and ×{gain['berta']:.1f}.",
    "Close other programs and run both cells with load.sh again.",
    premise=calm,
    id="metrics.cure",
)

# %% [markdown]
# Instances that need the cores share them, as clara's do. Most of what her clients wait is not in the server at all: it is sending 8 MB there and back.
#
# Can more instances never help berta? Eight clients in a loop have at most eight requests under way, one per instance. Now with 32 clients, beside 8:

# %% language="bash" tags=["triton"]
# sh clients/load.sh berta 16 32
# sh clients/load.sh berta 8 32

# %%
rates = setup.read_rates(models, "berta", instances=(8, 16), clients=(8, 32))
setup.plot_rates(rates)

# %%
times = rates[16] / rates[8]
claim(
    times[8] < 1.3 and times[32] > 1.4,
    f"Twice the instances gave ×{times[8]:.1f} with 8 clients, ×{times[32]:.1f} with 32.",
    "Close other programs and run the cell with load.sh again.",
    premise=setup.at_full_speed(rates),
    id="metrics.clients",
)

# %% [markdown]
# | a large part | says | try, then measure |
# |---|---|---|
# | queue | requests wait | instances, batching, a second machine |
# | compute infer | the model is slow | precision, compilation, another backend |
# | compute input, output | tensors are moved | smaller tensors, shared memory |

# %% [markdown]
# ## Means and quantiles
#
# In `doris` every tenth request takes 100 ms, the others 2 ms. Of 100 requests, 99 take no longer than the 0.99 quantile. Summaries are off by default: `--metrics-config summary_latencies=true`.

# %% tags=["triton"]
for ms in ([2] * 9 + [100]) * 4:
    send("doris", ms)
doris = metrics("doris")
quantiles = doris.filter(like="request_summary_us 0").rename(lambda metric: metric.split()[-1])
us = doris["nv_inference_request_duration_us"] / doris["nv_inference_request_success"]
recent = pd.concat([quantiles, pd.Series({"mean": us})]) / 1000
recent.round(1).to_frame("ms")

# %%
claim(
    recent["0.99"] > 3 * recent["0.5"],
    "The 0.99 quantile shows the slow requests, the median does not; no request takes the mean.",
    "The summary covers a sliding window: wait a minute and run the cell above again.",
    id="metrics.quantiles",
)

# %% [markdown]
# Quantiles of several servers cannot be combined into one. The buckets of a [histogram](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md#histograms) can be added up; [24.11](../../2_backends/14__images/14__images.ipynb#Your-release-has) and later have one, for the first response of decoupled models.
#
# ## Prometheus
#
# Prometheus' config names Triton's port; questions are written in [PromQL](https://prometheus.io/docs/prometheus/latest/querying/basics/). Not run here:
#
# ```yaml
# scrape_configs:
#   - job_name: triton
#     static_configs: [{targets: ["localhost:8002"]}]
# ```
#
# | question | query |
# |---|---|
# | requests per second | `rate(nv_inference_request_success[1m])` |
# | failures by reason | `sum by (reason) (rate(nv_inference_request_failure[1m]))` |
# | mean batch | `rate(nv_inference_count[1m]) / rate(nv_inference_exec_count[1m])` |
# | waiting now | `nv_inference_pending_request_count` |

# %% [markdown]
# From outside, **Performance Analyzer** (`perf_analyzer`) measures one config; **Model Analyzer** tries many, for the best within a limit of latency or memory.
#
# ## Your turn
#
# Eight clients ask `emil` in a loop, and wait long. We divide the counters by hand: which part is largest? Correct the config with `%%writefile {models}/emil/config.pbtxt`; then load it with the `curl` of `load.sh`.

# %% tags=["triton"]
import subprocess

options = "-m emil -i grpc --concurrency-range 8 --input-data zero -p 500 -s 200 -r 20"
ask = ["perf_analyzer", "-u", os.environ["TRITON_GRPC"], *options.split()]
_, emil = growth("emil", lambda: subprocess.check_output(ask))
spans = emil.filter(regex=r"(queue|compute_\w+)_duration") / emil["nv_inference_request_success"]
(spans / 1000).round(1).to_frame("ms per request")

# %%
show(models / "emil/config.pbtxt")
task("metrics.queue", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# Your server is slow, and there is no Prometheus yet. This program says where requests spend their time now:

# %%
show("at_work/bottleneck.py")

# %% tags=["triton"]
load = subprocess.Popen(ask, stdout=subprocess.DEVNULL)  # some load to see
# %run at_work/bottleneck.py 1
_ = load.wait()

# %% [markdown]
# ## What to remember
#
# - Metrics are text at port 8002: counters to divide, gauges to read, summaries for the slow tail.
# - Queue, input, infer, output: the largest part says where to look. Try the cure, and measure at the load that you expect.
# - Failures are counted by reason, but not every error that a client sees is counted.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Inferences grow eight times as fast as executions. A colleague says: the dynamic batcher works. What do you check?</summary>
#
# The number of requests. An execution has 8 rows on average; but if each request brings 8 rows, the batcher joined nothing.
#
# </details>
#
# <details><summary>The queue is empty, infer takes 80 ms, clients see 400 ms. Where do you look?</summary>
#
# Outside the server: network, serialization, the client's own queue. Or the mean hides a slow tail.
#
# </details>
#
# <details><summary>A load test with 50 clients in a loop shows fine latencies. Why may users see others?</summary>
#
# Clients in a loop wait for answers, so they slow down with the server. Users come whether or not others have been served: then the queue grows.
#
# </details>
#
# Next: [what goes over the wire](../09__wire/09__wire.ipynb).
