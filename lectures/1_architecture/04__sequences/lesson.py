# ---
# title: Sequences
# minutes: 16
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
import numpy as np
import pandas as pd

import setup
from workbook import measure, zoo
from workbook.lessons import Premise, claim, compare, folder, laboratory, predict, show, task

models = folder("sequences")

# %% [markdown]
# ## A model with a memory
#
# It adds up what a sequence sends. A *slot* is a row of the batch. The server adds *control inputs*: `START` is 1 in a sequence's first request, `READY` is 0 for an empty slot. Below are its memory and its config. [The rest](models/direct/1/model.py) sleeps 20 ms per execution, and returns slot and sum.

# %%
show("models/direct/1/memory.py", "models/direct/config.pbtxt")

# %%
strategies = {"direct": "direct { }", "oldest": "oldest { max_candidate_sequences: 8 }"}
for name, strategy in strategies.items():
    setup.add_sums(models, name, strategy)  # the same files, another strategy in the config
lab = laboratory(models)

# %% [markdown]
# `max_batch_size` says how many rows one execution may have. With `direct`, an instance has as many slots. With `oldest`, `max_candidate_sequences` says how many sequences it keeps open. Further sequences wait.
#
# ## Direct
#
# The plan: A, B and C send a request per round. A comes first and runs alone; B and C come meanwhile, and run together.

# %%
two_rounds = [(r.id, r.at_ms, r.start, r.end) for r in setup.plan()[:6]]
pd.DataFrame(two_rounds, columns=["request", "at ms", "start", "end"])

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

# %%
direct = setup.record(lab, "direct")
setup.plot_slots({"direct": setup.seats(direct)})

# %%
by_slot = setup.seats(direct)
pair = sorted(by_slot.set_index("id").slot[["B1", "C1"]])
where = f"slots {pair[0]} and {pair[1]}"
compare("sequences.direct", where, premise=setup.in_rounds(direct))
kept = by_slot.groupby(by_slot.id.str[0]).slot.nunique().eq(1)
claim(
    kept.all(),
    "Each sequence kept its slot until it ended.",
    "Run the cell before this one again.",
    id="sequences.direct",
)

# %% [markdown]
# D begins after B has ended, and takes the slot that B left. Each request of A adds 1, of B 10, of C 100, of D 1000: the sums in the figure are right.
#
# ## Oldest
#
# This strategy is a dynamic batcher that takes the oldest requests of *different* sequences. The model and the plan stay as they are.

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
oldest = setup.record(lab, "oldest")
setup.plot_slots({"direct": by_slot, "oldest": setup.seats(oldest)})

# %%
by_age = setup.seats(oldest)
second = by_age.set_index("id")["sum"]["A2"]
answer = {2: "2, as before"}.get(second, f"{second:g}")
compare("sequences.oldest", answer, premise=setup.in_rounds(oldest))
full = by_age.groupby("execution").slot.agg(["max", "size"])
claim(
    (full["max"] + 1 == full["size"]).all(),
    "No slot stayed empty: a batch of two is in slots 0 and 1, whichever sequences they are.",
    "Run the cell before this one again.",
    id="sequences.oldest",
)

# %% [markdown]
# With this strategy, B and C were in slots 0 and 1. So A, alone in slot 0, found the sum of B there: 10.
#
# > **Errata.** [The architecture slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) say that with *oldest* "a large request is divided into smaller ones". A request is never split. *Oldest* batches requests of different sequences ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/implicit_state_management.md#oldest)).

# %% [markdown]
# ## State in the server
#
# The server can keep the state itself: *implicit state*. `votes` is an ONNX model. It adds a picture's scores to the input `before`, and returns `after`. The server stores `after`, and gives it to the sequence's next request. The config also names an *initial state*: here a file, two points for the 7.

# %%
show("models/votes/config.pbtxt")
setup.add_votes(models)
lab.load("votes")

# %%
data = zoo.data.digits()
noise = np.random.default_rng(2).normal(0, 0.5, (8, 1, 8, 8))
digit = int(data.y_test[33])
pictures = (data.x_test[33] + noise).astype(np.float32)  # one digit, eight bad pictures
seen = measure.send(lab, "votes", setup.looks(pictures))
totals = np.array([out["total"][0] for out in seen.outputs])
print("After each picture, this", digit, "is read as", *totals.argmax(1))
setup.plot_votes(totals, digit)

# %% [markdown]
# The state is in the server; the model only computes its outputs from its two inputs.

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

# %%
again = measure.send(lab, "votes", setup.looks(pictures[:1])).outputs[0]["total"][0]
blank = measure.send(lab, "votes", setup.looks(np.zeros((1, 1, 8, 8), np.float32), sequence=2))
same = np.allclose(again, totals[0], atol=1e-4)  # as in the first sequence
first = "the initial state, plus the scores" if same else "the scores of the picture alone"
compare("sequences.fresh", first, premise=Premise(not seen.error.any(), "a request was refused"))
prior = np.fromfile(models / "votes/initial_state/prior", np.float32)
print("initial state:", prior)
print("first total of an empty picture:", blank.outputs[0]["total"][0].round(1))
claim(
    same and prior.argmax() == 7,
    "Each sequence begins with the initial state, and the server keeps what follows.",
    "Run the two cells with votes again.",
    id="sequences.state",
)

# %% [markdown]
# A backend has to support [implicit state](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/implicit_state_management.md); the guide names ONNX Runtime's, TensorRT's and PyTorch's.
#
# ## Your turn
#
# `oldest` mixes its sequences up. Correct it, and keep the strategy: a third control input gives the model the correlation ID. Write `oldest/config.pbtxt` and `oldest/1/memory.py` in new cells with `%%writefile {models}/oldest/…`, and run `lab.load("oldest")`.

# %%
show(models / "oldest/config.pbtxt")
task("sequences.apart", server=lab)

# %%
lab.stop()  # when the task is done

# %% [markdown]
# ## What to remember
#
# - A sequence goes to one instance, in order. With direct it has one slot until it ends; with oldest its slot may differ in each execution.
# - State in a model needs a key: the slot for direct, the correlation ID for oldest.
# - With implicit state, the server keeps it, and begins each sequence with the initial one.

# %% [markdown]
# The schedulers of the last notebook and of this one, side by side:
#
# ![Default, dynamic batcher, ensemble, sequence batcher direct and oldest, decoupled](schedulers.svg)

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
# Send all requests of a sequence to the same replica. Neither the model's state nor the server's is shared between them.
#
# </details>
#
# Next: [the dynamic batcher](../05__dynamic_batcher/05__dynamic_batcher.ipynb).
