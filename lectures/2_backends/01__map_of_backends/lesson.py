# ---
# title: A map of the backends
# minutes: 24
# ---

# %% [markdown]
# # A map of the backends
#
# **Question.** You have a trained model, and a config from somebody's slides. Which part of Triton will compute it? Does this server have that part?
#
# A *backend* computes models of one kind. This lecture follows [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course). They have three tables: relevant backends, their names, which to take when. We try them.

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
# For backend `X`, Triton looks for `libtriton_X.so` in the version folder, the model's folder and `backends/X` ([order](https://github.com/triton-inference-server/backend#backend-shared-library)), and then for `backends/X/model.py`. In NVIDIA's container, the folder is `/opt/tritonserver/backends`. This server has:

# %% language="bash" tags=["triton"]
# cd $TRITON_BACKENDS
# ls */libtriton_*.so */model.py

# %% [markdown]
# NVIDIA's container has libraries. On a laptop, programs in Python replace them: *stand-ins*. The one for ONNX prepares the model in Python, but computes its answers [without Python](../../1_architecture/05__dynamic_batcher/05__dynamic_batcher.ipynb).
#
# We load one model of each kind (20 s). Where nothing follows the name, it was loaded:

# %% language="bash" tags=["triton"]
# for model in square digits_{onnx,torch,openvino,tf} forest_xgboost jpeg_dali engine{,_llm}; do
#   echo "$model: $(curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load |
#     sed "s|$TRITON_MODELS/||g" | cut -c1-300)"
# done

# %% [markdown]
# The two that are refused need an NVIDIA GPU: [TensorRT](../10__tensorrt/10__tensorrt.ipynb) and TensorRT-LLM. vLLM is left out, since it takes minutes to load; [11](../11__llm_backends/11__llm_backends.ipynb) loads it.
#
# What does the server say about the others? `/v2/models/M/config` is the config that it has completed:

# %% tags=["triton"]
import os
from pathlib import Path

import pandas as pd
import tritonclient.http as http
from tritonclient.utils import InferenceServerException

client = http.InferenceServerClient(os.environ["TRITON_HTTP"], network_timeout=300)
MODELS = {
    "python": "square", "onnxruntime": "digits_onnx", "pytorch": "digits_torch",
    "openvino": "digits_openvino", "tensorflow": "digits_tf", "fil": "forest_xgboost",
    "dali": "jpeg_dali", "tensorrt": "engine", "tensorrtllm": "engine_llm",
}  # fmt: skip

# %% tags=["triton"]
rows = {}
for backend, model in MODELS.items():
    rows[backend] = {"here": "refused", "platform": "", "runtime": "", "default_model_filename": ""}
    if client.is_model_ready(model):
        config = client.get_model_config(model)
        library = Path(os.environ["TRITON_BACKENDS"], backend, f"libtriton_{backend}.so")
        rows[backend]["here"] = "real" if library.exists() else "stand-in"
        for field in ("platform", "runtime", "default_model_filename"):
            rows[backend][field] = config.get(field, "")
        rows[backend]["kind"] = config["instance_group"][0]["kind"]

matrix = pd.DataFrame.from_dict(rows, orient="index").fillna("")
matrix

# %%
replaced = matrix["here"] == "stand-in"
right = (matrix["runtime"][replaced] == "model.py").all() and matrix["runtime"]["python"] == ""
claim(
    right and replaced.sum() == 6 and matrix["here"]["python"] == "real",
    "A stand-in of this course shows model.py in the field runtime. The real Python backend shows "
    "nothing there.",
    "Look at the table: which model was refused?",
    premise=setup.loaded_here(matrix),
    id="map.matrix",
)

# %% [markdown]
# The server fills in `platform` and, where there is one, the file's name. FIL and DALI look for names of their own: `xgboost.json` (by `model_type`) and `model.dali` or `dali.py`; vLLM reads `model.json`.
#
# ## Two fields for one thing
#
# `backend` names the part of Triton that computes. `platform` is older: one word for a backend and its format. The slides list eleven:

# %% tags=["triton"]
SLIDES = [  # pairs of backend and platform; "" where the slides have none
    ("dali", ""), ("python", "python"), ("fil", "xgboost"), ("fil", "lightgbm"),
    ("fil", "treelite"), ("pytorch", "pytorch_libtorch"),
    ("tensorflow", "tensorflow_savedmodel"), ("tensorflow", "tensorflow_graphdef"),
    ("onnxruntime", "onnxruntime_onnx"), ("openvino", "openvino_ir"), ("", "tensorrt_llm"),
    ("tensorrt", "tensorrt_plan"), ("ensemble", ""),
]  # fmt: skip
print(*[platform for _, platform in SLIDES if platform])

# %% [markdown]
# To try a name, we load a model that has a config and no files, so it is refused in any case. What counts is the reason: with one of the three in `UNKNOWN`, the server does not know the name. If it cannot read a *config*, only the log has a reason (at work: `docker logs`).

# %% tags=["triton"]
import functools
import shutil

TENSORS = """
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
UNKNOWN = ("unexpected platform type", "unable to find backend library", "Could not determine")


def write_tried(lines):
    home = models / "tried"
    (home / "1").mkdir(parents=True, exist_ok=True)
    (home / "config.pbtxt").write_text(lines + TENSORS)
    if '"python"' in lines:  # without a file, the Python backend of 24.10 waits for ever
        (home / "1/model.py").write_text("import this_is_missing")


# %% tags=["triton"]
@functools.cache
def refusal(lines):
    """Load a model with these lines in its config; return what the client and the log say."""
    write_tried(lines)
    log = Path(os.environ["TRITON_LOG"])
    before = log.stat().st_size
    try:
        client.load_model("tried")
        client.unload_model("tried")
        return ""
    except InferenceServerException as error:
        return f"{error.message()}\n{log.read_bytes()[before:].decode(errors='replace')}"
    finally:
        shutil.rmtree(models / "tried")


def knows(lines):  # yes: the refusal is about something else than the name
    return "no" if any(words in refusal(lines) for words in UNKNOWN) else "yes"


# %%
predict(
    "map.platforms",
    "How many of these eleven does the server accept, where the config has no `backend`?",
    unit="platforms",
)

# %% tags=["triton"]
tried = []
for part, platform in SLIDES:
    one, other = f'backend: "{part}"', f'platform: "{platform}"'
    row = {"backend": part, "platform": platform}
    row["only backend"] = knows(one) if part else ""
    row["only platform"] = knows(other) if platform else ""
    row["both"] = knows(f"{one}\n{other}") if part and platform else ""
    tried.append(row)

mixed = knows('backend: "fil"\nplatform: "tensorrt_plan"')  # two that do not fit together
print("Does it know backend fil with platform tensorrt_plan?", mixed)
names = pd.DataFrame(tried)
names

# %%
accepted = set(names.loc[names["only platform"] == "yes", "platform"])
compare("map.platforms", len(accepted), unit="platforms", premise=setup.all_tried(names))
others = {"python", "openvino_ir"}
claim(
    "onnxruntime_onnx" in accepted and not accepted & others and mixed == "yes",
    f"Accepted without backend: {', '.join(sorted(accepted))}. With a backend, platform is not "
    "read: the server accepts fil with tensorrt_plan.",
    "Run the cells of this section again.",
    id="map.known",
)

# %% [markdown]
# So write `backend`. Only an ensemble has none (the last row): it has `platform: "ensemble"`.
#
# <details><summary>Errata: the backend slides</summary>
#
# Five of [the slides'](../../00__start/00__start.ipynb#The-documents-behind-the-course) eleven are platforms. For the others write `backend`; for TensorRT-LLM `tensorrtllm`. FIL's format is the *parameter* `model_type`.
#
# </details>
#
# ## Marked as out of date
#
# The backend slides call five of their fifteen rows out of date. We ask this server for four of them, and for two more examples of Triton's, `identity` and `repeat`:

# %% tags=["triton"]
OLD = ("fastertransformer", "stateful", "square", "custom", "identity", "repeat")
old = {name: refusal(f'backend: "{name}"') for name in OLD}
for name, words in old.items():
    print(f"{name:18}", words.partition("argument: ")[2].partition(",")[0])

# %%
gone = all("unable to find backend library" in each for each in old.values())
claim(gone, "This server has none of the six.", "Run the cell again.", id="map.old")

# %% [markdown]
# | the slides' row | today |
# |---|---|
# | C++, custom | the old custom API is [removed](https://github.com/triton-inference-server/backend#what-about-backends-developed-using-the-legacy-custom-backend-api); a backend is a library, or a model.py |
# | stateful | [implicit state](../../1_architecture/04__sequences/04__sequences.ipynb) in its place |
# | square, and Triton's identity, repeat | backends in C++, small examples; our *model* `square` is another thing |
# | FasterTransformer | a [research tool](https://github.com/triton-inference-server/fastertransformer_backend); take TensorRT-LLM |

# %% [markdown]
# ## Which when
#
# The slides' last table, upstream's [support matrix](https://github.com/triton-inference-server/backend/blob/main/docs/backend_platform_support_matrix.md) beside it, and what this server has:

# %%
which = setup.which(matrix)
which

# %%
on_cpu = which[["CPU" in text for text in which["upstream, x86"]]]
lost = set(on_cpu.index[on_cpu["this server"] == "refused"])
claim(
    len(on_cpu) == 8 and not lost,
    f"{len(on_cpu)} of {len(which)} kinds compute on a CPU. Of those that we tried, this server "
    f"refused {lost or 'none'}.",
    "Look at the table of the first section: which model was refused?",
    premise=setup.loaded_here(matrix),
    id="map.which",
)

# %% [markdown]
# The set changes between releases ([table](../14__images/14__images.ipynb#Your-release-has)): TensorFlow's backend is [gone since 25.03](https://github.com/triton-inference-server/server/pull/8068), and a user found the 24.02 image [without ONNX Runtime](https://github.com/triton-inference-server/server/issues/6988). On Windows, the matrix has only TensorRT and ONNX Runtime. So look into the image that you will run. (GPUs: not verified here.)
#
# ## Five mistakes
#
# One by hand, in a copy of `digits_onnx`:

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/digits_onnx $TRITON_MODELS/wrong
# sed -i 's/^backend:/platform:/' $TRITON_MODELS/wrong/config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/wrong/load
# grep 'platform type' $TRITON_LOG | tail -1 | cut -d']' -f2-
# rm -r $TRITON_MODELS/wrong

# %% [markdown]
# The client learns little, the log has the reason. Now five, with an explanation of each:

# %%
config_with = mistakes.config
made = mistakes.provoke(lab, "digits_onnx", {  # it has two versions: some refusals name both
    "the format as backend": config_with("onnxruntime", "onnx"),
    "the backend as platform": config_with("backend:", "platform:"),
    "the slides' OpenVINO": config_with('backend: "onnxruntime"', 'platform: "openvino_ir"'),
    "another framework's backend": config_with("onnxruntime", "pytorch"),
    "another file name": mistakes.rename("1/model.onnx", "digits.onnx"),
})  # fmt: skip
made

# %%
refused = made.refused
claim(len(refused) == 5, "All five are refused.", "Read which one it loads.", id="map.mistakes")

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
# What does a server that you meet at work compute, and by which backends?

# %%
show("at_work/backends.py")

# %% tags=["triton"]
# %run at_work/backends.py

# %% [markdown]
# ## What to remember
#
# - `backend` names the part of Triton that computes. Beside `ensemble`, five platforms are left; each stands for a backend and its format.
# - `/v2/models/M/config` says how a model is served. Its `runtime` is `model.py` where a stand-in answers, and empty where a library does.
# - Each image has its own set of backends. Look at yours.

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
