# ---
# title: The PyTorch backend
# minutes: 19
# ---

# %% [markdown]
# # The PyTorch backend
#
# **Question.** Your model is a PyTorch module. What do you give to Triton: TorchScript, a compiled module, an exported program? And how does it know which tensor is which?
#
# It fits models that must stay in PyTorch. Where an ONNX file works, measure that, too ([05](../05__onnxruntime/05__onnxruntime.ipynb)).

# %%
import numpy as np
import torch
import torch.nn as nn
from tritonclient import grpc

import setup
from workbook import lessons
from workbook.lessons import Premise, claim, compare, formats, mistakes, predict, show, task, write
from workbook.lessons.runs import infer
from workbook.lessons.shared import documented, quiet, variants

quiet.torchscript()  # torch.jit is deprecated, and says so at each use
models = setup.models()  # run again, it empties this notebook's folder
lab = lessons.laboratory(models, only=[])

# %% [markdown]
# ## A model from a slide
#
# The backend's file is `model.pt` in [TorchScript](https://github.com/triton-inference-server/pytorch_backend). [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) have this program, with `forward` at the left margin, and a config without braces:


# %%
class SimpleModel(nn.Module):
    def __init__(self):
        super(SimpleModel, self).__init__()  # noqa: UP008
        self.fc = nn.Linear(5, 1)


def forward(self, x):
    return torch.sigmoid(self.fc(x))


simple = models / "pytorch_model/1/model.pt"
model = SimpleModel()
scripted_model = torch.jit.script(model)

# %%
scripted_model.save(simple)
steps = {"with braces": documented.braces, "on the CPU": documented.on_cpu}
config = models / "pytorch_model/config.as_printed.pbtxt"
show(config)
printed = documented.correct(lab, "pytorch_model", config, steps)


class Indented(SimpleModel):
    forward = forward


torch.jit.script(Indented()).save(simple)
lab.load("pytorch_model")
half = infer(lab, "pytorch_model", INPUT__0=np.zeros((2, 5), np.float32))["OUTPUT__0"]
claim(
    "forward" in printed.words("on the CPU") and half.shape == (2, 1),
    "The server refused the model without forward, and answers with it.",
    "Run this cell again.",
    id="pytorch.document",
)
printed

# %% [markdown]
# > **Erratum.** On the slides, `forward` must be indented. Without it, `torch.jit.script` saves a module that cannot compute, and does not complain. With its braces, the config is right.
#
# ## Script and trace
#
# `torch.jit.script` reads the code; `torch.jit.trace` records what one example does. This module holds [the lecture's network](../02__python/02__python.ipynb#The-classifier), which takes pixels in -1..1, and rescales pictures in 0..255:


# %%
class Careful(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image):
        if bool(image.max() > 1):
            image = image / 127.5 - 1
        return self.net(image)


careful, pictures = Careful(formats.network()), formats.pictures()
example = torch.from_numpy(pictures[:2])
trace, warning = setup.traced(careful, example)  # torch.jit.trace, and what it warns of
forms = {"script": torch.jit.script(careful), "trace": trace}

# %%
predict(
    "pytorch.trace",
    "It was traced with pixels in -1..1. What does the traced module do with pixels in 0..255?",
    {
        "it rescales them, like the script": "The trace has the operations of its example. The example "
        "did not take the branch, so the branch is not in the file.",
        "it refuses them: they are outside of what it has seen": "A trace keeps operations and no "
        "ranges. It computes with any numbers.",
        "it answers, with other verdicts": None,
    },
)

# %%
raw, verdicts = (pictures + 1) * np.float32(127.5), {}
for name, form in forms.items():  # up to half a minute
    model = f"careful_{name}"
    form.save(models / model / "1/model.pt")
    lab.load(model)
    verdicts[name] = formats.changed(formats.served_logits(lab, model, raw))
verdicts

# %%
other, same = "it answers, with other verdicts", "it rescales them, like the script"
branch = Premise(raw.max() > 1, "no pixel was above 1")
compare("pytorch.trace", other if verdicts["trace"] else same, premise=branch)
claim(
    verdicts["script"] <= 1 < verdicts["trace"],
    f"Of 200 verdicts the trace changes {verdicts['trace']}, the script {verdicts['script']}.",
    "Run the cell before this one again.",
    premise=branch,
    id="pytorch.trace",
)
print("torch.jit.trace had warned:", warning, sep="\n")

# %% [markdown]
# Trace what has no branches; script the rest. A trace also keeps its example's device: for several GPUs, [script](https://github.com/triton-inference-server/pytorch_backend#important-notes). Read the warning of `trace`. Compare both with PyTorch.
#
# ## Served
#
# TorchScript stores no shapes, so the server fills in nothing. Each format gets one thread here; NVIDIA's backend sets `INTRA_OP_THREAD_COUNT` for its [whole process](https://github.com/triton-inference-server/pytorch_backend/blob/r24.10/src/libtorch.cc). Names follow [conventions](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md#special-conventions-for-pytorch-backend):

# %%
config = """
platform: "pytorch_libtorch"
max_batch_size: 8
input [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] } ]
output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 2 ] } ]
dynamic_batching { }
instance_group [ { kind: KIND_CPU count: 1 } ]
parameters { key: "INTRA_OP_THREAD_COUNT" value: { string_value: "1" } }
"""
write(models / "focus_pytorch/config.pbtxt", config)
scripted = torch.jit.script(formats.network())
scripted.save(models / "focus_pytorch/1/model.pt")


# %%
def in_process(rows):
    with torch.inference_mode():
        return scripted(torch.from_numpy(rows)).numpy()


def measured():
    return formats.add(lab, "focus_pytorch", "TorchScript", in_process)


torch.set_num_threads(1)
lab.load("focus_pytorch")
row = lessons.attempt(measured, lambda found: found.repeated)  # 10 seconds to a minute
claim(
    row.changed == 0,
    f"No verdict changed. {row.served}",
    "Close other programs, and run this cell again.",
    premise=row.repeated,
    id="pytorch.served",
)
formats.table()

# %% [markdown]
# ## Which names?
#
# `forward(image)` has one argument. We try other names for it and for the output, in copies of the config. The answer is that of this course's stand-in. NVIDIA's backend loads all four:

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

# %%
ins = {f'an input "{name}"': ("INPUT__0", name) for name in ("image", "pixels", "INPUT__1")}
tries = {**ins, 'an output "logits"': ("OUTPUT__0", "logits")}
changes = {name: mistakes.config(*texts) for name, texts in tries.items()}
named = mistakes.provoke(lab, "focus_pytorch", changes)
tried = Premise(len(named.changes) == 4, "not all four were tried")
refused = next(iter(named.refused), 'an input "image"')
compare("pytorch.names", refused, premise=tried)
claim(
    list(named.refused) == ['an input "INPUT__1"'],
    "Only a number that no argument has is refused.",
    "Run this cell again.",
    premise=tried,
    id="pytorch.names",
)
named

# %% [markdown]
# Argument names count if all fit, numbers if all have one, else the order. NVIDIA's backend checks no numbers; it warns only of a name with `__` and no number (`libtorch.cc`).
#
# ## A GPT with three inputs
#
# [The production guide](../../00__start/00__start.ipynb#The-documents-behind-the-course)'s config, with a tiny GPT of ours: on the CPU, with its comments, without `dynamic_batching`. Then four rows in one request:

# %%
gpt = setup.TinyGPT().eval()
torch.jit.script(gpt).save(models / "ibuddha_chitchat/1/model.pt")
steps = {
    "on the CPU": documented.on_cpu,
    "with NVFUSER": setup.with_nvfuser,
    "without a batcher": documented.put("dynamic_batching {\n}\n", ""),
}
config = models / "ibuddha_chitchat/config.as_printed.pbtxt"
show(config)
chitchat = documented.correct(lab, "ibuddha_chitchat", config, steps)
chitchat

# %%
inputs = [np.repeat(x, 4, axis=0) for x in setup.sentence(tokens=9)]
tensors = [grpc.InferInput(f"INPUT__{n}", x.shape, "INT64") for n, x in enumerate(inputs)]
_ = [t.set_data_from_numpy(x) for t, x in zip(tensors, inputs, strict=True)]
with grpc.InferenceServerClient(lab.grpc_url) as client:
    words = client.infer("ibuddha_chitchat", tensors).as_numpy("OUTPUT__0")
with torch.inference_mode():
    expected = gpt(*map(torch.from_numpy, inputs)).numpy()
claim(
    words.shape == (*inputs[0].shape, 13088) and np.abs(words - expected).max() < 1e-4,
    f"Without a batcher, a request of 4 rows is served: {list(words.shape)}, 13,088 logits per word.",
    "Run the cell before this one again.",
    id="pytorch.gpt",
)
print([line for line in lab.log_text().splitlines() if "NVFUSER" in line][-1])

# %% [markdown]
# > **Errata.** `max_batch_size` counts without `dynamic_batching`, too: it bounds requests. The output's dims are `[ -1, 13088 ]`. `ENABLE_NVFUSER` has no effect any more. `gpus: [ 0, 1 ]` puts an instance on each.
#
# <details><summary>Can `max_batch_size` be too large?</summary>
#
# Yes. 64 rows of 510 tokens have an output of 64 × 510 × 13,088 × 4 bytes: 1.7 GB, beside what the layers need. The guide reports that a GPU's memory ran out and Triton ended (not run here). Raise it while you measure the memory.
#
# </details>
#
# ## torch.compile
#
# Release 24.10 has a second [runtime](https://github.com/triton-inference-server/pytorch_backend/blob/r24.10/README.md#pytorch-20-backend-experimental), in Python (in the guide until 25.09): `model.py` holds a module, `model.pt` its state dict. The config, below, names the runtime:

# %%
# %%writefile {models}/focus_compiled/1/model.py
from torch import nn


class Photo(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        for before, after in ((3, 32), (32, 64), (64, 96), (96, 128)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        self.features, self.head = nn.Sequential(*layers), nn.Linear(128, 2)

    def forward(self, image):
        return self.head(self.features(image).mean((2, 3)))


# %%
torch.save(formats.network().state_dict(), models / "focus_compiled/1/model.pt")
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

# %%
variant = variants.add(models, "focus_pytorch", {"TorchScript": ""})
variant |= {"channels last": setup.channels_last(models), "torch.compile": "focus_compiled"}
times = variants.measure(lab, variant, pictures[:8])  # 20 seconds to 2 minutes
agreed, first_later = variants.repeated(times, 2), times["first_ms"] / times["ms"]
faster = variants.apart(times, "TorchScript", "torch.compile")
longer = first_later["torch.compile"]
long = "more than 100 times as long" if longer > 100 else "some 10 times as long"
compare("pytorch.first", long if longer > 3 else "about as long", premise=agreed)
claim(
    longer > 10 and times["ms"]["torch.compile"] < times["ms"]["TorchScript"],
    f"The first request: ×{longer:,.0f} compiled, ×{first_later['TorchScript']:.1f} with TorchScript. "
    f"Later ones: ×{times['ms']['TorchScript'] / times['ms']['torch.compile']:.1f} as fast compiled.",
    "Run this cell again.",
    premise=agreed & faster,
    id="pytorch.compile",
)
times.round(1)

# %% [markdown]
# The first request compiles: warm it up (`model_warmup`). `spread`: the two fastest of four turns.
#
# PyTorch's usual memory layout, channel by channel, slows TorchScript's convolutions. NVIDIA's instances may share weights; ours are processes.
#
# ## torch.export
#
# It replaces TorchScript. 24.10 lacks it. [Since 26.03](../14__images/14__images.ipynb#Your-release-has) there is platform `torch_aoti` for AOTInductor's `model.pt2`: [beta](https://github.com/triton-inference-server/pytorch_backend#aot-inductor-support-beta), no batches above 1, no sequences. Both, and three mistakes:

# %%
free = ({0: torch.export.Dim("batch")},)
program = torch.export.export(formats.network(), (example,), dynamic_shapes=free)
state = formats.network().state_dict()
made = mistakes.provoke(lab, "focus_pytorch", {
    "an exported program": lambda home: torch.export.save(program, home / "1/model.pt"),
    "a newer platform": mistakes.config("pytorch_libtorch", "torch_aoti"),
    "a state dict": lambda home: torch.save(state, home / "1/model.pt"),
    "a file model.pth": mistakes.rename("1/model.pt", "model.pth"),
    "a parameter": mistakes.config("parameters", setup.NO_BOOLEAN),
})  # fmt: skip
claim(
    len(made.refused) == 5,
    "The server refuses all five.",
    "Read below what it loads.",
    id="pytorch.mistakes",
)
made

# %% [markdown]
# Serve an exported program as ONNX ([05](../05__onnxruntime/05__onnxruntime.ipynb)), or in a Python model.
#
# On a GPU (`KIND_GPU`, not verified) errors may come with a [later request](https://github.com/triton-inference-server/pytorch_backend#important-notes).
#
# ## Your turn
#
# `scaled` has `forward(image, black, white)`. Its config has other names and another order, and its logits are wrong. Correct the config (a new cell with `%%writefile {models}/scaled/config.pbtxt`), and load it: `lab.load("scaled")`. Clients send `black` and `white`.

# %%
setup.scaled(models)  # keeps a folder that is there
lab.load("scaled")
show(models / "scaled/config.pbtxt")

# %%
task("pytorch.scaled", server=lab, models=models)

# %% [markdown]
# ## What to remember
#
# - The file is TorchScript, `model.pt`. Script what has branches: a trace keeps the example's way.
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
# It finds no TorchScript in it. Load it in Python, script or trace it, and save that.
#
# </details>
#
# Next: [ONNX Runtime](../05__onnxruntime/05__onnxruntime.ipynb).
