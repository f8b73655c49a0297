"""`predict` asks the reader a question; `compare` shows the answer beside the measured value.

Predictions are saved in `.workbook/predictions/`, so that they are still there after the kernel is
restarted. If `WORKBOOK_UNATTENDED` is set, there is no reader: no prediction is asked for, read or
saved.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from IPython import display

from ..common import paths
from ..common.unattended import unattended
from .cards import ASKS, SHOWS, Card, show
from .claims import not_shown
from .premises import Premise
from .workspace import checked_name

#: The comparisons that this kernel has shown, with their displays, by the key of the prediction.
#: When the reader answers later, the comparison is drawn again with the answer.
_shown: dict[str, tuple[Any, _Comparison]] = {}


def predict(
    key: str, question: str, options: Sequence[str] | None = None, *, unit: str = ""
) -> None:
    """Ask for a prediction and save it.

        predict("batcher.gain", "How many times more does batching give?", unit="×")
        predict("start.sky", "Which colour?", ["blue", "green"])

    Args:
        key: the prediction's name, for `compare`: small letters, digits, dots and underscores.
        question: what is asked.
        options: what can be chosen; without them, a number is asked for.
        unit: of the number, e.g. "ms", or "×" for a ratio.

    Raises:
        WorkbookError: the key has other characters.
    """
    file = _file(key)
    if unattended():
        show(Card(ASKS, "Predict", question, [f"○ {option}" for option in options or ()]))
        return
    show(Card(ASKS, "Predict", question))
    _show_widget(_widget(file, key, options, unit), key, options, unit)


def remembered(key: str) -> str | float | None:
    """The reader's prediction; None without one, and where `WORKBOOK_UNATTENDED` is set."""
    if unattended():
        return None
    try:
        value = json.loads(_file(key).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, str | float) else None


def compare(
    key: str, measured: str | float, *, premise: Premise, unit: str = "", published: str = ""
) -> None:
    """Show a prediction beside the measured value, and beside a published number.

        counted_alone = Premise(requests == 1, "other programs sent requests to this model")
        compare("start.square", executions, premise=counted_alone)

    If the reader answers later, or changes the answer, the comparison is drawn again.

    Args:
        key: as in `predict`.
        measured: a number, or the option that turned out to be right.
        premise: a condition that the run must fulfil before its result means anything
            (premises.py). If it is false, what differed is shown in place of the result.
        unit: as in `predict`.
        published: a number that others have published, with its source.

    Raises:
        WorkbookError: the premise is false, and `WORKBOOK_UNATTENDED` is set.
    """
    _shown.pop(key, None)
    if not premise:
        show(not_shown("Compare", premise))
        return
    comparison = _Comparison(key, measured, unit, published)
    handle = show(comparison.card())
    if handle is not None:
        _shown[key] = (handle, comparison)


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """The arguments of `compare`, kept so that its card can be drawn again."""

    key: str
    measured: str | float
    unit: str
    published: str

    def card(self) -> Card:
        said = remembered(self.key)
        rows = {}
        if not unattended():
            nothing = "nothing yet: answer the question above"
            rows["you said"] = nothing if said is None else _say(said, self.unit)
        rows["measured here"] = _say(self.measured, self.unit)
        if self.published:
            rows["published"] = self.published
        return Card(SHOWS, "Compare", _verdict(said, self.measured), rows=rows)


def _update(key: str) -> None:
    """Draw the comparison of a prediction again, if this kernel has shown it."""
    if key in _shown:
        handle, comparison = _shown[key]
        handle.update(comparison.card())


def _show_widget(widget: Any, key: str, options: Sequence[str] | None, unit: str) -> None:
    """Display a widget, with a text for programs that cannot show it.

    A saved notebook contains the widget's name, but not the widget. Where there is no widget of
    that name (nbconvert, GitHub, a notebook that is not trusted), the text is shown.
    """
    said = remembered(key)
    lines = [f"{'●' if option == said else '○'} {option}" for option in options or ()]
    if said is None:
        lines.append("Run this cell to answer.")
    elif options is None:
        lines.append(f"✓ remembered: {_say(said, unit)}")
    bundle = widget._repr_mimebundle_()
    bundle["text/plain"] = "\n".join(lines)
    bundle["text/html"] = "".join(f"<div>{escape(line)}</div>" for line in lines)
    display.display(bundle, raw=True)  # type: ignore[no-untyped-call]


def _widget(file: Path, key: str, options: Sequence[str] | None, unit: str) -> Any:
    """The options, or a field for a number, and a line that shows the saved answer."""
    import ipywidgets

    said = remembered(key)
    wide = ipywidgets.Layout(width="auto", max_width="60em")
    note = ipywidgets.HTML()
    field: Any
    if options is None:
        text = "" if not isinstance(said, float) else f"{said:g}"
        field = ipywidgets.Text(text, placeholder="a number, then Enter", continuous_update=False)
    else:
        chosen = said if said in options else None
        field = ipywidgets.RadioButtons(options=list(options), value=chosen, layout=wide)

    def keep(change: Any) -> None:
        try:
            value = _number(change["new"]) if options is None else change["new"]
        except ValueError:
            note.value = f"{escape(repr(change['new']))} is not a number."
            return
        file.write_text(json.dumps(value), "utf-8")
        note.value = f"✓ remembered: {escape(_say(value, unit))}"
        _update(key)

    field.observe(keep, names="value")
    if said is not None:
        note.value = f"✓ remembered: {escape(_say(said, unit))}"
    row = ipywidgets.HBox([field, ipywidgets.Label(unit)]) if options is None else field
    return ipywidgets.VBox([row, note])


def _number(text: str) -> float:
    return float(text.strip().removeprefix("×").removesuffix("x").replace(",", "."))


def _say(value: str | float, unit: str) -> str:
    if isinstance(value, str):
        return value
    return f"×{value:.3g}" if unit == "×" else f"{value:,.4g} {unit}".rstrip()


def _verdict(said: str | float | None, measured: str | float) -> str:
    """A sentence that tells how close a prediction was."""
    if said is None:
        return ""
    if isinstance(said, str) or isinstance(measured, str):
        return "You were right." if said == measured else "Not what you said: can you tell why?"
    if said == measured:
        return "You were right."
    if said * measured <= 0:
        return "Not what you said: can you tell why?"
    off = max(said / measured, measured / said)
    return "You were close." if off < 1.25 else f"You were off by a factor of {off:.1f}."


def _file(key: str) -> Path:
    return paths.state("predictions") / f"{checked_name(key)}.json"
