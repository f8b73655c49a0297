# ---
# title: The Python backend
# minutes: 19
# ---

# %% [markdown]
# # The Python backend
#
# **Question.** Your logic fits no model format: it refuses bad requests, asks other models. What do you write, and what does each instance cost?
#
# The Python backend runs on CPU and GPU. For a plain network take a C++ backend: no tensor goes to another process.
#
# Once, the first cell trains a network: 1 to 5 minutes.

# %%
import shutil

import numpy as np

import setup
from workbook import lessons
from workbook.lessons import claim, compare, formats, laboratory, place, predict, show
from workbook.lessons.mistakes import refusal
from workbook.lessons.runs import infer

models = lessons.folder("python")  # run again, it empties this notebook's folder
setup.repository(models)
code = models / "python_model/1/model.py"
lab = laboratory(models, only=["first", "second", "countdown"])

# %% [markdown]
# ## The backend slides' example
#
# The config below is from [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course), with the braces and names that their printout lost. The slides' code adds and subtracts. Here it is shortened, with `initialize` as printed. We load it as printed, and then correct one mistake after the other:

# %%
show("models/python_model/config.pbtxt", "models/python_model/1/model.as_printed.py")

# %%
shutil.copy("models/python_model/1/model.as_printed.py", code)
steps = {"": "", "import triton": "import json\nimport triton", "(model_": "(self.model_"}
refused = [setup.change(lab, code, old, new) for old, new in steps.items()]
one = np.array([[1, 2]], "f4")
sums = infer(lab, "python_model", INPUT_0=one, INPUT_1=one)
printed = setup.unload(lab, "python_model", "goodbye")
claim(
    all(refused[:2]) and not refused[2] and sums["OUTPUT_0"].sum() == 6 and len(printed) == 1,
    "Two mistakes stop initialize. Without them the model adds. What finalize prints is in the "
    "log.",
    "Run this cell again.",
    id="python.example",
)
print(*refused[:2], sep="\n")

# %% [markdown]
# > **Errata.** The printed `initialize` does not import `json`, and reads `model_config` where it stored `self.model_config`.
#
# ## The classifier
#
# `focus_python` serves the network of this whole lecture: is a piece of a photo sharp? We ask it about 200 pictures. Beside model.py lie `weights.pth` and `network.py`, a module of its own. The version folder is on Python's path.

# %%
# %%writefile {models}/focus_python/1/model.py
import network  # network.py, beside this file
import torch
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        version = "{model_repository}/{model_version}".format(**args)
        self.net = network.load(version + "/weights.pth")

    def execute(self, requests):
        x = [torch.from_numpy(pb.get_input_tensor_by_name(r, "image").as_numpy()) for r in requests]
        logits = self.net(torch.cat(x)).split([len(rows) for rows in x])
        return [pb.InferenceResponse([pb.Tensor("logits", y.numpy())]) for y in logits]


# %%
from tritonclient import grpc

lab.load("focus_python")
image = grpc.InferInput("image", [1, 3, 64, 64], "FP32")
image.set_data_from_numpy(formats.pictures()[:1])
with grpc.InferenceServerClient(lab.grpc_url) as client:  # one picture: a complete request
    print(client.infer("focus_python", [image]).as_numpy("logits"))
apart = np.abs(formats.served_logits(lab, "focus_python") - formats.reference()).max()
claim(
    apart < 1e-4,
    f"Served and in the notebook, the 200 answers differ by {apart:.0e} at most.",
    "Run this cell and the one before it again.",
    id="python.classifier",
)
show("models/focus_python/config.pbtxt")

# %% [markdown]
# `initialize` loads once per instance; `args["model_repository"]` is the model's own folder. `execute` joins the rows of *all* requests: a loop over the requests would compute them one by one.
#
# ## Without a config
#
# `auto_complete_config` fills the config in, before any instance starts. `focus_auto` is `focus_python` with this function, and without a config:

# %%
show("models/focus_auto/1/model.py")
predict(
    "python.conflict",
    "config.pbtxt says dims: [ 3, 32, 32 ]. The code adds the same input with [3, 64, 64]. Then?",
    {
        "the code wins: it is asked later": "add_input adds what is missing. An input that is "
        "there already is compared with it.",
        "the file wins: somebody wrote it on purpose": "The file is not overruled, and the code "
        "is not ignored either. Read the server's words below.",
        "the model is refused": None,
    },
)

# %%
home = setup.without_config(models, "focus_python", "focus_auto")
bare = setup.loaded(lab, "focus_auto")
place(models, "models/focus_auto")  # with the function
filled = setup.loaded(lab, "focus_auto")
wrong = 'input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, 32, 32 ] } ]'
(home / "config.pbtxt").write_text('backend: "python" ' + wrong)
conflict = refusal(lab, "focus_auto")
seen = "the model is refused" if conflict else "the code wins: it is asked later"
compare("python.conflict", seen, premise=setup.completed(filled))
claim(
    "image" in conflict and filled["input"] and not bare["input"],
    f"The function fills an empty config. A file that differs is refused: {conflict}",
    "Run the cells of this section again.",
    id="python.auto",
)
print("without the function:", bare["input"], bare["max_batch_size"])

# %% [markdown]
# Each load first starts one more Python process, to ask this function; the option `--disable-auto-complete-config` turns it off.
#
# ## One bad request among four
#
# `checked` has two ways to fail: it answers a negative place with an error, and it has a bug, an `IndexError` for places above 2. Four clients ask at once; their requests share one execution.

# %%
# %%writefile {models}/checked/1/model.py
import numpy as np
import triton_python_backend_utils as pb

WEIGHTS = np.array([0.2, 0.5, 0.3], np.float32)


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb.get_input_tensor_by_name(r, "place").as_numpy()) for r in requests]

    def answer(self, place):
        if (place < 0).any():
            return pb.InferenceResponse(error=pb.TritonError("place is negative"))
        return pb.InferenceResponse([pb.Tensor("weight", WEIGHTS[place])])


# %%
predict(
    "python.errors",
    "The places are 0, 1, 7, 2. The third makes the code raise. Who gets an error?",
    {
        "the third client only": "That is what InferenceResponse(error=…) does. An exception "
        "leaves execute as a whole: there is no list of responses.",
        "the third and the fourth": "The list is returned at the end. Before the exception, no "
        "answer had left the model.",
        "all four": None,
    },
)

# %%
lab.load("checked")
raised = setup.at_once(lab, "checked", [0, 1, 7, 2])
answered = setup.at_once(lab, "checked", [0, 1, -1, 2])
failed = {"raised": len(raised.refused), "answered": len(answered.refused)}
together = setup.in_one(raised, answered)
who = {1: "the third client only", 2: "the third and the fourth"}
compare("python.errors", who.get(failed["raised"], "all four"), premise=together)
claim(
    failed == {"raised": 4, "answered": 1},
    "An exception fails every request of the execution; an error response fails its own.",
    "Run this cell again.",
    premise=together,
    id="python.errors",
)
answered.answers[["id", "error"]]

# %% [markdown]
# ## Ask other models, and count
#
# A Python model may ask other models ([BLS](https://github.com/triton-inference-server/python_backend#business-logic-scripting)). `tally` below waits for one with `exec()`, and counts in a metric [of its own](https://github.com/triton-inference-server/python_backend#custom-metrics). `panel` asks two at once, which sleep 150 ms each; its code is below.
#
# `in_turn` asks the two with `exec()`. `collected` joins the [streamed answers](https://github.com/triton-inference-server/python_backend#using-bls-with-decoupled-models) of `countdown`, with `exec(decoupled=True)`.

# %%
# %%writefile {models}/tally/1/model.py
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.family = pb.MetricFamily("sharp_total", "Sharp so far", pb.MetricFamily.COUNTER)
        self.sharp = self.family.Metric(labels={"model": args["model_name"]})

    def execute(self, requests):
        given = {"model_name": "focus_python", "requested_output_names": ["logits"]}
        answers = [pb.InferenceRequest(inputs=r.inputs(), **given).exec() for r in requests]
        logits = [answer.output_tensors()[0].as_numpy() for answer in answers]
        self.sharp.increment(sum(int((y[:, 1] > y[:, 0]).sum()) for y in logits))
        return [pb.InferenceResponse(answer.output_tensors()) for answer in answers]


# %%
show("models/panel/1/model.py")
for name in ("tally", "panel", "in_turn", "collected", "ibuddha_chitchat_bls"):
    lab.load(name)
before = setup.metric(lab, "sharp_total")  # 0 where the metric is new
sharp = int((formats.score(formats.served_logits(lab, "tally")) > 0).sum())
grown = setup.metric(lab, "sharp_total") - before
ms = {name: 1000 * setup.seconds(lab, name, X=one[:, :1]) for name in ("in_turn", "panel")}
counts = infer(lab, "collected", start=np.array([4], "i4"))["counts"]
claim(
    grown == sharp and counts.tolist() == [4, 3, 2, 1],
    f"The counter has grown by {grown:.0f}. One after the other: {ms['in_turn']:.0f} ms; at once: "
    f"{ms['panel']:.0f} ms. Four streamed answers became one.",
    "Run this cell again.",
    id="python.bls",
)

# %% [markdown]
# ## The production guide: whose memory?
#
# In [the production guide](../../00__start/00__start.ipynb#The-documents-behind-the-course), a model on the CPU (`KIND_CPU`) asks a GPT on a GPU, in a loop (below; assignment a6). It reads answers with `to_dlpack`: DLPack hands tensors between frameworks, also on a GPU, and costs less than `as_numpy`, it says. Where do the numbers lie, for inputs on the CPU?

# %%
# %%writefile {models}/handover/1/model.py
import addresses  # addresses.py, beside this file: looks into /proc/self/maps
import triton_python_backend_utils as pb
from torch.utils.dlpack import from_dlpack


class TritonPythonModel:
    def initialize(self, args):
        self.kept = []  # the arrays of all requests

    def execute(self, requests):
        x = pb.get_input_tensor_by_name(requests[0], "x")
        self.kept.append((x.as_numpy(), from_dlpack(x.to_dlpack())))
        memory, first = addresses.memory(*self.kept[-1]), addresses.first_numbers(self.kept)
        return [pb.InferenceResponse([pb.Tensor("memory", memory), pb.Tensor("kept", first)])]


# %%
memory, kept = setup.handed_over(lab, requests=8)  # their numbers: 0, 1, …, 7
print(f"as_numpy: {memory[0]} memory, to_dlpack: {memory[1]} memory; kept:", *kept[:, 0])
chat, lost = setup.chat(lab)  # the production guide's loop, with a model in the GPT's place
claim(
    memory == ["own", "shared"] and (kept == np.arange(8)[:, None]).all(),
    "numpy's array is a copy in the model's own process. DLPack's is the shared memory itself. "
    "Later requests changed neither.",
    "Run this cell again.",
    id="python.dlpack",
)
claim(lost == 3, "The loop fails in three of four cases.", "Run it again.", id="python.chat")
print(*map(": ".join, chat.items()), sep="\n")
show("models/ibuddha_chitchat_bls/1/model.py")

# %% [markdown]
# Inputs on the CPU: the backend makes numpy's copy before `execute` (`pb_tensor.cc`); DLPack saves nothing.
#
# <details><summary>Where does the loop fail?</summary>
#
# It takes `logits[0, :]`, which is the last place only if the GPT gives no other: write `[0, -1]`. It computes one row per request. Its answer lacks the batch's dimension. The new id goes into the types, too. While the first token is special, it draws again: for ever, where only special ones are left.
#
# </details>
#
# > **Errata.** `preferred_memory` brings an answer [to the CPU](https://github.com/triton-inference-server/python_backend#business-logic-scripting). Write `error=` before `TritonError(…)`. `raise` fails the whole execution.
#
# ## Instances, and the other formats
#
# Instances are processes. Here they share imports; on a *plain* server, as in NVIDIA's container, each imports torch.

# %%
costs = setup.instances(lab, "focus_python", (1, 4))
with laboratory(models, only=[], plain=True) as plain:  # half a minute to 3
    imports = setup.instances(plain, "focus_python", (1, 4))
net = setup.in_process(models / "focus_python")
row = lessons.attempt(
    lambda: formats.add(lab, "focus_python", "Python", net), lambda row: row.repeated
)
both = costs.join(imports.drop(columns="processes"), rsuffix=", plain").round(2)
claim(
    costs.processes.tolist() == [1, 4] and row.changed == 0,
    "There is one process per instance, and no verdict changed.",
    "Run this cell again.",
    id="python.instances",
)
print(row.served if row.repeated else row.repeated, both, sep="\n\n")
formats.table()

# %% [markdown]
# The last table grows with each notebook: pictures per second, 1 and 8 requests under way, and in-process; a logit's largest difference from PyTorch's. Its `memory` is higher, since it is measured after 200 answers. `repeated: no` means: disturbed.
#
# `KIND_GPU` is refused without a GPU. With one, the code moves its network there, by `args["model_instance_kind"]` and `args["model_instance_device_id"]` (verified).
#
# ## Five mistakes

# %%
from workbook.lessons import mistakes, task

edit = setup.rewrite
made = mistakes.provoke(lab, "focus_python", {
    "a typo in an import": edit("import torch", "import troch"),
    "another class": edit("TritonPythonModel", "Model"),
    "a method without args": edit("(self, args)", "(self)"),
    "a path from the working directory": edit('version + "/', '"'),
    "an unknown key": mistakes.config("max_batch_size", "max_batchsize"),
})  # fmt: skip
claim(len(made.refused) == 5, "The server refuses all five.", "Run it again.", id="python.mistakes")
made

# %% [markdown]
# ## Your turn
#
# The code of `verdict` answers nothing. Below its config, write its three methods in a new cell (`%%writefile {models}/verdict/1/model.py`), and load it: `lab.load("verdict")`.
#
# The input is two logits; the config has a threshold; the texts lie in `labels.txt`, beside model.py. `finalize` logs `verdicts: N`, the rows that were answered (`pb.Logger.log_info`). Texts are arrays of `np.object_`.

# %%
show("models/verdict/config.pbtxt")

# %%
task("python.verdict", server=lab)

# %% [markdown]
# ## What to remember
#
# - `initialize` loads, once per instance and process. `execute` gets a list of requests: join their rows. `finalize` runs at the unload.
# - Return an error response for a bad request. An exception fails its neighbours as well.
# - Ask other models with `exec` or `async_exec`. On the CPU, `as_numpy` is a copy, and `to_dlpack` is the shared memory.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A model with one instance asks itself by BLS. What happens?</summary>
#
# It waits for ever: its only instance waits for itself. So does a circle of models ([limitation](https://github.com/triton-inference-server/python_backend#limitation)). If you try it, give the client a time limit (`client.infer(…, client_timeout=5)`), and start the server again.
#
# </details>
#
# <details><summary>The dynamic batcher forms batches of eight, and the throughput does not grow. Where do you look?</summary>
#
# At `execute`: a loop that computes one request after the other undoes the batch.
#
# </details>
#
# <details><summary>A class keeps the arrays of all requests in <code>self</code>. Are they overwritten? What does it cost?</summary>
#
# They stay as they were. But they keep memory: that of numpy in the model's process, that of DLPack in the shared memory, which the server needs for the next requests.
#
# </details>
#
# Next: [Python environments](../03__python_environments/03__python_environments.ipynb).
