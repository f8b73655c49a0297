# ---
# title: "Assignment 6: a chat loop, three ways"
# minutes: 120
# modules: [answers, client, drawing, engine, knobs, loop, network, step, stopping, streaming]
# ---

# %% [markdown]
# # Assignment 6: a chat loop, three ways
#
# A language model gives the scores of one next token. A program must call it again and again:
# choose a token, append it, call again, stop. You will write this loop as a Python model that calls
# the network by BLS, then as a stream. At the end vLLM does it. There are five tasks: 100 points.
#
# **What you should know.** A Python model with `execute`, and BLS (lecture 2, notebooks 02 and 12);
# what a token and a stream of responses are (lecture 1, notebook 11; lecture 2, notebook 11);
# coroutines, `async def` and `await` (Python's documentation, `Coroutines and tasks`); indexing and
# masks in numpy. Task 1 explains what a key-value cache is. Plan for 120 minutes, in two sittings:
# 20 up to the end of task 1, 55 for task 2, 15 for task 3, 10 for task 4, 20 for task 5. If BLS or
# streams are new to you, read these notebooks first.

# %% [markdown]
# **How it works.** You write in the cells that say *Your code here*, and in the files under
# `models/` beside this notebook (double-click one in the file browser). Run the checks as often as
# you like. If you are stuck, `hint("a6.step")` shows one hint at a time. Whenever you have changed
# a file under `models/`, run the cell that deploys its folder again. After a restart of the kernel,
# run all cells from the top.
#
# **When a model does not do what you expect:** what it prints, and each exception, is in the
# server's log. `print(connect().log_text()[-3000:])` shows the end of it.
#
# **When it does not answer within a minute,** its loop may never end. A new deploy does not stop
# such a loop: the old version goes on calling `llama_step`. Enter `workbook stop` in a terminal,
# then `workbook serve --detach` (a minute or two), and run the cells that deploy again.
#
# **Marks.** For the marks the checks run again outside of this notebook, on prompts that you have
# not seen. What is right is computed there from the network's weights. A person reads what you
# write in words.
#
# A mistake costs points once where it can be told from others: stop texts, for instance, are judged
# by your model's own answers without them. Two mistakes cost more. Nothing can be asked of a `chat`
# that answers no request, or fails when a row leaves the batch. And what is right is computed from
# your network: if `llama_step` serves another one, what is drawn from its scores is wrong, too.

# %% kind="given" id="a6.setup"
import matplotlib.pyplot as plt
import numpy as np

from grader.assignments.a6__llm import facts
from grader.assignments.a6__llm.client import infer, stream, texts, tokens_per_second
from grader.vocabulary.notebook import check, deploy, hint
from workbook.server import connect

# %% [markdown]
# **Your network.** It is a small Llama with 0.9 million parameters, trained on Python's reference
# manual. Your id decides its normalisation weights and your prompts, so no one else has your
# tokens. In a class, write the id that your instructor knows you by. If you study by yourself,
# leave it as it is.
#
# Half of the prompts are beginnings of sentences, the other half are questions. The network has
# learned questions in this form: `<|user|>`, a new line, the title of a section, `</s>`, a new
# line, `<|assistant|>`, a new line. Each of these marks is one token; `</s>` is the end of text.

# %%
me = "self-study"
prompts = facts.own_prompts(me)
print(*(repr(prompt) for prompt in prompts[:6]), sep="\n")

# %% [markdown]
# `fetch_network` writes it into the folders of your models, in two forms: as one step in ONNX
# (`models/llama_step`), and as a checkpoint of Hugging Face's form (`models/chat_vllm`). The server
# gets the step, which is complete:

# %% kind="given" id="a6.fetch"
facts.fetch_network(me)
step = deploy("models/llama_step").name
tokenizer = facts.tokenizer()
ids = tokenizer.encode(prompts[0]).ids
print(ids, [tokenizer.decode([token], skip_special_tokens=False) for token in ids], sep="\n")

# %% [markdown]
# ## Task 1: two steps by hand (5 points)
#
# | tensor of `llama_step` | holds, for n rows |
# |---|---|
# | `input_ids`, in | the new tokens, int64, (n, new) |
# | `position_ids`, in | the position of each in its own text, from 0, int64, (n, new) |
# | `attention_mask`, in | 1 for a token, 0 for padding, int64, (n, before + new) |
# | `past`, in | keys and values in 4 layers, with 2 heads: float32, (n, 8, 2, before, 64) |
# | `logits`, out | a score for each of the 1024 tokens, after the last new one, float32 |
# | `present`, out | `past` with the new tokens in it |
#
# `attention_mask` has first a value for each column of `past`, then one for each new token.

# %% [markdown]
# **The cache.** For each token the network computes a *key* and a *value* in each layer; a later
# token needs those of all tokens before it. They do not change when tokens follow. So a step hands
# them over (`present`), the next step takes them back (`past`), and computes the new token alone.
# Without `past` it would compute the whole text in every step. One row, a prompt of three tokens:
#
# | | step 1: the prompt | step 2: the first token of the answer |
# |---|---|---|
# | `input_ids` | 5 8 33 | 41 |
# | `position_ids` | 0 1 2 | 3 |
# | `past` holds | one empty column | the empty column, and 5 8 33 |
# | `attention_mask` | 0, 1 1 1 | 0 1 1 1, 1 |
# | `present` holds | the empty column, and 5 8 33 | the empty column, and 5 8 33 41 |

# %% [markdown]
# Two prompts have different lengths, and a table has one width. The next token follows the *last*
# column, so the shorter row is padded on the **left**, with any token; the mask is 0 there. The
# positions count a row's own tokens, from 0 at its first real token (what stands at the padding
# does not matter). Each position must be below 256.
#
# A cache cannot be empty: it begins as `np.zeros((n, *facts.EMPTY), np.float32)`, which is one
# column. The mask hides it, too, so for the first step the mask is one column wider than
# `input_ids`. Two steps for a prompt of two tokens (17 and 4) and one of four:
#
# ```text
#                    step 1                      step 2: the new tokens alone
# input_ids          0    0   17    4            9
#                    5    8   33    2            41
# position_ids       0    0    0    1            2
#                    0    1    2    3            4
# attention_mask     0 |  0    0    1    1       0    0    0    1    1 |  1
#                    0 |  1    1    1    1       0    1    1    1    1 |  1
# past               1 column (the empty cache)  5 columns: `present` of step 1
# ```

# %% [markdown]
# Ask `llama_step` for the two prompts of `pair`, in one request: `first` is its `logits`. Choose
# the token with the highest score in each row, and ask once more, with these two tokens *alone*,
# and `present` as `past`: `second` is what comes now. The next cell makes three arrays of the two
# prompts, padded on the left: `prompt_ids`, `prompt_positions`, and `prompt_mask`, which has no
# column for the cache yet. The rest is yours. `infer(model, inputs, outputs)` sends a dict of
# arrays and returns the outputs as a list: `first, present = infer(step, inputs, ["logits",
# "present"])`.

# %% kind="given" id="a6.pair"
pair = facts.own_pair(me)
rows = [tokenizer.encode(prompt).ids for prompt in pair]
width = max(map(len, rows))
prompt_ids, prompt_mask = np.zeros((2, 2, width), np.int64)
for number, row in enumerate(rows):
    prompt_ids[number, width - len(row) :] = row
    prompt_mask[number, width - len(row) :] = 1
prompt_positions = np.maximum(prompt_mask.cumsum(axis=1) - 1, 0)
print(prompt_ids, prompt_positions, prompt_mask, sep="\n")

# %% kind="solution" id="a6.by_hand"
### BEGIN SOLUTION
### STUB first = ...
### STUB second = ...
mask = np.pad(prompt_mask, ((0, 0), (1, 0)))
inputs = {
    "input_ids": prompt_ids,
    "position_ids": prompt_positions,
    "attention_mask": mask,
    "past": np.zeros((2, *facts.EMPTY), np.float32),
}
first, present = infer(step, inputs, ["logits", "present"])
chosen = first.argmax(axis=1)
inputs = {
    "input_ids": chosen[:, None],
    "position_ids": prompt_positions[:, -1:] + 1,
    "attention_mask": np.pad(mask, ((0, 0), (0, 1)), constant_values=1),
    "past": present,
}
(second,) = infer(step, inputs, ["logits"])
print([tokenizer.decode([a, b]) for a, b in zip(chosen, second.argmax(axis=1))])
### END SOLUTION

# %% kind="check" id="a6.step" points=5
check("a6.step", me=me, model=step, first=first, second=second)

# %% [markdown]
# ## Task 2: the loop as a model (50 points)
#
# `models/chat` gets prompts with parameters, and answers with texts. It is a program of yours, in
# two files: `1/model.py` has the batch and calls the network; `1/writing.py` has one answer, its
# tokens and its text. TODO marks what is missing. Before you begin, read `execute`, `write` and
# `ask` in the first and `class Answer` in the second; the docstrings say what each part must do.
# The rest is complete, and so is the config.
#
# The course has such a model, too: `model_repository/chat_bls`. You may read it and use what fits;
# much of its `sampling.py` does (a copy of `workbook/llm/sampling.py`). There are three
# differences: its network computes the positions itself; a request has one prompt; and it answers
# with the probability within the nucleus, where `chat` answers with the logarithm of the
# probability among all tokens.

# %% [markdown]
# | tensor of `chat` | for one row |
# |---|---|
# | `text_input` | the prompt |
# | `sampling_parameters` | a JSON object; see below |
# | `text_output` | the answer's text |
# | `token_ids` | its tokens; shorter rows are padded with -1 |
# | `logprobs` | for each, the natural logarithm of its probability among all tokens (padding: 0) |
# | `finish_reason` | `stop`: end of text, or a stop text; `length`: a limit was reached |
#
# | parameter | values | without it |
# |---|---|---|
# | `max_tokens` | whole, 1 to 256 | 16 |
# | `temperature` | 0 to 2 | 1 |
# | `top_p` | 0.001 to 1 | 1 |
# | `seed` | whole, 0 or more | a new draw |
# | `stop` | a text, or a list of texts | none |
#
# A logprob is computed from the scores as they are: neither temperature nor `top_p` changes it.
#
# A call by BLS has four steps. A model that doubles numbers with another model would do this:
#
# ```python
# inputs = [pb_utils.Tensor("INPUT", numbers)]
# answer = pb_utils.InferenceRequest(
#     model_name="double", inputs=inputs, requested_output_names=["OUTPUT"]
# ).exec()
# if answer.has_error():
#     raise pb_utils.TritonModelException(answer.error().message())
# doubled = pb_utils.get_output_tensor_by_name(answer, "OUTPUT").as_numpy()
# ```
#
# The task has four parts. Each has a cell that deploys `models/chat`, with a variable of its own.
# All four variables hold the same name, "chat"; as long as one is `...`, the check of its part says
# *not attempted*. A later check that fails says that it waits for `a6.greedy` as long as this one
# earns nothing: correct `a6.greedy` first.

# %% [markdown]
# ### The likeliest tokens (20 points)
#
# Begin with temperature 0: each time the token with the highest score. Write `ask` and `write` in
# `model.py`, `add` in `writing.py` without stop texts yet, and one line of `choose`: the lines that
# compute its logprobs are there.
#
# - All rows of all requests of an `execute` are one batch: one call of `llama_step` per step.
# - Each row has its own end: at the end of text (`eos_token_id`; it belongs neither to the tokens
#   nor to the text), after `max_tokens`, or where the context of 256 tokens is full. Then the row
#   leaves the batch: nothing is computed for it any more.
# - Each step computes the new token only.
#
# `texts(model, prompts, **parameters)` sends prompts as the rows of one request, all with the same
# parameters, and returns their texts.

# %% kind="solution" id="a6.loop"
### BEGIN SOLUTION
### STUB chat = ...  # deploy("models/chat").name
chat = deploy("models/chat").name
### END SOLUTION

# %% kind="given" id="a6.first_words"
if chat is not ...:
    for prompt, answer in zip(prompts, texts(chat, prompts[:4], temperature=0, max_tokens=24)):
        print(repr(prompt), "→", repr(answer))

# %% kind="check" id="a6.greedy" points=20
check("a6.greedy", me=me, model=chat)

# %% [markdown]
# ### Drawing a token (15 points)
#
# With a temperature T above 0 the token is drawn: divide the scores by T, make probabilities of
# them, and sort them. The *nucleus* is the shortest list of likeliest tokens whose probabilities
# add up to `top_p` or more. Divide these probabilities by their sum, and draw one token with them.
# The check draws some hundred first tokens, and counts how often each comes.
#
# `seed` begins a generator of random numbers that belongs to one answer: all its tokens are drawn
# from it, one after the other. The same prompt with the same seed gets the same tokens, alone or
# among others. Without a seed every draw is a new one.
#
# (Stay with float64, which `scores` and `logs` in `choose` have: the last digits of a sum in
# float32 depend on the order.)

# %% kind="solution" id="a6.draw"
### BEGIN SOLUTION
### STUB drawing = ...  # deploy("models/chat").name
drawing = deploy("models/chat").name
### END SOLUTION

# %% kind="check" id="a6.sampling" points=15
check("a6.sampling", me=me, model=drawing)

# %% [markdown]
# ### Stop texts (10 points)
#
# `stop` names texts before which an answer ends. Such a text may begin and end within a token:
# `". "` may come as the end of one token and the beginning of the next. So look for it in the text
# of all tokens so far, after each new token. As soon as a stop text stands there, the answer ends:
#
# - the text ends before the stop text. If the text has several, the one that begins first counts,
#   whatever their order in `stop`: with `["list", "a li"]`, "It is a list" becomes "It is ";
# - `token_ids` go up to the token that completes it;
# - `finish_reason` is `stop`, also where this token is the last one of `max_tokens`.
#
# For the stream of task 3, `add` returns what can be *shown*. Two things are kept back: a character
# of which bytes are missing (it decodes to "\ufffd"), and what may be the beginning of a stop text.
# With `["list", "a li"]`, after "It is a l" only "It is " is shown. If the next token does not
# continue a stop text, or if the answer ends, the rest is shown. `settled` is complete: it leaves
# out what must be kept back. The check of this part sees whole answers only; `a6.stream` tests what
# is kept back of a stop text.

# %% kind="solution" id="a6.stop"
### BEGIN SOLUTION
### STUB ending = ...  # deploy("models/chat").name
ending = deploy("models/chat").name
### END SOLUTION

# %% kind="check" id="a6.stops" points=10
check("a6.stops", me=me, model=ending)

# %% [markdown]
# ### Bad requests (5 points)
#
# A request is bad if it has an empty prompt, a prompt that leaves no room in the context, bytes
# that are not UTF-8, parameters that are no JSON object, a name that does not exist, or a value
# outside of its range or of another type. `read`, `read_parameters` and `Answer` find each of
# these, and raise `BadRequest` with a message that says what is wrong. You write the missing lines
# in `execute`, at TODO (bad requests): a bad request is refused by itself, with this message, and
# the others are answered. If one row is bad, its whole request is refused.

# %% kind="solution" id="a6.careful"
### BEGIN SOLUTION
### STUB careful = ...  # deploy("models/chat").name
careful = deploy("models/chat").name
### END SOLUTION

# %% kind="check" id="a6.refusals" points=5
check("a6.refusals", model=careful)

# %% [markdown]
# ## Task 3: the loop as a stream (20 points)
#
# Readers do not want to wait for the last word. A *decoupled* model sends as many responses to a
# request as it likes. `execute` returns nothing: it takes a sender from each request.
#
# | you write | it does |
# |---|---|
# | `sender = request.get_response_sender()` | takes the object that sends to this client |
# | `sender.send(response)` | sends one response |
# | `sender.send(flags=FINAL)` | ends the stream; `attend` does it, whatever happens |
# | `sender.is_cancelled()` | True when the client has left |
# | `response = await request.async_exec()` | asks by BLS; meanwhile other coroutines go on |

# %% [markdown]
# `models/chat_stream` has the tensors of `chat` for one prompt, without a batch. Each response
# holds a new token with its logprob, and the text that can be shown now, which may be empty.
# `finish_reason` is empty until the last one. After the end of text there is no new token, but the
# text that was kept back may still come. You write the loop in `write`. `ask` is the one of `chat`
# with one wrong line, which you correct.
#
# - Several clients at once: none waits until another one's answer has ended. `execute` is a
#   coroutine (`async def`), and the server calls it again while it waits.
# - When a client leaves, the model stops working on its answer, within a step or two.
# - Each step computes the new token only, as in `chat`.
# - An error is sent as a response, and then the end: `attend` does both already. After the end
#   nothing can be sent: sending a second end raises an error, which only the server's log shows.
#
# `writing.py` is the one of `chat`: edit `models/chat/1/writing.py` only. A model's folder must be
# complete by itself, so the next cell copies the file into `chat_stream` before it deploys.
# Whenever you have changed the file, run this cell again, and a cell that deploys `chat`, too. If
# the copy was edited, the cell stops and says so.
#
# `stream(model, prompt, **parameters)` asks for one answer, and gives the pieces of its text as
# they come, each with the seconds since the request.

# %% kind="solution" id="a6.pieces"
facts.copy_writing()
### BEGIN SOLUTION
### STUB chat_stream = ...  # deploy("models/chat_stream").name
chat_stream = deploy("models/chat_stream").name
### END SOLUTION

# %% kind="given" id="a6.watch"
if chat_stream is not ...:
    list(stream(chat_stream, prompts[0], max_tokens=2))  # the first pieces after a load come late
    for when, piece in stream(chat_stream, prompts[1], temperature=0, max_tokens=24):
        print(f"{1000 * when:6.1f} ms  {piece!r}")

# %% kind="check" id="a6.stream" points=10
check("a6.stream", me=me, model=chat_stream)

# %% kind="check" id="a6.clients" points=10
check("a6.clients", me=me, model=chat_stream)

# %% [markdown]
# ## Task 4: the same network on vLLM (10 points)
#
# vLLM has a loop of its own, with *continuous batching*: at each token it decides anew who is in
# the batch. It is an optional package (`make vllm` in the course's folder, some minutes). Without
# it leave your two cells of this task as they are: its two checks say *not attempted*, and you get
# 90 points at most. If your class works without vLLM, your instructor says what counts.

# %% kind="given" id="a6.lacking"
print(facts.lacking_vllm() or "vLLM is installed.")

# %% [markdown]
# Write two files in `models/chat_vllm`:
#
# - `config.pbtxt`: the backend, and an `instance_group` of `KIND_MODEL`. Tensors are filled in.
# - `1/model.json`: the engine's arguments, as one JSON object. `model` is the path of the
#   checkpoint's folder as seen from the model repository (as in `model_repository/llama_vllm`; here
#   it begins with `chat_vllm/`), `dtype` "float32" as in ONNX, `max_num_seqs` 8,
#   and `enforce_eager` true, without quotes: compiling would take a minute or more.
#
# Deploy it; the engine takes a quarter of a minute to start, and up to two minutes where two cores
# have other work, too. Then ask for the first 8 prompts at temperature 0 with `max_tokens` 24, and
# keep the texts, without their prompts, as `of_vllm`: one text per prompt.
# `stream(model, prompt, …)` asks vLLM, too.
#
# The same folder is served on a GPU. There you could leave `dtype` and `enforce_eager` out; but
# then some tokens would differ. (Not verified on a GPU.)

# %% kind="solution" id="a6.engine"
### BEGIN SOLUTION
### STUB chat_vllm = facts.NOT_ATTEMPTED  # deploy("models/chat_vllm").name
### STUB of_vllm = facts.NOT_ATTEMPTED
chat_vllm = deploy("models/chat_vllm").name
of_vllm = []
for prompt in prompts[:8]:
    pieces = stream(chat_vllm, prompt, temperature=0, max_tokens=24)
    of_vllm.append("".join(piece for _, piece in pieces))
### END SOLUTION

# %% kind="check" id="a6.vllm" points=5
check("a6.vllm", me=me, vllm=chat_vllm, of_vllm=of_vllm)

# %% [markdown]
# How fast are the three? `tokens_per_second(model, prompts, clients=8)` asks with eight clients at
# once, with `max_tokens` from 16 to 96. Guess first: which of `chat`, `chat_stream` and
# `chat_vllm` makes the most tokens per second, on so small a network? And how many times more does
# vLLM make for eight clients than for one?
#
# `in_rounds` measures several models in turn, so that other work of the machine slows all of them.
# Hand over `rates`, which it returns for `"chat"`, `"chat_stream"`, `"chat_vllm"`, each with eight
# clients, and `"chat_vllm, one client"`.


# %% kind="given" id="a6.rounds"
def in_rounds(models, rounds=3):
    """Measure tokens per second in several rounds; returns a list per name, one number per round.

    Args:
        models: a dict: name → (model, clients).
        rounds: how often each of them is measured.
    """
    for model in dict.fromkeys(model for model, _ in models.values()):
        tokens_per_second(model, prompts)  # the first answers after a load are slow
    rates = {name: [] for name in models}
    for _ in range(rounds):
        for name, (model, clients) in models.items():
            rates[name].append(tokens_per_second(model, prompts, clients))
    return rates


# %% kind="solution" id="a6.measure"
### BEGIN SOLUTION
### STUB rates = ...
rates = in_rounds(
    {
        "chat": (chat, 8),
        "chat_stream": (chat_stream, 8),
        "chat_vllm": (chat_vllm, 8),
        "chat_vllm, one client": (chat_vllm, 1),
    }
)
for name, found in rates.items():
    print(f"{name:24}{np.median(found):8.0f} tokens per second")
### END SOLUTION

# %% kind="check" id="a6.speed" points=5
check("a6.speed", vllm=chat_vllm, rates=rates)

# %% [markdown]
# The network has 0.9 million parameters, so computing a step takes little time. Most of the time
# goes to the calls around it. With 40 million, vLLM made more than twice as many tokens as the
# course's loop in BLS (590 and 232 per second, for answers of different lengths: `BENCHMARKS.md`),
# and a real model has billions.

# %% [markdown]
# ## Task 5: what does the temperature do? (15 points)
#
# Measure what this parameter does. For at least four temperatures
# (the smallest above 0 and at most 0.5, the largest from 1.4 to 2) draw 8 to 64 answers to
# `prompts[0]`, each with a seed of its own, `max_tokens` 40, and everything else as it is by
# default. `measure(temperature)` does it for one temperature, with 16 answers, and returns three
# things:
#
# - the answers, each a list of tokens (without -1);
# - the *surprise*: the mean of -logprob over all tokens of the answers. How improbable does the
#   network find what was drawn?
# - the *variety*: the number of different tokens divided by the number of tokens.


# %% kind="given" id="a6.measured"
def measure(temperature, prompt=prompts[0], **more):
    """16 answers at a temperature, as tokens; their surprise and their variety."""
    answers, costs = [], []
    for start in (0, 8):  # a request has 8 rows at most
        wanted = [
            {"temperature": temperature, "seed": start + row, "max_tokens": 40, **more}
            for row in range(8)
        ]
        inputs = facts.requests_of([prompt] * 8, wanted)
        tokens, logprobs = infer("chat", inputs, ["token_ids", "logprobs"])
        answers += [row[row >= 0].tolist() for row in tokens]
        costs += (-logprobs[tokens >= 0]).tolist()
    everything = [token for answer in answers for token in answer]
    return answers, float(np.mean(costs)), len(set(everything)) / len(everything)


# %% [markdown]
# Hand over `temperatures`, and `drawn`, `surprise` and `variety`, which are lists with the answers
# and the figures of each temperature:
#
# ```python
# temperatures = [...]
# measured = [measure(temperature) for temperature in temperatures]
# drawn, surprise, variety = map(list, zip(*measured))
# ```
#
# This task is open: the cell after yours plots both figures; read some answers aloud
# (`tokenizer.decode(drawn[0][0])`), try `measure(1.6, top_p=0.8)`, or another prompt. The check
# gives 5 points, your words 10.

# %% kind="solution" id="a6.vary"
### BEGIN SOLUTION
### STUB temperatures = ...
### STUB drawn = ...
### STUB surprise = ...
### STUB variety = ...
temperatures = [0.1, 0.4, 0.7, 1.0, 1.3, 1.6, 2.0]
measured = [measure(temperature) for temperature in temperatures]
drawn, surprise, variety = map(list, zip(*measured))
some = [0.4, 1.0, 1.6]
cut = [measure(temperature, top_p=0.8) for temperature in some]
for row in zip(temperatures, surprise, variety, drawn):
    print("{}: {:.2f} {:.2f}".format(*row), tokenizer.decode(row[3][0]))
print("with top_p 0.8:", *(f"{one}: {found[1]:.2f}" for one, found in zip(some, cut)), sep="\n")
### END SOLUTION

# %%
if surprise is not ... and variety is not ...:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3))
    for axis, name, found in zip(axes, ("surprise", "variety"), (surprise, variety)):
        axis.plot(temperatures, found, marker="o")
        axis.set(xlabel="temperature", ylabel=name, ylim=(0, None))
    figure.tight_layout()
    plt.show()

# %% kind="check" id="a6.knobs" points=5
check(
    "a6.knobs",
    me=me,
    model=drawing,
    temperatures=temperatures,
    drawn=drawn,
    surprise=surprise,
    variety=variety,
)

# %% [markdown]
# Answer in five to eight sentences; a person reads them.
#
# 1. What does the temperature do? Explain your curves with your own figures.
# 2. What does `top_p` do that the temperature cannot?
# 3. Why does `chat` make more tokens per second than `chat_stream`?
# 4. Where would vLLM make more than both?

# %% [markdown] kind="written" id="a6.words" points=10
# ### BEGIN SOLUTION
# (Figures of "self-study"; those of another id differ.) At temperature 0.1 the mean surprise was
# 1.15 and the variety 0.22; at 1.0 they were 2.68 and 0.51; at 2.0, 6.76 and 0.62. A surprise of
# 6.93 would be that of tokens which are drawn blindly from all 1024. At 0.1 the answers are nearly
# the same ones and quote the manual: `a strings "None" if "0" is "None"`. At 1.6 words fall apart:
# `mechaning variable t definition as allow`.
#
# Scores are divided by T before softmax. With a small T their differences grow, and the likeliest
# token takes nearly all; with a large T all 1024 become alike. A large T lifts above all the long
# tail: hundreds of tokens with a small probability each, together a large one. A lower T makes the
# tail thinner, but also the good alternatives. `top_p` cuts it off: with 0.8, temperature 1.0 has a
# surprise of 1.85 in place of 2.68, and still a choice among good words.
#
# `chat` made 2014 tokens per second and `chat_stream` 882, because `chat` asks the network once per
# step for eight rows, and the stream eight times for one. vLLM made 1103: it batches, too, but each
# of its steps costs some milliseconds, and the network next to nothing. With a large network the
# step's computing decides. Then vLLM wins: a row that ends makes room for a new one at once, where
# `chat` lets new requests wait until its longest answer has ended.
#
# **Rubric** (10 points)
#
# | points | for |
# |---|---|
# | 3 | own figures at two temperatures or more, quoted rightly: surprise and variety |
# | 2 | why: dividing by T makes probabilities more or less equal, so improbable tokens are drawn |
# | 2 | top_p takes away the long tail of improbable tokens, which a lower temperature only thins |
# | 1 | `chat` makes one call per step for all rows, the stream one for each row |
# | 2 | vLLM gains where computing a step takes the time, and since new rows join at once |
# ### END SOLUTION

# %% [markdown]
# **Before you hand in:** run `workbook submit a6` in a terminal. It runs the notebook from top to
# bottom in a kernel of its own, and says what each check says. What to remember: a language model
# is a loop around a network, and each row of a batch has its own positions, its own cache, its own
# random numbers and its own end.
