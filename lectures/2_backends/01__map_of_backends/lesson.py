# ---
# title: A map of the backends
# minutes: 14
# ---

# %% [markdown]
# # A map of the backends
#
# **Question.** You have a trained model, and a config from somebody's slides. Which part of Triton will compute it? Does this server have that part?
#
# A *backend* computes models of one kind. This lecture follows [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course). They have three tables: relevant backends, their names, which to take when. We try them.

# %%
import functools

import pandas as pd

import setup
from workbook.common.errors import WorkbookError
from workbook.lessons import claim, compare, folder, laboratory, mistakes, predict, show, task

models = folder("map_of_backends")  # run again, it empties this notebook's folder
setup.repository(models)
lab = laboratory(models, only=[])
setup.backends()

# %% [markdown]
# ## What is here
#
# For backend `X`, Triton looks for `libtriton_X.so` in the version folder, the model's folder and `backends/X` ([order](https://github.com/triton-inference-server/backend#backend-shared-library)), and then for `backends/X/model.py`. NVIDIA's container has libraries. On a laptop, programs in Python replace them: *stand-ins*. For ONNX models, the server calls ONNX Runtime [directly](../../1_architecture/05__dynamic_batcher/05__dynamic_batcher.ipynb).
#
# We load one model of each kind, and read `/v2/models/M/config` (20 s).

# %%
rows = {}
for backend, model in setup.MODELS.items():
    try:
        lab.load(model)
    except WorkbookError as error:
        rows[backend] = {"here": "refused", "words": error.message.splitlines()[0]}
        continue
    config = lab.request("GET", f"/v2/models/{model}/config")
    rows[backend] = {key: config.get(key) for key in setup.FIELDS}
    rows[backend]["kind"] = config["instance_group"][0]["kind"]
    rows[backend]["here"] = setup.computed_by(config)

# %%
matrix = pd.DataFrame(rows).T.fillna("")
stand_ins = matrix[matrix["runtime"] == "model.py"]
right = (stand_ins["here"] == "stand-in").all() and matrix["here"]["python"] == "real"
claim(
    right and len(stand_ins) == 6,
    "A stand-in of this course shows model.py in the field runtime. The real Python backend shows "
    "nothing there.",
    "Look at the table: which model was refused?",
    premise=setup.loaded_here(matrix),
    id="map.matrix",
)
print(*matrix.loc[matrix["here"] == "refused", "words"], sep="\n")
matrix[["here", *setup.FIELDS, "kind"]]

# %% [markdown]
# The two that are refused need an NVIDIA GPU: [TensorRT](../10__tensorrt/10__tensorrt.ipynb) and TensorRT-LLM. vLLM is left out, since it takes minutes to load; [11](../11__llm_backends/11__llm_backends.ipynb) loads it. The server fills in `platform` and, where a backend has one, the name of its file. FIL and DALI look for names of their own: `xgboost.json` (by `model_type`) and `model.dali` or `dali.py`; vLLM reads `model.json`.

# %% [markdown]
# ## Two fields for one thing
#
# A config says `backend`, or `platform`, or both. The backend slides list eleven platforms (20 s to try them):

# %%
print(*[platform for _, platform in setup.NAMES if platform])
predict(
    "map.platforms",
    "How many of these eleven does the server accept, where the config has no `backend`?",
    unit="platforms",
)


# %%
@functools.cache
def knows(**names):
    # loads a model without files: does the server know the names in its config?
    lines = [f'{field}: "{name}"' for field, name in names.items() if name]
    return "no" if setup.unknown(lab, "\n".join(lines)) else "yes"


tried = []
for backend, platform in setup.NAMES:
    row = {"backend": backend, "platform": platform}
    row["only backend"] = knows(backend=backend) if backend else ""
    row["only platform"] = knows(platform=platform) if platform else ""
    row["both"] = knows(backend=backend, platform=platform) if backend and platform else ""
    tried.append(row)

# %%
names = pd.DataFrame(tried)
known = set(names.loc[names["only platform"] == "yes", "platform"])
compare("map.platforms", len(known), unit="platforms", premise=setup.all_tried(names))
others = {"python", "openvino_ir"}
not_read = knows(backend="fil", platform="tensorrt_plan") == "yes"
claim(
    "onnxruntime_onnx" in known and not known & others and not_read,
    f"Accepted without backend: {', '.join(sorted(known))}. With a backend, platform is not read: "
    "the server accepts fil with tensorrt_plan.",
    "Run this cell again.",
    id="map.known",
)
names

# %% [markdown]
# > **Errata.** Five of the eleven are platforms. For the others write `backend`; for TensorRT-LLM `tensorrtllm`. FIL's format is the *parameter* `model_type`. An ensemble has `platform: "ensemble"`.
#
# ## Marked as out of date
#
# The backend slides call five of their fifteen rows out of date. We ask this server for four of them, and for two more examples of Triton's:

# %%
old = setup.words_on(lab, setup.OLD)
claim(all(old["refused"]), "This server has none of the six.", "Run it again.", id="map.old")
print(old.to_string(justify="left"))

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
on_cpu = which[which["upstream, x86"].str.contains("CPU")]
lost = set(on_cpu.index[on_cpu["this server"] == "refused"])
claim(
    len(on_cpu) == 8 and not lost,
    f"{len(on_cpu)} of {len(which)} kinds compute on a CPU. Of these, this server refused "
    f"{lost or 'none'}.",
    "Look at the table of the first section: which model was refused?",
    premise=setup.loaded_here(matrix),
    id="map.which",
)
which

# %% [markdown]
# Between releases, the set changes. TensorFlow's backend is [gone since 25.03](https://github.com/triton-inference-server/server/pull/8068). A user found the 24.02 image [without ONNX Runtime](https://github.com/triton-inference-server/server/issues/6988). On Windows, by the matrix, there are only TensorRT and ONNX Runtime. [14](../14__images/14__images.ipynb#Your-release-has) has a table. Look at the image that you will run: `ls /opt/tritonserver/backends`. Not verified on a GPU.
#
# ## Five mistakes
#
# Each is made in a copy of `digits_onnx`:

# %%
config = mistakes.config
made = mistakes.provoke(lab, "digits_onnx", {
    "the format as backend": config("onnxruntime", "onnx"),
    "the backend as platform": config("backend:", "platform:"),
    "the slides' OpenVINO": config('backend: "onnxruntime"', 'platform: "openvino_ir"'),
    "another framework's backend": config("onnxruntime", "pytorch"),
    "another file name": mistakes.rename("1/model.onnx", "digits.onnx"),
})  # fmt: skip
claim(
    len(made.refused) == 5, "All five are refused.", "Read which one it loads.", id="map.mistakes"
)
made

# %% [markdown]
# ## Your turn
#
# Two models came with configs from the slides' tables: `ir` with OpenVINO's files, `trees` with a forest of XGBoost. Correct both configs (new cells with `%%writefile {models}/ir/config.pbtxt`, or an editor), and load them: `lab.load("ir")`. The last cell checks.

# %%
setup.borrowed(models)  # keeps a folder that is there
show(models / "ir/config.pbtxt", models / "trees/config.pbtxt")

# %%
task("map.names", server=lab, models=models)

# %% [markdown]
# ## What to remember
#
# - `backend` names the part of Triton that computes. Five platforms are left; each stands for a backend and its format.
# - `/v2/models/M/config` says how a model is served. In the table above `runtime` is `model.py` for each stand-in, and empty for the library of the Python backend.
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
