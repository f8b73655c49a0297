"""`predict` asks the reader a question; `compare` shows the answer beside the measured value."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..common.errors import WorkbookError
from ..common.unattended import unattended
from . import answers, cards
from .cards import ASKS, SHOWS, Card
from .claims import not_shown
from .premises import Premise
from .words import answering, find, remember
from .workspace import checked_name

Options = Mapping[str, str | None] | Sequence[str]


def predict(
    key: str, question: str = "", options: Options | None = None, *, unit: str = ""
) -> None:
    """Ask for a prediction and save it.

        predict("batcher.gain", "How many times more does batching give?", unit="×")
        predict("start.sky", "Which colour?", {"blue": None, "green": "You thought of grass."})

    Without `question`, the question is taken from the texts that the notebook carries (words.py).

    Args:
        key: the prediction's name, for `compare`: small letters, digits, dots and underscores.
        question: what is asked.
        options: the options. Each wrong one has the explanation for readers who chose it; the right
            one has None. Without options, a number is asked for.
        unit: of the number, e.g. "ms", or "×" for a ratio.

    Raises:
        WorkbookError: the key has other characters; the notebook has no text for it; not one option
            is right.
    """
    checked_name(key)
    if question:
        remember("predict", key, question=question, options=options, unit=unit)
    arguments = find("predict", key)
    question, options = arguments["question"], arguments.get("options")
    _check(key, options)
    if unattended():
        lines = [f"○ {option}" for option in options or ()]
        cards.show(Card(ASKS, "Predict", question, lines), predict=key)
        return
    cards.show(Card(ASKS, "Predict", question))
    names = None if options is None else list(options)
    unit = arguments.get("unit", "")
    cards.show_widget(_widget(key, names, unit), _fallback(key, names, unit))


def remembered(key: str) -> str | float | None:
    """The reader's prediction; None without one, and where `WORKBOOK_UNATTENDED` is set."""
    value = answers.load(checked_name(key))
    return value if isinstance(value, str | float) else None


@answering
def compare(
    key: str, measured: str | float, *, premise: Premise, unit: str = "", published: str = ""
) -> None:
    """Show a prediction beside the measured value, and beside a published number.

        counted_alone = Premise(requests == 1, "other programs sent requests to this model")
        compare("start.square", executions, premise=counted_alone)

    A reader who chose a wrong option gets its explanation. If the reader answers later, or changes
    the answer, the comparison is drawn again.

    Args:
        key: as in `predict`.
        measured: a number, or the option that turned out to be right.
        premise: a condition that the run must fulfil before its result means anything
            (premises.py). If it is false, what differed is shown in place of the result.
        unit: as in `predict`, and by default the same.
        published: a number that others have published, with its source.

    Raises:
        WorkbookError: the premise is false, and `WORKBOOK_UNATTENDED` is set; or what was measured
            is not among the options.
    """
    answers.when_saved(key, None)
    if not premise:
        cards.show(not_shown("Compare", premise))
        return
    arguments: dict[str, Any] = {}
    with contextlib.suppress(WorkbookError):  # a comparison without a prediction
        arguments = find("predict", key)
    options = arguments.get("options")
    if options is not None and measured not in options:
        raise WorkbookError(
            f"{measured!r} is no option of {key!r}.",
            todo=f"Compare with one of: {', '.join(map(repr, options))}.",
        )
    words = options if isinstance(options, Mapping) else {}
    unit = unit or arguments.get("unit", "")

    def card() -> Card:
        return _comparison(remembered(key), measured, unit, published, words)

    handle = cards.show(card(), compare=key)
    if handle is not None:
        answers.when_saved(key, lambda: handle.update(card()))


def _check(key: str, options: Options | None) -> None:
    if isinstance(options, Mapping) and list(options.values()).count(None) != 1:
        raise WorkbookError(
            f"One option of {key!r} must be the right one.",
            todo="Give the right option None, and each other option an explanation.",
        )


def _comparison(
    prediction: str | float | None,
    measured: str | float,
    unit: str,
    published: str,
    words: Mapping[str, str | None],
) -> Card:
    """The card of `compare`. Without a reader, the explanations of wrong options are folded."""
    rows, lines, folds = {}, [], {}
    if unattended():
        folds = {f"You said “{o}”?": word for o, word in words.items() if word and o != measured}
    else:
        nothing = "nothing yet: answer the question above"
        rows["you said"] = nothing if prediction is None else _say(prediction, unit)
    rows["measured here"] = _say(measured, unit)
    if published:
        rows["published"] = published
    word = words.get(prediction) if isinstance(prediction, str) and prediction != measured else None
    if word:
        lines.append(word)
    elif prediction != measured and prediction in words:
        lines.append("On most machines this is the right answer. Run the experiment again.")
    verdict = _verdict(prediction, measured)
    if lines:
        verdict = "Not what you said."
    return Card(SHOWS, "Compare", verdict, lines, rows, folds)


def _fallback(key: str, options: Sequence[str] | None, unit: str) -> list[str]:
    """The text that takes the widget's place where widgets cannot be shown."""
    prediction = remembered(key)
    lines = [f"{'●' if option == prediction else '○'} {option}" for option in options or ()]
    if prediction is None:
        lines.append("Run this cell to answer.")
    elif options is None:
        lines.append(f"✓ remembered: {_say(prediction, unit)}")
    return lines


def _widget(key: str, options: Sequence[str] | None, unit: str) -> Any:
    """The options, or a field for a number, and a line that shows the saved answer."""
    import ipywidgets

    prediction = remembered(key)
    wide = ipywidgets.Layout(width="auto", max_width="60em")
    note = ipywidgets.HTML()
    field: Any
    if options is None:
        text = "" if not isinstance(prediction, float) else f"{prediction:g}"
        field = ipywidgets.Text(text, placeholder="a number, then Enter", continuous_update=False)
    else:
        chosen = prediction if prediction in options else None
        field = ipywidgets.RadioButtons(options=list(options), value=chosen, layout=wide)

    def keep(change: Any) -> None:
        try:
            value = _number(change["new"]) if options is None else change["new"]
        except ValueError:
            note.value = f"{escape(repr(change['new']))} is not a number."
            return
        answers.save(key, value)
        note.value = f"✓ remembered: {escape(_say(value, unit))}"

    field.observe(keep, names="value")
    if prediction is not None:
        note.value = f"✓ remembered: {escape(_say(prediction, unit))}"
    row = ipywidgets.HBox([field, ipywidgets.Label(unit)]) if options is None else field
    return ipywidgets.VBox([row, note])


def _number(text: str) -> float:
    return float(text.strip().removeprefix("×").removesuffix("x").replace(",", "."))


def _say(value: str | float, unit: str) -> str:
    if isinstance(value, str):
        return value
    return f"×{_digits(value, 3)}" if unit == "×" else f"{_digits(value, 4)} {unit}".rstrip()


def _digits(value: float, count: int) -> str:
    """A number with `count` significant digits, without an exponent such as 3.02e+03."""
    return f"{value:,.0f}" if 10**count <= abs(value) < 10**12 else f"{value:,.{count}g}"


def _verdict(prediction: str | float | None, measured: str | float) -> str:
    """A sentence that tells how close a prediction was."""
    if prediction is None:
        return ""
    if isinstance(prediction, str) or isinstance(measured, str):
        right = prediction == measured
        return "You were right." if right else "Not what you said: can you tell why?"
    if prediction == measured:
        return "You were right."
    if prediction * measured <= 0:
        return "Not what you said: can you tell why?"
    off = max(prediction / measured, measured / prediction)
    return "You were close." if off < 1.25 else f"You were off by a factor of {off:.1f}."
