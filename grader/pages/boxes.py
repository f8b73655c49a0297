"""The boxes of a feedback page: one box per cause, with all checks that have this cause."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from markupsafe import Markup

from ..classroom.causes import Explained
from ..vocabulary.panel import look, marked
from ..vocabulary.results import CheckResult

_WAITS = re.compile(r"waits for ([\w.]+),")


@dataclasses.dataclass
class Line:
    """A check in a box: its id, what it demands, the points earned and the most."""

    id: str
    sentence: str
    earned: float
    most: float


@dataclasses.dataclass
class Box:
    """One cause.

    Attributes:
        sign, word, look: how the status is shown; `look` is a class of the page's style sheet.
        lines: the checks with this cause.
        rationale, help, note: what was found, what to look at, and what else is known; HTML.
        waiting: the checks that need one of `lines`, and fail as well.
    """

    sign: str
    word: str
    look: str
    lines: list[Line]
    rationale: Markup
    help: Markup
    note: Markup
    waiting: list[Line] = dataclasses.field(default_factory=list)

    @property
    def earned(self) -> float:
        """The points of all its checks."""
        return sum(line.earned for line in (*self.lines, *self.waiting))

    @property
    def most(self) -> float:
        """The most points of all its checks."""
        return sum(line.most for line in (*self.lines, *self.waiting))


def boxes(explained: Explained, parts: Mapping[str, tuple[float, float]]) -> list[Box]:
    """The boxes of a page, in the order of the checks.

    Args:
        explained: the results with their causes.
        parts: (points earned, most) of each check, by id.
    """
    found: dict[tuple[str, ...], Box] = {}
    of_check: dict[str, Box] = {}
    for id, result in explained.results.items():
        line = Line(id, result.sentence, *parts.get(id, (0.0, 0.0)))
        needed = _WAITS.search(result.rationale) if result.status == "waits" else None
        if needed is not None and needed[1] in of_check:
            of_check[id] = of_check[needed[1]]
            of_check[id].waiting.append(line)
            continue
        note = explained.notes.get(id, "")
        key = _cause(result, note)
        if key not in found:
            sign, word, _ = look(result)
            found[key] = Box(
                sign=sign,
                word=word,
                look=result.status.split()[-1],
                lines=[],
                rationale=Markup(marked(result.rationale)),  # `marked` escapes it
                help=Markup(marked(result.help)),
                note=Markup(marked(note)),
            )
        box = found[key]
        box.lines.append(line)
        if len(box.lines) > 1 and result.status == "not attempted":
            box.rationale, box.help = Markup("There is nothing to check yet."), Markup()
        of_check[id] = box
    return list(found.values())


def _cause(result: CheckResult, note: str) -> tuple[str, ...]:
    """Results with the same cause have the same key. A check that passed has a box of its own."""
    if result.status == "not attempted":
        return (result.status,)
    if result.credit or not result.rationale:
        return (result.id,)
    return (result.status, result.rationale, result.help, note)
