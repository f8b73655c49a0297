# ---
# title: "Assignment 3: TorchScript behind a preprocessing step"
# minutes: 120
# modules: [serving]
# ---

# %% [markdown]
# # Assignment 3: TorchScript behind a preprocessing step
#
# In which of five languages is a text written? A network reads it letter by letter. You will bring
# it to Triton as TorchScript, put a step before it that turns texts into numbers, and join the two:
# once as an ensemble, which is a config, and once as a program. Then you measure which is better,
# and when. There are six tasks and one question: 100 points, about two hours.
#
# **Read these first**; the two hours are meant for those who have. Lecture 1, notebooks 01 and 02:
# the form of `config.pbtxt`. Lecture 2, notebooks 02 (Python models), 04 (PyTorch) and 12
# (ensembles and BLS): what you need here. Together they take an hour and a half.

# %% [markdown]
# **How it works.** You write in the cells that say *Your code here*, and in the files under
# `models/` beside this notebook (double-click one in the file browser). Each task has checks. Run
# them as often as you like. If you are stuck, `hint("a3.trace")` shows one hint at a time. Whenever
# you have changed a file under `models/`, deploy its folder again. After a restart of the kernel,
# run all cells from the top: each needs what those above it have made. Leave each check in a cell
# of its own: of two checks in one cell, only the second shows its result.
#
# **Marks.** A check here sees whether your models and your numbers fit together. For the marks it
# runs again outside of this notebook, on texts that you have not seen. A person reads what you
# write in words.
#
# A mistake costs the points of its own task: the ensemble and the program are compared with what
# your own `letters` and `reader` answer, right or wrong. What costs more, because then nothing can
# be compared: a model that Triton does not load, that ends with an exception, or that takes or
# gives other tensors than the tables here say; and a `reader` whose scores depend on chance, or not
# on the text.

# %% kind="given" id="a3.setup"
import json
import queue
import re
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
import tritonclient.grpc as grpc
from torch import nn

from grader.assignments.a3__torchscript import facts
from grader.vocabulary.notebook import check, deploy, hint
from workbook import measure
from workbook.server import connect

warnings.filterwarnings("ignore", module=r"torch\b")  # each use of torch.jit warns: deprecated
warnings.filterwarnings("ignore", message=r"`torch\.jit")
torch.set_num_threads(1)
server = connect()
client = server.grpc_client()

# %% [markdown]
# **Your texts.** The languages, the texts and the network's weights are drawn by your id, so your
# numbers are yours alone. In a class, write the id that your instructor knows you by. If you study
# by yourself, leave it as it is. If you change the id later, run all cells from the top again: what
# was made for the old id does not fit the new one.

# %%
me = "self-study"
texts = facts.own_texts(me)
print(texts.languages)
for number in range(5):
    print(f"{texts.languages[texts.truth[number]]}: {texts.test[number]}")

# %% [markdown]
# ## Task 1: a trace, and what it lacks (10 points)
#
# A letter is a number here, and a text a row of numbers. Texts have different lengths, and a table
# has one width: shorter rows are filled up with 0, and a *mask* says where the letters are.
# `texts.rows` holds 120 practice texts as numbers.

# %% kind="given" id="a3.rows"
print([len(row) for row in texts.rows[:12]], "letters")
ids, mask = facts.table(texts.rows[:3])
print(ids[:, :40], mask[:, :40], sep="\n")

# %% [markdown]
# The network keeps a memory of what it has read. Each letter changes it; its mean over the whole
# text decides. Dropout is used in training only, and is switched off by `eval()`.


# %% kind="given" id="a3.network"
class Reader(nn.Module):
    """Reads texts letter by letter, and gives a score for each language."""

    def __init__(self, weights):
        super().__init__()
        self.letter = nn.Embedding.from_pretrained(torch.from_numpy(weights.letter))
        self.memory = nn.Parameter(torch.from_numpy(weights.memory), requires_grad=False)
        self.dropout = nn.Dropout(0.2)
        self.verdict = nn.Linear(*weights.verdict.shape)
        self.verdict.weight.data = torch.from_numpy(weights.verdict.T.copy())
        self.verdict.bias.data = torch.from_numpy(weights.bias)

    def forward(self, ids, mask):
        state = torch.zeros(ids.size(0), self.memory.size(0))
        total = torch.zeros_like(state)
        for step in range(ids.size(1)):
            state = torch.tanh(self.letter(ids[:, step]) + state @ self.memory)
            total = total + state * mask[:, step].unsqueeze(1)
        mean = total / mask.sum(1, keepdim=True)
        return self.verdict(self.dropout(mean))


large = Reader(facts.network(me, "large")).eval()

# %% [markdown]
# Triton's PyTorch backend takes a program that needs no Python: TorchScript. There are two ways to
# it. `torch.jit.script(module)` translates the code. `torch.jit.trace(module, example)` runs the
# module once, and records the operations. A colleague has traced yours with one row as the example,
# and ignored the warning. The file is to be served as version 1:

# %% kind="given" id="a3.colleague"
example = torch.ones(1, texts.example, dtype=torch.int64)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.jit.trace(large, (example, example), check_trace=False).save("models/reader/1/model.pt")
trace = torch.jit.load("models/reader/1/model.pt")
print(trace.code[:600])

# %% [markdown]
# Send each of the 120 rows alone through `trace` and through `large`, each in a table of its own.
# (Both are called as `trace(ids, mask)`, with tensors: `torch.from_numpy` makes them.) Hand over
# two lists of row numbers (which rows, not how many), counted from 0:
#
# - `refused`: the rows for which `trace` raises an error;
# - `changed`: of the others, those that get another language from `trace` than from `large`. The
#   language is the place of the highest score; which one is right does not matter here.

# %% kind="solution" id="a3.compare"
### BEGIN SOLUTION
### STUB refused = ...
### STUB changed = ...
refused, changed = [], []
for number, row in enumerate(texts.rows):
    tensors = [torch.from_numpy(part) for part in facts.table([row])]
    try:
        found = trace(*tensors).argmax().item()
    except RuntimeError:
        refused.append(number)
        continue
    if found != large(*tensors).argmax().item():
        changed.append(number)
print(len(refused), "refused,", len(changed), "changed")
### END SOLUTION

# %% kind="check" id="a3.trace" points=10
check("a3.trace", me=me, refused=refused, changed=changed)

# %% [markdown]
# No error for most of these texts, and no warning at the server either: a trace that is wrong looks
# like one that is right. So compare on inputs of many sizes before you deploy.

# %% [markdown]
# ## Task 2: serve it (20 points)
#
# TorchScript stores no shapes, no element types and no names of outputs, so the server cannot fill
# in a config. It does store the names of `forward`'s arguments, and the server would find inputs by
# them, too. Here a convention is used, which works for every model: `INPUT__0` is the first
# argument of `forward`, `INPUT__1` the second, and `OUTPUT__0` the first thing that it returns.
# Later cells and the checks ask for these names, so take no others. Write -1 for a dim that may
# have any size. This is what a GPT's config looks like, which has three such inputs:
#
# ```
# input [
#   { name: "INPUT__0" data_type: TYPE_INT64 dims: [ -1 ] },
#   { name: "INPUT__1" data_type: TYPE_INT64 dims: [ -1 ] },
#   { name: "INPUT__2" data_type: TYPE_INT64 dims: [ -1 ] }
# ]
# ```

# %% [markdown]
# | setting | says |
# |---|---|
# | `max_batch_size` | how many rows a request, or a batch, may have; `dims` leave them out |
# | `INFERENCE_MODE` | a parameter: run without what only training needs |
# | `INTRA_OP_THREAD_COUNT` | a parameter: the number of threads that compute a batch |
# | `instance_group` | how many copies, and where: `KIND_GPU` with `gpus: [ 0 ]`, or `KIND_CPU` |
# | `version_policy` | which version folders are served; without it, the newest only |
#
# The value of a parameter is a text:
# `parameters { key: "NAME" value: { string_value: "true" } }`. There are three policies:
# `latest { num_versions: … }`, `specific { versions: [ … ] }` and `all { }`, and each is written as
# `version_policy { … }`.

# %% [markdown]
# Two networks are to be served: a small one, for clients that are in a hurry, as version 2, and the
# large one as version 3. Version 1 is the colleague's, and must not be served. In this order:
#
# 1. In `models/reader/config.pbtxt` replace every TODO; all 120 practice rows should fit into one
#    request.
# 2. Add `INFERENCE_MODE`, so that nobody has to know the default.
# 3. The file was made for a machine with a GPU: let it run on the CPU here.
# 4. Add a policy. If a version 4 is added later, version 2 should no longer be served, without a
#    change of the config: so `latest`, with a number, fits better than a list. (Any policy that
#    serves just 2 and 3 passes.)
# 5. In the cell below make the two files. Each holds a `Reader` in evaluation mode (`eval()`),
#    translated by `torch.jit.script` and saved with `.save(path)`: `models/reader/2/model.pt` with
#    the weights `facts.network(me, "small")`, `models/reader/3/model.pt` with
#    `facts.network(me, "large")`.
# 6. Deploy.
#
# `INTRA_OP_THREAD_COUNT` is in the config already. This network is a long row of small steps. With
# several threads, each step ends only when the slowest thread is done, and on a machine that is
# busy this takes far longer than the computing.

# %% kind="solution" id="a3.serve"
### BEGIN SOLUTION
### STUB reader = ...  # deploy("models/reader").name
for version, size in ((2, "small"), (3, "large")):
    script = torch.jit.script(Reader(facts.network(me, size)).eval())
    script.save(f"models/reader/{version}/model.pt")
reader = deploy("models/reader").name
### END SOLUTION

# %% [markdown]
# A small client, and what it needs to send texts (for task 3): text comes as an array of objects,
# each of type `bytes`, one per row.

# %% kind="given" id="a3.client"
TYPES = {"int64": "INT64", "object": "BYTES"}


def tensors_of(inputs):
    """Arrays by input name, as tritonclient takes them."""
    return [
        grpc.InferInput(name, array.shape, TYPES[str(array.dtype)]).set_data_from_numpy(array)
        for name, array in inputs.items()
    ]


def ask(model, inputs, *outputs, version=""):
    """Send one request, arrays by input name; returns the named outputs as a list of arrays."""
    given = tensors_of(inputs)
    answer = client.infer(model, given, model_version=version, client_timeout=60)
    return [answer.as_numpy(name) for name in outputs]


def as_text(list_of_texts):
    """Texts as TEXT takes them: shape (texts, 1), objects of type bytes."""
    return np.array([[text.encode()] for text in list_of_texts], object)


# %% [markdown]
# Ask `reader` for all 120 practice rows in one request (`facts.table(texts.rows)` makes the two
# arrays), and keep its `OUTPUT__0` as `served`, of shape (120, 5). (`ask` returns a list.) Does it
# agree with `large`? In task 1, `large` read each row alone; so the cell below asks it once more,
# for all rows in one table.

# %% kind="solution" id="a3.ask"
### BEGIN SOLUTION
### STUB served = ...  # ask(…)[0]
ids, mask = facts.table(texts.rows)
(served,) = ask(reader, {"INPUT__0": ids, "INPUT__1": mask}, "OUTPUT__0")
### END SOLUTION

# %% kind="given" id="a3.difference"
with torch.inference_mode():
    local = large(*map(torch.from_numpy, facts.table(texts.rows))).numpy()
if getattr(globals().get("served"), "shape", None) == local.shape:
    print(f"The greatest difference is {np.abs(served - local).max():.2g}.")

# %% kind="check" id="a3.reader" points=15
check("a3.reader", me=me, model=reader, served=served)

# %% [markdown]
# Now prove which versions answer. If the next cell lists others than 2 and 3, look at the policy in
# the config, and deploy again. Then ask for the 120 rows three times: version 2 (`small`), version
# 3 (`large_answer`), and no version (`plain`). `ask` takes `version="2"`. Last, ask for version 1:
# the server refuses. Keep what it says, `str(error)` of the exception, as `gone`.

# %% kind="given" id="a3.answering"
ready = [one["version"] for one in server.index(ready_only=True) if one["name"] == facts.READER]
print("Versions of reader that answer:", ", ".join(ready) or "none")

# %% kind="solution" id="a3.policy"
### BEGIN SOLUTION
### STUB small = ...
### STUB large_answer = ...
### STUB plain = ...
### STUB gone = ...
rows = {"INPUT__0": ids, "INPUT__1": mask}
(small,) = ask(reader, rows, "OUTPUT__0", version="2")
(large_answer,) = ask(reader, rows, "OUTPUT__0", version="3")
(plain,) = ask(reader, rows, "OUTPUT__0")
try:
    ask(reader, rows, "OUTPUT__0", version="1")
except Exception as error:
    gone = str(error)
    print(gone)
### END SOLUTION

# %% kind="check" id="a3.versions" points=5
check("a3.versions", me=me, model=reader, small=small, large=large_answer, plain=plain, gone=gone)

# %% [markdown]
# ## Task 3: from text to numbers (15 points)
#
# Clients have texts, not numbers. If each of them brought its own alphabet, a new network would
# need new clients. So the first step runs on the server, in Python: the model `letters`. The
# network knows the numbers of *your* alphabet; here it goes beside the program:

# %% kind="given" id="a3.alphabet"
Path("models/letters/1/alphabet.json").write_text(json.dumps(texts.alphabet), "utf-8")


def pad_to(width):
    """Write PAD_TO into the config of letters, which is to be deployed afterwards."""
    config, field = Path("models/letters/config.pbtxt"), r'("PAD_TO" value: { string_value: )"\w+"'
    config.write_text(re.sub(field, rf'\1"{width}"', config.read_text("utf-8")), "utf-8")


pad_to(1)  # until task 6
print({letter: texts.alphabet[letter] for letter in list(texts.alphabet)[-8:]})

# %% [markdown]
# The network was trained on numbers that one rule has made. So this step must treat every text by
# the same rule. **The rule**, in this order:
#
# 1. one character per letter: `unicodedata.normalize("NFC", text)`. Some clients write é as e and
#    an accent;
# 2. no capitals: `casefold()`;
# 3. no spaces around it: `strip()`;
# 4. at most 128 letters: the rest is cut off;
# 5. each letter becomes its number of the alphabet; one that is not in there becomes 1.

# %% [markdown]
# Write `execute` and `numbers` in `models/letters/1/model.py`; the rest is complete, and so is its
# config. Look at the docstrings: they say what comes in and what must come out. `execute` gets a
# list of requests, and returns a list with one response for each, in the same order. A request of n
# texts has a `TEXT` of shape (n, 1), which holds `bytes`: `text.decode()` makes a str of one. This
# is how a Python model reads an input of one request, and how it makes a response of an array,
# whose type must be the one in the config:
#
# ```python
# array = pb_utils.get_input_tensor_by_name(request, "NUMBERS").as_numpy()
# tensor = pb_utils.Tensor("DOUBLED", 2 * array)
# response = pb_utils.InferenceResponse([tensor])  # a list: all outputs of this request
# ```
#
# If nothing is left of a text, the request is refused with an error that says that it is *empty*:
# `pb_utils.InferenceResponse(error=pb_utils.TritonError("…"))`. An exception would be wrong here:
# the server puts requests of several clients into one call of `execute`, and an exception
# answers all of them.

# %% kind="solution" id="a3.letters_model"
### BEGIN SOLUTION
### STUB letters = ...  # deploy("models/letters").name
letters = deploy("models/letters").name
### END SOLUTION

# %% kind="given" id="a3.first_numbers"
if globals().get("letters", ...) is not ...:
    try:
        for array in ask(letters, {"TEXT": as_text(["Salut", "Ah!"])}, "IDS", "MASK"):
            print(array)
    except Exception as error:
        print(error)

# %% kind="check" id="a3.letters" points=15
check("a3.letters", me=me, model=letters)

# %% [markdown]
# ## Task 4: one model of two (15 points)
#
# A client that asks `letters`, waits, and sends the tables on to `reader` pays two round trips. An
# *ensemble* does the same inside the server. It has no program, only a config: a list of steps,
# and for each step which tensor goes where. In `input_map` and `output_map`, `key` is the name of
# a tensor in the step's model, and `value` its name in the ensemble. This step asks a model
# `tokens` for the ensemble's input `PROMPT`, and calls what comes out of it `numbers`:
#
# ```
# step {
#   model_name: "tokens"
#   model_version: -1
#   input_map { key: "text" value: "PROMPT" }
#   output_map { key: "tokens" value: "numbers" }
# }
# ```
#
# Version -1 is the newest that is served.

# %% [markdown]
# Write the two steps into `models/detect/config.pbtxt`, and deploy it. Then ask for all 120 test
# texts (`texts.test`) twice, each time in one request:
#
# - `scores`: what `detect` answers (its output `SCORES`);
# - `by_hand`: what a client gets that asks `letters`, and then `reader` for what came back.

# %% kind="solution" id="a3.join"
### BEGIN SOLUTION
### STUB detect = ...  # deploy("models/detect").name
### STUB scores = ...
### STUB by_hand = ...
detect = deploy("models/detect").name
(scores,) = ask(detect, {"TEXT": as_text(texts.test)}, "SCORES")
ids, mask = ask(letters, {"TEXT": as_text(texts.test)}, "IDS", "MASK")
(by_hand,) = ask(reader, {"INPUT__0": ids, "INPUT__1": mask}, "OUTPUT__0")
### END SOLUTION

# %% kind="given" id="a3.right"
if getattr(globals().get("scores"), "shape", None) == (120, 5):
    print(f"{(np.argmax(scores, axis=1) == texts.truth).mean():.0%} of the languages are right.")

# %% kind="check" id="a3.ensemble" points=15
check("a3.ensemble", me=me, model=detect, scores=scores, by_hand=by_hand)

# %% [markdown]
# ## Task 5: the same as a program (15 points)
#
# *Business logic scripting* (BLS) is a Python model that asks other models. It can loop and decide,
# which an ensemble cannot. In `models/detect_bls/1/model.py` write `ask` and `execute`; the config
# is complete. What you need:
#
# ```python
# request = pb_utils.InferenceRequest(
#     model_name="tokens",
#     requested_output_names=["tokens"],
#     inputs=[pb_utils.Tensor("text", array)],
# )
# response = request.exec()                    # waits for the answer
# if response.has_error():
#     print(response.error().message())
# else:
#     array = pb_utils.get_output_tensor_by_name(response, "tokens").as_numpy()
# ```

# %% [markdown]
# `exec` waits, and one instance runs one `execute` at a time. A program that asks for one text
# after the other never has two texts under way. So join the texts of *all* requests of an
# `execute`, ask each step once, and divide the answer. If `letters` refuses (one text is empty),
# answer each request alone, so that only the one with the empty text gets the error, with the
# message of `letters`.

# %% kind="solution" id="a3.program"
### BEGIN SOLUTION
### STUB detect_bls = ...  # deploy("models/detect_bls").name
detect_bls = deploy("models/detect_bls").name
### END SOLUTION

# %% [markdown]
# How many times does the network run, if 24 clients send one text each, at the same moment? Here is
# such a crowd, and a counter. Guess before you measure: 1, a few, or 24?


# %% kind="given" id="a3.together"
READER = "reader"
crowd = texts.test[: facts.CROWD]


def ask_together(model, list_of_texts):
    """Send each text as a request of its own, without waiting between them; returns the scores."""
    answers = queue.Queue()
    for place, text in enumerate(list_of_texts):
        client.async_infer(
            model,
            tensors_of({"TEXT": as_text([text])}),
            lambda result, error, place=place: answers.put((place, result, error)),
        )
    found = {}
    for _ in list_of_texts:
        place, result, error = answers.get()
        if error:
            raise error
        found[place] = result.as_numpy("SCORES")
        if (shape := np.shape(found[place])) != (1, 5):
            raise ValueError(
                f"{model} answers text {place} with SCORES of shape {shape}, not (1, 5)"
            )
    return np.concatenate([found[place] for place in range(len(list_of_texts))])


def wait_until_steady(read):
    """What `read()` gives in the end: the server counts a moment after it has answered."""
    count, before = read(), None
    while count != before:
        time.sleep(0.1)
        before, count = count, read()
    return count


def executions(model):
    """How often the server has run a model since it was loaded."""
    return wait_until_steady(lambda: int(measure.statistics(server, model)["executions"].sum()))


# %% [markdown]
# With `ask_together(…, crowd)`, count the executions of `READER`: as `ensemble_runs` for `detect`,
# and as `bls_runs` for `detect_bls`. Measure with `PAD_TO` 1, as `letters` is now.

# %% kind="solution" id="a3.count"
### BEGIN SOLUTION
### STUB ensemble_runs = ...
### STUB bls_runs = ...
found = []
for model in (detect, detect_bls):
    before = executions(READER)
    ask_together(model, crowd)
    found.append(executions(READER) - before)
ensemble_runs, bls_runs = found
print(f"reader ran {ensemble_runs} times for the ensemble, {bls_runs} times for the program")
### END SOLUTION

# %% kind="check" id="a3.bls" points=15
check("a3.bls", me=me, model=detect_bls, ensemble_runs=ensemble_runs, bls_runs=bls_runs)

# %% [markdown]
# The server puts requests into one batch only where their tensors have the same shape. It takes
# them in the order of the queue and does not sort them, so a request of another width ends the
# batch. For the ensemble, `reader` therefore runs about as often as the width changes from one text
# in the queue to the next, and not once for each width. Your program makes one table of all texts.
#
# **Waiting.** `max_queue_delay_microseconds` is the longest time that a batcher waits for more
# requests before it runs a batch that is not full. The configs of `letters`, `reader` and
# `detect_bls` each have such a delay: look them up. How long does a single text wait in `detect`,
# and how long in `detect_bls`? These times are settings: they are no difference between an ensemble
# and a program.

# %% [markdown]
# ## Task 6: how wide should a text be? (15 points)
#
# Texts of 33 and 38 letters can share a batch after all, if both are filled up to 40. `PAD_TO` in
# `models/letters/config.pbtxt` does that: each text is filled up to a multiple of it. But the
# network reads the filling, too, letter by letter. What does it bring, and what does it cost? This
# task is open: how you measure and plot is up to you. The check gives 5 points, your words 10.

# %% [markdown]
# Try at least four widths for `PAD_TO`: 1, others, and one of at least 32 (at most 128). For each,
# write it into the config (`pad_to` of task 3), deploy `letters`, and measure with `detect`:
#
# - how often `READER` runs for one crowd, as in task 5;
# - how many milliseconds the crowd takes;
# - how many milliseconds `READER` computes for a single short text, sent alone. (The whole time of
#   a single text hardly tells the widths apart: most of it is waiting.)
#
# Other programs on your machine make some tries slower, and none faster. So leave out the first try
# after a deploy, and take the least, or the median, of at least five more.
#
# Hand over three lists of the same length: `widths`, `runs` and `took` (ms, of the crowd). Plot
# them, and what a single text costs; you may also look at another crowd, or at `detect_bls`. At the
# end deploy `letters` with the one of your widths that you would choose. The checks of tasks 3 and
# 4 must still pass.


# %% kind="given" id="a3.times"
def milliseconds(model, list_of_texts):
    """How long texts take that are sent at once, until the last one is answered."""
    began = time.perf_counter()
    ask_together(model, list_of_texts)
    return 1000 * (time.perf_counter() - began)


def computing_ms(model):
    """How many ms a model has computed since it was loaded. Each request of a batch counts all."""
    return wait_until_steady(
        lambda: measure.statistics(server, model)["compute_infer_ns"].sum() / 1e6
    )


# %% kind="solution" id="a3.vary"
### BEGIN SOLUTION
### STUB widths = ...
### STUB runs = ...
### STUB took = ...
widths, runs, took, alone = [1, 8, 32, 128], [], [], []
short = min(crowd, key=len)
for width in widths:
    pad_to(width)
    deploy("models/letters")
    milliseconds(detect, crowd)  # the first try after a deploy does not count
    before = executions(READER)
    ask_together(detect, crowd)
    runs.append(executions(READER) - before)
    took.append(min(milliseconds(detect, crowd) for _ in range(5)))
    tries = [computing_ms(READER)]
    for _ in range(5):
        ask_together(detect, [short])
        tries.append(computing_ms(READER))
    alone.append(np.diff(tries).min())
pad_to(128)
deploy("models/letters")

figure, axes = plt.subplots(1, 3, figsize=(11, 3))
labels = ("executions for 24 texts", "24 texts (ms)", "computing one text (ms)")
for place, (values, label) in enumerate(zip((runs, took, alone), labels, strict=True)):
    axes[place].plot(widths, values, marker="o")
    axes[place].set(xlabel="PAD_TO (letters)", ylabel=label, ylim=(0, None))
figure.tight_layout()
plt.show()
### END SOLUTION

# %% kind="check" id="a3.pads" points=5
check("a3.pads", me=me, model=letters, widths=widths, runs=runs, took=took)

# %% [markdown]
# Which width did you choose, and for whom? Explain your curves with your own figures: why do the
# executions fall as they do, and what does the filling cost (how long does `reader` compute for one
# text)? When would you choose the smallest width, and when the largest? Five to ten sentences; a
# person reads them.

# %% [markdown] kind="written" id="a3.width" points=10
# ### BEGIN SOLUTION
# (Figures of one run on two cores; yours differ.) With `PAD_TO` 1, `reader` ran 24 times for the
# 24 texts, with 8 it ran 20 times, with 32 14 times, and with 128 twice. A batch is one table, so
# only texts of one width share one. Filled up to 128, all texts have the same width. With 8 and 32
# it runs more often than there are widths, because a batch also ends where the next request in the
# queue has another width.
#
# The crowd took 54 ms with 1, 65 ms with 8, 60 ms with 32 and 37 ms with 128. So a little filling
# brought nothing: the executions hardly became fewer, and each has more steps. The network takes a
# step for each column: with 128 a text of 18 letters needs 128 steps in place of 18. `reader`
# computed 1.1 ms for it with 1, and 2.4 ms with 128. From outside a single text took about 30 ms
# with each width: 20 ms of that it waits in the queue of `letters`, and 5 ms in that of `reader`.
#
# I chose 128, because many ask at once here. For clients who come alone, or on a machine whose
# processor is paid by use, 1 is best: there is nobody to share with, and filling is wasted work.
#
# **Rubric** (10 points)
#
# | points | for |
# |---|---|
# | 3 | own figures for at least two widths, quoted rightly: executions and milliseconds |
# | 3 | why: a batch ends where the width changes, so fewer widths mean fewer executions |
# | 2 | what filling costs: a step for each column, also an empty one; own figure of computing |
# | 2 | a choice that follows from the figures, and a case in which another one would be better |
# ### END SOLUTION

# %% [markdown]
# ## A question to answer in words (10 points)
#
# An ensemble, or a program with BLS: which would you take for `detect`, and when would you take the
# other one? Use your figures of tasks 5 and 6. If you compare times, first subtract the time that
# each way waits because of its configs. Say also what each of them does when a step fails, and name
# one thing that only the program can do. Five to ten sentences; a person reads them.

# %% [markdown] kind="written" id="a3.why" points=10
# ### BEGIN SOLUTION
# I would take the ensemble. It is a config of a few lines: the server runs it, and the batchers of
# both steps work by themselves. In my run its network ran 24 times for 24 texts, and the program's
# once, because the program makes one table of all texts that come together. But with `PAD_TO` 128
# the ensemble needs 2 executions, and it has no code that can be wrong.
#
# The program's batches hold what one `execute` gets. While it waits for `reader`, its one instance
# does nothing else; under steady load the ensemble has texts in both steps at once. The program
# also pads all texts to the longest of those that happen to come together, so one long text makes
# all others slow.
#
# A single text took 30 ms through the ensemble and 52 ms through the program. That does not speak
# against the program: its own batcher waits 20 ms, beside the 25 ms of the two steps, which both
# ways have. Without the waiting it is 5 ms against 7 ms.
#
# If `letters` refuses a text, the ensemble hands the error to the request that it belongs to. The
# program must look for errors, and because it joins texts it has to ask again for each alone. I
# would take the program as soon as something must be decided: for example ask the small network
# first, and the large one only where the two best scores are close together.
#
# **Rubric** (10 points)
#
# | points | for |
# |---|---|
# | 3 | own figures of both, quoted rightly; where times are compared, without the delays |
# | 3 | why: the ensemble's steps batch equal shapes; the program joins what one execute gets |
# | 2 | a failing step: an ensemble passes its error on; a program must look for it, and decides |
# | 1 | something that only the program can do: decide, loop, ask another model or none |
# | 1 | a choice that follows from what is said; either is fine |
# ### END SOLUTION

# %% [markdown]
# **Before you hand in:** restart the kernel and run all cells from top to bottom; every check
# should say what you expect. Then run `workbook submit a3` in a terminal. What to remember: a
# trace is one run, a script is the program; and what a batcher can do depends on the shapes that it
# gets.
