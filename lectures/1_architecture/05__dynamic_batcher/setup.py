"""For 05__dynamic_batcher: the digits models with and without a batcher, and their throughput."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import measure
from workbook.lessons import files
from workbook.lessons.premises import Premise, sent_as_planned, steady
from workbook.lessons.runs import Run
from workbook.lessons.workspace import copy
from workbook.measure import style

Array = npt.NDArray[np.float32]

#: The framework → the zoo's model of the digits that it runs.
FRAMEWORKS = {
    "ONNX Runtime": "digits_onnx",
    "PyTorch": "digits_torch",
    "OpenVINO": "digits_openvino",
}
_BATCHING = "dynamic_batching { }"


def digits(models: Path) -> dict[str, tuple[str, str]]:
    """Put each digits model into a repository twice: without a batcher and with one.

    Returns:
        By framework, the names of both models: without and with.

    Example:
        pairs = digits(models)          # {"PyTorch": ("digits_torch_alone", "digits_torch"), …}
    """
    pairs = {}
    for framework, name in FRAMEWORKS.items():
        pairs[framework] = f"{name}_alone", name
        copy(models, name, f"{name}_alone", {_BATCHING: ""})
        copy(models, name, name, {})
    return pairs


def crowded(models: Path) -> None:
    """Make the task's model: OpenVINO's digits, with the config that lies beside the notebook."""
    copy(models, "digits_openvino", "crowded", {})
    files.place(models, Path(__file__).parent / "models/crowded")


def alone(run: Run) -> Premise:
    """Premise: requests were sent every 30 ms, and hardly any found the instance busy.

    Executions that take longer than 30 ms join requests without a delay, too.
    """
    size = run.count("batch_size")
    return sent_as_planned(run.answers, 30) & Premise(
        size < 1.5, f"without a delay, {size:.1f} requests shared an execution"
    )


def in_turn(rate: Callable[[str], float], pairs: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Measure all models twice, in turn, so that other programs disturb all of them alike.

    Args:
        rate: from a model's name to its throughput.
        pairs: from `digits`.

    Returns:
        One row per framework; columns `one by one` and `batched`, each the better of two;
        `spread`, the largest factor between two measurements of the same model; `gain 1` and
        `gain 2`, what batching gained in each round.
    """
    rounds = [[[rate(name) for name in pair] for pair in pairs.values()] for _ in range(2)]
    best = np.max(rounds, axis=0)
    spread = np.max(np.max(rounds, axis=0) / np.min(rounds, axis=0), axis=1)
    table = pd.DataFrame(best, columns=["one by one", "batched"], index=list(pairs))
    gains = {f"gain {n}": np.divide(*np.transpose(each)[::-1]) for n, each in enumerate(rounds, 1)}
    return table.assign(spread=spread, **gains)


def repeated(rates: pd.DataFrame) -> Premise:
    """Premise: both measurements of each model agreed, and the largest gain was in both rounds on
    the same side of the claim's ×1.5."""
    largest = rates[["gain 1", "gain 2"]].max()
    return steady([1.0, rates["spread"].max()], 2) & Premise(
        (largest > 1.5).nunique() == 1,
        f"batching gained ×{largest.min():.1f} in one round and ×{largest.max():.1f} in the other",
    )


def one_gains_most(rates: pd.DataFrame) -> Premise:
    """Premise: `repeated`, the largest gain is clearly larger than the second, and the same
    framework had it in both rounds."""
    gains = rates["batched"] / rates["one by one"]
    second, first = sorted(gains)[-2:]
    most = {str(each.idxmax()) for each in (gains, rates["gain 1"], rates["gain 2"])}
    return (
        repeated(rates)
        & Premise(
            first > 1.1 * second,
            f"the largest gains, ×{second:.1f} and ×{first:.1f}, are too close",
        )
        & Premise(len(most) == 1, f"the largest gain had {' or '.join(sorted(most))}")
    )


def plot_gains(rates: pd.DataFrame) -> style.Picture:
    """Draw both throughputs of each framework, all on one axis."""
    gains = rates["batched"] / rates["one by one"]
    summary = ", ".join(f"{name} ×{gain:.1f}" for name, gain in gains.items())
    figure = style.Picture(8.4, 2.6, f"Throughput with a batcher: {summary}.")
    axes = figure.subplots()
    style.panel(axes, "Pictures per second, 32 requests under way", grid="x")
    places = np.arange(len(rates))
    axes.barh(places - 0.19, rates["one by one"], 0.36, color=style.COLOURS[1], label="one by one",
              hatch="///", edgecolor=style.INK, linewidth=0)  # fmt: skip
    axes.barh(places + 0.19, rates["batched"], 0.36, color=style.COLOURS[0], label="batched")
    for place, (rate, gain) in enumerate(zip(rates["batched"], gains, strict=True)):
        axes.text(rate, place + 0.19, f" ×{gain:.1f}", va="center", color=style.GREY)
    axes.set_yticks(places, list(rates.index))
    axes.invert_yaxis()
    axes.margins(x=0.1)
    style.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def plot_waits(ways: Mapping[str, Run]) -> style.Picture:
    """Draw the parts of a request's time, one bar per run, all on one axis."""
    parts = {"queue": "queue_ms", "compute_infer": "compute_infer_ms"}
    table = pd.DataFrame(
        {part: [run.count(name) for run in ways.values()] for part, name in parts.items()},
        index=[f"{way}: {run.count('batch_size'):.1f} per batch" for way, run in ways.items()],
    )
    return measure.plot_bars(table, title="Where a request's time goes", below="ms per request")
