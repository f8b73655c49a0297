"""The rows that every export starts from: each student, with the mark if there is a submission."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from workbook.assignments import Assignment

from . import by_hand, grade_rules, gradebook, intake, lateness, regrades, roster
from .classroom import Classroom
from .gradebook import Mark
from .names import clean, fold
from .ungraded import Ungraded, ungraded

NO_SUBMISSION = "no submission"
EXCUSED = "excused"


@dataclasses.dataclass(frozen=True)
class Row:
    """A student of the class.

    Attributes:
        student: nbgrader's id.
        name: the full name where it is known, else the name that the submission came with.
        first_name, last_name, email: as the class list has them, else nbgrader's gradebook.
        mark: the gradebook's entry; None without a submission.
        ungraded: why a submission has no mark: the points in `mark` are not the student's.
        excused: whether the student is excused from the assignment.
        asks: whether the student waits for the reply to a regrade request.
        stale: the cells that a person graded, and that have changed since.
        late: how the submission stands to the due date; None where there is no due date.
        system, number: the system that the submission came from, and its number of the student.
    """

    student: str
    name: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    mark: Mark | None = None
    ungraded: Ungraded | None = None
    excused: bool = False
    asks: bool = False
    stale: tuple[str, ...] = ()
    late: lateness.Lateness | None = None
    system: str = ""
    number: str = ""

    @property
    def points(self) -> float | None:
        """The points that count; None where the student has no mark, or is excused."""
        if self.mark is None or self.ungraded is not None or self.excused:
            return None
        return self.mark.total

    @property
    def status(self) -> str:
        """What an instructor should know: why there are no points, or what a person has to do."""
        if self.excused:
            return EXCUSED
        if self.ungraded is not None:
            return f"not graded: {self.ungraded.why}"
        if self.mark is None:
            return NO_SUBMISSION
        unread = self.mark.by_hand - len(self.stale)
        notes = [f"{unread} written answer{'s' * (unread > 1)} to be read"] * (unread > 0)
        notes += [f"changed since it was graded by hand: {' '.join(self.stale)}"] * bool(self.stale)
        return "; ".join(notes)


@dataclasses.dataclass(frozen=True)
class Export:
    """A table for another system.

    Attributes:
        text: the CSV.
        notes: sentences for the instructor: what is missing in it, and why.
        places: by student, the number by which the system knows this student, where the table has
            a row for the student.
    """

    text: str
    notes: tuple[str, ...] = ()
    places: Mapping[str, str] = dataclasses.field(default_factory=dict)


def rows(classroom: Classroom, assignment: Assignment) -> dict[str, Row]:
    """Every student of the class list, and everybody in the gradebook, by id.

    Example::

        rows(Classroom.default(), assignments.named("a2"))["anna"].mark
    """
    known = roster.read(classroom)
    listed = known.students if known else {}
    marks = {mark.student: mark for mark in gradebook.marks(classroom, assignment.name)}
    stale = by_hand.stale(classroom, assignment.name)
    without_mark = ungraded(classroom, assignment, marks)
    rules = grade_rules.read(classroom)
    requests = regrades.of(classroom, assignment.name)
    found = {}
    for student in sorted({*listed, *marks, *without_mark}):
        mark, person = marks.get(student), listed.get(student)
        record = intake.record(classroom, assignment.name, student) if mark else None
        came = record.name if record else student
        score = mark.score if mark else 0.0
        found[student] = Row(
            student=student,
            name=person.name if person and person.name != student else came,
            first_name=person.first_name if person else mark.first_name if mark else "",
            last_name=person.last_name if person else mark.last_name if mark else "",
            email=person.email if person else mark.email if mark else "",
            mark=mark,
            ungraded=without_mark.get(student),
            excused=rules.is_excused(assignment, student),
            asks=regrades.is_open(requests.get(student, [])),
            stale=tuple(one.cell for one in stale.get(student, [])),
            late=lateness.of(classroom, assignment, student, score),
            system=record.system if record else "",
            number=record.number if record else "",
        )
    return found


def open_points(found: Iterable[Row]) -> tuple[str, ...]:
    """What keeps the scores from being final: who is not graded, unread answers, open requests."""
    found = [row for row in found if not row.excused]
    failed = [row.student for row in found if row.ungraded]
    judged = [row for row in found if row.mark and not row.ungraded]
    unread = [r.student for r in judged if r.mark and r.mark.by_hand > len(r.stale)]
    stale = [f"{row.student} ({', '.join(row.stale)})" for row in judged if row.stale]
    texts = []
    if failed:
        texts.append(
            f"Handed in, but not graded: {list_names(failed)}. Nothing is written into their "
            "cells. The class report says why, what to do, and what to answer them."
        )
    if unread:
        texts.append(
            f"Written answers of {len(unread)} are not read yet: {list_names(unread)}. Their "
            "points are not in these scores. `grader formgrader` shows them."
        )
    if stale:
        texts.append(
            f"Changed since a person graded it: {list_names(stale)}. The points given before still "
            "count."
        )
    if asking := [row.student for row in found if row.asks]:
        texts.append(f"A regrade request waits for a reply: {list_names(asking)}.")
    return tuple(texts)


def notes(found: Iterable[Row]) -> tuple[str, ...]:
    """What an instructor should know before the scores leave: what is open, and who is missing."""
    found = list(found)
    missing = [row.student for row in found if row.status == NO_SUBMISSION]
    excused = [row.student for row in found if row.excused]
    texts = [*open_points(found)]
    if missing:
        texts.append(f"Without a submission: {list_names(missing)}.")
    if excused:
        texts.append(f"Excused: {list_names(excused)}.")
    return tuple(texts)


def list_names(names: list[str], most: int = 10) -> str:
    """Names in a sentence; of many, the first ones. Example: `list_names(["a", "b"]) == "a, b"`."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def archive(pages: Mapping[str, Path]) -> bytes:
    """A zip of files, by their names in it. Files that are not there are left out."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, page in sorted(pages.items()):
            if page.is_file():
                # The same pages give the same bytes: no time of this machine is in the archive.
                made.writestr(zipfile.ZipInfo(name), page.read_bytes(), zipfile.ZIP_DEFLATED)
    return out.getvalue()


class Finder:
    """Finds the student whom a line of another system's table is about."""

    def __init__(self, classroom: Classroom, found: Mapping[str, Row]) -> None:
        self._roster = roster.read(classroom)
        self._by_number = {(r.system, r.number): id for id, r in found.items() if r.number}
        self._by_name: dict[str, set[str]] = {}
        for id, row in found.items():
            for text in (id, row.name, row.email):
                self._by_name.setdefault(fold(clean(text)), set()).add(id)

    def find(self, system: str, number: str, texts: Iterable[str]) -> str | None:
        """The student's id; None where the line is about no student, or could be about several.

        Args:
            system: `canvas` or `moodle`.
            number: the system's number of the student. If a submission came with this number, it
                decides.
            texts: login names, e-mail addresses and names in the line, the surest first.
        """
        if (id := self._by_number.get((system, number))) is not None:
            return id
        for text in filter(None, texts):
            if self._roster is not None:
                found = {one.id for one in self._roster.whose(text, system=system, number=number)}
            else:
                last, comma, first = text.partition(",")
                plain = f"{first.strip()} {last.strip()}" if comma else text
                found = self._by_name.get(fold(clean(plain)), set())
            if len(found) == 1:
                return found.copy().pop()
        return None
