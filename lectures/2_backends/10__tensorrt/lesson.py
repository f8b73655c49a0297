# ---
# title: TensorRT
# minutes: 30
# ---

# %% [markdown]
# # TensorRT
#
# **Question.** TensorRT compiles a network for NVIDIA's GPUs. The result is an *engine*, its file the *plan*. What must you decide before the build, and what is refused: by the compiler, or by Triton?
#
# Triton serves engines of TensorRT, built on a GPU. Here *TensorRT for RTX* builds them without one, with the same calls ([differences](https://docs.nvidia.com/deeplearning/tensorrt-rtx/latest/inference-library/porting.html)).

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("tensorrt")
place(models, "models/focus_tensorrt")
setup.prepare(models)  # up to 30 seconds: our network as focus.onnx, pictures, three configs
lab = laboratory(models, only=[])  # a Triton server of this notebook's own

# %% [markdown]
# ## The builder
#
# Our network tells whether a picture of 3 × 64 × 64 numbers is sharp. TensorRT's *builder* makes the engine. It reports by a logger; ours keeps the messages in a list, because we read them below:

# %% tags=["triton"]
import tensorrt_rtx as trt  # in NVIDIA's container: import tensorrt as trt

notes = []


class Log(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)

    def log(self, severity, text):
        notes.append((severity.name, text))


logger = Log()
builder = trt.Builder(logger)
print(trt.__version__)

# %% [markdown]
# Four objects make an engine. A *parser* reads the ONNX file into a *network*. It is *strongly typed*: each layer computes in the type that the file gives. A *profile* says which shapes the engine takes: the smallest, the one to be fastest at, the largest. A *builder config*, which is not Triton's, has the profile and other settings.


# %% tags=["triton"]
def build(file, *shapes, name="image", target=None):
    """Return a plan for shapes from the first to the last; None if TensorRT refuses."""
    notes.clear()
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    assert parser.parse_from_file(str(file)), parser.get_error(0)
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED  # notes name each layer's nodes
    if target:  # a kind of GPU; without it, the builder chooses several
        config.num_compute_capabilities = 1
        config.set_compute_capability(target, 0)
    if shapes:
        profile = builder.create_optimization_profile()
        profile.set_shape(name, *shapes)
        config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config)


# %% [markdown]
# ## Fusion
#
# What does the compiler change? The network has four blocks of *Conv*, *Relu* and *MaxPool*, then a mean and a linear layer: 14 nodes.

# %%
predict(
    "tensorrt.fusion",
    "The builder may fuse nodes: compute several in one layer. What becomes of a block of Conv, "
    "Relu and MaxPool?",
    {
        "one layer": "Pooling needs four neighbours of a result. Here it stayed a layer of its own.",
        "Conv and Relu in one layer, MaxPool in another": None,
        "three layers": "Then each result of Conv would be written to memory, and read again only "
        "to set negative numbers to 0.",
    },
)

# %% tags=["triton"]
import re

plan = build(models / "focus.onnx", (1, 3, 64, 64), (16, 3, 64, 64), (32, 3, 64, 64))
(models / "focus_tensorrt/1").mkdir(exist_ok=True)
(models / "focus_tensorrt/1/model.plan").write_bytes(plan)
listing = next(text for _, text in notes if text.startswith("Layers:"))
layers = []
for kind, nodes in re.findall(r"LayerType: (\w+),.*Metadata: ?(.*)", listing):
    layers.append((kind, re.findall(r"\[ONNX Layer: (.*?)\]", nodes)))
    print(*layers[-1])

# %%
together = setup.kinds(models / "focus.onnx", layers)
setup.draw(models / "focus.onnx", layers)

# %%
fusion = (
    "Conv and Relu in one layer, MaxPool in another"
    if together == 4 * [("Conv", "Relu")]
    else "three layers"
    if ("Conv",) in together
    else "one layer"
)
compare("tensorrt.fusion", fusion, premise=Premise(len(together) == 4, "no engine was built"))
claim(
    together == 4 * [("Conv", "Relu")],
    "In a real engine, each of the four convolutions computes its ReLU, too.",
    "Run the cell with the build again.",
    id="tensorrt.fusion",
)

# %% [markdown]
# A fused layer saves a trip through memory. Layers without a node are the builder's own; its word `correlation` is a convolution.
#
# ## Profiles
#
# The first decision: which shapes? The batch is free in our file, the picture's size is not. Four builds with a profile that is missing or wrong, and TensorRT's first error:


# %% tags=["triton"]
def shapes(*batches, side=64):
    return [(rows, 3, side, side) for rows in batches]


wrong = {
    "none": ([], "image"),
    "another order": (shapes(1, 64, 32), "image"),
    "another size": (shapes(1, 16, 32, side=224), "image"),
    "another name": (shapes(1, 16, 32), "input"),
}
for what, (profile, name) in wrong.items():
    if build(models / "focus.onnx", *profile, name=name) is None:
        print(f"{what}:", *[text for severity, text in notes if severity == "ERROR"][:1], "\n")

# %% [markdown]
# Each message names what is wrong.
#
# ## Memory
#
# Why not allow a very large batch, to be safe? *Activations*, the results between layers, need memory on the GPU. We build four engines that differ in the profile's largest batch only; each is to be fastest at one picture.

# %%
predict_curve(
    "tensorrt.memory",
    "How much memory for activations does an engine plan?",
    x=[1, 32, 256, 1024],
    y_range=(0, 900),
    unit="MB",
    below="the largest batch of its profile",
)

# %% tags=["triton"]
batches, memory = [1, 32, 256, 1024], []
for largest in batches:
    build(models / "focus.onnx", *shapes(1, 1, largest))
    found = [re.search(r"Total Activation Memory: (\d+)", text) for _, text in notes]
    memory.append(next(int(match[1]) for match in found if match) / 1e6)
    print(f"up to {largest} pictures: {memory[-1]:.1f} MB")

# %%
compare_curve("tensorrt.memory", batches, memory, premise=Premise(len(memory) == 4, "no engine"))
claim(
    memory[-1] > 20 * memory[0],
    f"Up to 1,024 pictures need {memory[-1] / memory[0]:.0f} times as much memory as one.",
    "Run the cell with the four builds again.",
    id="tensorrt.memory",
)

# %% [markdown]
# The build fixes this memory, and in Triton each instance takes it. So allow no batch above the config's `max_batch_size`.
#
# ## fp16 and int8 in the file
#
# The second decision: which types? They stand in the file. For fp16 a converter changes them: here `onnxconverter_common`, NVIDIA's is [AutoCast](https://nvidia.github.io/Model-Optimizer/guides/8_autocast.html).

# %% tags=["triton"]
import onnx
from onnxconverter_common import float16

single = onnx.load(models / "focus_fp32/1/model.onnx")  # the same as focus.onnx
half = float16.convert_float_to_float16(single, keep_io_types=True)  # its logits stay in fp32
onnx.save(half, models / "focus_fp16/1/model.onnx")

# %% [markdown]
# For int8 the file gets pairs (*Q/DQ*): *QuantizeLinear* rounds to int8 by a scale, *DequantizeLinear* undoes the scale. *Calibration* measures the scales on examples. First with ONNX Runtime's defaults:

# %% tags=["triton"]
import numpy as np
from onnxruntime import quantization


class Examples(quantization.CalibrationDataReader):
    def __init__(self, pictures):
        self.batches = iter([{"image": batch} for batch in np.array_split(pictures, 8)])

    def get_next(self):
        return next(self.batches, None)


examples = np.load(models / "training.npy")[:256]
quantization.quantize_static(models / "focus.onnx", models / "default.onnx", Examples(examples))

# %%
predict(
    "tensorrt.default",
    "ONNX Runtime computes this file. What does TensorRT make of it?",
    {
        "an int8 engine": "TensorRT's rules for int8 are narrower than those of ONNX.",
        "an engine that computes in fp32": "The network is strongly typed: TensorRT computes what "
        "the file says, or nothing.",
        "none: it refuses the file": None,
    },
)

# %% tags=["triton"]
plain = {"QuantizeBias": False}  # as before, but biases stay in fp32
quantization.quantize_static(
    models / "focus.onnx", models / "plain.onnx", Examples(examples), extra_options=plain
)
dynamic = models / "dynamic.onnx"  # here, scales are found at run time
quantization.quantize_dynamic(models / "focus.onnx", dynamic)
unread = {}
for file in ("default.onnx", "plain.onnx", "dynamic.onnx"):
    try:
        build(models / file, *shapes(1, 16, 32))
    except AssertionError as error:
        unread[file] = str(error)
        print(f"{file}: {error}\n")

# %%
default = "none: it refuses the file" if "default.onnx" in unread else "an int8 engine"
compare("tensorrt.default", default, premise=Premise(notes != [], "nothing was parsed"))
claim(
    len(unread) == 3 and "Int32" in unread["default.onnx"] and "zero" in unread["plain.onnx"],
    "TensorRT refuses int32 biases, zero points other than 0, and scales found at run time.",
    "Run the cells of this section again.",
    id="tensorrt.default",
)

# %% [markdown]
# The three files fail for these three reasons, in this order. (The line on the CUDA driver: no GPU is here.) So for TensorRT, biases stay in fp32, and scales are [symmetric](https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html): their *zero point*, the int8 value that stands for 0, is 0. With these options TensorRT takes the file:

# %% tags=["triton"]
inner = ["Conv", "Gemm"]  # the layers with weights: inputs become int8, outputs stay in fp32
symmetric = {"OpTypesToExcludeOutputQuantization": inner}
symmetric |= {"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False}
quantization.quantize_static(  # up to 20 seconds
    models / "focus.onnx",
    models / "focus_int8/1/model.onnx",
    Examples(examples),
    op_types_to_quantize=inner,
    per_channel=True,  # a scale for each channel of the weights
    extra_options=symmetric,
)
plans = {}
for model in ("focus_fp32", "focus_fp16", "focus_int8"):
    plans[model] = build(models / model / "1/model.onnx", *shapes(1, 16, 32))
    print(f"{model}: a plan of {plans[model].nbytes / 1e6:.2f} MB")

# %% [markdown]
# A plan holds more than weights, so int8 need not make a small one smaller. How many verdicts do the types change? Engines need a GPU, but ONNX Runtime computes the same files, in three models of Triton:

# %% tags=["triton"]
import os

import tritonclient.http as http

client = http.InferenceServerClient(os.environ["TRITON_HTTP"])
pictures = np.load(models / "pictures.npy")
verdicts, changed = {}, {}
for model in ("focus_fp32", "focus_fp16", "focus_int8"):
    client.load_model(model)
    tensor = http.InferInput("image", pictures.shape, "FP32")
    tensor.set_data_from_numpy(pictures)
    verdicts[model] = client.infer(model, [tensor]).as_numpy("logits").argmax(1)
    changed[model] = int(np.count_nonzero(verdicts[model] - verdicts["focus_fp32"]))
    print(f"{model}: verdicts changed: {changed[model]} of {len(pictures)}")

# %%
claim(
    None not in plans.values() and changed["focus_int8"] > changed["focus_fp16"],
    "TensorRT builds an engine from the symmetric file. More verdicts change in int8 "
    f"than in fp16: {changed['focus_int8']}, not {changed['focus_fp16']}.",
    "Run the cells of this section again.",
    premise=Premise(setup.is_the_network(verdicts["focus_fp32"]), "the fp32 file differs already"),
    id="tensorrt.int8",
)

# %% [markdown]
# Too many verdicts change to serve int8 so: [lecture 3](../../3_acceleration/05__precision/05__precision.ipynb) finds the layer behind most.
#
# ## Targets
#
# The third decision: for which GPU? GPU architectures have numbers, the *compute capabilities*, and kernels for one do not run on another. TensorRT for RTX builds for those that you name; TensorRT itself times kernels on the GPU it runs on.

# %% tags=["triton"]
for name in ("SM86", "SM75"):  # compute capabilities 8.6 (e.g. A10) and 7.5 (e.g. T4)
    gpu = trt.ComputeCapability.__members__[name]
    built = build(models / "focus.onnx", *shapes(1, 16, 32), target=gpu)
    errors = [text for severity, text in notes if severity == "ERROR"]
    print(f"{name}:", "built" if built else errors[0])

# %% [markdown]
# For the older GPU, no kernel computes our last layer in fp32. So try each kind of GPU that will serve.

# %% [markdown]
# ## Triton
#
# Triton needs `1/model.plan`, and a config with `platform: "tensorrt_plan"` or `backend: "tensorrt"`. No engine runs here, but the course's backend, in place of NVIDIA's, checks the config against it; to NVIDIA's message it adds words of its own. We load two copies with wrong configs: one allows 64 pictures, the other puts the instance on the CPU.

# %%
show("models/focus_tensorrt/config.pbtxt")
setup.engine(models)  # adds notes for the stand-in; NVIDIA's backend needs model.plan only

# %% tags=["triton"]
import shutil

from tritonclient.utils import InferenceServerException

right, messages = (models / "focus_tensorrt/config.pbtxt").read_text(), {}
on_cpu = right + "instance_group { kind: KIND_CPU }"
copies = {"large": right.replace("size: 32", "size: 64"), "on_cpu": on_cpu}
for model, text in copies.items():
    shutil.copytree(models / "focus_tensorrt", models / model, dirs_exist_ok=True)
    (models / model / "config.pbtxt").write_text(text)
    try:
        client.load_model(model)
    except InferenceServerException as error:
        messages[model] = error.message()
    print(f"{model}: {messages.get(model, 'loaded')}\n")

# %%
claim(
    "only supports max-batch 32" in messages.get("large", "")
    and "supports only GPU device" in messages.get("on_cpu", ""),
    "When a model is loaded, the backend compares max_batch_size with the engine, and refuses an "
    "instance on the CPU.",
    "Run the cell before this one again.",
    id="tensorrt.kind",
)

# %% [markdown]
# ## A command line
#
# `trtexec`, in NVIDIA's containers in `/usr/src/tensorrt/bin`, builds the same without a program, and measures it unless `--skipInference` says no. Our command has the options that you need; then those in [the acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course):

# %%
show("models/focus_tensorrt/build.sh")
options, shorter = setup.explain(setup.COMMAND), setup.explain(setup.SHORT_COMMAND)
options  # the acceleration slides' command; `shorter`, the backend slides', is for the bar below

# %%
gone = [" ".join(t.index[t["in TensorRT 11"] == "gone"]) for t in (options, shorter)]
claim(
    gone == ["--int8 --best", "--fp16"] and setup.builds(models),
    f"Of these {len(options)} options, TensorRT 11 has lost {gone[0]}; of the backend slides' three, "
    f"{gone[1]}. The shapes of build.sh build a real engine.",
    "Run the cells of this section again.",
    id="tensorrt.options",
)

# %% [markdown]
# <details><summary>Errata: the acceleration slides, the backend slides</summary>
#
# `--int8`, `--best` and `--fp16` are [gone in TensorRT 11](https://docs.nvidia.com/deeplearning/tensorrt/11.4.1/api/migration/tensorrt-10x-to-11x-trtexec.html). Before, `--int8` [does not calibrate](https://github.com/NVIDIA/TensorRT/blob/main/samples/trtexec/README.md#description).
#
# The backend slides' program ends with `builder.build_cuda_engine(network)`, which is [gone since TensorRT 10](https://docs.nvidia.com/deeplearning/tensorrt/11.4.1/api/migration/tensorrt-8x-to-10x-python-api.html): write `build_serialized_network(network, config)`. It lacks a profile, too.
#
# </details>
#
# ## Your turn
#
# `digits.onnx` is the digit classifier, and `digits_tensorrt/config.pbtxt` waits for its engine. Build it with the course's `engines.build` (`from workbook.zoo import engines`), which also writes what the check reads (`help(engines)` shows how).

# %%
from task import digits

digits(models)
show(models / "digits_tensorrt/config.pbtxt")
task("tensorrt.build", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# The program builds plan and config. Run it in the container of [the release](../14__images/14__images.ipynb#Your-release-has) that serves, on that kind of GPU; change the import.
#
# | you decide | by |
# |---|---|
# | batches | 1, the usual, the largest |
# | types | fp16, then int8, while verdicts on labelled data stay right |
# | TensorRT or not | [perf_analyzer](../../3_acceleration/01__point_a/01__point_a.ipynb), also on the ONNX model |

# %%
show("at_work/build_engine.py")

# %% tags=["triton"]
# %run at_work/build_engine.py {models}/focus.onnx {models}/engine 1 16 32
# !ls $TRITON_MODELS/engine/1; cat $TRITON_MODELS/engine/config.pbtxt

# %% [markdown]
# ## What to remember
#
# - The builder fuses layers, and plans memory for the profile's largest batch.
# - Types belong in the ONNX file: fp16, or symmetric Q/DQ pairs. Compare verdicts first.
# - At the load, Triton refuses a config that does not fit the engine. Measure the gain: in NVIDIA's guide, TensorRT in fp16 [doubled](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/optimization.md#framework-specific-optimization) an ONNX model's throughput.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Batches never exceed 8, and the profile's largest is 1,024. What does it cost?</summary>
#
# Memory on the GPU, for each instance.
#
# </details>
#
# <details><summary>A team builds engines with TensorRT on an A100, and serves on an L4. What goes wrong?</summary>
#
# The engine is for the A100's architecture, so the L4 does not take it, unless it was built in a [compatibility mode](https://docs.nvidia.com/deeplearning/tensorrt/11.1.0/inference-library/engine-compatibility.html), which may cost speed.
#
# </details>
#
# Next: [LLM backends](../11__llm_backends/11__llm_backends.ipynb).
