# ---
# title: The PyTorch backend
# minutes: 30
# ---

# %% [markdown]
# # The PyTorch backend
#
# **Question.** Your model is a PyTorch module. What do you save and what do you write into its config, so that Triton gives the same answers as PyTorch?

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = setup.models()  # run again, it empties this notebook's folder
lab = laboratory(models, only=[])

# %% [markdown]
# ## A model from a slide
#
# Triton's [PyTorch backend](https://github.com/triton-inference-server/pytorch_backend) runs without Python. So the module is saved as *TorchScript*: a file, `model.pt`, with its code and its weights, which PyTorch's C++ library executes. [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) have this small module:

# %% tags=["triton"]
import torch
from torch import nn


class SimpleModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 1)

    def forward(self, x):
        return torch.sigmoid(self.fc(x))


torch.jit.script(SimpleModel()).save(models / "pytorch_model/1/model.pt")  # version 1

# %% [markdown]
# TorchScript stores neither names nor shapes of tensors, so the config has to: `INPUT__0` is the first argument of `forward`, `OUTPUT__0` its first result. `dims` leaves out the batch. `platform: "pytorch_libtorch"` names the backend and the kind of file; in release 24.10, `backend: "pytorch"` says the same.

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


client.load_model("pytorch_model")
zeros = infer("pytorch_model", INPUT__0=np.zeros((2, 5), np.float32))
print(zeros)  # zeros in, so both rows are the sigmoid of the bias

# %%
claim(
    "forward" in setup.slides(lab).words("on the CPU") and zeros.shape == (2, 1),
    "The server answers with this model. (It refuses the program as the slides print it; the fold "
    "below says why.)",
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
# There are two ways to TorchScript: `torch.jit.script` translates the module's code, `torch.jit.trace` records the operations that one example goes through. [`Photo`](models/focus_compiled/1/model.py), [the lecture's network](../02__python/02__python.ipynb#The-classifier), takes pixels in -1..1. `Careful` wraps it: if a pixel is above 1, it rescales from 0..255 first.

# %% tags=["triton"]
# %run {models}/focus_compiled/1/model.py
net = Photo().eval().requires_grad_(False)
net.load_state_dict(torch.load(models / "weights.pth", weights_only=True))
pictures = np.load(models / "pictures.npy")  # 200 pieces of photos


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
    "Careful is traced with pixels in -1..1. What does the traced module do with pixels in 0..255?",
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
raw, changed = (pictures + 1) * 127.5, {}  # the same pictures, with pixels in 0..255
wanted = net(torch.from_numpy(pictures)).argmax(1).numpy()
for name, form in forms.items():  # up to half a minute
    form.save(models / name / "1/model.pt")  # its config is there: INPUT__0, OUTPUT__0
    client.load_model(name)
    logits = np.concatenate([infer(name, INPUT__0=part) for part in np.split(raw, 25)])
    changed[name] = int((logits.argmax(1) != wanted).sum())
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
# So script what has branches, and read `trace`'s warnings. A trace also keeps its example's device: for several GPUs, [script](https://github.com/triton-inference-server/pytorch_backend#important-notes).
#
# ## Served
#
# Now `Photo` alone. It computes with one thread (`INTRA_OP_THREAD_COUNT`), as the Python model of notebook 02. (In NVIDIA's backend the parameter holds for all PyTorch models of [the server](https://github.com/triton-inference-server/pytorch_backend/blob/r24.10/src/libtorch.cc).)

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
print("Triton: ", infer("focus_pytorch", INPUT__0=pictures[:3]).tolist())
print("PyTorch:", net(torch.from_numpy(pictures[:3])).tolist())

# %%
row = setup.add_row(lab)  # pictures per second, with 1 and with 8 requests under way
setup.compared()  # with this lecture's formats up to here

# %%
claim(
    row.changed == 0,
    "Of the 200 verdicts, none is another one than PyTorch's.",
    "Close other programs, and run the cell before this one again.",
    premise=row.repeated,
    id="pytorch.served",
)

# %% [markdown]
# Do not expect TorchScript to be much faster than a Python model: both run PyTorch's kernels. But it needs no Python, so less memory. (Fewer per second with 8 under way than with 1? Another program disturbed it.)

# %% [markdown]
# ## Which names?
#
# `INPUT__0` is not the only name for `image`. By [the rule](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md#special-conventions-for-pytorch-backend), the names of `forward`'s arguments count, if all inputs have them; else the numbers, if all have one; else the order in the config. Does the server notice a name that cannot be right?

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


replies = {name: load_with("INPUT__0", name) for name in ("image", "pixels", "INPUT__1")}
replies["logits"] = load_with("OUTPUT__0", "logits")
for name, reply in replies.items():
    print(f"{name}: {reply}")

# %%
claim(
    [name for name, reply in replies.items() if reply != "loaded"] == ["INPUT__1"],
    "Refused is only the number of an argument that forward() does not have.",
    "Run the cell before this one again.",
    id="pytorch.names",
)

# %% [markdown]
# NVIDIA's backend loads that one, too (`libtorch.cc` hardly checks names). So a wrong name gives no error, and may give wrong answers: compare them with PyTorch's.

# %% [markdown]
# ## A GPT with three inputs
#
# [The production guide](../../00__start/00__start.ipynb#The-documents-behind-the-course) serves a GPT, here [a tiny one](models/ibuddha_chitchat/tiny_gpt.py): `forward(input_ids, attention_mask, token_type_ids)`. In its config, `INFERENCE_MODE` computes without gradients. `dynamic_batching` is left out: may a request have four rows all the same?

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
    f"The three inputs reach the right arguments, and a request of 4 rows is served without "
    f"dynamic_batching: {list(words.shape)}. (The guide's own config asks for GPU 0, so this server "
    "refuses it. Changed to the CPU, it is loaded; the log says that NVFUSER has no effect.)",
    "Run the cells of this section again.",
    id="pytorch.gpt",
)

# %% [markdown]
# <details><summary>Errata: the production guide</summary>
#
# `max_batch_size` counts without `dynamic_batching`, too: it bounds requests. In [its config](models/ibuddha_chitchat/config.as_printed.pbtxt), the output's dims must be `[ -1, 13088 ]`. `ENABLE_NVFUSER` has no effect any more. A model may have several GPUs: `gpus: [ 0, 1 ]` puts an instance on each.
#
# </details>
#
# <details><summary>Can <code>max_batch_size</code> be too large?</summary>
#
# Yes. 64 rows of 510 tokens have an output of 64 × 510 × 13,088 × 4 bytes, 1.7 GB. The guide reports that a GPU's memory ran out, and Triton ended.
#
# </details>

# %% [markdown]
# ## torch.compile
#
# `torch.compile` generates code for the whole module, which is often faster. For it, the backend has an experimental [runtime in Python](https://github.com/triton-inference-server/pytorch_backend/blob/r24.10/README.md#pytorch-20-backend-experimental) (in its README until 25.09; later, compile in a Python model). Here `model.py` has the module's class, and `model.pt` only its weights (`state_dict`). The runtime makes the class without arguments, and passes inputs in the config's order:

# %%
show("models/focus_compiled/config.pbtxt", "models/focus_compiled/1/model.py")
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

torch.save(net.state_dict(), models / "focus_compiled/1/model.pt")
inputs = {"focus_pytorch": "INPUT__0", "focus_compiled": "image"}


def ms(model, count):
    """Send eight pictures again and again; return the milliseconds of each request."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        infer(model, **{inputs[model]: pictures[:8]})
        times.append(1000 * (time.perf_counter() - began))
    return times


# %%
first, later = {}, {model: [] for model in inputs}
for model in inputs:
    (models / model / "1/model.pt").touch()  # so that it is loaded anew
    client.load_model(model)
    first[model] = ms(model, 3)[0]
for _ in range(4):  # turns, because other programs may disturb one of them
    for model in inputs:
        later[model].append(min(ms(model, 6)))
table = setup.table(lab, first, later)
table[["first_ms", "ms", "memory_mb"]]  # ms: the fastest of the later requests

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
# The price of the speed is memory (the process has Python, torch and the compiler), and a client that waits. Let a [warm-up](../../1_architecture/07__model_repository_manager/07__model_repository_manager.ipynb#Warm-up) compile instead: Triton sends these rows while it loads the model, before clients find it.
#

# %% tags=["triton"]
WARMUP = """
model_warmup {
  name: "compile" batch_size: 8
  inputs { key: "image" value { data_type: TYPE_FP32 dims: [ 3, 64, 64 ] random_data: true } }
}
"""
file = models / "focus_compiled/config.pbtxt"
file.write_text(file.read_text().partition("\nmodel_warmup")[0] + WARMUP)
client.load_model("focus_compiled")  # now the load takes longer
print(f"first request: {ms('focus_compiled', 1)[0]:.0f} ms")

# %% [markdown]
# ## torch.export
#
# Today PyTorch recommends `torch.export`, not TorchScript. Release 24.10 cannot read its files. [Since 26.03](../14__images/14__images.ipynb#Your-release-has) platform `torch_aoti` takes AOTInductor's `model.pt2`: [beta](https://github.com/triton-inference-server/pytorch_backend#aot-inductor-support-beta), no batches above 1, no sequences. An exported file and four other mistakes, in copies of `focus_pytorch`:

# %%
free = ({0: torch.export.Dim("batch")},)
program = torch.export.export(net, (example,), dynamic_shapes=free)
made = setup.provoke(lab, program)
claim(
    len(made.refused) == 5,
    "The server refuses all five.",
    "Read below what it loads.",
    id="pytorch.mistakes",
)
made

# %% [markdown]
# Serve an exported program as ONNX, or in a Python model. On a GPU (`KIND_GPU`, not verified) PyTorch does not wait for its kernels, so an error may be told to a [later request](https://github.com/triton-inference-server/pytorch_backend#important-notes).

# %% [markdown]
# ## Your turn
#
# `scaled` has `forward(image, black, white)`. Its config has other names and another order, so its logits are wrong. Correct it (`%%writefile {models}/scaled/config.pbtxt`), and run the cell again. Clients send `black` and `white`.

# %%
setup.scaled(models)  # keeps a folder that is there
lab.load("scaled")
show(models / "scaled/config.pbtxt")
task("pytorch.scaled", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# This program saves a module, writes its config, loads it, and fails if Triton's answers are not PyTorch's. Change module and example below `__main__`; for several inputs, describe and send each, in the order of `forward`.

# %%
show("at_work/deploy_torch.py")

# %% tags=["triton"]
# %run at_work/deploy_torch.py mlp

# %% [markdown]
# - TorchScript: modules that script or trace, no Python in the server.
# - torch.compile: a gain that you have measured, and memory to spare; always with a warm-up.
# - [ONNX](../05__onnxruntime/05__onnxruntime.ipynb): often the fastest on a CPU. A Python model: what fits nowhere else.

# %% [markdown]
# ## What to remember
#
# - Save TorchScript as `model.pt`. Script what has branches: a trace keeps only what its example did.
# - Name inputs like the arguments of `forward`, or `INPUT__0`, `INPUT__1`. Wrong names give wrong answers, not errors: compare with PyTorch.
# - `torch.compile` compiles at the first request: give it a warm-up.

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
# Next: [ONNX Runtime](../05__onnxruntime/05__onnxruntime.ipynb).
