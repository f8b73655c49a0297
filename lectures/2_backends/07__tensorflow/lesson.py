# ---
# title: TensorFlow, and the way on
# minutes: 30
# ---

# %% [markdown]
# # TensorFlow, and the way on
#
# **Question.** A team has TensorFlow models in production. NVIDIA's container has had no TensorFlow since [25.03](https://docs.nvidia.com/deeplearning/triton-inference-server/release-notes/rel-25-03.html). How does Triton serve such models, and how do they move to another backend without new training, with the same answers?
#
# Here the course's backend stands in, with TensorFlow and the rules of NVIDIA's [backend](https://github.com/triton-inference-server/tensorflow_backend#using-the-tensorflow-backend) up to 25.02.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = setup.models()  # a Keras model and pictures; up to half a minute
lab = laboratory(models, only=[])  # a Triton server of this notebook's own

# %% [markdown]
# ## The lecture's network
#
# `focus.keras` tells whether a piece of a photo is sharp ([keras_copy.py](keras_copy.py): PyTorch's weights in Keras). Triton serves it as a *SavedModel*, a folder `1/model.savedmodel`: `saved_model.pb` is the computation, `variables/` has the weights. Its *signature* lists names, types and shapes of inputs and outputs. Clients get the one called `serving_default`:

# %% tags=["triton"]
import numpy as np
import tensorflow as tf

focus = tf.keras.models.load_model(models / "focus.keras", compile=False)
saved = str(models / "focus_tensorflow/1/model.savedmodel")
focus.export(saved, verbose=False)
served = tf.saved_model.load(saved).signatures["serving_default"]
print("inputs: ", served.structured_input_signature[1])
print("outputs:", served.structured_outputs)

# %% [markdown]
# The config repeats it without the batch (`None`), which Triton adds where `max_batch_size` is above 0. `platform` names the backend and the kind of file. The parameters: one thread for an operation, one operation at a time.

# %% language="bash" tags=["triton"]
# cp models/focus_tensorflow/config.pbtxt $TRITON_MODELS/focus_tensorflow/
# cat models/focus_tensorflow/config.pbtxt

# %% tags=["triton"]
import os

import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
pictures = np.load(models / "pictures.npy")  # float32 (200, 3, 64, 64)


def ask(model, rows):
    """The logits of up to eight pictures, or the server's message."""
    image = grpc.InferInput("image", rows.shape, "FP32")
    image.set_data_from_numpy(rows)
    try:
        answer = client.infer(model, [image])
    except InferenceServerException as error:
        return error.message()
    return answer.as_numpy(answer.get_response().outputs[0].name)


client.load_model("focus_tensorflow")
print(ask("focus_tensorflow", pictures[:8]).argmax(1))  # 0: blurred, 1: sharp

# %%
row = setup.measured(lab, focus)  # 200 answers beside PyTorch's, and the speed; up to a minute
claim(
    row.changed == 0 and row.difference < 1e-2,
    f"The copy gives PyTorch's 200 verdicts; a logit differs by {row.difference:.0e} at most.",
    "Run the cells above again.",
    id="tensorflow.same",
)

# %% [markdown]
# ## A model from a slide
#
# Such configs often go wrong in the names. This program is from [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course). Its last line, `save`, fails, so the model is exported as above. It gives its tensors no names, so Keras chooses some:

# %% tags=["triton"]
tf.keras.backend.clear_session()  # Keras numbers the tensors without a name: from 0 again
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
    print(str(error)[:60], "…")
slide = str(models / "tensorflow_model/1/model.savedmodel")
model.export(slide, verbose=False)
signature = tf.saved_model.load(slide).signatures["serving_default"]
print(signature.structured_input_signature[1], signature.structured_outputs)

# %%
show("models/tensorflow_model/config.as_printed.pbtxt")
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
corrected = setup.load_as_printed(lab)  # after each message, what it says is corrected
corrected

# %%
all_five = "all five: it compares the config with the file"
named = "one at a time" if len(corrected.refused) == 5 - setup.has_gpu() else all_five
steps = Premise(len(corrected.errors) == 6, "a step is missing")
compare("tensorflow.first", named, premise=steps)
claim(
    corrected.refused[-1] == "the output's name" and lab.ready("tensorflow_model"),
    f"The slide's config belongs to another backend: {len(corrected.refused)} refusals.",
    "Run the cell above again.",
    id="tensorflow.document",
)

# %% [markdown]
# The last message counts two dimensions on both sides: compare the shapes in its brackets.
#
# <details><summary>Errata: the backend slides</summary>
#
# Keras 3 saves its own format, so the program's last line fails. The names in the config are those of the PyTorch backend, and its shapes are of another model.
#
# </details>
#
# You need not guess. If the config leaves the tensors out, the backend fills them in from the signature, and `max_batch_size` with Triton's default, 4. Ask the server for what it found:

# %% tags=["triton"]
import json

client.load_model("tensorflow_model", config=json.dumps({"platform": "tensorflow_savedmodel"}))
filled = client.get_model_config("tensorflow_model", as_json=True)["config"]
for field in ("max_batch_size", "input", "output"):
    print(field, filled[field])

# %% [markdown]
# ## A frozen graph
#
# Old models are often one file `model.graphdef`, a *frozen graph*: the weights are constants in it, and it has no signature. The config has `platform: "tensorflow_graphdef"` and the names of the graph's nodes, without `:0`. The conversion adds a last node, so the output's name is not `logits`:

# %% tags=["triton"]
from tensorflow.python.framework import convert_to_constants


@tf.function(input_signature=[tf.TensorSpec((None, 3, 64, 64), tf.float32, name="image")])
def call(image):
    return tf.identity(focus(image)["logits"], name="logits")


frozen = convert_to_constants.convert_variables_to_constants_v2(call.get_concrete_function())
tf.io.write_graph(frozen.graph, str(models / "focus_graph/1"), "model.graphdef", as_text=False)
print(frozen.inputs[0].name, frozen.outputs[0].name)

# %%
show("models/focus_graph/config.pbtxt")
place(models, "models/focus_graph")
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

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# curl -sX POST $TRITON_HTTP/v2/repository/models/focus_graph/load
# for model in tensorflow graph; do
#   cp -rT focus_$model wrong_$model
#   sed -i 's/3, 64, 64/64, 64, 3/' wrong_$model/config.pbtxt
#   echo "== load wrong_$model"
#   curl -sX POST $TRITON_HTTP/v2/repository/models/wrong_$model/load
# done

# %% tags=["triton"]
# A client sends one picture as the wrong configs say; then 200 go to both right models.
channels_last = np.ascontiguousarray(pictures[:1].transpose(0, 2, 3, 1))
replies = {model: ask(model, channels_last) for model in ("wrong_tensorflow", "wrong_graph")}
for name, reply in replies.items():
    print(f"{name}: {reply}")
batches = np.split(pictures, 25)
both = [np.concatenate([ask(f"focus_{each}", rows) for rows in batches]).argmax(1)
        for each in ("tensorflow", "graph")]  # fmt: skip
print((both[0] != both[1]).sum(), "of 200 verdicts differ")

# %%
late = not lab.ready("wrong_tensorflow") and lab.ready("wrong_graph")
at_request = isinstance(replies["wrong_graph"], str)
server = "the server, for both, when it loads them"
found = "SavedModel: when it is loaded; graph: when it is asked" if late and at_request else server
compare("tensorflow.frozen", found, premise=Premise(len(replies) == 2, "one of them is missing"))
claim(
    late and at_request and (both[0] == both[1]).all(),
    "A frozen graph's shapes are not compared with the config. With the right config it gives the "
    "same verdicts.",
    "Run the two cells above again.",
    id="tensorflow.frozen",
)

# %% [markdown]
# ## Mixed precision in one line?
#
# Old configs ask for *accelerators*, which rewrite the network for a GPU. [The production guide](../../00__start/00__start.ipynb#The-documents-behind-the-course) has two, for the config of a ranking model: `tensorrt`, or, from V100 and T4 on, `auto_mixed_precision`, which it calls "about 2 times" as fast. (Not both.) What becomes of such a line on a CPU?

# %%
setup.rank(models, "shansou_rank")
show("models/shansou_rank/config.pbtxt")

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# variant() {  # a model's name, and an accelerator
#   cp -rT shansou_rank $1
#   sed -i "s/^name: .*/name: \"$1\"/" $1/config.pbtxt
#   echo "optimization { execution_accelerators { gpu_execution_accelerator : [ $2 ] } }" \
#     >> $1/config.pbtxt
# }
# variant mixed '{ name : "auto_mixed_precision" }'
# variant tensorrt '{ name : "tensorrt" parameters { key: "precision_mode" value: "FP16" } }'
# for model in shansou_rank mixed tensorrt; do
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done

# %%
scores = setup.scores(lab, ("shansou_rank", "mixed", "tensorrt"))  # of the same two texts
log = setup.accelerator_lines(lab)  # of the server's log
print(scores, *{*log}, sep="\n")

# %%
same = (scores["mixed"] == scores["shansou_rank"]).all()
same_too = (scores["tensorrt"] == scores["shansou_rank"]).all()
ignored = len(log) > 1 and "ignored" in log[0] and "ignored" in log[-1]
claim(
    ignored and same and same_too,
    "On the CPU an accelerator is ignored: the three configs load and give the same scores.",
    "Look at the log in the cell above.",
    id="tensorflow.accelerators",
)

# %% [markdown]
# <details><summary>Errata: the production guide</summary>
#
# TensorFlow's builds have had no TensorRT since [2.18](https://github.com/tensorflow/tensorflow/releases/tag/v2.18.0), and Triton's guide names [ONNX only](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/optimization.md#framework-specific-optimization). Half precision is chosen in training (`keras.mixed_precision`), or after conversion. None of it was verified on a GPU.
#
# </details>
#
# So leave the line out when you convert: another backend has settings of its own.

# %% [markdown]
# ## The way on
#
# Two ways need no new training:
#
# | you have | you get | by |
# |---|---|---|
# | the Keras model | ONNX, for CPUs and GPUs | `export(…, format="onnx")`, with Keras on PyTorch |
# | the SavedModel or graph alone | OpenVINO, for Intel's CPUs | `openvino.convert_model` |
#
# `to_onnx.py` is a process of its own, because Keras chooses its framework when it is imported:

# %%
show("at_work/to_onnx.py", "models/on_openvino/config.pbtxt", "models/on_onnx/config.pbtxt")
place(models, "models/on_openvino", "models/on_onnx")

# %% tags=["triton"]
import subprocess
import sys

import openvino as ov

ir = ov.convert_model(saved)
for file in (models / "on_openvino/1").glob("model.*"):
    file.unlink()  # a server may have mapped it into memory, so do not write into it
ov.save_model(ir, models / "on_openvino/1/model.xml", compress_to_fp16=False)
target = models / "on_onnx/1/model.onnx"
program = [sys.executable, "-W", "ignore", "at_work/to_onnx.py"]
subprocess.run([*program, models / "focus.keras", target], check=True)
for way in ("on_openvino", "on_onnx"):
    client.load_model(way)

# %% [markdown]
# Do the new files answer as the SavedModel does, and how fast are they with eight requests under way? Differences are from PyTorch's logits. Each speed is the best of three turns, because other programs may disturb one:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for turn in 1 2 3; do
#   for model in focus_tensorflow focus_graph on_openvino on_onnx; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC --concurrency-range 8 \
#       --input-data eight.json -p 300 -s 200 -r 20 -f $model.$turn.csv > /dev/null
#   done
# done

# %%
table = setup.ways(lab)
claim(
    table["verdicts changed"].drop("on_openvino").sum() == 0,
    "The SavedModel, the frozen graph and the ONNX file give the same 200 verdicts. OpenVINO's "
    f"file changes {table['verdicts changed']['on_openvino']} of them.",
    "Run this cell again.",
    id="tensorflow.ways",
)
table

# %% [markdown]
# First look at the changed verdicts, then at the speed. OpenVINO's logits differ more where the processor computes in bf16 ([06](../06__openvino/06__openvino.ipynb)): verdicts near the threshold may change.
#
# <details><summary>On a GPU (not verified here)</summary>
#
# ONNX files run on GPUs, too. In containers up to 25.02, TensorFlow keeps the memory that it once took until the server ends ([FAQ](https://github.com/triton-inference-server/tensorflow_backend#how-does-the-tensorflow-backend-manage-gpu-memory)).
#
# </details>
#
# ## Three more mistakes
#
# Each is made in a copy of `focus_tensorflow`:

# %%
made = setup.make_mistakes(lab)
claim(
    len(made.refused) == 3,
    "The server refuses all three.",
    "Read below what it loads.",
    id="tensorflow.mistakes",
)
made

# %% [markdown]
# ## Your turn
#
# `unsure` is a SavedModel with two signatures: `serving_default` answers with logits, `chances` with probabilities. Make the server answer with probabilities. The parameter `TF_SIGNATURE_DEF` ([all](https://github.com/triton-inference-server/tensorflow_backend#parameters)) chooses a signature; its output has another name. Change the config (`%%writefile {models}/unsure/config.pbtxt` in a new cell), then `client.load_model("unsure")`.

# %%
setup.two_signatures(models, focus)  # keeps a folder that is there
lab.load("unsure")
show(models / "unsure/config.pbtxt")
task("tensorflow.chances", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# 1. The Keras model is there: `to_onnx.py`. Else OpenVINO (or tf2onnx, not tried here). If both fail: an image up to 25.02.
# 2. Serve old and new model beside each other.
# 3. Save real inputs as `examples.npy`, one per row, and compare. "0 changed": switch the clients. Else look at those inputs ([13](../13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb)).

# %%
show("at_work/same_answers.py")

# %% tags=["triton"]
# %run at_work/same_answers.py {models}/pictures.npy focus_tensorflow on_onnx on_openvino

# %% [markdown]
# ## What to remember
#
# - A SavedModel has its names, types and shapes in the signature, and Triton fills them in; a frozen graph has only nodes, so check it with a request.
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
# <details><summary>After conversion the largest difference of a logit is 2e-5. Is that good?</summary>
#
# Float32 adds in another order. Ask the next question: how many verdicts changed?
#
# </details>
#
# Next: [FIL](../08__fil/08__fil.ipynb).
