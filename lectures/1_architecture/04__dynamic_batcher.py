# ---
# title: The dynamic batcher
# minutes: 25
# ---

# %% [markdown]
# # The dynamic batcher
#
# **Question.** Hardware likes big batches. Clients send single rows. Who brings them together, and what does the waiting cost?

# %% [markdown]
# The dynamic batcher sits between the queue and the instances of a stateless model. It joins requests that wait, up to `max_batch_size`, and hands them over as one execution ([documentation](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md)).

# %% [markdown]
# ![A request's way: queue, then input, infer, output](../images/request.svg)

# %% [markdown]
# ## Seven configs of one model
#
# The model takes 20 ms whether it gets one row or eight, as a GPU often does. So we see the batcher and nothing else.

# %%
import shutil
from collections import namedtuple

import numpy as np

from workbook import measure
from workbook.lessons import (
    Premise,
    attempt,
    claim,
    compare,
    folder,
    laboratory,
    predict,
    sent_as_planned,
    steady,
    write,
)

models = folder("dynamic_batcher")

# %%
# %%writefile {models}/model.py
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.02)
        found = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", 2 * x)]) for x in found]


# %%
base = """\
backend: "python"
max_batch_size: 8
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
model_warmup [ { name: "zeros" batch_size: 1 inputs {
  key: "X" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } } ]
"""
delay = "max_queue_delay_microseconds: 100000"
hurry = "timeout_action: REJECT default_timeout_microseconds: 50000"

# %%
variants = {
    "none": "",
    "eager": "dynamic_batching { }",
    "patient": f"dynamic_batching {{ {delay} }}",
    "choosy": f"dynamic_batching {{ preferred_batch_size: [ 4 ] {delay} }}",
    "ranked": "dynamic_batching { priority_levels: 2 default_priority_level: 2 }",
    "short": "dynamic_batching { default_queue_policy { max_queue_size: 4 } }",
    "hasty": f"dynamic_batching {{ default_queue_policy {{ {hurry} }} }}",
}

# %%
for name, batching in variants.items():
    write(models / name / "config.pbtxt", base + batching)
    (models / name / "1").mkdir(exist_ok=True)
    shutil.copy(models / "model.py", models / name / "1")
lab = laboratory(models)


# %%
Run = namedtuple("Run", "answers spans counts")


def record(model, plan):
    before = measure.statistics(lab, model)
    with measure.recording(lab) as seen:
        answers = measure.send(lab, model, plan)
    return Run(answers, seen.spans, measure.difference(before, measure.statistics(lab, model)))


# %% [markdown]
# The premise of most experiments here: requests were sent as planned. `attempt` runs an experiment again, three times at most, when its premise does not hold.


# %%
def planned(ms):
    return lambda run: sent_as_planned(run.answers, ms)


def within(ms):
    def premise(run):
        took = run.answers["sent_ms"].max() - run.answers["sent_ms"].min()
        return Premise(took < ms, f"sending the requests took {took:.0f} ms, not less than {ms} ms")

    return premise


# %% [markdown]
# ## How a batch forms
#
# `dynamic_batching { }` waits for nobody. It takes what is in the queue whenever an instance is free.

# %%
predict(
    "batcher.size",
    "A request every 5 ms, 20 ms an execution, no delay. How many requests share an execution?",
)

# %%
eager = attempt(lambda: record("eager", measure.every(5, 40)), planned(5))
measure.plot_timeline(eager.spans)

# %%
compare("batcher.size", eager.counts["batch_size"].item(), premise=planned(5)(eager))
inferences, executions = (eager.counts[name].item() for name in ("inferences", "executions"))
claim(
    executions < inferences,
    f"Batching happened: {inferences} requests, {executions} executions.",
    "Look at the config: is dynamic_batching there, is max_batch_size above 1?",
    premise=planned(5)(eager),
)

# %% [markdown]
# The batch is what arrived during the execution before: 20 ms at one every 5 ms. **Load makes batches.** Under little load there are none, and none are needed.

# %% [markdown]
# This is the proof to ask for, whatever a config says: *executions fewer than inferences*, from the [statistics extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md).

# %%
none = record("none", measure.every(5, 40))
claim(
    none.counts["executions"].item() == none.counts["inferences"].item(),
    "Without the block each request is an execution, however long the queue.",
    "The config of `none` must not mention dynamic_batching.",
)
measure.plot_timeline(none.spans)

# %% [markdown]
# Every request waits longer than the one before it: the model is too slow for the load. Batches saved us above.

# %% [markdown]
# ## Waiting on purpose
#
# `max_queue_delay_microseconds` lets the batcher hold a request back until others come. Now the load is light: one request every 30 ms, 20 ms an execution.

# %%
predict(
    "batcher.delay",
    "Light load. With a delay of up to 100 ms, what happens to a request's mean time?",
    ["it falls: batches are efficient", "it stays", "it grows: requests wait for company"],
)


# %%
def both():
    return [record(name, measure.every(30, 32)) for name in ("eager", "patient")]


def was_light(runs):
    size = runs[0].counts["batch_size"].item()
    light = Premise(size < 1.3, f"the load was not light: without a delay, batches of {size:.1f}")
    return planned(30)(runs[0]) & planned(30)(runs[1]) & light


calm, patient = attempt(both, was_light)
measure.plot_timeline(patient.spans)

# %%
measure.plot_batches({"no delay": calm.counts, "up to 100 ms": patient.counts})

# %%
times = [run.counts["request_ms"].item() for run in (calm, patient)]
print(f"no delay {times[0]:.0f} ms, up to 100 ms {times[1]:.0f} ms per request")
fell = "it falls: batches are efficient" if times[1] < times[0] / 1.2 else "it stays"
grew = "it grows: requests wait for company" if times[1] > 1.2 * times[0] else fell
compare("batcher.delay", grew, premise=was_light([calm, patient]))

# %%
claim(
    patient.counts["batch_size"].item() > 1.5 * calm.counts["batch_size"].item(),
    "A delay makes larger batches.",
    "Run the cells again: on a busy machine `eager` may have batched too.",
    premise=was_light([calm, patient]),
)
claim(
    times[1] > times[0],
    "Under light load the batches grew, but each request took longer.",
    "Run the cells again.",
    premise=was_light([calm, patient]),
)

# %% [markdown]
# So start with no delay. Add one when instances are busy, batches stay small, and your latency target leaves room. [The documentation](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#recommended-configuration-process) says the same.

# %% [markdown]
# ## Preferred sizes
#
# With `preferred_batch_size: [ 4 ]` the delay ends as soon as four requests are there. Smaller batches go only when the oldest request has waited too long.

# %%
choosy = attempt(lambda: record("choosy", measure.every(15, 32)), planned(15))
open_minded = attempt(lambda: record("patient", measure.every(15, 32)), planned(15))
measure.plot_batches(
    {
        "up to 100 ms": open_minded.counts,
        "up to 100 ms, prefers 4": choosy.counts,
    }
)

# %%
share = measure.batch_sizes(choosy.counts).set_index("batch_size")["share"].get(4, 0)
claim(
    share > 0.5,
    f"{share:.0%} of the executions have the preferred size.",
    "Requests must arrive steadily: close other programs and run the cell again.",
    premise=planned(15)(choosy),
)

# %% [markdown]
# Use it for a model that is built for certain sizes, such as a TensorRT engine with profiles. For most models leave it out.

# %% [markdown]
# ## Priorities
#
# `priority_levels: 2` gives two queues. A request names its level: 1 is the most urgent. A crowd of ordinary requests waits all the time; now and then comes an urgent one.

# %%
predict(
    "batcher.urgent",
    "Sixteen ordinary requests are always waiting. How long does an urgent one wait?",
    [
        "it goes with the next batch or the one after",
        "as long as the others",
        "longer than they do",
    ],
)

# %%
ordinary = measure.every(0.5, 16, name="a") + measure.every(2.5, 40, name="b", after_ms=8)
urgent = [measure.Request(f"u{i}", 30 + 15 * i, priority=1) for i in range(4)]


def found_a_queue(run):
    places = measure.executions(run.spans)
    others = [
        ((places.queued_ms < row.queued_ms) & (places.start_ms > row.queued_ms)).sum()
        for row in places[places["request_id"].str.startswith("u")].itertuples()
    ]
    return Premise(min(others) >= 8, f"an urgent request found only {min(others)} others waiting")


ranked = attempt(lambda: record("ranked", ordinary + urgent), found_a_queue)

# %%
places = measure.executions(ranked.spans)
places["urgent"] = places["request_id"].str.startswith("u")
measure.plot_timeline(
    ranked.spans,
    group=lambda name: "urgent" if name[0] == "u" else "ordinary",
    until_ms=places.loc[places["urgent"], "end_ms"].max(),
)

# %%
places["waited"] = places["start_ms"] - places["queued_ms"]
waited = places.groupby("urgent")["waited"].median()
starts = places["start_ms"].unique()
passed = [
    ((starts > row.queued_ms) & (starts <= row.start_ms)).sum()
    for row in places[places["urgent"]].itertuples()
]
soon = "it goes with the next batch or the one after"
late = "as long as the others" if waited[True] < 1.2 * waited[False] else "longer than they do"
right = soon if np.median(passed) <= 2 else late
compare("batcher.urgent", right, premise=found_a_queue(ranked))

# %%
claim(
    waited[True] < waited[False],
    f"Urgent requests waited {waited[True]:.0f} ms, ordinary ones {waited[False]:.0f} ms.",
    "Run the three cells before this one again: the urgent ones must find a queue.",
    premise=found_a_queue(ranked),
)

# %% [markdown]
# > **Note.** The figure ends with the last urgent request. With priorities, queue sizes or timeouts, the batcher of this release may sleep for up to half a second when no new request arrives, though others wait ([source](https://github.com/triton-inference-server/core/blob/main/src/dynamic_batch_scheduler.cc)). New requests wake it.

# %% [markdown]
# An execution under way is never interrupted. Priority changes who goes next.

# %% [markdown]
# ## Queue policy: when to say no
#
# A queue without end turns a rush into minutes of waiting. `max_queue_size: 4` refuses at the door what does not fit.

# %%
predict(
    "batcher.refused",
    "30 requests within 3 ms, one instance, batches of up to 8, a queue of 4. How many are refused?",
)

# %%
rush = attempt(lambda: record("short", measure.every(0.1, 30)), within(20))
refused = rush.answers[rush.answers["error"] != ""]
compare("batcher.refused", float(len(refused)), premise=within(20)(rush))
print(*refused["error"].unique())

# %%
failures = rush.counts["failures"].item()
print(f"{len(refused)} refused; the server counted {failures} failures")
claim(
    0 < len(refused) < 30 and refused["ms"].median() < rush.answers["ms"].median() + 20,
    "A full queue refuses at once, without waiting.",
    "Did all requests arrive in time? Run the cell again.",
    premise=within(20)(rush),
)

# %% [markdown]
# Usually one goes at once, four wait, and the others find no place: with a queue of 4, no batch of 8 can form. Thirty requests within 3 ms overtake one another, so the refused ones need not be the last.
#
# Compare the two numbers above. Does your alarm see refusals?

# %%
claim(
    failures == 0,
    "This release does not count refusals of a full queue as failures: count them at the client.",
    "A later release may count them: look at the two numbers above.",
)

# %% [markdown]
# ## Timeouts
#
# A timeout bounds the time *in the queue*, not the computation. `REJECT` answers with an error; `DELAY` puts the request behind all others. With `allow_timeout_override` a client may name a shorter one.


# %%
def overloaded(run):
    computed = measure.executions(run.spans)
    longest = (computed["end_ms"] - computed["start_ms"]).max()
    as_ever = Premise(longest < 30, f"an execution took {longest:.0f} ms instead of 20")
    return within(100)(run) & as_ever


hasty = attempt(lambda: record("hasty", measure.every(1, 60)), overloaded)
timed_out = hasty.answers[hasty.answers["error"] != ""]
print(f"{len(timed_out)} of {len(hasty.answers)}: {', '.join(timed_out['error'].unique())}")
measure.plot_timeline(hasty.spans)

# %%
computed = measure.executions(hasty.spans)
longest = (computed["start_ms"] - computed["queued_ms"]).max()
claim(
    len(timed_out) > 0 and longest < 75,
    f"No request that was computed had waited much longer than 50 ms: {longest:.0f} ms at most.",
    "Run the cell before this one again: there must be more requests than the model can answer.",
    premise=overloaded(hasty),
)

# %% [markdown]
# Requests that were refused have no row: no instance ever saw them. That is the point: the time goes to those who still wait for their answer.

# %% [markdown]
# ## A real model
#
# Now no sleeping: a forest of 100 trees that reads digits. Calling a tree costs far more than one row in it. A GPU's kernels have such a price per call, too; batches share it.

# %%
# %%writefile {models}/forest.py
import numpy as np
import triton_python_backend_utils as pb_utils
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier


class TritonPythonModel:
    def initialize(self, args):
        x, y = load_digits(return_X_y=True)
        self.forest = RandomForestClassifier(100, random_state=0).fit(x, y)

    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        found = self.forest.predict_proba(np.concatenate(rows)).astype(np.float32)
        parts = np.split(found, np.cumsum([len(x) for x in rows])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", part)]) for part in parts]


# %% [markdown]
# `np.concatenate` matters: a model that loops over the requests is *called* in batches, and computes one by one all the same.

# %%
forest = base.replace("dims: [ 1 ]", "dims: [ 64 ]").replace("size: 8", "size: 16")
forest = forest.replace(
    '"Y" data_type: TYPE_FP32 dims: [ 64 ]', '"Y" data_type: TYPE_FP32 dims: [ 10 ]'
)
for name, batching in {"single": "", "batched": "dynamic_batching { }"}.items():
    write(models / name / "config.pbtxt", forest + batching)
    (models / name / "1").mkdir(exist_ok=True)
    shutil.copy(models / "forest.py", models / name / "1" / "model.py")
    lab.load(name)

# %% [markdown]
# Correctness first: sixteen different rows, one by one and in batches.

# %%
x = np.random.default_rng(0).integers(0, 17, (16, 1, 64)).astype(np.float32)
plan = [measure.Request(f"r{i}", inputs={"X": row}) for i, row in enumerate(x)]
answers = {name: measure.send(lab, name, plan)["outputs"] for name in ("single", "batched")}
pairs = zip(answers["single"], answers["batched"])
same = all(np.array_equal(one["Y"], many["Y"]) for one, many in pairs)
claim(same, "Both give the same probabilities.", "Restart the kernel and run all cells.")

# %%
predict(
    "batcher.gain",
    "16 requests under way at any time. How many times the throughput does batching give?",
    unit="×",
)

# %% [markdown]
# `measure.perf` runs NVIDIA's Performance Analyzer, which keeps 16 requests under way. Three rounds, one way after the other, and the best of each: what else runs on this machine disturbs both alike.


# %%
def throughput(name):
    table = measure.perf(lab, name, concurrency=16, interval_ms=500, stability=1e6, trials=3)
    return table.iloc[0]


# %%
def agree(rounds):
    single, batched = zip(*rounds)
    return steady([r["throughput"] for r in single], 2) & steady(
        [r["throughput"] for r in batched], 2
    )


rounds = attempt(lambda: [(throughput("single"), throughput("batched")) for _ in range(3)], agree)
best = [max(one_way, key=lambda row: row["throughput"]) for one_way in zip(*rounds)]

# %%
gain = best[1]["throughput"] / best[0]["throughput"]
compare(
    "batcher.gain",
    gain,
    unit="×",
    published="×3.3 on an A100 (Triton tutorials, part 2); ×3.7 (optimization guide)",
    premise=agree(rounds),
)

# %%
claim(
    best[1]["executions"] < best[1]["inferences"] / 2,
    "More than two requests per execution, on average.",
    "Raise the concurrency to 32; close programs that use the processor.",
    premise=agree(rounds),
)
claim(
    gain > 1.5,
    "Batching pays, also on a CPU: many rows share the price of a call.",
    "Close programs that use the processor and run the two measurements again.",
    premise=agree(rounds),
)

# %% [markdown]
# Your gain may be far from the published ones: it depends on the model. Here the price of calling a hundred trees is nearly all of the time, and a batch shares it.
#
# On a GPU there is a second gain: thousands of lanes that one row leaves empty.

# %% [markdown]
# `watch` runs a load and looks at the model meanwhile. On the left the batches, in the middle where a request's time goes, on the right the throughput. First one by one:


# %%
def load(name):
    measure.perf(lab, name, concurrency=16, interval_ms=1500, stability=1e6, trials=3)


single = measure.watch(lab, "single", lambda: load("single"), title="one by one")

# %% [markdown]
# And with the batcher:

# %%
batched = measure.watch(lab, "batched", lambda: load("batched"), title="dynamic batching")

# %%
waiting = [seen["queue_ms"].median() for seen in (single, batched)]
claim(
    waiting[1] < waiting[0] and batched["batch_size"].median() > 1.5,
    f"Less queue: {waiting[0]:.0f} ms before, {waiting[1]:.0f} ms now. Executions carry company.",
    "Close programs that use the processor and run the two cells before this one again.",
)

# %%
lab.stop()

# %% [markdown]
# ## What to remember
#
# - Load makes batches; a delay makes them larger and costs latency.
# - Proof of batching: executions fewer than inferences.
# - Priorities, queue sizes and timeouts decide who waits and who is refused. Decide it yourself.

# %% [markdown]
# ## Check yourself
#
# <details><summary>"Dynamic batching does not batch", says a user who tests with one blocking client. Why?</summary>
#
# One request at a time is under way. There is never a second one in the queue to join it with.
#
# </details>
#
# <details><summary>Your model's <code>execute</code> loops over the requests and computes each alone. What do the counts say, and what the throughput?</summary>
#
# The counts look batched. The throughput does not move: nothing was computed together. Concatenate first.
#
# </details>
#
# <details><summary>Why is a short queue kinder than a long one?</summary>
#
# Whoever is refused at once can try elsewhere. Whoever waits for minutes has given up before the answer comes, and it is computed all the same.
#
# </details>

# %% [markdown]
# Next: [the model repository manager](05__model_repository_manager.ipynb).
