# ---
# title: Schedulers
# minutes: 25
# ---

# %% [markdown]
# # Schedulers
#
# **Question.** Six requests arrive at once. Who is computed when, where, and together with whom?

# %% [markdown]
# Every model has one scheduler. Its config decides which. We will *see* each of them work, in traces of a real server.

# %% [markdown]
# ![Default, dynamic batcher, ensemble, sequence batcher direct and oldest, decoupled](../images/schedulers.svg)

# %% [markdown]
# | a model is | it | scheduler |
# |---|---|---|
# | stateless | treats each request alone | default, or the dynamic batcher |
# | stateful | remembers earlier requests | sequence batcher: direct or oldest |
# | an ensemble | is a graph of other models | ensemble scheduler |
#
# Source: [models and schedulers](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/architecture.md#models-and-schedulers).

# %% [markdown]
# ## A model that shows its seat
#
# It takes 20 ms, whatever it is given. It answers with its `SLOT`: the request's place in the list that `execute` got.

# %%
import shutil
from collections import namedtuple

from workbook import measure
from workbook.lessons import (
    Premise,
    answered_before,
    arrived_together,
    attempt,
    claim,
    compare,
    folder,
    laboratory,
    predict,
    write,
)

models = folder("schedulers")

# %%
# %%writefile {models}/model.py
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.02)
        seats = [np.array([[i]], np.int32) for i in range(len(requests))]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SLOT", seat)]) for seat in seats]


# %% [markdown]
# One model file, five configs. Only what is said about scheduling differs. The *warm-up* runs once in each instance before the model is ready, so that no first request is slow.

# %%
base = """\
backend: "python"
max_batch_size: 4
input [ { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "SLOT" data_type: TYPE_INT32 dims: [ 1 ] } ]
model_warmup [ { name: "zeros" batch_size: 1 inputs {
  key: "X" value { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } } } ]
"""
one = "instance_group [ { kind: KIND_CPU count: 1 } ]\n"
variants = {
    "alone": one,
    "pair": "instance_group [ { kind: KIND_CPU count: 2 } ]\n",
    "together": one + "dynamic_batching { }\n",
}

# %% [markdown]
# A stateful model also gets *control inputs*. A *slot* is a row of the batch: the server tells the model which slots hold a request (`READY`), and where a sequence starts (`START`).

# %%
control = """
  control_input [
    { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
    { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }
  ]
}
"""
variants["direct"] = one + "sequence_batching { direct { }" + control
variants["oldest"] = one + "sequence_batching { oldest { max_candidate_sequences: 4 }" + control

# %%
for name, scheduling in variants.items():
    write(models / name / "config.pbtxt", base + scheduling)
    (models / name / "1").mkdir(exist_ok=True)
    shutil.copy(models / "model.py", models / name / "1")

# %% [markdown]
# And an ensemble: `alone`, then `pair`. It has a config and an empty version folder, no file of its own. In the maps, `key` is a tensor of the step's model, `value` its name within the ensemble. Version -1 is the newest.

# %%
chain = """\
platform: "ensemble"
max_batch_size: 4
input [ { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "SLOT" data_type: TYPE_INT32 dims: [ 1 ] } ]
ensemble_scheduling { step [
  { model_name: "alone" model_version: -1
    input_map { key: "X" value: "X" } output_map { key: "SLOT" value: "middle" } },
  { model_name: "pair" model_version: -1
    input_map { key: "X" value: "middle" } output_map { key: "SLOT" value: "SLOT" } }
] }
"""
write(models / "chain" / "config.pbtxt", chain)
(models / "chain" / "1").mkdir(exist_ok=True)

# %% [markdown]
# A *trace* says when each request came, waited and was computed. Tracing a server of our own disturbs nobody: `recording` switches Triton's [trace extension](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/trace.md) on for a moment. `measure.every(1, 6)` plans six requests, 1 ms apart.

# %%
lab = laboratory(models)
Run = namedtuple("Run", "answers spans")


def record(model, plan):
    with measure.recording(lab) as seen:
        answers = measure.send(lab, model, plan)
    return Run(answers, seen.spans)


# %% [markdown]
# Other programs can delay our requests; then we would see something else than the scheduler. So each experiment has a premise, and `attempt` runs it again, three times at most, when the premise does not hold. The first one: all requests arrived before the first was answered.


# %%
def together(run):
    places = measure.executions(run.spans)
    return arrived_together(places[places["model"] == places["model"].iloc[0]])


# %% [markdown]
# ## Default: one by one

# %%
predict(
    "schedulers.last",
    "Six requests arrive nearly at once, one instance, 20 ms each. How long does the last one wait?",
    unit="ms",
)

# %%
one_by_one = attempt(lambda: record("alone", measure.every(1, 6)), together)
single = measure.executions(one_by_one.spans)
measure.plot_timeline(one_by_one.spans)

# %% [markdown]
# Above: one row per request. The thin line is its time in the queue, the thick one its computation. Below: what the instance did. In the code, a `lane` is a row of the lower panel: one instance.

# %%
waits = single["start_ms"] - single["queued_ms"]
compare("schedulers.last", waits.max(), unit="ms", premise=together(one_by_one))
claim(
    single["lane"].nunique() == 1,
    "One instance computes one at a time: the last request waited for those before it.",
    "The config of `alone` must say count: 1.",
    premise=together(one_by_one),
)
claim(
    (single["size"] == 1).all() and len(single) == len(one_by_one.answers),
    "The default scheduler never puts two requests into one execution.",
    "The config of `alone` must have no dynamic_batching block.",
)

# %% [markdown]
# ## Two instances
#
# An instance group of two: two processes that can compute at the same time. The scheduler gives a request to whichever is free.

# %%
side_by_side = attempt(lambda: record("pair", measure.every(1, 6)), together)
double = measure.executions(side_by_side.spans)
measure.plot_timeline(side_by_side.spans)

# %%
rates = [len(places) / places["end_ms"].max() for places in (single, double)]
ratio = rates[1] / rates[0]
claim(
    double["lane"].nunique() == 2 and ratio > 1.3,
    f"Two instances computed {ratio:.1f} times as many requests in the same time.",
    "The machine may be busy: close other programs, run the cells of both models again.",
    premise=together(one_by_one) & together(side_by_side),
)

# %% [markdown]
# Our model sleeps, so two fit on one core. A model that computes needs a core of its own for each instance: see [inside the server](02__inside_the_server.ipynb).

# %% [markdown]
# ## Dynamic batcher: who waits together is computed together

# %%
predict(
    "schedulers.batches",
    "The same six requests, one instance, dynamic_batching { }, max_batch_size 4. Executions?",
    ["1", "2", "3", "6"],
)

# %%
joined = attempt(lambda: record("together", measure.every(1, 6)), together)
batched = measure.executions(joined.spans)
measure.plot_timeline(joined.spans)

# %%
compare("schedulers.batches", str(batched["execution"].nunique()), premise=together(joined))
claim(
    batched["execution"].nunique() < len(batched),
    "Requests that waited together shared an execution.",
    "Did they arrive too far apart? Run the cell before this one again.",
    premise=together(joined),
)

# %% [markdown]
# The request that reaches the server first finds the instance free and goes at once, often alone. It need not be r1: requests 1 ms apart may overtake each other. The others meet in the queue. Each learns its seat; `ms` is what its client waited:

# %%
slots = [output["SLOT"].item() for output in joined.answers["outputs"]]
joined.answers.assign(slot=slots)[["id", "slot", "ms"]].round(1)

# %% [markdown]
# ## Sequences: a model with a memory
#
# A client says *sequence 7, start* and later *sequence 7, end*. All its requests must reach the same instance, in order. That is the sequence batcher's promise.

# %% [markdown]
# Four clients: A and C send five requests each, B two, D four. D begins when B is done. `measure.Request` plans one request: its name, its time, its sequence (a number, here the letter's).


# %%
def sequence(name, length, at_ms):
    return [
        measure.Request(
            f"{name}{i}", at_ms + 30 * i, sequence=ord(name), start=i == 1, end=i == length
        )
        for i in range(1, length + 1)
    ]


plan = sequence("A", 5, 0) + sequence("B", 2, 10) + sequence("C", 5, 20) + sequence("D", 4, 120)

# %%
predict(
    "schedulers.seat",
    "Direct strategy. A sits in slot 0, B in 1, C in 2. B ends; then D begins. Where does D sit?",
    ["in slot 1, which B left", "in slot 3, the next one", "in another slot each time"],
)


# %%
def seats(answers):
    """One row per sequence, one column per request of it: the slot where that request sat."""
    slots = [o["SLOT"].item() for o in answers["outputs"]]
    table = answers.assign(slot=slots, sequence=answers["id"].str[0], step=answers["id"].str[1])
    return table.pivot(index="sequence", columns="step", values="slot")


# %%
def in_order(run):
    """A, B and C sit in slots 0, 1 and 2. D begins when B has ended, and A and C have not."""
    begins = list(seats(run.answers).loc[["A", "B", "C"], "1"]) == [0, 1, 2]
    visits = run.answers.set_index("id")
    ended = visits["answered_ms"]
    there = ended["B2"] < visits["sent_ms"]["D1"] < min(ended["A5"], ended["C5"])
    return Premise(begins and there, "the sequences did not begin and end in the planned order")


by_slot = attempt(lambda: record("direct", plan), in_order)
direct = seats(by_slot.answers)
direct.astype("Int64").astype("string").fillna("")

# %%
measure.plot_timeline(by_slot.spans, group=lambda request: f"sequence {request[0]}")

# %%
where = direct.loc["D", "1"]
known = {1: "in slot 1, which B left", 3: "in slot 3, the next one"}
compare(
    "schedulers.seat",
    known.get(where, f"in slot {where:.0f}"),
    published="a sequence keeps its batch slot (Triton's architecture guide)",
    premise=in_order(by_slot),
)
claim(
    (direct.nunique(axis=1) == 1).all(),
    "Direct: a sequence keeps its slot until it ends.",
    "Is a sequence idle for longer than max_sequence_idle_microseconds (1 s)? Run the cell again.",
    premise=in_order(by_slot),
)

# %% [markdown]
# Empty slots are filled with placeholders, `READY` false: A may sit in slot 0 and C in slot 2 with nobody between them. A model with one big state array likes that. *Direct* does not wait for absent sequences, unless `minimum_slot_utilization` says so.

# %% [markdown]
# Who keeps the state? The model itself, as `running_sum` of this course does. Or the server, for backends that can do it, such as ONNX Runtime: with a `state` block in the config it hands the model its last state, or the initial one that the config gives ([implicit state](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/architecture.md#implicit-state-management)).

# %% [markdown]
# ## Oldest
#
# A dynamic batcher takes the oldest requests of *distinct* sequences, up to `max_candidate_sequences` at a time.

# %%
predict(
    "schedulers.oldest",
    "The same plan. D's last request comes when the other sequences are done. Where does it sit?",
    ["in slot 0, the first one", "in slot 1, as with direct", "in slot 3, the last one"],
)


# %%
def came_alone(run):
    """D's last request was sent when all of the others' had been answered."""
    return answered_before(run.answers, "ABC", "D4")


by_age = attempt(lambda: record("oldest", plan), came_alone)
oldest = seats(by_age.answers)
oldest.astype("Int64").astype("string").fillna("")

# %%
measure.plot_timeline(by_age.spans, group=lambda request: f"sequence {request[0]}")

# %%
where = oldest.loc["D", "4"]
known = {0: "in slot 0, the first one", 1: "in slot 1, as with direct"}
compare(
    "schedulers.oldest",
    {**known, 3: "in slot 3, the last one"}.get(where, f"in slot {where:.0f}"),
    premise=came_alone(by_age),
)

# %%
ran = measure.executions(by_age.spans)
places = ran.merge(by_age.answers, left_on="request_id", right_on="id")
places["slot"] = [o["SLOT"].item() for o in places["outputs"]]
claim(
    not places.assign(name=places["id"].str[0]).duplicated(["execution", "name"]).any(),
    "No execution holds two requests of one sequence: the second needs the state of the first.",
    "Look at the config of `oldest`, and run the experiment again.",
)
claim(
    (places["slot"] < places["size"]).all(),
    "Oldest has no empty slots: a batch of two sits in 0 and 1, whoever they are.",
    "Look at the config of `oldest`, and run the experiment again.",
)

# %% [markdown]
# No fixed seats: the model no longer knows a sequence by its slot. It can ask for the sequence's number instead: one more control input, `CONTROL_SEQUENCE_CORRID`.

# %% [markdown]
# > **Errata.** The slides say that with *oldest* "a large request is divided into smaller ones". It is not: a request is never split. *Oldest* batches the oldest requests of distinct sequences ([source](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/architecture.md#oldest)).

# %% [markdown]
# ## Ensemble: a graph of models
#
# Each step is a request to another model, with that model's own scheduler. Tensors stay inside the server.

# %%
predict(
    "schedulers.pipeline",
    "chain = alone, then pair. While one request is in step one, can another be in step two?",
    ["yes", "no, an ensemble does one request at a time"],
)

# %%
chained = attempt(lambda: record("chain", measure.every(1, 4)), together)
measure.plot_timeline(chained.spans, order=["alone", "pair"])

# %%
steps = measure.executions(chained.spans)
first, second = steps[steps["model"] == "alone"], steps[steps["model"] == "pair"]
overlap = second["start_ms"].min() < first["end_ms"].max()
answer = "yes" if overlap else "no, an ensemble does one request at a time"
all_there = arrived_together(first)
compare("schedulers.pipeline", answer, premise=all_there)
claim(
    overlap,
    "The steps of different requests overlap.",
    "Run the two cells above again.",
    premise=all_there,
)

# %% [markdown]
# ## Decoupled: more answers than questions
#
# The *model transaction policy* says whether each request has exactly one response. The course's `countdown` is decoupled: we copy it into our server.

# %%
from workbook.common import paths
from workbook.server import deploy

deploy(paths.root() / "model_repository" / "countdown", server=lab)
lab.config("countdown")["model_transaction_policy"]

# %%
predict(
    "schedulers.answers",
    "One request: count down from 5. How many responses will come? Count an empty one, too.",
)

# %% [markdown]
# Many answers need gRPC's *stream*: a callback gets each response. By default the client keeps an empty last one to itself; `enable_empty_final_response=True` shows it to us.

# %%
import numpy as np
import tritonclient.grpc as grpc

got, errors = [], []
with lab.grpc_client() as client:
    client.start_stream(lambda result, error: (errors if error else got).append(error or result))
    tensor = grpc.InferInput("start", [1], "INT32").set_data_from_numpy(np.array([5], np.int32))
    client.async_stream_infer("countdown", [tensor], enable_empty_final_response=True)
    client.stop_stream()

# %%
final = [r.get_response().parameters["triton_final_response"].bool_param for r in got]
numbers = [r.as_numpy("count").item() for r, last in zip(got, final) if not last]
compare(
    "schedulers.answers",
    float(len(got)),
    published="none, one or many to a request (guide to decoupled models)",
    premise=Premise(not errors and final[-1], f"the stream ended early: {errors}"),
)
print(*zip(numbers, final), ("nothing", final[-1]), sep="\n")

# %%
claim(
    numbers == list(range(len(numbers), 0, -1)) and final[-1],
    f"{len(numbers)} responses with data, and an empty one that carries the final flag.",
    "Without enable_empty_final_response the client hides the empty one.",
)

# %%
lab.stop()

# %% [markdown]
# ## What to remember
#
# - One scheduler per model: default, dynamic, sequence or ensemble; the config chooses.
# - Direct binds a sequence to a slot. Oldest binds it to an instance only.
# - An ensemble pipelines by itself. Decoupled means: a request may have no, one or many responses.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A text generator keeps a cache for each conversation. Which scheduler?</summary>
#
# The sequence batcher. Direct if the cache is one array with one row per slot; oldest if the model finds a conversation's cache by the sequence's number, which it can ask for as one more control input (<code>CONTROL_SEQUENCE_CORRID</code>).
#
# </details>
#
# <details><summary>In the direct timeline some bars hold one request although three sequences are open. Why?</summary>
#
# The other clients had nothing waiting at that moment. Direct does not wait for them unless <code>minimum_slot_utilization</code> and <code>max_queue_delay_microseconds</code> say so.
#
# </details>
#
# <details><summary>You give <code>alone</code> four instances. What becomes of the timeline of <code>chain</code>?</summary>
#
# Step one no longer queues: the four requests are in <code>alone</code> together, and the queue moves to <code>pair</code>.
#
# </details>

# %% [markdown]
# Next: [the dynamic batcher](04__dynamic_batcher.ipynb).
