# ---
# title: Ensembles
# minutes: 30
# ---

# %% [markdown]
# # Ensembles
#
# **Question.** A network takes token ids, and its clients have sentences. Who runs the tokenizer, who connects the steps, and which way is fast?
#
# Our network tells which of 16 languages a text is in. Two steps in Python are beside it: a *tokenizer*, which cuts text into pieces and gives their numbers (ids), and the languages' names.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = setup.models()  # a fresh folder: files of an earlier run are deleted
lab = laboratory(models, only=setup.SHARED)  # the first time, this takes one to two minutes

# %% [markdown]
# ## Two places for a tokenizer
#
# On the server: a client sends text to `language`. This is an *ensemble*, a config that connects models ([schedulers](../../1_architecture/03__schedulers/03__schedulers.ipynb)): here `language_tokenizer`, `language_onnx` and `language_labels`.

# %% language="bash" tags=["triton"]
# curl -s $TRITON_HTTP/v2/models/language/infer -d '{"inputs": [{"name": "text",
#   "shape": [1, 1], "datatype": "BYTES", "data": ["Lettisch und Äquatorialguinea"]}]}' | grep -o '"outputs".*'

# %% [markdown]
# On the client: it tokenizes each text and *pads* it, with zeros up to 64 tokens, because a batch is one array. It sends the ids, and a *mask* with 1 for each real token, to `language_onnx` alone. We do both with 32 texts, and compare answers and bytes:

# %% tags=["triton"]
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import tritonclient.grpc as grpc
from tokenizers import Tokenizer
from tritonclient.utils import InferenceServerException

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
texts = (models / "texts.txt").read_text("utf-8").splitlines()
languages = (models / "language_labels/labels.txt").read_text("utf-8").split()
tokenizer_file = str(models / "language_tokenizer/1/tokenizer.json")

# %% tags=["triton"]
tokenizer = Tokenizer.from_file(tokenizer_file)
tokenizer.enable_padding(length=64)
padded = tokenizer.encode_batch(texts)
ids = grpc.InferInput("input_ids", [32, 64], "INT64")
ids.set_data_from_numpy(np.array([each.ids for each in padded]))
mask = grpc.InferInput("attention_mask", [32, 64], "INT64")
mask.set_data_from_numpy(np.array([each.attention_mask for each in padded]))
scores = client.infer("language_onnx", [ids, mask]).as_numpy("logits")
by_client = [languages[best] for best in scores.argmax(1)]

text = grpc.InferInput("text", [32, 1], "BYTES")
text.set_data_from_numpy(np.array(texts, object)[:, None])
labels = client.infer("language", [text]).as_numpy("label").ravel()
by_server = [label.decode() for label in labels]
sent = sum(4 + len(each.encode()) for each in texts)  # 4 bytes: the text's length
print(f"bytes per text: {2 * 64 * 8} of ids and mask, {sent / 32:.0f} of text")

# %%
claim(
    by_client == by_server,
    "Both ways find the same languages.",
    "Run the cells of this section again.",
    id="ensembles.client",
)

# %% [markdown]
# Text is smaller, and no client needs the tokenizer's file in the right version. So it belongs on the server.
#
# ## The Llama page's ensemble
#
# [The Llama page](../../00__start/00__start.ipynb#The-documents-behind-the-course) has three folders: `tokenizer`, `model`, and `ensemble_model`, which connects them. [`model`](models/model/config.pbtxt) is our network. First the tokenizer's program: from `prompt` it makes `input_ids` and `attention_mask` ([config](models/tokenizer/config.pbtxt)).

# %% tags=["triton"]
# %%writefile {models}/tokenizer/1/model.py
import triton_python_backend_utils as pb
from transformers import AutoTokenizer


class TritonPythonModel:
    def initialize(self, args):
        self.tokenizer = AutoTokenizer.from_pretrained(__file__.removesuffix("model.py"))

    def execute(self, requests):
        prompts = [pb.get_input_tensor_by_name(r, "prompt").as_numpy() for r in requests]
        return [self.tokens([text.decode() for text in texts]) for texts in prompts]

    def tokens(self, texts):
        found = self.tokenizer(texts, padding=True, return_tensors="np")
        return pb.InferenceResponse([pb.Tensor(n, found[n].astype("int64")) for n in found])


# %% [markdown]
# Then the ensemble. It has no backend, because the server's core runs it, and no version with files, only an empty folder `1`. In the maps, `key` is the tensor's name in the step, `value` its name in the ensemble. What one step puts out as `ids`, the next takes.

# %%
place(models, "models/ensemble_model")
show("models/ensemble_model/config.pbtxt")

# %% language="bash" tags=["triton"]
# for model in tokenizer model ensemble_model; do  # up to 20 seconds
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done
# curl -s $TRITON_HTTP/v2/models/ensemble_model/infer -d '{"inputs": [{"name": "prompt",
#   "shape": [2], "datatype": "BYTES", "data": ["Lettisch", "das Litauische"]}]}' | grep -o '"outputs".*' | head -c 150

# %% [markdown]
# The answer has 16 scores per text. With `max_batch_size: 0`, as on the page, requests never share an execution. `language` allows 64, as each of its steps does.
#
# Now four mistakes. Which does the server find when it loads the model, and which only when a request comes?

# %%
noticed = setup.make_mistakes(lab)

# %%
claim(
    noticed == ["load", "load", "request", "request"],
    "Two of the mistakes are found when the model is loaded, two only by a request.",
    "Run the cells of this section again.",
    id="ensembles.page",
)

# %% [markdown]
# A load does not run the program: send a request to each model, too.
#
# <details><summary>Errata: the Llama page</summary>
#
# [The page's](../../00__start/00__start.ipynb#The-documents-behind-the-course) files have all four: a map without its value, a tokenizer that wants a GPU, "TEXT" in the program where the config has "prompt", and no padding.
#
# </details>

# %% [markdown]
# ## The same steps as a program
#
# *Business logic scripting* ([BLS](https://github.com/triton-inference-server/python_backend#business-logic-scripting)): a Python model asks others in the same server, so its code can decide. `exec()` sends a request and waits for the answer. `STEPS` has the models, and the outputs that each one hands to the next. `language_bls` takes one request after the other:

# %%
show("models/language_bls/1/model.py")

# %% [markdown]
# [`bls_joined`](models/bls_joined/1/model.py) joins the rows of all requests that its batcher hands over, calls each step once for them, and cuts the last answer up. [`bls_async`](models/bls_async/1/model.py) begins all requests as coroutines: while one waits for a step, the others go on. It has `async_exec()` in place of `exec()`, and this `execute`:
#
# ```python
# async def execute(self, requests):
#     texts = [pb.get_input_tensor_by_name(r, "text") for r in requests]
#     return await asyncio.gather(*[self.steps([text]) for text in texts])
# ```


# %% tags=["triton"]
def ask(model, text):
    """The language that a model finds, or its error."""
    tensor = grpc.InferInput("text", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[text]], object))
    try:
        return client.infer(model, [tensor]).as_numpy("label").item().decode()
    except InferenceServerException as error:
        return error


def send(model, texts):
    """Send all texts at once, one per request; return the answers in the same order."""
    with ThreadPoolExecutor(len(texts)) as pool:
        return list(pool.map(partial(ask, model), texts))


# %%
predict(
    "ensembles.bls",
    "16 texts are sent at once, to each of the three programs. In which does the network compute "
    "several texts in one execution?",
    {
        "all three": "The network's batcher joins requests that wait together. exec() waits for "
        "its answer, so the first program never has two requests under way.",
        "joined rows alone": "Of the coroutines, each has a request under way. These requests meet "
        "in the network's batcher.",
        "joined rows and async_exec": None,
        "none: only an ensemble can": "A step does not know who calls it. It computes together "
        "what comes as one request, or what waits in its queue.",
    },
)


# %% tags=["triton"]
def counts(model):
    """The inferences and the executions of a model, since it was loaded."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics(model, as_json=True)["model_stats"][0]
    return np.array([int(stats.get(f"{name}_count", 0)) for name in ("inference", "execution")])


together = {}
for model in ("language_bls", "bls_joined", "bls_async"):
    client.load_model(model)
    before = counts("language_onnx")
    send(model, texts[:16])
    inferences, executions = counts("language_onnx") - before
    together[model] = inferences / executions
    print(f"{model:12} {inferences} texts in {executions} executions of the network")

# %%
programs = ("language_bls", "bls_joined", "bls_async")
shared = [program for program in programs if together[program] > 1.2]
options = ("none: only an ensemble can", "joined rows alone", "joined rows and async_exec")
met = Premise(together["bls_joined"] > 1.2, "the texts came too far apart to share an execution")
compare("ensembles.bls", (*options, "all three")[len(shared)], premise=met)

# %% language="bash" tags=["triton"]
# # Which way is fast, if 16 requests are under way at any time? (half a minute)
# for turn in 1 2; do  # twice, because other programs may disturb one
#   for model in language language_bls bls_joined bls_async; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC --concurrency-range 16 \
#       --input-data $TRITON_MODELS/texts.json -p 400 -s 200 -r 20 \
#       -f $TRITON_MODELS/$model.$turn.csv > /dev/null
#   done
# done

# %%
speeds = setup.read_speeds(models)
rates = speeds["texts per s"]
measure.plot_bars(rates.to_frame(), title="16 requests under way", below="texts per second")

# %%
over = rates["the ensemble"] / rates
claim(
    together["language_bls"] == 1 and over["BLS, one by one"] > 1.2,
    f"In the same time, the ensemble answers {over['BLS, one by one']:.1f} times as many texts as the "
    f"loop, {over['BLS, joined rows']:.1f} times as many as joined rows, and "
    f"{over['BLS, async_exec']:.1f} times as many as async_exec.",
    "Close other programs, and run the cell with perf_analyzer again.",
    premise=setup.repeated(speeds),
    id="ensembles.bls",
)

# %%
# Why is the ensemble fast? Eight texts, all at once; one bar per execution.
run = record(lab, "language", setup.plan(texts[:8]))  # one request per text, all at once
measure.plot_timeline(run.spans, order=setup.SHARED[:3], title="The ensemble, 8 texts")

# %% [markdown]
# In an ensemble, no program stands between the steps: texts that wait for one share an execution. In BLS each call costs time, and `async_exec` makes three per text, as the loop does. Joined rows save calls, but one bad text fails all.
#
# ## Texts of different lengths
#
# A padded token is computed like a real one.

# %% tags=["triton"]
# `lengths` is the network without padding; its batcher waits up to 200 ms
plain = Tokenizer.from_file(tokenizer_file)
plain.no_padding()
tokens = [np.array([each.ids]) for each in plain.encode_batch(texts[:16])]
print("tokens per text:", *[own.shape[1] for own in tokens])


def classify(model, own):
    """Send the tokens of one text, int64 (1, tokens); return its scores."""
    tensors = [grpc.InferInput("input_ids", own.shape, "INT64").set_data_from_numpy(own)]
    if model == "lengths":
        mask = grpc.InferInput("attention_mask", own.shape, "INT64")
        tensors.append(mask.set_data_from_numpy(np.ones_like(own)))
    return client.infer(model, tensors).as_numpy("output_0")


# %%
predict(
    "ensembles.lengths",
    "These 16 texts are sent to `lengths` at the same time. How many executions?",
    {
        "1": "A batch is one array. Texts of different lengths do not fit into it without padding.",
        "a few": "You thought of texts of nearly the same length. Triton batches equal shapes only, "
        "and ends a batch where the next request in the queue has another shape.",
        "one per length, or more": None,
    },
)


# %% tags=["triton"]
def all_at_once(model):
    """Send the 16 texts at the same time; return their scores, and the executions."""
    client.load_model(model)
    start = counts(model)
    with ThreadPoolExecutor(16) as workers:
        found = np.concatenate(list(workers.map(partial(classify, model), tokens)))
    computed, needed = counts(model) - start
    print(f"{model}: {computed} texts, {needed} executions")
    return found, needed


alone, by_length = all_at_once("lengths")

# %%
different = len({one_text.size for one_text in tokens})
kind = "1" if by_length == 1 else "a few"
longest = "one per length, or more" if by_length >= different else kind
counted_all = Premise(len(alone) == 16, "not all texts were answered")
compare("ensembles.lengths", longest, premise=counted_all)

# %% [markdown]
# A text of another length ends a batch. `packed` is the same network for *one* row with the tokens of all texts, and `ends`, where each text ends. `allow_ragged_batch` lets Triton join requests of any length, and `batch_input` lets it compute `ends` ([ragged batching](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/ragged_batching.md)).

# %%
place(models, "models/packed")
show("models/packed/config.pbtxt")
setup.session_ms(models, tokens)  # all 16 as one batch, by ONNX Runtime in this process

# %% tags=["triton"]
joined, at_once = all_at_once("packed")
difference = np.abs(joined - alone).max()

# %%
claim(
    at_once < by_length and difference < 1e-3,
    f"Ragged, all texts share one execution; their scores differ by {difference:.0e} from those above.",
    "Run the two cells with `all_at_once` again.",
    premise=Premise(at_once == 1, "the texts came more than 200 ms apart"),
    id="ensembles.ragged",
)

# %% [markdown]
# `packed` computes fewer tokens, but its attention compares each with those of all texts, and hides the others (`export` in [setup.py](setup.py) makes this network). So measure both with your lengths.
#
# ## A step fails
#
# `language_tokenizer` refuses blank texts. Eight texts are sent at once; the fourth is blank. Does it spoil the answers of the others?

# %% tags=["triton"]
mixed = [*texts[:3], " ", *texts[4:8]]
answers = send("language", mixed)
print(*answers, sep="\n")

# %%
failed = [number for number, answer in enumerate(answers) if not isinstance(answer, str)]
claim(
    failed == [3],
    "In an ensemble, a step's error goes to its own request.",
    "Run the cell before this one again.",
    id="ensembles.fails",
)

# %% [markdown]
# In BLS, the program decides: `has_error()` of an answer says whether its step failed, and `error()` why.
#
# ## Your turn
#
# `language_bls` does not look for errors: a blank text gets an answer without a label, and no error. Change [models/language_bls/1/model.py](models/language_bls/1/model.py). Then `place(models, "models/language_bls")` and `lab.load("language_bls")` in a cell of your own.

# %%
task("ensembles.blank", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# - Ensemble: the steps are fixed. Copy `ensemble_model`'s config; change models and maps.
# - BLS: the data decide what comes next. Begin with `bls_joined`: it looks at `has_error()`, too.
#
# Under load, change the step with the longest time per request. If requests wait: more instances. If it computes: int8, a smaller network.

# %%
show("at_work/steps.py")

# %% tags=["triton"]
import threading

load = threading.Thread(target=lambda: [send("language", texts) for _ in range(40)])
load.start()  # in place of your clients
# %run at_work/steps.py language 2
load.join()

# %% [markdown]
# ## What to remember
#
# - With the tokenizer in the server, clients send text.
# - In an ensemble, each step batches the texts that wait for it. A BLS program can decide, but each of its calls costs time: join rows.
# - A batch ends where the shape changes: pad, or serve a model that takes ragged batches.

# %% [markdown]
# ## Check yourself
#
# <details><summary>The tokenizer answers 2,000 texts per second, the network 500. You double the tokenizer's instances. What changes?</summary>
#
# Nothing: the queue is in front of the network. It needs larger batches, more instances, or a smaller number type (int8).
#
# </details>
#
# <details><summary>One text in ten shall go to a second network. Ensemble or BLS?</summary>
#
# BLS: its program chooses a model for each request. An ensemble's config names its steps.
#
# </details>
#
# Next: [does it still answer the same?](../13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb)
