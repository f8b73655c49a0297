# ---
# title: Images
# minutes: 23
# ---

# %% [markdown]
# # Images
#
# **Question.** Your models run on the laptop server. On the machine with the GPU, NVIDIA's container will serve them. Which image does it need, so that every model loads?
#
# A container starts from an *image*: a disk with the server, its backends and their libraries. Nothing here needs Docker. Commands that do were not run, and say so.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = setup.repository(folder("images"))  # a fresh folder: an earlier run's is deleted
lab = laboratory(models)  # a Triton server of this notebook's own

# %% [markdown]
# ## Which backends does a repository need?
#
# Five models are to move. Two tell which digit a picture shows (`digits_onnx`, and `digits_cached`, which remembers its answers), `jpeg_dali` decodes JPEG files, `square` is Python, and `pair` is an ensemble that calls `square`. These lines of their configs matter for the image:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# grep -E "^(backend|platform|response_cache)" {digits_cached,digits_onnx,jpeg_dali,pair,square}/config.pbtxt

# %%
predict(
    "images.backends",
    "How many backends must the image have, so that all five models load?",
    {
        "5": "One for each model? Both digits models take the same one, and one model takes none.",
        "4": "You counted the ensemble. It names no backend: its scheduler is a part of the core.",
        "3": None,
        "2": "Did you leave Python out? It is a backend like the others: the core has no Python.",
    },
)

# %% [markdown]
# A config may leave its backend out, and the server completes it when it loads the model. So ask the server, and not the files. A *cache* of answers is a library in the image, too, so we look for it as well:

# %% tags=["triton"]
import os

import tritonclient.http as http

client = http.InferenceServerClient(os.environ["TRITON_HTTP"])
versions = client.get_model_repository_index()  # one entry for each version of a model
backends = {}
for name in sorted({entry["name"] for entry in versions if entry.get("state") == "READY"}):
    config = client.get_model_config(name)
    backends[name] = config["backend"]
    cached = config.get("response_cache", {}).get("enable", False)
    print(f"{name:14} backend {config['backend']!r:14} answers from a cache: {cached}")

# %%
needed = {backend for backend in backends.values() if backend}
loaded = Premise(len(backends) >= 5, "a model is not loaded")
compare("images.backends", str(len(needed)), premise=loaded)

# %% [markdown]
# This list is what the image must have: the backends `onnxruntime`, `dali` and `python`, and a cache. The ensemble's backend is empty, because the server's core does its work.
#
# ## Which one to take
#
# NVIDIA's images are called `nvcr.io/nvidia/tritonserver:RELEASE-KIND`. A release is a year and a month, as 24.10. First the kind:

# %% [markdown]
# | kind | holds | take it when |
# |---|---|---|
# | `py3` | most backends | you begin, or space does not matter |
# | `py3-min` | the libraries below a server | you compose an image of your own |
# | `vllm-python-py3` | vLLM and Python | you serve language models with vLLM |
# | `trtllm-python-py3` | TensorRT-LLM and Python | the same with TensorRT-LLM |
# | `py3-sdk` | clients and perf_analyzer, no server | you measure from another machine |

# %% [markdown]
# Our list fits `py3`. It is started so (not run here):
#
# ```sh
# docker run --rm --gpus all --shm-size=1g -p 8000:8000 -p 8001:8001 -p 8002:8002 \
#     -v "$PWD/models:/models" nvcr.io/nvidia/tritonserver:24.10-py3 \
#     tritonserver --model-repository=/models --cache-config local,size=104857600
# ```
#
# `-v` shows your repository to the container, `--shm-size` gives Python models the shared memory through which they exchange tensors (Docker's default is 64 MB), and `--cache-config` starts the cache, here with 100 MB.

# %% [markdown]
# ## Your release has
#
# Then the release. It fixes the version of everything in the image. This laptop runs the core of one of them:

# %% tags=["triton"]
version = client.get_server_metadata()["version"]
print(f"The core of this server is {version}: release 24.10 has 2.51.0.")

# %%
setup.releases()

# %% [markdown]
# Read it before an upgrade: a backend may be gone, as TensorFlow's is since 25.03, and a framework may be older than the tools that wrote your files. Where a notebook says "today", "since" or "until", it means this table and its folds. "not found": no source that we could read names it.

# %% [markdown]
# <details><summary>Where the figures come from, and what the table leaves out</summary>
#
# Most are from NVIDIA's [compatibility matrix](https://github.com/triton-inference-server/server/blob/main/docs/introduction/compatibility.md), read in November 2026. It also names the CUDA and the driver of each release. The TensorRT of `py3` is in the [support matrix](https://docs.nvidia.com/deeplearning/frameworks/support-matrix/index.html). PyTorch's backend takes its libraries from NVIDIA's container of that month; this laptop has newer ones.
#
# </details>
#
# <details><summary>The backend slides</summary>
#
# [They](../../00__start/00__start.ipynb#The-documents-behind-the-course) take `23.10-py3`, and warn that not every release has every backend. The image with TensorRT-LLM had [two](https://github.com/triton-inference-server/tensorrtllm_backend/issues/401) in 23.10: it and Python.
#
# </details>

# %% [markdown]
# ## A model that is too new
#
# Does your file fit the release? An ONNX file says in which version of the format it is written, and each ONNX Runtime reads formats up to one of them ([table](https://onnxruntime.ai/docs/reference/compatibility.html)). The format (`ir_version`) of our file, and the version of its operators:

# %% tags=["triton"]
import onnx

model = onnx.load(models / "digits_onnx/1/model.onnx")
opsets = {part.domain or "ai.onnx": part.version for part in model.opset_import}
print("format:", model.ir_version, "operators:", opsets, "made by:", model.producer_name)

# %% [markdown]
# To see what a misfit looks like, we write two copies of the model: one says that it has a format of the future, 99, the other an old one of 2020, 7. Each has two versions, as the model has. We ask the server to load both:

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
        replies.append(error.message().splitlines()[0])  # of the model's first version
    print(f"format {ir_version}: … {replies[-1][-62:]}")

# %%
claim(
    "IR version" in replies[0] and replies[-1] == "loaded",
    "A format that is too new is refused, an old one is read. The refusal names the newest that "
    "this server reads.",
    "Run the cell before this one again.",
    id="images.format",
)

# %% [markdown]
# So export for the release that you will have, not for your laptop: release 24.10 holds ONNX Runtime 1.19.2, this laptop a newer one. TorchScript and OpenVINO files depend on their framework's version in the same way. A TensorRT plan fits one version only, and one kind of GPU ([10](../10__tensorrt/10__tensorrt.ipynb)).

# %% [markdown]
# ## A smaller image
#
# `py3` has frameworks that this repository does not need. What do they take? Here each is a Python package, so this disk shows it, in MB (a package that is not installed is left out):

# %% tags=["triton"]
from pathlib import Path

packages = Path(onnx.__file__).parents[1]  # the folder in which packages are installed
# !cd {packages} && du -sm torch tensorflow openvino nvidia/dali onnxruntime xgboost 2> /dev/null

# %% [markdown]
# [`compose.py`](https://github.com/triton-inference-server/server/blob/main/compose.py) makes an image with what you name ([guide](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/compose.md)): it takes `py3-min`, and copies parts of the full image into it. For a repository of PyTorch models (not run here, it needs Docker):
#
# ```sh
# git clone -b r24.10 https://github.com/triton-inference-server/server && cd server
# python3 compose.py --backend pytorch --container-version 24.10 \
#     --output-name tritonserver-torch
# ```

# %% [markdown]
# - `--backend` and `--cache` may be given several times. The cache `local` keeps answers in the server's memory, as the server here does; `redis` keeps them in a Redis server.
# - `--dry-run` only writes `Dockerfile.compose`, for you to change.
# - `--repoagent checksum` adds an agent that checks files at each load.
# - vLLM and TensorRT-LLM cannot be composed: take their images.

# %% [markdown]
# Releases differ in size, too. From 25.03 to 25.04, the image with vLLM shrank from 22 to 10 GB.
#
# What if a Python model imports a package that no image has? Add a layer, as below in `at_work/Dockerfile`, or pack an environment beside the model, as in [notebook 03](../03__python_environments/03__python_environments.ipynb). With the environment, the image stays as it is.

# %% [markdown]
# ## Your turn
#
# Write the command that composes the smallest image of release 24.10 for *this* notebook's repository. The check reads the line, and compares it with what the loaded models need. Change the line in the next cell, run it, then look again.

# %% language="bash" tags=["triton"]
# cat > $TRITON_MODELS/compose.sh <<'END'
# python3 compose.py --container-version 24.10 --backend pytorch
# END

# %%
task("images.compose", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# 1. Ask a server that has your models for their backends and caches, as in the first section.
# 2. Take `py3`; if it is too large, compose; for a language model, take its engine's image.
# 3. Start the new image on another port, and run `check_image.sh` before clients use it.

# %%
show("at_work/Dockerfile", "at_work/check_image.sh")

# %% [markdown]
# In the Dockerfile, change the release and the packages. The script needs `curl` only: it lists the models that the new image refused, and its exit code is 1 if there is one, so a pipeline can stop. Here it meets the file in the format of the future:

# %% language="bash" tags=["triton"]
# set -o pipefail
# sh at_work/check_image.sh | sed "s|$TRITON_MODELS/||" || echo "exit code $?: do not switch"

# %% [markdown]
# ## What to remember
#
# - Ask a server which backends and caches your repository needs. Ensembles need none.
# - `py3` has most backends; each engine of language models has its own image. Compose one if `py3` is too large.
# - A release fixes the frameworks' versions: export files for it, and check each new image with all models.

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
