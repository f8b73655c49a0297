"""The first plot: what a model gives, and what it costs in waiting, as the load grows.

The figures have a transparent ground and mid-grey text, so that they can be read in a light and in
a dark notebook. The colours are those that Okabe and Ito chose for colour-blind readers
("Color Universal Design", 2008), the blue made lighter for dark grounds; the lines also differ in
their marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..errors import WorkbookError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#2A8FD0", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
_MARKS = ("o", "s", "^", "D", "v", "P")
_GREY = "#858585"
_NEEDED = ("throughput", "p50_ms", "p99_ms")


def plot_load(results: pd.DataFrame | Mapping[str, pd.DataFrame], *, title: str = "") -> Figure:
    """Throughput and latency against concurrency (or request rate).

    Args:
        results: a table of `perf`, or several by name to compare them.
        title: a line above the figure.

    Returns:
        A figure of two panels: throughput in inferences a second, and latency in milliseconds
        (p50, p95 and p99 for one table; p50 and p99 for several).

    Raises:
        WorkbookError: a table is empty or lacks a column that is drawn.
    """
    from matplotlib.figure import Figure

    tables = {"": results} if isinstance(results, pd.DataFrame) else dict(results)
    axis = _check(tables)
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    figure.patch.set_alpha(0.0)
    left, right = figure.subplots(1, 2)
    _panel(left, axis, "Throughput (inferences/s)")
    _panel(right, axis, "Latency (ms)")
    levels = sorted({x for table in tables.values() for x in table[axis]})
    for axes in (left, right):
        if levels[-1] > 8 * levels[0] and len(levels) > 2:
            axes.set_xscale("log", base=2)
        axes.set_xticks(levels, [f"{x:g}" for x in levels])
        axes.minorticks_off()
    if len(tables) == 1:
        _draw_one(left, right, next(iter(tables.values())).sort_values(axis), axis)
    else:
        _draw_several(left, right, {k: t.sort_values(axis) for k, t in tables.items()}, axis)
    for axes in (left, right):
        axes.set_ylim(bottom=0)
    if title:
        figure.suptitle(title, color=_GREY, fontsize=12, x=0.01, ha="left")
    return figure


def _check(tables: Mapping[str, pd.DataFrame]) -> str:
    """The column along the bottom, which all tables have."""
    for name, table in tables.items():
        missing = [column for column in _NEEDED if column not in table]
        if table.empty or missing:
            raise WorkbookError(
                "The table is empty." if table.empty else f"Columns are missing: {missing}",
                where=name or "results",
                todo="Give a table that `measure.perf` returned, with several concurrencies.",
            )
    for axis in ("concurrency", "rate"):
        if tables and all(axis in table for table in tables.values()):
            return axis
    raise WorkbookError(
        "The tables have no axis in common.",
        todo="Measure all of them with `concurrency`, or all of them with `rate`.",
    )


def _panel(axes: Axes, axis: str, title: str) -> None:
    axes.patch.set_alpha(0.0)
    axes.set_title(title, color=_GREY, fontsize=11, loc="left")
    axes.set_xlabel("requests under way" if axis == "concurrency" else "requests/s", color=_GREY)
    axes.tick_params(colors=_GREY)
    axes.grid(axis="y", color=_GREY, alpha=0.25, linewidth=0.8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GREY)


def _draw_one(left: Axes, right: Axes, table: pd.DataFrame, axis: str) -> None:
    left.plot(table[axis], table["throughput"], color=_COLOURS[0], marker=_MARKS[0], linewidth=2)
    shown = [p for p in ("p99", "p95", "p50") if f"{p}_ms" in table]
    for colour, mark, name in zip(_COLOURS[3:0:-1], _MARKS[1:], shown, strict=False):
        right.plot(
            table[axis], table[f"{name}_ms"], color=colour, marker=mark, linewidth=2, label=name
        )
    _legend(right)


def _draw_several(left: Axes, right: Axes, tables: Mapping[str, pd.DataFrame], axis: str) -> None:
    for i, (name, table) in enumerate(tables.items()):
        look: dict[str, Any] = {
            "color": _COLOURS[i % len(_COLOURS)],
            "marker": _MARKS[i % len(_MARKS)],
        }
        left.plot(table[axis], table["throughput"], linewidth=2, label=name, **look)
        right.plot(table[axis], table["p50_ms"], linewidth=2, label=f"{name}, p50", **look)
        right.plot(
            table[axis], table["p99_ms"], linewidth=1.4, linestyle=":", label=f"{name}, p99", **look
        )
    _legend(left)
    _legend(right)


def _legend(axes: Axes) -> None:
    axes.legend(frameon=False, labelcolor=_GREY, fontsize=9, loc="upper left")
