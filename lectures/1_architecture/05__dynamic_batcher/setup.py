"""For 05__dynamic_batcher: the digits models with and without a batcher, and their throughput."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import measure
from workbook.lessons import files, simulated
from workbook.lessons.premises import Premise, steady
from workbook.lessons.workspace import copy
from workbook.measure import style
from workbook.server import Server

Array = npt.NDArray[np.float32]

#: The framework → the zoo's model of the digits that it runs.
FRAMEWORKS = {
    "ONNX Runtime": "digits_onnx",
    "PyTorch": "digits_torch",
    "OpenVINO": "digits_openvino",
}
_BATCHING = "dynamic_batching { }"


def digits(models: Path) -> list[str]:
    """Put each digits model into a repository twice: with a batcher, and without one as `…_alone`.

    Returns:
        The names of all models.

    Example:
        names = setup.digits(models)    # ["digits_onnx", "digits_onnx_alone", "digits_torch", …]
    """
    for name in FRAMEWORKS.values():
        copy(models, name, name, {})
        copy(models, name, f"{name}_alone", {_BATCHING: ""})
    return [f"{name}{alone}" for name in FRAMEWORKS.values() for alone in ("", "_alone")]


def crowded(models: Path) -> None:
    """Make the task's model: OpenVINO's digits, with the config that lies beside the notebook."""
    copy(models, "digits_openvino", "crowded", {})
    files.place(models, Path(__file__).parent / "models/crowded")


def read_speeds(reports: Path) -> pd.DataFrame:
    """Read perf_analyzer's reports of all models, two of each: `digits_onnx.1.csv` and so on.

    Returns:
        One row per framework; columns `one by one` and `batched`, each the better of two
        throughputs; `spread`, the largest factor between two measurements of the same model;
        `gain 1` and `gain 2`, what batching gained in each round.
    """
    rows = {}
    for framework, name in FRAMEWORKS.items():
        alone, batched = (
            measure.read_reports(*(reports / f"{name}{end}.{turn}.csv" for turn in (1, 2)))[
                "throughput"
            ].to_numpy()
            for end in ("_alone", "")
        )
        spread = max(each.max() / each.min() for each in (alone, batched))
        rows[framework] = [alone.max(), batched.max(), spread, *(batched / alone)]
    columns = ["one by one", "batched", "spread", "gain 1", "gain 2"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def repeated(rates: pd.DataFrame) -> Premise:
    """Premise: both measurements of each model agreed, and the largest gain was in both rounds on
    the same side of the claim's ×1.5."""
    largest = rates[["gain 1", "gain 2"]].max()
    return steady([1.0, rates["spread"].max()], 2) & Premise(
        (largest > 1.5).nunique() == 1,
        f"batching gained ×{largest.min():.1f} in one round and ×{largest.max():.1f} in the other",
    )


def one_gains_least(rates: pd.DataFrame) -> Premise:
    """Premise: `repeated`, the smallest gain is clearly smaller than the second, and the same
    framework had it in both rounds."""
    gains = rates["batched"] / rates["one by one"]
    first, second = sorted(gains)[:2]
    least = {str(each.idxmin()) for each in (gains, rates["gain 1"], rates["gain 2"])}
    return (
        repeated(rates)
        & Premise(
            second > 1.1 * first,
            f"the smallest gains, ×{first:.1f} and ×{second:.1f}, are too close to tell which is "
            "smaller",
        )
        & Premise(len(least) == 1, f"the smallest gain had {' or '.join(sorted(least))}")
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


def simulator(lab: Server, model: str) -> simulated.Bench:
    """Sliders for the pace, the delay and the preferred size of a model that takes 20 ms."""

    def setting(
        every_ms: int, delay_ms: int, prefers: int
    ) -> tuple[dict[str, Any], list[measure.Request]]:
        batching: dict[str, Any] = {"max_queue_delay_microseconds": 1000 * delay_ms}
        if prefers:
            batching["preferred_batch_size"] = [prefers]
        return batching, measure.every(every_ms, 24)

    return simulated.explore(
        lab,
        model,
        setting,
        duration_ms=20,
        every_ms=[15, 5, 10, 30],
        delay_ms=[100, 0, 20, 50],
        prefers=[4, 0],
    )
