# ---
# title: Metrics
# minutes: 18
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
import pandas as pd
import psutil

import setup
from workbook import measure
from workbook.lessons import attempt, claim, compare, folder, laboratory, predict, show, task
from workbook.lessons.shared import digits_model
from workbook.zoo.data import digits

models = folder("metrics")
setup.services(models)
lab = laboratory(models, options=["--metrics-config=summary_latencies=true"])

# %% [markdown]
# ## The endpoint
#
# We send one picture to the model `digits`. Then the endpoint says this about its executions:

# %%
digits_model.answers(lab, "digits", digits().x_test[:1])
text = lab.metrics().splitlines()
print(f"{len(text)} lines from {lab.metrics_url}, among them:")
print(
    *[line for line in text if "exec_count" in line and ("#" in line or "digits" in line)], sep="\n"
)
kinds = measure.metrics(lab).groupby("kind")["metric"].nunique()
print(kinds.to_string())

# %% [markdown]
# | kind | it … | you look at |
# |---|---|---|
# | counter | only grows | its growth per second |
# | gauge | goes up and down | its value |
# | summary | sums up how long requests took | its quantiles |
#
# ## CPU and GPU
#
# CPU metrics come from `/proc/stat` and `/proc/meminfo`, on Linux only, once per interval (`--metrics-interval-ms`). `nv_cpu_utilization` is the share of time in which the cores were busy, with any program.

# %%
table = measure.metrics(lab)
gauges = table[table["kind"] == "gauge"].set_index("metric")["value"]
memory = psutil.virtual_memory().total
same = gauges["nv_cpu_memory_total_bytes"] == memory
claim(
    same,
    f"Triton and Linux agree on the memory: {memory / 1e9:.1f} GB.",
    "Does the server run on another machine, or in a container with a limit?",
    id="metrics.cpu",
)
used = gauges["nv_cpu_memory_used_bytes"] / memory
print(f"{used:.0%} of the memory is in use, by all programs of this machine.")
print(f"All cores together were {gauges['nv_cpu_utilization']:.0%} busy in the last interval.")
print("GPU metrics:", [name for name in gauges.index if "gpu" in name] or "none: no GPU here")

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

# %%
names = ["nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count"]
before = setup.counters(lab, "digits")
setup.send_rows(lab, "digits", [1, 8])
grown = (setup.counters(lab, "digits") - before)[names].astype(int)
both = setup.counted(grown, 2)
seen = ", ".join(map(str, grown))
compare("metrics.counts", seen, published="2, 9, 2 (Triton's guide)", premise=both)
claim(
    seen == "2, 9, 2",
    "Eight rows in one request: one request, one execution, eight inferences.",
    "Run this cell again, without other load.",
    premise=both,
    id="metrics.counts",
)

# %% [markdown]
# ## What counts as a failure?
#
# Six requests go wrong: nine rows where eight are allowed; a full queue; a timeout in the queue; a client that cancels; a model that raises; a model that answers with an error.

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

# %%
wrong = setup.go_wrong(lab)
wrong

# %%
failed = setup.all_went_wrong(wrong)
reasons = wrong[setup.REASONS].sum()
seen = {0: "none"}.get(reasons.sum(), str(reasons.sum()))
compare("metrics.failures", seen, premise=failed)
three = list(reasons) == [1, 1, 1, 0] and wrong["success"].sum() == 1
claim(
    three,
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
# Each part is a counter in microseconds; network and client are not in it. [Three services](models/service/1/model.py): anton and berta sleep, so that they need no core; clara copies eight megabytes. Eight clients ask each in a loop. As Prometheus does, we read the counters before and after, and divide their growth.


# %%
def split(model):
    before = setup.counters(lab, model)
    setup.load(lab, model)
    grown = setup.counters(lab, model) - before
    requests = grown["nv_inference_request_success"]
    return {p: grown[f"nv_inference_{p}_duration_us"] / requests / 1000 for p in setup.SPANS}


def all_parts():
    return pd.DataFrame({name: split(name) for name in setup.SERVICES}).T


# %%
parts = attempt(all_parts, setup.only_slept)
setup.plot_shares(parts)

# %%
predict(
    "metrics.cure",
    "Each gets twice its instances: anton 2, berta 16, clara 4. Which of them serves at least 1.5 "
    "times as many requests per second?",
    {
        "anton alone": None,
        "berta alone": "berta's queue is empty: nobody waits for an instance, so more instances "
        "find nothing to do.",
        "clara alone": "clara's requests wait, too. But then they are copied, and more copies at "
        "once compete for the same cores and memory.",
        "more than one": "Two have a queue. But only anton's instances need no core; clara's "
        "share the cores, so each of them gets slower.",
        "none": "anton's requests wait most of their time, and his instances need no core.",
    },
)


# %%
def with_instances(times):
    for name, (count, *_) in setup.SERVICES.items():
        setup.add(models, name, times * count)
        lab.load(name)
    return pd.Series({name: setup.load(lab, name) for name in setup.SERVICES})


def doubled():
    return [with_instances(2), with_instances(1)]


rates = attempt(doubled, setup.undisturbed)
gain = rates[0] / rates[1]
measure.plot_bars(gain.to_frame("gain"), title="Twice the instances", below="times the throughput")

# %%
calm = setup.undisturbed(rates) & setup.only_slept(parts)
faster = list(gain[gain >= 1.5].index)
seen = f"{faster[0]} alone" if len(faster) == 1 else "more than one" if faster else "none"
compare("metrics.cure", seen, premise=calm)
queue = parts["queue"] / parts.sum(axis=1)
foreseen = queue["anton"] > 0.5 and gain["anton"] >= 1.5 and gain["berta"] < 1.5
claim(
    foreseen,
    f"Queues took {queue['anton']:.0%} of anton's time and {queue['berta']:.0%} of berta's; twice the instances gave ×{gain['anton']:.1f} and ×{gain['berta']:.1f}.",
    "Close other programs and run the experiment again.",
    premise=calm,
    id="metrics.cure",
)

# %% [markdown]
# A queue alone promises no gain: clara has one, too, but her instances share the cores.
#
# Can more instances never help berta? Eight clients in a loop have at most eight requests under way, and eight instances compute all of them at once. Now with other numbers of clients:


# %%
def berta(instances):
    setup.add(models, "berta", instances)
    lab.load("berta")
    clients = [4, 8, 16, 32]
    return pd.Series({n: setup.load(lab, "berta", n, 10 * n) for n in clients})


eight, sixteen = setup.full_speed(berta)
grew = sixteen[8] < 1.3 * eight[8] and sixteen[32] > 1.4 * eight[32]
claim(
    grew,
    f"Twice the instances gave ×{sixteen[8] / eight[8]:.1f} with 8 clients, ×{sixteen[32] / eight[32]:.1f} with 32.",
    "Close other programs and run this cell again.",
    premise=setup.at_full_speed((eight, sixteen)),
    id="metrics.clients",
)
setup.plot_rates({"8 instances": eight, "16 instances": sixteen})

# %% [markdown]
# > **Erratum.** The first edition said "more instances do not help" berta. That followed from the eight clients, not from the model.
#
# | a large part | says | try, then measure |
# |---|---|---|
# | queue | requests wait | instances, batching, a second machine |
# | compute infer | the model is slow | precision, compilation, another backend |
# | compute input, output | tensors are moved | smaller tensors, shared memory |

# %% [markdown]
# ## Means and quantiles
#
# In `doris` every tenth request takes 100 ms, the others 2 ms. Of 100 requests, 99 take no longer than the 0.99 quantile. Summaries are off by default: `--metrics-config summary_latencies=true`.

# %%
for ms in ([2] * 9 + [100]) * 6:
    setup.send_at_once(lab, "doris", ms)
samples = measure.metrics(lab).query("model == 'doris'")
summary = samples[samples["metric"] == "nv_inference_request_summary_us"]
recent = summary.set_index("quantile")["value"] / 1000
sums = setup.counters(lab, "doris")
duration, done = (sums[f"nv_inference_request_{name}"] for name in ("duration_us", "success"))
recent["mean"] = duration / done / 1000
tail = recent["0.99"] > 3 * recent["0.5"]
claim(
    tail,
    "The 0.99 quantile shows the slow requests, the median does not; no request takes the mean.",
    "The summary covers a sliding window: wait a minute and run this cell again.",
    id="metrics.quantiles",
)
recent.round(1).to_frame("ms")

# %% [markdown]
# Quantiles of several servers cannot be combined into one. The buckets of a [histogram](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md#histograms) can be added up; [24.11](../../2_backends/14__images/14__images.ipynb#Your-release-has) and later have one, for the first response of decoupled models.
#
# ## Prometheus
#
# The same in [PromQL](https://prometheus.io/docs/prometheus/latest/querying/basics/):
#
# | question | query |
# |---|---|
# | requests per second | `rate(nv_inference_request_success[1m])` |
# | failures by reason | `sum by (reason) (rate(nv_inference_request_failure[1m]))` |
# | mean batch | `rate(nv_inference_count[1m]) / rate(nv_inference_exec_count[1m])` |
# | waiting now | `nv_inference_pending_request_count` |

# %% [markdown]
# **Performance Analyzer** (`measure.perf` runs it) measures from outside: at a given load, how many inferences per second, with which latency? **Model Analyzer** looks for the best config within a limit of latency or memory.
#
# ## Your turn
#
# Eight clients ask `emil` in a loop, and wait long. Find the largest part of their time. Correct the config with `%%writefile {models}/emil/config.pbtxt`, then `lab.load("emil")`.

# %%
show(models / "emil/config.pbtxt")
print(pd.Series(split("emil")).round(1).to_string())
task("metrics.queue", server=lab, models=models)

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
