"""The scores with the columns of `nbgrader export`, and a few more.

nbgrader's CsvExportPlugin (jupyter/nbgrader, nbgrader/plugins/export.py) writes a line for each
student of the gradebook, with 0 points where there is no submission. This does the same for the
students of the class list. Who handed in and is not graded, and who is excused, has no points here:
the cells are empty. After nbgrader's columns come the days late, the extension in days, and what is
missing, such as "no submission", or written answers that nobody has read.
"""

from __future__ import annotations

import csv
import datetime
import io

from workbook.assignments import Assignment

from . import export_rows
from .classroom import Classroom
from .export_rows import Export, Row
from .spreadsheet import safe

#: nbgrader's columns, and ours.
COLUMNS = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name"),
    *("email", "raw_score", "late_submission_penalty", "score", "max_score"),
    *("days_late", "extension_days", "status"),
)
_DAY = datetime.timedelta(days=1)


def table(classroom: Classroom, assignment: Assignment) -> Export:
    """The scores of all students.

    Example: `table(Classroom.default(), assignments.named("a2")).text`.
    """
    found = export_rows.rows(classroom, assignment)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([line(assignment, row) for row in found.values()])
    return Export(out.getvalue(), export_rows.notes(found.values()))


def line(assignment: Assignment, row: Row) -> list[object]:
    """A student's values for `COLUMNS`."""
    most = sum(assignment.checks.values()) + sum(assignment.written.values())
    mark, late = row.mark, row.late
    due = late.due.replace(tzinfo=None) if late else mark.due if mark else None
    points: tuple[object, ...] = (0.0, 0.0, 0.0, most)  # as nbgrader has it without a submission
    if row.excused or row.ungraded:
        points = ("", "", "", most)
    elif mark:
        points = (mark.score, mark.penalty, mark.total, mark.most)
    values: list[object] = [
        *(assignment.name, due or "", (mark and mark.submitted) or "", row.student),
        *(row.last_name, row.first_name, row.email),
        *points,
        late.days if late and mark else "",
        round(late.extension / _DAY, 2) if late else "",
        row.status,
    ]
    return [safe(v) if isinstance(v, str) else _round(v) for v in values]


def _round(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value
