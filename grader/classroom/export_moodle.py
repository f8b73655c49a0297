"""The scores for Moodle: its grading worksheet filled in, and its zip of feedback files.

An instructor turns on "Offline grading worksheet" in the assignment's settings, downloads the
worksheet, has it filled in here, and uploads it ("Upload grading worksheet"). Read in
moodle/moodle:

- `mod/assign/gradingtable.php` writes the worksheet: the identifier, the full name and other fields
  of the student, the status, the grade, the maximum grade, whether the grade can be changed, when
  the submission was modified, and after it `Last modified (grade)` and the feedback.
- `mod/assign/feedback/offline/importgradeslib.php` reads it. It needs the columns `Identifier`,
  `Grade` and `Last modified (grade)`, with these names in the language of whoever uploads. It reads
  the number at the end of the identifier, and of all other columns only the feedback.
- `mod/assign/feedback/offline/locallib.php` skips, without a word, a grade above the maximum, and
  one that was changed in Moodle after the time in `Last modified (grade)`.
- `mod/assign/feedback/file/importziplib.php` reads the zip: the first folder whose name has the
  form `Full name_<number>_assignsubmission_file_`, with the number of the identifier, decides which
  student gets the files below it as feedback.

So all columns are kept as they are but for grade and feedback. A worksheet in another language than
English is read where its columns stand as Moodle writes them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

from ..pages.boxes import boxes
from ..vocabulary.results import Graded
from . import export_rows, spreadsheet
from .causes import explain
from .classroom import Classroom
from .export_rows import NO_SUBMISSION, Export, Finder, Row, list_names
from .names import shown
from .private import without_paths
from .spreadsheet import Sheet, column, number, safe

_WHAT = "Moodle's grading worksheet"
#: This module's own feedback begins with one of these texts, and is replaced. A person's is kept.
_OURS = "<p>Graded automatically."
_NOT_YET = "<p>Not graded yet."
_NUMBER = re.compile(r"\D*(\d+)")


def table(classroom: Classroom, assignment: Assignment, worksheet: Path) -> Export:
    """Moodle's worksheet with grades and feedback.

    Example::

        table(Classroom.default(), assignments.named("a2"), Path("Grades-TIS-a2.csv")).text

    Args:
        classroom: the classroom with the gradebook.
        assignment: the assignment.
        worksheet: the file that Moodle gave.

    Raises:
        WorkbookError: the file is no such worksheet, it lacks a column that Moodle needs, or the
            assignment has another maximum in Moodle.
    """
    sheet = spreadsheet.read(worksheet, _WHAT)
    at = _columns(sheet)
    most = sum(assignment.checks.values()) + sum(assignment.written.values())
    comma = _check_maximum(sheet, at.maximum, most)
    found = export_rows.rows(classroom, assignment)
    finder = Finder(classroom, found)
    results = classroom.results(assignment.name)
    written: dict[str, str] = {}
    nobody: list[str] = []
    lines = []
    for cells in sheet.rows:
        id = _NUMBER.fullmatch(cells[0])
        texts = [cells[place] for place in at.names]
        row = found.get(finder.find("moodle", id[1] if id else "", texts) or "")
        line = [
            text if place in at.read or text == "-" else safe(text)  # `-`: there is no time
            for place, text in enumerate(cells)
        ]
        if row is None or row.student in written:
            nobody.append(shown(texts[-1] if texts else cells[0]))
        else:
            written[row.student] = id[1] if id else ""
            if row.points is not None:
                line[at.grade] = number(row.points, comma)
            if at.feedback is not None and _is_free(cells[at.feedback]):
                text = _feedback(assignment, row, results.get(row.student))
                line[at.feedback] = without_paths(shown(text), classroom.home)
        lines.append(line)
    notes = [*export_rows.notes(found.values())]
    if lost := [id for id, row in found.items() if row.points is not None and id not in written]:
        notes.append(f"Graded, but not in the worksheet: {list_names(lost)}.")
    if nobody:
        notes.append(
            f"In the worksheet, but nobody of the class; left as it was: {list_names(nobody)}."
        )
    if at.feedback is None:
        notes.append(
            "The worksheet has no column for feedback: turn on `Feedback comments` in the "
            "assignment's settings in Moodle to have one."
        )
    return Export(sheet.text(lines), tuple(notes), written)


def feedback_zip(classroom: Classroom, assignment: Assignment, places: Mapping[str, str]) -> bytes:
    """The feedback pages as a zip for Moodle's "Upload multiple feedback files in a zip".

    Args:
        classroom: the classroom, with its feedback pages written.
        assignment: the assignment.
        places: by student, the number in the worksheet's identifier.
    """
    found = export_rows.rows(classroom, assignment)
    pages = {}
    for student, place in places.items():
        if place and student in found:
            name = re.sub(r'[_/\\:*?"<>|\s]+', " ", shown(found[student].name)).strip(". ")
            folder = f"{name or 'Student'}_{place}_assignsubmission_file_"
            page = classroom.feedback / student / f"{assignment.name}.html"
            pages[f"{folder}/{assignment.name}.html"] = page
    return export_rows.archive(pages)


@dataclasses.dataclass(frozen=True)
class _Columns:
    """Where the columns of a worksheet stand.

    Attributes:
        grade, maximum: always there.
        modified: when the grade was last modified.
        feedback: None where the assignment in Moodle has no feedback comments.
        names: columns that tell who a student is, the surest first.
    """

    grade: int
    maximum: int
    modified: int
    feedback: int | None
    names: list[int]

    @property
    def read(self) -> set[int | None]:
        """The columns that Moodle reads: they are written exactly as they were."""
        return {0, self.grade, self.modified, self.feedback}


def _columns(sheet: Sheet) -> _Columns:
    if column(sheet, "Identifier") is None:
        return _by_place(sheet)
    needed = ("Grade", "Maximum Grade", "Last modified (grade)")
    grade, maximum, modified = (column(sheet, name) for name in needed)
    if grade is None or maximum is None or modified is None or column(sheet, "Identifier") != 0:
        missing = [name for name in needed if column(sheet, name) is None]
        raise _refusal(sheet, f"It lacks {' and '.join(missing) or 'its first column'}.")
    texts = (column(sheet, n) for n in ("Email address", "ID number", "Username", "Full name"))
    return _Columns(
        grade=grade,
        maximum=maximum,
        modified=modified,
        feedback=column(sheet, "Feedback comments"),
        names=[place for place in texts if place is not None],
    )


def _by_place(sheet: Sheet) -> _Columns:
    """The columns of the grade and of its last change, in a worksheet in any language.

    The identifiers end with numbers that differ. The grade, empty or a number, stands before its
    maximum, which is the same for all. `Last modified (grade)` has brackets in every language.
    """
    cells = list(zip(*sheet.rows, strict=True))
    ids = [match[1] for text in cells[0] if (match := _NUMBER.fullmatch(text))] if cells else []
    numbers = [[spreadsheet.parse_number(text) for text in texts] for texts in cells]
    grades = [
        place - 1
        for place in range(2, len(cells))
        if len({*numbers[place]}) == 1
        and (most := numbers[place][0])
        and all(
            not text.strip()
            or ((value := spreadsheet.parse_number(text)) is not None and value <= most)
            for text in cells[place - 1]
        )
    ]
    brackets = [
        place
        for place, title in enumerate(sheet.header)
        if grades and place > grades[0] and re.fullmatch(r".+ ?\(.+\)", title.strip())
    ]
    if len(ids) != len(sheet.rows) or len({*ids}) != len(ids) or len(grades) != 1 or not brackets:
        raise _refusal(sheet, "Its columns are not those that Moodle writes in English.")
    after = range(brackets[-1] + 1, len(sheet.header))
    return _Columns(
        grade=grades[0],
        maximum=grades[0] + 1,
        modified=brackets[-1],
        feedback=after[0] if len(after) == 1 else None,
        names=[*range(2, grades[0]), 1],  # the full name comes first, then other fields
    )


def _check_maximum(sheet: Sheet, place: int, most: float) -> bool:
    """Whether the worksheet has decimal commas; raise an error where it has another maximum."""
    for cells in sheet.rows:
        if (value := spreadsheet.parse_number(cells[place])) is None or abs(value - most) > 0.005:
            raise WorkbookError(
                f"In Moodle the maximum grade is {cells[place]}, here it is {most:g} points.",
                where=str(sheet.file),
                todo=f"Set it to {most:g} in the assignment's settings in Moodle, and download the "
                "worksheet again: Moodle leaves out grades above its maximum without a word.",
            )
    return any("," in cells[place] for cells in sheet.rows)


def _refusal(sheet: Sheet, why: str) -> WorkbookError:
    return WorkbookError(
        f"This is not {_WHAT}. {why}",
        where=str(sheet.file),
        todo="In Moodle, set your language to English, download it once more (Submissions, "
        "Download grading worksheet), and upload the result with the same language.",
    )


def _is_free(feedback: str) -> bool:
    """Whether a cell holds no feedback that a person wrote."""
    text = feedback.strip()
    return not text or text == "-" or text.startswith((_OURS, _NOT_YET))


def _feedback(assignment: Assignment, row: Row, graded: Graded | None) -> str:
    """The feedback in HTML, which is what Moodle's editor has, on one line."""
    if row.excused:
        return f"{_OURS} You are excused from this assignment.</p>"
    if row.ungraded is not None:
        return f"{_NOT_YET} {escape(row.ungraded.answer)}</p>".replace("\n", "<br>")
    if row.mark is None or graded is None:
        return f"{_OURS} {NO_SUBMISSION.capitalize()}.</p>"
    mark = row.mark
    parts = {id: mark.parts.get(id, (0.0, most)) for id, most in assignment.checks.items()}
    lines = [f"{_OURS} {mark.total:g} of {mark.most:g} points.</p>"]
    if mark.penalty:
        lines.append(f"<p>{mark.penalty:g} points are taken off because it came late.</p>")
    if mark.by_hand:
        lines.append("<p>Written answers are still to be read.</p>")
    for box in boxes(explain(graded, assignment), parts):
        ids = ", ".join(line.id for line in (*box.lines, *box.waiting))
        lines.append(f"<p><b>{ids}</b>: {box.word}, {box.earned:g} of {box.most:g}.")
        lines += [f" {text}" for text in (box.rationale, box.note) if text]
        lines.append("</p>")
    lines += [
        f"<p><b>{id}</b>: {mark.parts.get(id, (0.0, 0.0))[0]:g} of {most:g}.</p>"
        for id, most in assignment.written.items()
        if id not in mark.unread
    ]
    lines += [f"<p><b>{id}</b>: {escape(text)}</p>" for id, text in mark.comments.items()]
    return "".join(lines).replace("\n", "<br>")
