"""When a submission was due and came in, the extension, and the points that late days cost."""

from __future__ import annotations

import dataclasses
import datetime

from workbook.assignments import Assignment

from . import deadlines, times
from .classroom import Classroom


@dataclasses.dataclass(frozen=True)
class Lateness:
    """How a student's submission stands to the due date.

    Attributes:
        due: when it was due, in UTC, with the extension.
        extension: what the student has more than the others.
        submitted: when it was handed in, in UTC; None where that is not known.
        days: the days that it was late; 0 if it was in time, or if the time is not known.
        penalty: the points that are subtracted.
    """

    due: datetime.datetime
    extension: datetime.timedelta
    submitted: datetime.datetime | None
    days: int
    penalty: float


def of(
    classroom: Classroom, assignment: Assignment, student: str, score: float | None = None
) -> Lateness | None:
    """How a student's submission stands to the due date; None where no due date is known.

    Example::

        late = lateness.of(classroom, forest, "anna", score=72)
        f"{late.days} days late: {late.penalty:g} points less"

    Args:
        classroom: the classroom with the submission.
        assignment: the assignment.
        student: nbgrader's id.
        score: the points before the penalty, which is never more than these. Default: all points.

    Raises:
        WorkbookError: `deadlines.toml` is wrong, or the assignment is not built.
    """
    deadline = deadlines.of(classroom, assignment.name)
    if deadline is None:
        return None
    submitted = handed_in(classroom, assignment.name, student)
    most = sum(assignment.checks.values()) + sum(assignment.written.values())
    days = deadline.days_late(student, submitted) if submitted else 0
    penalty = 0.0
    if days and submitted:
        from .late_penalties import points  # late: nbgrader takes seconds to import

        seconds = (submitted - deadlines.utc(deadline.due_for(student))).total_seconds()
        penalty = points(deadline, student, most if score is None else score, most, seconds)
    return Lateness(
        due=deadlines.utc(deadline.due_for(student)),
        extension=deadline.extension(student),
        submitted=submitted,
        days=days,
        penalty=penalty,
    )


def handed_in(classroom: Classroom, assignment: str, student: str) -> datetime.datetime | None:
    """When a submission was handed in, in UTC, as nbgrader reads it; None where nobody knows."""
    try:
        with (classroom.submission(student, assignment) / "timestamp.txt").open("rb") as file:
            return times.parse(file.read(100).decode("ascii", "replace"))
    except OSError:
        return None
