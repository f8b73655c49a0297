# ---
# title: "Assignment 5: an engine for the hardware you have"
# minutes: 120
# modules: [engine, files, half, network, serving, speed]
# ---

# %% [markdown]
# # Assignment 5: an engine for the hardware you have
#
# A network reads digits from pictures with counts from 0 to 4,095. You prepare it for a GPU that
# you may not have, in fp16, in int8 and as a TensorRT engine. Then you make it fast on the
# processor that you do have, and measure by how much. Seven tasks and a bonus: 100 points, about
# 120 minutes.

# %% [markdown]
# **What comes before.** Lecture 2, notebooks 06 (OpenVINO), 10 (TensorRT) and 13 (fp16); lecture 3,
# notebooks 05 (int8) and 06 (accelerators).

# %% [markdown]
# **How it works.** You write in the cells that say *Your code here*, and in the files under
# `models/` beside this notebook. Run the checks as often as you like. If you are stuck,
# `hint("a5.fp16")` shows one hint at a time; hints cost no points.

# %% [markdown]
# **Marks.** For the marks this notebook and the checks run again, elsewhere, with pictures that you
# have not seen. No points depend on a GPU. Few tasks need others: task 3 takes the files of tasks 1
# and 2, and task 5 measures the models of tasks 2 and 4.

# %% kind="given" id="a5.setup"
import logging
import math
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import openvino
import tritonclient.grpc as grpc
from onnxconverter_common import float16
from onnxruntime import quantization

from grader.assignments.a5__engine.facts import NOT_ATTEMPTED, budget, content, own_camera
from grader.assignments.a5__engine.half import in_half
from grader.assignments.a5__engine.network import own_network
from grader.vocabulary.notebook import check, deploy, hint
from workbook.server import connect
from workbook.zoo import engines

logging.disable(logging.WARNING)
warnings.filterwarnings("ignore", message=r"the float32 number \S+ will be truncated")
client = connect().grpc_client()

# %% [markdown]
# **Your network.** Weights and pictures are drawn by your id, so your numbers are yours alone. In a
# class, write the id that your instructor knows you by. If you study by yourself, leave it as it
# is.

# %%
me = "self-study"
camera = own_camera(me)  # calibration: 256 pictures; pictures: 300 others; digits: what they show
network = own_network(me)
Path("network.onnx").write_bytes(network.file)
exact = network.logits(camera.pictures)  # in fp32: what the other files are compared with
print(f"{(exact.argmax(1) == camera.digits).mean():.1%} of 300 digits are read right.")
print(*(f"{node.op_type}({node.name})" for node in onnx.load("network.onnx").graph.node))

# %% [markdown]
# The network first takes each picture's mean away and divides by its standard deviation, so that
# exposure does not matter. Then come four convolutions, each with the activation Mish:
# x · tanh(ln(1 + eˣ)), in ONNX three operators.

# %% [markdown]
# ## Task 1: fp16, strongly typed (15 points)
#
# In a *strongly typed* engine, each operator computes in the type that the file gives. Convert
# `network.onnx`, and save it as `fp16.onnx`. Input and output stay fp32. All weights become fp16;
# at most eight other constants stay fp32. On four of your pictures, the logits must be those of
# `exact`, but for rounding. `content("fp16.onnx")` has the bytes to hand over.

# %% [markdown]
# On most CPUs, ONNX Runtime turns fp16 back into fp32, so its answers do not show what fp16 does.
# `in_half(path, pictures)` computes each operator in the type that the file gives. It is slow:
# give it four pictures. `between(path, pictures)` takes a file in fp32, and returns what each
# operator answers, by the name of this result: `mish0.tanh` answers `tanh0`.
#
# | option of `float16.convert_float_to_float16(model, …)` | what it does |
# |---|---|
# | `keep_io_types=True` | input and output stay fp32 |
# | `node_block_list=["conv0"]` | operators with these names, printed above, stay fp32 |
# | `op_block_list=["Conv"]` | operators of these types stay fp32 |


# %% kind="given" id="a5.between"
def between(path, pictures):
    """What each operator of a file in fp32 answers, by name: a dict of arrays."""
    model = onnx.load(path)
    names = [name for node in model.graph.node for name in node.output]
    known = {output.name for output in model.graph.output}
    added = [onnx.ValueInfoProto(name=name) for name in names if name not in known]
    model.graph.output.extend(added)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, {"image": pictures}), strict=True))


# %% kind="solution" id="a5.convert"
### BEGIN SOLUTION
### STUB fp16 = ...  # content("fp16.onnx")
few = camera.pictures[:4]
ranges = {name: abs(values).max() for name, values in between("network.onnx", few).items()}
print({name: f"{value:,.0f}" for name, value in ranges.items() if value > 65_504})
model = onnx.load("network.onnx")
normalization = [node.name for node in model.graph.node if node.name.startswith("normalize")]
half = float16.convert_float_to_float16(model, keep_io_types=True, node_block_list=normalization)
onnx.save(half, "fp16.onnx")
print("largest difference in fp16:", abs(in_half("fp16.onnx", few) - exact[:4]).max())
fp16 = content("fp16.onnx")
### END SOLUTION

# %% kind="check" id="a5.fp16" points=15
check("a5.fp16", me=me, fp16=fp16)

# %% [markdown]
# ## Task 2: int8, calibrated (20 points)
#
# Write `int8.onnx`, as TensorRT takes it. Each convolution gets its input through a pair of
# `QuantizeLinear` and `DequantizeLinear`, and its weight, stored in int8, through a
# `DequantizeLinear`. All zero points are 0, and biases stay fp32. At most 4 of 100 pictures may
# get another digit than in fp32. The linear layer at the end is up to you.

# %% [markdown]
# Copy the file to `models/own_int8/1/model.onnx`, and deploy the folder, whose config is complete.
# `int8` is the file's bytes, for task 3; `served_int8` is the model's name. ONNX Runtime quantizes:
# `quantization.quantize_static(source, target, reader, …)`. The *reader* is an object whose
# `get_next()` returns the next batch of typical pictures, `{"image": batch}`, and None at the end.

# %% [markdown]
# Not all defaults of `quantize_static` suit TensorRT:
#
# | option | values |
# |---|---|
# | `quant_format` | `quantization.QuantFormat.QDQ` (the pairs above) or `QOperator` |
# | `activation_type`, `weight_type` | `quantization.QuantType.QUInt8` or `QInt8` |
# | `op_types_to_quantize` | a list, such as `["Conv"]`; by default more than TensorRT takes |
# | `per_channel` | True: a scale for each channel of a weight, in place of one for all |
# | `reduce_range` | True: a weight gets 7 of the 8 bits |
# | `extra_options` | a dict, in which each of these is True or False: |
# | … `"ActivationSymmetric"`, `"WeightSymmetric"` | True: zero points of 0 |
# | … `"QuantizeBias"` | False: biases stay fp32 |
#
# A processor without instructions for int8 (VNNI) adds two products in 16 bits. With weights of 8
# bits their sum may be too large, with 7 it fits. The judge's processor may be one of these.

# %% kind="solution" id="a5.quantize"
### BEGIN SOLUTION
### STUB int8 = ...  # content("int8.onnx")
### STUB served_int8 = ...  # deploy("models/own_int8").name


class Reader(quantization.CalibrationDataReader):
    """Hands out the calibration's pictures, 32 at a time."""

    def __init__(self):
        self.batches = iter(np.split(camera.calibration, 8))

    def get_next(self):
        batch = next(self.batches, None)
        return None if batch is None else {"image": batch}


quantization.quantize_static(
    "network.onnx",
    "int8.onnx",
    Reader(),
    quant_format=quantization.QuantFormat.QDQ,
    activation_type=quantization.QuantType.QInt8,
    weight_type=quantization.QuantType.QInt8,
    op_types_to_quantize=["Conv"],
    per_channel=True,
    reduce_range=True,
    extra_options={
        "ActivationSymmetric": True,
        "WeightSymmetric": True,
        "QuantizeBias": False,
        "OpTypesToExcludeOutputQuantization": ["Conv"],
    },
)
int8 = content("int8.onnx")
Path("models/own_int8/1/model.onnx").write_bytes(int8.tobytes())
served_int8 = deploy("models/own_int8").name
### END SOLUTION

# %% kind="check" id="a5.int8" points=20
check("a5.int8", me=me, model=served_int8)

# %% [markdown]
# ## Task 3: a TensorRT engine (15 points)
#
# TensorRT for RTX builds engines without a GPU. The check builds yours, from `fp16`, `int8` and
# `profile`, and looks at names, types, shapes and memory.
#
# First, `profile`: three batch sizes, with which `models/own_engine` could serve each engine. Read
# its config, then write `engines.profile_of({"image": (1, 32, 32)}, (smallest, optimum, largest))`.

# %% [markdown]
# Second, `largest`. Somebody wants larger requests than the config allows, and the GPU has
# `budget(me)` bytes left for activations. What is the largest batch for which the engine of
# `fp16.onnx` still fits? Vary the largest batch only: the smallest stays 1, and the optimum 8.
# `profile` stays as it is. The answer is between 32 and 1,024; without it, 9 points remain.

# %% [markdown]
# This builds an engine, in about a second:
#
# ```python
# built = engines.build(
#     Path("fp16.onnx"), Path("engine.plan"), shapes, by="rtx", compute_capabilities=["8.6"]
# )
# ```
#
# `shapes` is a profile. `built.record.activation_bytes` is the memory for activations; it grows
# with the largest batch.

# %% kind="given" id="a5.lacking"
print(f"{budget(me):,} bytes for activations.")
print(engines.lacking() or "TensorRT can build engines here.", engines.cannot_run())

# %% [markdown]
# If TensorRT for RTX is not installed on your machine (it is for Linux on x86-64), hand over
# `profile` alone: the check then looks at nothing else. For the marks, engines are built if it is
# installed there; then `largest` counts.
#
# **With an NVIDIA GPU** you can leave out `by` and `compute_capabilities`, build to
# `models/own_engine/1/model.plan`, and deploy the folder. (Not verified on a GPU.)

# %% kind="solution" id="a5.build"
### BEGIN SOLUTION
### STUB profile = ...  # engines.profile_of(…)
### STUB largest = NOT_ATTEMPTED
profile = engines.profile_of({"image": (1, 32, 32)}, (1, 8, 32))


def activations(batch):
    """The bytes that an engine for 1 to `batch` pictures takes."""
    shapes = engines.profile_of({"image": (1, 32, 32)}, (1, 8, batch))
    plan = Path("engine.plan")
    built = engines.build(Path("fp16.onnx"), plan, shapes, by="rtx", compute_capabilities=["8.6"])
    return built.record.activation_bytes


low, high = 32, 1025  # low fits, high does not
while high - low > 1:
    middle = (low + high) // 2
    if activations(middle) <= budget(me):
        low = middle
    else:
        high = middle
largest = low
print(f"Up to {largest} pictures fit.")
### END SOLUTION

# %% kind="check" id="a5.engine" points=15
check("a5.engine", me=me, fp16=fp16, int8=int8, profile=profile, largest=largest)

# %% [markdown]
# ## Task 4: OpenVINO, two ways (20 points)
#
# Now the hardware that you have. `own_plain` is complete, and the next cell deploys it: ONNX
# Runtime in fp32. Two more models serve the same network in OpenVINO. All take 1 to 32 pictures in
# a request, and the server refuses 33.

# %% kind="given" id="a5.plain"
Path("models/own_plain/1/model.onnx").write_bytes(network.file)
plain = deploy("models/own_plain").name

# %% [markdown]
# **By ONNX Runtime** (10 points): `own_accelerated` serves the same file. A block in its config
# hands the file to OpenVINO, on the CPU. Complete `models/own_accelerated/config.pbtxt`, copy
# `network.onnx` to `1/model.onnx` in that folder, and deploy it. ONNX Runtime asks OpenVINO for
# fp32, so the check wants the logits of fp32.

# %% kind="solution" id="a5.accelerate"
### BEGIN SOLUTION
### STUB accelerated = ...  # deploy("models/own_accelerated").name
Path("models/own_accelerated/1/model.onnx").write_bytes(network.file)
accelerated = deploy("models/own_accelerated").name
### END SOLUTION

# %% kind="check" id="a5.accelerated" points=10
check("a5.accelerated", me=me, model=accelerated)

# %% [markdown]
# **By the OpenVINO backend** (10 points): `own_ir` serves *IR*, OpenVINO's own format, in two
# files, `1/model.xml` and `1/model.bin`. `openvino.convert_model(path)` reads ONNX, and
# `openvino.save_model(model, path)` writes both; `path` is that of `model.xml`. Complete the
# config, too. This backend compiles for exactly one batch size: which parameter lets it take
# fewer pictures?

# %% [markdown]
# Nobody asks OpenVINO for a precision here. It computes in bf16 where the processor has
# instructions for it, else in fp32. And `save_model` rounds the weights to fp16 by default. bf16
# has 8 bits for the digits of a number, so this check allows what bf16 rounds.

# %% kind="solution" id="a5.convert_ir"
### BEGIN SOLUTION
### STUB ir = ...  # deploy("models/own_ir").name
openvino.save_model(openvino.convert_model("network.onnx"), "models/own_ir/1/model.xml")
ir = deploy("models/own_ir").name
### END SOLUTION

# %% kind="check" id="a5.ir" points=10
check("a5.ir", me=me, model=ir)

# %% [markdown]
# ## Task 5: what does each cost? (5 points)
#
# `cost(name)` loads a model three times, and sends it 1 and then 32 pictures, 25 times each. The
# shortest times count, in ms. No config limits the threads, so each model may use every core. One
# thing differs: in this course's server, OpenVINO computes in a process of its own, and requests
# are copied to it.


# %% kind="given" id="a5.cost"
def cost(name):
    """The shortest times of a model, in ms: of a load, of a request of 1 and of 32 pictures."""

    def shortest(times, action, before=lambda: None):
        took = []
        for _ in range(times):
            before()
            began = time.perf_counter()
            action()
            took.append(1000 * (time.perf_counter() - began))
        return min(took)

    def unload():
        client.unload_model(name)
        while client.is_model_ready(name):
            time.sleep(0.05)

    def request(count):
        tensor = grpc.InferInput("image", [count, 1, 32, 32], "FP32")
        tensor.set_data_from_numpy(camera.pictures[:count])
        return lambda: client.infer(name, [tensor])

    return {
        "load": shortest(3, lambda: client.load_model(name), before=unload),
        "one": shortest(25, request(1)),
        "full": shortest(25, request(32)),
    }


names = [name for name in (plain, served_int8, accelerated, ir) if name is not ...]
costs = {name: cost(name) for name in names}
for name, row in costs.items():
    print(f"{name:16}", *(f"{key} {value:7.1f} ms" for key, value in row.items()))

# %% [markdown]
# `costs` needs the models of tasks 2 and 4. Compute two answers from it. Do not copy numbers: for
# the marks, `costs` is measured again.
#
# - `earned`: `own_accelerated` usually takes longer to load than `own_plain`. After how many
#   requests of 32 pictures has it saved as much time as that? Write a whole number, rounded up or
#   down. If it does not take longer, nothing has to be earned: 0.
# - `fastest`: a dict. `"one"` is the name of the model with the shortest time for 1 picture, and
#   `"full"` for 32.

# %% kind="solution" id="a5.compute"
### BEGIN SOLUTION
### STUB earned = ...
### STUB fastest = ...
longer = costs[accelerated]["load"] - costs[plain]["load"]
saved = costs[plain]["full"] - costs[accelerated]["full"]
earned = max(0, math.ceil(longer / saved))
fastest = {size: min(costs, key=lambda name: costs[name][size]) for size in ("one", "full")}
print(earned, fastest)
### END SOLUTION

# %% kind="check" id="a5.costs" points=5
check(
    "a5.costs",
    me=me,
    model=accelerated,
    costs=costs,
    earned=earned,
    fastest=fastest,
)

# %% [markdown]
# ## Task 6: fast, and a bonus (15 points)
#
# Serve the network in `models/own_fast` as fast as you can, by ONNX Runtime or OpenVINO. Input
# and output stay, a request has up to 32 pictures, and at most 4 of 100 may get another digit
# than in fp32. It has to be at least twice as fast as ONNX Runtime in fp32; 1.3 times earns half
# of the points.

# %% [markdown]
# **The bonus**, which earns no points: at least 1.3 times as fast as OpenVINO in fp32, which is
# served like `own_accelerated`. On a processor without instructions for int8 (`avx512_vnni`,
# `avx_vnni`, `amx_int8`), at least as fast. Which of your files has OpenVINO not computed yet?

# %% [markdown]
# The check serves the other model itself. It sends 32 pictures to both, in turns, and compares
# the times that the server counts for computing (`compute_infer`). If it is *undecided*, the
# machine was too busy: run it again. On two cores of a Xeon, OpenVINO was 5 times as fast as ONNX
# Runtime in fp32.

# %% kind="solution" id="a5.serve_fast"
### BEGIN SOLUTION
### STUB fast = ...  # deploy("models/own_fast").name
openvino.save_model(openvino.convert_model("int8.onnx"), "models/own_fast/1/model.xml")
fast = deploy("models/own_fast").name
### END SOLUTION

# %% kind="check" id="a5.fast" points=15
check("a5.fast", me=me, model=fast)

# %% kind="check" id="a5.bonus" points=0
check("a5.bonus", me=me, model=fast)

# %% [markdown]
# **Your numbers for task 7.** For each model: its times in ms, how many of your 300 pictures get
# another digit than in fp32, and by how much the logits differ at most.

# %%
table = dict(costs)
if fast is not ...:
    table[fast] = cost(fast)
for name, row in table.items():
    parts = []
    for some in np.split(camera.pictures, 10):
        tensor = grpc.InferInput("image", [*some.shape], "FP32")
        tensor.set_data_from_numpy(some)
        parts.append(client.infer(name, [tensor]).as_numpy("logits"))
    found = np.concatenate(parts)
    changed = (found.argmax(1) != exact.argmax(1)).sum()
    print(f"{name:16}", *(f"{key} {value:7.1f} ms" for key, value in row.items()), end="  ")
    print(f"{changed:3} digits changed, logits by up to {abs(found - exact).max():.2g}")

# %% [markdown]
# ## Task 7: which would you serve where? (10 points)
#
# Three machines are to read digits: a small one like yours, with one picture in each request; a
# server with a recent processor, always with full batches; and one with a GPU, on which you
# measured nothing. What would you serve on each? Write about 150 words, with your own numbers from
# the cell above. Profile `network.onnx` and `int8.onnx` in ONNX Runtime as in lecture 3, notebook
# 06, `Where does the time go?`. A person reads your answer.
#
# | points | for |
# |---|---|
# | 3 | a choice for 1 and for 32 pictures, with times from `cost`, and why they differ |
# | 3 | int8 in ONNX Runtime and in OpenVINO: how the times compare with fp32, and why |
# | 2 | what changed in the answers: digits or logits, and in which precision |
# | 2 | the GPU: what your builds show, and what must still be measured there |

# %% [markdown] kind="written" id="a5.choice" points=10
# ### BEGIN SOLUTION
# (Figures of "self-study" on a Xeon with two processors and avx512_vnni; yours differ.) One picture
# at a time: own_accelerated, 0.9 ms instead of 1.1 with ONNX Runtime alone. own_ir takes 6 ms for
# one as for 32, since the backend fills the batch up with zeros. Full batches on the server:
# own_fast, int8 in OpenVINO, 2.9 ms; own_accelerated takes 4.1, own_plain 20.
#
# The same int8 file takes 26 ms in ONNX Runtime, more than fp32. Its profile says that Softplus
# takes more than half of that: a part of Mish, in fp32 as before. And the file as it is run still
# has four Conv in fp32, with conversions around them. OpenVINO computes a convolution with its
# activation in one program, and this processor has instructions for int8.
#
# Answers: in fp32 the logits are the same to 0.0001; in int8 they differ by up to 0.9, and 1 of 300
# digits changed, in ONNX Runtime and in OpenVINO: with reduce_range, on a processor without VNNI,
# too. How fast int8 is there I would measure again.
#
# The GPU: both engines build; fp16 needs the normalization in fp32, or all pictures look alike.
# For 37 MB of activations the largest batch is 225. Times, and the answers of the engines, must be
# measured on that GPU.
#
# **Rubric** (10 points)
#
# | points | for |
# |---|---|
# | 3 | a choice for one picture and for full batches, from own times; padding makes one cost 32 |
# | 3 | int8, as measured: in ONNX Runtime, Mish in fp32 takes the time; OpenVINO joins it to Conv |
# | 2 | own figures for changed digits or logits, with the precision they belong to |
# | 2 | the GPU: types, memory and fp16's range are known from builds; times and answers are not |
# ### END SOLUTION

# %% [markdown]
# **Before you hand in:** restart the kernel and run all cells from top to bottom; every check
# should say what you expect. Then run `workbook submit a5` in a terminal. What to remember: a file
# is not fast or slow by itself. The program that computes it decides, so measure both together, and
# look at the answers first.
