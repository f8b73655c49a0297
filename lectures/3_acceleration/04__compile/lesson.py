# ---
# title: Compile
# minutes: 25
# ---

# %% [markdown]
# # Compile
#
# **Question.** A network is a list of operators, and a framework calls one after the other. A *compiler* rewrites the list first. What does it change, what does that gain, and when does it cost more?
#
# *Compilation* is the first thing that [the acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) do to the model itself.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("compile")
place(models, "../03__batching/models/batched", "models/compiled", "models/flexible")
setup.prepare(models)  # the network as network.pt and model.pt, 200 pictures, eight of them
lab = laboratory(models, only=["batched"])  # a Triton server of this notebook's own

# %% [markdown]
# ## The list of operators
#
# Until now, PyTorch computed our network. ONNX Runtime is a compiler of graphs: it reads the list of operators from a file. So we [export](../../2_backends/05__onnxruntime/05__onnxruntime.ipynb) the network first:

# %% tags=["triton"]
import torch

network = torch.load(models / "network.pt", weights_only=False)
target = models / "compiled/1/model.onnx"
target.parent.mkdir(exist_ok=True)
names = {"input_names": ["image"], "output_names": ["logits"]}
free = {"image": {0: "rows"}, "logits": {0: "rows"}}  # any number of pictures
torch.onnx.export(
    network, (torch.zeros(1, 3, 64, 64),), target, **names, dynamic_axes=free, dynamo=False
)

# %% tags=["triton"]
import onnx

print(*(node.op_type for node in onnx.load(target).graph.node), sep=" → ")

# %%
predict(
    "compile.graph",
    "ONNX Runtime rewrites the list when it loads the file. Which operators will be missing in the "
    "list that it computes?",
    {
        "Relu": None,
        "MaxPool": "The pooling needs four neighbours, which one convolution has not computed at "
        "the same time.",
        "none of them": "A compiler does more than to compute the same list faster: it joins "
        "operators.",
    },
)

# %% tags=["triton"]
import onnxruntime as ort

options = ort.SessionOptions()
options.log_severity_level = 3  # no warning that the next file suits this processor only
options.optimized_model_filepath = str(models / "optimized.onnx")  # write down the new list
ort.InferenceSession(target, options, providers=["CPUExecutionProvider"])
print(*(node.op_type for node in onnx.load(models / "optimized.onnx").graph.node), sep=" → ")

# %%
setup.draw(target, models / "optimized.onnx")

# %%
before, after = setup.operators(target), setup.operators(models / "optimized.onnx")
lost = sorted(name for name in ("Relu", "MaxPool") if name not in after)
compare("compile.graph", " and ".join(lost) or "none of them", premise=setup.exported(before))
claim(
    lost == ["Relu"] and after["Conv"] == before["Conv"] == before["Relu"],
    f"{before['Relu']} of {before.total()} operators are gone: each convolution computes its Relu.",
    "Run the cell with the session again.",
    id="compile.graph",
)

# %% [markdown]
# A convolution that sets its negative results to 0 itself saves a trip through memory. `ReorderOutput` is new: before it, results lie in blocks that suit the processor's vector instructions. The program at the end measures what joining gains, and what the layout adds. TensorRT also [joins Conv and Relu](../../2_backends/10__tensorrt/10__tensorrt.ipynb#Fusion).

# %% [markdown]
# ## What the new list gains
#
# With `optimization { graph { level: -1 } }` in the config, ONNX Runtime does the [basic](../../2_backends/05__onnxruntime/05__onnxruntime.ipynb#Settings) rewriting only, and that finds nothing to change in this network. So we serve the file twice:

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/compiled $TRITON_MODELS/as_exported
# echo 'optimization { graph { level: -1 } }' >> $TRITON_MODELS/as_exported/config.pbtxt
# for model in compiled as_exported; do
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done

# %% language="bash" tags=["triton"]
# for turn in 1 2 3; do  # turns, because other programs may disturb one of them
#   for model in compiled as_exported; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC --concurrency-range 1 \
#       --input-data $TRITON_MODELS/eight.json -p 500 -s 100 -r 10 \
#       -f $TRITON_MODELS/$model.$turn.csv > /dev/null
#   done
# done

# %%
levels = setup.read_levels(models)
levels

# %%
gain = levels["compute, ms"]["as_exported"] / levels["compute, ms"]["compiled"]
claim(
    gain > 1,
    f"As exported, a picture took {gain:.2f} times as long to compute.",
    "Run the cell with perf_analyzer again.",
    premise=setup.apart(levels),
    id="compile.level",
)

# %% [markdown]
# `compute` is the server's count of the time in ONNX Runtime. No compiler shortens the rest: queue, copies. `spread` compares the fastest of three runs with the second: near 1 they agree.

# %% [markdown]
# ## torch.compile
#
# PyTorch's own compiler writes C++ for the whole list. It starts when the network is *called*, so the first request [waits](../../2_backends/04__pytorch/04__pytorch.ipynb#torch.compile). Here it runs in the Python backend. The config has `max_batch_size: 0` and `dims: [ -1, 3, 64, 64 ]`: the number of pictures is a dimension like the others.

# %% tags=["triton"]
# !cat $TRITON_MODELS/flexible/1/model.py

# %%
predict(
    "compile.shapes",
    "Five requests, one after the other, with 1, 2, 3, 4 and 5 pictures. How many of them wait for "
    "the compiler?",
    {
        "one": "The first program is made for exactly one picture.",
        "two": None,
        "all five": "When the number of pictures changes, PyTorch makes a program for any number.",
    },
)

# %% tags=["triton"]
import os
import time

import numpy as np
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
pictures = np.load(models / "pictures.npy")


def seconds(model, count):
    """Send one request with `count` pictures; return how long it took."""
    image = grpc.InferInput("image", [count, 3, 64, 64], "FP32")
    image.set_data_from_numpy(pictures[:count])
    began = time.perf_counter()
    client.infer(model, [image])
    return time.perf_counter() - began


# %% tags=["triton"]
client.load_model("flexible")
waits = [seconds("flexible", count) for count in range(1, 6)]
print(*(f"{count} pictures: {wait:.2f} s" for count, wait in enumerate(waits, 1)), sep="\n")

# %%
compilers = sum(wait > 10 * min(waits) and wait > 0.15 for wait in waits)
counts = {1: "one", 2: "two", 5: "all five"}
compare("compile.shapes", counts.get(compilers, f"{compilers}"), premise=setup.quick(waits))
claim(
    compilers == 2,
    f"Two of five requests waited for the compiler, {sum(sorted(waits)[-2:]):.0f} s together.",
    "Run the cell with the five requests again: it loads the model anew.",
    premise=setup.quick(waits),
    id="compile.shapes",
)

# %% [markdown]
# PyTorch compiles for the shape that it sees. When another shape comes, it compiles once more, now for any size. A size of 1 always has a program of its own. So warm up with one picture, and with several.
#
# ## Where it does not help
#
# How many requests does it take until the compiler's time has come back?

# %% tags=["triton"]
turns = [(seconds("batched", 8), seconds("flexible", 8)) for _ in range(60)]
torchscript, compiled = np.min(turns, axis=0)  # the fastest: other programs disturb some
spent, saved = sum(waits), torchscript - compiled
print(f"TorchScript {1000 * torchscript:.1f} ms, compiled {1000 * compiled:.1f} ms for 8 pictures")
print(f"{spent:.0f} s were spent; to earn them takes {spent / saved:,.0f} requests" * (saved > 0))

# %%
claim(
    saved <= 0 or spent / saved > 100,
    "A model that is loaded for a hundred requests is slower with torch.compile.",
    "Run the cell with the 60 turns again.",
    id="compile.price",
)

# %% [markdown]
# So torch.compile does not help where models are loaded for few requests, or where new kinds of shape keep coming: one picture, several, larger ones. ONNX Runtime rewrites its list in some milliseconds.
#
# <details><summary>Where Triton runs torch.compile</summary>
#
# In the Python backend, as here, with any operator that PyTorch has. In the PyTorch backend by [a runtime in Python](../../2_backends/04__pytorch/04__pytorch.ipynb#torch.compile), and [since 26.03](../../2_backends/14__images/14__images.ipynb#Your-release-has) as `model.pt2`, compiled [beforehand](../../2_backends/04__pytorch/04__pytorch.ipynb#torch.export): no request waits, but batches above 1 are not possible yet. The slides know only the Python backend.
#
# </details>
#
# ## The step
#
# From `batched`, TorchScript in the Python backend, to `compiled`. First the answers, then the speed:

# %%
from workbook.lessons import formats, scoreboard

logits = {name: formats.served_logits(lab, name) for name in ("batched", "compiled")}
verdicts = formats.changed(logits["compiled"])
print("verdicts changed:", verdicts)
scoreboard.add(lab, "compile", before="batched", after="compiled", what="ONNX Runtime")
scoreboard.draw()

# %%
apart = float(abs(logits["batched"] - logits["compiled"]).max())
claim(
    apart < 1e-3 and verdicts == 0,
    f"The logits differ by {apart:.0e} at most, and no verdict has changed.",
    "Run the cell with the export again, and load compiled.",
    id="compile.answers",
)

# %% [markdown]
# Part of this gain is not the compiler's: requests no longer go through a Python process. [Lecture 2](../../2_backends/02__python/02__python.ipynb) measures what that costs. Where the figure says *not steady*, two measurements differed: run it again on a quiet machine.
#
# ## Three mistakes

# %%
setup.mistakes(lab)

# %% [markdown]
# ## Your turn
#
# The users of `flexible` send 1 to 16 pictures. Give it warm-ups, so that none of them waits for a compiler. With `max_batch_size: 0`, a warm-up's `dims` have the number of pictures in them. Append them to `$TRITON_MODELS/flexible/config.pbtxt` in a cell of your own. Then run this one: loading takes a while.

# %%
lab.load("flexible")
task("compile.warmup", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# What does ONNX Runtime make of your model, and what is each level worth? `BASIC` drops operators that are not needed, `EXTENDED` also joins operators, `ALL` also chooses the memory layout. The largest gain may come from any of them:

# %%
show("at_work/compiled.py")

# %% tags=["triton"]
# %run at_work/compiled.py {models}/compiled/1/model.onnx

# %% [markdown]
# ## What to remember
#
# - A compiler joins operators and changes layouts in memory. Its gain shows in `compute` of the server's statistics.
# - ONNX Runtime compiles at load: leave it on. torch.compile makes requests wait: warm up every kind of shape.
# - It pays where a model stays loaded, and computing takes most of the time.

# %% [markdown]
# ## Check yourself
#
# <details><summary>After each deployment, some requests take 20 s, an hour later none. The model uses torch.compile. What is missing?</summary>
#
# Warm-ups for the shapes that users send. Each first shape of a kind makes a request wait.
#
# </details>
#
# <details><summary>A compiler halves the compute time, and the throughput grows by a tenth only. Where do you look?</summary>
#
# At the other parts of a request in the statistics: queue, copying of inputs and outputs, and the Python process between them.
#
# </details>
#
# <details><summary>May you copy ONNX Runtime's optimized file to another server?</summary>
#
# Only to one with the same kind of processor and the same version: layouts and joined operators are chosen for them. Copy the exported file instead.
#
# </details>
