# ---
# title: Accelerators
# minutes: 28
# ---

# %% [markdown]
# # Accelerators
#
# **Question.** One line in a config hands a network to another compiler. When does that pay?
#
# Triton's configs call such a compiler an *execution accelerator*: a library that translates the network into programs of its own. On a CPU it is [OpenVINO](https://github.com/triton-inference-server/onnxruntime_backend#onnx-runtime-with-openvino-optimization), which runs here. On an NVIDIA GPU it is TensorRT; of it we only see the config.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("accelerators")
place(models, "../04__compile/models/compiled", "models/night", "models/for_gpu")
setup.prepare(models)  # writes network.pt, and pictures.npy with 200 pictures
setup.take_two_cores()  # one for each of a model's two instances
lab = laboratory(models, only=[])  # a Triton server of this notebook's own
setup.set_log(lab)  # TRITON_LOG: the file with its log

# %% [markdown]
# ## Two networks
#
# `compiled` is the network of [notebook 04](../04__compile/04__compile.ipynb): is a picture sharp or blurred? ONNX Runtime computes it in fp32, numbers of 32 bits.
#
# `mish` is a copy with another activation: [Mish](https://docs.pytorch.org/docs/stable/generated/torch.nn.Mish.html), x · tanh(ln(1 + eˣ)), replaces ReLU, max(0, x). It was not trained so, and only its speed counts. We export both:

# %% tags=["triton"]
import torch
from torch import nn

network = torch.load(models / "network.pt", weights_only=False)
other = [nn.Mish() if isinstance(layer, nn.ReLU) else layer for layer in network]
names = {"input_names": ["image"], "output_names": ["logits"]}
free = {"image": {0: "rows"}, "logits": {0: "rows"}}  # any number of pictures
for name, net in {"compiled": network, "mish": nn.Sequential(*other).eval()}.items():
    target = models / name / "1/model.onnx"
    target.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        net, (torch.zeros(1, 3, 64, 64),), target, **names, dynamic_axes=free, dynamo=False
    )

# %% [markdown]
# ## One line
#
# We copy each of the two models. The copy's config gets one more line, printed below: a list of accelerators for instances on a CPU. Then we load all four.
#
# The log says who computes each model, the *provider*: here OpenVINO or ONNX Runtime itself, `CPUExecutionProvider`. (NVIDIA's [writes](https://github.com/triton-inference-server/onnxruntime_backend/blob/r24.10/src/onnxruntime.cc) `OpenVINO Execution Accelerator is set`, and only with `--log-verbose=1`.)

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp compiled/config.pbtxt mish
# cpu='cpu_execution_accelerator: [ { name: "openvino" } ]'
# for model in compiled mish; do
#   cp -rT --remove-destination $model ${model}_openvino
#   echo "optimization { execution_accelerators { $cpu } }" >> ${model}_openvino/config.pbtxt
# done
# tail -1 compiled_openvino/config.pbtxt
# for model in compiled mish compiled_openvino mish_openvino; do
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done

# %% language="bash" tags=["triton"]
# grep -o "'.* providers [A-Za-z]*" $TRITON_LOG | sed "s/ version.* providers/:/" | sort -u

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
        "neither": "ONNX Runtime's programs are not equally fast for all operators. Look at `mish`.",
    },
)

# %%
# no server, so no copies: one picture, one thread, in turns; each the fastest of 60
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
    gains["mish"] > 1.5 * gains["compiled"],
    f"On one thread, OpenVINO computes mish {gains['mish']:.1f} times as fast as ONNX Runtime, and "
    f"compiled {gains['compiled']:.2f} times as fast.",
    "Close other programs, and run the cell before this one again.",
    premise=setup.compared(models / "mish/1/model.onnx", times),
    id="accelerators.gain",
)

# %% [markdown]
# ## Are the answers the same?
#
# A faster model is of use only if its answers stay. We send 200 pictures to `mish` and `mish_openvino`, and compare the *logits*, the network's two outputs. The larger one is the verdict, sharp or blurred. `mish` was not trained, so we compare the verdicts of `compiled`:

# %% tags=["triton"]
import os

import numpy as np
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


drift = abs(ask("mish_openvino") - ask("mish")).max()
changed = (ask("compiled_openvino").argmax(1) != ask("compiled").argmax(1)).sum()
print(f"logits of mish differ by {drift:.0e} at most; verdicts of compiled changed: {changed}")

# %%
claim(
    drift < 1e-3 and changed == 0,
    f"The logits of mish differ by {drift:.0e} at most, as numbers in fp32 may. Of compiled, no "
    "verdict has changed.",
    "Run the cells from the export on again.",
    id="accelerators.same",
)

# %% [markdown]
# ## Where does the time go?
#
# ONNX Runtime can write a *profile*: how long each operator took. An operator is a step of the network, such as a convolution. We let it compute one picture 100 times without OpenVINO, and add up the times of each kind of operator:

# %% tags=["triton"]
import onnxruntime as ort
import pandas as pd

shares = {}
for model in ("compiled", "mish"):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.enable_profiling = 1, True
    options.profile_file_prefix = str(models / "profile")
    session = ort.InferenceSession(models / model / "1/model.onnx", options)
    for _ in range(100):
        session.run(None, {"image": pictures[:1]})
    events = pd.read_json(session.end_profiling())
    events = events[events["name"].str.endswith("_kernel_time")]  # an operator's computation
    spent = events.groupby(events["args"].str["op_name"])["dur"].sum()
    shares[model] = (spent / spent.sum()).sort_values(ascending=False)
    print(f"{model}:", ", ".join(f"{kind} {s:.0%}" for kind, s in shares[model][:3].items()))

# %%
claim(
    shares["mish"]["Softplus"] > shares["mish"]["Conv"] and shares["compiled"]["Conv"] > 1 / 2,
    f"For mish, Softplus, the ln(1 + eˣ), takes {shares['mish']['Softplus']:.0%} of ONNX Runtime's "
    f"time, and convolutions take {shares['mish']['Conv']:.0%}. For compiled, convolutions take "
    f"{shares['compiled']['Conv']:.0%}.",
    "Run the cell above again.",
    id="accelerators.profile",
)

# %% [markdown]
# A large share alone does not mean slow: OpenVINO computes the convolutions of `compiled` no faster. But per number that it writes, Softplus takes a few steps, a convolution here about 190, and yet Softplus takes longer: its program is slow. Look for such an operator first: no weights, a large share.

# %% [markdown]
# ## On the server
#
# Does the gain stay? perf_analyzer now sends one picture at a time to each model. Each instance has one thread.
#
# With OpenVINO, this course's Triton copies requests to another process. NVIDIA's does not, but there each instance takes all cores: begin with `count: 1`.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for turn in 1 2 3; do  # in turns, because other programs may disturb one
#   for model in compiled compiled_openvino mish mish_openvino; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC --input-data zero \
#       -p 500 -s 1000 -r 3 -f $model.$turn.csv > /dev/null  # three windows of 0.5 s
#   done
# done

# %%
served = setup.served(models, ["compiled", "compiled_openvino", "mish", "mish_openvino"])
served.round(2)  # of the best turn: ms that the server computed, pictures per second

# %%
compute = served["compute, ms"]
claim(
    compute["mish"] > 1.2 * compute["mish_openvino"],
    "On the server, with the copying, OpenVINO computes mish "
    f"{compute['mish'] / compute['mish_openvino']:.1f} times as fast as ONNX Runtime, and compiled "
    f"{compute['compiled'] / compute['compiled_openvino']:.2f} times as fast.",
    "Run the cell with perf_analyzer again.",
    premise=setup.compared(models / "mish/1/model.onnx", times),
    id="accelerators.served",
)

# %% [markdown]
# ## An optimized file
#
# In notebook 04, ONNX Runtime joined each convolution with its ReLU, and chose a layout for the processor. Without that layout, the two become one operator, `FusedConv`. Is such a file the better start for OpenVINO? We write it, and print its operators:

# %% tags=["triton"]
import onnx

joined = models / "joined/1/model.onnx"
joined.parent.mkdir(parents=True, exist_ok=True)
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED  # no layout
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
both = setup.in_process(models / "compiled/1/model.onnx", joined)
print(both[[setup.WITHOUT, setup.WITH]].round(2))
pieces = setup.parts(joined)  # of the joined file: who computes which operators
pieces

# %%
longer = both[setup.WITH]["joined"] / both[setup.WITH]["compiled"]
speed = "slower" if longer > 1.05 else "as fast: it joins the same operators itself"
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
# OpenVINO does not know `FusedConv`, an operator of ONNX Runtime's own. So ONNX Runtime keeps the convolutions. The network is cut into parts, and each change between the two libraries costs time.
#
# The server's log does not show this; the program at the end does. Give an accelerator the file as exported.

# %% [markdown]
# ## What the load costs
#
# OpenVINO compiles the network when its file is opened. In NVIDIA's container it compiles again at the first request of each new shape, so [warm up](../../1_architecture/07__model_repository_manager/07__model_repository_manager.ipynb#Warm-up) there.
#
# The first measurement has timed the opening, too. Its extra ms, divided by the ms that a request saves, give the number of requests that earn it back:

# %%
times[["opened without, ms", "opened with, ms", "requests to earn it"]].round()  # inf: never

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
# ## The block for a GPU
#
# For TensorRT, [the acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) add this block to the config of an ONNX model. The config has no `instance_group`:

# %%
show("models/for_gpu/config.pbtxt")
predict(
    "accelerators.gpu",
    "This machine has no GPU. What does the server do with the model?",
    {
        "it refuses the model": "It would, if the config asked for an instance on a GPU: KIND_GPU.",
        "it loads the model, and leaves TensorRT out": None,
        "it loads the model, and TensorRT computes on the CPU": "TensorRT has programs for GPUs only.",
    },
)

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp --remove-destination compiled/1/model.onnx for_gpu/1
# curl -sX POST $TRITON_HTTP/v2/repository/models/for_gpu/load -w 'HTTP %{http_code}\n' | tee reply.txt
# grep -o "'for_gpu.* providers [A-Za-z]*" $TRITON_LOG | sed "s/ version.* providers/:/" | tail -1

# %%
loaded = (models / "reply.txt").read_text() == "HTTP 200\n"
gpu = "it loads the model, and leaves TensorRT out" if loaded else "it refuses the model"
compare("accelerators.gpu", gpu, premise=setup.no_gpu(lab))
claim(
    loaded and setup.providers(lab, "for_gpu").startswith("CPU"),
    "The server loads for_gpu, and ONNX Runtime computes alone.",
    "Run the cell before this one again.",
    premise=setup.no_gpu(lab),
    id="accelerators.gpu",
)

# %% [markdown]
# The list for GPUs [is read](https://github.com/triton-inference-server/onnxruntime_backend/blob/r24.10/src/onnxruntime.cc) for instances on a GPU only. So a server that has lost its GPU computes on the CPU, and the load says `HTTP 200`. With `KIND_GPU` it refuses the model, and you notice:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp -rT --remove-destination for_gpu on_gpu
# echo 'instance_group { kind: KIND_GPU }' >> on_gpu/config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/on_gpu/load | tee refusal.txt

# %%
claim(
    "no GPUs are available" in (models / "refusal.txt").read_text(),
    "The server refuses on_gpu, whose instance must be on a GPU.",
    "Run the cell before this one again.",
    premise=setup.no_gpu(lab),
    id="accelerators.kind",
)

# %% [markdown]
# <details><summary>Errata: the acceleration slides</summary>
#
# The slides print the block without the inner braces, which the list's entry needs.
#
# </details>
#
# TensorRT compiles a network into an *engine* for one kind of GPU, and tries many programs: a large network opened in 384 s, with a kept engine in 9 s ([published](https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html)). Without ONNX Runtime, [trtexec](../../2_backends/10__tensorrt/10__tensorrt.ipynb#A-command-line) builds one beforehand. ONNX Runtime keeps engines with this config; empty `/cache` for a new model, GPU, TensorRT or ONNX Runtime:

# %%
show("models/for_gpu/today.pbtxt")

# %% [markdown]
# ## The step
#
# How far does OpenVINO bring the course's own network? From `compiled` to `compiled_openvino`, with eight clients. OpenVINO computes `compiled` about as fast as ONNX Runtime, so a lower bar is mostly this course's copying. The next notebooks go on with `compiled`.

# %%
from workbook.lessons import scoreboard

what = "OpenVINO in ONNX Runtime"
scoreboard.add(lab, "accelerators", before="compiled", after="compiled_openvino", what=what)
scoreboard.draw()

# %% [markdown]
# ## Your turn
#
# Somebody prepared the model `night` for OpenVINO. Its config and its ONNX file have a mistake each, both from this notebook. Run the cell with `task`: it writes the ONNX file. Then correct both in `$TRITON_MODELS/night`, in a new cell, and run the cell with `task` again:

# %%
setup.night(models)  # writes the ONNX file if there is none
lab.load("night")
task("accelerators.whole", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# For an ONNX file of your own: how many operators does OpenVINO take, how far do the answers move, what is gained, and after how many requests is the load earned (this varies)? Outside this notebook, the program needs an Intel processor; on AMD, compare two models on the server, as above.

# %%
show("at_work/does_it_pay.py")

# %% tags=["triton"]
# %run at_work/does_it_pay.py {models}/mish/1/model.onnx {models}/pictures.npy 1

# %% [markdown]
# ## What to remember
#
# - An accelerator pays where the framework's own programs are slow. Profile: which operator takes long, and computes little?
# - Check who computes: a block may have no effect (the log), a graph may be cut into pieces (count its operators).
# - Compare the answers. Compare the load time with what a request saves. Keep TensorRT's engines in a cache.

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
