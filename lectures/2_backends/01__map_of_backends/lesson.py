# ---
# title: A map of the backends
# minutes: 23
# ---

# %% [markdown]
# # A map of the backends
#
# **Question.** You have a trained model in a file. Which part of Triton computes it, and what do you write into its config?
#
# A *backend* is the part of Triton that computes models of one kind. This lecture follows [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course), a backend per notebook; here you see all of them once.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words
from workbook.lessons import mistakes

models = folder("map_of_backends")  # run again, it empties this notebook's folder
setup.repository(models)  # one model of each kind
lab = laboratory(models, only=[])  # a Triton server that has loaded none of them
setup.set_places(lab)  # TRITON_BACKENDS: its folder of backends, TRITON_LOG: its log

# %% [markdown]
# ## What is here
#
# A server has a folder of backends; in NVIDIA's container it is `/opt/tritonserver/backends`. For backend `X`, Triton loads the library `libtriton_X.so` from the folder `X`, or, if there is none, the program `model.py` ([order](https://github.com/triton-inference-server/backend#backend-shared-library)). This server has:

# %% language="bash" tags=["triton"]
# cd $TRITON_BACKENDS
# ls */libtriton_*.so */model.py

# %% [markdown]
# In NVIDIA's container nearly all are libraries. On a laptop, this course has programs in Python in their place: *stand-ins*. They take the same models and configs.
#
# Now we load one model of each kind (20 s). Where nothing follows the name, it was loaded:

# %% language="bash" tags=["triton"]
# for model in square digits_{onnx,torch,openvino,tf} forest_xgboost jpeg_dali engine{,_llm}; do
#   echo "$model: $(curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load |
#     sed "s|$TRITON_MODELS/||g" | cut -c1-170)"
# done

# %% [markdown]
# The last two are for TensorRT and TensorRT-LLM, which need an NVIDIA GPU.
#
# Which file does each backend take, and what computes it here? A server tells how it serves a model: `get_model_config` returns the completed config, and its field `runtime` names the program that computes. It is empty where a library does.

# %% tags=["triton"]
import os

import pandas as pd
import tritonclient.http as http

client = http.InferenceServerClient(os.environ["TRITON_HTTP"], network_timeout=300)
MODELS = {
    "python": "square", "onnxruntime": "digits_onnx", "pytorch": "digits_torch",
    "openvino": "digits_openvino", "tensorflow": "digits_tf", "fil": "forest_xgboost",
    "dali": "jpeg_dali", "tensorrt": "engine", "tensorrtllm": "engine_llm",
}  # fmt: skip

# %% tags=["triton"]
rows = {}
for backend, model in MODELS.items():
    files = sorted(file.name for file in (models / model / "1").glob("[a-z]*"))
    rows[backend] = {"files in 1/": ", ".join(files), "here": "refused"}
    if client.is_model_ready(model):
        runtime = client.get_model_config(model)["runtime"]
        rows[backend]["here"] = "stand-in" if runtime == "model.py" else "library"

matrix = pd.DataFrame.from_dict(rows, orient="index")
matrix

# %%
claim(
    (matrix["here"] == "stand-in").sum() == 6 and matrix["here"]["python"] == "library",
    "Seven kinds of models are served here: six by stand-ins, and Python models by Triton's own "
    "library.",
    "Look at the table: which model was refused?",
    premise=setup.loaded_here(matrix),
    id="map.matrix",
)

# %% [markdown]
# So the file decides: each backend looks for a file of its own name. These names are defaults; `default_model_filename` in the config gives another. vLLM, which reads `model.json`, takes minutes to load: [a later notebook](../11__llm_backends/11__llm_backends.ipynb) does it.
#
# ## Which when
#
# What is each backend for, and on which hardware? By the slides' last table and [NVIDIA's matrix](https://github.com/triton-inference-server/backend/blob/main/docs/backend_platform_support_matrix.md) (release 24.10, x86):

# %%
which = setup.which(matrix)
which

# %%
on_cpu = which[["CPU" in text for text in which["runs on"]]]
lost = set(on_cpu.index[on_cpu["this server"] == "refused"])
claim(
    len(on_cpu) == 8 and not lost,
    f"{len(on_cpu)} of the {len(which)} purposes have a backend that computes on a CPU.",
    "Look at the table of the first section: which model was refused?",
    premise=setup.loaded_here(matrix),
    id="map.which",
)

# %% [markdown]
# Not every image has every backend. TensorFlow's is [gone since 25.03](https://github.com/triton-inference-server/server/pull/8068); a user found the 24.02 image [without ONNX Runtime](https://github.com/triton-inference-server/server/issues/6988); on Windows there are only TensorRT and ONNX Runtime. So look into the image that you will run ([all releases](../14__images/14__images.ipynb#Your-release-has)):
#
# ```bash
# docker run --rm nvcr.io/nvidia/tritonserver:24.10-py3 ls /opt/tritonserver/backends
# ```

# %% [markdown]
# ## Two fields for one thing
#
# In a config, `backend` names the backend. Many configs have `platform` in its place, an older field: one word for a backend and its format, from a fixed list in Triton's core. Four lines, each tried in a copy of `digits_onnx`:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# tries=('backend: "onnxruntime"' 'platform: "onnxruntime_onnx"' 'backend: "onnx"' 'platform: "onnxruntime"')
# for i in ${!tries[@]}; do
#   cp -rT digits_onnx try_$i
#   sed -i "s/^backend:.*/${tries[$i]}/" try_$i/config.pbtxt
#   echo "${tries[$i]} $(curl -sX POST $TRITON_HTTP/v2/repository/models/try_$i/load | cut -c1-230)"
#   curl -sX POST $TRITON_HTTP/v2/repository/models/try_$i/unload -o /dev/null
#   rm -r try_$i
# done
# grep 'platform type' $TRITON_LOG | tail -1 | cut -d']' -f2-  # the reason for the last one

# %% [markdown]
# The first two are right. The others mix the fields up: `onnx` is no backend, and `onnxruntime` no platform. The reason for the last refusal stands in the server's log only (at work: `docker logs`): it is the last line above.
#
# The slides' table of platforms has eleven: `python xgboost lightgbm treelite pytorch_libtorch tensorflow_savedmodel tensorflow_graphdef onnxruntime_onnx openvino_ir tensorrt_llm tensorrt_plan`. We load a model with each.

# %%
predict(
    "map.platforms",
    "How many of these eleven does the server accept, where the config has no `backend`?",
    unit="platforms",
)

# %%
names = setup.try_names(lab)  # the models have no files: it reads why each is refused
names[["backend", "platform alone"]]  # the slides' pairs; is platform enough?

# %%
accepted = set(names.index[names["platform alone"] == "accepted"])
compare("map.platforms", len(accepted), unit="platforms", premise=setup.all_tried(names))
others = {"python", "openvino_ir"}
claim(
    "onnxruntime_onnx" in accepted and not accepted & others and setup.mixed(lab),
    f"Accepted without backend: {', '.join(sorted(accepted))}. Where a config has both, "
    "only backend counts: the server accepts fil together with tensorrt_plan.",
    "Run the cells of this section again.",
    id="map.known",
)

# %% [markdown]
# So write `backend`: every backend has a name, but few have a platform. Only an ensemble, which has no backend, needs `platform: "ensemble"`.
#
# <details><summary>Errata: the backend slides</summary>
#
# Five of [the slides'](../../00__start/00__start.ipynb#The-documents-behind-the-course) eleven are platforms. For the others write `backend`; for TensorRT-LLM `tensorrtllm`. FIL's format is `model_type`, one of its *parameters*: settings that a backend defines itself.
#
# </details>
#
# ## Marked as out of date
#
# Old guides and repositories have other names, too. No new model needs them; the fold says what to take in their place.
#
# <details><summary>The slides' old backends</summary>
#
# | the slides' row | today |
# |---|---|
# | C++, custom | [removed](https://github.com/triton-inference-server/backend#what-about-backends-developed-using-the-legacy-custom-backend-api); a backend is a library, or a model.py |
# | stateful | [implicit state](../../1_architecture/04__sequences/04__sequences.ipynb) |
# | square | an example in C++, like identity and repeat; our *model* `square` is another thing |
# | FasterTransformer | a [research tool](https://github.com/triton-inference-server/fastertransformer_backend); take TensorRT-LLM |
#
# </details>

# %%
claim(
    setup.gone(lab),
    "We asked this server for fastertransformer, stateful, square, custom, identity and repeat: it "
    "has none of the six.",
    "Run the cell again.",
    id="map.old",
)

# %% [markdown]
# ## Two mistakes with files
#
# Backend and file may not fit. Each mistake is made in a copy of `digits_onnx`; the first line says what is wrong. "Triton's own words" are the server's message, which is all that you get at work. (These come from stand-ins; NVIDIA's backends may word them otherwise.)

# %%
made = mistakes.provoke(lab, "digits_onnx", {
    "another framework's backend": mistakes.config("onnxruntime", "pytorch"),
    "another file name": mistakes.rename("1/model.onnx", "digits.onnx"),
})  # fmt: skip
made

# %%
refused = made.refused
claim(len(refused) == 2, "Both are refused.", "Read which one it loads.", id="map.mistakes")

# %% [markdown]
# ## Your turn
#
# Two models came with configs from the slides' tables: `ir` with OpenVINO's files, `trees` with a forest of XGBoost. Correct both configs (new cells with `%%writefile {models}/ir/config.pbtxt`, or an editor), and load them: `client.load_model("ir")`, or `lab.load("ir")`, which explains a refusal. The last cell checks.

# %%
setup.borrowed(models)  # keeps a folder that is there
show(models / "ir/config.pbtxt", models / "trees/config.pbtxt")

# %%
task("map.names", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# For a new model: a config to begin with. For a server that you take over: a program that lists its models with their backends, and what an image needs.

# %%
show("at_work/config.pbtxt", "at_work/backends.py")

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS && mkdir -p mine/1
# cp digits_onnx/1/model.onnx mine/1/ && cp $OLDPWD/at_work/config.pbtxt mine/
# curl -sX POST $TRITON_HTTP/v2/repository/models/mine/load

# %% tags=["triton"]
# %run at_work/backends.py

# %% [markdown]
# Which backend should you try first?
#
# - A network on a CPU: ONNX Runtime; on Intel's, try OpenVINO, too.
# - On NVIDIA's GPUs: ONNX Runtime first, TensorRT for speed; vLLM for language models.
# - A PyTorch model that does not export: PyTorch. Trees: FIL. Any other code: Python.
#
# Then see whether its answers [are the same](../13__does_it_still_answer_the_same/13__does_it_still_answer_the_same.ipynb).

# %% [markdown]
# ## What to remember
#
# - The model's file leads to its backend. Write the backend's name into the field `backend`.
# - `platform` is an older field, with names for few backends; an ensemble needs it.
# - Each image has its own set of backends: look into yours before you choose.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A config loads on your laptop, and in the container it says: unable to find backend library for backend 'tensorflow'. What has happened?</summary>
#
# The container is newer than 25.02. On the laptop a stand-in serves the model. Convert it, or stay with an older image.
#
# </details>
#
# <details><summary>You copy a completed config, with its <code>runtime</code>, to another server. What can go wrong?</summary>
#
# Each server fills `runtime` in with what it has. Written down, it asks for a file that another server may not have. Write it only where you choose one, as in [04](../04__pytorch/04__pytorch.ipynb#torch.compile).
#
# </details>
#
# Next: [the Python backend](../02__python/02__python.ipynb).
