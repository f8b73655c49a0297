# ---
# title: The ONNX Runtime backend
# minutes: 18
# ---

# %% [markdown]
# # The ONNX Runtime backend
#
# **Question.** A network was trained in PyTorch. As an ONNX file it can be served without PyTorch, on a CPU or a GPU. Which file, which names and which settings does Triton want?
#
# It fits most trained networks. It does not fit programs: loops and conditions of Python are not in the file.

# %%
import numpy as np
import onnxruntime as ort
import pandas as pd
import torch

import setup
from workbook import lessons, measure
from workbook.lessons import Premise, claim, compare, formats, mistakes, predict, show, task, write
from workbook.lessons.runs import record
from workbook.lessons.shared import documented, quiet, variants

quiet.hide_warnings()
models = setup.models()  # run again, it empties this notebook's folder
lab = lessons.laboratory(models, only=[])

# %% [markdown]
# ## A model from a slide
#
# [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) export a model of one layer in one line. The printout of their config lost the braces. We load it as printed, then with braces, then on the CPU:


# %%
class SimpleModel(torch.nn.Module):
    def __init__(self):
        super(SimpleModel, self).__init__()  # noqa: UP008
        self.fc = torch.nn.Linear(5, 1)

    def forward(self, x):
        return torch.sigmoid(self.fc(x))


simple, simple_file = SimpleModel(), models / "onnx_model/1/model.onnx"
torch.onnx.export(simple, torch.randn(1, 5), simple_file, verbose=False)  # 5 to 30 seconds
config = models / "onnx_model/config.as_printed.pbtxt"
show(config)
printed = documented.correct(lab, "onnx_model", config, documented.BRACES_AND_CPU)
printed

# %% [markdown]
# Now the config is in order, and the *file* is refused. The exporter wrote down the batch of its example, 1, and it named the input like the argument of `forward`, the output after the last operator.
#
# > **Erratum.** The slides' export does not fit their config. Name the tensors, and make the batch a variable.

# %%
batch = {0: torch.export.Dim("batch")}
torch.onnx.export(
    simple,
    (torch.randn(2, 5),),
    simple_file,
    input_names=["input"],
    output_names=["output"],
    dynamic_shapes=(batch,),
    verbose=False,
)
lab.load("onnx_model")
claim(
    len(printed.refused) == 3 and lab.ready("onnx_model"),
    "The slides' config was refused in three steps; with the new file it is served.",
    "Run the cells of this section again.",
    id="onnxruntime.document",
)

# %% [markdown]
# ## Two exporters
#
# `torch.onnx.export` reads the network with `torch.export` (`dynamo=True`, the default now). The older exporter records what one example does; its way to name free dimensions is `dynamic_axes`. Both for our network:

# %%
net, pictures = formats.network(), formats.pictures()
example, free = torch.from_numpy(pictures[:2]), {0: torch.export.Dim("batch")}
named = {"input_names": ["image"], "output_names": ["logits"], "verbose": False}
new, old = models / "focus_onnx/1/model.onnx", models / "older/1/model.onnx"
program = torch.onnx.export(net, (example,), dynamic_shapes=(free,), dynamo=True, **named)
program.save(new, external_data=False)
axes = {"image": {0: "batch"}, "logits": {0: "batch"}}
setup.older_export(net, (example,), old, dynamic_axes=axes, dynamo=False, **named)

# %%
options = ort.SessionOptions()
options.intra_op_num_threads = 1
sessions = {name: ort.InferenceSession(f, options) for name, f in {"new": new, "old": old}.items()}
answers = {name: s.run(None, {"image": pictures})[0] for name, s in sessions.items()}
apart = {name: np.abs(logits - formats.reference()).max() for name, logits in answers.items()}
claim(
    max(apart.values()) < 1e-3,
    f"Both files answer like PyTorch: logits differ by {max(apart.values()):.0e} at most.",
    "Run this cell and the one before it again.",
    id="onnxruntime.exporters",
)
pd.DataFrame({"dynamo=True": setup.graph(new), "dynamo=False": setup.graph(old)})

# %% [markdown]
# Take the new one; PyTorch calls the other *legacy*. `external_data=False` puts the weights into `model.onnx`. Otherwise they are beside it, in `model.onnx.data`.
#
# ## What it fills in
#
# From the file, the backend completes a config of one line: `max_batch_size` is the backend's [default](https://github.com/triton-inference-server/onnxruntime_backend#default-max-batch-size), and there is one instance per GPU, or two on the CPU. Then we write our own:

# %%
from tritonclient import grpc

write(models / "older/config.pbtxt", 'platform: "onnxruntime_onnx"')
lab.load("older")
image = grpc.InferInput("image", [2, 3, 64, 64], "FP32")
image.set_data_from_numpy(pictures[:2])
with grpc.InferenceServerClient(lab.grpc_url) as client:
    print(client.infer("older", [image]).as_numpy("logits"))
filled = lab.config("older")
claim(
    filled["max_batch_size"] == 4 and "dynamic_batching" in filled,
    "It fills in the tensors, max_batch_size 4 and dynamic batching.",
    "Look at the config below: where the server was started otherwise, it may differ.",
    id="onnxruntime.filled",
)
for field in ("max_batch_size", "input", "dynamic_batching", "instance_group"):
    print(field, filled[field])

# %%
config = """
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] } ]
output [ { name: "logits" data_type: TYPE_FP32 dims: [ 2 ] } ]
dynamic_batching { }
instance_group [ { kind: KIND_CPU count: 1 } ]
parameters { key: "intra_op_thread_count" value: { string_value: "1" } }
"""
write(models / "focus_onnx/config.pbtxt", config)


# %%
def in_process(rows):
    return sessions["new"].run(None, {"image": rows})[0]


def measured():
    return formats.add(lab, "focus_onnx", "ONNX", in_process)


lab.load("focus_onnx")
row = lessons.attempt(measured, lambda found: found.repeated)  # 10 to 30 seconds
claim(
    row.changed == 0,
    f"No verdict changed. {row.served}",
    "Close other programs, and run this cell again.",
    premise=row.repeated,
    id="onnxruntime.served",
)
formats.table()

# %% [markdown]
# ## Settings
#
# ONNX Runtime rewrites the graph when it loads it: it joins operators, and chooses memory layouts for this processor. [Triton's levels](https://github.com/triton-inference-server/onnxruntime_backend#model-config-options):
#
# | level | optimizations |
# |---|---|
# | 0, the default | all |
# | 1 | extended: joins Conv and Relu |
# | -1 | basic |
# | 2 | none |
#
# Below: `ms` per batch, `first_ms` for the first, `memory_mb` of the model, `spread`: the second fastest of four turns over the fastest.

# %%
predict(
    "onnxruntime.level",
    "A batch of 8 pictures: how many times longer does it take with level 2 than by default?",
    unit="×",
)

# %%
settings = {
    "default": "",
    **{f"level {n}": f"optimization {{ graph {{ level: {n} }} }}" for n in (-1, 1, 2)},
    **variants.each({"intra_op_thread_count": 2, "execution_mode": 1}),
}
each = variants.add(models, "focus_onnx", settings)  # measured in 10 seconds, or in a minute
times = lessons.attempt(lambda: variants.measure(lab, each, pictures[:8]), setup.level_differs)
slower = times["ms"]["level 2"] / times["ms"]["default"]
compare("onnxruntime.level", slower, premise=setup.level_differs(times))
claim(
    slower > 1.1,
    f"Without optimization, a batch takes {slower:.1f} times as long.",
    "Close other programs, and run the cell before this one again.",
    premise=setup.level_differs(times),
    id="onnxruntime.level",
)
times.round(1)

# %% [markdown]
# Two threads help where a second core is free. `execution_mode` 1 runs branches of a graph side by side. Ours has none: nothing is gained.
#
# ## One session, node by node
#
# A *session*, a loaded graph, can write down how long each node takes. The four convolutions take 3, 32, 64, 96 channels; after each, the sides are halved.

# %%
predict(
    "onnxruntime.node",
    "Which convolution takes the most time?",
    {
        "the first: it sees the whole picture": "It has 64 × 64 places, but three channels only: "
        "per place, it multiplies least of all.",
        "the second": None,
        "the fourth: it has the most weights": "Its weights are used at 8 × 8 places only; those of "
        "the second at 32 × 32.",
        "all alike: each halves the sides and has more channels": "The places go down by four, the "
        "multiplications per place go up by three at most, after the first.",
    },
)

# %%
profiling = ort.SessionOptions()
profiling.intra_op_num_threads, profiling.enable_profiling = 1, True
profiling.profile_file_prefix = str(models / "profile")
profiled = ort.InferenceSession(new, profiling)
for _ in range(30):
    profiled.run(None, {"image": pictures[:8]})
nodes = setup.nodes(profiled.end_profiling())
order, second = setup.convolutions(nodes), setup.clearly_slowest(nodes)
compare("onnxruntime.node", setup.CONVOLUTIONS[int(order.argmax())], premise=second)
claim(
    order.argmax() == 1,
    f"The second convolution takes {order.iloc[1] / nodes['ms'].sum():.0%} of all node time.",
    "Run this cell again.",
    premise=second,
    id="onnxruntime.profile",
)
measure.plot_bars(nodes[["ms"]].head(8), title="A batch of 8", below="ms per call")

# %% [markdown]
# `relu_1_nchwc` is a convolution with its Relu, channels in blocks. Places × channels in × out: 0.4, 2.1, 1.6 and 0.8 million, so the second multiplies most.
#
# ## A sentence encoder
#
# [The production guide](../../00__start/00__start.ipynb#The-documents-behind-the-course) serves a BERT that gives a sentence's mean vector: 768 numbers. Its team agreed on three input names. Ours has random weights.

# %%
sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}  # 10 to 40 seconds
torch.onnx.export(
    setup.Encoder().eval(),
    setup.example(),
    input_names=list(setup.NAMES),
    output_names=["vector"],
    dynamic_shapes=(sizes,) * 3,
    verbose=False,
).save(models / "sps_sbert_onnx/1/model.onnx")
lab.load("sps_sbert_onnx")
show("models/sps_sbert_onnx/config.pbtxt")

# %%
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

# %%
runs = {}
for way, longest in {"as they are": 0, "padded": 60}.items():
    plan = setup.sentences(range(45, 61), padded=longest)
    runs[way] = record(lab, "sps_sbert_onnx", plan)
counts = [int(run.count("executions")) for run in runs.values()]
vectors = [np.concatenate([o["vector"] for o in r.answers["outputs"]]) for r in runs.values()]
away = np.abs(vectors[0] - vectors[1]).max()
met = Premise(counts[1] < 12, "the padded sentences did not arrive together")
few = "1 or 2: the batcher joins them"
compare("onnxruntime.lengths", "16: one per length" if counts[0] == 16 else few, premise=met)
claim(
    counts[0] == 16 and away < 1e-4,
    f"Padded, {counts[1]} executions instead of {counts[0]}; the vectors are the same "
    f"(difference {away:.0e}).",
    "Run this cell again.",
    premise=met,
    id="onnxruntime.sentences",
)

# %% [markdown]
# The mask keeps padding out of the mean, so clients may pad to a few agreed lengths. Ragged batching is another way ([12](../12__ensembles/12__ensembles.ipynb)). The guide's accelerator works on a GPU only.
#
# ## Five mistakes
#
# Each is made in a copy of `focus_onnx`:

# %%
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
# With `KIND_GPU`, cuDNN searches anew for another batch size: on an H100, 23 ms per batch, not 0.1; 4.8 with `cudnn_conv_algo_search` "1", which is [deprecated](https://github.com/triton-inference-server/onnxruntime_backend#deprecated-parameters) as a parameter.
#
# <details><summary>And now?</summary>
#
# An accelerator named `cuda`, with this parameter. But the [source](https://github.com/triton-inference-server/onnxruntime_backend/blob/r24.10/src/onnxruntime.cc) of 24.10 reads the old form last, and without it sets the default, `EXHAUSTIVE`, again. So measure. TensorRT is not verified.
#
# </details>
#
# ## Your turn
#
# Somebody exported `frozen` from an example of one picture. Make it answer eight in one request: change `frozen/1/model.onnx` and `frozen/config.pbtxt`, in new cells, and load it: `lab.load("frozen")`.

# %%
setup.frozen(models)  # keeps a folder that is there
lab.load("frozen")
show(models / "frozen/config.pbtxt")

# %%
task("onnxruntime.frozen", server=lab, models=models)

# %% [markdown]
# ## What to remember
#
# - Name inputs and outputs and free the batch when you export: the config must fit the file.
# - Without settings the backend optimizes all it can. Set threads and instances, and measure the rest.
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
