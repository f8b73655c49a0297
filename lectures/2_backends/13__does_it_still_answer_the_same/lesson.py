# ---
# title: Does it still answer the same?
# minutes: 28
# ---

# %% [markdown]
# # Does it still answer the same?
#
# **Question.** A network was converted to another format, or to smaller numbers. Its outputs differ a little. Do the verdicts?
#
# Our network says whether a piece of a photo is sharp. Its *score* is the logit of "sharp" less that of "blurred". Above the threshold 0, the verdict is "sharp".

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("same_answers")  # an empty folder: files of an earlier run are deleted
setup.prepare(models)  # trains the network when it is first needed: 1 to 6 minutes
lab = laboratory(models, only=["focus_fp32"])

# %% tags=["triton"]
import torch

# What is left of three numbers in each type?
for kind in (torch.float32, torch.float16, torch.bfloat16):
    held = torch.tensor([0.1, 1040.3, 70000.0]).to(kind)
    print(f"{kind}: {held.tolist()}, from 1 to the next number: {torch.finfo(kind).eps:.1g}")

# %% [markdown]
# For the digits of a number, fp32 has 24 bits, fp16 11 and bf16 8. fp16 ends at 65,504; bf16 reaches as far as fp32. int8 has 256 values: a *scale* says which numbers they stand for.
#
# ## fp16
#
# `focus_fp32` is the network as ONNX in fp32. Its config, without a change, serves for the other files, too:

# %%
show("models/focus_fp32/config.pbtxt")

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for kind in fp16 whole dynamic static; do
#   mkdir -p focus_$kind/1
#   cp focus_fp32/config.pbtxt focus_$kind/
# done

# %% tags=["triton"]
import os

import numpy as np
import onnx
import tritonclient.grpc as grpc
from onnxconverter_common import float16
from tritonclient.utils import InferenceServerException

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
fp32_file = models / "focus_fp32/1/model.onnx"
half = float16.convert_float_to_float16(onnx.load(fp32_file), keep_io_types=True)
onnx.save(half, models / "focus_fp16/1/model.onnx")
client.load_model("focus_fp16")


# %% [markdown]
# With `keep_io_types=True`, input and output stay fp32. What if that is left out? And ONNX has bfloat16: `focus_bf16_onnx` is the network in it. Does ONNX Runtime's CPU provider compute with it?

# %% tags=["triton"]
whole = float16.convert_float_to_float16(onnx.load(fp32_file))
onnx.save(whole, models / "focus_whole/1/model.onnx")
refused = {}
for name in ("focus_whole", "focus_bf16_onnx"):
    try:
        client.load_model(name)
    except InferenceServerException as error:
        refused[name] = error.message()
        print(f"{name}: {error.message()[:400]}\n")

# %%
claim(
    "focus_whole" in refused,
    "The server compares the types of config and file, and refuses the model.",
    "Run the cell before this one again.",
    id="same_answers.io_types",
)
claim(
    "Could not find an implementation" in refused.get("focus_bf16_onnx", ""),
    "ONNX Runtime's CPU provider has no convolution in bf16.",
    "Look at the message above: a newer ONNX Runtime may have it.",
    id="same_answers.bf16",
)

# %% [markdown]
# The first one needs `TYPE_FP16` in its config. PyTorch computes in bf16: `focus_bf16` is TorchScript, converted at both ends, since numpy has no bf16.
#
# <details><summary>Errata: the acceleration slides</summary>
#
# [They](../../00__start/00__start.ipynb#The-documents-behind-the-course) call `convert_float_to_float16(model)` without more. Then the config of the fp32 model does not fit any more.
#
# </details>
#
# ## int8
#
# *Dynamic* quantization measures each activation's range when the network runs. *Static* quantization measures it beforehand, on examples: *calibration*. Here these are 256 training pictures.

# %% tags=["triton"]
from onnxruntime import quantization as q

dynamic_file = models / "focus_dynamic/1/model.onnx"
# Unsigned: ONNX Runtime has no dynamic convolution with signed weights (its issue 15888).
q.quantize_dynamic(fp32_file, dynamic_file, weight_type=q.QuantType.QUInt8)


class Examples(q.CalibrationDataReader):
    def __init__(self, pictures):
        self.batches = iter(np.split(pictures, len(pictures) // 32))

    def get_next(self):
        batch = next(self.batches, None)
        return None if batch is None else {"image": batch}


examples = Examples(np.load(models / "examples.npy")[:256])
q.quantize_static(fp32_file, models / "focus_static/1/model.onnx", examples)

# %%
predict(
    "same_answers.verdicts",
    "200 pictures, four files. Which changes most verdicts?",
    {
        "fp16": "It keeps 11 bits of each number. The scores differ by thousandths, and few "
        "pictures are as near to the threshold as that.",
        "bf16": "It keeps 8 bits of each number, with an exponent of its own for each. int8 has "
        "one scale for a whole tensor.",
        "int8, dynamic": "It measures the scale of each activation anew. A static file takes the "
        "scales of the calibration for all pictures.",
        "int8, static": None,
    },
)

# %% [markdown]
# ## Which verdicts change?
#
# `exact` are the scores of PyTorch in fp32. All others come from the server.


# %% tags=["triton"]
def scores(model, inputs):
    """The score of each input: the logit of "yes" less that of "no"."""
    about = client.get_model_metadata(model)
    most = client.get_model_config(model).config.max_batch_size
    found = []
    for start in range(0, len(inputs), most):
        batch = inputs[start : start + most]
        tensor = grpc.InferInput("image", batch.shape, about.inputs[0].datatype)
        tensor.set_data_from_numpy(batch)
        found.append(client.infer(model, [tensor]).as_numpy(about.outputs[0].name))
    logits = np.concatenate(found).astype(np.float32)
    return logits[:, 1] - logits[:, 0]


# %% tags=["triton"]
import pandas as pd

pictures, exact = np.load(models / "pictures.npy"), np.load(models / "pytorch.npy")
served, rows = {}, {}
for name in ("focus_fp16", "focus_bf16", "focus_dynamic", "focus_static"):
    client.load_model(name)
    served[name] = scores(name, pictures)
    other = (served[name] > 0) != (exact > 0)
    rows[name] = {
        "largest difference": abs(served[name] - exact).max(),
        "verdicts changed": other.sum(),
        "largest score among these": abs(exact[other]).max(initial=0),
    }
near = pd.DataFrame.from_dict(rows, orient="index")
near.round(3)

# %% [markdown]
# Each point is a picture. Left to right: its score in PyTorch. Up and down: by how much the converted network differs. Beyond the dashed line the verdict changes.

# %%
setup.plot_differences(served, exact)

# %%
changes, apart, at_most = (near.iloc[:, column] for column in (1, 0, 2))
in_words = ("fp16", "bf16", "int8, dynamic", "int8, static")
clear = Premise(sorted(changes)[-1] > sorted(changes)[-2], "two formats changed equally many")
compare("same_answers.verdicts", in_words[near["verdicts changed"].argmax()], premise=clear)
claim(
    (at_most <= apart).all(),
    f"Where verdicts changed, scores are within {max(at_most):.2f} of 0.",
    "Run the cell that makes the table again.",
    id="same_answers.near",
)

# %% [markdown]
# So two things decide: how large the differences are, and how many of *your* inputs have a score that near to the threshold. Count both on your own data.
#
# And what does a format gain? This table has the formats of the whole lecture, if their notebooks ran on this machine. It takes about a minute. `repeated`: two measurements agreed.

# %%
setup.measure_formats(lab, models)

# %% [markdown]
# ## Another threshold
#
# The static int8 file gets a threshold of its own: that with the fewest changed verdicts.

# %%
predict(
    "same_answers.threshold",
    "How many of its changed verdicts can that restore?",
    {
        "all": "That would need the same order of the pictures by their scores. Rounding moves "
        "each score by another amount, and some change places.",
        "some": None,
        "none": "The card below says by how much this file's scores are off on average. A threshold "
        "that is moved by about as much undoes the average.",
    },
)

# %% tags=["triton"]
static = served["focus_static"]
between = np.sort(static)
thresholds = sorted([0, *(between[1:] + between[:-1]) / 2], key=abs)
left = [((static > threshold) != (exact > 0)).sum() for threshold in thresholds]
best = int(np.argmin(left))
at_zero, at_best, shift = left[0], left[best], (static - exact).mean()
print(f"threshold 0: {at_zero} changed, {thresholds[best]:.2f}: {at_best}; mean shift {shift:.2f}")

# %%
compare(
    "same_answers.threshold",
    "all" if at_best == 0 else "some" if at_best < at_zero else "none",
    premise=Premise(at_zero > 0, "no verdict had changed"),
)
claim(
    at_best <= at_zero,
    f"With the threshold 0, {at_zero} verdicts differ; with {thresholds[best]:.2f}, {at_best} do. "
    f"On average the scores are off by {shift:.2f}; {(static == 0).sum()} are exactly 0.",
    "Run the cells of this experiment again.",
    id="same_answers.threshold",
)

# %%
setup.plot_thresholds(served, exact)

# %% [markdown]
# Marks are the best thresholds. They were chosen and judged on the same pictures, which flatters them. Choose yours on other data.
#
# ## The same file
#
# Nothing is converted now: one fp32 file. Only how it is computed differs: without and with graph optimisation, one picture at a time, or by OpenVINO, in two ways. PyTorch stands beside.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for model in focus_accelerated focus_openvino; do cp -rT focus_fp32 $model; done
# cpu='cpu_execution_accelerator: [ { name: "openvino" } ]'
# echo "optimization { execution_accelerators { $cpu } }" >> focus_accelerated/config.pbtxt
# cat > focus_openvino/config.pbtxt <<'END'
# backend: "openvino"
# default_model_filename: "model.onnx"
# max_batch_size: 16
# input { name: "image" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] }
# output { name: "logits" data_type: TYPE_FP32 dims: [ 2 ] }
# instance_group { count: 1 kind: KIND_CPU }
# parameters { key: "ENABLE_BATCH_PADDING" value: { string_value: "YES" } }
# END
# url=$TRITON_HTTP/v2/repository/models
# curl -sX POST $url/focus_accelerated/load && curl -sX POST $url/focus_openvino/load


# %% tags=["triton"]
import onnxruntime as ort


def compute(level, batches):
    """The scores of `focus_fp32` in this process."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.graph_optimization_level = 1, level
    session = ort.InferenceSession(fp32_file, options, providers=["CPUExecutionProvider"])
    logits = np.concatenate([session.run(None, {"image": batch})[0] for batch in batches])
    return logits[:, 1] - logits[:, 0]


# %% tags=["triton"]
level = ort.GraphOptimizationLevel
optimised = compute(level.ORT_ENABLE_ALL, [pictures])
ways = {
    "PyTorch": exact,
    "not optimised": compute(level.ORT_DISABLE_ALL, [pictures]),
    "one by one": compute(level.ORT_ENABLE_ALL, np.split(pictures, len(pictures))),
    "served": scores("focus_fp32", pictures),
    "ONNX Runtime with OpenVINO": scores("focus_accelerated", pictures),
    "OpenVINO's own backend": scores("focus_openvino", pictures),
}
far, turned = [], []
for name, own in ways.items():
    far.append(abs(own - optimised).max())
    turned.append(((own > 0) != (optimised > 0)).sum())
    print(f"{name}: scores differ by {far[-1]:.0e} at most, {turned[-1]} verdicts changed")

# %%
claim(
    0 < max(far[:-1]) < 1e-3 and not any(turned[:-1]),
    f"One file, other numbers: they differ by up to {max(far[:-1]):.0e}. No verdict changed.",
    "Run the cell before this one again.",
    id="same_answers.hardware",
)
claim(
    far[-1] < 0.5 and turned[-1] <= 5,
    f"OpenVINO's own backend differs by up to {far[-1]:.0e}: {turned[-1]} verdicts changed.",
    "Run the cell before this one again.",
    id="same_answers.openvino",
)

# %% [markdown]
# Sums in another order are rounded differently. OpenVINO's own backend computes in bf16 where the processor can. In ONNX Runtime it is told to compute in fp32.
#
# <details><summary>Under the hood: other hardware</summary>
#
# On x86 processors without VNNI (instructions for int8), sums of int8 products may [saturate](https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html). fp32 on GPUs may be TF32 (11 bits): on an H100, ONNX Runtime's logits were 1e-4 of the largest off.
#
# </details>
#
# ## A second network
#
# It looks for eights in a camera's raw counts: black is 1,000, white 1,040, with noise.

# %%
setup.camera(models)  # trained when it is first needed: up to 3 minutes
predict(
    "same_answers.camera",
    "9,000 pictures, converted to fp16 in the same way. How many verdicts change?",
    {
        "none, as before": "In the photos, values lie between -1 and 1. Here a weight of 0.0056 is "
        "multiplied by 1,040, and so is its rounding.",
        "some": None,
        "nearly all: fp16 overflows": "Counts are around 1,000, and fp16 reaches to 65,504.",
    },
)

# %% tags=["triton"]
raw_file = models / "eights_fp32/1/model.onnx"
small = float16.convert_float_to_float16(onnx.load(raw_file), keep_io_types=True)
onnx.save(small, models / "eights_fp16/1/model.onnx")
smaller = float16.convert_float_to_float16(onnx.load(raw_file))  # its input is fp16, too
onnx.save(smaller, models / "eights_counts/1/model.onnx")
counts, eights = np.load(models / "counts.npy"), {}
for name in ("eights_fp32", "eights_fp16", "eights_counts"):
    client.load_model(name)
    kind = np.float16 if name == "eights_counts" else np.float32
    eights[name] = scores(name, counts.astype(kind))
first = onnx.numpy_helper.to_array(onnx.load(raw_file).graph.initializer[0])
print(f"weights of {abs(first).mean():.4f}; in fp16, 1040's neighbour is 1040", end=" ")
print(f"+ {np.spacing(np.float16(1040))}")

# %%
setup.plot_camera(eights)  # right: the counts are rounded to fp16, too

# %%
changed_eights = int(sum((eights["eights_fp32"] > 0) != (eights["eights_fp16"] > 0)))
few = "none, as before" if changed_eights == 0 else "some"
compare(
    "same_answers.camera",
    "nearly all: fp16 overflows" if changed_eights > 4500 else few,
    premise=Premise(len(eights) == 3, "not all were asked"),
)
claim(
    changed_eights > 0,
    f"fp16 changed {changed_eights} of 9,000 verdicts of the camera's network.",
    "Run the cells of this section again.",
    id="same_answers.camera",
)

# %% [markdown]
# Nine weights of 0.0056 times counts of 1,040 sum to about 52, where fp16 has steps of 0.03. A large bias takes most of that away; the rounding stays. Assignment 4 takes this network to a decision.
#
# ## Your turn
#
# Convert `eights_fp32` anew, so that nearly all weights are fp16 and the verdicts stay: read `models / "eights_fp32/1/model.onnx"`, save `eights_fp16`'s, and load it.

# %%
task("same_answers.camera", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# This program compares two served models on your own inputs:

# %%
show("at_work/same_verdicts.py")

# %% tags=["triton"]
# %run at_work/same_verdicts.py focus_fp32 focus_static {models}/pictures.npy

# %% [markdown]
# ## What to remember
#
# - Every conversion changes numbers; so does another processor. Compare the verdicts on your own data.
# - A verdict changes where the score is nearer to the threshold than the difference. Another threshold undoes a shift of all scores, not a new order.
# - Small types need numbers near 1 in size. Leave layers on raw data in fp32.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Two formats differ from PyTorch by up to 0.01 and 0.3. Can the second be the better choice?</summary>
#
# Yes, if your inputs have scores far from the threshold: then neither changes a verdict, and the second may be smaller or faster.
#
# </details>
#
# <details><summary>Several pictures have a score of exactly 0 in the static int8 file (counted above). Why?</summary>
#
# Its logits are quantized, too: they have at most 256 values, so differences between them fall on few values, and 0 is one of them.
#
# </details>
#
# <details><summary>A static int8 file was calibrated on pictures taken by day. What do you do before it judges pictures taken by night?</summary>
#
# Count its verdicts on such pictures that differ from the fp32 file's. Its scales fit the activations of the calibration: larger ones are cut off, and small ones share few of the 256 values. If too many differ, calibrate with pictures of the night, too.
#
# </details>
#
# Next: [images](../14__images/14__images.ipynb).
