"""The style of all figures of the course: colours, markers, panels, and how a figure shows itself.

A figure has a light background of its own, so that its text has a contrast of more than 4.5:1 in a
light and in a dark notebook: no grey has this contrast on white and on black. Okabe and Ito chose
the colours for colour-blind readers ("Color Universal Design", 2008); the blue is lighter here.
Nothing differs in colour alone: position, marker or label differ as well.

    figure = style.Picture(8.4, 2.2, "Latency against time")
    axes = figure.subplots()
    style.panel(axes, "Latency (ms)", below="seconds")
    axes.plot(seconds, latency, color=style.COLOURS[0])
    figure                      # as the last line of a cell, it is shown
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
GREY, CARD = "#56616a", "#f2f4f4"
#: The colour of text on a bar of one of `COLOURS`.
INK = "#111111"

_DPI = 160  # nearly twice what a page shows, for sharp screens
_WIDE = 88  # pixels per inch on the page: 8.6 inches are as wide as JupyterLab's text


class Picture(Figure):
    """A figure that shows itself in a notebook, whether or not pyplot was ever imported.

    Args:
        width, height: in inches; 8.6 inches are as wide as JupyterLab's text.
        description: one line that says what is to be seen, for readers who cannot see it. It
            becomes the image's alternative text.
    """

    description: str = ""

    def __init__(self, width: float, height: float, description: str = "") -> None:
        super().__init__(figsize=(width, height), dpi=_DPI, layout="constrained")
        self.patch.set_facecolor(CARD)
        self.description = description

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        import io

        raw = io.BytesIO()
        # Without the name of the program in its metadata, the same data give the same bytes.
        self.savefig(raw, format="png", dpi=_DPI, metadata={"Software": None})
        wide, high = (round(inches * _WIDE) for inches in self.get_size_inches())
        text = self.description or "a figure"
        return (
            {"image/png": raw.getvalue(), "text/plain": text},
            {"image/png": {"width": wide, "height": high, "alt": text}},
        )


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
