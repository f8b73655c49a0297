"""Export the scores as CSV tables that nbgrader, Canvas and Moodle can read."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Sequence
from typing import Literal

from workbook.assignments import Assignment

from . import gradebook, intake
from .classroom import Classroom
from .names import clean, shown

#: Whose columns a table has.
Format = Literal["nbgrader", "canvas", "moodle"]

#: A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA = ("=", "+", "-", "@")

_Rows = list[Sequence[object]]


def table(classroom: Classroom, assignment: Assignment, format: Format) -> str:
    """The scores of an assignment as CSV.

    Example::

        print(table(Classroom.default(), assignments.named("a2"), "canvas"))

    Args:
        classroom: the classroom with the gradebook.
        assignment: the assignment.
        format: `nbgrader`: the columns of `nbgrader export`. `canvas`: those that Canvas's
            gradebook imports. Canvas finds a student by `ID`, which the name of a downloaded
            submission holds, else by `SIS Login ID`. `moodle`: columns for both of Moodle's
            imports. The grading worksheet goes by `Identifier`, the gradebook by `ID number` or
            `Email address`.

    Returns:
        The table, with a header. No cell is a formula that a spreadsheet would obey, and none holds
        control characters.
    """
    rows = _TABLES[format](classroom, assignment)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return out.getvalue()


def _nbgrader(classroom: Classroom, assignment: Assignment) -> _Rows:
    header = (
        *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name"),
        *("email", "raw_score", "late_submission_penalty", "score", "max_score"),
    )
    rows: _Rows = [
        (
            *(assignment.name, mark.due or "", mark.submitted or "", mark.student),
            *(mark.last_name, mark.first_name, mark.email, mark.score, mark.penalty),
            *(mark.total, mark.most),
        )
        for mark in gradebook.marks(classroom, assignment.name)
    ]
    return [header, *rows]


def _canvas(classroom: Classroom, assignment: Assignment) -> _Rows:
    most = sum(assignment.checks.values()) + sum(assignment.written.values())
    rows: _Rows = [
        ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment.name),
        ("Points Possible", "", "", "", "", most),
    ]
    for mark in gradebook.marks(classroom, assignment.name):
        name, number = _known(classroom, assignment, mark.student, "canvas")
        # Canvas takes a row whose name has these words for the one with the points.
        student = name.replace("Points Possible", "Points_Possible")
        rows.append((student, number, "", "" if number else name, "", mark.total))
    return rows


def _moodle(classroom: Classroom, assignment: Assignment) -> _Rows:
    rows: _Rows = [
        ("Identifier", "Full name", "ID number", "Email address", "Grade", "Maximum grade")
    ]
    for mark in gradebook.marks(classroom, assignment.name):
        name, number = _known(classroom, assignment, mark.student, "moodle")
        identifier = f"Participant {number}" if number else ""
        id = "" if number else name
        rows.append((identifier, name, id, mark.email, mark.total, mark.most))
    return rows


_TABLES = {"nbgrader": _nbgrader, "canvas": _canvas, "moodle": _moodle}


def _known(
    classroom: Classroom, assignment: Assignment, student: str, system: str
) -> tuple[str, str]:
    """A student's name as it came in, and their number in a system; "" where there is none.

    Without a number, the name is what the system knows the student by. nbgrader's id may differ: it
    has no spaces, for example.
    """
    record = intake.record(classroom, assignment.name, student)
    if record is None:
        return student, ""
    return record.name, record.number if record.system == system else ""


def _cell(value: object) -> object:
    """A cell of the table: figures rounded, and an apostrophe before what looks like a formula.

    A name that begins with @ stays as it is where it could be an id, or the other system would not
    know the student. As a formula it could name other cells, but call nothing and reach no other
    file or program: an id has no brackets, quotes, spaces, `!` or `|`.
    """
    if not isinstance(value, str):
        return round(value, 4) if isinstance(value, float) else value
    text = " ".join(shown(value).splitlines()).replace("\t", " ")
    first = unicodedata.normalize("NFKC", text.lstrip()[:1])  # some also take wide forms of them
    is_id = text.startswith("@") and text == clean(text)
    return f"'{text}" if first in _FORMULA and not is_id else text
