# ---
# title: The OpenVINO backend
# minutes: 30
# ---

# %% [markdown]
# # The OpenVINO backend
#
# **Question.** The server has no GPU. Does OpenVINO answer faster than ONNX Runtime on the same cores, and does it give the same answers?
#
# OpenVINO is Intel's framework for computing networks on its processors; it runs on others, too. [Triton's backend](https://github.com/triton-inference-server/openvino_backend#supported-devices) uses CPUs. ([From 25.10 on](../14__images/14__images.ipynb#Your-release-has), `TARGET_DEVICE` chooses Intel's GPU or NPU.)

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = setup.models()  # a network, as ONNX and as SavedModel, too; up to a minute
lab = laboratory(models, only=[])  # a Triton server of this notebook's own
setup.set_log(lab)  # TRITON_LOG: its log

# %% [markdown]
# ## Three ways in
#
# First without Triton: how does a model get into OpenVINO? It converts PyTorch, TensorFlow, TensorFlow Lite, ONNX, PaddlePaddle and JAX. Here is the lecture's network, which tells whether a piece of a photo is sharp, from three of them. `-1` is the batch: any number of pictures.

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

# %% [markdown]
# Do all three give PyTorch's logits? OpenVINO *compiles* a model for a device before it computes; here for the CPU, with one thread, and in fp32 (`f32`):

# %% tags=["triton"]
core = ov.Core()
with torch.inference_mode():
    expected = net(torch.from_numpy(pictures)).numpy()


def compute(model, **options):
    """The logits of the 200 pictures."""
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, **options})
    return np.asarray(compiled(pictures)[0], np.float32)


away = {}
for source, model in found.items():
    away[source] = np.abs(compute(model, INFERENCE_PRECISION_HINT="f32") - expected).max()
    print(f"from {source:10}: logits differ from PyTorch's by {away[source]:.0e} at most")

# %%
claim(
    max(away.values()) < 1e-3,
    "In fp32, all three answer like PyTorch: only rounding differs.",
    "Run the cells of this section again.",
    id="openvino.ways",
)

# %% [markdown]
# ## The file
#
# OpenVINO's own format, *IR*, has two files: `ov.save_model` writes the graph as `model.xml`, and the weights as `model.bin`. Triton's config needs names of the tensors, and from PyTorch they may come without, so the cell names them.

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
# Half-precision weights are the default; `compress_to_fp16=False` keeps all bits.
#
# ## What it computes in
#
# In which precision OpenVINO *computes* is another choice: `INFERENCE_PRECISION_HINT`. Without it, the processor decides. We ask what was chosen here, and compare the logits:

# %% tags=["triton"]
by_default = core.compile_model(converted, "CPU")
chosen = by_default.get_property("INFERENCE_PRECISION_HINT").get_type_name()
table = {"default": compute(converted)}
for kind in ("f32", chosen):
    table[kind] = compute(converted, INFERENCE_PRECISION_HINT=kind)
for kind, logits in table.items():
    apart = np.abs(logits - expected).max()
    verdicts = (logits.argmax(1) != expected.argmax(1)).sum()
    print(f"{kind}: differs by {apart:.0e}, {verdicts} verdicts changed")

# %%
claim(
    abs(table["default"] - table[chosen]).max() < 1e-3,
    f"By default, OpenVINO computes in {chosen} on this processor: that gave the default's logits.",
    "Run the cell above again.",
    id="openvino.precision",
)

# %% [markdown]
# A processor with instructions for bfloat16, numbers of 16 bits, gets bf16 by default. Further from PyTorch; is it faster? See below. Triton's backend can ask for bf16 ([`HINT_BF16`](https://github.com/triton-inference-server/openvino_backend#parameters)), but not for fp32.
#
# <details><summary>Under the hood: fp32, layer by layer</summary>
#
# Layers that model.xml marks as [`precise`](https://github.com/openvinotoolkit/openvino/blob/master/src/common/transformations/include/transformations/rt_info/disable_fp16_compression.hpp) stay in fp32: with all layers marked, the difference fell to about a fifth.
#
# </details>
#
# ## Into Triton
#
# Now Triton serves the two files. The config names the backend, and the tensors as named above:

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

# %%
claim(
    lab.ready("focus_openvino") and setup.refuses_platform(lab),
    "The server has a backend openvino. With the platform openvino_ir, it refuses the same model.",
    "Run the cells of this section again.",
    id="openvino.platform",
)

# %% [markdown]
# <details><summary>Errata: the backend slides</summary>
#
# [They](../../00__start/00__start.ipynb#The-documents-behind-the-course) write `platform: "openvino_ir"`, which is not a platform of Triton: the server's log says "unexpected platform type". Write `backend: "openvino"`.
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
#   cp --remove-destination focus_openvino/1/model.* $model/1  # never into a file in use
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
# The backend compiles the model for exactly `max_batch_size` rows. So one pads, or does without Triton's batches (`max_batch_size: 0`). What does each cost a client that sends one picture?

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
# So pad where most batches are nearly full. With `max_batch_size: 0` a lone picture is cheap, but Triton joins no requests.
#
# ## Settings
#
# *Streams* share the threads: each computes a request of its own. A hint lets OpenVINO choose: `LATENCY` for a quick answer, `THROUGHPUT` for many side by side. What does it make of four settings, by this server's log?

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# variant() {  # a model's name, and pairs of a parameter and its value
#   cp -rT --remove-destination focus_openvino $1
#   for pair in ${@:2}; do  # of two entries with one key, the last counts
#     echo "parameters { key: \"${pair%=*}\" value: { string_value: \"${pair#*=}\" } }"
#   done >> $1/config.pbtxt
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$1/load
# }
# variant throughput PERFORMANCE_HINT=THROUGHPUT
# variant streams_2 NUM_STREAMS=2
# variant threads_2 INFERENCE_NUM_THREADS=2
# variant both_2 INFERENCE_NUM_THREADS=2 NUM_STREAMS=2
# grep -oE "(throughput|streams_2|threads_2|both_2).*target .*" $TRITON_LOG | tail -4

# %% [markdown]
# Each stream needs a thread: only `both_2` got two. So first give the model as many threads as cores are free.
#
# <details><summary>Under the hood: streams and instances</summary>
#
# In Triton's backend the instances of a model [share](https://github.com/triton-inference-server/openvino_backend/blob/main/src/openvino.cc) one compiled model; here each is a process.
#
# </details>
#
# ## The same cores
#
# Now the question. In `from_onnx`, OpenVINO reads an ONNX file. In `focus_onnx`, ONNX Runtime computes the same file, in fp32. Each has one thread.

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
# # eight pictures per request, from a file: perf_analyzer's own random bits slow a processor down
# for turn in 1 2 3; do  # three times, because two have to agree
#   for model in focus_openvino from_onnx focus_onnx; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC -b 8 --input-data eight.json \
#       -p 300 -s 200 -r 20 -f $model.$turn.csv > /dev/null
#   done
# done

# %%
served = setup.read_times(models, ["focus_openvino", "from_onnx", "focus_onnx"])
served[["ms"]].round(2)  # milliseconds for a request of eight pictures

# %%
faster = served["ms"]["focus_onnx"] / served["ms"]["focus_openvino"]
compare("openvino.faster", faster, premise=setup.repeated(served))

# %% [markdown]
# Is it the framework, or the precision? Triton's backend cannot ask for fp32, so we measure that without a server, where sending and copying do not count either:

# %%
from pathlib import Path

amx = "amx_bf16" in Path("/proc/cpuinfo").read_text("utf-8")  # AMX multiplies tiles of bf16 numbers
inside = setup.in_process(ir)
inside[["ms"]].round(2)

# %%
gain = inside["ms"]["ONNX Runtime, f32"] / inside["ms"]
claim(
    not amx or chosen == "f32" or gain["OpenVINO, default"] > 1.2 * gain["OpenVINO, f32"],
    f"Without a server, OpenVINO is {gain['OpenVINO, f32']:.1f} times as fast as ONNX Runtime in "
    f"f32, and {gain['OpenVINO, default']:.1f} times in {chosen}, its default here"
    f"{' (with AMX)' if amx else ' (without AMX)'}.",
    "Close other programs, and run the two cells above again.",
    premise=setup.precision_differs(inside),
    id="openvino.fp32",
)

# %% [markdown]
# A processor with bf16 but without AMX took twice as long in bf16 as in f32, and bf16 was its default. So compare in fp32, and compare verdicts before you change the precision. Clients that send one picture each fill the batches together. Is OpenVINO ahead of ONNX Runtime then, too?

# %%
row = setup.measured(lab, ir)  # pictures per second, with 1 and with 8 requests under way
setup.compared()  # with this lecture's formats up to here; a minute at most

# %%
claim(
    row.at_8 > row.at_1,
    f"With 8 requests under way, {row.at_8 / row.at_1:.1f} times as many pictures per second as with "
    "1: a lone picture is computed with seven rows of padding.",
    "Close other programs, and run the cell before this one again.",
    premise=setup.loads_differ(row),
    id="openvino.served",
)

# %% [markdown]
# Compare the rows ONNX and OpenVINO: a batch that is not full costs OpenVINO as much as a full one, and that can eat up what a faster precision gains. What other logits do to verdicts, is the subject of [13](../13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb).
#
# ## Five mistakes
#
# Each in a copy of `focus_openvino`:

# %%
from workbook.lessons import mistakes

made = mistakes.provoke(lab, "focus_openvino", {
    "no weights": lambda home: (home / "1/model.bin").unlink(),
    "another name": mistakes.config('"logits"', '"scores"'),
    "other dims": mistakes.config("[ 3, 64, 64 ]", "[ 64, 64, 3 ]"),
    "a GPU": mistakes.config("KIND_CPU", "KIND_GPU"),
    "a word for a number": mistakes.config('string_value: "1"', 'string_value: "all"'),
})  # fmt: skip
made

# %%
claim(
    len(made.refused) == 5,
    "The server refuses all five.",
    "Read above what it loads.",
    id="openvino.mistakes",
)

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
# Before a model moves to OpenVINO: what changes in its answers, by the framework, by the precision, and served? The config is that of `from_onnx` above; the program takes your ONNX file and your examples.

# %%
show("at_work/compare_openvino.py")

# %% tags=["triton"]
# %run at_work/compare_openvino.py {models}/from_onnx/1/model.onnx {models}/pictures.npy from_onnx

# %% [markdown]
# - On Intel's CPU: serve the ONNX file with both, measure with perf_analyzer, and take OpenVINO if it is faster and the program finds no changed verdicts that matter.
# - One request at a time: `max_batch_size: 0`. Many at once: padding and `dynamic_batching`.
# - On ARM, or if all must be fp32: ONNX Runtime.

# %% [markdown]
# ## What to remember
#
# - `backend: "openvino"`, with `model.xml` and `model.bin`, or an ONNX file.
# - With a `max_batch_size`, each batch is as large as that: pad, or refuse, or set 0 and do without Triton's batcher.
# - Saved weights are fp16 by default, and computing may be in bf16. The precision and the processor decide whether it is faster than ONNX Runtime.

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
