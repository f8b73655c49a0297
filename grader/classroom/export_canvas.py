"""The scores for Canvas: its own gradebook file, with this assignment's column filled in.

An instructor exports the gradebook ("Export entire gradebook"), has the column filled in here, and
imports the result. Read in instructure/canvas-lms:

- `lib/gradebook_exporter.rb` writes `Student` (or `LastName`, `FirstName`), `ID`, other ids,
  `Section`, the instructor's own columns, a column `Title (id)` per assignment, and totals; below
  the header a line with `Manual Posting` where grades are hidden, then `Points Possible`.
- `lib/gradebook_importer.rb` reads it. The columns up to `Section` must be there. It goes by the id
  in the column's title; a title that it does not know becomes a new assignment. It finds a student
  by `ID`. It changes an assignment's points where `Points Possible` has others. A score that was
  there and is empty now is deleted; `EX` excuses.

- `app/models/assignment.rb` (`infer_comment_context_from_filename`) reads the zip that "Upload
  Submissions" takes. A file becomes a comment on a submission. The first two parts of its name
  between `_` that are numbers are the student and the file that was handed in; without them it is
  left out.

So the columns of the student and this assignment's column go out, and nothing else. A line without
points here keeps the score that Canvas has. Who is excused gets `EX`.
"""

from __future__ import annotations

import re
from pathlib import Path

from workbook.assignments import Assignment, cells
from workbook.common.errors import WorkbookError

from . import arrivals, export_rows, intake, spreadsheet
from .classroom import Classroom
from .export_rows import Export, Finder, list_names
from .names import shown
from .spreadsheet import Sheet, column, number, safe

_WHAT = "Canvas's gradebook"
_ASSIGNMENT = re.compile(r"(?P<title>.*) \((?P<id>\d+)\)")
#: Columns of totals, which the importer leaves out.
_TOTALS = re.compile(r"(Current|Final|Override) (Score|Points|Grade|Status)")
_POINTS = "Points Possible"


def table(classroom: Classroom, assignment: Assignment, gradebook: Path, title: str = "") -> Export:
    """Canvas's gradebook with the scores of this assignment, and without the other columns.

    Example::

        table(Classroom.default(), assignments.named("a2"), Path("Grades-TIS.csv")).text

    Args:
        classroom: the classroom with the gradebook.
        assignment: the assignment.
        gradebook: the file that Canvas gave.
        title: the assignment's name in Canvas; by default the one that has the assignment's title,
            or its name, such as `a2__forest` or `a2`.

    Raises:
        WorkbookError: the file is no such gradebook, no column or several could be the
            assignment's, or the assignment has other points in Canvas.
    """
    sheet = spreadsheet.read(gradebook, _WHAT)
    section = column(sheet, "Section")
    id_at = column(sheet, "ID")
    if sheet.header[0] not in ("Student", "LastName") or id_at is None or section is None:
        raise WorkbookError(
            f"This is not {_WHAT}: it has no columns Student, ID and Section.",
            where=str(gradebook),
            todo="In Canvas: Grades, Export, Export Entire Gradebook.",
        )
    at = _column(sheet, assignment, title, section)
    comma = _check_points(sheet, at, assignment)
    found = export_rows.rows(classroom, assignment)
    finder = Finder(classroom, found)
    written: dict[str, str] = {}
    nobody: list[str] = []
    excused: list[str] = []
    lines = []
    for line in sheet.rows:
        who = _names(sheet, line)
        # Canvas goes by the id, a number, and reads no other column of the student.
        kept = [*map(safe, line[: section + 1]), line[at]]
        lines.append(kept)
        if not line[id_at].strip():  # a line of Canvas's own; or one that names nobody
            continue
        row = found.get(finder.find("canvas", line[id_at].strip(), who) or "")
        if row is None or row.student in written:
            nobody.append(shown(who[-1]))
            continue
        written[row.student] = line[id_at].strip()
        if line[at].strip().upper() == "EX":
            excused.append(row.student)
        elif row.excused:
            kept[-1] = "EX"
        elif row.points is not None:
            kept[-1] = number(row.points, comma)
    notes = [*export_rows.notes(found.values())]
    if lost := [id for id, row in found.items() if row.points is not None and id not in written]:
        notes.append(f"Graded, but not in Canvas's gradebook: {list_names(lost)}.")
    if nobody:
        notes.append(f"In Canvas, but nobody of the class; left as it was: {list_names(nobody)}.")
    if excused:
        notes.append(f"Excused in Canvas, and left so: {list_names(excused)}.")
    header = [*sheet.header[: section + 1], sheet.header[at]]
    return Export(sheet.text(lines, header), tuple(notes), written)


def feedback_zip(classroom: Classroom, assignment: Assignment) -> tuple[bytes, list[str]]:
    """The feedback pages as a zip for Canvas's "Upload Submissions".

    Args:
        classroom: the classroom, with its feedback pages written.
        assignment: the assignment.

    Returns:
        The zip; and the students with a page whom it leaves out: what they handed in did not come
        from Canvas's download, so Canvas's number of their file is not known.
    """
    pages, left_out = {}, []
    for student in classroom.results_index(assignment.name):
        page = classroom.feedback / student / f"{assignment.name}.html"
        record = intake.record(classroom, assignment.name, student)
        entry = record.source.rpartition(": ")[2] if record else ""
        came = arrivals.read_entry_name(Path(entry))
        if came.system == "canvas" and came.file:
            pages[f"{came.name}_{came.number}_{came.file}_{assignment.name}.html"] = page
        elif page.is_file():
            left_out.append(student)
    return export_rows.archive(pages), left_out


def _column(sheet: Sheet, assignment: Assignment, title: str, section: int) -> int:
    """The place of the assignment's column."""
    titles = {
        place: match["title"]
        for place, text in enumerate(sheet.header)
        if place > section and not _TOTALS.search(text) and (match := _ASSIGNMENT.fullmatch(text))
    }
    about = cells.read(assignment.release).get("metadata", {}).get("workbook", {})
    wanted = [title] if title else [str(about.get("title", "")), assignment.name, assignment.short]
    for name in filter(None, wanted):
        if found := [
            place
            for place, text in titles.items()
            if name.casefold() in (text.casefold(), sheet.header[place].casefold())
        ]:
            break
    if len(found) != 1:
        some_titles = "; ".join(shown(sheet.header[place]) for place in titles) or "none"
        raise WorkbookError(
            f"{'Several columns' if found else 'No column'} of {_WHAT} could be {assignment.name}.",
            where=str(sheet.file),
            todo=f"Name the column with --column. The assignments there: {some_titles[:1_000]}.",
        )
    return found[0]


def _check_points(sheet: Sheet, at: int, assignment: Assignment) -> bool:
    """Whether numbers have decimal commas; raise an error where Canvas has other points."""
    most = sum(assignment.checks.values()) + sum(assignment.written.values())
    text = next((line[at] for line in sheet.rows if _POINTS in line[0]), "")
    stated = spreadsheet.parse_number(text)
    if stated is None or abs(stated - most) > 0.005:
        raise WorkbookError(
            f"In Canvas the assignment has {text.strip() or 'no'} points, here it has {most:g}.",
            where=f"{sheet.file}, column {shown(sheet.header[at])}",
            todo=f"Set it to {most:g} in Canvas, and export the gradebook again.",
        )
    return "," in text


def _names(sheet: Sheet, line: list[str]) -> list[str]:
    """What tells who a line is about: ids of other systems, then the name."""
    ids = (column(sheet, name) for name in ("SIS Login ID", "SIS User ID", "Integration ID"))
    name = f"{line[1]} {line[0]}" if sheet.header[0] == "LastName" else line[0]
    return [*(line[place] for place in ids if place is not None), name]
