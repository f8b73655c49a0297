# ---
# title: The dynamic batcher
# minutes: 17
# ---

# %% [markdown]
# # The dynamic batcher
#
# **Question.** Often a model computes eight rows in one call much faster than in eight calls. Clients send single rows. Who joins them, and how much longer does each request take?
#
# The *dynamic batcher* does. It stands between the queue of a stateless model and its instances ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#dynamic-batcher)):
#
# ![Triton; marked is the dynamic batcher](architecture.svg)

# %%
import numpy as np

import setup
from workbook import measure, zoo
from workbook.lessons import attempt, claim, compare, folder, laboratory, predict, show, task
from workbook.lessons.runs import record
from workbook.lessons.shared import digits_model, sleeper

models = folder("dynamic_batcher")

# %% [markdown]
# ## A model that takes 20 ms
#
# First a model that sleeps 20 ms per execution, with one row or with eight, so that a figure shows only what the batcher does. Three configs differ in what they say about batching.

# %%
sleeper.add(models, "none", "")
sleeper.add(models, "eager", "dynamic_batching { }")
patient = "dynamic_batching { max_queue_delay_microseconds: 100000 }"
sleeper.add(models, "patient", patient)
setup.crowded(models)
show(models / "eager/config.pbtxt")
lab = laboratory(models)
print("as Triton completes it:", lab.config("eager")["dynamic_batching"])

# %% [markdown]
# ## Load
#
# With `dynamic_batching { }` alone, the batcher may join requests, up to `max_batch_size`. No delay is set.

# %%
from workbook.lessons import compare_curve, predict_curve, sent_as_planned, slots

predict_curve(
    "batcher.load",
    "Requests come at a steady pace. How many of them share an execution, on average?",
    x=[25, 50, 100, 200, 400],
    y_range=(0, 8),
    unit="requests per execution",
    below="requests per second",
)

# %%
rates = [25, 50, 100, 200, 400]


def at_all_rates():
    return [record(lab, "eager", measure.every(1000 / rate, 32)) for rate in rates]


def all_on_time(runs):
    return sent_as_planned(runs[0].answers, 40) & sent_as_planned(runs[-1].answers, 2.5)


loads = attempt(at_all_rates, all_on_time)
sizes = [run.count("batch_size") for run in loads]
compare_curve("batcher.load", rates, sizes, premise=all_on_time(loads))

# %%
print(measure.batch_sizes(loads[3].counts)[["batch_size", "executions"]].to_string(index=False))
slots.draw(loads[3].places, most=8)

# %% [markdown]
# This is the run with 200 requests per second. Each execution takes what arrived during the one before; dashed slots stayed empty. Below 50 requests per second, each one finds an idle instance, and is computed alone.
#
# The proof of batching is in the [statistics](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md): fewer executions than requests. Here a request is one row, one inference.

# %%
busy, none = loads[3], record(lab, "none", measure.every(5, 32))
fewer = busy.count("executions") < busy.count("inferences")
each = none.count("executions") == none.count("inferences")
claim(
    fewer and each,
    f"Batched: {busy.count('executions'):.0f} executions for {busy.count('inferences'):.0f} "
    f"inferences; not batched: {none.count('executions'):.0f} for {none.count('inferences'):.0f}.",
    "Look at the configs of eager and none: only eager has dynamic_batching.",
    premise=all_on_time(loads),
    id="batcher.executions",
)
slots.draw(none.places)

# %% [markdown]
# Without `dynamic_batching`, each request waits longer than the one before: the model is too slow for this load.
#
# ## A delay
#
# `max_queue_delay_microseconds` lets the batcher hold requests back. Now the load is light: a request every 30 ms.

# %%
predict(
    "batcher.delay",
    "With a delay of up to 100 ms, what happens to the mean time of a request?",
    {
        "it falls: batches are efficient": "A batch saves time if requests would wait for the instance. "
        "Here each of them finds it idle.",
        "it stays: nobody has to wait for an idle instance": "The instance is idle, but the "
        "batcher holds the request back until its delay is over.",
        "it grows: requests wait for others": None,
    },
)


# %%
def both():
    return [record(lab, name, measure.every(30, 32)) for name in ("eager", "patient")]


def light(runs):
    return setup.alone(runs[0]) & sent_as_planned(runs[1].answers, 30)


calm = attempt(both, light)
setup.plot_waits({"no delay": calm[0], "up to 100 ms": calm[1]})

# %%
size, ms = ([run.count(name) for run in calm] for name in ("batch_size", "request_ms"))
grew = "it grows: requests wait for others"
stays = "it stays: nobody has to wait for an idle instance"
seen = grew if ms[1] > 1.2 * ms[0] else stays
compare("batcher.delay", seen, premise=light(calm))
both_grew = size[1] > 1.5 * size[0] and ms[1] > ms[0]
claim(
    both_grew,
    f"The mean batch grew from {size[0]:.1f} to {size[1]:.1f}, a request from {ms[0]:.0f} to {ms[1]:.0f} ms.",
    "Run the cell before this one again.",
    premise=light(calm),
    id="batcher.delay",
)

# %% [markdown]
# So start without a delay. If the latency is within your budget and you want more throughput, raise `max_batch_size`, or the delay, or both, and measure: so says the [recommended process](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#recommended-configuration-process).
#
# ## A simulator
#
# The course has a simulator of Triton's scheduler. Move the sliders; the button sends the same plan to Triton.


# %%
from workbook.lessons import simulated


def setting(every_ms, delay_ms, prefers):
    batching = {"max_queue_delay_microseconds": 1000 * delay_ms}
    sizes = {"preferred_batch_size": [prefers]} if prefers else {}
    return {**batching, **sizes}, measure.every(every_ms, 24)


values = {
    "every_ms": [15, 5, 10, 30],
    "delay_ms": [100, 0, 20, 50],
    "prefers": [4, 0],
}
bench = simulated.explore(lab, "patient", setting, duration_ms=20, **values)

# %% [markdown]
# `preferred_batch_size: [ 4 ]` ends the delay as soon as four requests are there. A smaller batch is computed when its oldest request has waited for the whole delay. Set `prefers` to 0 to see what it changes.
#
# Does the real server agree? In the figure, the frames are its executions:


# %%
def ask_triton():
    return bench.serve(every_ms=15, delay_ms=100, prefers=4)


served = attempt(ask_triton, lambda run: run.premise)
fours = served.agrees and served.run.sizes.count(4) > 3
claim(
    fours,
    "Triton formed the batches that the simulator expected, of the preferred size.",
    "Run this cell again.",
    premise=served.premise,
    id="batcher.preferred",
)
served

# %% [markdown]
# [Leave preferred sizes out](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#preferred-batch-sizes), unless some sizes are much faster than others, as with a TensorRT engine that has profiles for them.
#
# ## Digits, three times
#
# Now no sleeping. One small network reads digits in three frameworks, each without and with `dynamic_batching { }`. Correctness first:

# %%
pairs = setup.digits(models)
pictures = zoo.data.digits().x_test[:32]
for alone, batched in pairs.values():
    lab.load(alone), lab.load(batched)
    found = [digits_model.answers(lab, name, pictures) for name in (alone, batched)]
    print(f"{batched}: largest difference {np.abs(found[0] - found[1]).max():.1e}")

# %% [markdown]
# OpenVINO's model is compiled for exactly eight rows: a lone picture is padded with seven empty ones. ONNX Runtime and PyTorch compute as many rows as there are. For ONNX models, this course's server calls ONNX Runtime directly, without Python.

# %%
predict(
    "batcher.gain",
    "32 requests are under way at any time. Which framework gains most by batching?",
    {
        "ONNX Runtime": "It is the fastest one by one: a call costs little beyond its rows, and only "
        "that part is shared in a batch.",
        "PyTorch": "A call costs more than in ONNX Runtime. But a lone row is not padded, as it is "
        "in OpenVINO.",
        "OpenVINO": None,
        "all three alike": "The requests of a batch share what one call costs, and that differs.",
    },
)


# %%
def rate(model):
    table = measure.perf(lab, model, concurrency=32, interval_ms=300, stability=1e6, trials=3)
    return table["throughput"].item()


speed = attempt(lambda: setup.in_turn(rate, pairs), setup.one_gains_most)
setup.plot_gains(speed)

# %%
gain = speed["batched"] / speed["one by one"]
others = "×3.3 for text recognition on an A100 (Triton tutorials, part 2)"
agreed = setup.repeated(speed)
compare("batcher.gain", gain.idxmax(), published=others, premise=setup.one_gains_most(speed))
claim(
    gain.max() > 1.5,
    f"Batching multiplied the throughput on this CPU by {gain.min():.1f} to {gain.max():.1f}.",
    "Close other programs, and run the cell before this one again.",
    premise=agreed,
    id="batcher.gain",
)

# %% [markdown]
# A Python model gets a list of requests, and has to join the rows; a loop computes them one by one.
#
# ## Your turn
#
# Somebody configured `crowded`, OpenVINO's digits, for large batches. Now a lone request takes too long. Correct its config (a new cell with `%%writefile {models}/crowded/config.pbtxt`), so that lone requests are quick and many are batched. Load it with `lab.load("crowded")`.

# %%
show(models / "crowded/config.pbtxt")
task("batcher.crowded", server=lab, models=models)

# %% [markdown]
# ## What to remember
#
# - Batches form under load, without a delay. A delay makes them larger; at a light load, each request takes longer.
# - Proof of batching: fewer executions than requests.
# - A batch shares what a call costs beyond its rows. How much that gains differs from model to model: measure it.

# %% [markdown]
# ## Check yourself
#
# <details><summary>"Dynamic batching does not batch", says a user who tests with one blocking client. Why?</summary>
#
# One request is under way at a time. There is never a second one in the queue to join it with. A delay would only slow the client down.
#
# </details>
#
# <details><summary>With a batcher, executions are a quarter of the requests, but the throughput has not changed. Name two possible causes.</summary>
#
# The model loops over its requests and computes each alone. Or the clients are the limit: they send no faster than before.
#
# </details>
#
# <details><summary>A request every 12 ms, executions of 20 ms, two instances, no delay. What share of requests is batched?</summary>
#
# None: when a request comes, one of the two instances is always free.
#
# </details>
#
# Next: [queue policies](../06__queue_policies/06__queue_policies.ipynb).
