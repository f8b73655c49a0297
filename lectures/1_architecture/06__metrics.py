# ---
# title: Metrics
# minutes: 20
# ---

# %% [markdown]
# # Metrics
#
# **Question.** Three services are slow. All three get more instances. Which of them profits, and could the numbers have told you before?

# %%
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import psutil
from tritonclient.grpc import InferInput

from workbook import measure
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

models = folder("metrics")

# %% [markdown]
# ## Three patients
#
# The same model several times. It works for some milliseconds (here it sleeps, so that no core is needed), and gives its numbers back. `doris`, the fourth, comes in at the end.

# %%
# %%writefile {models}/patient.py
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        if x[0, 0] < 0:
            raise ValueError("a bug in the model")
        if np.isnan(x[0, 0]):
            return pb_utils.InferenceResponse([], pb_utils.TritonError("not a number"))
        time.sleep(x[0, 0] / 1000)
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", x)])


# %%
CONFIG = """
backend: "python"
max_batch_size: 8
input {{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }}
output {{ name: "y" data_type: TYPE_FP32 dims: [ -1 ] }}
instance_group {{ count: {count} kind: KIND_CPU }}
"""
instances = {"anton": 1, "berta": 8, "clara": 2, "doris": 1}
for name, count in instances.items():
    write(models / name / "config.pbtxt", CONFIG.format(count=count))
    write(models / name / "1/model.py", (models / "patient.py").read_text())

# %%
lab = laboratory(models, options=["--metrics-config=summary_latencies=true"])
client = lab.grpc_client()


def ask(model, ms, numbers=4, rows=1):
    plan = [measure.Request("one", inputs={"x": np.full((rows, numbers), ms, np.float32)})]
    return measure.send(lab, model, plan).error[0]


# %% [markdown]
# ## The endpoint
#
# Triton answers at port 8002 (ours has a port of its own) with plain text. It never sends metrics anywhere: a collector such as [Prometheus](https://prometheus.io/docs/introduction/overview/) fetches them.

# %%
ask("anton", 1)
lines = lab.metrics().splitlines()
start = next(i for i, line in enumerate(lines) if "nv_inference_exec_count" in line)
print(
    f"{len(lines)} lines from {lab.metrics_url}, for example:", *lines[start : start + 5], sep="\n"
)

# %% [markdown]
# | kind | it … | you look at |
# |---|---|---|
# | counter | only grows | its growth a second |
# | gauge | goes up and down | its value |
# | summary | sums up how long requests took | its quantiles |
#
# The 0.99 quantile: 99 of 100 requests took no longer. `measure.metrics` makes a table of it.

# %%
table = measure.metrics(lab)
families = table[~table.metric.str.contains("summary|cache")]
pd.set_option("display.max_colwidth", None)
families.groupby("kind").metric.agg(lambda names: ", ".join(dict.fromkeys(names))).to_frame()

# %% [markdown]
# ## CPU and GPU
#
# CPU metrics come from `/proc/stat` and `/proc/meminfo`, on Linux only; GPU metrics from [DCGM](https://developer.nvidia.com/dcgm). They are read once in an interval (`--metrics-interval-ms`).
#
# `nv_cpu_utilization` is the busy part of all cores together: 0 is idle, 1 is every core busy, with whatever program.

# %%
gauges = measure.metrics(lab).set_index("metric").value
by_triton = gauges["nv_cpu_memory_total_bytes"]
by_linux = psutil.virtual_memory().total
claim(
    by_triton == by_linux,
    f"Triton and /proc/meminfo agree on the memory: {by_linux / 1e9:.1f} GB.",
    "Does the server run on another machine, or in a container with a limit?",
)
gpu = [name for name in gauges.index if name.startswith(("nv_gpu", "nv_energy"))]
print(f"All cores together were {gauges['nv_cpu_utilization']:.0%} busy in the last interval.")
print("GPU metrics:", gpu or "none, no GPU here")

# %% [markdown]
# With a GPU you would see, for each GPU:
#
# | metric | unit |
# |---|---|
# | `nv_gpu_utilization` | 0 to 1 |
# | `nv_gpu_memory_total_bytes`, `nv_gpu_memory_used_bytes` | bytes |
# | `nv_gpu_power_usage`, `nv_gpu_power_limit` | watts |
# | `nv_energy_consumption` | joules since the start |

# %% [markdown]
# ## Counting requests
#
# The guide's [example](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md#counts): a client sends one request with 1 row, then one with 8 rows. No dynamic batching.

# %%
predict(
    "metrics.counts",
    "What do requests, inferences and executions grow by?",
    ["2, 2, 2", "2, 9, 2", "9, 9, 2", "2, 9, 9"],
)


# %%
COUNTS = {
    "nv_inference_request_success": "success",
    "nv_inference_request_failure": "failure",
    "nv_inference_count": "inferences",
    "nv_inference_exec_count": "executions",
}


def sample(model):
    """A model's counters; failures of all reasons together."""
    time.sleep(0.5)  # the server counts a moment after it answers
    table = measure.metrics(lab)
    own = table[(table.model == model) & (table.kind == "counter")]
    return own.groupby("metric").value.sum().rename(COUNTS)


# %%
def send_two():
    before = sample("anton")
    ask("anton", 1, rows=1)
    ask("anton", 1, rows=8)
    return sample("anton") - before


def counted_two(grown):
    return Premise(grown.success == 2, f"two were sent, and the server counted {grown.success:.0f}")


counted = attempt(send_two, counted_two)
compare(
    "metrics.counts",
    "{success:.0f}, {inferences:.0f}, {executions:.0f}".format(**counted),
    published="2, 9, 2 (Triton's guide to metrics)",
    premise=counted_two(counted),
)
claim(
    list(counted[["success", "inferences", "executions"]]) == [2, 9, 2],
    "A request of 8 rows is one request, one execution, and eight inferences.",
    "Run this cell again, without other load.",
    premise=counted_two(counted),
)

# %% [markdown]
# ## What counts as a failure?
#
# Three requests go wrong, each in another place: nine rows where eight are allowed; a model that answers with an error; a model that raises.

# %%
predict("metrics.failures", "How many of the three count as failed requests?", ["0", "1", "2", "3"])

# %%
rows = []
for name, case in {
    "too many rows": {"ms": 1, "rows": 9},
    "answers with an error": {"ms": np.nan},
    "raises": {"ms": -1},
}.items():
    before = sample("berta")
    said = ask("berta", **case).partition("\n")[0]  # a traceback follows
    grown = (sample("berta") - before).astype(int)
    rows.append({"case": name, **grown, "the client reads": said})
failures = pd.DataFrame(rows).set_index("case")
failures[["success", "failure", "executions", "the client reads"]]

# %% [markdown]
# `berta_0_` and a number is an instance's name: the model, its instance group (counted from 0), and the instance in that group. berta has eight.

# %%
silent = [case for case, said in failures["the client reads"].items() if not said]
all_wrong = Premise(not silent, f"these requests went well: {silent}")
compare("metrics.failures", f"{failures.failure.sum():.0f}", premise=all_wrong)
claim(
    failures.loc["too many rows", ["success", "failure"]].sum() == 0,
    "What the core refuses reaches no model and is not counted at all.",
    "Run the cell with the three cases again, without other load.",
    premise=all_wrong,
)
claim(
    failures.loc["answers with an error", "success"] == 1,
    "A model that answers with an error has answered: Triton 24.10 counts a success.",
    "A newer server may count differently: look at the table.",
    premise=all_wrong,
)
claim(
    failures.loc["raises", "failure"] == 1,
    "A model that raises has failed.",
    "A newer server may count differently: look at the table.",
    premise=all_wrong,
)

# %% [markdown]
# So an alarm on failures alone misses most of what clients see. Count errors at the client, or in the model, with a [custom metric](https://github.com/triton-inference-server/python_backend#custom-metrics).

# %% [markdown]
# ## Where the time goes
#
# ![A request's way, with its timestamps](../images/request.svg)
#
# A request's time is split: **queue**, **compute input** (tensors to the backend), **infer**, **compute output** (tensors back). Each is a counter in microseconds. They see the server only: network and client are not in them.

# %%
loads = {"anton": (15, 4), "berta": (60, 4), "clara": (0, 2_000_000)}  # ms, numbers


def load(model, requests=160):
    """Eight clients; each asks again as soon as it has its answer."""
    ms, numbers = loads[model]
    x = np.full((1, numbers), ms, np.float32)
    tensor = InferInput("x", x.shape, "FP32").set_data_from_numpy(x)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: client.infer(model, [tensor]), range(requests)))


# %% [markdown]
# Watch the first patient under load. The view asks the server once a second.

# %%
watched = measure.watch(lab, "anton", lambda: load("anton", 240), title="anton")

# %% [markdown]
# Now all three, one after the other. What Prometheus would do, by hand: read, wait, read again, divide the growth.

# %%
SPANS = ["queue", "compute_input", "compute_infer", "compute_output"]


def split(model):
    before = sample(model)
    load(model)
    grown = sample(model) - before
    return {s: grown[f"nv_inference_{s}_duration_us"] / grown.success / 1000 for s in SPANS}


# %% [markdown]
# berta sleeps 60 ms, whatever happens: if she takes much longer, the machine is busy.


# %%
def only_slept(spans):
    ms, asked = spans.loc["berta", "compute_infer"], loads["berta"][0]
    return Premise(
        ms < 1.25 * asked, f"berta sleeps {asked} ms and took {ms:.0f}: the machine is busy"
    )


spans = attempt(lambda: pd.DataFrame({name: split(name) for name in loads}).T, only_slept)
measure.plot_bars(spans, title="Where a request's time goes", below="ms per request")

# %%
predict(
    "metrics.cure",
    "Each of the three gets twice the instances. Who then serves at least 1.3 times as many "
    "requests a second?",
    ["anton alone", "berta alone", "clara alone", "more than one", "none"],
)


# %%
def throughput(model, requests=160):
    began = time.perf_counter()
    load(model, requests)
    return requests / (time.perf_counter() - began)


def with_instances(times):
    for name in loads:
        write(models / name / "config.pbtxt", CONFIG.format(count=times * instances[name]))
        lab.load(name)
    return pd.Series({name: throughput(name) for name in loads})


# %% [markdown]
# berta is our control: her eight clients have eight instances each time, and she sleeps. If she reaches much less than 8 requests in 60 ms, other programs have the machine.


# %%
def undisturbed(rates):
    part = min(rate["berta"] for rate in rates) * loads["berta"][0] / 1000 / 8
    return Premise(part > 0.7, f"berta, who only sleeps, reached {part:.0%} of her throughput")


after, first = attempt(lambda: [with_instances(2), with_instances(1)], undisturbed)
gain = after / first
measure.plot_bars(gain.to_frame(), title="Twice the instances", below="times the throughput")

# %%
faster = list(gain[gain >= 1.3].index)
right = f"{faster[0]} alone" if len(faster) == 1 else "more than one" if faster else "none"
compare("metrics.cure", right, premise=undisturbed([after, first]))
queue_part = spans["queue"] / spans.sum(axis=1)
claim(
    queue_part["anton"] > 0.5 and gain["anton"] > 1.4,
    f"anton's requests waited in the queue. With twice the instances: ×{gain['anton']:.2f}.",
    "Other programs may keep the cores busy: close them, run the experiment again.",
    premise=undisturbed([after, first]) & only_slept(spans),
)
claim(
    queue_part["berta"] < 0.2 and gain["berta"] < 1.3,
    "berta's queue was nearly empty: the model itself is slow, more instances do not help.",
    "Were there exactly 8 clients? Was the machine busy? Run the experiment again.",
    premise=undisturbed([after, first]) & only_slept(spans),
)

# %% [markdown]
# | a big part | says | try, then measure |
# |---|---|---|
# | queue | requests wait | instances if cores are free, dynamic batching, a second machine |
# | compute infer | the model is slow | precision, compilation, another backend |
# | compute input, output | tensors are moved | smaller tensors, shared memory, preprocessing on the server |
#
# Lecture 3 will take up all three.

# %% [markdown]
# **clara is the trap.** Her bar may show a queue long enough to ask for instances. But a queue says that requests wait, not what a new instance costs. anton's instances sleep: they need no core. clara's copy tensors: they compete for the cores with one another, with the server and with the clients.

# %%
moves = spans[["compute_input", "compute_output"]].sum(axis=1) / spans.sum(axis=1)
claim(
    moves["clara"] > 3 * max(moves["anton"], moves["berta"]),
    f"clara moves tensors for {moves['clara']:.0%} of a request's time; the others hardly do.",
    "Other programs may keep the cores busy: close them, run the experiment again.",
    premise=only_slept(spans),
)
claim(
    gain["clara"] < gain["anton"],
    f"Twice the instances bring ×{gain['clara']:.2f} to clara, ×{gain['anton']:.2f} to anton.",
    "Are many cores free? Give clara more numbers in `loads`, and run the cells from there again.",
    premise=undisturbed([after, first]),
)

# %% [markdown]
# Below ×1, clara's new instances do harm. Much above, this machine had cores to spare. No table knows that beforehand. So look at the next biggest part, too, before you add instances, and measure afterwards.

# %% [markdown]
# ## Means hide, quantiles show
#
# Every tenth request takes 100 ms, the others 2 ms.

# %%
predict("metrics.mean", "What is the mean of all requests' times?", unit="ms")

# %%
for ms in ([2] * 9 + [100]) * 6:
    ask("doris", ms)
table = measure.metrics(lab)
own = table[(table.model == "doris") & (table.metric == "nv_inference_request_summary_us")]
recent = own.set_index("quantile").value / 1000
totals = sample("doris")
recent["mean"] = totals["nv_inference_request_duration_us"] / totals.success / 1000
recent.round(1).to_frame("ms")

# %%
quick = Premise(recent["0.5"] < 20, f"even the median was {recent['0.5']:.0f} ms: a busy machine")
compare("metrics.mean", float(recent["mean"]), unit="ms", premise=quick)
claim(
    recent["0.99"] > 3 * recent["0.5"],
    "The slow requests stand in the 0.99 quantile. The median does not know of them, and the mean "
    "is nobody's time.",
    "The summary covers a sliding window: wait a minute and run the cell before this one again.",
    premise=quick,
)

# %% [markdown]
# Summaries are off by default: `--metrics-config summary_latencies=true`. Quantiles of several servers cannot be added up; [histograms](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md#histograms) can. Later releases have one histogram: how long decoupled models take to their first response.

# %% [markdown]
# ## Prometheus
#
# A collector needs one address:
#
# ```yaml
# scrape_configs:
#   - job_name: triton
#     scrape_interval: 5s
#     static_configs:
#       - targets: ["localhost:8002"]
# ```

# %% [markdown]
# The same questions in its language, [PromQL](https://prometheus.io/docs/prometheus/latest/querying/basics/):
#
# | question | query |
# |---|---|
# | requests a second | `rate(nv_inference_request_success[1m])` |
# | mean batch | `rate(nv_inference_count[1m]) / rate(nv_inference_exec_count[1m])` |
# | mean ms in the queue | `rate(nv_inference_queue_duration_us[1m]) / rate(nv_inference_request_success[1m]) / 1000` |
# | waiting now | `nv_inference_pending_request_count` |

# %% [markdown]
# Two tools measure from the outside. **Performance Analyzer** makes load and finds the latency at each level (`measure.perf` runs it). **Model Analyzer** tries many configs. Lecture 3 will use both.

# %%
client.close()
lab.stop()

# %% [markdown]
# ## What to remember
#
# - Metrics are text at port 8002: counters to divide, gauges to read, summaries for the slow tail.
# - Queue, input, infer, output: the parts say where to look. Then try the cure, and measure.
# - Not all that clients call an error counts as a failure.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Inferences grow by 6,400 a minute, executions by 800. What do you know?</summary>
#
# An execution has 8 rows on average: by clients' own batches, by the dynamic batcher, or both.
#
# </details>
#
# <details><summary>The queue is empty, infer takes 80 ms, clients see 400 ms. Where do you look?</summary>
#
# Outside the server: network, serialization, the client's own queue. Or the mean hides a slow tail.
#
# </details>
#
# <details><summary>Why is <code>nv_inference_queue_duration_us</code> useless as it stands?</summary>
#
# It is a sum since the start. Divide its growth by the growth of the requests.
#
# </details>

# %% [markdown]
# Next: [ways in](07__ways_in.ipynb).
