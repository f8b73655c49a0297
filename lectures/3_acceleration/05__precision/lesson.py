# ---
# title: Precision
# minutes: 26
# ---

# %% [markdown]
# # Precision
#
# **Question.** Fewer bits for each number: less memory, and perhaps less time. When is a lower precision faster, and how many answers change?
#
# Our network says whether a picture is sharp or blurred: its *verdict*. How fp16, bf16 and int8 round is in [lecture 2](../../2_backends/13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb). Here we look for speed, and want to change as few verdicts as possible.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("precision")
place(models, "../04__compile/models/compiled", "models/brain", "models/hurried")
setup.prepare(models)  # network.onnx; 200 pictures to test, 200 others to calibrate
lab = laboratory(models, only=["compiled", "brain"])  # a Triton server of this notebook's own

# %% [markdown]
# ## fp16
#
# `compiled` is the deployment of [notebook 04](../04__compile/04__compile.ipynb): ONNX Runtime, fp32. `brain` is the same network in OpenVINO, which computes in bf16 if the processor can. [The acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) convert the network to fp16, with 16 bits for each number:

# %% tags=["triton"]
import onnx
from onnxconverter_common import float16

model = onnx.load(models / "network.onnx")
half = float16.convert_float_to_float16(model, keep_io_types=True)  # inputs, outputs: fp32
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
# ## int8
#
# int8 has 256 values. *Quantization* gives each tensor a *scale*, and rounds each number to an integer times this scale. (An offset, the *zero point*, may be added.) Layers then multiply integers. The scale follows from the range of the numbers: in a wide range the steps are large. Numbers outside of the range are cut off.

# %% [markdown]
# The weights are known. The numbers *between* layers depend on the picture. *Dynamic* quantization measures their ranges at each request. *Static* quantization has measured them before, on typical pictures: the *calibration*. For it, ONNX Runtime asks an object of ours for one batch after the other, until `None` comes:

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
# Four files in int8: `dynamic`, and three static ones. `all` has every layer in int8; in `not_last` the last layer stays in fp32, in `not_ends` the first one, too:

# %% tags=["triton"]
source = models / "network.onnx"
nodes = [node.name for node in onnx.load(source).graph.node]
first, last = nodes[0], nodes[-1]  # the first convolution, and the linear layer at the end
quantization.quantize_dynamic(source, models / "dynamic.onnx")
keep = {"all": [], "not_last": [last], "not_ends": [first, last]}  # these stay in fp32
for name, layers in keep.items():  # per_channel: each channel of a weight has its own scale
    quantization.quantize_static(
        source, models / f"{name}.onnx", Calibration(), per_channel=True, nodes_to_exclude=layers
    )
for name in ("network", "dynamic", *keep):
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

# %% [markdown]
# Each model is measured in three rounds. `-p 300 -r 5 -s 1000` makes a round short: at most five windows of 0.3 s, and any spread between them is accepted. perf_analyzer warns of such short windows. That does no harm here: the table below shows how well the rounds agree.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for model in half dynamic all not_last not_ends; do  # each in a copy of compiled
#   cp -rT compiled $model
#   cp $model.onnx $model/1/model.onnx
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done
# # The config of brain leaves the number of pictures open, so perf_analyzer needs a shape.
# for turn in 1 2 3; do
#   for model in compiled half brain dynamic all not_last not_ends; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC --concurrency-range 1 --input-data zero \
#       $([ $model = brain ] && echo --shape image:1,3,64,64) \
#       -p 300 -s 1000 -r 5 -f $model.$turn.csv > /dev/null
#   done
# done

# %% [markdown]
# The *score* is the logit of "sharp" less that of "blurred": above 0, the verdict is sharp. For each model, the table has the compute time (`Server Compute Infer`), the least of three rounds; the *spread*, the middle round divided by the least; the *largest drift*, the most that a score differs from that of `compiled`; and how many verdicts changed.

# %% tags=["triton"]
import os

import pandas as pd
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
pictures = np.load(models / "pictures.npy")


def scores(model):
    """The difference of the two logits, for 200 pictures; above 0 is sharp."""
    found = []
    for picture in pictures:
        image = grpc.InferInput("image", [1, 3, 64, 64], "FP32")
        image.set_data_from_numpy(picture[None])
        found.append(client.infer(model, [image]).as_numpy("logits")[0])
    blurred, sharp = np.transpose(found)
    return sharp - blurred


# %% tags=["triton"]
names = ["compiled", "half", "brain", "dynamic", "all", "not_last", "not_ends"]
exact, rows = scores("compiled"), {}
for name in names:
    times = [pd.read_csv(models / f"{name}.{n}.csv")["Server Compute Infer"][0] for n in (1, 2, 3)]
    served = scores(name)
    moved = abs(served - exact).max(), ((served > 0) != (exact > 0)).sum()
    rows[name] = [min(times) / 1000, sorted(times)[1] / min(times), *moved]
columns = ["compute ms", "spread", "largest drift", "verdicts changed"]
table = pd.DataFrame(rows, columns).T
table.round(3)

# %%
ms, changed = table["compute ms"], table["verdicts changed"]
halved = "about half as long" if ms["half"] < 0.67 * ms["compiled"] else "about as long, or longer"
compare("precision.half", halved, premise=setup.repeated(table, "compiled", "half"))
slow = ms["dynamic"] > 1.1 * ms["compiled"], ms["all"] > 1.1 * ms["compiled"]
options = {(1, 0): "the dynamic one", (0, 1): "the static one", (1, 1): "both", (0, 0): "neither"}
compare(
    "precision.dynamic",
    options[slow[0] * 1, slow[1] * 1],
    premise=setup.repeated(table, "dynamic", "all", factor=3),
)
claim(
    ms["dynamic"] > 2 * ms["all"],
    f"Dynamic int8 takes {ms['dynamic'] / ms['compiled']:.1f} times as long as fp32, static int8 "
    f"{ms['all'] / ms['compiled']:.2f} times.",
    "Run the cell with perf_analyzer again.",
    premise=setup.repeated(table, "dynamic", "all", factor=3),
    id="precision.dynamic",
)
claim(
    changed["not_last"] < changed["all"] and changed["not_last"] <= 2,
    f"All layers in int8: {changed['all']:.0f} of 200 verdicts changed. With the last layer in fp32: "
    f"{changed['not_last']:.0f}, and with the first one, too: {changed['not_ends']:.0f}.",
    "Run the cells from the calibration on again.",
    id="precision.last",
)

# %% [markdown]
# Why is `half` as fast as it is? Does the processor lack instructions for fp16, or does the program not use them? The first cell lists the processor's instructions for few bits. In the second, ONNX Runtime writes down the network that it has made of the file, and we look at the types of the weights:

# %% tags=["triton"]
# !grep -owE "(avx512|amx)_(fp16|bf16|int8|vnni)|avx_vnni|fphp|bf16|i8mm" /proc/cpuinfo | sort -u

# %% tags=["triton"]
import onnxruntime

settings = onnxruntime.SessionOptions()
settings.log_severity_level = 3
settings.optimized_model_filepath = str(models / "half_as_run.onnx")
onnxruntime.InferenceSession(models / "half.onnx", settings, providers=["CPUExecutionProvider"])
weights = onnx.load(settings.optimized_model_filepath).graph.initializer
kinds = {onnx.TensorProto.DataType.Name(weight.data_type) for weight in weights}
print(*(kind for kind in kinds if "FLOAT" in kind))

# %% [markdown]
# - `FLOAT` is fp32. If nothing else is printed, the weights of `half` were converted back, and only their rounding stays. Then an instruction for fp16 cannot help, even if the processor has one.
# - bf16 has 8 bits for the digits, fp16 has 11. So if `brain` took bf16, its drift is far above that of `half`.

# %% [markdown]
# The time of `brain` depends on its framework, too: [lecture 2](../../2_backends/06__openvino/06__openvino.ipynb) measures both apart.
#
# `dynamic`: for convolutions, as here, ONNX Runtime's [guide](https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html) recommends static int8, and dynamic int8 for transformers. Where the time goes, the table does not show. `enable_profiling` writes it down ([lecture 2](../../2_backends/05__onnxruntime/05__onnxruntime.ipynb)).

# %% [markdown]
# Why does the *last* layer matter? With it in fp32, scores still drift, but few verdicts change. How many different scores do the 200 pictures get?

# %% tags=["triton"]
for name in ("compiled", "all", "not_last"):
    values = scores(name)
    print(
        f"{name}: {len(set(values.round(4)))} different scores, {(values == 0).sum()} of 200 are 0"
    )

# %% [markdown]
# In int8 a logit has one of at most 256 values, so in `all` pictures share scores. A score near 0 may become 0, which counts as blurred, or change its sign. In fp32 this layer costs next to no time: compare `all` and `not_last`. The *first* one costs more: compare `not_last` and `not_ends`. So begin with the last one.

# %% [markdown]
# Does 0 of 200 mean none? If 1.5 % of all verdicts changed, 200 pictures would show none in 5 of 100 trials. So 0 and 2 hardly differ: count with more pictures.
#
# The slides say that fp16 is faster, but "not on all GPUs", and name no figure. Make this table on the hardware that will serve.

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
# ## Three mistakes
#
# A file and its config must agree on the types. In the first mistake the file has changed, in the others the config:

# %%
setup.mistakes(lab)

# %% [markdown]
# ## Your turn
#
# Somebody was in a hurry, and calibrated `hurried` with black pictures. Correct [its program](models/hurried/quantize.py), so that at most 2 of 200 verdicts differ from those in fp32. Save it, and run the cell: it copies the program into the repository, and runs it there.

# %%
show("models/hurried/quantize.py")
place(models, "models/hurried")
setup.quantize(models)
lab.load("hurried")
task("precision.calibrated", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# Another network has other sensitive layers. This program keeps each layer in fp32 once, and measures on typical inputs how far the outputs move on average:

# %%
show("at_work/to_int8.py")

# %% tags=["triton"]
# %run at_work/to_int8.py {models}/network.onnx {models}/training.npy {models}/best.onnx

# %% [markdown]
# Each line has one layer in fp32, and all others in int8. The program takes the layer with the least drift. That need not be the last one: the mean counts pictures far from 0, too, whose verdicts are safe. And in fp32 a layer may cost time, as the first one does in `not_ends`. Count verdicts, and measure times.

# %% [markdown]
# ## What to remember
#
# - Static int8: for convolutions and large layers. Calibrate with inputs like those of your users.
# - fp16 and bf16 need instructions of the hardware, and a program that uses them. Dynamic int8 is for transformers.
# - Count changed verdicts. If too many change, keep the last layer in fp32, then the first one, and measure the time again.

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
