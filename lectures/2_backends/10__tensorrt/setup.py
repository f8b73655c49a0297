"""For 10__tensorrt: the network, the picture of what was fused, and trtexec's options.

    setup.draw(models / "focus.onnx", layers)   # nodes of the file beside layers of the engine
    setup.explain(setup.COMMAND)                # each option of a trtexec command line
    setup.builds(models)                        # do the shapes of build.sh build an engine?

What the options mean is taken from `trtexec --help` (NVIDIA/TensorRT, samples/common/
sampleOptions.cpp) and NVIDIA's page on the change from 10 to 11.
"""

from __future__ import annotations

import html
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from IPython.display import HTML

from workbook import zoo
from workbook.common.errors import WorkbookError
from workbook.lessons import formats
from workbook.lessons.shared import quiet
from workbook.zoo import engines

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
#: Pictures in a batch: the fewest, the number to be fastest at, the most.
BATCHES = (1, 16, 32)


def prepare(models: Path) -> None:
    """Write the lecture's network as focus.onnx, and pictures as the network takes them.

    `training.npy` has 256 pictures, `pictures.npy` the 200 of this lecture. Three models are for
    ONNX Runtime: `focus_fp32` has the network, `focus_fp16` and `focus_int8` lack a file yet.

    Raises:
        WorkbookError: the package `tensorrt_rtx` is not installed.
    """
    if "rtx" not in engines.tools():
        raise WorkbookError(
            "TensorRT for RTX is not installed: its licence lets no image contain it.",
            todo="docs/operators.md, `The laptop image`, says how to add it to a container. In a "
            "code space, read this notebook without running it: no other one needs it.",
        )
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
    for model in ("focus_fp32", "focus_fp16", "focus_int8"):
        (models / model / "1").mkdir(parents=True, exist_ok=True)
        config = 'platform: "onnxruntime_onnx"\nmax_batch_size: 200\n'
        (models / model / "config.pbtxt").write_text(config, "utf-8")
    onnx.save(exported, models / "focus_fp32/1/model.onnx")
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


def profile(line: str) -> engines.Profile:
    """Return the profile that a command line of trtexec gives.

    Raises:
        ValueError: it lacks one of the three options, or a shape cannot be read.
    """
    given = _options(line)
    lacking = [f"--{w}Shapes" for w in ("min", "opt", "max") if not given.get(f"--{w}Shapes")]
    if lacking:
        raise ValueError(f"{lacking[0]} is missing")
    low, best, high = (shapes(given[f"--{which}Shapes"]) for which in ("min", "opt", "max"))
    if not low.keys() == best.keys() == high.keys():
        raise ValueError("the three options name different inputs")
    return {name: (low[name], best[name], high[name]) for name in low}


def builds(models: Path) -> bool:
    """Whether the ONNX file and the shapes of build.sh build a real engine."""
    line = (Path(__file__).parent / "models/focus_tensorrt/build.sh").read_text("utf-8")
    file = models / _options(line)["--onnx"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            engines.build(file, Path(folder, "model.plan"), profile(line))
        except engines.EngineError:
            return False
    return True


def engine(models: Path) -> None:
    """Build focus_tensorrt/1/model.plan with the record that the course's backend reads."""
    plan = models / "focus_tensorrt/1/model.plan"
    engines.build(models / "focus.onnx", plan, engines.profile_of({"image": (3, 64, 64)}, BATCHES))


def kinds(
    file: Path, layers: Sequence[tuple[str, Sequence[str]]], operator: str = "Conv"
) -> list[tuple[str, ...]]:
    """Return what an engine's layers with a convolution compute: operators of the ONNX file.

    Args:
        file: the network.
        layers: of each layer its kind, and the names of the nodes that it computes.
        operator: the one that a layer must compute to be listed.

    Returns:
        Per layer its operators, each once, in alphabetical order.
    """
    operators = {node.name: node.op_type for node in _graph(file).node}
    found = [{operators[n] for n in nodes if n in operators} for _, nodes in layers]
    return [tuple(sorted(each)) for each in found if operator in each]


def draw(file: Path, layers: Sequence[tuple[str, Sequence[str]]]) -> HTML:
    """Draw the nodes of an ONNX file, and beside them the engine's layers that compute them.

    A layer without a node of its own is not drawn: the builder has added it.

    Args:
        file: the network.
        layers: of each layer its kind, and the names of the nodes that it computes.
    """
    nodes = {node.name: node.op_type for node in _graph(file).node}
    places = {name: place for place, name in enumerate(nodes)}
    height = 30
    parts = [_box(10, place * height, 200, height, f"{operator}: {name}", "#e8eef7")
             for place, (name, operator) in enumerate(nodes.items())]  # fmt: skip
    drawn: set[str] = set()
    for kind, computed in layers:
        rows = [places[name] for name in computed if name in places and name not in drawn]
        if not rows:
            continue
        drawn.update(computed)
        top, tall = min(rows) * height, (max(rows) - min(rows) + 1) * height
        colour = "#f9d9a8" if len(rows) > 1 else "#e6f2e1"
        parts.append(_box(290, top, 200, tall, kind, colour))
        parts += [_line(210, row * height + height / 2, 290) for row in rows]
    heads = _text(110, "ONNX file") + _text(390, "engine (orange: fused)")
    label = "; ".join(f"{kind}: {', '.join(computed)}" for kind, computed in layers if computed)
    size = len(nodes) * height
    return HTML(  # type: ignore[no-untyped-call]
        f'<svg role="img" aria-label="{html.escape(label)}" width="500" height="{size + 30}" '
        f'style="background:white">{heads}<g transform="translate(0,24)">{"".join(parts)}</g></svg>'
    )


def _box(x: int, y: int, width: int, height: int, text: str, colour: str) -> str:
    return (
        f'<rect x="{x}" y="{y + 2}" width="{width}" height="{height - 4}" rx="4" fill="{colour}" '
        f'stroke="#555"/><text x="{x + width / 2}" y="{y + height / 2 + 4}" font-size="12" '
        f'fill="black" text-anchor="middle">{html.escape(text)}</text>'
    )


def _line(x: int, y: float, end: int) -> str:
    return f'<line x1="{x}" y1="{y}" x2="{end}" y2="{y}" stroke="#555"/>'


def _text(x: int, text: str) -> str:
    return (
        f'<text x="{x}" y="16" font-size="13" font-weight="bold" fill="black" '
        f'text-anchor="middle">{html.escape(text)}</text>'
    )


def _graph(file: Path) -> Any:
    import onnx

    return onnx.load(file, load_external_data=False).graph
