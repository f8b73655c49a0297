# ---
# title: "DALI: from file to pixels"
# minutes: 17
# ---

# %% [markdown]
# # DALI: from file to pixels
#
# **Question.** Clients send JPEG files, and the lecture's network (sharp or blurred?) takes 3 × 64 × 64 numbers. Do its verdicts stay the same if the server computes them?
#
# DALI serves the preprocessing of pictures, video and sound, on GPU and CPU.
#
# The first notebook that needs the network trains it: one to six minutes.

# %%
from pathlib import Path

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
import pandas as pd
from nvidia.dali import pipeline_def

import setup
from workbook.lessons import claim, compare, folder, formats, laboratory, mistakes, place, show
from workbook.lessons.workspace import version

models = folder("dali")  # an empty folder: files of an earlier run are deleted
version(models, "small")  # makes the folder for a file that you write below
lab = laboratory(models, only=[])

# %% [markdown]
# ## A pipeline from a slide
#
# Decode, make smaller, normalise: the pipeline of [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course), with a size and numbers filled in. Its decoder runs on the CPU, the rest on a GPU.
#
# `external_source` takes the client's bytes. `crop_mirror_normalize` subtracts `mean`, divides by `std`, and puts the colours first (`CHW`).

# %%
try:
    SIZE_X, SIZE_Y, SCALE, OUTPUT_DIR = 224, 224, 1.0  # as printed
except ValueError as error:
    print(error)
SIZE_X, SIZE_Y, SCALE, MEAN, STD = 224, 224, 1.0, [127.5] * 3, [127.5] * 3


@pipeline_def(batch_size=16, num_threads=4)
def TritonLoadingPipeline():
    orig_images = fn.decoders.image(fn.external_source(name="DALI_INPUT_0"), device="cpu")
    resized_images = fn.resize(orig_images, resize_x=SIZE_X, resize_y=SIZE_Y, device="gpu")
    look = {"mean": MEAN, "std": STD, "scale": SCALE, "output_layout": "CHW", "dtype": types.FLOAT}
    return fn.crop_mirror_normalize(resized_images, device="gpu", **look)


print(setup.serialize_error(lambda: TritonLoadingPipeline(device_id=0)))

# %% [markdown]
# > **Errata.** The printed program cannot start: four names get three values, and `os` is not imported. In DALI 2.4, a GPU step takes no CPU tensor: move it with `.gpu()`, or decode with `device="mixed"`, from CPU to GPU.
#
# ## From CPU to GPU, and back?
#
# The slide: CPU → GPU works, GPU → CPU not. Six routes are *serialized* (as a file):


# %%
def route(decoder, resize, move=lambda image: image, **options):
    @pipeline_def(batch_size=1, num_threads=1, device_id=None, **options)
    def pipeline():
        image = fn.decoders.image(fn.external_source(name="DALI_INPUT_0"), device=decoder)
        return fn.resize(move(image), resize_x=64, resize_y=64, device=resize)

    return setup.serialize_error(pipeline) or "serializes"


# %%
routes = {
    "CPU → GPU": route("cpu", "gpu"),
    "CPU → .gpu() → GPU": route("cpu", "gpu", lambda image: image.gpu()),
    "mixed → GPU": route("mixed", "gpu"),
    "mixed → CPU": route("mixed", "cpu"),
    "mixed → .cpu() → CPU": route("mixed", "cpu", lambda image: image.cpu()),
    "the same, older executor": route("mixed", "cpu", lambda i: i.cpu(), exec_dynamic=False),
}
works = [name for name, answer in routes.items() if answer == "serializes"]
claim(
    works == ["CPU → .gpu() → GPU", "mixed → GPU", "mixed → .cpu() → CPU"],
    f"These serialize: {', '.join(works)}.",
    "DALI's release may be another: read the table below.",
    id="dali.devices",
)
pd.DataFrame({"DALI says": routes}).style.set_properties(**{"text-align": "left"})

# %% [markdown]
# So the rule is that of DALI's older *executor*, which runs the steps (`exec_dynamic=False`). Whether the container's DALI runs a GPU → CPU pipeline, we could not try: keep to the rule.
#
# ## On a CPU, with the slide's config
#
# `device_id=None`, and no `device="gpu"`. The slide's config declares the files as `TYPE_STRING`:


# %%
@pipeline_def(batch_size=64, num_threads=1, device_id=None)
def on_cpu(size, antialias=True, mean=MEAN, std=STD):
    image = fn.decoders.image(fn.external_source(name="DALI_INPUT_0"))
    small = fn.resize(image, resize_x=size, resize_y=size, antialias=antialias)
    look = {"output_layout": "CHW", "dtype": types.FLOAT}
    return fn.crop_mirror_normalize(small, mean=mean, std=std, **look)


file = version(models, "dali_model") / "model.dali"
saved = on_cpu(224).serialize(filename=str(file))

# %%
from workbook.lessons import predict, task, write

config = Path("models/dali_model/config.as_printed.pbtxt")
show(config)
(models / "dali_model/config.pbtxt").write_text(config.read_text())

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

# %%
lab.unload("dali_model")  # so that the load reads the file's config, not the one below
lab.load("dali_model")  # up to 20 seconds
jpeg = formats.files()[0]
message = mistakes.explain_refusal(lab, "dali_model", DALI_INPUT_0=np.array([[jpeg]], object))
print(message)
lab.load("dali_model", config={**lab.config("dali_model"), "input": [
    {"name": "DALI_INPUT_0", "data_type": "TYPE_UINT8", "dims": [-1]}]})  # fmt: skip
pixels = setup.decode(lab, "dali_model", [jpeg])

# %%
seen = "it loads, and refuses each request" if message else "it loads, and answers"
from workbook.lessons import Premise

compare("dali.string", seen, premise=Premise(lab.ready("dali_model"), "dali_model is not loaded"))
claim(
    "TYPE_UINT8" in message and pixels.shape == (1, 3, 224, 224),
    "As TYPE_UINT8, a JPEG file of any length becomes 3 × 224 × 224 numbers.",
    "Run the cell before this one again.",
    id="dali.uint8",
)

# %% [markdown]
# > **Erratum.** Not `TYPE_STRING` but `TYPE_UINT8`, dims `[ -1 ]`: so say DALI's [developers](https://github.com/triton-inference-server/dali_backend/issues/176).
#
# ## The pipeline as Python
#
# People cannot read a serialized pipeline. With [`@autoserialize`](https://github.com/triton-inference-server/dali_backend/blob/main/README.md#autoserialization) the repository holds a `dali.py`. If it declares types and dimensions, two lines of config are enough:

# %%
# %%writefile {models}/small/1/dali.py
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.triton import autoserialize


@autoserialize
@pipeline_def(batch_size=64, num_threads=1, device_id=None, output_dtype=types.FLOAT, output_ndim=3)
def pipeline():
    file = fn.external_source(name="jpeg", dtype=types.UINT8, ndim=1)
    image = fn.resize(fn.decoders.image(file), resize_x=64, resize_y=64)
    look = {"mean": [127.5] * 3, "std": [127.5] * 3, "output_layout": "CHW", "dtype": types.FLOAT}
    return fn.crop_mirror_normalize(image, name="pixels", **look)


# %%
write(models / "small/config.pbtxt", 'backend: "dali"\ndynamic_batching { }')
lab.load("small")
filled = lab.config("small")
claim(
    filled["max_batch_size"] == 64 and filled["input"][0]["name"] == "jpeg",
    "The backend fills in names, types, dims and the batch size of the pipeline.",
    "Run the cells above again.",
    id="dali.filled",
)
filled["input"], filled["output"]

# %% [markdown]
# ## Whose pixels?
#
# The network was trained with Pillow's pixels: when Pillow shrinks, each pixel is a mean of all that it covers. OpenCV's bilinear mode takes four (OpenCV is not installed, so NumPy computes it here). What does DALI do by default? After the prediction it is also asked with `antialias=False`.

# %%
predict(
    "dali.pixels",
    "The network gets other pixels than in training. Whose pixels change some of its 200 "
    "verdicts: those of DALI's default, or OpenCV's?",
    {
        "both": "By default DALI averages, as Pillow does; its decoder differs a "
        "little. Look at its row in the table.",
        "only those of DALI's default": "By default DALI averages, as Pillow does. Without averaging fine lines "
        "stay hard, and a blurred picture looks sharp.",
        "only OpenCV's": None,
        "neither: all pictures look alike": "To us. Sharpness is what the network looks for, and "
        "how a picture was shrunk changes it.",
    },
)

# %%
home = version(models, "four")  # this cell takes up to a minute
saved_four = on_cpu(64, antialias=False).serialize(filename=str(home / "model.dali"))
place(models, "models/four")
show("models/four/config.pbtxt")
lab.load("four")
pixels_of = {"Pillow": formats.pictures(), "DALI": setup.decode(lab, "small")}
pixels_of["DALI, antialias=False"] = setup.decode(lab, "four")
pixels_of["as OpenCV, bilinear"] = setup.bilinear()
logits_of = {name: setup.logits(pixels) for name, pixels in pixels_of.items()}
table = setup.compared(pixels_of, logits_of)
table

# %%
default, four, opencv = table["verdicts changed"].iloc[1:]
seen_pixels = "only OpenCV's" if default == 0 < opencv else "both"
alike = np.abs(pixels_of["DALI, antialias=False"] - pixels_of["as OpenCV, bilinear"]).mean()
compare("dali.pixels", seen_pixels, premise=Premise(opencv > 0, "no verdict changed"))
claim(
    default <= 1 < opencv and alike * setup.GREYS < 0.5,
    f"DALI's default changes {default:.0f} verdicts, OpenCV's way {opencv:.0f}, and DALI without "
    f"averaging, which is nearly OpenCV's way, {four:.0f}.",
    "Run the two cells above again.",
    id="dali.pixels",
)
setup.plot(pixels_of, logits_of)

# %% [markdown]
# The figure: a picture whose verdict changed, and the distance from Pillow's pixels. The slides warn of NVIDIA's primitives (NPP) on a GPU (not verified). NPP is their word: `fn.resize` has [kernels of its own](https://github.com/NVIDIA/DALI/tree/main/dali/kernels/imgproc/resample). Count verdicts.
#
# ## The cure
#
# Use the training's settings, or train with the pipeline's pixels. Suppose another team owns the pipeline, with ImageNet's mean and std:


# %%
def in_process(files, **settings):
    pipe = on_cpu(64, batch_size=len(files), **settings)
    pipe.feed_input("DALI_INPUT_0", [np.frombuffer(file, np.uint8) for file in files])
    return np.asarray(pipe.run()[0].as_tensor()).copy()


other = {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}
anew = setup.last_layer(lambda files: in_process(files, **other))  # up to a minute
theirs = in_process(formats.files(), **other)
before, after = (setup.right(setup.logits(theirs, net)) for net in (formats.network(), anew))
trained = setup.right(formats.reference())
print(f"right of 200: {trained} with Pillow's pixels; {before} with the other team's, then {after}")

# %%
claim(
    after > before + 10,
    f"With the other team's numbers {before} of 200 verdicts are right in place of {trained}. "
    f"Training only the last layer, with 512 of the pipeline's pictures, makes that {after}.",
    "Run the cell above again.",
    id="dali.cure",
)
rates = setup.rates(lab, "small", setup.one_by_one(on_cpu, 64, batch_size=8))
sent = int(np.median([len(file) for file in formats.files()])), formats.pictures()[0].nbytes
claim(
    sent[0] * 3 < sent[1],
    f"A file has {sent[0]:,} bytes, its pixels {sent[1]:,}.",
    "",
    id="dali.bytes",
)
rates.round(1)

# %% [markdown]
# Pictures per second, better of two; `spread`: better over worse. The rest goes to requests and copies. On a CPU Pillow may be faster; the gain is that clients send small files and all get the same pixels.
#
# `mixed` decodes on a GPU (not verified). By NVIDIA's [matrix](../01__map_of_backends/01__map_of_backends.ipynb#Which-when), `24.10-py3` contains DALI. Take one instance: more need [much memory](https://github.com/triton-inference-server/dali_backend/blob/main/README.md#known-limitations).
#
# ## Typical mistakes

# %%
change = mistakes.config
several = {
    "another input": change('"DALI_INPUT_0"', '"jpeg"'),
    "an output too many": setup.two_outputs,
    "no outputs": setup.no_outputs,
    "a file that is cut off": setup.cut_off,
    "a pipeline for a GPU": setup.for_gpu,
}
mistakes.provoke(lab, "four", several)

# %% [markdown]
# ## Your turn
#
# `models/front/1/dali.py` was copied from another network. Make its pixels those that this network was trained with. Change the file in a new cell (`%%writefile {models}/front/1/dali.py`), then run the last cell again: it loads the model.

# %%
setup.front(models)  # writes the folder only where it is missing
show(models / "front/1/dali.py")

# %%
lab.load("front")
task("dali.front", server=lab, models=models)

# %% [markdown]
# ## What to remember
#
# - A pipeline is a file of steps: `model.dali`, or a readable `dali.py` with `@autoserialize`. Files go in as `TYPE_UINT8`.
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
