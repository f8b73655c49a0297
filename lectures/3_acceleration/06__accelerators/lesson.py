# ---
# title: Accelerators
# minutes: 30
# ---

# %% [markdown]
# # Accelerators
#
# **Question.** One line in a config hands the network to another compiler: OpenVINO on a CPU, TensorRT on a GPU. When does that pay?
#
# Triton's configs call such a compiler an *execution accelerator*, ONNX Runtime calls it a *provider*. [OpenVINO](https://github.com/triton-inference-server/onnxruntime_backend#onnx-runtime-with-openvino-optimization) runs here. This machine has no GPU, so of TensorRT we check only what works without one.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("accelerators")
place(models, "../04__compile/models/compiled", "models/night", "models/for_gpu")
place(models, "../05__precision/models/brain", name="by_backend")
setup.prepare(models)  # writes network.pt, and pictures.npy with 200 pictures
lab = laboratory(models, only=[])  # a Triton server of this notebook's own
setup.set_log(lab)  # TRITON_LOG: the file with its log

# %% [markdown]
# ## One line
#
# `compiled` is from [notebook 04](../04__compile/04__compile.ipynb): the network for sharp or blurred, ONNX Runtime, fp32. `mish` is a copy with [another activation](https://docs.pytorch.org/docs/stable/generated/torch.nn.Mish.html) in place of ReLU; it was not trained for it, so only its speed counts. A copy of each gets the line for OpenVINO. `by_backend` serves the file of `compiled` with [Triton's OpenVINO backend](../../2_backends/06__openvino/06__openvino.ipynb).

# %% tags=["triton"]
import torch
from torch import nn

network = torch.load(models / "network.pt", weights_only=False)
other = [nn.Mish() if isinstance(layer, nn.ReLU) else layer for layer in network]
# Mish(x) = x · tanh(ln(1 + eˣ)), ReLU(x) = max(0, x)
names = {"input_names": ["image"], "output_names": ["logits"]}
free = {"image": {0: "rows"}, "logits": {0: "rows"}}  # any number of pictures
for name, net in {"compiled": network, "mish": nn.Sequential(*other).eval()}.items():
    target = models / name / "1/model.onnx"
    target.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        net, (torch.zeros(1, 3, 64, 64),), target, **names, dynamic_axes=free, dynamo=False
    )

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp compiled/config.pbtxt mish
# cpu='cpu_execution_accelerator: [ { name: "openvino" } ]'
# for model in compiled mish; do
#   cp -rT --remove-destination $model ${model}_openvino
#   echo "optimization { execution_accelerators { $cpu } }" >> ${model}_openvino/config.pbtxt
# done
# mkdir -p by_backend/1; cp --remove-destination compiled/1/model.onnx by_backend/1
# tail -1 compiled_openvino/config.pbtxt
# for model in compiled mish compiled_openvino mish_openvino by_backend; do
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done
# words="s/.*'((compiled|mish)[a-z_]*)' version.* providers (.*), requests.*/\1: \3/p"
# sed -nE "$words" $TRITON_LOG | uniq | tail -4  # from the log: who computes, first choice first

# %%
predict(
    "accelerators.where",
    "One thread, one picture, fp32. Which network does OpenVINO compute at least 1.5 times as fast "
    "as ONNX Runtime?",
    {
        "both": "ONNX Runtime has fast programs for the convolution and the ReLU of `compiled`, and "
        "joins the two itself (notebook 04).",
        "only compiled": "Its operators are those for which ONNX Runtime has fast programs itself.",
        "only mish": None,
        "neither": "They are not equal in everything: each has operators for which its programs are "
        "slow. Look at `mish`.",
    },
)

# %% tags=["triton"]
import os

import numpy as np
import onnxruntime as ort
import pandas as pd
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
pictures = np.load(models / "pictures.npy")


def ask(model):
    """The model's logits for 200 pictures, eight in a request."""
    found = []
    for batch in np.split(pictures, 25):
        image = grpc.InferInput("image", batch.shape, "FP32").set_data_from_numpy(batch)
        found.append(client.infer(model, [image]).as_numpy("logits"))
    return np.concatenate(found)


# %% tags=["triton"]
drift, changed = {}, {}
pairs = {"compiled_openvino": "compiled", "mish_openvino": "mish", "by_backend": "compiled"}
for model, plain in pairs.items():  # the answers first, the times below
    answers, expected = ask(model), ask(plain)
    drift[model] = abs(answers - expected).max()
    changed[model] = (answers.argmax(1) != expected.argmax(1)).sum()  # verdicts: sharp or not
    print(f"{model}: logits differ by {drift[model]:.0e}, verdicts changed: {changed[model]}")

# %%
# without a server: one picture, one thread, both ways in turns; each the fastest of 60
times = setup.in_process(models / "compiled/1/model.onnx", models / "mish/1/model.onnx")
times[[setup.WITHOUT, setup.WITH, "gain"]].round(2)  # gain: the first divided by the second

# %%
gains = times["gain"]
won = list(gains.index[gains >= 1.5])
where = {0: "neither", 2: "both"}.get(len(won)) or f"only {won[0]}"
compare(
    "accelerators.where",
    where,
    premise=setup.compared(models / "mish/1/model.onnx", times, limit=1.5),
)
claim(
    drift["compiled_openvino"] < 1e-3 and changed["compiled_openvino"] == 0,
    "As accelerator, OpenVINO computes in fp32: the logits of compiled differ by "
    f"{drift['compiled_openvino']:.0e} at most, and no verdict has changed.",
    "Run the cells from the export on again.",
    id="accelerators.same",
)
claim(
    gains["mish"] > 1.5 * gains["compiled"],
    f"On one thread, OpenVINO computes mish {gains['mish']:.1f} times as fast, and compiled "
    f"{gains['compiled']:.2f} times.",
    "Close other programs, and run the cell before this one again.",
    premise=setup.compared(models / "mish/1/model.onnx", times),
    id="accelerators.gain",
)

# %% [markdown]
# `by_backend` may differ by more: the backend takes bf16 where the processor has it ([notebook 05](../05__precision/05__precision.ipynb)).
#
# ## Why?
#
# On request, ONNX Runtime writes a profile: how long each operator's program, its *kernel*, took. Without OpenVINO, each operator's quickest of 20 calls:

# %% tags=["triton"]
shares = {}
for model in ("compiled", "mish"):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.enable_profiling = 1, True
    options.profile_file_prefix = str(models / "profile")
    file = models / model / "1/model.onnx"
    session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    for _ in range(20):
        session.run(None, {"image": pictures[:1]})
    events = pd.read_json(session.end_profiling())
    kernels = events[events["name"].str.endswith("_kernel_time")]
    quickest = kernels.groupby([kernels["args"].str["op_name"], "name"])["dur"].min()
    spent = quickest.groupby(level=0).sum()
    shares[model] = spent / spent.sum()
    print(f"{model}:", ", ".join(f"{k} {s:.0%}" for k, s in shares[model].nlargest(3).items()))

# %%
claim(
    shares["mish"]["Softplus"] > 1 / 3 and shares["compiled"]["Conv"] > 1 / 2,
    f"Of ONNX Runtime's time, Softplus, the ln(1 + eˣ) of mish, takes {shares['mish']['Softplus']:.0%}."
    f" In compiled, convolutions take {shares['compiled']['Conv']:.0%}.",
    "Run the cell above again.",
    id="accelerators.profile",
)

# %% [markdown]
# In ONNX Runtime, Softplus alone takes longer than OpenVINO needs for all of `mish`. `compiled` is nearly all convolutions, and there the two are alike. So profile before you add an accelerator. An operator with the share *s* limits what a faster program for it can gain to 1 / (1 - *s*): with 75%, to ×4.

# %% [markdown]
# ## On the server
#
# In this course's Triton, a model with OpenVINO computes in a process of its own, and requests are copied to it. NVIDIA's library computes inside the server, like our plain models. Each instance with OpenVINO gets an equal share of the cores (see the log), without it one thread. `by_backend` has one instance, the others two.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS  # 1 and 8 clients; a warning about a small sample does no harm
# for turn in 1 2 3; do  # in turns, because other programs may disturb one
#   for model in compiled compiled_openvino mish mish_openvino by_backend; do
#     shape=$([ $model = by_backend ] && echo --shape image:1,3,64,64)  # its config leaves it open
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC --concurrency-range 1:8:7 \
#       --input-data zero $shape -p 300 -s 1000 -r 3 -f $model.$turn.csv > /dev/null
#   done
# done

# %%
served = setup.served(models, [*pairs.values(), *pairs])
served.round(2)  # compute: the server's count, 1 client; pictures per second, 1 and 8 clients

# %%
compute = served["compute, ms"]
claim(
    served["compute, ms"]["mish"] > 1.2 * served["compute, ms"]["mish_openvino"],
    "In fp32, and with the copying, mish is computed "
    f"{compute['mish'] / compute['mish_openvino']:.1f} times as fast, and compiled "
    f"{compute['compiled'] / compute['compiled_openvino']:.2f} times.",
    "Run the cell with perf_analyzer again.",
    premise=setup.compared(models / "mish/1/model.onnx", times),
    id="accelerators.served",
)

# %% [markdown]
# A [published](https://github.com/triton-inference-server/tutorials/tree/main/Conceptual_Guide/Part_4-inference_acceleration) example on a GPU, text recognition in batches of 16: 4,258 per second with CUDA in fp32, 11,820 with TensorRT in *fp16*. Two things changed at once: a part of this ×2.8 may be precision.
#
# ## An optimized file
#
# ONNX Runtime joins operators before it computes. Notebook 04 wrote the result into a file. Somebody serves it:

# %% tags=["triton"]
import onnx

joined = models / "joined/1/model.onnx"
joined.parent.mkdir(parents=True, exist_ok=True)
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
options.optimized_model_filepath = str(joined)
ort.InferenceSession(models / "compiled/1/model.onnx", options, providers=["CPUExecutionProvider"])
print(*(f"{node.domain}:{node.op_type}".strip(":") for node in onnx.load(joined).graph.node))

# %%
predict(
    "accelerators.pieces",
    "How fast does OpenVINO compute the joined file, compared with the exported one?",
    {
        "faster: two compilers have worked on it": "The second one sees the first one's result, and "
        "does not know its operators.",
        "as fast: it joins the same operators itself": "It would, but it does not know FusedConv, "
        "an operator of ONNX Runtime's own.",
        "slower": None,
    },
)

# %%
pieces = setup.parts(joined)  # ONNX Runtime's record, not in the order of the graph
both = setup.in_process(models / "compiled/1/model.onnx", joined)
print(both[[setup.WITHOUT, setup.WITH]].round(2))
pieces

# %%
longer = both[setup.WITH]["joined"] / both[setup.WITH]["compiled"]
speed = "slower" if longer > 1.1 else "as fast: it joins the same operators itself"
speed = "faster: two compilers have worked on it" if longer < 0.9 else speed
compare("accelerators.pieces", speed, premise=setup.compared(joined, both))
claim(
    len(pieces) > 4 and longer > 1.05,
    f"The joined file falls into {len(pieces)} parts. With OpenVINO, a picture takes {longer:.2f} "
    "times as long as with the exported file.",
    "Run the cells of this section again.",
    premise=setup.compared(joined, both),
    id="accelerators.pieces",
)

# %% [markdown]
# OpenVINO does not know `FusedConv`, so the convolutions stay with ONNX Runtime. The graph is cut, and each change between the two costs time. The log names the providers, but not their operators. TensorRT [cuts graphs](https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html), too. Serve the file as exported.
#
# ## What the load costs
#
# Compiling happens when a file is opened. `times` has this, too:

# %%
alone, with_it = times["opened without, ms"], times["opened with, ms"]
claim(
    (times["opened with, ms"] > 2 * times["opened without, ms"]).all()
    and times["requests to earn it"]["mish"] < 1000,
    f"To open compiled took {alone['compiled']:.0f} ms, with OpenVINO {with_it['compiled']:.0f} ms; "
    f"mish {alone['mish']:.0f} and {with_it['mish']:.0f} ms. At what mish saves per request, that is "
    f"earned after {times['requests to earn it']['mish']:.0f} requests.",
    "Close other programs, and run the cells from the first table of times on again.",
    premise=setup.compared(models / "mish/1/model.onnx", times),
    id="accelerators.load",
)

# %% [markdown]
# To earn the load: its additional ms, divided by the ms saved per request.
#
# OpenVINO can keep the compiler's result in a folder, `CACHE_DIR`. We compile three times without it, four times with it. The first time also loads the library, the fourth fills the folder:

# %% tags=["triton"]
import shutil
import time

import openvino as ov

shutil.rmtree(models / "cache", ignore_errors=True)
compiling, kept = [], []
for settings in 3 * [{}] + 4 * [{"CACHE_DIR": str(models / "cache")}]:
    core = ov.Core()
    core.set_property(settings)
    began = time.perf_counter()
    ready = core.compile_model(models / "mish/1/model.onnx", "CPU")
    compiling.append(1000 * (time.perf_counter() - began))
    kept.append(ready.get_property("LOADED_FROM_CACHE"))
    print(f"{compiling[-1]:3.0f} ms, {'from' if kept[-1] else 'not from'} the cache")

# %%
claim(
    kept == 4 * [False] + 3 * [True] and min(compiling[4:]) < 0.9 * min(compiling[:4]),
    f"From the cache, mish is ready in {min(compiling[4:]) / min(compiling[:4]):.0%} of the time, "
    "the quickest of each compared.",
    "Run the cell above again.",
    id="accelerators.cache",
)

# %% [markdown]
# In Triton 24.10 a config cannot set this: [as accelerator](https://github.com/triton-inference-server/onnxruntime_backend/blob/r24.10/src/onnxruntime.cc) OpenVINO gets no parameters, and the [OpenVINO backend](https://github.com/triton-inference-server/openvino_backend/blob/main/src/openvino.cc) has none for a cache. The accelerator `tensorrt` has one: see below.
#
# ## The block for a GPU
#
# [The acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) add TensorRT to the config of an ONNX model, "a simple solution". As printed, its braces are wrong:

# %%
show("models/for_gpu/config.as_printed.pbtxt")
predict(
    "accelerators.gpu",
    "With correct braces, and on this machine without a GPU: what does the server do with it?",
    {
        "it refuses the model": "It would, if the config asked for an instance on a GPU: KIND_GPU.",
        "it loads the model, and leaves TensorRT out": None,
        "it loads the model, and TensorRT computes on the CPU": "TensorRT has programs for GPUs only.",
    },
)

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS/for_gpu
# cp --remove-destination ../compiled/1/model.onnx 1
# load() {
#   echo "$1:"; curl -sX POST $TRITON_HTTP/v2/repository/models/for_gpu/load -w 'HTTP %{http_code}\n'
# }
# {
#   cp config.as_printed.pbtxt config.pbtxt; load "as printed"
#   grep -oE "Error parsing.*" $TRITON_LOG | tail -1
#   sed -e 's/: \[$/: [ {/' -e 's/^  \]/  } ]/' config.as_printed.pbtxt > config.pbtxt
#   load "with braces"
#   sed -n "s/.*'for_gpu' version.* providers \([A-Za-z]*\).*/log: \1/p" $TRITON_LOG | tail -1
#   echo 'instance_group { kind: KIND_GPU }' >> config.pbtxt; load "for an instance on a GPU"
# } | tee replies.txt

# %%
loaded = "with braces:\nHTTP 200" in (models / "for_gpu/replies.txt").read_text()
refused = "no GPUs are available" in (models / "for_gpu/replies.txt").read_text()
gpu = "it loads the model, and leaves TensorRT out" if loaded else "it refuses the model"
no_gpu = Premise(refused, "this machine has a GPU")
compare("accelerators.gpu", gpu, premise=no_gpu)
claim(
    loaded and setup.providers(lab, "for_gpu").startswith("CPU"),
    "With braces the server loads the model, and ONNX Runtime computes alone. It refuses an "
    "instance on a GPU.",
    "Run the cell with the three configs again.",
    premise=no_gpu,
    id="accelerators.gpu",
)

# %% [markdown]
# The list for GPUs [is read](https://github.com/triton-inference-server/onnxruntime_backend/blob/r24.10/src/onnxruntime.cc) for instances on a GPU only. So a server without its GPU computes on the CPU, and gives no warning. With `KIND_GPU` it refuses.
#
# TensorRT compiles a network to an *engine*. Today's block keeps the engines that a load builds. [trtexec](../../2_backends/10__tensorrt/10__tensorrt.ipynb#A-command-line) builds one before the load:

# %%
show("models/for_gpu/today.pbtxt", "models/for_gpu/build.sh")

# %% tags=["triton"]
# TensorRT for RTX builds engines without a GPU. In NVIDIA's container: import tensorrt as trt
import tensorrt_rtx as trt

builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))


def build(file):
    """An engine for 1 to 16 pictures, or the reason why there is none."""
    # strongly typed: each layer computes in the type that the file gives, here fp32
    flag = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    definition = builder.create_network(flag)
    parser = trt.OnnxParser(definition, trt.Logger(trt.Logger.INTERNAL_ERROR))
    if not parser.parse_from_file(str(file)):
        return f"refused: {parser.get_error(0).node_operator()}"
    shapes, config = builder.create_optimization_profile(), builder.create_builder_config()
    shapes.set_shape("image", *((rows, 3, 64, 64) for rows in (1, 8, 16)))
    config.add_optimization_profile(shapes)
    return bytes(builder.build_serialized_network(definition, config))


# %% tags=["triton"]
plan = models / "as_engine.plan"
building, reading = [], []
for _ in range(3):
    began = time.perf_counter()
    plan.write_bytes(build(models / "compiled/1/model.onnx"))
    building.append(time.perf_counter() - began)
    began = time.perf_counter()
    plan.read_bytes()
    reading.append(time.perf_counter() - began)
print(f"built in {1000 * min(building):.0f} ms, its file read in {1000 * min(reading):.1f} ms")
print("the joined file:", build(models / "joined/1/model.onnx"))

# %%
claim(
    min(building) > 5 * min(reading),
    f"A kept engine saves its build, {1000 * min(building):.0f} ms here: reading its file takes "
    f"{min(reading) / min(building):.1%} of that. What the GPU does with it is not measured.",
    "Run the cell above again.",
    id="accelerators.engine",
)

# %% [markdown]
# TensorRT's own parser refuses the joined file.
#
# TensorRT needs a GPU, and times its programs there. A large network opened in 384 s, with kept engines in 9 s ([published](https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html)). Keep `/cache` on a disk that outlives the container. Empty it when model, version or GPU change.
#
# ## Mistakes
#
# Which of four wrong lines does the server refuse?

# %%
wrong = setup.mistakes(lab)
wrong

# %%
claim(
    len(wrong.refused) == 2 and lab.ready("compiled_openvino"),
    "Two of four are refused. Two are loaded, as if nothing were wrong: on the CPU the list for "
    "GPUs is not read, and OpenVINO gets no parameters. The model itself still serves.",
    "Read above what the server loads.",
    id="accelerators.mistakes",
)

# %% [markdown]
# ## The step
#
# From `compiled` to `compiled_openvino`, with eight clients:

# %%
from workbook.lessons import scoreboard

what = "OpenVINO in ONNX Runtime"
scoreboard.add(lab, "accelerators", before="compiled", after="compiled_openvino", what=what)
scoreboard.draw()

# %% [markdown]
# If the bar is lower than before: OpenVINO computes `compiled` no faster, and its own process costs time. The next notebooks go on with `compiled`.
#
# ## Your turn
#
# Somebody prepared `night` for speed: a [config](models/night/config.pbtxt) and a file. Each has a mistake from this notebook. In a cell of your own, correct both in `$TRITON_MODELS/night`, then run this one:

# %%
setup.night(models)  # writes the file if there is none
lab.load("night")
task("accelerators.whole", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# Who takes how many operators, what is gained, and after how many requests is the load earned? The program opens the file once, so the last number varies.

# %%
show("at_work/does_it_pay.py")

# %% tags=["triton"]
# %run at_work/does_it_pay.py {models}/mish/1/model.onnx {models}/pictures.npy 1

# %% [markdown]
# ## What to remember
#
# - An accelerator pays where the framework's own programs are slow. Profile first.
# - Check who computes: a block may have no effect (the log), and a graph may be cut into pieces (count the operators).
# - Compare answers, precision and load time. Keep TensorRT's engines in a cache.

# %% [markdown]
# ## Check yourself
#
# <details><summary>After a move to other machines, a model with the block for TensorRT is ten times slower, and no log has an error. What do you look at?</summary>
#
# The kind of its instances. Without a GPU and `KIND_GPU`, the list for GPUs is not read.
#
# </details>
#
# <details><summary>A tutorial shows ×2.8 with TensorRT in fp16, over fp32. What would you measure?</summary>
#
# TensorRT in fp32, too, and the changed verdicts in fp16. Then you know which part is the compiler's.
#
# </details>
#
# <details><summary>With OpenVINO as accelerator a model is slower than without. Name two reasons.</summary>
#
# It takes only some operators, and each change between the parts costs time. Or ONNX Runtime's own programs are as fast, and copies to another process cost time.
#
# </details>
