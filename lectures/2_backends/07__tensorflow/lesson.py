# ---
# title: TensorFlow, and the way on
# minutes: 18
# ---

# %% [markdown]
# # TensorFlow, and the way on
#
# **Question.** A team has TensorFlow models in production. NVIDIA's container has had no TensorFlow since [25.03](https://docs.nvidia.com/deeplearning/triton-inference-server/release-notes/rel-25-03.html); the [change](https://github.com/triton-inference-server/server/pull/8068) gives no reason. How are such models served, and how does one go on without new training?
#
# Here a stand-in serves them, by the rules of the [backend](https://github.com/triton-inference-server/tensorflow_backend#using-the-tensorflow-backend) in containers up to 25.02.

# %%
from pathlib import Path

import torch

import setup
from workbook.lessons import claim, compare, folder, formats, laboratory, place, predict, show, task
from workbook.lessons.shared import documented

setup.quiet()  # one thread, and no log; up to half a minute
import tensorflow as tf

models = folder("tensorflow")  # run again, it empties this notebook's folder
lab = laboratory(models, only=[])

# %% [markdown]
# ## A model from a slide
#
# The program of [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course), with its last line in a `try`:

# %%
model = tf.keras.Sequential([
    tf.keras.layers.InputLayer(input_shape=(28, 28, 1)),
    tf.keras.layers.Conv2D(32, (3, 3), activation='relu'),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation='softmax')
])  # fmt: skip
model.compile(optimizer='adam', loss='sparse_categorical_crossentropy', metrics=['accuracy'])  # fmt: skip
try:
    model.save(models / "tensorflow_model/1/")
except ValueError as error:
    print(error)

# %% [markdown]
# > **Erratum.** Keras 3 saves its own format; a SavedModel comes from `export`. Triton looks for the folder `1/model.savedmodel`, with `saved_model.pb` and `variables/` in it. Its *signature* lists the inputs and outputs:

# %%
saved = setup.version(models, "tensorflow_model") / "model.savedmodel"
setup.export(model, saved)  # model.export(…), without its log
setup.signature(saved)

# %%
config = Path("models/tensorflow_model/config.as_printed.pbtxt")
show(config)
predict(
    "tensorflow.first",
    "Five things in this config do not fit: the GPU (where the server has none), two names and "
    "two shapes. How many of them does the server name when it refuses the model?",
    {
        "all five: it compares the config with the file": "It stops at the first thing that does "
        "not fit, and says nothing of the rest.",
        "two: first the GPU, then what differs from the file": "The names and shapes are not "
        "listed together: each is found when the one before it is right.",
        "one at a time": None,
    },
)

# %%
put = documented.put
given, answered = setup.signature(saved).index
steps = {
    "on the CPU": put("GPU", "CPU"),
    "the input's name": put("INPUT__0", given),
    "its dims": put("5", "28, 28, 1"),
    "the output's name": put("OUTPUT__0", answered),
    "its dims, too": put("[ 1 ]", "[ 10 ]"),
}
corrected = documented.correct(lab, "tensorflow_model", config, steps)

# %%
from workbook.lessons import Premise

all_five = "all five: it compares the config with the file"
each = "one at a time" if len(corrected.refused) == 5 - setup.has_gpu() else all_five
compare("tensorflow.first", each, premise=Premise(len(corrected.errors) == 6, "a step is missing"))
claim(
    corrected.refused[-1] == "the output's name" and lab.ready("tensorflow_model"),
    f"The slide's config belongs to another backend: {len(corrected.refused)} refusals.",
    "Run the cell above again.",
    id="tensorflow.document",
)
lab.load("tensorflow_model", config={"platform": "tensorflow_savedmodel"})
filled = lab.config("tensorflow_model")
print(filled["max_batch_size"], {t["name"]: t["dims"] for t in filled["input"] + filled["output"]})
corrected

# %% [markdown]
# With nothing but the platform, the backend fills in all tensors from the signature, and `max_batch_size: 4`.
#
# ## The lecture's network
#
# Its weights, copied from PyTorch into Keras. A kernel is stored as (out, in, height, width) there, as (height, width, in, out) here; TensorFlow's CPU convolutions want channels last.

# %%
network = formats.network()
image = tf.keras.Input((3, 64, 64), name="image")
x = tf.keras.layers.Permute((2, 3, 1))(image)
for layer in [layer for layer in network.features if isinstance(layer, torch.nn.Conv2d)]:
    conv = tf.keras.layers.Conv2D(layer.out_channels, 3, padding="same", activation="relu")
    x = tf.keras.layers.MaxPooling2D()(conv(x))
    kernel = layer.weight.detach().numpy().transpose(2, 3, 1, 0)
    conv.set_weights([kernel, layer.bias.detach().numpy()])
head = tf.keras.layers.Dense(2)
logits = head(tf.keras.layers.GlobalAveragePooling2D()(x))
head.set_weights([network.head.weight.detach().numpy().T, network.head.bias.detach().numpy()])
focus = tf.keras.Model(image, {"logits": logits})

# %%
show("models/focus_tensorflow/config.pbtxt")
place(models, "models/focus_tensorflow")
setup.export(focus, setup.version(models, "focus_tensorflow") / "model.savedmodel")

# %%
from workbook.lessons import attempt

call = tf.function(focus)


def in_process(rows):
    return call(rows)["logits"].numpy()


def measured():
    return formats.add(lab, "focus_tensorflow", "TensorFlow", in_process)


row = attempt(measured, lambda found: found.repeated)  # 10 seconds to a minute
claim(
    row.changed == 0 and row.difference < 1e-2,
    f"The copy gives the same 200 verdicts; a logit differs by {row.difference:.0e} at most.",
    "Run the three cells above again.",
    id="tensorflow.same",
)
print(row.served if row.repeated else row.repeated)
formats.table()

# %% [markdown]
# ## A frozen graph
#
# The older form: one file `model.graphdef`, in which the weights are constants. `platform: "tensorflow_graphdef"`.

# %%
predict(
    "tensorflow.frozen",
    "Somebody writes dims [ 64, 64, 3 ] in place of [ 3, 64, 64 ] into both configs. Who "
    "notices, and when?",
    {
        "the server, for both, when it loads them": "A graph has nodes, and no list of its inputs "
        "with shapes. The backend compares names only.",
        "SavedModel: when it is loaded; graph: when it is asked": None,
        "nobody: the numbers are as many": "As many, but in another order: a convolution for "
        "three channels gets 64.",
    },
)

# %%
nodes = setup.freeze(focus, setup.version(models, "focus_graph") / "model.graphdef")
show("models/focus_graph/config.pbtxt")
late = {}
for name in ("focus_tensorflow", "focus_graph"):
    right = Path(f"models/{name}/config.pbtxt").read_text()
    (models / name / "config.pbtxt").write_text(right.replace("3, 64, 64", "64, 64, 3"))
    late[name] = setup.failing_step(lab, name, formats.pictures()[:1].transpose(0, 2, 3, 1))
    place(models, f"models/{name}")
    lab.load(name)
print("nodes:", nodes, *late.items(), sep="\n")

# %%
when = {name: step.partition(":")[0] for name, step in late.items()}
apart = when == {"focus_tensorflow": "loading", "focus_graph": "asking"}
both = "the server, for both, when it loads them"
graph = formats.served_logits(lab, "focus_graph")
seen = "SavedModel: when it is loaded; graph: when it is asked" if apart else both
compare("tensorflow.frozen", seen, premise=Premise(len(when) == 2, "one of them is missing"))
claim(
    formats.changed(graph) == 0 and apart,
    "A frozen graph's shapes are not compared with the config. With the right config it gives the "
    "same verdicts.",
    "Run the cell above again.",
    id="tensorflow.frozen",
)

# %% [markdown]
# ## Mixed precision in one line?
#
# The config of [the production guide](../../00__start/00__start.ipynb#The-documents-behind-the-course), for a ranking model; `instance_group` and the random weights are ours. The guide recommends `auto_mixed_precision` on cards from V100 and T4 on: "about 2 times" as fast as TensorRT. The two accelerators could not be combined.

# %%
setup.rank(models, "shansou_rank")
guide = Path("models/shansou_rank/config.pbtxt")
show(guide)
predict(
    "tensorflow.mixed",
    "The instance runs on the CPU. What does a `gpu_execution_accelerator` do there?",
    {
        "the model is refused": "An accelerator is asked for per instance. An instance on the CPU "
        "has none, and the backend goes on without.",
        "it is ignored, with a line in the log": None,
        "the CPU computes in half precision": "The setting concerns instances on a GPU only: look "
        "at the log, and at the answers.",
    },
)

# %%
forms = {
    "plain": "",
    "mixed": '{ name : "auto_mixed_precision" }',
    "TensorRT": '{ name : "tensorrt" parameters { key: "precision_mode" value: "FP16" } }',
}
scores, log = {}, {}
for name, form in forms.items():  # loads it three times: up to a minute
    text = guide.read_text() + setup.accelerated(form)
    (models / "shansou_rank/config.pbtxt").write_text(text)
    scores[name], log[name] = setup.ranked(lab, "shansou_rank")
print(log)

# %%
ignored = all("ignored" in log[name] for name in ("mixed", "TensorRT"))
same = all((scores[name] == scores["plain"]).all() for name in forms)
options = {
    True: "it is ignored, with a line in the log",
    False: "the CPU computes in half precision",
}
tried = Premise(len(scores) == 3, "a config is missing")
compare("tensorflow.mixed", options[ignored and same], premise=tried)
claim(
    ignored and same,
    "On the CPU the three configs load and give the same scores.",
    "Look at the log in the cell above.",
    id="tensorflow.accelerators",
)

# %% [markdown]
# > **Erratum.** TensorFlow's builds have had no TensorRT since [2.18](https://github.com/tensorflow/tensorflow/releases/tag/v2.18.0), and Triton's guide names [ONNX only](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/optimization.md#framework-specific-optimization). Half precision is chosen in training (`keras.mixed_precision`), or after conversion. None of it was verified on a GPU.
#
# ## The way on
#
# Two ways, without new training: OpenVINO reads the SavedModel; Keras 3 on PyTorch exports ONNX.

# %%
import openvino

ir = openvino.convert_model(models / "focus_tensorflow/1/model.savedmodel")
openvino.save_model(ir, setup.version(models, "on_openvino") / "model.xml", compress_to_fp16=False)
focus.save(models.parent / "focus.keras")
setup.to_onnx(models.parent / "focus.keras", setup.version(models, "on_onnx") / "model.onnx")
show("models/on_openvino/config.pbtxt", "models/on_onnx/config.pbtxt")
place(models, "models/on_openvino", "models/on_onnx")

names = {"SavedModel": "focus_tensorflow", "frozen graph": "focus_graph"}
table = setup.ways(lab, {**names, "to OpenVINO": "on_openvino", "to ONNX": "on_onnx"})
claim(
    table["verdicts changed"].drop("to OpenVINO").sum() == 0,
    "The SavedModel, the frozen graph and the ONNX file give the same 200 verdicts. OpenVINO's "
    f"file changes {table['verdicts changed']['to OpenVINO']} of them.",
    "Run this cell again.",
    id="tensorflow.ways",
)
table

# %% [markdown]
# OpenVINO's difference is larger where the processor computes in bf16 ([06](../06__openvino/06__openvino.ipynb)); verdicts near the threshold may then change. `spread`: the better measurement over the other.
#
# On GPUs nothing of this was verified. In containers up to 25.02 TensorFlow keeps the memory that it once took, until the server ends ([FAQ](https://github.com/triton-inference-server/tensorflow_backend#how-does-the-tensorflow-backend-manage-gpu-memory)).
#
# ## Five mistakes
#
# Each is made in a copy of `focus_tensorflow`:

# %%
from workbook.lessons import mistakes

change = mistakes.config
made = mistakes.provoke(lab, "focus_tensorflow", {
    "a name of PyTorch's": change('"image"', '"INPUT__0"'),
    "channels last": change("3, 64, 64", "64, 64, 3"),
    "another platform": change("tensorflow_savedmodel", "tensorflow"),
    "a folder too many": setup.deeper,
    "a number as a word": change('string_value: "1"', 'string_value: "one"'),
})  # fmt: skip
claim(
    len(made.refused) == 5,
    "The server refuses all five.",
    "Read below what it loads.",
    id="tensorflow.mistakes",
)
made

# %% [markdown]
# ## Your turn
#
# `unsure` is a SavedModel with two signatures: one answers with logits, `chances` with probabilities. Make the server answer with probabilities: `TF_SIGNATURE_DEF`, one of the backend's [parameters](https://github.com/triton-inference-server/tensorflow_backend#parameters), chooses a signature; its output has another name, too. Change the config (a new cell with `%%writefile {models}/unsure/config.pbtxt`), and load it: `lab.load("unsure")`.

# %%
setup.two_signatures(models, focus)  # keeps a folder that is there
lab.load("unsure")
show(models / "unsure/config.pbtxt")

# %%
task("tensorflow.chances", server=lab, models=models)

# %% [markdown]
# ## What to remember
#
# - A SavedModel brings names, types and shapes in its signature; a frozen graph brings nodes, and nothing is filled in.
# - From 25.03 on ([table](../14__images/14__images.ipynb#Your-release-has)) the container has no TensorFlow: convert to ONNX or OpenVINO.
# - After each conversion, check it: the same inputs, the logits, the verdicts.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A SavedModel loads in TensorFlow, and Triton says "unexpected inference input". Where are the right names?</summary>
#
# In the signature: `saved_model_cli show --dir … --all`, or leave the tensors out of the config and look at what the backend fills in.
#
# </details>
#
# <details><summary>A config asks for auto_mixed_precision and loads on a laptop. Does it on a new container?</summary>
#
# No: there is no TensorFlow backend. Before 25.03 it did.
#
# </details>
#
# <details><summary>After conversion the largest difference of a logit is 2e-5. Is that good?</summary>
#
# Float32 adds in another order. Ask the next question: how many verdicts changed?
#
# </details>
#
# Next: [FIL](../08__fil/08__fil.ipynb).
