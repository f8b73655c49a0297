# ---
# title: Precision
# minutes: 27
# ---

# %% [markdown]
# # Precision
#
# **Question.** A number can be stored in fewer bits. It takes less memory then, and is less exact. When does a network with such numbers compute faster, and how many of its answers change?
#
# Our network says whether a picture is sharp or blurred: its *verdict*. It computes in fp32, with 32 bits for each number.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("precision")
place(models, "../04__compile/models/compiled", "models/hurried")
setup.prepare(models)  # network.onnx; 200 pictures to test, 200 others to calibrate
lab = laboratory(models, only=["compiled"])  # a Triton server of this notebook's own

# %% [markdown]
# ## fp16
#
# `compiled` is the deployment of [notebook 04](../04__compile/04__compile.ipynb): ONNX Runtime in fp32. [The acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) convert such a file to fp16, with 16 bits for each number. With `keep_io_types`, inputs and outputs stay in fp32, so the config and the clients still fit:

# %% tags=["triton"]
import onnx
from onnxconverter_common import float16

model = onnx.load(models / "network.onnx")
half = float16.convert_float_to_float16(model, keep_io_types=True)
onnx.save(half, models / "half.onnx")
for name in ("network", "half"):
    print(f"{name}.onnx: {(models / f'{name}.onnx').stat().st_size / 1e3:.0f} KB")

# %%
predict(
    "precision.half",
    "The file is half as large. How long does ONNX Runtime compute in fp16 on this CPU?",
    {
        "about half as long": "That needs a processor with instructions for fp16, and a framework whose "
        "programs use them. The cell below shows what ONNX Runtime did with the weights.",
        "about as long, or longer": None,
    },
)

# %% [markdown]
# We need this measurement again below, so it becomes a script: `bash measure.sh MODEL …`. It puts each file into a copy of the folder `compiled`, and loads it. Then it measures all models in three short rounds (`-p -s -r`), with a report for each, such as `half.1.csv`:

# %% language="bash" tags=["triton"]
# cat > $TRITON_MODELS/measure.sh <<'END'
# cd $TRITON_MODELS
# for model; do
#   [ $model = compiled ] && continue
#   cp -rT compiled $model
#   cp $model.onnx $model/1/model.onnx
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done
# for turn in 1 2 3; do
#   for model; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC --input-data zero \
#       -p 300 -s 1000 -r 5 -f $model.$turn.csv > /dev/null
#   done
# done
# END

# %% [markdown]
# From each report we take `Server Compute Infer`: the time in ONNX Runtime, without queue and network. The least of three rounds counts:

# %% tags=["triton"]
import pandas as pd


def compute_ms(*names):
    """The compute time of each model in three rounds, in ms."""
    rounds = {}
    for name in names:
        files = [models / f"{name}.{turn}.csv" for turn in (1, 2, 3)]
        rounds[name] = [pd.read_csv(file)["Server Compute Infer"][0] / 1000 for file in files]
    return pd.DataFrame(rounds, ["round 1", "round 2", "round 3"]).T


# !bash $TRITON_MODELS/measure.sh compiled half
sixteen = compute_ms("compiled", "half")
sixteen.round(3)

# %%
ms = sixteen.min(axis=1)
halved = "about half as long" if ms["half"] < 0.67 * ms["compiled"] else "about as long, or longer"
compare("precision.half", halved, premise=setup.repeated(sixteen, "compiled", "half"))

# %% [markdown]
# ### What was computed?
#
# ONNX Runtime changes a network when it loads the file. It can write down the result. We look at the types of its weights:

# %% tags=["triton"]
import onnxruntime

settings = onnxruntime.SessionOptions()
settings.log_severity_level = 3  # errors only
settings.optimized_model_filepath = str(models / "half_as_run.onnx")
onnxruntime.InferenceSession(models / "half.onnx", settings, providers=["CPUExecutionProvider"])
weights = onnx.load(settings.optimized_model_filepath).graph.initializer
kinds = {onnx.TensorProto.DataType.Name(weight.data_type) for weight in weights}
print(*(kind for kind in kinds if "FLOAT" in kind))

# %% [markdown]
# `FLOAT` is fp32. If nothing else is printed, the weights were converted back when the file was loaded, and the network computes in fp32. So a smaller file is not enough: the framework needs a program that computes with them, and the processor instructions for it. The slides say so, too: "not on all GPUs".
#
# <details><summary>Under the hood: bf16</summary>
#
# bf16: 8 bits for the exponent, as in fp32, and 7 after the point (fp16: 5 and 10). It overflows no earlier than fp32, and rounds eight times as coarsely as fp16. GPUs since Ampere compute in it. On a CPU, ONNX Runtime refuses a `MatMul` or an `Add` in bf16.
#
# </details>

# %% [markdown]
# ## int8
#
# int8 has 256 values. *Quantization* takes a range of numbers, and divides it into equal steps, one per value. In the range from -4 to 4, a step is 8 / 256 = 1 / 32. Each number is rounded to a step. A wide range has large steps. Numbers outside of the range are cut off.

# %% [markdown]
# The ranges of the weights are known. The numbers *between* the layers depend on the picture. *Dynamic* quantization measures their ranges at each request. *Static* quantization has measured them before, on typical pictures: the *calibration*. ONNX Runtime asks an object of ours for one batch of pictures after the other, until `None` comes:

# %% tags=["triton"]
import numpy as np
from onnxruntime import quantization

training = np.load(models / "training.npy")


class Calibration(quantization.CalibrationDataReader):
    """Hands out 200 pictures in batches; their ranges are measured."""

    def __init__(self):
        self.batches = iter(np.split(training, 25))

    def get_next(self):
        batch = next(self.batches, None)
        return None if batch is None else {"image": batch}


# %% [markdown]
# Now the two files: `dynamic`, and `all`, which is static, with all layers in int8. With `per_channel`, each channel of a weight has a range of its own. With `reduce_range`, a weight gets 7 bits: on a processor without VNNI (instructions for int8), two products are added in 16 bits, and with 8 bits their sum [may be too large](https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html):

# %% tags=["triton"]
source = models / "network.onnx"
quantization.quantize_dynamic(source, models / "dynamic.onnx")
static = {"per_channel": True, "reduce_range": True}
quantization.quantize_static(source, models / "all.onnx", Calibration(), **static)
for name in ("network", "dynamic", "all"):
    print(f"{name}.onnx: {(models / f'{name}.onnx').stat().st_size / 1e3:.0f} KB")

# %%
predict(
    "precision.dynamic",
    "Which is slower than fp32 here: dynamic int8, or static int8 with all layers?",
    {
        "the dynamic one": None,
        "the static one": "It multiplies integers, and measures no ranges at a request: the scales are in the file.",
        "both": "A register holds four times as many integers of 8 bits as numbers in fp32, and "
        "static int8 measures no ranges at a request.",
        "neither": "To measure ranges at each request, and to convert, takes time, too.",
    },
)

# %% tags=["triton"]
# !bash $TRITON_MODELS/measure.sh compiled dynamic all
eight = compute_ms("compiled", "dynamic", "all")
eight.round(3)

# %%
ms = eight.min(axis=1)
slow = ms["dynamic"] > 1.1 * ms["compiled"], ms["all"] > 1.1 * ms["compiled"]
options = {(1, 0): "the dynamic one", (0, 1): "the static one", (1, 1): "both", (0, 0): "neither"}
compare(
    "precision.dynamic",
    options[slow[0] * 1, slow[1] * 1],
    premise=setup.repeated(eight, "dynamic", "all", factor=3),
)
claim(
    ms["dynamic"] > 2 * ms["all"],
    f"Dynamic int8 takes {ms['dynamic'] / ms['compiled']:.1f} times as long as fp32, static int8 "
    f"{ms['all'] / ms['compiled']:.2f} times.",
    "Run the cell with perf_analyzer again.",
    premise=setup.repeated(eight, "dynamic", "all", factor=3),
    id="precision.dynamic",
)

# %% [markdown]
# This network has convolutions. For them, ONNX Runtime's [guide](https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html) recommends static quantization, and for transformers, the networks of language models, dynamic quantization. So measure both on your network.

# %% [markdown]
# ## Which verdicts change?
#
# The network's last layer gives two numbers per picture, the *logits*: one for blurred, one for sharp. Their difference is our *score*. Above 0, the verdict is sharp. We ask the served models for the scores of 200 pictures:

# %% tags=["triton"]
import os

import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
pictures = np.load(models / "pictures.npy")


def scores(model):
    found = []
    for picture in pictures:
        image = grpc.InferInput("image", [1, 3, 64, 64], "FP32")
        image.set_data_from_numpy(picture[None])
        found.append(client.infer(model, [image]).as_numpy("logits")[0])
    blurred, sharp = np.transpose(found)
    return sharp - blurred


# %% [markdown]
# How many verdicts differ from those in fp32? And how many *different* scores do the 200 pictures get?


# %% tags=["triton"]
def compared(*names):
    exact, rows = scores("compiled"), {}
    for name in names:
        found = scores(name)
        changed = ((found > 0) != (exact > 0)).sum()
        rows[name] = [changed, len(set(found.round(4))), (found == 0).sum()]
    return pd.DataFrame(rows, ["verdicts changed", "different scores", "scores of 0"]).T


compared("compiled", "half", "all")

# %% [markdown]
# In `all`, pictures share scores: its last layer is in int8, so a logit has one of at most 256 values. A score near 0 may become 0, which counts as blurred, or change its sign.
#
# So we keep the *last* layer in fp32, and only this one. How many verdicts change now, and what does it cost?

# %% tags=["triton"]
last = onnx.load(source).graph.node[-1].name  # the linear layer that makes the logits
quantization.quantize_static(
    source, models / "not_last.onnx", Calibration(), nodes_to_exclude=[last], **static
)
# !bash $TRITON_MODELS/measure.sh compiled all not_last
table = compared("compiled", "all", "not_last")
table["compute ms"] = compute_ms(*table.index).min(axis=1)
table.round(3)

# %%
changed = table["verdicts changed"]
claim(
    changed["not_last"] < changed["all"] and changed["not_last"] <= 2,
    f"All layers in int8: {changed['all']:.0f} of 200 verdicts changed. With the last layer in fp32: "
    f"{changed['not_last']:.0f}.",
    "Run the cells from the calibration on again.",
    id="precision.last",
)

# %% [markdown]
# Compare `compute ms`, too: this layer is small, so in fp32 it costs next to no time. In another network, another layer may matter more.
#
# 0 of 200 does not mean that no verdict ever changes. Before you deploy such a network, count with more pictures.

# %% [markdown]
# ## The step
#
# From `compiled` to `not_last`. The scoreboard measures pictures per second with eight clients at once. Sending, copying and waiting count there, too, so its gain is not the ratio of the compute times:

# %%
from workbook.lessons import scoreboard

step = scoreboard.add(lab, "precision", before="compiled", after="not_last", what="int8, last fp32")
scoreboard.draw()

# %%
claim(
    step.changed <= 2,
    f"The throughput is ×{step.gain:.2f}, and {step.changed} of 200 verdicts changed.",
    "Run the cell before this one again.",
    id="precision.step",
)

# %% [markdown]
# ## Your turn
#
# `hurried` is static int8, too, but many of its verdicts differ from those in fp32. Correct [its program](models/hurried/quantize.py), so that at most 2 of 200 differ. Save it, and run the cell: it copies the program into the repository, and runs it there.

# %%
show("models/hurried/quantize.py")
place(models, "models/hurried")
setup.quantize(models)
lab.load("hurried")
task("precision.calibrated", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# Which layer matters in your own network? This program keeps each layer in fp32 once, and all others in int8. It measures on typical inputs how far the outputs move on average:

# %%
show("at_work/to_int8.py")

# %% tags=["triton"]
# %run at_work/to_int8.py {models}/network.onnx {models}/training.npy {models}/best.onnx

# %% [markdown]
# The program takes the layer with the least movement. That need not be the last one: the mean counts pictures far from 0, too, whose verdicts are safe. So use its list to choose two or three candidates. Then count verdicts and measure times, as above.

# %% [markdown]
# ## What to remember
#
# - Fewer bits are faster only where the framework has a program for them, and the processor the instructions. Measure.
# - Static int8 needs a calibration with inputs like those of your users. Dynamic int8 measures ranges at each request, which takes time.
# - Count changed verdicts. If too many change, keep the last layer in fp32, and count again.

# %% [markdown]
# ## Check yourself
#
# <details><summary>An fp16 file is half as large, and as slow as before on your CPU. What has it gained?</summary>
#
# A smaller file to store and copy. When it is loaded, the weights become fp32 again, as printed above.
#
# </details>
#
# <details><summary>After a new camera, the int8 model errs more than the fp32 one. Both have the same weights. Why?</summary>
#
# Its calibration has measured the ranges of the old camera's pictures. Numbers outside of these ranges are cut off, as after black pictures. Calibrate again.
#
# </details>
#
# <details><summary>In int8, two of 200 verdicts changed. Are there two more wrong answers now?</summary>
#
# Perhaps not: fp32 may have been wrong there, and int8 right. Where a score is near 0, both are unsure. Compare with true labels if you have them.
#
# </details>
