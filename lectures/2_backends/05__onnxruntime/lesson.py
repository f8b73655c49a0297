# ---
# title: The ONNX Runtime backend
# minutes: 30
# ---

# %% [markdown]
# # The ONNX Runtime backend
#
# **Question.** A network was trained in PyTorch. As an ONNX file it can be served without PyTorch, on a CPU or a GPU. Which file, which names and which settings does Triton want?
#
# It fits most trained networks. It does not fit programs: loops and conditions of Python are not in the file.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = setup.models()  # a repository with a network, pictures and two configs
lab = laboratory(models, only=[])  # a Triton server of this notebook's own

# %% [markdown]
# ## Export
#
# The network tells whether a piece of a photo is sharp. Name its tensors, because the config and the clients use these names. Free the batch, because otherwise the file takes exactly as many rows as the example has. The second call is that of older programs: its exporter records what one example does.

# %% tags=["triton"]
import numpy as np
import torch

net = torch.load(models / "network.pt", weights_only=False)  # our own file, so we trust it
pictures = np.load(models / "pictures.npy")  # float32 (200, 3, 64, 64)
example = (torch.from_numpy(pictures[:2]),)
new, old = models / "focus_onnx/1/model.onnx", models / "older/1/model.onnx"
names = {"input_names": ["image"], "output_names": ["logits"], "verbose": False}

# external_data=False: the weights are in the file, and not in a second one, model.onnx.data
free = ({0: torch.export.Dim("batch")},)
torch.onnx.export(net, example, new, dynamic_shapes=free, external_data=False, **names)
axes = {"image": {0: "batch"}, "logits": {0: "batch"}}
torch.onnx.export(net, example, old, dynamic_axes=axes, dynamo=False, **names)

# %% tags=["triton"]
import onnx
import onnxruntime as ort

options = ort.SessionOptions()
options.intra_op_num_threads = 1
with torch.inference_mode():
    expected = net(torch.from_numpy(pictures)).numpy()
apart = []
for file in (new, old):
    session = ort.InferenceSession(file, options)
    apart.append(np.abs(session.run(None, {"image": pictures})[0] - expected).max())
    shape, version = session.get_inputs()[0].shape, onnx.load(file).opset_import[0].version
    print(f"{file.parts[-3]}: image {shape}, operator set {version}, differs by {apart[-1]:.0e}")

# %% [markdown]
# ## What it fills in
#
# From the file, the backend completes a config of one line:

# %% tags=["triton"]
import os

import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
(models / "older/config.pbtxt").write_text('platform: "onnxruntime_onnx"')
client.load_model("older")
filled = client.get_model_config("older", as_json=True)["config"]
for field in ("max_batch_size", "input", "dynamic_batching", "instance_group"):
    print(field, filled.get(field))

# %%
claim(
    max(apart) < 1e-3,
    f"Both files answer like PyTorch: logits differ by {max(apart):.0e} at most.",
    "Run the cells above again.",
    id="onnxruntime.exporters",
)
claim(
    filled["max_batch_size"] == 4 and "dynamic_batching" in filled,
    "It fills in the tensors, max_batch_size 4 and dynamic batching.",
    "Look at the config above: where the server was started otherwise, it may differ.",
    id="onnxruntime.filled",
)

# %% [markdown]
# `max_batch_size` is the backend's [default](https://github.com/triton-inference-server/onnxruntime_backend#default-max-batch-size). There is one instance per GPU, or two on the CPU. Write what your model needs:

# %% language="bash" tags=["triton"]
# cat > $TRITON_MODELS/focus_onnx/config.pbtxt <<'END'
# platform: "onnxruntime_onnx"
# max_batch_size: 8
# input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] } ]
# output [ { name: "logits" data_type: TYPE_FP32 dims: [ 2 ] } ]
# dynamic_batching { }
# instance_group [ { kind: KIND_CPU count: 1 } ]
# parameters { key: "intra_op_thread_count" value: { string_value: "1" } }
# END
# curl -sX POST $TRITON_HTTP/v2/repository/models/focus_onnx/load

# %% tags=["triton"]
image = grpc.InferInput("image", [8, 3, 64, 64], "FP32")
image.set_data_from_numpy(pictures[:8])
logits = client.infer("focus_onnx", [image]).as_numpy("logits")
print(logits.round(2)[:2], logits.argmax(1))  # 0: blurred, 1: sharp

# %%
from workbook.lessons import formats

row = setup.measured(lab, new)  # a row of this lecture's table; 10 to 30 seconds
claim(
    row.changed == 0,
    f"No verdict changed. {row.served}",
    "Close other programs, and run this cell again.",
    premise=row.repeated,
    id="onnxruntime.served",
)
formats.table()

# %% [markdown]
# ## A model from a slide
#
# [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) export a model of one layer, and print its config. Does the server load them?


# %% tags=["triton"]
class SimpleModel(torch.nn.Module):
    def __init__(self):
        super(SimpleModel, self).__init__()  # noqa: UP008
        self.fc = torch.nn.Linear(5, 1)

    def forward(self, x):
        return torch.sigmoid(self.fc(x))


simple, slide = SimpleModel(), models / "onnx_model/1/model.onnx"
exported = torch.onnx.export(simple, torch.randn(1, 5), slide, verbose=False)

# %%
show("models/onnx_model/config.as_printed.pbtxt")
printed = setup.load_as_printed(lab)  # as printed, then with one correction after the other
printed

# %% [markdown]
# Now the *file* is refused. The exporter wrote down the batch of its example, 1, and named the input like the argument of `forward`, the output after the last operator. So export as above:

# %% tags=["triton"]
own = {"input_names": ["input"], "output_names": ["output"], "verbose": False}
torch.onnx.export(simple, (torch.randn(2, 5),), slide, dynamic_shapes=free, **own)
client.load_model("onnx_model")
print(client.get_model_metadata("onnx_model"))

# %%
claim(
    len(printed.refused) == 3 and lab.ready("onnx_model"),
    "The slides' config was refused in three steps; with the new file it is served.",
    "Run the cells of this section again.",
    id="onnxruntime.document",
)

# %% [markdown]
# <details><summary>Errata: the backend slides</summary>
#
# The printout of the config lost the braces around the elements of its lists. The export neither names the tensors nor frees the batch, so its file does not fit the config.
#
# </details>
#
# ## Settings
#
# ONNX Runtime rewrites the graph when it loads it: it joins operators, and chooses memory layouts for this processor. [Triton's levels](https://github.com/triton-inference-server/onnxruntime_backend#model-config-options):
#
# | level | optimizations |
# |---|---|
# | 0, the default | all: the memory layout, too |
# | 1 | extended: joins Conv and Relu |
# | -1 | basic |
# | 2 | none |

# %%
predict(
    "onnxruntime.level",
    "A batch of 8 pictures: how many times longer does it take with level 2 than by default?",
    unit="×",
)

# %% [markdown]
# Copies of `focus_onnx` get one more line in the config. perf_analyzer's own numbers are random bits, and some are so small that a processor computes slowly with them. So it gets eight of our pictures from a file in its format, in one request (`-b 8`).

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# variant() {  # a model's name, and the line that its config gets
#   cp -rT focus_onnx $1
#   echo "$2" >> $1/config.pbtxt
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$1/load
# }
# parameter() { echo "parameters { key: \"$1\" value: { string_value: \"$2\" } }"; }
# for n in 0 -1 1 2; do variant level_$n "optimization { graph { level: $n } }"; done
# variant threads_2 "$(parameter intra_op_thread_count 2)"
# variant execution_mode_1 "$(parameter execution_mode 1)"
# cpu='cpu_execution_accelerator: [ { name: "openvino" } ]'  # the section "Accelerators" below
# variant openvino "optimization { execution_accelerators { $cpu } }"

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for turn in {1..4}; do  # a minute; four turns, because others may be disturbed
#   for model in level_{0,-1,1,2} threads_2 execution_mode_1 openvino; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC -b 8 --input-data eight.json \
#       -p 300 -s 900 -r 20 -f $model.$turn.csv > /dev/null
#   done
# done

# %%
times = setup.read_times(models)  # the median of the fastest turn, and how far the next one was
times.round(2)

# %%
level, mode = times["× default"]["level_2"], times["× default"]["execution_mode_1"]
compare("onnxruntime.level", level, premise=setup.differs(times, "level_2", 1.1))
claim(
    level > 1.1,
    f"Without optimization, a batch takes {level:.1f} times as long.",
    "Close other programs, and run the cell with perf_analyzer again.",
    premise=setup.differs(times, "level_2", 1.1),
    id="onnxruntime.level",
)
claim(
    mode > 0.8,
    f"On this machine, execution_mode 1 gains nothing: a batch takes {mode:.1f} times as long.",
    "Close other programs, and run the cell with perf_analyzer again.",
    premise=setup.differs(times, "execution_mode_1", 0.8),
    id="onnxruntime.mode",
)

# %% [markdown]
# Only level 0 chooses the memory layout; here, that helps most. Two threads divide a convolution, where a second core is free.
#
# <details><summary>Under the hood: execution_mode 1</summary>
#
# It hands operators to more threads, so that branches of a graph run side by side. Our network has no branches, so only the cost of handing over is left. Where we measured, a batch took more than three times as long.
#
# </details>
#
# <details><summary>Under the hood: which node takes the time?</summary>
#
# With `SessionOptions.enable_profiling`, a session of your own writes it down. Here, the second of four convolutions takes most.
#
# </details>
#
# ## Accelerators
#
# An *execution accelerator* takes the graph, or parts of it: on a CPU, [OpenVINO](https://github.com/triton-inference-server/onnxruntime_backend#onnx-runtime-with-openvino-optimization). `openvino` above is `focus_onnx` with it. What does loading cost?

# %% language="bash" tags=["triton"]
# tail -1 $TRITON_MODELS/openvino/config.pbtxt
# for model in level_0 openvino; do
#   for what in unload load; do
#     url=$TRITON_HTTP/v2/repository/models/$model/$what
#     curl -sX POST $url -w "$what $model: %{time_total} s\n"
#   done
# done

# %% tags=["triton"]
accelerated = client.infer("openvino", [image]).as_numpy("logits")
print("logits differ by", np.abs(accelerated - logits).max())

# %%
ran = setup.accelerated(lab)  # from the server's log
print(ran)
claim(
    "OpenVINOExecutionProvider" in ran and np.abs(accelerated - logits).max() < 1e-3,
    "OpenVINO answers the same. With threads of its own, a batch takes "
    f"{times['× default']['openvino']:.1f} times the default's time.",
    "`workbook status` says why it runs without OpenVINO.",
    id="onnxruntime.accelerator",
)

# %% [markdown]
# <details><summary>Under the hood: OpenVINO in a container</summary>
#
# Neither `intra_op_thread_count` nor parameters of `openvino` itself (issue 260 of the backend) reach it. Here an instance takes its share of the cores; there it takes all, and compiles anew at the first request of each new shape.
#
# </details>
#
# <details><summary>Under the hood: accelerators of a GPU</summary>
#
# ```
# gpu_execution_accelerator: [
#   { name: "tensorrt"
#     parameters { key: "precision_mode" value: "FP16" }
#     parameters { key: "trt_engine_cache_enable" value: "1" }
#     parameters { key: "trt_engine_cache_path" value: "/cache" }
#     parameters { key: "trt_profile_min_shapes" value: "image:1x3x64x64" }
#     parameters { key: "trt_profile_opt_shapes" value: "image:8x3x64x64" }
#     parameters { key: "trt_profile_max_shapes" value: "image:8x3x64x64" } },
#   { name: "cuda" parameters { key: "cudnn_conv_use_max_workspace" value: "0" } } ]
# ```
#
# [TensorRT](https://github.com/triton-inference-server/onnxruntime_backend#onnx-runtime-with-tensorrt-optimization) builds engines at load, in seconds to minutes. The cache keeps them for this GPU; a shape outside of the profile needs another. [CUDA](https://github.com/triton-inference-server/onnxruntime_backend#onnx-runtime-with-cuda-execution-provider-optimization) takes the rest.
#
# </details>
#
# <details><summary>Under the hood: cuDNN's search</summary>
#
# On a GPU, cuDNN searches anew for each batch size: on an H100, 23 ms per batch, not 0.1; 4.8 with the [deprecated](https://github.com/triton-inference-server/onnxruntime_backend#deprecated-parameters) parameter `cudnn_conv_algo_search` "1". The accelerator `cuda` with this key changes nothing: the [source](https://github.com/triton-inference-server/onnxruntime_backend/blob/r24.10/src/onnxruntime.cc) reads the old form last.
#
# </details>
#
# ## A sentence encoder
#
# [The production guide](../../00__start/00__start.ipynb#The-documents-behind-the-course) serves a BERT for a sentence's mean vector, 768 numbers. Its team agreed on three input names. Ours has random weights; [this program](models/sps_sbert_onnx/export.py) frees batch and tokens.

# %% tags=["triton"]
# %run models/sps_sbert_onnx/export.py {models}/sps_sbert_onnx/1/model.onnx
client.load_model("sps_sbert_onnx")

# %%
show("models/sps_sbert_onnx/config.pbtxt")
predict(
    "onnxruntime.lengths",
    "Sixteen sentences of sixteen lengths arrive at once. How many executions do they need?",
    {
        "1 or 2: the batcher joins them": "The rows of a batch must have one length. By default the "
        "batcher joins only requests of the same shape.",
        "about 8: neighbours share a batch": "The batcher pads nothing. A sentence of 50 tokens and "
        "one of 51 do not fit into one tensor.",
        "16: one per length": None,
    },
)


# %% tags=["triton"]
def sentence(tokens, length):
    """Three inputs for random words, filled up with zeros to a length."""
    ids = np.zeros((1, length), np.int64)
    ids[0, :tokens] = np.random.default_rng(tokens).integers(1, 1000, tokens)
    mask = (np.arange(length) < tokens).astype(np.int64)[None]
    arrays = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    inputs = [grpc.InferInput(name, [1, length], "INT64") for name in arrays]
    return [each.set_data_from_numpy(arrays[each.name()]) for each in inputs]


# %% tags=["triton"]
import time
from concurrent.futures import ThreadPoolExecutor


def executed():
    time.sleep(0.1)  # the server counts an execution a moment after it has answered
    return client.get_inference_statistics("sps_sbert_onnx").model_stats[0].execution_count


def together(least):
    """Send sentences of 45 to 60 tokens at once; padding makes all at least that long."""
    sentences = [sentence(tokens, max(tokens, least)) for tokens in range(45, 61)]
    before = executed()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda each: client.infer("sps_sbert_onnx", each), sentences))
    return np.concatenate([each.as_numpy("vector") for each in answers]), executed() - before


(vectors, executions), (padded, joined) = together(least=0), together(least=60)
print(executions, joined, "executions; vectors differ by", np.abs(vectors - padded).max())

# %%
met = Premise(joined < 12, "the padded sentences did not arrive together")
few = "1 or 2: the batcher joins them"
compare("onnxruntime.lengths", "16: one per length" if executions == 16 else few, premise=met)
claim(
    executions == 16 and abs(vectors - padded).max() < 1e-4,
    f"Padded, {joined} executions instead of {executions}; the vectors are the same.",
    "Run the cell above again.",
    premise=met,
    id="onnxruntime.sentences",
)

# %% [markdown]
# The mask keeps padding out of the mean, so clients may pad to a few agreed lengths. Ragged batching is another way ([12](../12__ensembles/12__ensembles.ipynb)). The guide's accelerator is TensorRT, for a GPU.
#
# ## Five mistakes
#
# Each is made in a copy of `focus_onnx`:

# %%
from workbook.lessons import mistakes

platform = 'platform: "onnxruntime_onnx"'
made = mistakes.provoke(lab, "focus_onnx", {
    "another input name": mistakes.config('"image"', '"pixels"'),
    "the batch is in dims": mistakes.config("[ 3, 64, 64 ]", "[ 8, 3, 64, 64 ]"),
    "half a file": lambda home: setup.cut(home / "1/model.onnx"),
    "a mode that is none": mistakes.config(platform, f"{platform} {setup.MODE}"),
    "an accelerator that is none": mistakes.config(platform, f"{platform} {setup.ACCELERATOR}"),
})  # fmt: skip
claim(
    len(made.refused) == 5,
    "The server refuses all five.",
    "Read below what it loads.",
    id="onnxruntime.mistakes",
)
made

# %% [markdown]
# ## Your turn
#
# Somebody exported `frozen` from an example of one picture. Make it answer eight in one request: change `{models}/frozen/1/model.onnx` and `{models}/frozen/config.pbtxt` in new cells, then `client.load_model("frozen")`.

# %%
setup.frozen(models)  # keeps a folder that is there
lab.load("frozen")
show(models / "frozen/config.pbtxt")
task("onnxruntime.frozen", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# An export is done when the server answers as the file does, with one row and with several:

# %%
show("at_work/check_onnx.py")

# %% tags=["triton"]
# %run at_work/check_onnx.py focus_onnx {models}

# %% [markdown]
# ## What to remember
#
# - Name inputs and outputs and free the batch when you export: the config must fit the file.
# - Without settings the backend optimizes all it can. Set threads and instances; measure the rest, accelerators too.
# - Requests of different shapes do not share a batch: pad to agreed lengths.

# %% [markdown]
# ## Check yourself
#
# <details><summary>You get model.onnx, 40 kB, of a network with 4 MB of weights. What is missing?</summary>
#
# `model.onnx.data`, with the weights. Ask for it, or for an export with `external_data=False`.
#
# </details>
#
# <details><summary>With max_batch_size 8 a model is refused: "the first dimension must be -1". Is it the config's fault?</summary>
#
# No. The file has a fixed batch. Export it again with a variable first dimension.
#
# </details>
#
# <details><summary>Clients send texts of any length, and the batch size stays at 1. Name two ways out.</summary>
#
# Clients pad to a few lengths, and the mask says what counts. Or the model takes ragged batches.
#
# </details>
#
# Next: [OpenVINO](../06__openvino/06__openvino.ipynb).
