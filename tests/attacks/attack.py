"""What a hostile submission is, and the result that it must get.

Attacks on any assignment are in everywhere.py, those on one assignment in a file named after it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from tests.attacks import submissions as s
from workbook.assignments import Assignment

#: The text that an attack prints. Nothing else in the notebook prints it.
RAN = "the attack ran"

Base = Literal["solution", "release"]
Change = Callable[[Path], None]


@dataclasses.dataclass(frozen=True)
class Attack:
    """A hostile or broken submission.

    Attributes:
        name: a student's id.
        base: the submission that it is made from.
        change: turns a copy of the base into the attack.
        lost: the checks that must not earn everything: `all`, `none`, or their ids.
        flags: the kinds of flags that the result must have.
        says: what the notebook's outputs must hold, as proof that the attack ran.
        message: what a check must say, to students or, of a hidden variant, to instructors.
        beside: the attack in whose submission this one is tried too, because a notebook takes long.
            The two lose checks of their own, and say other things.
    """

    name: str
    base: Base
    change: Change
    lost: Literal["all", "none"] | frozenset[str] = "none"
    flags: frozenset[str] = frozenset()
    says: str = ""
    message: str = ""
    beside: str = ""


class Attacks(list[Attack]):
    """A list of attacks; `add` puts a function into it."""

    def add(
        self,
        base: Base,
        *,
        lost: Literal["all", "none"] | set[str] | None = None,
        flags: set[str] | None = None,
        says: str = "",
        message: str = "",
        beside: str = "",
    ) -> Callable[[Change], Change]:
        """Add an attack. By default a release loses all checks, and a solution none."""

        def put(change: Change) -> Change:
            default: Literal["all", "none"] = "all" if base == "release" else "none"
            expected = frozenset(lost) if isinstance(lost, set) else lost or default
            known = frozenset(flags or ())
            name = change.__name__
            self.append(Attack(name, base, change, expected, known, says, message, beside))
            return change

        return put


def together(item: Attack, among: Iterable[Attack]) -> list[Attack]:
    """The attacks in the same submission as an attack, with it; the first one is its student."""
    first = item.beside or item.name
    found = [one for one in among if first in (one.name, one.beside)]
    assert found[0].name == first, f"{item.name} is to be tried beside {first}, an earlier one"
    return found


def make(item: Attack, to: Path, assignment: Assignment | None = None, *others: Attack) -> Path:
    """Write the submission of an attack, and of others that are tried in it; by default on a2."""
    folder = getattr(s, item.base)(to, assignment)
    for attack in (item, *others):
        assert attack.base == item.base
        attack.change(folder)
    return folder


def outputs(notebook: str) -> str:
    """All text that an executed notebook shows."""
    parts = []
    for cell in json.loads(notebook)["cells"]:
        for output in cell.get("outputs", ()):
            parts.append(str(output.get("text", "")))
            parts.append(json.dumps(output.get("data", "")))
            parts.append(f"{output.get('ename', '')} {output.get('evalue', '')}")
    return "\n".join(parts)
