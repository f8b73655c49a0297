"""Bars side by side: what a thing is made of, or which of several is more."""

from __future__ import annotations

import pandas as pd

from ..common.errors import WorkbookError
from . import look


def plot_bars(table: pd.DataFrame, *, title: str, below: str = "") -> look.Picture:
    """Horizontal bars, one a row of a table, each made of its columns.

    Args:
        table: numbers; the index names the bars from top to bottom, the columns their parts.
            The parts of a request's time (`queue`, `compute_input`, …) have their own colours.
        title: a line above the bars.
        below: what the numbers are, with their unit.

    Raises:
        WorkbookError: the table is empty.
    """
    if table.empty:
        raise WorkbookError("There is nothing to draw.", todo="Give a table with a row a bar.")
    names = [str(name) for name in table.index]
    ends = table.sum(axis=1)
    figure = look.Picture(8.4, 1.1 + 0.38 * len(table), f"{title}: {dict(ends.round(3))}")
    axes = figure.subplots()
    look.panel(axes, title, below=below, grid="x")
    left = pd.Series(0.0, index=table.index)
    for other, part in zip(look.COLOURS, table.columns, strict=False):
        axes.barh(
            names, table[part], left=left, height=0.62, label=str(part), **look.fill(part, other)
        )
        left = left + table[part]
    for place, end in enumerate(ends):
        text = f"{end:,.0f}" if end >= 100 else f"{end:.3g}"
        axes.text(end, place, f" {text}", va="center", color=look.GREY, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.tick_params(axis="y", length=0)
    if len(table.columns) > 1:
        look.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
