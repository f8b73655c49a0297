# ---
# title: TensorRT
# minutes: 28
# ---

# %% [markdown]
# # TensorRT
#
# **Question.** TensorRT compiles a network for one GPU. The result is an *engine*, its file the *plan*. How is it built, and what can you check without a GPU?
#
# What works without a GPU runs here. The rest is marked "not verified on a GPU". The first notebook that needs the network trains it: one to six minutes.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("tensorrt")
place(models, "models/focus_tensorrt")
setup.prepare(models)  # up to 30 seconds: our network as focus.onnx, and pictures as arrays
lab = laboratory(models, only=[])  # a Triton server of this notebook's own

# %% [markdown]
# ## Files and names
#
# Triton needs `1/model.plan` and `platform: "tensorrt_plan"` or `backend: "tensorrt"`. The types and dims are those of the engine, without the batch. `max_batch_size` is at most the engine's largest batch.
#
# Here the plan is a line of text, and a stand-in takes the place of NVIDIA's backend.

# %%
show("models/focus_tensorrt/config.pbtxt")

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# echo "built on a GPU machine" > focus_tensorrt/1/model.plan
# cp -rT focus_tensorrt on_cpu
# sed -i 's/KIND_GPU/KIND_CPU/' on_cpu/config.pbtxt

# %%
predict(
    "tensorrt.cpu",
    "A CPU cannot run an engine, and the config of `on_cpu` says KIND_CPU by mistake. When does this show?",
    {
        "never: the backend takes the GPU": "The backend does not correct a config: it refuses "
        "each kind of instance but KIND_GPU.",
        "at the first request": "The backend looks at the kind of each instance when the model is "
        "loaded.",
        "when the model is loaded": None,
    },
)

# %% tags=["triton"]
import os

import tritonclient.http as http
from tritonclient.utils import InferenceServerException

client = http.InferenceServerClient(os.environ["TRITON_HTTP"])
messages = {}
for model in ("focus_tensorrt", "on_cpu"):
    try:
        client.load_model(model)
    except InferenceServerException as error:
        messages[model] = error.message()
    print(f"{model}: {messages.get(model, 'loaded')}\n")

# %%
answer = "when the model is loaded" if "on_cpu" in messages else "at the first request"
compare("tensorrt.cpu", answer, premise=Premise("focus_tensorrt" in messages, "a GPU is here"))
claim(
    "on_cpu" in messages and "supports only GPU device" in messages["on_cpu"],
    "The backend takes only instances on GPUs, and says so when the model is loaded.",
    "Run the cell before this one again.",
    id="tensorrt.kind",
)

# %% [markdown]
# So a config can be checked before there is a GPU. Three more mistakes, in copies:

# %%
from workbook.lessons import mistakes

several = {
    "another platform": mistakes.config('"tensorrt_plan"', '"tensorrt"'),
    "another name of a type": mistakes.config("TYPE_FP32", "FP32"),
    "another spelling": mistakes.config("max_batch_size", "max_batchsize"),
}
mistakes.provoke(lab, "focus_tensorrt", several)

# %% [markdown]
# ## A command line
#
# `trtexec` builds an engine from ONNX, and measures it unless `--skipInference` says no. It is in NVIDIA's containers, in `/usr/src/tensorrt/bin`. This one is for our network (not run here):

# %%
show("models/focus_tensorrt/build.sh")

# %% [markdown]
# The names and the fixed dimensions must be those of the ONNX file. There, 0 stands for a dimension that may vary, the batch:

# %% tags=["triton"]
import re
from pathlib import Path

import onnx

for tensor in onnx.load(models / "focus.onnx").graph.input:
    print(tensor.name, [dim.dim_value for dim in tensor.type.tensor_type.shape.dim])
command = Path("models/focus_tensorrt/build.sh").read_text()
print(*re.findall(r"--(\w+)Shapes=(\w+):(\S+)", command), sep="\n")

# %% [markdown]
# The command of [the acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) has more options. Which of them does TensorRT 11 still have? (Which version [your release has](../14__images/14__images.ipynb#Your-release-has).)

# %%
options, shorter = setup.explain(setup.COMMAND), setup.explain(setup.SHORT_COMMAND)
options

# %%
gone = [" ".join(t.index[t["in TensorRT 11"] == "gone"]) for t in (options, shorter)]
claim(
    gone == ["--int8 --best", "--fp16"] and "?" not in set(options["for"]),
    f"Of {len(options)} options, TensorRT 11 has lost {gone[0]}; of the three in the backend "
    f"slides' command, {gone[1]}.",
    "Run the cells of this section again.",
    id="tensorrt.options",
)

# %% [markdown]
# TensorRT 11 has [no options that allow types](https://docs.nvidia.com/deeplearning/tensorrt/11.4.1/api/migration/tensorrt-10x-to-11x-trtexec.html): networks are *strongly typed*, so the ONNX file says in which type each layer computes. `--stronglyTyped` asks TensorRT 10 for that; 11 accepts it.
#
# <details><summary>Errata: the acceleration slides, the backend slides</summary>
#
# `--int8 --best`, and `trtexec --onnx=model.onnx --saveEngine=model.plan --fp16` in the backend slides, are commands for older versions. There, trtexec with `--int8` [does not calibrate](https://github.com/NVIDIA/TensorRT/blob/main/samples/trtexec/README.md#description): such an engine shows how fast int8 is, but its answers mean nothing.
#
# </details>

# %% [markdown]
# ## Profiles
#
# The three shapes of `build.sh` make an *optimization profile*. Kernels are chosen for the middle one. The cell below the question reads these shapes, and compares the slides' command with `focus.onnx`, corrected step by step.

# %%
predict(
    "tensorrt.profile",
    "The command builds for 1, 16 and 32 pictures. Which batches does the engine take?",
    {
        "1, 16 and 32": "These are the ends of a range, and the size for which kernels are chosen.",
        "all from 1 to 32": None,
        "any: the batch is dynamic": "Memory is planned, and kernels are chosen, for the shapes of "
        "the profile. A larger one is refused.",
    },
)

# %%
taken = [n for n in range(65) if setup.takes(command, "image", (n, 3, 64, 64))]
wrong = {name: setup.check(line, models) for name, line in setup.commands().items()}
for name, message in wrong.items():
    print(f"{name}: {message or 'fits the ONNX file'}")

# %%
batches = "all from 1 to 32" if len(taken) == 32 else "1, 16 and 32"
compare("tensorrt.profile", batches, premise=Premise(taken != [], "no shape fits"))
claim(
    [way for way in wrong if wrong[way] == ""] == ["and our sizes"] and len(wrong) == 4,
    "Names, dimensions and their order can be compared with the ONNX file before a GPU is there.",
    "Run the cells of the two sections above again.",
    id="tensorrt.profile",
)

# %% [markdown]
# Nothing was built: the range was read from the command. An engine refuses other shapes, says NVIDIA's page on `IOptimizationProfile`.
#
# ## The builder in Python
#
# The Python package `tensorrt` builds an engine, too (not verified on a GPU; the names are in NVIDIA's bindings 10.4 and 11.4).

# %% [markdown]
# `trt` is the package `tensorrt`, `logger` a `trt.Logger()`, `plan` the content of model.plan:
#
# ```python
# builder = trt.Builder(logger)
# network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
# parser = trt.OnnxParser(network, logger)
# if not parser.parse_from_file("model.onnx"):
#     raise RuntimeError(parser.get_error(0).desc())
# profile = builder.create_optimization_profile()
# profile.set_shape("image", (1, 3, 64, 64), (16, 3, 64, 64), (32, 3, 64, 64))
# config = builder.create_builder_config()
# config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
# config.add_optimization_profile(profile)
# plan = builder.build_serialized_network(network, config)
# ```
#
# <details><summary>Errata: the backend slides</summary>
#
# ```python
# with trt.Builder(TRT_LOGGER) as builder:
#     network = builder.create_network()
#     parser = trt.OnnxParser(network, TRT_LOGGER)
# with open("model.onnx", "rb") as model_file:
#     parser.parse(model_file.read())
# engine = builder.build_cuda_engine(network)
# ```
#
# `build_cuda_engine` is [gone since TensorRT 10](https://docs.nvidia.com/deeplearning/tensorrt/11.4.1/api/migration/tensorrt-8x-to-10x-python-api.html). The program also lacks a profile for the dynamic batch, and does not check whether the parser understood the file.
#
# </details>

# %% [markdown]
# ## fp16 and int8 in the file
#
# Strong typing moves the choice into the file. fp16: a converter changes the types.

# %% tags=["triton"]
import numpy as np
from onnxconverter_common import float16

for model in ("focus_fp32", "focus_fp16", "focus_int8"):
    (models / model / "1").mkdir(parents=True, exist_ok=True)
    (models / model / "config.pbtxt").write_text("""
platform: "onnxruntime_onnx"
max_batch_size: 200
""")
single = onnx.load(models / "focus.onnx")
onnx.save(single, models / "focus_fp32/1/model.onnx")
half = float16.convert_float_to_float16(single, keep_io_types=True)
onnx.save(half, models / "focus_fp16/1/model.onnx")

# %% [markdown]
# int8: pairs (*Q/DQ*) of *QuantizeLinear*, which rounds to int8 by a scale, and *DequantizeLinear*, which undoes the scale. *Calibration* measures the scales on examples. TensorRT wants [symmetric scales](https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html): their *zero point*, the int8 value that stands for 0, is 0. ONNX Runtime's defaults differ.

# %% tags=["triton"]
from onnxruntime import quantization


class Examples(quantization.CalibrationDataReader):
    def __init__(self, pictures):
        self.batches = iter([{"image": batch} for batch in np.array_split(pictures, 8)])

    def get_next(self):
        return next(self.batches, None)


layers = ["Conv", "Gemm"]  # only the inputs of these are rounded; biases stay in fp32
symmetric = {"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False}
symmetric["OpTypesToExcludeOutputQuantization"] = layers

# %% tags=["triton"]
quantization.quantize_static(  # up to 20 seconds
    models / "focus.onnx",
    models / "focus_int8/1/model.onnx",
    Examples(np.load(models / "training.npy")[:256]),
    op_types_to_quantize=layers,
    per_channel=True,
    extra_options=symmetric,
)

# %%
predict(
    "tensorrt.int8",
    "Scales are calibrated on 256 training pictures. How many of the 200 verdicts change in int8, "
    "computed by ONNX Runtime?",
    unit="verdicts",
)

# %% tags=["triton"]
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
exact = Premise(setup.is_the_network(verdicts["focus_fp32"]), "the fp32 file differs already")
compare("tensorrt.int8", changed["focus_int8"], premise=exact)

# %% [markdown]
# What is in the int8 file?

# %% tags=["triton"]
from collections import Counter

from onnx import numpy_helper

graph = onnx.load(models / "focus_int8/1/model.onnx").graph
nodes = Counter(node.op_type for node in graph.node)
zeros = [numpy_helper.to_array(w) for w in graph.initializer if w.name.endswith("zero_point")]
largest = max(abs(int(zero)) for each in zeros for zero in each.ravel())
print(dict(nodes), f"largest zero point: {largest}")

# %%
claim(
    nodes["QuantizeLinear"] == 5 and largest == 0 and changed["focus_int8"] > changed["focus_fp16"],
    "All zero points are 0, the inputs of five layers are quantized. More verdicts change in int8 "
    f"than in fp16: {changed['focus_int8']}, not {changed['focus_fp16']}.",
    "Run the cells of this section again.",
    id="tensorrt.int8",
)

# %% [markdown]
# So an int8 network can be judged before it is an engine. Compare again on the GPU, which may round differently. After a ReLU no number is negative, so symmetric scales use only half of the 256 values. [Notebook 13](../13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb) leaves ONNX Runtime's defaults, whose zero points use them all.

# %% [markdown]
# ## One engine, one GPU
#
# The builder times many kernels per layer on its GPU, and keeps the fastest. So an engine fits that architecture and version. [Compatibility modes](https://docs.nvidia.com/deeplearning/tensorrt/11.1.0/inference-library/engine-compatibility.html) may cost speed. Build it in the container that serves it.

# %% [markdown]
# ## Layers and times
#
# On a GPU machine, `--exportProfile` writes the time of each layer, `--exportLayerInfo` what was fused, `--exportTimes` the time of each run. The course has not recorded such a run. If you have one, put its folder into `.workbook/lectures` as `trtprofile`, and draw the slowest layers:
#
# ```python
# setup.plot_profile(models.parent / "trtprofile")
# ```

# %% [markdown]
# <details><summary>Four things to look up then</summary>
#
# A warmup ([04](../04__pytorch/04__pytorch.ipynb)), since the first requests are slow; CUDA graphs (`optimization { cuda { graphs: true } }`); several profiles per engine, which the `profile` of an instance group chooses; and Polygraphy, a tool of NVIDIA's TensorRT repository, which compares an engine's outputs with ONNX Runtime's.
#
# </details>
#
# ## Your turn
#
# `digits.onnx` is the digit classifier. Write `build.sh` beside it (a cell with `%%writefile {models}/build.sh`): the command that builds its engine with TensorRT 11, as the task says.

# %%
from task import digits

print(setup.inputs(digits(models)))
task("tensorrt.build", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# Names and shapes stand in three files: the ONNX file, the command, the config. This program writes the second and the third from the first:

# %%
show("at_work/engine_files.py")

# %% tags=["triton"]
# %run at_work/engine_files.py {models}/focus.onnx {models}/engine 1 16 32
# !cat $TRITON_MODELS/engine/*

# %% [markdown]
# ## What to remember
#
# - An engine is compiled for one kind of GPU and one version of TensorRT. Without a GPU it can neither be built nor run.
# - A profile says which shapes an engine takes; kernels are chosen for the middle one.
# - Types belong in the ONNX file: fp16, or Q/DQ pairs with calibrated scales. Compare verdicts first.

# %% [markdown]
# ## Check yourself
#
# <details><summary><code>max_batch_size: 64</code>, and the engine's largest batch is 32. What will Triton do?</summary>
#
# It refuses the model when it loads it: the config promises batches that the profile does not take. Not verified on a GPU.
#
# </details>
#
# <details><summary>A team builds engines in its pipeline on an A100, and serves on an L4. What goes wrong?</summary>
#
# The load fails, since the architectures differ. Build on an L4, or with hardware compatibility, and measure what that costs.
#
# </details>
#
# <details><summary>An engine was built with <code>--int8</code> from an fp32 ONNX file. It is twice as fast. May it be served?</summary>
#
# No. It was not calibrated, so its scales do not fit its numbers, and its answers mean nothing. Put Q/DQ pairs with calibrated scales into the file first.
#
# </details>
#
# Next: [LLM backends](../11__llm_backends/11__llm_backends.ipynb).
