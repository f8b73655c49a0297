"""For 10__tensorrt: what can be checked and prepared without a GPU.

    setup.explain(setup.COMMAND)    # each option of a trtexec command line
    setup.check(line, models)       # does a command line fit its ONNX file?

What the options mean is taken from `trtexec --help` (NVIDIA/TensorRT, samples/common/
sampleOptions.cpp) and NVIDIA's page on the change from 10 to 11.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import zoo
from workbook.lessons import formats
from workbook.lessons.shared import quiet
from workbook.measure import plot_bars, style

Array = npt.NDArray[Any]

#: The command of the acceleration slides, with spaces in place of the lost backslashes.
COMMAND = """\
/usr/src/tensorrt/bin/trtexec
--onnx=/models/onnx_model/1/model.onnx
--saveEngine=/models/tensorrt_model/1/model.plan
--minShapes=input:1x3x224x224
--optShapes=input:16x3x224x224
--maxShapes=input:32x3x224x224
--int8
--best
--verbose
--dumpProfile
--percentile=95
--exportLayerInfo=/models/trtprofile/LayerInfo.json
--exportProfile=/models/trtprofile/profile.json
--exportTimes=/models/trtprofile/times.json
--separateProfileRun"""

#: The command of the backend slides.
SHORT_COMMAND = "trtexec --onnx=model.onnx --saveEngine=model.plan --fp16"

#: Option → its purpose, and its effect.
OPTIONS = {
    "--onnx": ("build", "the network to build from"),
    "--saveEngine": ("build", "where the engine goes: Triton's model.plan"),
    "--loadEngine": ("measure", "an engine to measure, in place of a build"),
    "--minShapes": ("build", "the smallest shape of each input"),
    "--optShapes": ("build", "the shape that kernels are timed with"),
    "--maxShapes": ("build", "the largest shape; memory is planned for it"),
    "--shapes": ("measure", "the shape that is measured"),
    "--memPoolSize": ("build", "memory that kernels may use beside the tensors"),
    "--stronglyTyped": ("build", "layers have the ONNX file's types; 11 always does so"),
    "--fp16": ("build", "allows kernels in fp16 beside fp32"),
    "--bf16": ("build", "allows kernels in bf16 beside fp32"),
    "--int8": ("build", "allows kernels in int8; nobody calibrates"),
    "--best": ("build", "allows all types: the fastest kernel wins"),
    "--calib": ("build", "a file with calibrated int8 scales"),
    "--skipInference": ("measure", "build only, measure nothing"),
    "--percentile": ("measure", "which percentile of the latency is reported"),
    "--exportTimes": ("measure", "the times of each run as JSON"),
    "--dumpProfile": ("look", "prints the time of each layer"),
    "--exportProfile": ("look", "the time of each layer as JSON"),
    "--separateProfileRun": ("look", "times the layers in a run of its own"),
    "--profilingVerbosity": ("look", "detailed: the engine keeps layers' names"),
    "--dumpLayerInfo": ("look", "prints the layers of the engine"),
    "--exportLayerInfo": ("look", "the layers of the engine as JSON"),
    "--verbose": ("look", "prints each kernel that was tried, and its time"),
}
#: Options that TensorRT 11 no longer has, because its networks are strongly typed.
GONE = ("--fp16", "--bf16", "--int8", "--best", "--calib")
#: Files of a run on a GPU machine that this course shows as soon as one is recorded.
RECORDED = ("LayerInfo.json", "profile.json", "times.json")


def prepare(models: Path) -> None:
    """Write the lecture's network as focus.onnx, and pictures as the network takes them.

    `training.npy` has 256 pictures, `pictures.npy` the 200 of this lecture.
    """
    import onnx
    import torch

    quiet.hide_warnings()
    file = models / "focus.onnx"
    program = torch.onnx.export(
        formats.network(),
        (torch.zeros(2, 3, 64, 64),),
        input_names=["image"],
        output_names=["logits"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        verbose=False,
    )
    program.save(file, external_data=False)
    exported = onnx.load(file)
    del exported.graph.value_info[:]  # shapes of the export, which the tools would trust
    onnx.save(exported, file)
    np.save(models / "training.npy", zoo.data.pixels(zoo.data.focus_files("train")[0][:256]))
    np.save(models / "pictures.npy", formats.pictures())


def is_the_network(verdicts: Array) -> bool:
    """Whether these are the verdicts of the PyTorch network, for the 200 pictures."""
    return np.array_equal(verdicts, formats.reference().argmax(1))


def explain(line: str) -> pd.DataFrame:
    """Explain each option of a command line, and whether TensorRT 11 has it.

    Args:
        line: a command line of trtexec; unknown options have no explanation.

    Returns:
        One row per option: `value`, `for`, `does`, `in TensorRT 11`.
    """
    rows = {}
    for option, value in _options(line).items():
        purpose, does = OPTIONS.get(option, ("?", "not an option that this course knows"))
        rows[option] = {
            "value": value, "for": purpose, "does": does,
            "in TensorRT 11": "gone" if option in GONE else "yes" if option in OPTIONS else "?",
        }  # fmt: skip
    return pd.DataFrame(rows).T


def _options(line: str) -> dict[str, str]:
    """Return the options of a command line and their values; "" for a switch."""
    words = shlex.split(line.replace("\\\n", " "), comments=True)
    found = [word.partition("=") for word in words if word.startswith("--")]
    return {option: value for option, _, value in found}


def shapes(text: str) -> dict[str, tuple[int, ...]]:
    """Parse the shapes of an option such as `image:1x3x64x64,mask:1x64`, by the input's name.

    Raises:
        ValueError: the text has another form.
    """
    found = {}
    for part in text.split(","):
        name, colon, dims = part.rpartition(":")
        if not colon:
            raise ValueError(f"{part!r} has no colon between the input's name and its shape")
        found[name] = tuple(int(size) for size in dims.split("x"))
    return found


def inputs(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the inputs of an ONNX file: shapes by name, -1 for a dynamic dimension."""
    import onnx

    graph = onnx.load(file, load_external_data=False).graph
    weights = {weight.name for weight in graph.initializer}
    return {
        each.name: tuple(
            d.dim_value if d.HasField("dim_value") else -1 for d in each.type.tensor_type.shape.dim
        )
        for each in graph.input
        if each.name not in weights
    }


def commands() -> dict[str, str]:
    """The command of the acceleration slides for focus.onnx, with one correction after the other.

    Returns:
        What was corrected → the command.
    """
    line = COMMAND.replace("/models/onnx_model/1/model.onnx", "focus.onnx")
    untyped = line.replace("--int8\n", "").replace("--best\n", "")
    renamed = untyped.replace("input:", "image:")
    return {
        "as printed": line,
        "without types": untyped,
        "and with our input's name": renamed,
        "and our sizes": renamed.replace("224", "64"),
    }


def takes(line: str, name: str, shape: tuple[int, ...]) -> bool:
    """Return whether the profile of a command line admits this shape of an input."""
    given = _options(line)
    low, high = (shapes(given[option])[name] for option in ("--minShapes", "--maxShapes"))
    return len(shape) == len(low) and all(
        a <= b <= c for a, b, c in zip(low, shape, high, strict=True)
    )


def check(line: str, models: Path) -> str:
    """Return what is wrong with a command line that builds an engine with TensorRT 11, or "".

    The shapes must have the names, the number of dimensions and the fixed dimensions of the ONNX
    file's inputs.

    Args:
        line: the command line.
        models: the folder from which its paths begin.
    """
    given = _options(line)
    for option in given:
        if option in GONE:
            return f"TensorRT 11 has no {option}."
        if option not in OPTIONS:
            return f"trtexec has no option {option}, as far as this course knows."
    for option in ("--onnx", "--saveEngine", "--minShapes", "--optShapes", "--maxShapes"):
        if not given.get(option):
            return f"{option} is missing."
    file = models / given["--onnx"]
    if not file.is_file():
        return f"There is no file {given['--onnx']}."
    try:
        profile = [shapes(given[f"--{which}Shapes"]) for which in ("min", "opt", "max")]
    except ValueError as error:
        return f"A shape cannot be read: {error}."
    for name, dims in inputs(file).items():
        if any(name not in each for each in profile):
            return f"The network's input {name} has no shape in one of the three options."
        three = [each[name] for each in profile]
        if any(len(each) != len(dims) for each in three):
            return f"The input {name} has {len(dims)} dimensions."
        for place, size in enumerate(dims):
            low, best, high = (each[place] for each in three)
            if size != -1 and (low, best, high) != (size, size, size):
                return f"Dimension {place} of {name} is {size} in the network."
            if not low <= best <= high:
                return f"Dimension {place} of {name}: {low}, {best}, {high} are not in order."
    return ""


def profile(file: Path) -> pd.DataFrame:
    """Read a file of `trtexec --exportProfile`: one row per layer, the slowest first.

    Returns:
        Columns `averageMs` and `percentage`, by the layer's name.
    """
    entries = [entry for entry in json.loads(file.read_text("utf-8")) if "name" in entry]
    table = pd.DataFrame(entries).set_index("name")[["averageMs", "percentage"]]
    return table.sort_values("averageMs", ascending=False)


def plot_profile(run: Path, most: int = 12) -> style.Picture | str:
    """Draw the slowest layers of a recorded engine; returns a sentence if no run is recorded.

    Args:
        run: a folder with the file profile.json of `trtexec --exportProfile`.
        most: the number of layers in the figure.
    """
    if not (run / "profile.json").is_file():
        return f"No run is recorded yet: {', '.join(RECORDED)} are not there."
    table = profile(run / "profile.json")
    return plot_bars(table[["averageMs"]].head(most), title="Slowest layers", below="ms per run")
