# ---
# title: TensorRT
# minutes: 17
# ---

# %% [markdown]
# # TensorRT
#
# **Question.** TensorRT compiles a network for one GPU. The result is an *engine*, its file the *plan*. How is it built, and what can you check without a GPU?
#
# What works without a GPU runs here. The rest is marked "not verified on a GPU". The first notebook that needs the network trains it: one to six minutes.

# %%
import onnx
import torch

import setup
from workbook import zoo
from workbook.lessons import claim, folder, formats, laboratory, mistakes, predict, task
from workbook.lessons.shared import quiet
from workbook.zoo import engines

models = folder("tensorrt")  # an empty folder: files of an earlier run are deleted
quiet.hide_warnings()
print(engines.lacking() or "This machine can build engines.")

# %% [markdown]
# ## Files and names
#
# Triton needs `1/model.plan` and `platform: "tensorrt_plan"` or `backend: "tensorrt"`. The types and dims are those of the engine, without the batch. `max_batch_size` is at most the engine's largest batch.
#
# Here the plan is a line of text, and a stand-in takes the place of NVIDIA's backend.

# %%
from workbook.lessons import Premise, compare, place, show, write

place(models, "models/focus_tensorrt")
show("models/focus_tensorrt/config.pbtxt")
write(models / "focus_tensorrt/1/model.plan", "built on a GPU machine")

# %%
predict(
    "tensorrt.cpu",
    "A CPU cannot run an engine, and a config says KIND_CPU by mistake. When does this show?",
    {
        "never: the backend takes the GPU": "The backend does not correct a config: it refuses "
        "each kind of instance but KIND_GPU.",
        "at the first request": "The backend looks at the kind of each instance when the model is "
        "loaded.",
        "when the model is loaded": None,
    },
)

# %%
lab = laboratory(models, only=[])
tries = {
    "as it is, without a GPU": lambda home: None,
    "on the CPU": mistakes.config("KIND_GPU", "KIND_CPU"),
    "another platform": mistakes.config('"tensorrt_plan"', '"tensorrt"'),
    "another name of a type": mistakes.config("TYPE_FP32", "FP32"),
    "another spelling": mistakes.config("max_batch_size", "max_batchsize"),
}
made = mistakes.provoke(lab, "focus_tensorrt", tries)
made

# %%
on_cpu = made.refused.get("on the CPU")
answer = "when the model is loaded" if on_cpu is not None else "at the first request"
tried = len(made.changes) == 5
compare("tensorrt.cpu", answer, premise=Premise(tried, "not all were tried"))
claim(
    on_cpu is not None and "supports only GPU device" in on_cpu.message,
    "The backend takes only instances on GPUs, and says so when the model is loaded.",
    "Run the cell before this one again.",
    id="tensorrt.kind",
)

# %% [markdown]
# ## A command line
#
# `trtexec` builds an engine from ONNX, and measures it. It is in NVIDIA's containers. Here is the command of [the acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course), option by option. The one of [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) has three: `--onnx`, `--saveEngine`, `--fp16`.

# %%
options, shorter = setup.explain(setup.COMMAND), setup.explain(setup.SHORT_COMMAND)
options

# %% [markdown]
# > **Errata.** TensorRT 11 ([your release's](../14__images/14__images.ipynb#Your-release-has)) has [no options that allow types](https://docs.nvidia.com/deeplearning/tensorrt/11.4.1/api/migration/tensorrt-10x-to-11x-trtexec.html): networks are *strongly typed*, so the ONNX file says in which type each layer computes. (`--stronglyTyped` asks TensorRT 10 for that; 11 accepts it.) In older versions, trtexec with `--int8` [does not calibrate](https://github.com/NVIDIA/TensorRT/blob/main/samples/trtexec/README.md#description). Such an engine shows how fast int8 is, but its answers mean nothing.

# %%
gone = [" ".join(t.index[t["in TensorRT 11"] == "gone"]) for t in (options, shorter)]
known = "?" not in set(options["for"])
claim(
    gone == ["--int8 --best", "--fp16"] and known,
    f"Of {len(options)} options, TensorRT 11 has lost {gone[0]}; of the backend slides' three, {gone[1]}.",
    "Run the cells of this section again.",
    id="tensorrt.options",
)

# %%
raw = models / "focus.onnx"  # the export takes up to 30 seconds
program = torch.onnx.export(
    formats.network(),
    (torch.zeros(2, 3, 64, 64),),
    input_names=["image"],
    output_names=["logits"],
    dynamic_shapes=({0: torch.export.Dim("batch")},),
    verbose=False,
)
program.save(raw, external_data=False)
today = engines.trtexec_command(raw, models / "model.plan", {"image": (3, 64, 64)}, (1, 16, 32))
print(setup.inputs(raw), *today, sep="\n  ")

# %% [markdown]
# Above is today's form for our network. `-1` is a dimension that may vary: the batch.
#
# ## Profiles
#
# Three shapes make an *optimization profile*; kernels are chosen for the middle one.
#
# After the prediction, four commands are compared with `focus.onnx`: the acceleration slides', then without types, then with our input's name, then with our sizes (an empty line: nothing is wrong).

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
taken = [n for n in range(65) if setup.takes(setup.COMMAND, "input", (n, 3, 224, 224))]
seen = {32: "all from 1 to 32", 3: "1, 16 and 32"}.get(len(taken), "any: the batch is dynamic")
compare("tensorrt.profile", seen, premise=Premise(taken != [], "no shape fits"))
line = setup.COMMAND.replace("/models/onnx_model/1/model.onnx", "focus.onnx")
untyped = line.replace("--int8\n", "").replace("--best\n", "")
renamed = untyped.replace("input:", "image:")
lines = [line, untyped, renamed, renamed.replace("224", "64")]
wrong = [setup.check(each, models) for each in lines]
print(*wrong, sep="\n")
claim(
    wrong[-1] == "" and all(wrong[:-1]),
    "Names, dimensions and their order can be compared with the ONNX file before a GPU is there.",
    "Run the cells of the two sections above again.",
    id="tensorrt.profile",
)

# %% [markdown]
# The engine takes each shape from the smallest to the largest; another one is an error, says NVIDIA's page on `IOptimizationProfile`. Nothing was built here: the two shapes were read from the command.
#
# ## The builder in Python
#
# The backend slides build the engine so:
#
# ```python
# with trt.Builder(TRT_LOGGER) as builder:
#     network = builder.create_network()
#     parser = trt.OnnxParser(network, TRT_LOGGER)
# with open("model.onnx", "rb") as model_file:
#     parser.parse(model_file.read())
# engine = builder.build_cuda_engine(network)
# ```

# %% [markdown]
# > **Erratum.** `build_cuda_engine` is [gone since TensorRT 10](https://docs.nvidia.com/deeplearning/tensorrt/11.4.1/api/migration/tensorrt-8x-to-10x-python-api.html). The program also lacks a profile for the dynamic batch, and does not check whether the parser understood the file. Today (`trt` is the package `tensorrt`, `logger` a `trt.Logger()`, `plan` the content of model.plan):
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

# %% [markdown]
# Its names are in NVIDIA's bindings 10.4 and 11.4; not verified on a GPU.
#
# ## fp16 and int8 in the file
#
# Strong typing moves the choice into the file. fp16: as in [a later notebook](../13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb). int8: pairs (*Q/DQ*) of *QuantizeLinear*, which rounds to int8 by a scale, and *DequantizeLinear*, which undoes the scale. *Calibration* measures the scales on examples.

# %%
from onnxconverter_common import float16

fresh = onnx.load(raw)
del fresh.graph.value_info[:]  # shapes of the export, which the tools would trust
onnx.save(fresh, raw)
half = float16.convert_float_to_float16(onnx.load(raw), keep_io_types=True)
onnx.save(half, models / "focus_fp16.onnx")
examples = zoo.data.pixels(zoo.data.focus_files("train")[0][:256])
setup.quantize(raw, models / "focus_int8.onnx", examples)  # up to 20 seconds
for name in ("focus", "focus_fp16", "focus_int8"):
    print(name, setup.graph(models / f"{name}.onnx")["nodes"])

# %% [markdown]
# TensorRT wants [symmetric scales](https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html): their *zero point*, the int8 value that stands for 0, is 0. Here biases stay in fp32, and outputs of layers are not quantized again. ONNX Runtime's defaults differ.

# %%
predict(
    "tensorrt.int8",
    "Scales are calibrated on 256 training pictures. How many of the 200 verdicts change in int8, "
    "computed by ONNX Runtime?",
    unit="verdicts",
)

# %%
changed = {}
for name in ("focus", "focus_fp16", "focus_int8"):
    run = formats.in_process(models / f"{name}.onnx")
    changed[name] = formats.changed(run(formats.pictures()))
    print(f"{name}: verdicts changed: {changed[name]}")
inside = setup.graph(models / "focus_int8.onnx")
int8, exact = changed["focus_int8"], changed["focus"] == 0
in_fp16 = changed["focus_fp16"]
as_wanted = inside["nodes"]["QuantizeLinear"] == 5 and inside["zero_points"] == 0
compare("tensorrt.int8", int8, premise=Premise(exact, "the fp32 file differs already"))
claim(
    as_wanted and int8 > in_fp16,
    "All zero points are 0, the inputs of five layers are quantized. "
    f"More verdicts change in int8 than in fp16: {int8}, not {in_fp16}.",
    "Run the cells of this section again.",
    id="tensorrt.int8",
)

# %% [markdown]
# So an int8 network can be judged before it is an engine. Compare again on the GPU, which may round differently. [Notebook 13](../13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb) counts fewer for int8: there, scales have zero points. After a ReLU no number is negative, so symmetric scales use only half of the 256 values.

# %% [markdown]
# ## One engine, one GPU
#
# The builder times many kernels per layer on its GPU, and keeps the fastest. So an engine fits that architecture and version. [Compatibility modes](https://docs.nvidia.com/deeplearning/tensorrt/11.1.0/inference-library/engine-compatibility.html) may cost speed. Build it in the container that serves it.

# %% [markdown]
# ## Layers and times
#
# On a GPU machine, `--exportProfile` writes the time of each layer, `--exportLayerInfo` what was fused, `--exportTimes` the time of each run. The course has not recorded such a run. Put the folder `trtprofile` of yours into `.workbook/lectures`, and draw its slowest layers:
#
# ```python
# setup.plot_profile(models.parent / "trtprofile")
# ```

# %% [markdown]
# Four things to look up then: a warmup ([04](../04__pytorch/04__pytorch.ipynb)), since the first requests are slow; CUDA graphs (`optimization { cuda { graphs: true } }`); several profiles per engine, which the `profile` of an instance group chooses; and Polygraphy, a tool of NVIDIA's TensorRT repository, which compares an engine's outputs with ONNX Runtime's.

# %% [markdown]
# ## Your turn
#
# `digits.onnx` is the digit classifier. Write `build.sh` beside it (a cell with `%%writefile {models}/build.sh`): the command that builds its engine with TensorRT 11, as the task says.

# %%
from task import digits

print(setup.inputs(digits(models)))
task("tensorrt.build", server=lab)

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
