"""`predict_curve`: the reader draws a curve; `compare_curve` shows it beside the measured one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat

from ..common.errors import WorkbookError
from ..common.unattended import unattended
from . import answers, cards
from .cards import ASKS, SHOWS, Card
from .claims import not_shown
from .premises import Premise
from .words import answering, find, remember
from .workspace import checked_name

if TYPE_CHECKING:
    from ..measure.style import Picture

MOST = 8  # points of a curve: one slider each, side by side


def predict_curve(
    key: str,
    question: str = "",
    x: Sequence[float] = (),
    y_range: tuple[float, float] = (0, 1),
    *,
    unit: str = "",
    below: str = "",
) -> None:
    """Let the reader draw a curve: one vertical slider per point, side by side.

        predict_curve("batcher.load", "How does the latency grow with the load?",
                      x=[10, 20, 40, 80], y_range=(0, 200), unit="ms", below="requests per second")

    Without `question`, the question is taken from the texts that the notebook carries (words.py).

    Args:
        key: the prediction's name, for `compare_curve`: small letters, digits, dots, underscores.
        question: what is asked.
        x: the points for which the reader chooses a value, eight at most.
        y_range: the lowest and the highest value that is possible. The sliders begin at the lowest.
        unit: of the values.
        below: what x is, with its unit.

    Raises:
        WorkbookError: the key has other characters; the notebook has no text for it; there are
            fewer than two points or more than eight, or the range is empty.
    """
    checked_name(key)
    if question:
        given = {"question": question, "x": x, "y_range": y_range, "unit": unit, "below": below}
        remember("predict_curve", key, **given)
    arguments = find("predict_curve", key)
    lowest, highest = arguments["y_range"]
    if not 2 <= len(arguments["x"]) <= MOST or lowest >= highest:
        raise WorkbookError(
            f"The curve {key!r} cannot be drawn.",
            todo=f"Give two to {MOST} points, and a range such as y_range=(0, 100).",
        )
    if unattended():
        points = ", ".join(f"{point:g}" for point in arguments["x"])
        line = f"Draw it on paper: {arguments.get('below') or 'x'} = {points}; values from "
        line += f"{lowest:g} to {highest:g} {arguments.get('unit', '')}".rstrip() + "."
        cards.show(Card(ASKS, "Predict", arguments["question"], [line]), predict=key)
        return
    cards.show(Card(ASKS, "Predict", arguments["question"]))
    kept = remembered_curve(key)
    status = "Run this cell to answer." if kept is None else "✓ Your curve is remembered."
    cards.show_widget(_widget(key, arguments), [status])


def remembered_curve(key: str) -> tuple[list[float], list[float]] | None:
    """The reader's curve as x and y; None without one, and where `WORKBOOK_UNATTENDED` is set."""
    value = answers.load(checked_name(key))
    if not isinstance(value, dict) or not {"x", "y"} <= value.keys():
        return None
    return value["x"], value["y"]


@answering
def compare_curve(
    key: str,
    x: Sequence[SupportsFloat],
    y: Sequence[SupportsFloat],
    *,
    premise: Premise,
    published: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
) -> None:
    """Show the reader's curve and the measured one in one figure.

        compare_curve("batcher.load", loads, latencies, premise=on_time)

    If the reader draws later, or draws anew, the figure is drawn again.

    Args:
        key: as in `predict_curve`.
        x: the points, in rising order; they may be others than the reader's.
        y: what was measured there.
        premise: a condition that the run must fulfil before its result means anything
            (premises.py). If it is false, what differed is shown in place of the figure.
        published: curves that others have published, source → (x, y).

    Raises:
        WorkbookError: the premise is false, and `WORKBOOK_UNATTENDED` is set; or x and y differ in
            length.
    """
    answers.when_saved(key, None)
    if not premise:
        cards.show(not_shown("Compare", premise))
        return
    if len(x) != len(y) or not len(x):
        raise WorkbookError(
            f"A curve needs as many values as points: {len(x)} points, {len(y)} values.",
            todo="Give both lists the same length.",
        )
    measured = [float(value) for value in x], [float(value) for value in y]
    arguments: dict[str, Any] = {}
    with contextlib.suppress(WorkbookError):  # a comparison without a prediction
        arguments = find("predict_curve", key)

    def card() -> Card:
        verdict = _verdict(remembered_curve(key), measured, arguments.get("unit", ""))
        return Card(SHOWS, "Compare", verdict)

    def figure() -> Picture:
        return _figure(remembered_curve(key), measured, published or {}, arguments)

    above, below = cards.show(card(), compare=key), cards.show(figure(), compare=key)

    def redraw() -> None:
        above.update(card())
        below.update(figure())

    if above is not None:
        answers.when_saved(key, redraw)


def _widget(key: str, arguments: Mapping[str, Any]) -> Any:
    """One vertical slider per point, and a button that keeps them."""
    import ipywidgets

    lowest, highest = arguments["y_range"]
    points, kept = list(arguments["x"]), remembered_curve(key)
    # The sliders start at the bottom, which no reader takes for an answer.
    start = kept[1] if kept is not None and kept[0] == points else [lowest] * len(points)
    sliders = [
        ipywidgets.FloatSlider(
            min=lowest, max=highest, step=(highest - lowest) / 100, value=value,
            description=f"{point:g}", orientation="vertical", readout_format=".3g",
            layout=ipywidgets.Layout(height="180px", width="64px"),
        )
        for point, value in zip(points, start, strict=True)
    ]  # fmt: skip
    button = ipywidgets.Button(description="This is my curve", icon="check")
    note = ipywidgets.HTML("" if kept is None else "✓ remembered")

    def keep(_: Any) -> None:
        answers.save(key, {"x": points, "y": [slider.value for slider in sliders]})
        note.value = "✓ remembered"

    button.on_click(keep)
    above, below = arguments.get("below") or "the point", arguments.get("unit") or "your answer"
    axis = f"Above each slider: {above}. Below it: {below}."
    return ipywidgets.VBox([
        ipywidgets.HBox(sliders), ipywidgets.Label(axis), ipywidgets.HBox([button, note])
    ])  # fmt: skip


def _figure(
    prediction: tuple[list[float], list[float]] | None,
    measured: tuple[list[float], list[float]],
    published: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    arguments: Mapping[str, Any],
) -> Picture:
    from ..measure import style

    unit, below = arguments.get("unit", ""), arguments.get("below", "")
    question = arguments.get("question", "A curve")
    figure = style.Picture(6.4, 2.8, f"{question} You said, and measured.")
    axes = figure.subplots()
    style.panel(axes, unit, below=below)
    axes.plot(*measured, marker="o", color=style.COLOURS[0], label="measured here")
    if prediction is not None:
        axes.plot(*prediction, marker="s", linestyle="--", color=style.COLOURS[3], label="you said")
    for place, (source, curve) in enumerate(published.items()):
        colour = style.COLOURS[2 + 2 * (place % 2)]
        axes.plot(*curve, marker="^", linestyle=":", color=colour, label=source)
    if min(measured[1]) >= 0:
        axes.set_ylim(bottom=0)
    style.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _verdict(
    prediction: tuple[list[float], list[float]] | None,
    measured: tuple[list[float], list[float]],
    unit: str,
) -> str:
    """A sentence that tells where the two curves are farthest apart."""
    if prediction is None:
        return "" if unattended() else "You have not drawn a curve yet: answer the question above."
    apart = {x: _off(y, _at(x, *measured)) for x, y in zip(*prediction, strict=True)}
    worst = max(apart, key=lambda point: apart[point])
    if apart[worst] < 1.25:
        return "You were close everywhere."
    own, real = _at(worst, *prediction), _at(worst, *measured)
    values = [f"{value:.3g} {unit}".rstrip() for value in (own, real)]
    return f"Farthest apart at {worst:g}: you said {values[0]}, measured {values[1]}."


def _off(one: float, other: float) -> float:
    """By which factor two values differ."""
    if one == other:
        return 1.0
    return max(one / other, other / one) if one * other > 0 else float("inf")


def _at(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """A curve's value between its points."""
    import numpy as np

    return float(np.interp(x, xs, ys))
