"""Find the student of an arrival: in the class list or, without a list, by the name alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from workbook.assignments import Assignment

from . import arrivals, records, roster
from .arrivals import Arrival
from .classroom import Classroom
from .records import Reported

_NAME_IT = "Name it by the student's id, such as anna.zip."


class Owners:
    """Finds the students of arrivals.

    Args:
        classroom: its class list counts, and the ids that were given before.
        assignments: those that may have been handed in.

    Raises:
        WorkbookError: the class list is wrong.
    """

    def __init__(self, classroom: Classroom, assignments: Sequence[Assignment]) -> None:
        self._classroom = classroom
        self._assignments = assignments
        self._roster = roster.read(classroom)

    def is_student(self, name: str) -> bool:
        """Whether a name is that of a student in the class list."""
        return bool(self._find_students(Arrival(path=Path(), source="", name=name)))

    def numbers(self, student: str, system: str) -> set[str]:
        """The numbers that a system gives to a student, as far as the class list says them."""
        return set() if self._roster is None else self._roster.numbers(student, system)

    def students(
        self, entries: Iterable[Arrival]
    ) -> tuple[dict[str, list[Arrival]], list[Reported]]:
        """The arrivals of each student, by nbgrader's id; and those that belong to nobody."""
        found: dict[str, list[Arrival]] = {}
        reports: list[Reported] = []
        unnamed: list[Arrival] = []
        for arrival in entries:
            if self._roster is None:
                if not arrival.system and self._without_assignment(arrival.name) == "":
                    like = f"It is named like an assignment. {_NAME_IT}"
                    reports.append(not_graded(arrival, like))
                else:
                    unnamed.append(arrival)
                continue
            theirs = self._find_students(arrival)
            if len(theirs) == 1:
                found.setdefault(theirs[0].id, []).append(arrival)
            elif theirs:
                named = ", ".join(student.id for student in theirs[:5])
                several = f"It could be of {len(theirs)} students: {named}. {_NAME_IT}"
                reports.append(not_graded(arrival, several))
            elif arrival.problem and not arrival.system:
                reports.append(not_graded(arrival, arrival.problem, waits=False))
            else:
                number = f", {arrival.number} in {arrival.system}" if arrival.number else ""
                nobody = f"Nobody in the class list is {arrival.name[:100]!r}{number}. {_NAME_IT}"
                reports.append(not_graded(arrival, hint(arrival) or nobody))
        if unnamed:
            ids = records.ids(self._classroom, self._assignments[0], [one.key for one in unnamed])
            for arrival in unnamed:
                found.setdefault(ids[arrival.key], []).append(arrival)
        return found, reports

    def _find_students(self, arrival: Arrival) -> list[roster.Student]:
        """The students of the class list to whom an arrival may belong."""
        if self._roster is None:
            return []
        names = [arrival.name, self._without_assignment(arrival.name)]
        # Where a course has groups, Moodle writes `Group A-Anna Okafor`.
        names += [arrival.name[match.end() :] for match in re.finditer("-", arrival.name)]
        for name in dict.fromkeys(names):
            if theirs := self._roster.whose(name, system=arrival.system, number=arrival.number):
                return theirs
        return []

    def _without_assignment(self, name: str) -> str:
        """A name without the assignment's name in it: `anna` for `anna_a2`; "" for `a2`."""
        for assignment in self._assignments:
            for word in (assignment.name, assignment.short):
                pattern = rf"(?:^|[ _.-]+){re.escape(word)}(?:$|[ _.-]+)"
                name = re.sub(pattern, " ", name, flags=re.IGNORECASE)
        return name.strip(" _.-")


def not_graded(arrival: Arrival, reason: str, *, waits: bool = True) -> Reported:
    """The report of an arrival that is not graded; see `Reported`."""
    return Reported(source=arrival.source, reason=records.short(reason), waits=waits)


def hint(arrival: Arrival) -> str:
    """What to do with a whole class's submissions that are not named like a download; else "".

    They are not taken automatically: a student could hand in such a file for others.
    """
    if arrival.system or arrival.problem or not (parts := list(arrivals.parts_of(arrival.path))):
        return ""
    return (
        f"It holds {len(parts)} submission{'s' * (len(parts) != 1)}, as {parts[0].system.title()} "
        "names them. If it is the download of the whole class, name it submissions.zip."
    )
