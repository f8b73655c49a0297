# ---
# title: Images
# minutes: 22
# ---

# %% [markdown]
# # Images
#
# **Question.** Your models run on the laptop server. On the machine with the GPU runs a container of NVIDIA's. Which one, and how much of it do you need?
#
# Nothing in this notebook needs Docker. Commands that need it were not run here, and are marked.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = setup.repository(folder("images"))  # a fresh folder: an earlier run's is deleted
lab = laboratory(models)  # a Triton server of this notebook's own

# %% language="bash" tags=["triton"]
# curl -sX POST $TRITON_HTTP/v2/repository/index | tr '}' '\n'

# %% [markdown]
# ## Which one to take
#
# An image's name is `nvcr.io/nvidia/tritonserver:RELEASE-KIND`. A release is a year and a month.
#
# | kind | holds |
# |---|---|
# | `py3` | the server with most backends |
# | `py3-min` | the base for an image of your own |
# | `py3-sdk` | clients and perf_analyzer, no server |
# | `vllm-python-py3` | the server with vLLM and Python |
# | `trtllm-python-py3` | the server with TensorRT-LLM and Python |

# %% [markdown]
# ## Your release has
#
# A server tells the version of its core. Where a notebook says "today", "since" or "until", it means the two tables below. "not found": no source that we could read names it. The last column leads to the source.

# %% tags=["triton"]
import os

import tritonclient.http as http

client = http.InferenceServerClient(os.environ["TRITON_HTTP"])
version = client.get_server_metadata()["version"]
print(f"The core of this server is {version}: release 24.10 has 2.51.0.")

# %%
setup.linked(setup.contents())

# %% [markdown]
# Most figures are from NVIDIA's [compatibility matrix](https://github.com/triton-inference-server/server/blob/main/docs/introduction/compatibility.md), read in November 2026. It does not name the TensorRT of `py3`: look into the [support matrix](https://docs.nvidia.com/deeplearning/frameworks/support-matrix/index.html). PyTorch: the backend takes its libraries from NVIDIA's container of that month. This laptop has newer ones.
#
# What came, and what went:

# %%
setup.linked(setup.changes())

# %% [markdown]
# [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) take `23.10-py3`, and warn that not every release has every backend. The images for language models hold few backends: that with TensorRT-LLM had [two](https://github.com/triton-inference-server/tensorrtllm_backend/issues/401) in 23.10, it and Python.

# %% [markdown]
# To run one (not run here):
#
# ```sh
# docker run --rm --gpus all --shm-size=1g -p 8000:8000 -p 8001:8001 -p 8002:8002 \
#     -v "$PWD/models:/models" nvcr.io/nvidia/tritonserver:24.10-py3 \
#     tritonserver --model-repository=/models
# ```
#
# Python models exchange tensors through shared memory, of which Docker gives 64 MB without `--shm-size`. The matrix names CUDA and the driver of each release, e.g. 12.6 and 560 for 24.10 with vLLM. On data-centre GPUs, CUDA's compatibility package lets some older drivers run it.

# %% tags=["triton"]
import json
from pathlib import Path

import pandas as pd

stored = json.loads(Path("../../releases.json").read_text())  # the course's copy of the matrix
gigabytes = pd.DataFrame({kind: part["values"] for kind, part in stored["sizes"].items()})
for kind in gigabytes:
    gb = gigabytes[kind].dropna()
    print(f"with {kind}: {gb.min()} GB ({gb.idxmin()}) to {gb.max()} GB ({gb.idxmax()})")

# %%
setup.plot_sizes()

# %% [markdown]
# From 25.03 to 25.04 the image with vLLM shrank from 22 to 10 GB, less than half. (For 26.08, the matrix has no image with TensorRT-LLM.) Look the size up before an upgrade.
#
# ## What takes the space
#
# Here each framework is a Python package, or several. A package's list of files says how much of this disk it takes:

# %% tags=["triton"]
from importlib import metadata

PACKAGES = {
    "PyTorch": "torch", "TensorFlow": "tensorflow tensorflow-cpu keras", "OpenVINO": "openvino",
    "DALI": "nvidia-dali-cuda120 nvidia-nvimgcodec-cu12 nvidia-nvjpeg-cu12 nvidia-nvjpeg2k-cu12"
    " nvidia-nvtiff-cu12 nvidia-libnvcomp-cu12", "ONNX Runtime": "onnxruntime-gpu onnxruntime",
    "XGBoost": "xgboost nvidia-nccl-cu12", "Triton": "nvidia-pytriton",
}  # fmt: skip


def megabytes(package):
    try:
        files = metadata.files(package) or ()
    except metadata.PackageNotFoundError:
        return 0
    paths = [Path(str(file.locate())) for file in files]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


# %%
predict(
    "images.framework",
    "Which framework takes most of the disk in this course's environment?",
    {
        "PyTorch": "Its build for the CPU has 0.7 GB. With CUDA it would have several times that.",
        "TensorFlow": None,
        "DALI": "It brings code for GPUs, video and audio, and is second or third here.",
        "ONNX Runtime": "Its package has the code for GPUs, too, and still is one of the small ones.",
        "OpenVINO": "It holds code for Intel's CPUs and GPUs, and is one of the smallest.",
    },
)

# %% tags=["triton"]
sizes = {name: sum(map(megabytes, packages.split())) for name, packages in PACKAGES.items()}
taken = pd.Series(sizes, name="MB").sort_values(ascending=False)
print(taken.round().astype(int).to_string())

# %%
measure.plot_bars(taken.to_frame("on this disk"), title="What each framework takes", below="MB")

# %%
all_there = Premise(taken.min() > 0, f"{taken.idxmin()} is not installed")
compare("images.framework", str(taken.idxmax()), premise=all_there)
few = taken[["Triton", "ONNX Runtime"]].sum() < 0.5 * taken.sum()
claim(
    few,
    "Triton and ONNX Runtime together are "
    f"{taken[['Triton', 'ONNX Runtime']].sum() / taken.sum():.0%} of what all frameworks take.",
    "An installation without some frameworks is smaller: look at the bars.",
    premise=all_there,
    id="images.few",
)

# %% [markdown]
# A server that has only ONNX models does not need the rest. The same holds for NVIDIA's full image.
#
# ## Which backends does a repository need?
#
# Ask the server, not the files: it has completed each config. `runtime` is the backend's program: `model.py` is the laptop's stand-in, and NVIDIA's image has a native library in its place.

# %% tags=["triton"]
for entry in client.get_model_repository_index():  # one for each version of a model
    if entry.get("state") == "READY":
        config = client.get_model_config(entry["name"])
        cached = config.get("response_cache", {}).get("enable", False)
        print(f"{entry['name']:14} backend {config['backend']!r:14}", end="")
        print(f"runtime {config.get('runtime', '')!r:11} cache: {cached}")

# %% [markdown]
# ## A smaller image
#
# `compose.py`, of the [server's repository](https://github.com/triton-inference-server/server/blob/main/compose.py), takes the base and copies parts of the *full* image, `py3`, into it ([guide](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/compose.md)). This command needs Docker, and was not run here:
#
# ```sh
# python3 compose.py --backend pytorch --repoagent checksum \
#     --container-version 24.10 --output-name tritonserver-torch
# ```
#
# With `--dry-run` it writes `Dockerfile.compose` only, for you to change. How this course builds its own images: the folder `docker/`.

# %% [markdown]
# `--backend`, `--cache` and `--repoagent` (a repository *agent* checks files at a load) may be given several times. There are two caches: `local` keeps answers in the server's memory, as the server here does, and `redis` in a Redis server. vLLM and TensorRT-LLM cannot be composed: take their image as the base.

# %% [markdown]
# Does your Python model import something? Add one layer to the image:
#
# ```dockerfile
# FROM nvcr.io/nvidia/tritonserver:24.10-py3
# RUN pip install --no-cache-dir tokenizers==0.23.3
# ```
#
# Or pack an environment beside the model, as in [notebook 03](../03__python_environments/03__python_environments.ipynb). Then the image stays as it is.

# %% [markdown]
# ## A model that is too new
#
# An image also fixes the versions of the frameworks. An ONNX file says which version of the format it has; each ONNX Runtime reads formats up to one of them. The format of our file:

# %% tags=["triton"]
import onnx

model = onnx.load(models / "digits_onnx/1/model.onnx")
opsets = {part.domain or "ai.onnx": part.version for part in model.opset_import}
print("format:", model.ir_version, "operators:", opsets, "made by:", model.producer_name)

# %% [markdown]
# Now somebody exports it with the tools of the next decade, and with those of 2020:

# %% tags=["triton"]
import shutil

from tritonclient.utils import InferenceServerException

replies = []
for ir_version in (99, 7):
    home = models / f"format_{ir_version}"
    shutil.copytree(models / "digits_onnx", home, dirs_exist_ok=True)
    for file in home.glob("*/model.onnx"):
        changed = onnx.load(file)
        changed.ir_version = ir_version
        onnx.save(changed, file)
    try:
        client.load_model(home.name)
        replies.append("loaded")
    except InferenceServerException as error:
        replies.append(error.message().replace(f"{os.environ['TRITON_MODELS']}/", ""))
    print(f"format {ir_version}: {replies[-1]}")

# %%
claim(
    "IR version" in replies[0] and replies[-1] == "loaded",
    "A format that is too new is refused, an old one is read. The refusal names the newest that "
    "this server reads.",
    "Run the cell before this one again.",
    id="images.format",
)

# %% [markdown]
# So export for the server that you have. Release 24.10 holds ONNX Runtime 1.19.2, this laptop a newer one: a file that loads here may be refused there. Try TorchScript and OpenVINO files there, too. A TensorRT plan fits one version only, and one kind of GPU ([10](../10__tensorrt/10__tensorrt.ipynb)).

# %% [markdown]
# ## Your turn
#
# Write the command that composes the smallest image of release 24.10 for *this* repository. The check parses the line, and compares it with what the loaded models need. One model answers from a cache. Change the line in the next cell, then look again.

# %% language="bash" tags=["triton"]
# cat > $TRITON_MODELS/compose.sh <<'END'
# python3 compose.py --container-version 24.10 --backend pytorch
# END

# %%
task("images.compose", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# An image of your own, and what to run after each change of it:

# %%
show("at_work/Dockerfile", "at_work/check_image.sh")

# %% [markdown]
# Here, the server has the file in the format of the future:

# %% language="bash" tags=["triton"]
# sh at_work/check_image.sh | sed "s|$TRITON_MODELS/||g"

# %% [markdown]
# ## What to remember
#
# - `py3` for most backends, an image of its own for each engine of language models.
# - Ask the server which backends a repository needs. Ensembles need none: they are part of the core.
# - Release, driver and model files must fit together: read the matrix before an upgrade.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A team upgrades from 24.10 to 25.04, and one model is missing. Which one is it likely to be?</summary>
#
# One on the TensorFlow backend, which is gone since 25.03. Its weights can be served as ONNX or by OpenVINO: notebook 07.
#
# </details>
#
# <details><summary>Why can a composed image serve ensembles, though no --backend names them?</summary>
#
# The scheduler of ensembles is part of the core. The backends of their steps must be there.
#
# </details>
#
# <details><summary>The image is small, but the first start takes minutes. What else is loaded?</summary>
#
# The weights. Keep them out of the image: in a volume or a bucket. Then a new version of a model needs no new image, and a new image does not carry old weights.
#
# </details>
#
# Next: [the start](../../00__start/00__start.ipynb).
