"""`plot_bars`: a table as horizontal bars, to compare values or to show their parts."""

from __future__ import annotations

import pandas as pd

from ..common.errors import WorkbookError
from . import style


def plot_bars(table: pd.DataFrame, *, title: str, below: str = "") -> style.Picture:
    """Horizontal bars, one per row of a table, each made of one segment per column.

    Args:
        table: numbers; the index names the bars from top to bottom, the columns their segments.
            The parts of a request's time (`queue`, `compute_input`, …) have their own colours.
        title: a line above the bars.
        below: the label of the x axis: what the numbers are, with their unit.

    Raises:
        WorkbookError: the table is empty.

    Example:
        times = pd.DataFrame({"queue": [4.0], "compute_infer": [1.2]}, index=["digits_onnx"])
        measure.plot_bars(times, title="Where the time goes", below="ms per request")
    """
    if table.empty:
        raise WorkbookError("There is nothing to draw.", todo="Give a table with one row per bar.")
    names = [str(name) for name in table.index]
    ends = table.sum(axis=1)
    figure = style.Picture(8.4, 1.1 + 0.38 * len(table), f"{title}: {dict(ends.round(3))}")
    axes = figure.subplots()
    style.panel(axes, title, below=below, grid="x")
    left = pd.Series(0.0, index=table.index)
    for other, part in zip(style.COLOURS, table.columns, strict=False):
        axes.barh(
            names, table[part], left=left, height=0.62, label=str(part), **style.fill(part, other)
        )
        left = left + table[part]
    for place, end in enumerate(ends):
        text = f"{end:,.0f}" if end >= 100 else f"{end:.3g}"
        axes.text(end, place, f" {text}", va="center", color=style.GREY, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.tick_params(axis="y", length=0)
    if len(table.columns) > 1:
        style.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
