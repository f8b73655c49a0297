"""A card: the short text with an icon that `predict`, `compare`, `claim` and `task` show."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from IPython import display

# Each kind of card has an icon and a colour. The icon is one character that is clear without its
# colour. The icon and the line beside the card have this colour, which can be seen on a light and
# on a dark background. Text needs a contrast of 4.5:1, which no colour has on both: so text has the
# page's own colour. The colours are not variables of a theme, because JupyterLab removes these from
# notebooks that it does not trust.
ASKS = ("?", "#2a8fd0")
HOLDS = ("✓", "#2f9445")
FAILS = ("✗", "#dc4a41")
SHOWS = ("⇄", "#bf7a0a")
AGAIN = ("↻", "#bf7a0a")
TO_DO = ("☐", "#bf7a0a")


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
        folds: texts that the reader opens one by one, each by its title.
    """

    look: tuple[str, str]
    head: str
    sentence: str
    lines: Sequence[str] = ()
    rows: Mapping[str, str] = dataclasses.field(default_factory=dict)
    folds: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        head = f"{self.look[0]} {self.head}: {self.sentence}".removesuffix(": ")
        table = [f"  {name}: {value}" for name, value in self.rows.items()]
        folds = [f"  {title} {text}" for title, text in self.folds.items()]
        return "\n".join([head, *table, *(f"  {line}" for line in self.lines), *folds])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        sign, colour = self.look
        cells = "".join(
            f'<tr><td style="text-align:left;opacity:.75;padding-left:0">{escape(name)}</td>'
            f'<td style="text-align:left"><b>{as_html(value)}</b></td></tr>'
            for name, value in self.rows.items()
        )
        return "".join([
            f'<div style="border-left:4px solid {colour};padding:.4em .8em;margin:.3em 0;'
            'font-family:var(--jp-ui-font-family, sans-serif);line-height:1.5;max-width:60em">',
            f'<b><span style="color:{colour}">{sign}</span> {escape(self.head)}</b> ',
            as_html(self.sentence),
            *(f"<div>{as_html(line)}</div>" for line in self.lines),
            f'<table style="margin:.3em 0 0 0">{cells}</table>' if cells else "",
            *(
                f"<details><summary>{escape(title)}</summary>{as_html(text)}</details>"
                for title, text in self.folds.items()
            ),
            "</div>",
        ])  # fmt: skip


def as_html(text: str) -> str:
    """A sentence as HTML: code between backticks is set as code.

    >>> as_html("Load `a<b`.")
    'Load <code>a&lt;b</code>.'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def show(what: Any, **about: str) -> Any:
    """Display a card, or a figure, below the running cell.

        show(Card(HOLDS, "Holds", "Both are equal."), claim="wire.equal")

    Args:
        what: the card.
        about: what the card belongs to, e.g. the id of the claim. This is saved in the output's
            metadata, where the site and the tests find it.

    Returns:
        IPython's display handle, whose `update` replaces the card; None outside of a notebook.
    """
    return display.display(  # type: ignore[no-untyped-call]
        what, display_id=True, metadata={"workbook": about} if about else None
    )


def show_widget(widget: Any, lines: Sequence[str], **about: str) -> None:
    """Display a widget, with a text for programs that cannot show it.

    A saved notebook contains the widget's name, but not the widget. Where there is no widget of
    that name (nbconvert, GitHub, a notebook that is not trusted), the text is shown.

        show_widget(ipywidgets.Button(description="Look again"), ["Run this cell to look again."])

    Args:
        widget: one of ipywidgets.
        lines: the text in its place.
        about: as in `show`.
    """
    bundle = widget._repr_mimebundle_()
    bundle["text/plain"] = "\n".join(lines)
    bundle["text/html"] = "".join(f"<div>{escape(line)}</div>" for line in lines)
    display.display(  # type: ignore[no-untyped-call]
        bundle, raw=True, metadata={"workbook": about} if about else None
    )
