"""Export the scores to nbgrader's table, to Canvas and to Moodle: one module per system."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

from . import export_canvas, export_moodle, export_nbgrader, export_rows
from .classroom import Classroom
from .export_rows import Export

#: The system for which a table is made. It decides the columns.
Format = Literal["nbgrader", "canvas", "moodle"]

_FIRST = {
    "canvas": "In Canvas: Grades, Export, Export Entire Gradebook. Name that file with "
    "--worksheet.",
    "moodle": "In Moodle: turn on `Offline grading worksheet` in the assignment's settings, "
    "download the worksheet, and name that file with --worksheet.",
}


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        WorkbookError: there is none.
    """
    for format in get_args(Format):
        if format == name:
            return format  # type: ignore[no-any-return]  # get_args gives no types
    raise WorkbookError(
        f"There is no format {name!r}.", todo=f"Choose one of {', '.join(get_args(Format))}."
    )


def table(
    classroom: Classroom,
    assignment: Assignment,
    format: Format,
    worksheet: Path | None = None,
    column: str = "",
    *,
    final: bool = False,
) -> Export:
    """The scores of an assignment as CSV that the other system takes.

    Example::

        print(table(Classroom.default(), assignments.named("a2"), "nbgrader").text)

    Args:
        classroom: the classroom with the gradebook.
        assignment: the assignment.
        format: the system that will read the table.
        worksheet: for Canvas and Moodle the file that the system gave. It knows the students and
            the assignment by ids that stand in this file only.
        column: for Canvas, the assignment's title there, where it cannot be found by itself.
        final: refuse a table in which points are open: see `export_rows.open_points`.

    Raises:
        WorkbookError: the system's file is missing, or is not what it should be; or the scores are
            to be final, and are not.
    """
    if final and (
        left := export_rows.open_points(export_rows.rows(classroom, assignment).values())
    ):
        raise WorkbookError(
            f"These scores are not final yet. {' '.join(left)}",
            where=str(classroom.report / f"{assignment.name}.html"),
            todo="Settle that, or export without --final: who is not graded gets no points then.",
        )
    if format == "nbgrader":
        return export_nbgrader.table(classroom, assignment)
    if worksheet is None:
        raise WorkbookError(
            f"{format.capitalize()} needs its own file, filled in.", todo=_FIRST[format]
        )
    if format == "canvas":
        return export_canvas.table(classroom, assignment, worksheet, column)
    return export_moodle.table(classroom, assignment, worksheet)
