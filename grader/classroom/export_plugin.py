"""`nbgrader export` with the rows of `grader export`.

nbgrader's own exporter writes 0 points for whoever has no mark. In this course "not graded" and
"excused" are no points at all.
"""

from __future__ import annotations

import csv
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin

from workbook import assignments

from . import export_nbgrader, export_rows
from .classroom import Classroom


class Exporter(CsvExportPlugin):  # type: ignore[misc]  # nbgrader carries no types
    """The exporter that the course's `nbgrader_config.py` names.

    `--to`, `--assignment` and `--student` are those of nbgrader.
    """

    def export(self, gradebook: Gradebook) -> None:
        """Write the scores of all assignments that somebody has handed in.

        Raises:
            WorkbookError: a submission, or the class list, cannot be read.
        """
        classroom = Classroom(Path(self.config.Due.work))
        graded = {entry.name for entry in gradebook.assignments}
        wanted = graded & {*self.assignment} if self.assignment else graded
        students = {*map(str, self.student)}
        with Path(self.to or "grades.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(export_nbgrader.COLUMNS)
            for one in assignments.find():
                if one.name in wanted:
                    rows = export_rows.rows(classroom, one).values()
                    table.writerows(
                        export_nbgrader.line(one, row)
                        for row in rows
                        if not students or row.student in students
                    )
