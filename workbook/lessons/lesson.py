"""What a lecture asks of its reader: a prediction, a look at the result, a claim that must hold.

    from workbook.lesson import claim, compare, folder, predict

    predict("batcher.gain", "How many times more does batching give?", unit="×")
    ...
    compare("batcher.gain", gain, unit="×", published="×3.3 on an A100 (Triton tutorials, part 2)")
    claim(gain > 1.5, "Batching pays.", "Close other programs and run the two cells again.")

Predictions are kept under `.workbook/predictions/`, so that they outlive the kernel. With
`UNATTENDED` in the environment nobody sits in front of the notebook: no widgets are shown, no
predictions are read or kept, and a claim that does not hold is an error. So notebooks are run
for the built pages and in tests.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from IPython import display

from ..common import paths
from ..common.errors import WorkbookError
from ..server import Triton, fleet

__all__ = [
    "UNATTENDED",
    "Card",
    "claim",
    "compare",
    "folder",
    "laboratory",
    "predict",
    "remembered",
    "unattended",
    "write",
]

#: The environment variable that says that nobody sits in front of the notebook.
UNATTENDED = "WORKBOOK_UNATTENDED"

# A sign that needs no colour, and a colour that can be read on a light and on a dark ground. No
# variables of a theme: JupyterLab takes them out of pages that were not run here.
_ASKS = ("?", "#2a8fd0")
_HOLDS = ("✓", "#2f9445")
_FAILS = ("✗", "#dc4a41")
_SHOWS = ("⇄", "#bf7a0a")


def unattended() -> bool:
    """Whether nobody sits in front of the notebook (a built page, a test)."""
    return bool(os.environ.get(UNATTENDED))


def predict(
    key: str, question: str, options: Sequence[str] | None = None, *, unit: str = ""
) -> None:
    """Ask for a prediction and remember it.

    Args:
        key: its name, for `compare`: small letters, digits, dots and underscores.
        question: what is asked.
        options: what can be chosen; without them, a number is asked for.
        unit: of the number, e.g. "ms", or "×" for a ratio.

    Raises:
        WorkbookError: the key is not a name.
    """
    file = _file(key)
    lines = [f"○ {option}" for option in options or ()]
    if unattended():
        _show(Card(_ASKS, "Predict", question, lines))
        return
    _show(Card(_ASKS, "Predict", question))
    _show(_widget(file, key, options, unit))


def remembered(key: str) -> str | float | None:
    """What was predicted; None where nothing was, or nobody sits in front of the notebook."""
    if unattended():
        return None
    try:
        value = json.loads(_file(key).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, str | float) else None


def compare(key: str, measured: str | float, *, unit: str = "", published: str = "") -> None:
    """Set a prediction beside what was measured, and beside a published figure.

    Args:
        key: as in `predict`.
        measured: a number, or the option that turned out to be right.
        unit: as in `predict`.
        published: a figure from elsewhere, with its source.
    """
    said = remembered(key)
    rows = {
        "you said": "nothing yet: answer the question above" if said is None else _say(said, unit),
        "measured here": _say(measured, unit),
    }
    if unattended():
        del rows["you said"]
    if published:
        rows["published"] = published
    _show(Card(_SHOWS, "Compare", _verdict(said, measured), rows=rows))


def claim(holds: bool, sentence: str, todo: str) -> None:
    """Say that something holds, and show whether it does on this machine.

    Args:
        holds: the condition.
        sentence: what it means, as a statement.
        todo: what to try where it does not hold.

    Raises:
        WorkbookError: it does not hold, and nobody sits in front of the notebook.
    """
    if holds:
        _show(Card(_HOLDS, "Holds", sentence))
    elif unattended():
        raise WorkbookError(f"This does not hold here: {sentence}", todo=todo)
    else:
        _show(Card(_FAILS, "Does not hold here", sentence, [f"→ {todo}"]))


def folder(name: str) -> Path:
    """A fresh folder for a lecture's own models, as a path relative to the notebook.

    What an earlier run left in it is gone. It lies under `.workbook/`, so git never sees it.

    Raises:
        WorkbookError: it is not a name.
    """
    home = paths.state("lectures") / _name(name)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    return Path(os.path.relpath(home))


def write(path: Path, text: str) -> None:
    """Write a file, with the folders above it, and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    print(f"Wrote {path}")


def laboratory(models: Path, **options: Any) -> Triton:
    """A server of the lecture's own, on free ports, that can be recorded.

    It loads every model of the folder. The shared server is not disturbed; with the kernel it ends.

    Args:
        models: a model repository, e.g. what `folder` returned.
        options: for `workbook.server.Triton`.

    Raises:
        LoadError: the server refused a model.
    """
    traces = paths.state("lectures") / f"{models.resolve().name}.traces"
    shutil.rmtree(traces, ignore_errors=True)
    traces.mkdir()
    trace = {"file": traces / "trace.json", "rate": 1, "level": "OFF"}
    server = Triton(models, trace=trace, **options).start()
    if server.control == "explicit":
        for error in fleet.load_all(server, fleet.names(server.repository)).values():
            server.stop()
            raise error
    return server


@dataclasses.dataclass(frozen=True)
class Card:
    """A few lines with a sign before them; readable in a notebook, on a page, in a terminal.

    Attributes:
        look: the sign, and a colour as CSS.
        head: a word.
        sentence: what is said.
        lines: more lines.
        rows: a table of two columns.
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


def _show(what: Any) -> None:
    display.display(what)  # type: ignore[no-untyped-call]


def _widget(file: Path, key: str, options: Sequence[str] | None, unit: str) -> Any:
    """The options or a field for a number, and a line that says what is remembered."""
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
    """How near a prediction came."""
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
    return paths.state("predictions") / f"{_name(key)}.json"


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.]*", text):
        raise WorkbookError(
            f"{text!r} is not a name.", todo="Take small letters, digits, dots and underscores."
        )
    return text
