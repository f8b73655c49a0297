"""A card: the short text with an icon that `predict`, `compare` and `claim` show."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from html import escape
from typing import Any

from IPython import display

# For each kind of card an icon, one character that is clear without its colour, and a colour that
# can be read on a light and on a dark background. The colours are not variables of a theme, because
# JupyterLab removes these from notebooks that it does not trust.
ASKS = ("?", "#2a8fd0")
HOLDS = ("✓", "#2f9445")
FAILS = ("✗", "#dc4a41")
SHOWS = ("⇄", "#bf7a0a")
AGAIN = ("↻", "#bf7a0a")


@dataclasses.dataclass(frozen=True)
class Card:
    """A few lines with an icon before them, readable in a notebook, on a page and in a terminal.

        print(Card(HOLDS, "Holds", "Both clients get the same numbers."))
        # ✓ Holds: Both clients get the same numbers.

    Attributes:
        look: the icon, and its colour as CSS.
        head: what kind of card it is, e.g. "Predict".
        sentence: the card's main sentence.
        lines: more lines below it.
        rows: a table of two columns, which a notebook shows below the lines.
    """

    look: tuple[str, str]
    head: str
    sentence: str
    lines: Sequence[str] = ()
    rows: dict[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        head = f"{self.look[0]} {self.head}: {self.sentence}".removesuffix(": ")
        table = [f"  {name}: {value}" for name, value in self.rows.items()]
        return "\n".join([head, *table, *(f"  {line}" for line in self.lines)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        sign, colour = self.look
        cells = "".join(
            f'<tr><td style="text-align:left;opacity:.75;padding-left:0">{escape(name)}</td>'
            f'<td style="text-align:left"><b>{escape(value)}</b></td></tr>'
            for name, value in self.rows.items()
        )
        return "".join([
            f'<div style="border-left:4px solid {colour};padding:.4em .8em;margin:.3em 0;'
            'font-family:var(--jp-ui-font-family, sans-serif);line-height:1.5;max-width:60em">',
            f'<b style="color:{colour}">{sign} {escape(self.head)}</b> {escape(self.sentence)}',
            *(f"<div>{escape(line)}</div>" for line in self.lines),
            f'<table style="margin:.3em 0 0 0">{cells}</table>' if cells else "",
            "</div>",
        ])  # fmt: skip


def show(card: Card) -> Any:
    """Display a card below the running cell.

    Returns:
        IPython's display handle, whose `update` replaces the card; None outside of a notebook.
    """
    return display.display(card, display_id=True)  # type: ignore[no-untyped-call]
