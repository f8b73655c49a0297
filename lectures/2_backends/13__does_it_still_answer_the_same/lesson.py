# ---
# title: Does it still answer the same?
# minutes: 19
# ---

# %% [markdown]
# # Does it still answer the same?
#
# **Question.** A network was converted to another format, or to smaller numbers. Its outputs differ a little. Do the verdicts?
#
# Our network says whether a piece of a photo is sharp. Its *score* is the logit of "sharp" less that of "blurred". Above the threshold 0, the verdict is "sharp".

# %%
from pathlib import Path

import numpy as np
import onnx
import torch

import setup
from workbook.lessons import claim, folder, formats, laboratory, mistakes, show, write
from workbook.lessons.shared import quiet

models = folder("same_answers")  # an empty folder: files of an earlier run are deleted
net = formats.network()  # the first notebook that needs it trains it: 1 to 6 minutes
pictures = formats.pictures()
quiet.hide_warnings()
setup.types(0.1, 1040.3, 70000.0)

# %% [markdown]
# fp16 has 11 bits for the digits of a number, and ends at 65,504. bf16 has 8 bits, and reaches as far as fp32, which has 24. int8 has 256 values: a *scale* says which numbers they stand for.
#
# ## fp16
#
# First a config for all files, and the network as ONNX in fp32:

# %%
config = Path("models/focus_fp32/config.pbtxt")
show(config)
for name in ("fp32", "fp16", "bf16_onnx", "dynamic", "static"):
    (models / f"focus_{name}/1").mkdir(parents=True, exist_ok=True)
    write(models / f"focus_{name}/config.pbtxt", config.read_text())

# %%
raw_file = models / "focus_fp32/1/model.onnx"  # the export takes up to 20 seconds
program = torch.onnx.export(
    net,
    (torch.zeros(2, 3, 64, 64),),
    input_names=["image"],
    output_names=["logits"],
    dynamic_shapes=({0: torch.export.Dim("batch")},),
    verbose=False,
)
program.save(raw_file, external_data=False)

# %%
from onnxconverter_common import float16

raw = onnx.load(raw_file)
del raw.graph.value_info[:]  # shapes of the export, which the tools below would trust
onnx.save(raw, raw_file)
half = float16.convert_float_to_float16(raw, keep_io_types=True)
onnx.save(half, models / "focus_fp16/1/model.onnx")
lab = laboratory(models, only=["focus_fp32", "focus_fp16"])

# %% [markdown]
# > **Erratum.** [The acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) call `convert_float_to_float16(model)` without more. Then inputs and outputs become fp16 as well, and the config of the fp32 model does not fit any more. Two ways out: `keep_io_types=True`, or `TYPE_FP16` in the config.


# %%
def all_in_fp16(home):
    fresh = onnx.load(raw_file)
    onnx.save(float16.convert_float_to_float16(fresh), home / "1/model.onnx")


refused = mistakes.provoke(lab, "focus_fp32", {"converted without keep_io_types": all_in_fp16})
claim(
    "converted without keep_io_types" in refused.refused,
    "The server compares the types of config and file, and refuses the model.",
    "Run this cell again.",
    id="same_answers.io_types",
)
refused

# %% [markdown]
# ## bf16
#
# ONNX has bfloat16. Does ONNX Runtime's CPU provider compute with it?

# %%
onnx.save(setup.onnx_in_bf16(raw), models / "focus_bf16_onnx/1/model.onnx")
message = mistakes.refusal(lab, "focus_bf16_onnx")
print(message)
claim(
    "Could not find an implementation" in message,
    "ONNX Runtime's CPU provider has no convolution in bf16.",
    "Look at the message above: a newer ONNX Runtime may have it.",
    id="same_answers.bf16",
)

# %% [markdown]
# PyTorch has one: in bf16 the network is served as TorchScript, converted at both ends, since numpy has no bf16.
#
# ## int8
#
# *Dynamic* quantization stores weights in int8 (unsigned here, for the sake of convolutions: ONNX Runtime's issue 15888), and measures each activation's range when it runs. *Static* quantization measures them beforehand, on examples: *calibration*. Here these are 256 training pictures.

# %%
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from workbook import zoo
from workbook.lessons import Premise, compare, predict, task

run_bf16 = setup.save_bf16(models, net)
dynamic_file = models / "focus_dynamic/1/model.onnx"
quantize_dynamic(raw_file, dynamic_file, weight_type=QuantType.QUInt8)


# %%
class Examples(CalibrationDataReader):
    def __init__(self, files):
        self.batches = iter(np.split(zoo.data.pixels(files), len(files) // 32))

    def get_next(self):
        batch = next(self.batches, None)
        return None if batch is None else {"image": batch}


examples = Examples(zoo.data.focus_files("train")[0][:256])
quantize_static(raw_file, models / "focus_static/1/model.onnx", examples)
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

# %%
files = {
    "ONNX fp16": "focus_fp16",
    "ONNX int8 dynamic": "focus_dynamic",
    "ONNX int8 static": "focus_static",
}
inside = {model: formats.in_process(models / model / "1/model.onnx") for model in files.values()}
for name, model in files.items():  # the measurements take about a minute
    formats.add(lab, model, name, inside[model])
formats.add(lab, "focus_bf16", "TorchScript bf16", run_bf16)
print(setup.missing(), formats.explained(), sep="\n")
formats.table()

# %% [markdown]
# The table has what was measured on this machine so far; `repeated` says whether two measurements agreed. For a missing format, run the notebook that is named above.
#
# ## Which verdicts change?
#
# Each point is a picture. Left to right: its score in PyTorch. Up and down: by how much the converted network differs. Beyond the dashed line the verdict changes.

# %%
served = {"ONNX fp16": "focus_fp16", "bf16": "focus_bf16"}
served |= {"int8, dynamic": "focus_dynamic", "int8, static": "focus_static"}
for model in served.values():
    lab.load(model)
found = {name: formats.served_logits(lab, model) for name, model in served.items()}
setup.plot_differences(found)

# %%
near = setup.near(found)
changes, apart = near["changed"], near["largest difference of a score"]
most = changes.idxmax().removeprefix("ONNX ")
clear = Premise(changes.nlargest(2).diff().iloc[-1] < 0, "two formats changed equally many")
compare("same_answers.verdicts", most, premise=clear)
claim(
    (near["their scores, at most"] <= apart).all(),
    f"Where verdicts changed, scores are within {near['their scores, at most'].max():.2f} of 0.",
    "Run the cell before this one again.",
    id="same_answers.near",
)
near.round(3)

# %% [markdown]
# So two things decide: how large the differences are, and how many of *your* inputs have a score that near to the threshold. Count both on your own data.
#
# ## Another threshold
#
# The figure below shows how many verdicts differ at each threshold; a mark is at a format's best one.

# %%
predict(
    "same_answers.threshold",
    "The static int8 file gets a threshold of its own. How many of its changed verdicts can that "
    "restore?",
    {
        "all": "That would need the same order of the pictures by their scores. Rounding moves "
        "each score by another amount, and some change places.",
        "some": None,
        "none": "The card below says by how much this file's scores are off on average. A threshold "
        "that is moved by about as much undoes the average.",
    },
)

# %%
static = found["int8, static"]
threshold, left = setup.best_threshold(static)
at_zero = formats.changed(static)
off = (formats.score(static) - formats.score(formats.reference())).mean()
restored = "all" if left == 0 else "some" if left < at_zero else "none"
compare("same_answers.threshold", restored, premise=Premise(at_zero > 0, "no verdict had changed"))
claim(
    left <= at_zero,
    f"With the threshold 0, {at_zero} verdicts differ; with {threshold:.2f}, {left} do. "
    f"On average the scores are off by {off:.2f}; {(formats.score(static) == 0).sum()} are 0.",
    "Run the cells of this experiment again.",
    id="same_answers.threshold",
)
setup.plot_thresholds(found)

# %% [markdown]
# The threshold was chosen and judged on the same pictures, which flatters it. Where the curve is flat, others would give another. Choose it on other data.
#
# ## The same file
#
# Nothing is converted now: one fp32 file. Only how it is computed differs: without and with graph optimisation, one picture at a time or all at once. PyTorch stands beside.

# %%
plain, optimised = formats.in_process(raw_file, 0), formats.in_process(raw_file, 99)
ways = {"PyTorch": formats.reference(), "no optimisation": plain(pictures)}
ways |= {"optimised": optimised(pictures)}
ways["one by one"] = np.concatenate([optimised(one[None]) for one in pictures])
last = ways["optimised"]
for name, logits in ways.items():
    print(f"{name}: {(logits != last).mean():.0%} of the logits are other numbers than optimised")
most_apart = max(np.abs(logits - last).max() for logits in ways.values())
claim(
    0 < most_apart < 1e-3 and not any(formats.changed(logits) for logits in ways.values()),
    f"One file, other numbers: they differ by up to {most_apart:.0e}. No verdict changed.",
    "Run this cell again.",
    id="same_answers.hardware",
)

# %% [markdown]
# Sums in another order are rounded differently. On x86 processors without VNNI (instructions for int8), sums of int8 products may [saturate](https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html). fp32 on GPUs may be TF32 (11 bits): on an H100, ONNX Runtime's logits were 1e-4 of the largest off.
#
# ## A second network
#
# It looks for eights in a camera's raw counts: black is 1,000, white 1,040, with noise.

# %%
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

# %%
camera = setup.camera(models)  # trained when it is first needed: up to 3 minutes
small = float16.convert_float_to_float16(camera, keep_io_types=True)
onnx.save(small, models / "eights_fp16/1/model.onnx")
smaller = float16.convert_float_to_float16(onnx.load(models / "eights_fp32/1/model.onnx"))
onnx.save(smaller, models / "eights_counts/1/model.onnx")
lab.load("eights_fp32"), lab.load("eights_fp16"), lab.load("eights_counts")
scores = {"fp32": setup.scores(lab, "eights_fp32"), "fp16": setup.scores(lab, "eights_fp16")}
scores["fp16, also the input"] = setup.scores(lab, "eights_counts", np.float16)
setup.plot_camera(scores)

# %%
other = int(((scores["fp32"] > 0) != (scores["fp16"] > 0)).sum())
options = {False: "some", True: "none, as before"}
seen = "nearly all: fp16 overflows" if other > setup.DIGITS / 2 else options[other == 0]
compare("same_answers.camera", seen, premise=Premise(len(scores) == 3, "not all were asked"))
claim(
    other > 0,
    f"fp16 changed {other} of {setup.DIGITS:,} verdicts of the camera's network.",
    "Run the cell before this one again.",
    id="same_answers.camera",
)
first = onnx.numpy_helper.to_array(
    onnx.load(models / "eights_fp32/1/model.onnx").graph.initializer[0]
)
print(
    f"a count's neighbour in fp16: +{np.spacing(np.float16(1040))}; weights about {abs(first).mean():.4f}"
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
