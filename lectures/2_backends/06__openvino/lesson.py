# ---
# title: The OpenVINO backend
# minutes: 19
# ---

# %% [markdown]
# # The OpenVINO backend
#
# **Question.** The server has no GPU. OpenVINO is made for processors by Intel and runs on others, too. Does it answer faster than ONNX Runtime on the same cores, and what does it change?
#
# Upstream's README means [Intel's CPUs](https://github.com/triton-inference-server/openvino_backend#supported-devices). [From 25.10 on](../14__images/14__images.ipynb#Your-release-has), `TARGET_DEVICE` also chooses Intel's GPU or NPU, in an image with their drivers.

# %%
import numpy as np
import openvino as ov
import pandas as pd
import torch
from tritonclient import grpc

import setup
from workbook import lessons
from workbook.lessons import Premise, claim, compare, formats, mistakes, place, predict, show, task
from workbook.lessons.shared import documented, quiet, variants

quiet.hide_warnings()
models = setup.models()  # run again, it empties this notebook's folder
lab = lessons.laboratory(models, only=[])

# %% [markdown]
# ## Three ways in
#
# OpenVINO converts PyTorch, TensorFlow, TensorFlow Lite, ONNX, PaddlePaddle and JAX, and reads its own format, IR. The same network, from three of them (20 to 60 seconds):

# %%
net, pictures = formats.network(), formats.pictures()
example, found = torch.from_numpy(pictures[:2]), {}
print("1 of 3: from PyTorch")
found["PyTorch"] = ov.convert_model(net, example_input=example, input=[-1, 3, 64, 64])
print("2 of 3: PyTorch to ONNX, and from ONNX")
onnx_file = setup.export_onnx(models)
found["ONNX"] = ov.convert_model(onnx_file)
print("3 of 3: PyTorch's weights to TensorFlow, and from TensorFlow")
found["TensorFlow"] = ov.convert_model(setup.save_tensorflow(models))

# %%
away = {}
for source, model in found.items():
    print(source, model.inputs, model.outputs)
    away[source] = np.abs(setup.logits(model, "f32") - formats.reference()).max()
claim(
    max(away.values()) < 1e-3,
    f"In fp32 all three answer like PyTorch: logits differ by {max(away.values()):.0e} at most.",
    "Run this cell and the one before it again.",
    id="openvino.ways",
)

# %% [markdown]
# From PyTorch, tensors may come without names. A config needs some, so we give them, and save the model: `model.xml` is the graph, `model.bin` the weights.

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

# %%
converted = found["PyTorch"]
converted.inputs[0].get_tensor().set_names({"image"})
converted.outputs[0].get_tensor().set_names({"logits"})
ir = models / "focus_openvino/1/model.xml"
ov.save_model(converted, ir)
weights = sum(parameter.numel() for parameter in net.parameters())
each = ir.with_suffix(".bin").stat().st_size / weights
half = setup.logits(ov.Core().read_model(ir), "f32")
small = np.abs(half - formats.reference()).max()
size = "2 bytes per weight" if each < 3 else "4 bytes per weight"
compare("openvino.bin", size, premise=Premise(weights > 100_000, "the network is too small"))
claim(
    each < 2.2 and formats.changed(half) <= 2,
    f"{weights:,} weights, {each:.1f} bytes each. Logits differ by {small:.0e}, "
    f"{formats.changed(half)} of 200 verdicts changed.",
    "Run the cell before this one again.",
    id="openvino.half",
)

# %% [markdown]
# The *file* has half-precision weights, unless `compress_to_fp16=False`. What it *computes* in is another choice:

# %%
core = ov.Core()
compiled_anyhow = core.compile_model(converted, "CPU")
chosen = compiled_anyhow.get_property("INFERENCE_PRECISION_HINT").get_type_name()
table = {kind: setup.logits(converted, kind) for kind in ("f32", chosen, "")}
off = {kind: np.abs(logits - formats.reference()).max() for kind, logits in table.items()}
for kind, logits in table.items():
    verdicts = formats.changed(logits)
    print(f"{kind or 'default'}: logits differ by {off[kind]:.0e}, {verdicts} verdicts changed")
claim(
    np.abs(table[""] - table[chosen]).max() < 1e-3,
    f"By default, OpenVINO computes in {chosen} on this processor. The logits differ from "
    f"PyTorch's {off[''] / off['f32']:,.0f} times as much as in f32.",
    "Run this cell again.",
    id="openvino.precision",
)

# %% [markdown]
# A processor with bfloat16 instructions gets bf16 by default. Triton's backend can ask for bf16 ([`HINT_BF16`](https://github.com/triton-inference-server/openvino_backend#parameters)). It has no parameter for fp32. Layers that model.xml marks as [`precise`](https://github.com/openvinotoolkit/openvino/blob/master/src/common/transformations/include/transformations/rt_info/disable_fp16_compression.hpp) stay in fp32: with all layers marked, the difference fell to about a fifth.
#
# ## The platform
#
# [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) name the platform `openvino_ir`. As printed, then with a backend instead:

# %%
from pathlib import Path

config = Path("models/focus_openvino/config.as_printed.pbtxt")
show(config)
backend = documented.put('platform: "openvino_ir"', 'backend: "openvino"')
steps = {"with a backend": backend}
printed = documented.correct(lab, "focus_openvino", config, steps)

# %%
claim(
    printed.refused == [documented.PRINTED],
    "The server has no platform openvino_ir; it has a backend openvino.",
    "Run the cell before this one again, then this one.",
    id="openvino.platform",
)


def ask(model, rows):
    image = grpc.InferInput("image", [rows, 3, 64, 64], "FP32")
    image.set_data_from_numpy(pictures[:rows])
    with grpc.InferenceServerClient(lab.grpc_url) as client:
        return client.infer(model, [image]).as_numpy("logits")


print(ask("focus_openvino", 8)[:2])
printed

# %% [markdown]
# > **Erratum.** `openvino_ir` is not a platform. Write `backend: "openvino"`.
#
# ## A lone picture
#
# The config above has padding (`ENABLE_BATCH_PADDING`): batches that are not full are filled up. The model `exact` has none. A third one, `any_batch`, has `max_batch_size: 0`, and the batch in dims.

# %%
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

# %%
for name in ("exact", "any_batch"):
    show(f"models/{name}/config.pbtxt")
    place(models, f"models/{name}")
    setup.same_files(models, "focus_openvino", name)
    lab.load(name)
alone, whole = (mistakes.explain_refusal(lab, "exact", image=pictures[:n]) for n in (1, 8))
print(alone)
print(ask("any_batch", 1), ask("any_batch", 3), sep="\n")

# %%
seen = "an error" if alone else "its answer"
compare("openvino.lone", seen, premise=Premise(whole == "", "eight pictures were refused, too"))
claim(
    alone != "" and whole == "",
    "Without padding, one picture is refused, and eight are answered.",
    "Run this cell again.",
    id="openvino.lone",
)
costs, agreed = setup.lone_costs(lab, {"padding": "focus_openvino", "any batch": "any_batch"})
claim(
    costs["padding"] > 0.7 and costs["any batch"] < 2 / 3,
    f"A lone picture takes {costs['padding']:.0%} of the time of eight with padding, "
    f"{costs['any batch']:.0%} with max_batch_size: 0.",
    "Close other programs, and run this cell again.",
    premise=agreed,
    id="openvino.padding",
)

# %% [markdown]
# With `max_batch_size: 0` Triton joins no requests. Padding pays where most batches are nearly full.
#
# ## Settings
#
# Streams share the threads: each computes a request of its own, with one thread at least. So with one thread, there is one stream, whatever is set. The hint `LATENCY` asks for quick answers, `THROUGHPUT` for many side by side. [Columns as in 05](../05__onnxruntime/05__onnxruntime.ipynb#Settings).

# %%
threads, hints = variants.parameter("INFERENCE_NUM_THREADS", 2), ("LATENCY", "THROUGHPUT")
settings = {
    "1 thread": "",
    **{f"1 thread, {hint}": variants.parameter("PERFORMANCE_HINT", hint) for hint in hints},
    "1 thread, 2 streams": variants.parameter("NUM_STREAMS", 2),
    "2 threads": threads,
    "2 threads, 2 streams": threads + variants.parameter("NUM_STREAMS", 2),
}
variant = variants.add(models, "focus_openvino", settings)  # up to half a minute
times = variants.measure(lab, variant, pictures[:8])
print(*setup.chosen_settings(lab, variant), sep="\n")
times.round(1)

# %% [markdown]
# The lines are from the server's log. An instance computes one request at a time, so streams want as many instances. In Triton's backend they [share](https://github.com/triton-inference-server/openvino_backend/blob/main/src/openvino.cc) one compiled model; here each is a process.
#
# ## The same cores
#
# OpenVINO reads ONNX files as well (`default_model_filename`). Three ways to serve one network, with one thread each; ONNX Runtime computes in fp32:

# %%
(models / "focus_onnx/1/model.onnx").write_bytes(onnx_file.read_bytes())
place(models, "models/from_onnx", "models/focus_onnx")
show("models/from_onnx/config.pbtxt")
show("models/focus_onnx/config.pbtxt")

# %%
predict(
    "openvino.faster",
    "Batches of eight, OpenVINO in its default precision: how many times as many pictures per "
    "second does it answer as ONNX Runtime in fp32?",
    unit="×",
)

# %%
ways = {"OpenVINO, IR": "focus_openvino", "OpenVINO, ONNX": "from_onnx"}
ways["ONNX Runtime"] = "focus_onnx"
speed = variants.measure(lab, ways, pictures[:8])
faster = speed["ms"]["ONNX Runtime"] / speed["ms"]["OpenVINO, IR"]
compare("openvino.faster", faster, premise=variants.repeated(speed))
inside = setup.in_process(ir, onnx_file)  # in f32, too; time of the processor, without a server
gain = inside["ms"]["ONNX Runtime, f32"] / inside["ms"]
claim(
    chosen == "f32" or gain["OpenVINO, default"] > 1.2 * gain["OpenVINO, f32"],
    f"In f32, OpenVINO is {gain['OpenVINO, f32']:.1f} times as fast as ONNX Runtime; in {chosen}, "
    f"its default here, {gain['OpenVINO, default']:.1f} times.",
    "Close other programs, and run this cell again.",
    premise=variants.apart(inside, "OpenVINO, f32", "OpenVINO, default", 1.2),
    id="openvino.fp32",
)
pd.concat({"served": speed, "in-process": inside}).round(1).fillna("")

# %%
compiled = ov.Core().compile_model(ov.Core().read_model(ir), "CPU", {"INFERENCE_NUM_THREADS": 1})
request = compiled.create_infer_request()


def in_process(rows):
    return request.infer({"image": rows})["logits"]


def measured():
    return formats.add(lab, "focus_openvino", "OpenVINO", in_process)


row = lessons.attempt(measured, setup.loads_differ)  # 10 seconds to a minute
claim(
    row.at_8 > row.at_1,
    f"With 8 under way: {row.at_8 / row.at_1:.1f} times as many as with 1. {row.served}",
    "Close other programs, and run this cell again.",
    premise=setup.loads_differ(row),
    id="openvino.served",
)
formats.table()

# %% [markdown]
# Like the others, the table's model takes batches of up to eight. Here each is filled up to eight: a lone picture costs as much as eight, and so does a half full batch.
#
# The table counts verdicts, too. In bf16, some near the threshold may change. Whether that matters is the subject of [13](../13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb).
#
# ## Five mistakes

# %%
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
# `lone` is asked for one picture at a time, rarely for eight, and pads each. Change its config (a new cell with `%%writefile {models}/lone/config.pbtxt`, then `lab.load("lone")`), so that a lone picture takes less than two thirds of the time of eight.

# %%
setup.lone(models, "focus_openvino")  # keeps a folder that is there
lab.load("lone")
show(models / "lone/config.pbtxt")
task("openvino.lone", server=lab, models=models)

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
