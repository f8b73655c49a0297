# ---
# title: Sequences
# minutes: 28
# ---

# %% [markdown]
# # Sequences
#
# **Question.** Each client sends several requests that belong together. Who remembers what came before, and what can go wrong?
#
# ![Triton; marked are the sequence scheduler and the instances](architecture.svg)

# %% [markdown]
# A client gives its requests a number, the *correlation ID*; the first one has the flag *start*, the last one *end*. The *sequence batcher* promises: all requests of a sequence go to the same instance, one after the other, in their order.
#
# How it puts different sequences together is its *strategy*: `direct` or `oldest`.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("sequences")
place(models, "models/direct")
setup.votes(models)  # a model for the second half
lab = laboratory(models, only=["direct"])  # a Triton server of this notebook's own

# %% [markdown]
# ## A model with a memory
#
# `direct` adds up what a sequence sends. A *slot* is a row of the batch. The server adds *control inputs* to each request: `START` is 1 in a sequence's first request, `READY` is 0 for an empty slot. The model reads them like other inputs, and hands them to its memory:

# %%
show("models/direct/config.pbtxt", "models/direct/1/model.py", "models/direct/1/memory.py")

# %% [markdown]
# A sequence of three requests; and a request that forgets to start one:

# %% tags=["triton"]
import os
import time

import numpy as np
import pandas as pd
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
x = grpc.InferInput("X", [1, 1], "FP32")

# %% tags=["triton"]
for number in (1, 2, 3):
    x.set_data_from_numpy(np.array([[number]], np.float32))
    flags = {"sequence_start": number == 1, "sequence_end": number == 3}
    answer = client.infer("direct", [x], sequence_id=42, **flags)
    print(number, "→", answer.as_numpy("SUM").item())
try:
    client.infer("direct", [x], sequence_id=43)
except InferenceServerException as error:
    print(error)

# %% [markdown]
# Over HTTP, the number and the flags are [parameters](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_sequence.md). This sequence has one request:

# %% language="bash" tags=["triton"]
# curl -s $TRITON_HTTP/v2/models/direct/infer -d '{
#   "parameters": {"sequence_id": 44, "sequence_start": true, "sequence_end": true},
#   "inputs": [{"name": "X", "shape": [1, 1], "datatype": "FP32", "data": [7]}]}'

# %% [markdown]
# `max_batch_size` says how many rows one execution may have: 4. With `direct`, an instance has one slot for each of these rows. With `oldest`, `max_candidate_sequences` says how many sequences it keeps open. Further sequences wait.

# %% [markdown]
# ## Direct
#
# The plan has four rounds. In each, A comes first and runs alone; B and C come meanwhile, and run together. When B has ended, D begins. Each request of A adds 1, of B 10, of C 100, of D 1000.

# %% tags=["triton"]
plan = [  # request, when it is sent (ms), whether it starts its sequence, whether it ends it
    ("A1", 0, True, False),
    ("B1", 5, True, False),
    ("C1", 10, True, False),
    ("A2", 60, False, False),
    ("B2", 65, False, True),
    ("C2", 70, False, False),
    ("A3", 120, False, False),
    ("D3", 125, True, False),
    ("C3", 130, False, False),
    ("A4", 180, False, True),
    ("D4", 185, False, True),
    ("C4", 190, False, True),
]

# %% [markdown]
# A gRPC *stream* carries requests and answers over one connection. So the client sends the next request before it has the last answer, and all requests of a sequence reach the same server ([protocols](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#httprest-and-grpc-protocols)).


# %% tags=["triton"]
def play(model):
    """Send the plan on a stream; return each request's slot and sum."""
    answers = []
    client.start_stream(lambda result, error: answers.append(error or result))
    began = time.perf_counter() + 0.02
    for name, at_ms, start, end in plan:
        time.sleep(max(0, began + at_ms / 1000 - time.perf_counter()))
        x.set_data_from_numpy(np.array([[10 ** "ABCD".index(name[0])]], np.float32))
        flags = {"request_id": name, "sequence_start": start, "sequence_end": end}
        client.async_stream_infer(model, [x], sequence_id=ord(name[0]), **flags)
    client.stop_stream()  # waits for all answers
    names = [answer.get_response().id for answer in answers]
    numbers = [[answer.as_numpy(each).item() for each in ("SLOT", "SUM")] for answer in answers]
    return pd.DataFrame(numbers, columns=["slot", "sum"]).assign(id=names)


# %%
predict(
    "sequences.direct",
    "B and C run together, while A has nothing waiting. In which slots do they sit?",
    {
        "slots 0 and 1": "Then the batch would have no empty row: that is the other strategy. "
        "With direct, a slot belongs to one sequence until that ends.",
        "slots 1 and 2": None,
        "they do not run before A has a request, too": "Direct does not wait for other sequences, "
        "unless minimum_slot_utilization and a delay in the config say so.",
    },
)

# %% tags=["triton"]
play("direct")[:6]

# %%
# The same again, with the server's traces, which say what ran when.
direct = setup.record(lab, "direct", play)
slot = direct.set_index("id")["slot"]  # for the comparison
setup.plot_slots({"direct": direct})

# %%
by_rounds = setup.in_rounds(direct)
compare("sequences.direct", f"slots {slot['B1']} and {slot['C1']}", premise=by_rounds)
claim(
    slot.groupby(slot.index.str[0]).nunique().eq(1).all(),
    "Each sequence kept its slot until it ended.",
    "Run the cell before this one again.",
    id="sequences.direct",
)

# %% [markdown]
# D begins after B has ended, and takes the slot that B left. The sums in the figure are right.
#
# ## Oldest
#
# This strategy is a dynamic batcher that takes the oldest requests of *different* sequences. The model and the plan stay as they are.

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/direct $TRITON_MODELS/oldest
# cd $TRITON_MODELS/oldest
# sed -i 's/direct { }/oldest { max_candidate_sequences: 8 }/' config.pbtxt
# grep -A1 sequence_batching config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/oldest/load

# %%
predict(
    "sequences.oldest",
    "A's second request adds 1 to the 1 of its first. What sum does A get?",
    {
        "2, as before": "You expected the server to keep the sum. It is in the model, in a list "
        "by slot, and with this strategy a sequence may get another slot in each execution.",
        "11": None,
        "none: an error": "Triton cannot know what a model does with its rows. Nothing fails; the "
        "numbers are wrong.",
    },
)

# %%
oldest = setup.record(lab, "oldest", play)
setup.plot_slots({"direct": direct, "oldest": oldest})

# %%
second = oldest.set_index("id")["sum"]["A2"] if len(oldest) else 0
as_rounds = setup.in_rounds(oldest)
compare("sequences.oldest", {2: "2, as before"}.get(second, f"{second:g}"), premise=as_rounds)
claim(
    (
        oldest.groupby("execution")["slot"].agg("max") + 1 == oldest.groupby("execution").size()
    ).all(),
    "No slot stayed empty: a batch of two is in slots 0 and 1, whichever sequences they are.",
    "Run the cell before this one again.",
    id="sequences.oldest",
)

# %% [markdown]
# With this strategy, B and C were in slots 0 and 1. So A, alone in slot 0, found the sum of B there, 10, and added its 1.
#
# <details><summary>Errata: the architecture slides</summary>
#
# [The slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) say that with *oldest* "a large request is divided into smaller ones". A request is never split. *Oldest* batches requests of different sequences ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/implicit_state_management.md#oldest)).
#
# </details>
#
# The schedulers of the last notebook and of this one, side by side:
#
# ![Default, dynamic batcher, ensemble, sequence batcher direct and oldest, decoupled](schedulers.svg)

# %% [markdown]
# ## State in the server
#
# The server can keep the state itself: *implicit state*. `votes` is an ONNX model. It adds a picture's scores to `before`, and returns `after`, the next request's `before`. Clients see neither: the config names them in `state` only. A sequence begins with the *initial state*: here a file, with two points for the digit 7.

# %%
show("models/votes/config.pbtxt")

# %% tags=["triton"]
client.load_model("votes")
prior = np.fromfile(models / "votes/initial_state/prior", np.float32)
print("initial state:", prior)


# %% tags=["triton"]
def look(pictures, sequence):
    """Send pictures, and nothing else, as one sequence; return the total after each."""
    totals = []
    for place, picture in enumerate(pictures, 1):
        image = grpc.InferInput("image", [1, 1, 8, 8], "FP32")
        image.set_data_from_numpy(picture[None])
        flags = {"sequence_start": place == 1, "sequence_end": place == len(pictures)}
        answer = client.infer("votes", [image], sequence_id=sequence, **flags)
        totals.append(answer.as_numpy("total")[0])
    return np.array(totals)


# %% tags=["triton"]
from sklearn.datasets import load_digits

digits = load_digits()
noise = np.random.default_rng(2).normal(0, 0.5, (8, 1, 8, 8))
pictures = (digits.images[702] / 16 + noise).astype(np.float32)
totals = look(pictures, sequence=1)
print("After each picture, this", digits.target[702], "is read as", *totals.argmax(1))

# %%
setup.plot_votes(totals, digits.target[702])

# %%
predict(
    "sequences.fresh",
    "The sequence has ended. A new one with the same number begins with the same first picture. "
    "What is its first total?",
    {
        "the scores of the picture alone": "The config names an initial state, and it is not zero.",
        "the old sequence's last total, plus the scores": "The flag start begins anew, also for "
        "a number that was used before.",
        "the initial state, plus the scores": None,
    },
)

# %% tags=["triton"]
twice = look(pictures[[0, 0]], sequence=1)  # the first picture, two times
again, scores = twice[0], twice[1] - twice[0]  # the first total; what one picture adds
print("the first total:     ", again.round(1))
print("the picture's scores:", scores.round(1))

# %%
same = abs(again - totals[0]).max() < 1e-4  # as in the first sequence
first = "the initial state, plus the scores" if same else "the scores of the picture alone"
complete = Premise(len(totals) == 8, "a request was refused")
compare("sequences.fresh", first, premise=complete)
claim(
    same and abs(again - scores - prior).max() < 1e-3,
    "The first total has two points more for the 7, from the file: each sequence begins with the "
    "initial state, and the server keeps what follows.",
    "Run the cells with votes again.",
    id="sequences.state",
)

# %% [markdown]
# A backend has to support [implicit state](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/implicit_state_management.md); the guide names ONNX Runtime's, TensorRT's and PyTorch's.
#
# ## Your turn
#
# `apart` is the model `oldest`, which mixes its sequences up. Correct [its config](models/apart/config.pbtxt) and [its memory](models/apart/1/memory.py), and keep the strategy: a third [control input](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_execution.md#stateful-models) gives the model the correlation ID. Save both files, and run the cell.

# %%
setup.apart(models)  # the model, with your two files
lab.load("apart")
task("sequences.apart", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# You keep the configs of `direct` and `votes`, and this class for the client: it numbers a sequence, and sets the flags. Keep what you have sent until the last answer: a server that restarts has lost the state, and you begin again.

# %%
show("at_work/sequence.py")

# %% tags=["triton"]
# %run at_work/sequence.py direct 1 2 3

# %% [markdown]
# | the state is | use | it works if |
# |---|---|---|
# | an array, one row per slot | `direct` | a sequence keeps its slot |
# | kept by correlation ID | `oldest`, `CONTROL_SEQUENCE_CORRID` | rows per execution exceed 1 |
# | a tensor of the model | `state`, with either | each sequence begins alike |
# | small | no sequence: clients send it | any replica can answer |
#
# If requests wait, add instances or candidates.

# %% [markdown]
# ## What to remember
#
# - A sequence goes to one instance, in order. With direct it has one slot until it ends; with oldest its slot may differ in each execution.
# - State in a model needs a key: the slot for direct, the correlation ID for oldest.
# - With implicit state, the server keeps it, and begins each sequence with the initial one.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A text generator keeps a cache for each conversation. Which strategy?</summary>
#
# Direct, if the cache is one array with one row per slot. Oldest, if the model finds a conversation's cache by its correlation ID: then no rows stay empty.
#
# </details>
#
# <details><summary>A client crashes in the middle of its sequence. What becomes of its slot?</summary>
#
# It stays taken until no request has come for <code>max_sequence_idle_microseconds</code> (one second by default). Then another sequence gets it; a late request without the flag start is refused.
#
# </details>
#
# <details><summary>Two replicas of the server stand behind a load balancer. What must it do for sequences?</summary>
#
# Send all requests of a sequence to the same replica. Neither the model's state nor the server's is shared between them. A gRPC stream does this by itself: it is one connection to one replica.
#
# </details>
#
# Next: [the dynamic batcher](../05__dynamic_batcher/05__dynamic_batcher.ipynb).
