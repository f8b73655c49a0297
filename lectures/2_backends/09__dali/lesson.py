# ---
# title: "DALI: from file to pixels"
# minutes: 29
# ---

# %% [markdown]
# # DALI: from file to pixels
#
# **Question.** Clients send JPEG files, and the lecture's network (sharp or blurred?) takes 3 × 64 × 64 numbers. Do its verdicts stay the same if the server computes these numbers?
#
# DALI, NVIDIA's *Data Loading Library*, prepares pictures, video and sound.
#
# The first notebook that needs the network trains it: one to six minutes.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("dali")
setup.prepare(models)  # JPEG files in jpegs/ and training/, and the network as the model `focus`
lab = laboratory(models, only=["focus"])  # a Triton server of this notebook's own

# %% [markdown]
# ## The pipeline as Python
#
# A DALI model is a list of steps. `external_source` takes the client's bytes. `crop_mirror_normalize` subtracts `mean`, divides by `std`, and puts the colours first (`CHW`). With [`@autoserialize`](https://github.com/triton-inference-server/dali_backend/blob/main/README.md#autoserialization) Triton's repository holds these steps as Python:

# %% tags=["triton"]
# %%writefile {models}/small/1/dali.py
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.triton import autoserialize


@autoserialize
@pipeline_def(batch_size=64, num_threads=1, device_id=None, output_dtype=types.FLOAT, output_ndim=3)
def pipeline():  # device_id=None: on the CPU
    file = fn.external_source(name="jpeg", dtype=types.UINT8, ndim=1)
    image = fn.resize(fn.decoders.image(file), resize_x=64, resize_y=64)
    look = {"mean": [127.5] * 3, "std": [127.5] * 3, "output_layout": "CHW", "dtype": types.FLOAT}
    return fn.crop_mirror_normalize(image, name="pixels", **look)


# %% [markdown]
# This pipeline declares its types and dimensions, so two lines of config are enough:

# %% language="bash" tags=["triton"]
# cat > $TRITON_MODELS/small/config.pbtxt <<END
# backend: "dali"
# dynamic_batching { }
# END
# curl -sX POST $TRITON_HTTP/v2/repository/models/small/load  # up to 20 seconds

# %% tags=["triton"]
import os

import numpy as np
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
filled = client.get_model_config("small", as_json=True)["config"]
for key in ("max_batch_size", "input", "output"):
    print(key, filled[key])

# %%
claim(
    filled["max_batch_size"] == 64 and filled["input"][0]["name"] == "jpeg",
    "The backend fills in names, types, dims and the batch size of the pipeline.",
    "Run the cells above again.",
    id="dali.filled",
)


# %% tags=["triton"]
def ask(model, rows):
    """The answer of a model with one input and one output."""
    about = client.get_model_metadata(model)
    tensor = grpc.InferInput(about.inputs[0].name, rows.shape, about.inputs[0].datatype)
    tensor.set_data_from_numpy(rows)
    return client.infer(model, [tensor]).as_numpy(about.outputs[0].name)


def decode(model, files):
    """Send the bytes of files to a pipeline, one file per request."""
    return np.concatenate([ask(model, np.frombuffer(file, np.uint8)[None]) for file in files])


files = [path.read_bytes() for path in sorted((models / "jpegs").iterdir())]
one = decode("small", files[:1])
print(f"{len(files[0]):,} bytes of JPEG; pixels {one.shape}, {one.nbytes:,} bytes")

# %%
middle = sorted(map(len, files))[len(files) // 2]
claim(
    3 * middle < one.nbytes,
    f"Of {len(files)} files, one in the middle has {middle:,} bytes, its pixels {one.nbytes:,}.",
    "Run the cell above again.",
    id="dali.bytes",
)

# %% [markdown]
# ## Whose pixels?
#
# The network was trained with Pillow's pixels. When Pillow shrinks a picture, each pixel is a mean of all that it covers. OpenCV's bilinear mode takes four (PyTorch computes the same here). DALI runs below with its defaults, and with `antialias=False`.

# %% tags=["triton"]
import io

import torch
from PIL import Image


def pillow(file):
    picture = Image.open(io.BytesIO(file)).convert("RGB")
    return np.asarray(picture.resize((64, 64), Image.Resampling.BILINEAR)).transpose(2, 0, 1)


def opencv(file):
    picture = np.array(Image.open(io.BytesIO(file)).convert("RGB"), np.float32)
    whole = torch.from_numpy(picture).permute(2, 0, 1)[None]
    return torch.nn.functional.interpolate(whole, (64, 64), mode="bilinear")[0].round().numpy()


# %%
predict(
    "dali.pixels",
    "The network gets other pixels than in training. Whose pixels change some of its 200 "
    "verdicts: those of DALI's default, or OpenCV's?",
    {
        "both": "By default DALI averages, as Pillow does; its decoder differs a "
        "little. Look at its row above.",
        "only those of DALI's default": "By default DALI averages, as Pillow does. Without averaging fine lines "
        "stay hard, and a blurred picture looks sharp.",
        "only OpenCV's": None,
        "neither: all pictures look alike": "To us. Sharpness is what the network looks for, and "
        "how a picture was shrunk changes it.",
    },
)

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp -rT small four
# sed -i 's/resize_y=64/resize_y=64, antialias=False/' four/1/dali.py
# curl -sX POST $TRITON_HTTP/v2/repository/models/four/load

# %% tags=["triton"]
pixels = {
    "Pillow": np.stack([pillow(file) for file in files]).astype(np.float32) / 127.5 - 1,
    "DALI": decode("small", files),
    "DALI, antialias=False": decode("four", files),
    "as OpenCV, bilinear": np.stack([opencv(file) for file in files]) / np.float32(127.5) - 1,
}
logits = {name: ask("focus", rows) for name, rows in pixels.items()}
changed, trained = {}, logits["Pillow"].argmax(1)
for name, rows in pixels.items():
    grey = abs(rows - pixels["Pillow"]).mean() * 127.5
    changed[name] = int((logits[name].argmax(1) != trained).sum())
    print(f"{name:22} differs by {grey:.2f} grey levels; verdicts changed: {changed[name]}")

# %%
setup.plot(pixels, logits)  # the picture whose verdict changed most; its distance from Pillow's

# %%
sharper, opencvs = changed["DALI, antialias=False"], changed["as OpenCV, bilinear"]
whose = "only OpenCV's" if changed["DALI"] == 0 < opencvs else "both"
compare("dali.pixels", whose, premise=Premise(opencvs > 0, "no verdict changed"))
claim(
    changed["DALI"] <= 1 < opencvs
    and abs(pixels["DALI, antialias=False"] - pixels["as OpenCV, bilinear"]).mean() * 127.5 < 0.5,
    f"DALI's default changes {changed['DALI']} verdicts, OpenCV's way {opencvs}, and DALI without "
    f"averaging, which is nearly OpenCV's way, {sharper}.",
    "Run the cells of this section again.",
    id="dali.pixels",
)

# %% [markdown]
# One or two grey levels changed verdicts. So do not compare pictures by eye: count verdicts.
#
# <details><summary>Errata: the backend slides</summary>
#
# The slides warn of NVIDIA's primitives (NPP) on a GPU (not verified). NPP is their word: `fn.resize` has [kernels of its own](https://github.com/NVIDIA/DALI/tree/main/dali/kernels/imgproc/resample).
#
# </details>
#
# ## The cure
#
# Use the training's settings, or train with the pipeline's pixels. Suppose another team owns the pipeline, with ImageNet's mean and std. `setup.retrain` trains the last layer with 512 of its pictures, as the model `focus_anew`.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp -rT small theirs
# sed -i 's/"mean": \[127.5\] \* 3/"mean": [123.675, 116.28, 103.53]/' theirs/1/dali.py
# sed -i 's/"std": \[127.5\] \* 3/"std": [58.395, 57.12, 57.375]/' theirs/1/dali.py
# grep mean theirs/1/dali.py
# curl -sX POST $TRITON_HTTP/v2/repository/models/theirs/load

# %% tags=["triton"]
training = [path.read_bytes() for path in sorted((models / "training").iterdir())]
examples = decode("theirs", training)

# %%
setup.retrain(models, examples)

# %% tags=["triton"]
client.load_model("focus_anew")
sharp = [path.name.startswith("sharp") for path in sorted((models / "jpegs").iterdir())]
theirs = decode("theirs", files)
tries = {"Pillow": logits["Pillow"], "theirs": ask("focus", theirs)}
tries["trained anew"] = ask("focus_anew", theirs)
right = {name: int(sum(each.argmax(1) == np.array(sharp))) for name, each in tries.items()}
print("right of 200:", right)

# %%
claim(
    right["trained anew"] > right["theirs"] + 10,
    f"With the other team's numbers {right['theirs']} of 200 verdicts are right in place of "
    f"{right['Pillow']}. Training only the last layer, with 512 of the pipeline's pictures, "
    f"makes that {right['trained anew']}.",
    "Run the cells of this section again.",
    id="dali.cure",
)

# %% [markdown]
# How fast is the pipeline? Pillow in this process first, then the server, with one and with eight pictures under way:

# %% tags=["triton"]
import json
import time

file = sorted(files, key=len)[100]
example = {"jpeg": {"content": list(file), "shape": [len(file)]}}
size = (models / "jpeg.json").write_text(json.dumps({"data": [example]}))
began = time.perf_counter()
for each in files:
    pillow(each)
print(f"Pillow, in-process: {len(files) / (time.perf_counter() - began):.0f} per second")

# %% language="bash" tags=["triton"]
# for load in 1 8; do
#   echo "== $load under way"
#   perf_analyzer -m small -i grpc -u $TRITON_GRPC --input-data $TRITON_MODELS/jpeg.json \
#     --concurrency-range $load -p 400 -s 200 -r 20 | grep -E 'Throughput|Avg request'
# done

# %% [markdown]
# *compute infer* is DALI's time; the rest goes to requests and copies. On a CPU Pillow may be faster. But clients send small files, and get the same pixels.
#
# <details><summary>In NVIDIA's container</summary>
#
# By NVIDIA's [matrix](../01__map_of_backends/01__map_of_backends.ipynb#Which-when), `24.10-py3` contains DALI. Take one instance: more need [much memory](https://github.com/triton-inference-server/dali_backend/blob/main/README.md#known-limitations).
#
# </details>
#
# ## A serialized pipeline
#
# A pipeline can also be *serialized*, as `model.dali`. This one declares no types, so its config must. That of [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) says `TYPE_STRING`:

# %% tags=["triton"]
from nvidia.dali import fn, pipeline_def, types


@pipeline_def(batch_size=64, num_threads=1, device_id=None)
def large():
    image = fn.decoders.image(fn.external_source(name="DALI_INPUT_0"))
    image = fn.resize(image, resize_x=224, resize_y=224)
    look = {"mean": [127.5] * 3, "std": [127.5] * 3, "output_layout": "CHW", "dtype": types.FLOAT}
    return fn.crop_mirror_normalize(image, **look)


written = large().serialize(filename=str(models / "dali_model/1/model.dali"))
# !grep -v '^#' models/dali_model/config.as_printed.pbtxt

# %%
predict(
    "dali.string",
    "The JPEG file is sent as a text of bytes, as the config says. What happens?",
    {
        "the model does not load": "DALI knows no strings, but the pipeline declares no type for "
        "its source, and so the backend has nothing to compare.",
        "it loads, and answers": "Read the message: DALI takes bytes, and a Triton string is a "
        "length with bytes behind it.",
        "it loads, and refuses each request": None,
    },
)

# %% tags=["triton"]
from tritonclient.utils import InferenceServerException

# !cp models/dali_model/config.as_printed.pbtxt $TRITON_MODELS/dali_model/config.pbtxt
try:
    message = ""
    client.load_model("dali_model")
    ask("dali_model", np.array([[files[0]]], object))
except InferenceServerException as error:
    message = error.message()
loaded = client.is_model_ready("dali_model")
print(f"loaded: {loaded}\n{message}")

# %%
shown = "it loads, and refuses each request" if message else "it loads, and answers"
compare("dali.string", shown, premise=Premise(loaded, "dali_model did not load"))

# %% tags=["triton"]
# a file is TYPE_UINT8; the config's name is optional
# !sed -i '/^name/d; s/TYPE_STRING/TYPE_UINT8/' $TRITON_MODELS/dali_model/config.pbtxt
client.load_model("dali_model")
shape = decode("dali_model", [files[0]]).shape
print(shape)

# %%
claim(
    "TYPE_UINT8" in message and shape == (1, 3, 224, 224),
    "As TYPE_UINT8, a JPEG file of any length becomes 3 × 224 × 224 numbers.",
    "Run the cells of this section again.",
    id="dali.uint8",
)

# %% [markdown]
# <details><summary>Errata: the backend slides</summary>
#
# Not `TYPE_STRING` but `TYPE_UINT8`: so say DALI's [developers](https://github.com/triton-inference-server/dali_backend/issues/176).
#
# </details>
#
# ## From CPU to GPU, and back?
#
# Each step runs on the CPU or on a GPU. A decoder with `mixed` begins on the CPU and ends on the GPU; `.gpu()` and `.cpu()` move a picture. Which routes does DALI serialize? That needs no GPU.


# %% tags=["triton"]
def route(decoder, resize, move=lambda image: image, **options):
    @pipeline_def(batch_size=1, num_threads=1, device_id=None, **options)
    def steps():
        image = fn.decoders.image(fn.external_source(name="DALI_INPUT_0"), device=decoder)
        return fn.resize(move(image), resize_x=64, resize_y=64, device=resize)

    try:
        steps().serialize()
    except RuntimeError as error:
        return str(error).split("failed: ")[-1].splitlines()[0]
    return "serializes"


# %% tags=["triton"]
routes = {
    "CPU → GPU": route("cpu", "gpu"),
    "CPU → .gpu() → GPU": route("cpu", "gpu", lambda image: image.gpu()),
    "mixed → GPU": route("mixed", "gpu"),
    "mixed → CPU": route("mixed", "cpu"),
    "mixed → .cpu() → CPU": route("mixed", "cpu", lambda image: image.cpu()),
    "the same, older executor": route("mixed", "cpu", lambda i: i.cpu(), exec_dynamic=False),
}
print("\n".join(f"{name:25} {answer}" for name, answer in routes.items()))

# %%
claim(
    [way for way in routes if routes[way] == "serializes"]
    == ["CPU → .gpu() → GPU", "mixed → GPU", "mixed → .cpu() → CPU"],
    "From CPU to GPU it serializes with .gpu() or a mixed decoder, and back with .cpu(), but not "
    "with the older executor.",
    "DALI's release may be another: read the table above.",
    id="dali.devices",
)

# %% [markdown]
# An *executor* runs the steps, and the older one (`exec_dynamic=False`) has no way back. We could not try which one the container's DALI takes, so keep to the rule: first CPU, then GPU.
#
# <details><summary>Errata: the backend slides</summary>
#
# ```python
# SIZE_X, SIZE_Y, SCALE, OUTPUT_DIR = 224, 224, 1.0
# ```
#
# The printed program cannot start: four names get three values, and `os` is not imported. Its decoder runs on the CPU and `fn.resize` on a GPU, without a move. DALI 2.4 refuses that: write `.gpu()`, or decode with `device="mixed"` (not verified).
#
# </details>
#
# ## Typical mistakes
#
# Each one changes a copy of `dali_model`:

# %%
from workbook.lessons import mistakes

several = {
    "another input": mistakes.config('"DALI_INPUT_0"', '"jpeg"'),
    "an output too many": setup.two_outputs,
    "no outputs": setup.no_outputs,
    "a file that is cut off": setup.cut_off,
    "a pipeline for a GPU": setup.for_gpu,
}
mistakes.provoke(lab, "dali_model", several)

# %% [markdown]
# ## Your turn
#
# `models/front/1/dali.py` was copied from another network. Make its pixels those that this network was trained with. Change the file in a new cell (`%%writefile {models}/front/1/dali.py`), then run the cell with the task again: it loads the model.

# %%
setup.front(models)  # writes the folder only where it is missing
show(models / "front/1/dali.py")

# %%
lab.load("front")
task("dali.front", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# Put your training's preprocessing into `trained`, and the program counts what your pipeline changes:

# %%
show("at_work/same_pixels.py")

# %% tags=["triton"]
# %run at_work/same_pixels.py small focus {models}/jpegs
# %run at_work/same_pixels.py four focus {models}/jpegs

# %% [markdown]
# ## What to remember
#
# - A pipeline is a file of steps: a readable `dali.py` with `@autoserialize`, or `model.dali`. Files go in as `TYPE_UINT8`.
# - First steps on the CPU, then on the GPU. Each move is written: `.gpu()`, or a decoder with `mixed`.
# - Libraries shrink pictures differently. Count the verdicts that change; train with the server's pixels.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A pipeline with a mixed decoder comes from a GPU machine. What does this server say?</summary>
#
# It names the operators for a GPU, since this instance has none. Write `device_id=None`, and serialize it again.
#
# </details>
#
# <details><summary>A team trains with OpenCV's bilinear mode and serves with DALI. Which setting brings both together?</summary>
#
# `antialias=False` in `fn.resize`. Then count the verdicts: the decoders may still differ.
#
# </details>
#
# <details><summary>Two clients send files of different length. How do both come into one batch?</summary>
#
# In most backends this is not possible, since a batch is one array. The DALI backend takes a list of samples, where the input has `allow_ragged_batch`, which it fills in itself.
#
# </details>
#
# Next: [TensorRT](../10__tensorrt/10__tensorrt.ipynb).
