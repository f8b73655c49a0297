# ---
# title: The OpenVINO backend
# minutes: 30
# ---

# %% [markdown]
# # The OpenVINO backend
#
# **Question.** The server has no GPU. OpenVINO is made for processors by Intel and runs on others, too. Does it answer faster than ONNX Runtime on the same cores, and what does it change?
#
# The [backend](https://github.com/triton-inference-server/openvino_backend#supported-devices) is for Intel's CPUs. [From 25.10 on](../14__images/14__images.ipynb#Your-release-has), `TARGET_DEVICE` also chooses Intel's GPU or NPU, in an image with their drivers.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = setup.models()  # a network, as ONNX and as SavedModel, too; up to a minute
lab = laboratory(models, only=[])  # a Triton server of this notebook's own

# %% [markdown]
# ## Three ways in
#
# OpenVINO converts PyTorch, TensorFlow, TensorFlow Lite, ONNX, PaddlePaddle and JAX, and reads its own format, IR. Here is a network that tells whether a piece of a photo is sharp: from PyTorch, as an ONNX file of it, and as TensorFlow's SavedModel with its weights. `-1` is the batch.

# %% tags=["triton"]
import numpy as np
import openvino as ov
import torch

net = torch.load(models / "network.pt", weights_only=False)  # our own file, so we trust it
pictures = np.load(models / "pictures.npy")  # float32 (200, 3, 64, 64)
example = torch.from_numpy(pictures[:2])
found = {
    "PyTorch": ov.convert_model(net, example_input=example, input=[-1, 3, 64, 64]),
    "ONNX": ov.convert_model(models / "from_onnx/1/model.onnx"),
    "TensorFlow": ov.convert_model(models / "focus_onnx/saved"),
}

# %% tags=["triton"]
core = ov.Core()
with torch.inference_mode():
    expected = net(torch.from_numpy(pictures)).numpy()


def compute(model, **options):
    """The logits of the 200 pictures, on the CPU, with one thread."""
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, **options})
    return np.asarray(compiled(pictures)[0], np.float32)


away = {}
for source, model in found.items():
    away[source] = np.abs(compute(model, INFERENCE_PRECISION_HINT="f32") - expected).max()
    print(source, model.inputs, model.outputs, f"differs by {away[source]:.0e}", sep="\n  ")

# %%
claim(
    max(away.values()) < 1e-3,
    f"In fp32 all three answer like PyTorch: logits differ by {max(away.values()):.0e} at most.",
    "Run the cells of this section again.",
    id="openvino.ways",
)

# %% [markdown]
# ## The file
#
# From PyTorch, tensors may come without names. A config needs some, so we give them. `ov.save_model` writes the graph as `model.xml`, and the weights as `model.bin`.

# %%
predict(
    "openvino.bin",
    "The weights have 4 bytes each. `ov.save_model(model, file)`: how large is model.bin?",
    {
        "4 bytes per weight": "That would be compress_to_fp16=False.",
        "2 bytes per weight": None,
        "less: it is compressed like a zip file": "Weights look like noise and hardly shrink. "
        "What is compressed is their number of bits.",
    },
)

# %% tags=["triton"]
converted = found["PyTorch"]
converted.inputs[0].get_tensor().set_names({"image"})
converted.outputs[0].get_tensor().set_names({"logits"})
ir = models / "focus_openvino/1/model.xml"
for file in ir.parent.glob("model.*"):
    file.unlink()  # a server may have mapped it into memory, so do not write into it
ov.save_model(converted, ir)
weights = sum(each.numel() for each in net.parameters())
size = ir.with_suffix(".bin").stat().st_size
from_file = compute(core.read_model(ir), INFERENCE_PRECISION_HINT="f32")
changed = (from_file.argmax(1) != expected.argmax(1)).sum()
print(f"{weights:,} weights in {size:,} bytes; {changed} of 200 verdicts changed")

# %%
per_weight = "2 bytes per weight" if size / weights < 3 else "4 bytes per weight"
compare("openvino.bin", per_weight, premise=Premise(weights > 100_000, "the network is too small"))
claim(
    size / weights < 2.2 and changed <= 2,
    f"{weights:,} weights, {size / weights:.1f} bytes each. Logits differ by "
    f"{abs(from_file - expected).max():.0e}, {changed} of 200 verdicts changed.",
    "Run the cell before this one again.",
    id="openvino.half",
)

# %% [markdown]
# The *file* has half-precision weights, unless `compress_to_fp16=False`. What it *computes* in is another choice:

# %% tags=["triton"]
by_default = core.compile_model(converted, "CPU")
chosen = by_default.get_property("INFERENCE_PRECISION_HINT").get_type_name()
table, off = {"default": compute(converted)}, {}
for kind in ("f32", chosen):
    table[kind] = compute(converted, INFERENCE_PRECISION_HINT=kind)
for kind, logits in table.items():
    off[kind] = np.abs(logits - expected).max()
    verdicts = (logits.argmax(1) != expected.argmax(1)).sum()
    print(f"{kind}: differs by {off[kind]:.0e}, {verdicts} verdicts changed")

# %%
claim(
    abs(table["default"] - table[chosen]).max() < 1e-3,
    f"By default, OpenVINO computes in {chosen} on this processor. The logits differ from "
    f"PyTorch's {off['default'] / off['f32']:,.0f} times as much as in f32.",
    "Run the cell above again.",
    id="openvino.precision",
)

# %% [markdown]
# A processor with bfloat16 instructions gets bf16 by default. Triton's backend can ask for bf16 ([`HINT_BF16`](https://github.com/triton-inference-server/openvino_backend#parameters)). It has no parameter for fp32.
#
# <details><summary>Under the hood: fp32, layer by layer</summary>
#
# Layers that model.xml marks as [`precise`](https://github.com/openvinotoolkit/openvino/blob/master/src/common/transformations/include/transformations/rt_info/disable_fp16_compression.hpp) stay in fp32: with all layers marked, the difference fell to about a fifth.
#
# </details>
#
# ## The platform
#
# OpenVINO has no platform in Triton, so the config names the backend:

# %%
show("models/focus_openvino/config.pbtxt")
place(models, "models/focus_openvino")  # copies its files into the server's repository

# %% tags=["triton"]
import os

import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def ask(model, rows):
    """The logits of the first pictures, or the server's message."""
    image = grpc.InferInput("image", [rows, 3, 64, 64], "FP32")
    image.set_data_from_numpy(pictures[:rows])
    try:
        return client.infer(model, [image]).as_numpy("logits")
    except InferenceServerException as error:
        return error.message()


client.load_model("focus_openvino")
print(ask("focus_openvino", 8)[:2])

# %% [markdown]
# [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) write a platform in place of the backend:

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/focus_openvino $TRITON_MODELS/printed
# cd $TRITON_MODELS/printed
# sed -i 's/^backend: "openvino"/platform: "openvino_ir"/' config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/printed/load

# %%
claim(
    lab.ready("focus_openvino") and not lab.ready("printed"),
    "The server has no platform openvino_ir; it has a backend openvino.",
    "Run the cells of this section again.",
    id="openvino.platform",
)

# %% [markdown]
# <details><summary>Errata: the backend slides</summary>
#
# `openvino_ir` is not a platform of Triton, so the server's log says "unexpected platform type". Write `backend: "openvino"`.
#
# </details>
#
# ## A lone picture
#
# The config above has padding (`ENABLE_BATCH_PADDING`): batches that are not full are filled up. The model `exact` has none. A third one, `any_batch`, has `max_batch_size: 0`, and the batch in dims.

# %%
show("models/any_batch/config.pbtxt")  # exact is like focus_openvino, with padding "NO"
place(models, "models/exact", "models/any_batch")
predict(
    "openvino.lone",
    "max_batch_size is 8, and padding is off. A client sends one picture. What does it get?",
    {
        "its answer": "ONNX Runtime answers it. Triton's OpenVINO backend compiles the model for exactly eight "
        "rows.",
        "its answer, when seven others have come": "The batcher waits only if it was told to. And "
        "then, too, the batch may stay too small.",
        "an error": None,
    },
)

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for model in exact any_batch; do
#   cp --remove-destination focus_openvino/1/model.* $model/1
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done

# %% tags=["triton"]
alone, whole = ask("exact", 1), ask("exact", 8)
print("exact, one picture:", alone)
print("exact, eight:", whole[:1], "…")
print("any_batch, three:", ask("any_batch", 3))

# %%
refused, answered = isinstance(alone, str), not isinstance(whole, str)
seen = "an error" if refused else "its answer"
compare("openvino.lone", seen, premise=Premise(answered, "eight pictures were refused, too"))
claim(
    refused and answered,
    "Without padding, one picture is refused, and eight are answered.",
    "Run the cell above again.",
    id="openvino.lone",
)

# %% [markdown]
# So one pads, or does without Triton's batches. What does each cost a client that sends one picture?

# %% tags=["triton"]
import timeit
from functools import partial

ways = [(model, rows) for model in ("focus_openvino", "any_batch") for rows in (1, 8)]
took = {way: [] for way in ways}
for _ in range(3):
    for way in ways:  # the fastest of 20 requests
        seconds = timeit.repeat(partial(ask, *way), number=1, repeat=20)
        took[way].append(1000 * min(seconds))
for (model, rows), turns in took.items():
    print(f"{model:14} {rows} per request: {min(turns):.1f} ms")

# %%
padding = min(took["focus_openvino", 1]) / min(took["focus_openvino", 8])
without = min(took["any_batch", 1]) / min(took["any_batch", 8])
claim(
    padding > 0.7 and without < 2 / 3,
    f"A lone picture takes {padding:.0%} of the time of eight with padding, "
    f"{without:.0%} with max_batch_size: 0.",
    "Close other programs, and run the cell above again.",
    premise=setup.clear_shares(took),
    id="openvino.padding",
)

# %% [markdown]
# With `max_batch_size: 0` Triton joins no requests. Padding pays where most batches are nearly full.

# %% [markdown]
# ## Settings
#
# *Streams* share the threads: each computes a request of its own, with one thread at least. So with one thread, there is one stream, whatever is set. The hint `LATENCY` asks for quick answers, `THROUGHPUT` for many side by side. perf_analyzer sends eight pictures per request, from a file, because its own random bits slow a processor down ([05](../05__onnxruntime/05__onnxruntime.ipynb#Settings)).

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# variant() {  # a model's name, and pairs of a parameter and its value
#   cp -rT --remove-destination focus_openvino $1
#   for pair in ${@:2}; do
#     echo "parameters { key: \"${pair%=*}\" value: { string_value: \"${pair#*=}\" } }"
#   done >> $1/config.pbtxt
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$1/load
# }
# variant thread_1
# variant latency PERFORMANCE_HINT=LATENCY
# variant throughput PERFORMANCE_HINT=THROUGHPUT
# variant streams_2 NUM_STREAMS=2
# variant threads_2 INFERENCE_NUM_THREADS=2
# variant both_2 INFERENCE_NUM_THREADS=2 NUM_STREAMS=2

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for turn in 1 2; do  # twice, because other programs may disturb one of them
#   for model in thread_1 latency throughput streams_2 threads_2 both_2; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC -b 8 --input-data eight.json \
#       -p 300 -s 200 -r 20 -f $model.$turn.csv > /dev/null
#   done
# done

# %%
print(*setup.chosen_settings(lab), sep="\n")  # from the server's log
setup.read_times(models, setup.SETTINGS, turns=2).round(2)  # a second thread needs a free core

# %% [markdown]
# Only `both_2` got the two streams that it asked for. Here they gain nothing: an instance computes one request at a time, so two streams want two instances.
#
# <details><summary>Under the hood: streams and instances</summary>
#
# In Triton's backend the instances of a model [share](https://github.com/triton-inference-server/openvino_backend/blob/main/src/openvino.cc) one compiled model; here each is a process.
#
# </details>
#
# ## The same cores
#
# OpenVINO reads ONNX files as well (`default_model_filename`). Three ways to serve one network, with one thread each; ONNX Runtime computes in fp32:

# %%
show("models/from_onnx/config.pbtxt", "models/focus_onnx/config.pbtxt")
place(models, "models/from_onnx", "models/focus_onnx")
predict(
    "openvino.faster",
    "Batches of eight, OpenVINO in its default precision: how many times as many pictures per "
    "second does it answer as ONNX Runtime in fp32?",
    unit="×",
)

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp --remove-destination from_onnx/1/model.onnx focus_onnx/1
# for model in from_onnx focus_onnx; do
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done
# for turn in 1 2 3; do  # three times, because two have to agree
#   for model in focus_openvino from_onnx focus_onnx; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC -b 8 --input-data eight.json \
#       -p 300 -s 200 -r 20 -f $model.$turn.csv > /dev/null
#   done
# done

# %%
served = setup.read_times(models, ["focus_openvino", "from_onnx", "focus_onnx"])
inside = setup.in_process(ir)  # without a server, where OpenVINO can compute in f32, too
setup.side_by_side(served, inside)

# %%
faster = served["ms"]["focus_onnx"] / served["ms"]["focus_openvino"]
compare("openvino.faster", faster, premise=setup.repeated(served))
gain = inside["ms"]["ONNX Runtime, f32"] / inside["ms"]
claim(
    chosen == "f32" or gain["OpenVINO, default"] > 1.2 * gain["OpenVINO, f32"],
    f"In-process, OpenVINO is {gain['OpenVINO, f32']:.1f} times as fast as ONNX Runtime in f32, and "
    f"{gain['OpenVINO, default']:.1f} times in {chosen}, its default here. Served, sending and copying "
    "are added to both.",
    "Close other programs, and run the two cells above again.",
    premise=setup.precision_differs(inside),
    id="openvino.fp32",
)

# %%
from workbook.lessons import formats

row = setup.measured(lab, ir)  # for the lecture's table; 10 seconds to a minute
claim(
    row.at_8 > row.at_1,
    f"With 8 under way: {row.at_8 / row.at_1:.1f} times as many as with 1. {row.served}",
    "Close other programs, and run this cell again.",
    premise=setup.loads_differ(row),
    id="openvino.served",
)
formats.table()  # its columns: notebook 02; fp16, int8 and bf16 come from 13

# %% [markdown]
# The table's model fills each batch up to eight, so a lone picture costs as much as eight. In bf16, some verdicts near the threshold may change. Whether that matters is the subject of [13](../13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb).
#
# ## Five mistakes

# %%
from workbook.lessons import mistakes

made = mistakes.provoke(lab, "focus_openvino", {
    "no weights": lambda home: (home / "1/model.bin").unlink(),
    "another name": mistakes.config('"logits"', '"scores"'),
    "other dims": mistakes.config("[ 3, 64, 64 ]", "[ 64, 64, 3 ]"),
    "a GPU": mistakes.config("KIND_CPU", "KIND_GPU"),
    "a word for a number": mistakes.config('string_value: "1"', 'string_value: "all"'),
})  # fmt: skip
claim(
    len(made.refused) == 5,
    "The server refuses all five.",
    "Read below what it loads.",
    id="openvino.mistakes",
)
made

# %% [markdown]
# With an NVIDIA GPU in the machine, OpenVINO still computes on the CPU.
#
# ## Your turn
#
# `lone` is asked for one picture at a time, rarely for eight, and pads each. Change its config (a new cell with `%%writefile {models}/lone/config.pbtxt`, then `client.load_model("lone")`), so that a lone picture takes less than two thirds of the time of eight.

# %%
setup.lone(models, "focus_openvino")  # keeps a folder that is there
lab.load("lone")
show(models / "lone/config.pbtxt")
task("openvino.lone", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# Before a model moves to OpenVINO: what changes in its answers, by the framework, by the precision, and served?

# %%
show("at_work/compare_openvino.py")

# %% tags=["triton"]
# %run at_work/compare_openvino.py {models}/from_onnx/1/model.onnx {models}/pictures.npy from_onnx

# %% [markdown]
# ## What to remember
#
# - `backend: "openvino"`, with `model.xml` and `model.bin`, or an ONNX file.
# - With a `max_batch_size`, each batch is as large as that: pad, or refuse, or set 0 and do without Triton's batcher.
# - Saved weights are fp16 by default, and computing may be in bf16: compare the verdicts. That and the processor decide whether it is faster than ONNX Runtime.

# %% [markdown]
# ## Check yourself
#
# <details><summary>The same config and files answer with other logits on another machine. Why may that be?</summary>
#
# Its processor has bfloat16 instructions, or lacks them. OpenVINO chooses the precision by the processor.
#
# </details>
#
# <details><summary>Requests come one by one, far apart. max_batch_size is 32, padding is on. What does each request pay?</summary>
#
# The time of 32 rows. Nobody fills the batch.
#
# </details>
#
# <details><summary>Somebody measured that OpenVINO is faster than ONNX Runtime. Which two things may differ besides the framework?</summary>
#
# The precision it computes in, and the weights of the file. Compare in fp32 before you decide.
#
# </details>
#
# Next: [TensorFlow](../07__tensorflow/07__tensorflow.ipynb).
