"""How the result of a check is shown: in a notebook, in a terminal and on a feedback page."""

from __future__ import annotations

import dataclasses
import re
from html import escape

from .results import CheckResult, Status

#: For each status: a sign for readers who see no colours, a word, and a colour of JupyterLab's
#: theme that can be read on light and on dark background. Pages without a theme take the second
#: colour.
LOOKS: dict[Status, tuple[str, str, str]] = {
    "passed": ("✓", "passed", "var(--jp-success-color1, #2e7d32)"),
    "partial": ("◐", "in part", "var(--jp-warn-color1, #b26a00)"),
    "failed": ("✗", "not yet", "var(--jp-error-color1, #c62828)"),
    "no server": ("⚠", "no server", "var(--jp-warn-color1, #b26a00)"),
    "not attempted": ("○", "not attempted", "var(--jp-ui-font-color2, #616161)"),
    "waits": ("…", "waits", "var(--jp-ui-font-color2, #616161)"),
    "error": ("!", "the check broke", "var(--jp-error-color1, #c62828)"),
    "stopped": ("■", "stopped", "var(--jp-error-color1, #c62828)"),
    "unfinished": ("◌", "begun, not finished", "var(--jp-warn-color1, #b26a00)"),
    "unreadable": ("?", "could not be read", "var(--jp-error-color1, #c62828)"),
}
#: The same for a check that is undecided.
_UNDECIDED = ("◌", "undecided", "var(--jp-warn-color1, #b26a00)")


def look(result: CheckResult) -> tuple[str, str, str]:
    """Sign, word and colour of a result."""
    return _UNDECIDED if result.is_undecided else LOOKS[result.status]


@dataclasses.dataclass(frozen=True)
class Panel:
    """One result of a check, as text (`str`) and as HTML for Jupyter.

    Example::

        print(Panel(result, points=(7.5, 15)))

    Attributes:
        result: what the check found.
        hints: how many hints have not been shown yet; 0 on a feedback page.
        points: the points earned and the most that can be earned, where marks are known.
        note: one more line, such as one about a folder that was edited after the deploy.
    """

    result: CheckResult
    hints: int = 0
    points: tuple[float, float] | None = None
    note: str = ""

    def __str__(self) -> str:
        sign, word, _ = look(self.result)
        lines = [f"{sign} {self.result.id}: {self._word(word)}. {self.result.sentence}"]
        lines += [f"  {line}" for line in self.result.rationale.splitlines()]
        if self.result.help:
            lines += [f"  → {line}" for line in self.result.help.splitlines()]
        if self.note:
            lines.append(f"  {self.note}")
        if self._offers_hint():
            lines.append(f'  {self._hint_count()}: hint("{self.result.id}")')
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        sign, word, colour = look(self.result)
        parts = [
            f'<div style="border-left:4px solid {colour};padding:.4em .8em;margin:.3em 0;'
            'font-family:var(--jp-ui-font-family, sans-serif);line-height:1.45;max-width:60em">',
            f'<div><b style="color:{colour}">{sign} {escape(self._word(word))}</b>'
            f'<code style="float:right;opacity:.7">{escape(self.result.id)}</code></div>',
            f"<div>{escape(self.result.sentence)}</div>",
        ]
        if self.result.rationale:
            text = marked(self.result.rationale)
            parts.append(f'<div style="white-space:pre-wrap;margin-top:.4em">{text}</div>')
        if self.result.help:
            text = marked(self.result.help)
            parts.append(f'<div style="white-space:pre-wrap;margin-top:.4em">→ {text}</div>')
        if self.note:
            parts.append(f'<div style="margin-top:.4em">{marked(self.note)}</div>')
        if self._offers_hint():
            parts.append(
                f'<div style="margin-top:.4em;opacity:.75">{self._hint_count()}: '
                f"<code>hint(&quot;{escape(self.result.id)}&quot;)</code></div>"
            )
        return "".join((*parts, "</div>"))

    def _word(self, word: str) -> str:
        if self.points is None:
            return word
        earned, most = self.points
        return f"{word}: {earned:g} of {most:g} points"

    def _offers_hint(self) -> bool:
        return self.hints > 0 and self.result.status in ("failed", "partial", "not attempted")

    def _hint_count(self) -> str:
        return f"{self.hints} hint{'s' * (self.hints > 1)} not seen yet"


@dataclasses.dataclass(frozen=True)
class Hint:
    """The hints of a check that were asked for so far, as text and as HTML for Jupyter.

    Attributes:
        check: the check's id.
        steps: the hints in their order.
        total: how many the check has.
        read: where to read on after the last one; where there are none, what to read in their
            place.
    """

    check: str
    steps: tuple[str, ...]
    total: int
    read: str = ""

    def __str__(self) -> str:
        if not self.steps:
            return f"{self.check} has no hints. {self.read}".strip()
        lines = [f"{number}. {text}" for number, text in enumerate(self.steps, 1)]
        lines.append(self._remaining())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.steps:
            return f'<p style="max-width:60em">{marked(str(self))}</p>'
        items = "".join(f"<li>{marked(text)}</li>" for text in self.steps)
        return (
            f'<ol style="max-width:60em">{items}</ol>'
            f'<p style="opacity:.75">{marked(self._remaining())}</p>'
        )

    def _remaining(self) -> str:
        left = self.total - len(self.steps)
        if left:
            return f"There {'are' if left > 1 else 'is'} {left} more: run the cell again."
        return " ".join(filter(None, ("There are no more hints.", self.read)))


def marked(text: str) -> str:
    """Text as HTML; text between backticks becomes code.

    Example: `marked("Look at `dims`.") == "Look at <code>dims</code>."`.
    """
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))
