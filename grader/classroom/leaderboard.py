"""The leaderboard of an assignment: who has which place, and under which name the class reads it.

The figures are the judge's (`collect.standing`). The class reads aliases only, which students
choose. Instructors read the ids, too.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from ..vocabulary.results import CheckResult, Graded, Standing
from . import roster
from .classroom import Classroom
from .gradebook import Mark

#: Where fewer have a figure, the class gets no table: it would tell who has which.
FEWEST_FOR_TABLE = 3


@dataclasses.dataclass(frozen=True)
class Entry:
    """A student's entry.

    Attributes:
        place: counted from 1. Entries whose figures read the same share one.
        student: nbgrader's id. The class must not read it.
        alias: as the student chose it; "" for none.
        name: what the class reads, such as `Speedy`, or `Speedy (2)` where the alias is another
            one's, too; "" without an alias, or if the alias is another student's name.
        text: the figure as it is shown.
        value: the figure.
    """

    place: int
    student: str
    alias: str
    name: str
    text: str
    value: float


@dataclasses.dataclass(frozen=True)
class Leaderboard:
    """The entries of one check, the best first.

    Attributes:
        check: the check's id.
        entries: at least one.
    """

    check: str
    entries: tuple[Entry, ...]

    @property
    def is_table_for_class(self) -> bool:
        """Whether there are enough entries for a table that the class reads."""
        return len(self.entries) >= FEWEST_FOR_TABLE

    def of(self, student: str) -> Entry | None:
        """A student's entry; None if the student has none."""
        return next((entry for entry in self.entries if entry.student == student), None)


def find(
    classroom: Classroom,
    results: Mapping[str, Graded],
    marks: Mapping[str, Mark],
    without: Collection[str],
) -> list[Leaderboard]:
    """The leaderboards of an assignment: one for each check that has figures, in their order.

    Not in it are students who are not in the class list, and checks that earned no points: neither
    by the judge, nor after a person has changed the points in formgrader.

    Example::

        find(classroom, classroom.results("a7__speed"), marks, {*not_graded, *excused})

    Args:
        classroom: the classroom with the class list.
        results: the latest result of each student, by student.
        marks: the gradebook's entries, by student.
        without: the students who are left out: not graded, or excused.

    Raises:
        WorkbookError: the class list is wrong.
    """
    known = roster.read(classroom)
    listed = known.students if known else {}
    counted = {
        student: graded
        for student, graded in results.items()
        if student not in without and (known is None or student in listed)
    }
    names = {id: (mark.first_name, mark.last_name) for id, mark in marks.items()}
    names |= {id: (student.first_name, student.last_name) for id, student in listed.items()}
    found: dict[str, dict[str, Standing]] = {}
    for student, graded in counted.items():
        for result in graded.verdict.checks:
            if result.standing is not None and _earned(result, marks.get(student)):
                found.setdefault(result.id, {})[student] = result.standing
    people = {id: names.get(id, ()) for id in {*results, *names}}
    order = {
        result.id: n for one in counted.values() for n, result in enumerate(one.verdict.checks)
    }
    return [
        Leaderboard(check, rank(standings, people))
        for check, standings in sorted(found.items(), key=lambda item: order[item[0]])
    ]


def rank(
    standings: Mapping[str, Standing], people: Mapping[str, Iterable[str]]
) -> tuple[Entry, ...]:
    """The entries, the best first. Of equal ones, the order tells nothing about the ids.

    Example::

        rank({"anna": Standing(value=11.2, text="×11.2", alias="Speedy")}, {"anna": ("Anna", "Li")})

    Args:
        standings: each student's figure, by student.
        people: the names of all students of the class, by their ids; no names where none is known.
    """
    names = _names(standings, people)
    ordered = sorted(standings, key=lambda who: (-standings[who].value, names[who], who))
    entries: list[Entry] = []
    for number, student in enumerate(ordered, 1):
        one = standings[student]
        is_tie = bool(entries) and entries[-1].text == one.text
        place = entries[-1].place if is_tie else number
        entries.append(Entry(place, student, one.alias, names[student], one.text, one.value))
    return tuple(entries)


def _earned(result: CheckResult, mark: Mark | None) -> bool:
    """Whether a check has points: in the gradebook, or by its credit if it gives none."""
    points, most = mark.parts.get(result.id, (0.0, 0.0)) if mark else (0.0, 0.0)
    return points > 0 if most else result.credit > 0


def _names(
    standings: Mapping[str, Standing], people: Mapping[str, Iterable[str]]
) -> dict[str, str]:
    """The name under which the class reads each student.

    An alias of which each word is in another student's name is not shown, unless it is the
    student's own name. One that is equal to another alias, or to another's id, gets a number. Upper
    and lower case, spaces, hyphens and accents make no difference.
    """
    patterns = {id: _words(parts) for id, parts in people.items()}
    ids: dict[str, set[str]] = {}
    for id in people:
        ids.setdefault(roster.letters(id), set()).add(id)
    shown = {}
    for student, one in standings.items():
        key = roster.letters(one.alias)
        of = {id for id, pattern in patterns.items() if pattern and pattern.fullmatch(key)}
        shown[student] = "" if of and student not in of else one.alias
    same = Counter(roster.letters(alias) for alias in shown.values())
    numbers: Counter[str] = Counter()
    for student in sorted(standings, key=lambda who: (-standings[who].value, who)):
        alias, key = shown[student], roster.letters(shown[student])
        owners = ids.get(key, set())
        if alias and owners != {student} and (owners or same[key] > 1):
            numbers[key] += 1
            number = numbers[key] + bool(owners)  # whose id it is, is the first
            shown[student] = f"{alias} ({number})"
    return shown


def _words(name: Iterable[str]) -> re.Pattern[str] | None:
    """What matches one or more words of a name, in any order; None if the name has no words.

    A single Latin letter is no word: it is an initial.
    """
    words = {roster.letters(word) for part in name for word in re.split(r"[\s-]+", part)}
    found = [re.escape(word) for word in sorted(words) if len(word) > 1 or not word.isascii()]
    return re.compile(f"(?:{'|'.join(found)})+") if found else None
