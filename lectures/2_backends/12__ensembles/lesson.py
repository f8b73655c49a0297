# ---
# title: Ensembles
# minutes: 19
# ---

# %% [markdown]
# # Ensembles
#
# **Question.** A model takes token ids, and its clients have sentences. Where does the tokenizer run, who connects the steps, and what happens to texts of different lengths?
#
# An *ensemble* is a config that connects models ([schedulers](../../1_architecture/03__schedulers/03__schedulers.ipynb)). Here: tokenizer and labels in Python, a network in ONNX that knows 16 languages. The first cell takes one to two minutes.

# %%
import numpy as np
import tritonclient.grpc as grpc

import setup
from workbook import measure
from workbook.lessons import claim, laboratory, mistakes, place, show
from workbook.lessons.shared import quiet

quiet.hide_warnings()
models = setup.models()  # a fresh folder: files of an earlier run are deleted
lab = laboratory(models, only=setup.SHARED)
texts = setup.texts(32)
print(*texts[:3], setup.backends(lab, "language"), sep="\n")

# %% [markdown]
# ## Two places for a tokenizer
#
# On the client: it sends numbers to `language_onnx`. On the server: it sends text to the ensemble `language`, whose first step is the tokenizer. Both ways, for one text; `setup.crossed` counts the bytes that a client sends:


# %%
from workbook.lessons import Premise, attempt, compare, predict, runs, task


def ids_from_client(client, text):
    tensors = []
    for name, array in setup.padded(setup.tokens(models, [text])).items():
        tensor = grpc.InferInput(name, array.shape, "INT64")
        tensors.append(tensor.set_data_from_numpy(array))
    return client.infer("language_onnx", tensors).as_numpy("logits").argmax(1)


def text_from_client(client, text):
    tensor = grpc.InferInput("text", [1, 1], "BYTES").set_data_from_numpy(setup.as_text([text]))
    return client.infer("language", [tensor]).as_numpy("label")


predict(
    "ensembles.bytes",
    "How many times more bytes does the request with ids have than the request with the text?",
    unit="×",
)

# %%
ways = {"ids": ids_from_client, "text": text_from_client}
sent = {name: setup.crossed(lab, ask, texts[0]) for name, ask in ways.items()}
counted = Premise(min(sent.values()) > 0, "nothing went through the tap")
compare("ensembles.bytes", sent["ids"] / sent["text"], premise=counted)
labels = (models / "language_labels/labels.txt").read_text().split()
with lab.grpc_client() as client:
    by_client = [labels[ids_from_client(client, text).item()] for text in texts]
claim(
    by_client == setup.label_of(lab, "language", texts),
    f"Both ways find the same languages; {sent['ids']} bytes with ids, {sent['text']} with text.",
    "Run this cell again.",
    id="ensembles.client",
)

# %% [markdown]
# The ids are 64 numbers of 8 bytes, and a mask of the same size. With a tokenizer on the client, every client needs its file, in the right version.
#
# ## The Llama page's ensemble
#
# [The Llama page](../../00__start/00__start.ipynb#The-documents-behind-the-course) has three folders: `tokenizer`, `model`, and `ensemble_model`, which connects them. Here for our network, and corrected:

# %%
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


# %%
place(models, "models/ensemble_model")
show("models/tokenizer/config.pbtxt")
show("models/model/config.pbtxt")
show("models/ensemble_model/config.pbtxt")

# %% [markdown]
# In these maps, `key` is a tensor's name in the step's model, `value` its name in the ensemble.
#
# > **Erratum.** The page's files differ in four places: a map has no value; the tokenizer wants a GPU (below number 99, which no machine has); an input is "TEXT" in the program and "prompt" in the config; nothing is padded:

# %%
lab.load("tokenizer"), lab.load("model"), lab.load("ensemble_model")
value = {"a map without its value": mistakes.config(' value: "output_0" }', " }")}
device = {"a GPU that is not there": mistakes.config("KIND_CPU", "KIND_GPU gpus: [ 99 ]")}
faults = {**mistakes.provoke(lab, "ensemble_model", value).refused}
faults |= mistakes.provoke(lab, "tokenizer", device).refused
for fault, error in faults.items():
    print(f"{fault}: {error}\n")

# %%
program = models / "tokenizer/1/model.py"
corrected, two = program.read_text(), np.array([text.encode() for text in texts[:2]], object)
messages = {}
for new, old in (('"TEXT"', '"prompt"'), ("", "padding=True, ")):
    program.write_text(corrected.replace(old, new))
    lab.load("tokenizer")
    messages[old] = mistakes.explain_refusal(lab, "ensemble_model", prompt=two)
    print(f"{new or 'no padding'}: {messages[old]}\n")
program.write_text(corrected)
lab.load("tokenizer")
fine = mistakes.explain_refusal(lab, "ensemble_model", prompt=two) == ""
claim(
    len(faults) == 2 and all(messages.values()) and fine,
    "Two of the faults are found when the model is loaded, two only by a request.",
    "Run the cells of this section again.",
    id="ensembles.page",
)

# %% [markdown]
# `max_batch_size: 0`, as on the page: requests never share an execution. `language` allows 64, and its steps batch. It may not allow more than its steps.
#
# ## The same steps as a program
#
# *Business logic scripting* (BLS): a Python model calls other models. It loops and decides, unlike an ensemble ([upstream](https://github.com/triton-inference-server/python_backend#business-logic-scripting)).
#
# Half a minute follows. `spread`: better of two rounds over worse.

# %%
show("models/language_bls/1/model.py")

# %%
predict(
    "ensembles.bls",
    "16 requests are under way at any time. Which answers more texts per second: the ensemble, or "
    "BLS with one instance?",
    {
        "the ensemble": None,
        "BLS, one instance": "exec() waits for its answer. One instance has one request under way, "
        "so the steps never get two texts to compute together.",
        "all alike: the steps are the same": "The steps are the same, but how many texts are in "
        "them at a time is not.",
    },
)


# %%
def all_three():
    setup.same_program(models, "language_bls", "language_bls_4")
    lab.load("language_bls"), lab.load("language_bls_4")
    arranged = {"the ensemble": "language", "BLS, one instance": "language_bls"}
    return setup.rates(lab, arranged | {"BLS, four instances": "language_bls_4"}, texts)


rates = attempt(all_three, setup.agreed)
rates.round(1)

# %%
crowd = rates["per s, 16 under way"]
gain = crowd["the ensemble"] / crowd["BLS, one instance"]
compare("ensembles.bls", setup.fastest(crowd), premise=setup.agreed(rates))
claim(
    gain > 1.1,
    f"The ensemble answers {gain:.1f} times as many texts as BLS with one instance.",
    "Close other programs, and run the cell before this one again.",
    premise=setup.agreed(rates),
    id="ensembles.bls",
)
eight = attempt(lambda: runs.record(lab, "language", setup.plan(texts[:8])), setup.met)
most = f"The ensemble: up to {max(eight.sizes)} of 8 texts in one execution"
measure.plot_timeline(eight.spans, order=setup.SHARED[:3], title=most)

# %%
in_turn = runs.record(lab, "language_bls", setup.plan(texts[:8]))
measure.plot_timeline(in_turn.spans, title="BLS, one instance: its calls are not traced")

# %% [markdown]
# In the ensemble, texts meet in the steps' batchers. Each goes on with its own answer, so bars may overlap. In BLS, `exec()` waits: one instance takes text after text through all steps.
#
# <details><summary>Does BLS always wait?</summary>
#
# No. In a coroutine, `async_exec()` calls models without waiting for the answer before. With `decoupled=True`, both give the answers of a decoupled model one by one ([upstream](https://github.com/triton-inference-server/python_backend#business-logic-scripting)).
#
# </details>
#
# ## Texts of different lengths
#
# `language_onnx` takes texts padded to 64 tokens. `lengths`, the same network, takes any length; its batcher waits 50 ms.

# %%
lab.load("lengths")
ids = setup.tokens(models, texts[:16])
print("tokens per text:", [len(own) for own in ids])
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

# %% [markdown]
# `packed`, the same network again, takes the tokens of all texts in one row, and `ends`: where each text ends. With `allow_ragged_batch`, Triton joins requests of any length, and `batch_input` makes it compute `ends` ([ragged batching](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/ragged_batching.md)):

# %%
place(models, "models/packed")
show("models/packed/config.pbtxt")

# %%
lab.load("packed")
forms = {"lengths": runs.record(lab, "lengths", setup.requests(ids, "lengths"))}
forms["packed"] = runs.record_together(lab, "packed", setup.requests(ids, "packed"))
executions = {form: len(run.sizes) for form, run in forms.items()}
print("executions:", executions, "different lengths:", len(set(map(len, ids))))
together = forms["packed"].together
counted_all = Premise(len(forms["lengths"].places) == 16, "not all texts were traced")
compare("ensembles.lengths", setup.how_many(executions["lengths"], ids), premise=counted_all)

# %%
took = setup.session_ms(models, ids)
scores = {form: setup.logits(run.answers) for form, run in forms.items()}
difference = np.abs(scores["packed"] - scores["lengths"]).max()
claim(
    executions["packed"] == 1 < executions["lengths"] and difference < 1e-3,
    f"Ragged: one execution in place of {executions['lengths']}; scores differ by {difference:.0e}.",
    "Run the cell before this one again.",
    premise=together,
    id="ensembles.ragged",
)
print(f"packed: {sum(map(len, ids))} tokens, {took['packed']:.1f} ms per batch in this process")
print(f"padded: {64 * len(ids)} tokens, {took['padded']:.1f} ms")

# %% [markdown]
# There can be more executions than lengths, since a text of another length ends a batch.
#
# Padding is computed like text. Yet `packed` may be slower: here its attention compares the tokens of all texts, then masks other texts'.
#
#
# ## A step fails
#
# `language_tokenizer` refuses blank texts. Eight texts are sent at once; the fourth is blank.

# %%
predict(
    "ensembles.blank",
    "Who gets an error?",
    {
        "only the fourth text": None,
        "all that shared an execution with it": "The tokenizer makes one response per request, and "
        "gives the error to one of them.",
        "all eight": "The ensemble ends for the text whose step failed. The others are other requests.",
    },
)

# %%
mixed = [*texts[:3], " ", *texts[4:8]]
answers = measure.send(lab, "language", setup.plan(mixed))
failed = [place for place, error in enumerate(answers["error"]) if error]
print(max(answers["error"]))
compare("ensembles.blank", setup.who(failed), premise=Premise(len(answers) == 8, "some are lost"))
lab.unload("language_onnx")
without = mistakes.explain_refusal(lab, "language", text=setup.as_text(texts[:1]))
print("without language_onnx:", without)
lab.load("language_onnx"), lab.load("language")
claim(
    failed == [3] and without != "",
    "A step's error goes to its own request; without a step, the ensemble answers no request.",
    "Run this cell again.",
    id="ensembles.fails",
)

# %% [markdown]
# The client gets the step's error message. In BLS, the program decides: `has_error()` of an answer says whether its step failed.
#
# ## Your turn
#
# `language_bls` does not look for errors: a blank text gets an answer without a label, and no error. Change [models/language_bls/1/model.py](models/language_bls/1/model.py). Then `place(models, "models/language_bls")` and `lab.load("language_bls")` in a cell of your own.

# %%
task("ensembles.blank", server=lab, models=models)

# %% [markdown]
# ## What to remember
#
# - With the tokenizer in the server, clients send text, and one file changes with the model.
# - An ensemble is a graph: its steps keep their own batchers, instances and backends. BLS is a program: it can decide, and `exec()` waits.
# - A batch ends where the shape changes. So pad, or serve a model that takes ragged batches.

# %% [markdown]
# ## Check yourself
#
# <details><summary>An ensemble of Python and a TensorRT engine: what travels between the steps on a GPU machine?</summary>
#
# Tensors that a Python model makes in numpy lie in the memory of the CPU. Triton copies them to the GPU for the engine, and its outputs back for the next Python step. Not verified on a GPU. Nothing of this goes to the client.
#
# </details>
#
# <details><summary>The tokenizer answers 2,000 texts per second, the network 500. You double the tokenizer's instances. What changes?</summary>
#
# Nothing: the queue is in front of the network. It needs larger batches, more instances, or a smaller format.
#
# </details>
#
# <details><summary>One text in ten shall go to a second network. Ensemble or BLS?</summary>
#
# BLS: its program chooses a model for each request. An ensemble's config names its steps; with two ensembles, the client would have to choose.
#
# </details>
#
# Next: [does it still answer the same?](../13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb)
