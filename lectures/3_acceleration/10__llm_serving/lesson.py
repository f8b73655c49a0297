# ---
# title: LLM serving
# minutes: 30
# ---

# %% [markdown]
# # LLM serving
#
# **Question.** A language model (LLM) computes its answer token by token, for many users at once. Who waits for whom, and which way of serving makes the waits short?
#
# A small Llama answers, with 40 million random weights: its words mean nothing, only their times count. Streaming is from [lecture 1](../../1_architecture/11__generate/11__generate.ipynb), vLLM from [lecture 2](../../2_backends/11__llm_backends/11__llm_backends.ipynb).

# %%
import llama_page  # its table, and what a GPU has measured
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("llm_serving")
place(models, *[f"models/{name}" for name in ("one", "two", "static", "engine", "loop")])
setup.prepare(models)  # programs and weights, and the small network `step`, which `loop` asks
lab = laboratory(models)  # a Triton server of this notebook's own; it needs 4 GB
print(setup.engine())  # without `make vllm`, Transformers answers in vLLM's place

# %% [markdown]
# ## One user
#
# Three deployments of the same weights:
#
# - `one`: Hugging Face's model in the Python backend, one request at a time, on one core.
# - `static`: the same, but up to eight requests share one call.
# - `engine`: vLLM, on all cores. vLLM makes the batches itself, so its config has no `max_batch_size`.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for name in one static engine; do
#   echo "-- $name"; grep -E 'backend|batch|instance|threads' $name/config.pbtxt
# done
# echo '-- arguments of engine:'; cat engine/1/model.json

# %% [markdown]
# A user sees two times: to the *first token* (TTFT, time to first token), and *between tokens* (inter-token latency).
#
# `ask` sends a request to `generate_stream`, and notes when each piece of the answer comes. One user asks each deployment six times; of the last five, the best counts. `one` and `static` send one piece, at the end: `NaN` between tokens.

# %% tags=["triton"]
import json
import os
import time

import httpx
import numpy as np

http = httpx.Client(base_url=f"http://{os.environ['TRITON_HTTP']}/v2/models", timeout=300)


def ask(model, prompt, tokens):
    """When a request was sent, and when each piece of its answer came, in seconds."""
    sampling = json.dumps({"max_tokens": int(tokens), "temperature": 0, "ignore_eos": True})
    body = {"text_input": prompt, "sampling_parameters": sampling, "stream": True}
    times = [time.perf_counter()]
    with http.stream("POST", f"/{model}/generate_stream", json=body) as answer:
        for line in filter(None, answer.iter_lines()):
            assert "error" not in json.loads(line.removeprefix("data: ")), line
            times.append(time.perf_counter())
    return np.array(times)


# %% tags=["triton"]
import pandas as pd


def alone(model, tokens=16):
    """One user's times, in ms, and tokens per second."""
    sent, first, last = ask(model, "def f(x):", tokens)[[0, 1, -1]]
    between = (last - first) / (tokens - 1) or np.nan
    return [1000 * (first - sent), 1000 * between, tokens / (last - sent)]


names = ["one", "static", "engine"]
columns = {"first token, ms": "min", "between tokens, ms": "min", "tokens per s": "max"}
tries = [pd.DataFrame(map(alone, names), names, [*columns]) for _ in range(6)][1:]
best = pd.concat(tries).groupby(level=0, sort=False).agg(columns)
best.round(1)

# %%
gain = best["tokens per s"]["static"] / best["tokens per s"]["one"]
later = best["first token, ms"]["static"] - best["first token, ms"]["one"]
same = setup.repeated([each["tokens per s"] for each in tries])
claim(
    gain < 1.5,
    f"For one user, static makes ×{gain:.2f} as many tokens per second as one: nobody comes to share "
    f"its batch. Its answer takes {later:.0f} ms more; its config lets it wait 50 ms for others.",
    "Run the cell above again.",
    premise=same,
    id="serving.alone",
)

# %% [markdown]
# ## Eight users
#
# Eight users ask for 16 answers, of 4 to 64 tokens. In `static`, Triton's dynamic batcher gives up to eight requests to one call of Hugging Face's `generate`. There each prompt is a *row*, padded to one length. Each step makes one more token for every row.

# %%
predict(
    "serving.short",
    "In static, somebody wants 4 tokens, and the others of his batch up to 64. When does his answer come?",
    {
        "after 4 steps": "His row has them then. But generate is one call of the model's execute: "
        "Triton sends its answers when the call returns.",
        "after about 64 steps": None,
        "after all tokens of the others": "So it is in `one`, where they take turns. A batch "
        "computes a token for each row in one step.",
    },
)

# %% tags=["triton"]
from concurrent.futures import ThreadPoolExecutor

lengths = np.random.default_rng(3).permutation(np.geomspace(4, 64, 16).round().astype(int))


def crowd(model, lengths, users=8):
    """Each user asks again when the answer has come. A row per answer, in seconds."""

    def user(tokens):
        sent, first, last = ask(model, "def f(x):", tokens)[[0, 1, -1]]
        return sent, first, last, tokens

    with ThreadPoolExecutor(users) as pool:
        rows = list(pool.map(user, lengths))
    table = pd.DataFrame(rows, columns=["sent", "first", "end", "tokens"])
    table[["sent", "first", "end"]] -= table["sent"].min()
    return table


# %% tags=["triton"]
runs = {}
for name in ("one", "static", "engine"):
    crowd(name, [2] * 8)  # warm
    runs[name] = crowd(name, lengths)


def short(run):
    """The median time of the answers of at most 8 tokens, in seconds."""
    return (run["end"] - run["sent"])[run["tokens"] <= 8].median()


mixed = {name: [run["tokens"].sum() / run["end"].max(), short(run)] for name, run in runs.items()}
pd.DataFrame(mixed, ["tokens per s", "a short answer, s"]).T.round(2)

# %%
display(setup.plot(runs))
batches = setup.batches(runs["static"])
took = runs["static"]["end"] - runs["static"]["sent"]
late = took[runs["static"]["tokens"] <= 8].max() / took.max()
useful = batches["tokens"].sum() / (batches["rows"] * batches["longest_tokens"]).sum()
ready = "after about 64 steps" if late > 0.4 else "after 4 steps"
full = Premise(batches["rows"].max() >= 4, "the users did not come together")
compare("serving.short", ready, premise=full)
faster = short(runs["static"]) / short(runs["engine"])
claim(
    useful < 0.8 and faster > setup.limit(1.8, without_vllm=1),
    f"Of the tokens that static computed, {useful:.0%} were asked for. A short answer took "
    f"×{faster:.1f} as long as in engine.",
    "Run the cells of this section again.",
    premise=full,
    id="serving.static",
)

# %% [markdown]
# In the picture, all answers of a *static* batch end together: who wanted few tokens waits for who wanted many.
#
# vLLM chooses anew at each step: an answer that is complete leaves, and one that waits takes its place. This is *continuous batching* (lecture 2). But `engine` has all cores. What does this batching alone gain in tokens per second?

# %% [markdown]
# ## The Llama page's table
#
# If all answers have 12 tokens, a static batch loses nothing at its end. We add `two` (`one` with two instances) and `engine alone` (one user). The second table adds [the Llama page](../../00__start/00__start.ipynb#The-documents-behind-the-course)'s GPU, and a newer one (–: not measured). The networks differ, so compare only the gains, in brackets.

# %% tags=["triton"]
rates = {name: [] for name in ("one", "two", "static", "engine alone", "engine")}
for _ in "123":
    for name, found in rates.items():
        run = crowd(name.split()[0], [12] * 8, users=1 if "alone" in name else 8)
        found.append(run["tokens"].sum() / run["end"].max())
rates = pd.DataFrame(rates)
rates.round(1)

# %%
display(llama_page.table(rates.max()))
better = rates.max() / rates["one"].max()
equal, unequal = better["engine"] / better["static"], mixed["engine"][0] / mixed["static"][0]
measured = [row[["one", "static", "engine"]] for _, row in rates.iterrows()]
claim(
    better["static"] > 1.2
    and better["engine"] > setup.limit(1.2, without_vllm=0)
    and unequal > setup.limit(equal, without_vllm=0),
    f"Gains over one request at a time: two instances ×{better['two']:.1f}, batches ×"
    f"{better['static']:.1f}, the engine ×{better['engine']:.1f}. The engine over batches: "
    f"×{equal:.1f} the tokens with answers of one length, ×{unequal:.1f} with different lengths: "
    f"its batching alone makes ×{unequal / equal:.1f}.",
    "Run the cells of this section and of the one before again.",
    premise=setup.repeated(measured, factor=2),
    id="serving.table",
)

# %% [markdown]
# With answers of one length, only its cores and its program make `engine` faster; with different lengths, its batching does, too. So the batching's own gain is the quotient, the claim's last number.
#
# <details><summary>Errata: the Llama page</summary>
#
# It says that dynamic batching brought ×5, and vLLM ×7 more. Its table has ×6.3 (66.5 / 10.6) and ×5.5 (363 / 66.5).
#
# </details>

# %% [markdown]
# ## Your own loop
#
# If no engine supports your model, write the loop, as [the production guide](../../00__start/00__start.ipynb#The-documents-behind-the-course) does: a Python model asks another (BLS), here `step`:
#
# ```python
# for _ in range(count):
#     scores, present = step(text[done:], past)  # a request to the network
#     if self.cache:
#         past, done = present, len(text)
#     text.append(draw(scores, top_p, random))  # one of the likeliest
# ```
#
# `past` holds *keys and values*, computed for the first `done` tokens. Your network must take and return them; [loop](models/loop/1/model.py) has their shape in `EMPTY`. It keeps what comes back, `present`; `whole` sends the whole text.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp -rT loop whole
# sed -i 's/"yes"/"no"/' whole/config.pbtxt  # the parameter `cache`
# curl -sX POST $TRITON_HTTP/v2/repository/models/whole/load


# %% tags=["triton"]
def write(model, length, count=16):
    """Send a text of this many tokens to a loop; return the answer's milliseconds."""
    ids = np.random.default_rng(length).integers(10, 2000, length).tolist()
    tensors = (("ids", "INT64", ids), ("count", "INT32", [count]), ("top_p", "FP32", [0.9]))
    inputs = [dict(name=n, datatype=t, shape=[len(data)], data=data) for n, t, data in tensors]
    began = time.perf_counter()
    http.post(f"/{model}/infer", json={"inputs": inputs}).raise_for_status()
    return 1000 * (time.perf_counter() - began)


# %%
predict_curve(
    "serving.cache",
    "An answer of 16 tokens: whole takes how many times as long as loop?",
    x=[25, 100, 200, 400],
    y_range=(0, 30),
    unit="times",
    below="tokens of the text before it",
)


# %% tags=["triton"]
before = [25, 100, 200, 400]
rounds_of_loops = [  # the first warms up
    {name: [write(name, n) for n in before] for name in ("loop", "whole")} for _ in "1234"
]
ms = pd.concat(pd.DataFrame(each, before) for each in rounds_of_loops[1:]).groupby(level=0).min()
ms.round(0)  # of an answer of 16 tokens, the best of three; a row per length of the text before it

# %%
times = ms["whole"] / ms["loop"]
grows = Premise(
    ms["whole"].is_monotonic_increasing and ms["loop"][25] < ms["loop"][400],
    "other programs took the cores",
)
compare_curve("serving.cache", before, times, premise=grows)
claim(
    times[400] > 2 and times[400] > 1.3 * times[25],
    f"After 400 tokens of text, whole takes ×{times[400]:.1f} as long as loop, after 25 "
    f"×{times[25]:.1f}.",
    "Run the cell above again.",
    premise=grows,
    id="serving.cache",
)

# %% [markdown]
# After 400 tokens, `loop` sends 400 + 15 tokens in all, `whole` 400 + 401 + … + 415: ×16. After 25, ×13. The times differ less: each of 16 requests has a price, and `loop` also sends keys and values.
#
# ## A long prompt
#
# Back to `engine`. Four answers are under way. A fifth user sends a prompt of 400 tokens.

# %%
predict(
    "serving.pause",
    "What do the four see meanwhile?",
    {
        "nothing: it is one row more": "For an answer under way a step has one token. For the prompt "
        "it has 400, and all rows wait for the end of the step.",
        "a pause, several times as long as usual": None,
        "no token until the fifth user's answer is complete": "Only the prompt's step is long. "
        "After it, the fifth answer is one row like the others.",
    },
)

# %% [markdown]
# `meanwhile` does this. Of the four, it takes the usual and the longest *gap* between two tokens; of the fifth, the times to the first token and to the complete answer.
#
# To compare, the fifth also sends a prompt of 10 tokens. Of three tries, the smallest numbers count.

# %% tags=["triton"]
WORDS = ["the", "of", "a", "to", "is", "in", "and", "or", "if", "for", "not", "list", "method"]
usual = best["between tokens, ms"]["engine"] / 1000


def prompt(count):
    """A new prompt of this many tokens: each of the words is one."""
    return " ".join(["the", *np.random.default_rng().choice(WORDS, count - 1)])


def meanwhile(count):
    """Four answers are under way when a prompt of `count` tokens comes: times in ms."""
    with ThreadPoolExecutor(5) as pool:
        others = [pool.submit(ask, "engine", "def f(x):", 60) for _ in range(4)]
        time.sleep(15 * usual)
        fifth = pool.submit(ask, "engine", prompt(count), 45)
    gaps = 1000 * np.concatenate([np.diff(other.result()[1:]) for other in others])
    usual_gap = np.median(gaps[gaps > 1])  # without pieces that were read together
    sent, first, *_, end = 1000 * fifth.result()
    return usual_gap, gaps.max(), first - sent, end - sent


# %% tags=["triton"]
columns_of_gaps = ["usual gap", "longest gap", "the fifth's first token", "the fifth's answer"]
rounds = {count: [meanwhile(count) for _ in "123"] for count in (10, 400)}
pauses = pd.DataFrame(
    {count: np.min(found, axis=0) for count, found in rounds.items()}, columns_of_gaps
)
pauses.T.round(0).rename_axis("tokens of the prompt")  # in ms

# %%
longest = pauses.loc["longest gap"] / pauses.loc["usual gap"]
stopped = pauses.loc["longest gap"] / pauses.loc["the fifth's answer"]
pause = (
    "a pause, several times as long as usual"
    if stopped[400] < 0.7
    else "no token until the fifth user's answer is complete"
)
compare(
    "serving.pause",
    pause if longest[400] > 3 else "nothing: it is one row more",
    premise=Premise(longest[10] < longest[400], "other programs took the cores"),
)
claim(
    longest[400] > 3 and longest[400] > 1.3 * longest[10] and stopped[400] < 0.7,
    f"The longest gap was ×{longest[400]:.0f} the usual one with a prompt of 400 tokens, "
    f"×{longest[10]:.1f} with one of 10.",
    "Run the cell before this one again.",
    id="serving.pause",
)

# %% [markdown]
# A step of vLLM makes one token for each answer under way. The step that takes in a new prompt also reads all of it: the *prefill*. All wait for its end: compare `longest gap` and `the fifth's first token`.
#
# ## A prompt that was answered

# %%
predict(
    "serving.prefix",
    "A prompt of 400 tokens was answered. Which later prompt gets its first token much sooner?",
    {
        "only an equal one": "Keys and values of a token depend on what stands before it, not on "
        "what follows. So a beginning can be kept alone.",
        "an equal one, and one that differs in its last word": None,
        "an equal one, and one that differs in its first or last word": "After another first word, "
        "the keys and values of all tokens are others.",
        "none": "So it is with Transformers, in vLLM's place. vLLM keeps them.",
    },
)

# %% tags=["triton"]
firsts = []
for _ in range(5):
    text = prompt(400)
    texts_of = {"new": text, "equal": text, "other last word": text.rsplit(" ", 1)[0] + " def"}
    texts_of["other first word"] = "class" + text[3:]  # not "the"
    ms_of = {}
    for kind, each in texts_of.items():
        sent, first = ask("engine", each, 2)[:2]
        ms_of[kind] = 1000 * (first - sent)
    firsts.append(pd.Series(ms_of))
sooner = pd.concat(firsts, axis=1).min(axis=1)
sooner.round(0)  # ms to the first token, the best of five

# %%
gain = sooner["new"] / sooner
kept = gain["other last word"] > 1.5
which = "an equal one, and one that differs in its last word" if kept else "none"
new = setup.repeated([1 / each for each in firsts], factor=2.5)
compare("serving.prefix", which, premise=new)
claim(
    min(gain[["equal", "other last word"]])
    > setup.limit(1.5, without_vllm=0) * max(1, gain["other first word"]),
    f"Sooner by ×{gain['equal']:.1f} if it is equal, ×{gain['other last word']:.1f} with another "
    f"last word, ×{gain['other first word']:.1f} with another first word.",
    "Run the cell before this one again.",
    premise=new,
    id="serving.prefix",
)

# %% [markdown]
# vLLM keeps the keys and values of prompts that it has answered (*prefix caching*). Those of a token depend on all tokens before it. So put first what all prompts share, and a name or the time last. It keeps full blocks only, here of 128 tokens (`block_size` in `model.json`; often 16 on GPUs): 100 shared tokens gain nothing.

# %% [markdown]
# ## Your turn
#
# A long prompt stops the other answers. vLLM reads it in parts if a step may have fewer tokens; by default, it may have thousands. Which [argument](https://docs.vllm.ai/en/v0.32.0/configuration/engine_args/) limits them? Set it, and also `max_num_seqs`, which must not be above it. Write both, and the four that the file has, in a new cell, `%%writefile {models}/engine/1/model.json`, and run `lab.load("engine")`.

# %%
task("serving.pause", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# Measure what your users see, with more and more users, until the waits are too long: here 1, 4 and 8. The last good number is your `max_num_seqs`. In [latency.py](at_work/latency.py), replace `REQUESTS` by prompts and lengths from your log, others for each run: vLLM keeps those that it has answered.

# %% tags=["triton"]
# %run at_work/latency.py engine 1 4 8

# %% [markdown]
# ## What to remember
#
# - Measure the time to the first token and between tokens, with long and short answers together.
# - Take an engine with continuous batching: a new request takes a complete answer's place. A static batch waits for its longest answer.
# - Keep keys and values. A long prompt makes the others wait; a beginning that prompts share is computed once.

# %% [markdown]
# ## Check yourself
#
# <details><summary>After the task: who pays for the shorter pauses?</summary>
#
# The user with the long prompt. In one run on two cores, with 64 tokens per step, the longest gap of the others fell from 225 to 105 ms, and the first token of the fifth came after 600 ms in place of 310. Run `meanwhile(400)` for your own numbers.
#
# </details>
#
# <details><summary>A prompt has documents found for its question, 300 tokens of instructions, then the question. What would you change?</summary>
#
# The order: instructions first. Two blocks of 128 tokens are then kept; after documents that differ, none.
#
# </details>
#
# <details><summary>Users complain that answers freeze for a moment now and then. Throughput is fine. Where do you look?</summary>
#
# At the longest gap between tokens, and at long prompts that come at these moments. Limit the tokens of a step.
#
# </details>
