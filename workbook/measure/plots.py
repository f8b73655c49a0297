"""Plots of tables: throughput and latency as the load grows; batch sizes beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..common.errors import WorkbookError
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NEEDED = ("throughput", "p50_ms", "p99_ms")


def plot_load(
    results: pd.DataFrame | Mapping[str, pd.DataFrame], *, title: str = ""
) -> style.Picture:
    """Throughput and latency against concurrency (or request rate).

    Args:
        results: a table of `perf`, or several by name to compare them.
        title: a line above the figure.

    Returns:
        A figure of two panels: throughput in inferences per second, and latency in milliseconds
        (p50, p95 and p99 for one table; p50 and p99 for several).

    Raises:
        WorkbookError: a table is empty or lacks a column that is drawn.

    Example:
        levels = [1, 2, 4, 8, 16]
        fp32 = measure.perf(server, "digits_onnx", version=1, concurrency=levels)
        fp16 = measure.perf(server, "digits_onnx", version=2, concurrency=levels)
        measure.plot_load({"fp32": fp32, "fp16": fp16})
    """
    tables = {"": results} if isinstance(results, pd.DataFrame) else dict(results)
    axis = _check(tables)
    figure = style.Picture(8.4, 3.6, "Throughput and latency as the load grows.")
    left, right = figure.subplots(1, 2)
    below = "requests under way" if axis == "concurrency" else "requests/s"
    style.panel(left, "Throughput (inferences/s)", below=below)
    style.panel(right, "Latency (ms)", below=below)
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
        figure.suptitle(title, color=style.GREY, fontsize=12, x=0.01, ha="left")
    return figure


def _check(tables: Mapping[str, pd.DataFrame]) -> str:
    """The column of the x axis, which all tables must have: `concurrency` or `rate`."""
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


def _draw_one(left: Axes, right: Axes, table: pd.DataFrame, axis: str) -> None:
    left.plot(
        table[axis], table["throughput"], color=style.COLOURS[0], marker=style.MARKS[0], linewidth=2
    )
    shown = [p for p in ("p99", "p95", "p50") if f"{p}_ms" in table]
    for colour, mark, name in zip(style.COLOURS[3:0:-1], style.MARKS[1:], shown, strict=False):
        right.plot(
            table[axis], table[f"{name}_ms"], color=colour, marker=mark, linewidth=2, label=name
        )
    style.legend(right)


def _draw_several(left: Axes, right: Axes, tables: Mapping[str, pd.DataFrame], axis: str) -> None:
    for i, (name, table) in enumerate(tables.items()):
        drawn: dict[str, Any] = {
            "color": style.COLOURS[i % len(style.COLOURS)],
            "marker": style.MARKS[i % len(style.MARKS)],
        }
        left.plot(table[axis], table["throughput"], linewidth=2, label=name, **drawn)
        right.plot(table[axis], table["p50_ms"], linewidth=2, label=f"{name}, p50", **drawn)
        right.plot(
            table[axis],
            table["p99_ms"],
            linewidth=1.4,
            linestyle=":",
            label=f"{name}, p99",
            **drawn,
        )
    style.legend(left)
    style.legend(right)


def draw_batches(axes: Axes, batches: Mapping[int, int]) -> None:
    """Bars: how many executions had which batch size."""
    from matplotlib.ticker import MaxNLocator

    axes.bar(list(batches), list(batches.values()), color=style.COLOURS[0], width=0.8)
    axes.set_xlim(0.4, max([*batches, 7]) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def all_batches(table: pd.DataFrame) -> dict[int, int]:
    """Executions by batch size, over all models of a table of `statistics` or `difference`."""
    total: dict[int, int] = {}
    for own in table["batches"]:
        for size, n in own.items():
            total[size] = total.get(size, 0) + n
    return total
