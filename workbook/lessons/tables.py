"""Tables of pandas in a notebook: text at the left, numbers at the right, headers as their column.

JupyterLab shows all cells at the right, where the beginnings of texts do not stand below each
other. `workbook.lessons` calls `align` when it is imported.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
from IPython import get_ipython

_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "complex", "empty")


def align() -> None:
    """Show each DataFrame of this notebook as `html` makes it. Elsewhere nothing happens."""
    shell: Any = get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, html)


def html(table: pd.DataFrame) -> str | None:
    """A table as pandas writes it, with an alignment for each cell.

    Returns:
        The HTML; None where pandas gives none.
    """
    text: str | None = table._repr_html_()
    shown = pd.get_option("display.max_columns") or 0  # 0 and None: all
    if text is None or 0 < shown < len(table.columns):  # without the columns in the middle
        return text
    levels = [table.index.get_level_values(level) for level in range(table.index.nlevels)]
    columns = [*levels, *(table.iloc[:, place] for place in range(len(table.columns)))]
    sides = [
        "right" if pd.api.types.infer_dtype(values, skipna=True) in _NUMBERS else "left"
        for values in columns
    ]

    def row(found: re.Match[str]) -> str:
        cells = re.split(r"(?=<t[hd][ >])", found[0])
        # A cell that spans rows is missing in the later ones, always at the left.
        own = sides[len(sides) - len(cells) + 1 :]
        return cells[0] + "".join(
            f'{cell[:3]} style="text-align: {side}"{cell[3:]}'
            for cell, side in zip(cells[1:], own, strict=True)
        )

    one_each = r"<tr(?:(?!colspan|</tr>).)*</tr>"  # not the upper headers of several columns
    return re.sub(one_each, row, text, flags=re.DOTALL)
