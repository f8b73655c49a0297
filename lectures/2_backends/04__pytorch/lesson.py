# ---
# title: The PyTorch backend
# minutes: 30
# ---

# %% [markdown]
# # The PyTorch backend
#
# **Question.** Your model is a PyTorch module. What do you give to Triton: TorchScript, a compiled module, an exported program? And how does it know which tensor is which?
#
# Where an ONNX file works, measure that, too ([05](../05__onnxruntime/05__onnxruntime.ipynb)).

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = setup.models()  # run again, it empties this notebook's folder
lab = laboratory(models, only=[])

# %% [markdown]
# ## A model from a slide
#
# The backend's file is `model.pt` in [TorchScript](https://github.com/triton-inference-server/pytorch_backend), in a version folder. [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) have this module and this config:

# %% tags=["triton"]
import torch
from torch import nn


class SimpleModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 1)

    def forward(self, x):
        return torch.sigmoid(self.fc(x))


torch.jit.script(SimpleModel()).save(models / "pytorch_model/1/model.pt")

# %% language="bash" tags=["triton"]
# cat > $TRITON_MODELS/pytorch_model/config.pbtxt <<END
# name: "pytorch_model"
# platform: "pytorch_libtorch"
# max_batch_size: 8
# input { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 5 ] }
# output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 1 ] }
# instance_group { kind: KIND_CPU }
# END

# %% tags=["triton"]
import os

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def infer(model, **arrays):
    """Send one request; return the first of the answer's arrays."""
    inputs = []
    for name, array in arrays.items():
        kind = np_to_triton_dtype(array.dtype)
        inputs.append(grpc.InferInput(name, array.shape, kind).set_data_from_numpy(array))
    answer = client.infer(model, inputs)
    return answer.as_numpy(answer.get_response().outputs[0].name)


# %% tags=["triton"]
client.load_model("pytorch_model")
zeros = infer("pytorch_model", INPUT__0=np.zeros((2, 5), np.float32))
print(zeros)  # zeros in, so both rows are the sigmoid of the bias

# %%
printed = setup.slides(lab)  # their own program and config, see the errata below
printed

# %%
claim(
    "forward" in printed.words("on the CPU") and zeros.shape == (2, 1),
    "The server answers with this model. It refuses the slides' own files, see the errata.",
    "Run the cells of this section again.",
    id="pytorch.document",
)

# %% [markdown]
# <details><summary>Errata: the backend slides</summary>
#
# In the printed [program](models/pytorch_model/simple_model.as_printed.py), `forward` is not indented. `torch.jit.script` does not complain, and saves a module that cannot compute. The printed config lacks braces.
#
# </details>
#
# ## Script and trace
#
# `torch.jit.script` reads the code; `torch.jit.trace` records what one example does. [`Photo`](models/focus_compiled/1/model.py) is [the lecture's network](../02__python/02__python.ipynb#The-classifier). It takes pixels in -1..1.

# %% tags=["triton"]
# %run {models}/focus_compiled/1/model.py
net = Photo().eval().requires_grad_(False)
net.load_state_dict(torch.load(models / "weights.pth", weights_only=True))
pictures = np.load(models / "pictures.npy")  # 200 pieces of photos, pixels in -1..1


class Careful(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image):
        if bool(image.max() > 1):
            image = image / 127.5 - 1
        return self.net(image)


# %%
predict(
    "pytorch.trace",
    "Careful also takes pixels in 0..255. It is traced with pixels in -1..1. What does the traced "
    "module do with pixels in 0..255?",
    {
        "it rescales them, like the script": "The trace has the operations of its example. The example "
        "did not take the branch, so the branch is not in the file.",
        "it refuses them: they are outside of what it has seen": "A trace keeps operations and no "
        "ranges. It computes with any numbers.",
        "it answers, with other verdicts": None,
    },
)

# %% tags=["triton"]
careful, example = Careful(net), torch.from_numpy(pictures[:2])
forms = {
    "careful_script": torch.jit.script(careful),
    "careful_trace": torch.jit.trace(careful, example),
}
raw, wanted, changed = (pictures + 1) * 127.5, net(torch.from_numpy(pictures)).argmax(1), {}
for name, form in forms.items():  # up to half a minute
    form.save(models / name / "1/model.pt")
    client.load_model(name)
    logits = np.concatenate([infer(name, INPUT__0=part) for part in np.split(raw, 25)])
    changed[name] = int((logits.argmax(1) != wanted.numpy()).sum())
print("changed verdicts, of 200:", changed)

# %%
branch = Premise(raw.max() > 1, "no pixel was above 1")
same = "it rescales them, like the script"
other = "it answers, with other verdicts"
compare("pytorch.trace", other if changed["careful_trace"] else same, premise=branch)
claim(
    changed["careful_script"] <= 1 < changed["careful_trace"],
    f"Of 200 verdicts the trace changes {changed['careful_trace']}, the script "
    f"{changed['careful_script']}. Read what torch.jit.trace has warned of.",
    "Run the cells of this section again.",
    premise=branch,
    id="pytorch.trace",
)

# %% [markdown]
# Trace what has no branches; script the rest. A trace also keeps its example's device: for several GPUs, [script](https://github.com/triton-inference-server/pytorch_backend#important-notes). Read a trace's warnings, and compare with PyTorch.
#
# ## Served
#
# TorchScript stores no shapes, so the server fills in nothing. Names follow [conventions](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md#special-conventions-for-pytorch-backend). Each format gets one thread here. (NVIDIA's `INTRA_OP_THREAD_COUNT` holds for its [whole process](https://github.com/triton-inference-server/pytorch_backend/blob/r24.10/src/libtorch.cc).)

# %% language="bash" tags=["triton"]
# cat > $TRITON_MODELS/focus_pytorch/config.pbtxt <<END
# platform: "pytorch_libtorch"
# max_batch_size: 8
# input { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] }
# output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 2 ] }
# dynamic_batching { }
# instance_group { kind: KIND_CPU count: 1 }
# parameters { key: "INTRA_OP_THREAD_COUNT" value: { string_value: "1" } }
# END

# %% tags=["triton"]
torch.jit.script(net).save(models / "focus_pytorch/1/model.pt")
client.load_model("focus_pytorch")
print(infer("focus_pytorch", INPUT__0=pictures[:3]), net(torch.from_numpy(pictures[:3])))

# %%
from workbook.lessons import formats

row = setup.add_row(lab)  # 10 seconds to a minute
formats.table()  # its columns: notebook 02; fp16, int8 and bf16 come from 13

# %%
claim(
    row.changed == 0,
    f"No verdict changed. {row.served}",
    "Close other programs, and run the cell before this one again.",
    premise=row.repeated,
    id="pytorch.served",
)

# %% [markdown]
# ## Which names?
#
# `forward(image)` has one argument. We try other names for it and for the output, in copies of the config. This course's stand-in checks names more strictly than NVIDIA's backend, see below.

# %%
predict(
    "pytorch.names",
    "Which of these does the server refuse to load?",
    {
        'an input "image"': "The name of an argument of forward() is the first of the rules.",
        'an input "pixels"': "A name that follows no rule is accepted: then the order in the config "
        "says which argument it is.",
        'an input "INPUT__1"': None,
        'an output "logits"': "Outputs have no names in TorchScript. A name without a number is "
        "accepted, and the order counts.",
    },
)

# %% tags=["triton"]
import shutil


def load_with(old, new):
    """Load a copy of focus_pytorch with another name in its config; return Triton's answer."""
    home = models / "renamed"
    shutil.copytree(models / "focus_pytorch", home, dirs_exist_ok=True)
    config = (home / "config.pbtxt").read_text()
    (home / "config.pbtxt").write_text(config.replace(old, new))
    try:
        client.load_model("renamed")
    except InferenceServerException as error:
        return error.message()
    return "loaded"


replies = [load_with("INPUT__0", name) for name in ("image", "pixels", "INPUT__1")]
replies.append(load_with("OUTPUT__0", "logits"))
print(*replies, sep="\n")

# %%
loaded = [reply == "loaded" for reply in replies]
options = ['an input "image"', 'an input "pixels"', 'an input "INPUT__1"', 'an output "logits"']
tried = Premise(len(replies) == 4, "not all four were tried")
refused = next((each for each, fine in zip(options, loaded) if not fine), options[0])
compare("pytorch.names", refused, premise=tried)
claim(
    loaded == [True, True, False, True],
    "Only a number that no argument has is refused.",
    "Run the cell before this one again.",
    premise=tried,
    id="pytorch.names",
)

# %% [markdown]
# If all names are those of arguments, they count; else the numbers, if all have one; else the order. NVIDIA's backend loads all four, and warns only of a name with `__` and no number (`libtorch.cc`). Check by a request.
#
# ## A GPT with three inputs
#
# [The production guide](../../00__start/00__start.ipynb#The-documents-behind-the-course) serves a GPT, here [a tiny one](models/ibuddha_chitchat/tiny_gpt.py), with 13,088 logits per token.

# %%
show("models/ibuddha_chitchat/config.pbtxt")

# %% tags=["triton"]
# %run {models}/ibuddha_chitchat/tiny_gpt.py
gpt = TinyGPT().eval()
torch.jit.script(gpt).save(models / "ibuddha_chitchat/1/model.pt")
client.load_model("ibuddha_chitchat")
ids = np.random.default_rng(0).integers(2, 13088, (4, 9))  # 4 rows of 9 tokens
mask, types = np.ones_like(ids), np.zeros_like(ids)
words = infer("ibuddha_chitchat", INPUT__0=ids, INPUT__1=mask, INPUT__2=types)
with torch.inference_mode():
    expected = gpt(*map(torch.from_numpy, (ids, mask, types))).numpy()
print(words.shape, "largest difference:", np.abs(words - expected).max())

# %%
expects = (*ids.shape, 13088)
claim(
    words.shape == expects
    and np.abs(words - expected).max() < 1e-4
    and setup.guide(lab).refused == ["as printed"]
    and "NVFUSER has no effect" in lab.log_text(),
    f"Without a batcher, a request of 4 rows is served: {list(words.shape)}. This cell also loads the "
    "guide's own config. For GPU 0, it is refused; on the CPU, the log says that NVFUSER has no effect.",
    "Run the cells of this section again.",
    id="pytorch.gpt",
)

# %% [markdown]
# <details><summary>Errata: the production guide</summary>
#
# `max_batch_size` counts without `dynamic_batching`, too: it bounds requests. In [its config](models/ibuddha_chitchat/config.as_printed.pbtxt), the output's dims must be `[ -1, 13088 ]`. `ENABLE_NVFUSER` has no effect any more. `gpus: [ 0, 1 ]` puts an instance on each.
#
# </details>
#
# <details><summary>Can <code>max_batch_size</code> be too large?</summary>
#
# Yes. 64 rows of 510 tokens have an output of 64 × 510 × 13,088 × 4 bytes: 1.7 GB, beside what the layers need. The guide reports that a GPU's memory ran out and Triton ended (not run here). Raise it while you measure the memory.
#
# </details>
#
# ## torch.compile
#
# Release 24.10 has a second [runtime](https://github.com/triton-inference-server/pytorch_backend/blob/r24.10/README.md#pytorch-20-backend-experimental), in Python (in the guide until 25.09): `model.py` holds a module, here `Photo`, and `model.pt` its state dict. The config names the runtime. `focus_last` is for comparison: TorchScript with weights in the layout *channels last*.

# %% tags=["triton"]
import copy

torch.save(net.state_dict(), models / "focus_compiled/1/model.pt")
shutil.copytree(models / "focus_pytorch", models / "focus_last", dirs_exist_ok=True)
last = copy.deepcopy(net).to(memory_format=torch.channels_last)
torch.jit.script(last).save(models / "focus_last/1/model.pt")

# %%
show("models/focus_compiled/config.pbtxt")
predict(
    "pytorch.first",
    "With torch.compile: how much longer does the first request take than a later one?",
    {
        "about as long": "The module is compiled when the first request comes, and not at the load. "
        "That request waits for the compiler.",
        "some 10 times as long": "A compiler of C++ runs for seconds; a later request takes some "
        "milliseconds.",
        "more than 100 times as long": None,
    },
)

# %% tags=["triton"]
import time


def ms(model, count):
    """Send eight pictures again and again; return the milliseconds of each request."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        infer(model, **{inputs[model]: pictures[:8]})
        times.append(1000 * (time.perf_counter() - began))
    return times


inputs = {"focus_pytorch": "INPUT__0", "focus_last": "INPUT__0", "focus_compiled": "image"}

# %% tags=["triton"]
first, later = {}, {model: [] for model in inputs}
for model in inputs:
    (models / model / "1/model.pt").touch()  # so that it is loaded anew
    client.load_model(model)
    first[model], *_ = ms(model, 3)
for _ in range(4):  # turns, because other programs may disturb one of them
    for model in inputs:
        later[model].append(min(ms(model, 6)))
print({model: f"{first[model]:.0f} ms, then {min(later[model]):.0f} ms" for model in inputs})

# %%
table = setup.table(lab, first, later)
table  # spread: the second fastest of the four turns, over the fastest

# %%
one, two = "focus_pytorch", "focus_compiled"
longer = (table["first_ms"] / table["ms"])[two]
gain = table["ms"][one] / table["ms"][two]
agreed = setup.repeated(table)
option = "more than 100 times as long" if longer > 100 else "some 10 times as long"
compare("pytorch.first", option if longer > 3 else "about as long", premise=agreed)
claim(
    longer > 10 and gain > 1,
    f"Compiled, the first request took {longer:,.0f} times as long as a later one. Later ones were "
    f"{gain:.1f} times as fast as with TorchScript.",
    "Run the cells with the requests again.",
    premise=agreed & setup.apart(table),
    id="pytorch.compile",
)

# %% [markdown]
# What is compiled at the first request needs a warm-up ([`model_warmup`](../../1_architecture/07__model_repository_manager/07__model_repository_manager.ipynb#Warm-up)). Part of the gain is the layout: PyTorch's usual one slows TorchScript's convolutions, as `focus_last` shows. (NVIDIA's instances may share weights; ours are processes.)
#
# ## torch.export
#
# It replaces TorchScript, but 24.10 cannot read its files. [Since 26.03](../14__images/14__images.ipynb#Your-release-has) platform `torch_aoti` takes AOTInductor's `model.pt2`: [beta](https://github.com/triton-inference-server/pytorch_backend#aot-inductor-support-beta), no batches above 1, no sequences.

# %% tags=["triton"]
free = ({0: torch.export.Dim("batch")},)
program = torch.export.export(net, (example,), dynamic_shapes=free)
shutil.copytree(models / "focus_pytorch", models / "focus_exported", dirs_exist_ok=True)
torch.export.save(program, models / "focus_exported/1/model.pt")
# !curl -sX POST $TRITON_HTTP/v2/repository/models/focus_exported/load

# %%
made = setup.provoke(lab, program)
claim(
    len(made.refused) == 5,
    "The server refuses all five.",
    "Read below what it loads.",
    id="pytorch.mistakes",
)
made

# %% [markdown]
# Serve an exported program as ONNX ([05](../05__onnxruntime/05__onnxruntime.ipynb)), or in a Python model. On a GPU (`KIND_GPU`, not verified) errors may come with a [later request](https://github.com/triton-inference-server/pytorch_backend#important-notes).
#
# ## Your turn
#
# `scaled` has `forward(image, black, white)`. Its config has other names and another order, and its logits are wrong. Correct the config (a new cell with `%%writefile {models}/scaled/config.pbtxt`), and load it: `client.load_model("scaled")`. Clients send `black` and `white`.

# %%
setup.scaled(models)  # keeps a folder that is there
lab.load("scaled")
show(models / "scaled/config.pbtxt")

# %%
task("pytorch.scaled", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# From a module to a model that is served and checked:

# %%
show("at_work/deploy_torch.py")

# %% tags=["triton"]
# %run at_work/deploy_torch.py mlp

# %% [markdown]
# ## What to remember
#
# - The file is TorchScript, `model.pt`. Script what has branches: a trace keeps only the branch that its example took.
# - Inputs go by argument names if all fit, else by `__0`, `__1` if all have one, else by order, mostly without a warning.
# - What is compiled at the first request needs a warm-up.

# %% [markdown]
# ## Check yourself
#
# <details><summary><code>Careful</code> looks at the largest pixel of <code>image</code>. Why is that wrong under dynamic batching?</summary>
#
# `image` is a batch, of several clients. One picture in 0..255 makes it rescale the others, too. It must decide per picture.
#
# </details>
#
# <details><summary>A config lists INPUT__1 before INPUT__0. Does the model get its tensors in the wrong order?</summary>
#
# No. All inputs have a number, so the numbers count.
#
# </details>
#
# <details><summary>You have <code>model.pt</code> from <code>torch.save(model)</code>. What does the server say, and what do you do?</summary>
#
# "Failed locating file constants.pkl", and that the file may be corrupted. It is not: it has no TorchScript. Load it in Python, script or trace it, and save that.
#
# </details>
#
# Next: [ONNX Runtime](../05__onnxruntime/05__onnxruntime.ipynb).
