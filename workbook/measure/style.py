"""The style of all figures of the course: colours, markers, panels, and how a figure shows itself.

A figure is shown as SVG inside the page, without a background. What is black or `GREY` takes the
colour of the page's text, because no grey can be read on a light and on a dark page: a contrast of
4.5:1 on both does not exist. Viewers that know no HTML, e.g. the grader's, get a PNG on a light
background. Okabe and Ito chose the colours for colour-blind readers ("Color Universal Design",
2008); the blue is lighter here. Nothing differs in colour alone: position, marker or label differ
as well.

    figure = style.Picture(8.4, 2.2, "Latency against time")
    axes = figure.subplots()
    style.panel(axes, "Latency (ms)", below="seconds")
    axes.plot(seconds, latency, color=style.COLOURS[0])
    figure                      # as the last line of a cell, it is shown
"""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#2A8FD0", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442")
#: One colour for each part of a request's time, in every figure; the queue is hatched as well.
PARTS = {
    "queue": COLOURS[1],
    "compute_input": COLOURS[4],
    "compute_infer": COLOURS[2],
    "compute_output": COLOURS[5],
}
HATCHES = {"queue": "///"}
MARKS = ("o", "s", "^", "D", "v", "P", "X")
#: Text, lines and axes: `GREY` stands for the colour of the page's text. In a PNG it is this grey,
#: on a background of the colour `CARD`.
GREY, CARD = "#56616a", "#f2f4f4"
#: The colour of text on a bar of one of `COLOURS`.
INK = "#111111"

_DPI = 110  # of the PNG
_WIDE = 88  # pixels per inch on the page: 8.6 inches are as wide as JupyterLab's text
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


class Picture(Figure):
    """A figure that shows itself in a notebook, whether or not pyplot was ever imported.

    Args:
        width, height: in inches; 8.6 inches are as wide as JupyterLab's text.
        description: one line that says what is to be seen, for readers who cannot see it.
    """

    description: str = ""

    def __init__(self, width: float, height: float, description: str = "") -> None:
        super().__init__(figsize=(width, height), dpi=_DPI, layout="constrained")
        self.patch.set_facecolor(CARD)
        self.description = description

    def svg(self) -> str:
        """The figure as an SVG element for a page, whose text colour it takes."""
        raw = io.StringIO()
        # Text remains text. The salt makes the ids inside of one page differ, and the same data
        # give the same text.
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": self.description or "figure"}):
            self.savefig(raw, format="svg", facecolor="none", metadata=_NO_METADATA)
        wide, high = self.get_size_inches()
        head = (
            f'<svg width="{wide * _WIDE:.0f}" viewBox="0 0 {wide * 72:g} {high * 72:g}" '
            'style="max-width:100%;height:auto" fill="currentColor" stroke-linejoin="round" '
            f'role="img" aria-label="{escape(self.description or "a figure")}">'
        )
        # matplotlib's style rule is for all elements (`*`), so it would change the whole page.
        body = re.sub(r"<style.*?</style>", "", raw.getvalue(), flags=re.DOTALL)
        # A page would take away the first of a text's spaces, and make one of several.
        body = re.sub(r"(?<=<text)[^>]*>[^<]+", lambda text: _spaced(text[0]), body)
        for colour in (GREY, "#000000"):  # matplotlib's own colour of text and lines is black
            body = body.replace(colour, "currentColor")
        return head + body[body.index(">", body.index("<svg")) + 1 :]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        raw = io.BytesIO()
        # Without the name of the program in its metadata, the same data give the same bytes.
        self.savefig(raw, format="png", dpi=_DPI, metadata={"Software": None})
        return {
            "text/html": self.svg(),
            "image/png": raw.getvalue(),
            "text/plain": self.description or "a figure",
        }


def _spaced(text: str) -> str:
    """Attributes and content of a text element, its content with spaces that are kept."""
    attributes, _, content = text.partition(">")
    return f"{attributes}>{content.replace(' ', chr(0xA0))}"


def panel(axes: Axes, title: str, *, below: str = "", grid: str | None = "y") -> None:
    """Style one panel: title at the left, thin grid lines, no box around it.

    Args:
        axes: the panel, from `figure.subplots()`.
        title: a line above it, with the unit.
        below: the label of the x axis.
        grid: along which axis grid lines are drawn, "x" or "y"; None for none.
    """
    axes.patch.set_alpha(0.0)
    axes.set_title(title, color=GREY, fontsize=11, loc="left")
    if below:
        axes.set_xlabel(below, color=GREY)
    axes.tick_params(colors=GREY)
    if grid:
        axes.grid(axis=grid, color=GREY, alpha=0.25, linewidth=0.8)  # type: ignore[arg-type]
        axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GREY)


def fill(part: str, otherwise: str = GREY) -> dict[str, Any]:
    """Colour and hatch of a bar, as arguments for `axes.bar` and `axes.barh`.

    Args:
        part: a part of a request's time, e.g. "queue" or "queue_ms". Other names have no colour or
            hatch of their own.
        otherwise: the colour where `part` has none of its own.
    """
    part = part.removesuffix("_ms")
    return {
        "color": PARTS.get(part, otherwise),
        "hatch": HATCHES.get(part),
        "edgecolor": INK,
        "linewidth": 0,
    }


def legend(axes: Axes, **where: Any) -> None:
    """Add a legend without a box; `where` are arguments of matplotlib's `legend`."""
    axes.legend(frameon=False, labelcolor=GREY, fontsize=9, **({"loc": "upper left"} | where))
