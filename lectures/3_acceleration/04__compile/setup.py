"""For 04__compile: the network's files, the graph's drawing, times by level, three mistakes."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbook import measure
from workbook.lessons import formats
from workbook.lessons import mistakes as made
from workbook.lessons.premises import Premise, clear
from workbook.lessons.shared import focus_files, quiet
from workbook.measure import style
from workbook.server import Triton

#: The models with and without ONNX Runtime's rewriting.
LEVELS = ("compiled", "as_exported")
_TURNS = 3
#: What the drawing calls operators with long names.
_SHORT = {"MaxPool": "Pool", "GlobalAveragePool": "Mean", "ReorderOutput": "Reorder"}


def prepare(models: Path) -> None:
    """Write the network for each model, and pictures. Warnings of exporters are hidden."""

    quiet.hide_warnings()
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of the older exporter
    focus_files.save(models)
    formats.save_torchscript(models / "batched/1/model.pt")
    shutil.copy(models / "network.pt", models / "flexible/1/network.pt")


def operators(file: Path) -> Counter[str]:
    """How often each operator stands in an ONNX file."""
    return Counter(node.op_type for node in _nodes(file))


def draw(before: Path, after: Path) -> style.Picture:
    """Draw the operators of two ONNX files, one above the other; a join is wider.

    An operator of `after` that computes what two operators of `before` computed is drawn across
    both: a convolution that took over the Relu behind it.
    """
    first = [node.op_type for node in _nodes(before)]
    second = [node.op_type for node in _nodes(after)]
    words = f"exported: {', '.join(first)}; optimized: {', '.join(second)}"
    figure = style.Picture(9.2, 1.7, words)
    axes = figure.subplots()
    axes.axis("off")
    _row(axes, 1, [(name, 1) for name in first])
    joined = "Relu" in first and "Relu" not in second
    _row(axes, 0, [(name, 2 if joined and "Conv" in name else 1) for name in second])
    axes.set_xlim(-1.7, len(first) + 1.1)
    axes.set_ylim(-0.5, 1.6)
    return figure


def read_levels(models: Path) -> pd.DataFrame:
    """The reports of the models in `LEVELS`, three of each.

    Returns:
        One row per model: `compute, ms`, the server's mean time per picture in the framework, of
        the fastest turn; `request, ms`, the median time of a request in the same turn; `spread`,
        the second fastest turn's compute time over the fastest's.
    """
    found = {}
    for name in LEVELS:
        each = measure.read_reports(*(models / f"{name}.{n + 1}.csv" for n in range(_TURNS)))
        times = sorted(each["compute_infer_ms"])
        best = each.loc[each["compute_infer_ms"].idxmin()]
        found[name] = {
            "compute, ms": times[0],
            "request, ms": best["p50_ms"],
            "spread": times[1] / times[0],
        }
    return pd.DataFrame.from_dict(found, orient="index")


def exported(before: Counter[str]) -> Premise:
    """Premise: the exported file has the operators that the prediction names."""
    return Premise(
        before["Conv"] == before["Relu"] == before["MaxPool"] == 4,
        "the file as exported has other operators than four Conv, Relu and MaxPool",
    )


def quick(waits: Sequence[float]) -> Premise:
    """Premise: a request that did not wait for a compiler took less than 0.1 seconds."""
    return Premise(
        min(waits) < 0.1, f"even the fastest request took {min(waits):.1f} s on this machine"
    )


def apart(levels: pd.DataFrame) -> Premise:
    """Premise: the two compute times differ by more than repeated measurements do."""
    times = levels["compute, ms"]
    return clear(times["as_exported"] / times["compiled"], 1.0, levels["spread"].max())


def mistakes(server: Triton) -> made.Results:
    """Provoke mistakes with compilers: a level in words, threads in words, a file for a GPU."""
    return made.provoke(
        server,
        "compiled",
        {
            "a level in words": made.append('optimization { graph { level: "all" } }'),
            "a number of threads in words": made.config('string_value: "1"', 'string_value: "one"'),
            "an accelerator that does not exist": made.append(
                "optimization { execution_accelerators {\n"
                '  cpu_execution_accelerator: [ { name: "inductor" } ]\n} }'
            ),
        },
    )


def _row(axes: Any, height: int, boxes: list[tuple[str, int]]) -> None:
    """Draw one list of operators, with its name at the left."""
    name = "optimized" if height == 0 else "exported"
    axes.text(-0.2, height, name, ha="right", va="center", fontsize=9, color=style.GREY)
    left = 0.0
    for operator, width in boxes:
        colour = style.COLOURS[1] if width > 1 else style.COLOURS[0]
        axes.barh(height, width - 0.08, left=left, height=0.62, color=colour, alpha=0.35)
        axes.text(
            left + width / 2 - 0.04,
            height,
            _SHORT.get(operator, operator),
            ha="center",
            va="center",
            fontsize=7,
        )
        left += width


def _nodes(file: Path) -> Any:
    import onnx

    return onnx.load(file, load_external_data=False).graph.node
