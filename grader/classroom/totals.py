"""One table over all assignments: each student's points, and the total by the rules of a class.

The total is the weighted mean of the shares that a student has of each assignment's points, in
percent. The weights, and how many assignments count, stand in `grades.toml` (grade_rules.py). Where
only some count, they are those that give the student the highest total, as in Canvas.

- No submission counts as 0 points.
- An assignment from which the student is excused is left out.
- If a submission is not graded (ungraded.py), the student has no total yet.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Mapping, Sequence

from workbook.assignments import Assignment

from . import export_rows, grade_rules, which_assignments
from .classroom import Classroom
from .export_rows import Export, Row, list_names
from .spreadsheet import safe


@dataclasses.dataclass(frozen=True)
class Part:
    """A student's share of one assignment.

    Attributes:
        name: the assignment's short name.
        weight: how much it counts; more than 0.
        share: the points that count, of all points: 0 to 1.
        before: the same before the late penalty.
    """

    name: str
    weight: float
    share: float
    before: float


def table(classroom: Classroom) -> Export:
    """The totals of all students as CSV.

    Its columns: the student; of each assignment the points that count and the late penalty; the
    total in percent, before the penalties and after them; which assignments count; and what is
    open, such as an answer that nobody has read.

    Example: `print(table(Classroom.default()).text)`.

    Raises:
        WorkbookError: nothing is graded yet; or the class list, the due dates or `grades.toml` are
            wrong.
    """
    rules = grade_rules.read(classroom)
    graded = which_assignments.graded(classroom, None)
    found = {which: export_rows.rows(classroom, which) for which in graded}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    points = [name for which in graded for name in (which.short, f"{which.short}_penalty")]
    writer.writerow(
        [
            *("student_id", "last_name", "first_name", "email", *points),
            *("percent_before_penalties", "percent", "counted", "status"),
        ]
    )
    for student in sorted({student for rows in found.values() for student in rows}):
        theirs = {which: rows.get(student, Row(student, student)) for which, rows in found.items()}
        writer.writerow(_line(theirs, rules))
    notes = [
        f"{which.short}: {note}"
        for which, rows in found.items()
        for note in export_rows.open_points(rows.values())
    ]
    if rules.weights and (left := [which.short for which in graded if not rules.weight(which)]):
        notes.append(f"Without a weight in grades.toml, so not counted: {list_names(left)}.")
    return Export(out.getvalue(), tuple(notes))


def best(parts: Sequence[Part], count: int) -> list[Part]:
    """The parts that give the highest weighted mean, in the order of `parts`.

    With unequal weights these need not be the parts with the highest shares. Each round takes the
    `count` parts that raise the mean of the round before the most, until it does not rise (D. Kane
    and J. Kane, "Dropping lowest grades", Mathematics Magazine 79, 2006).

    Args:
        parts: all parts of a student.
        count: how many are wanted, at least 1.
    """
    mean, kept = -1.0, list(parts)
    while True:
        ordered = sorted(parts, key=lambda part: -part.weight * (part.share - max(mean, 0.0)))
        now = ordered[:count]
        if (reached := _mean(now)) <= mean + 1e-12:
            return [part for part in parts if part in kept]
        mean, kept = reached, now


def _mean(parts: Sequence[Part], *, before: bool = False) -> float:
    """The weighted mean of the shares; 0 where there are no parts."""
    weight = sum(part.weight for part in parts)
    values = (part.weight * (part.before if before else part.share) for part in parts)
    return sum(values) / weight if weight else 0.0


def _line(theirs: Mapping[Assignment, Row], rules: grade_rules.Rules) -> list[object]:
    """The line of one student."""
    about = max(theirs.values(), key=lambda row: (bool(row.last_name), bool(row.email)))
    points: list[object] = []
    parts = []
    for which, row in theirs.items():
        most = sum(which.checks.values()) + sum(which.written.values())
        counts = row.mark is not None and row.points is not None
        score, penalty = (row.mark.score, row.mark.penalty) if row.mark else (0.0, 0.0)
        points += [round(row.points or 0.0, 4), round(penalty, 4)] if counts else ["", ""]
        if (weight := rules.weight(which)) and not row.excused:
            shares = ((row.points or 0.0) / most, score / most) if counts else (0.0, 0.0)
            parts.append(Part(which.short, weight, *shares))
    kept = best(parts, rules.count(len(parts))) if parts else []
    is_known = bool(parts) and not any(
        row.ungraded and not row.excused and rules.weight(which) for which, row in theirs.items()
    )
    percents = [round(100 * _mean(kept, before=before), 2) for before in (True, False)]
    status = [f"{which.short}: {row.status}" for which, row in theirs.items() if row.status]
    return [
        *map(safe, (about.student, about.last_name, about.first_name, about.email)),
        *points,
        *(percents if is_known else ["", ""]),
        " ".join(part.name for part in kept) if is_known else "",
        safe("; ".join(status)),
    ]
