"""Written answers as tables: several people grade their shares, without names, by the rubric.

`write_sheets` writes one CSV for each written answer and reader. Each row is one answer, under a
number in place of the student's name, with a column for each item of the rubric. A reader writes
`x` under what the answer earns. `take` reads the tables and writes points and comments into
nbgrader's gradebook, so formgrader shows them too.

What each answer earned is kept by item (answer_marks.py), and stands on the student's page. If the
rubric gives an item other points later, `refresh` computes the earlier marks anew. Points that
somebody has changed in formgrader since are left as they are.

The number of an answer depends on its text. So a row cannot be taken for a text that the student
has changed meanwhile.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import hashlib
import hmac
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError
from workbook.notebooks import dotted

from ..pages.answers import answers
from . import answer_marks, database, grade_rules, gradebook, rubric, spreadsheet
from .answer_marks import Given
from .classroom import Classroom, write
from .names import clean
from .spreadsheet import safe

_WHAT = "a table of written answers"
_SAVE = "In Excel, save it as `CSV UTF-8 (comma delimited)`."
_FIRST, _LAST = ("answer", "reader", "text"), ("other points", "comment")
_BOM = "\ufeff"
_MOST_POINTS = 1_000.0


@dataclasses.dataclass(frozen=True)
class Text:
    """A written answer of one student.

    Attributes:
        student: nbgrader's id.
        cell: the cell's id, such as `a2.why`.
        number: the number that stands for the student.
        text: what the student wrote.
        points: a person's points in the gradebook; None where there are none.
    """

    student: str
    cell: str
    number: str
    text: str
    points: float | None


@dataclasses.dataclass(frozen=True)
class Taken:
    """What `take` or `refresh` did.

    Attributes:
        read: how many answers each reader has read, by reader, with the mean points.
        changed: sentences about earlier marks that the rubric has changed.
        left: sentences about what was left as it is, and why.
    """

    read: dict[str, tuple[int, float]] = dataclasses.field(default_factory=dict)
    changed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def write_sheets(
    classroom: Classroom, assignment: Assignment, readers: Sequence[str] = ()
) -> list[Path]:
    """Write the tables: for each written answer one per reader. What was given stands in them.

    Each reader gets as many answers as the others, or one more.

    Example::

        write_sheets(Classroom.default(), assignments.named("a2"), ["ann", "bob"])

    Args:
        classroom: the classroom, graded.
        assignment: the assignment.
        readers: their names; by default one table holds all answers.

    Raises:
        WorkbookError: the assignment has no written answers, or no rubric for one of them; two
            readers have the same name; or a table that is there holds marks that were not taken.
    """
    names = [clean(name) for name in readers] or ["all"]
    if len({*names}) != len(names):
        raise WorkbookError("Two readers have the same name.", todo="Name each by another one.")
    rubrics = _rubrics(assignment)
    files = {}
    texts = _texts(classroom, assignment)
    kept = answer_marks.read(classroom, assignment.name)
    for cell, items in rubrics.items():
        theirs = sorted((one for one in texts if one.cell == cell), key=lambda one: one.number)
        for place, reader in enumerate(names):
            out = io.StringIO()
            writer = csv.writer(out, lineterminator="\r\n")
            titles = [_title(what, points) for what, points in items.items()]
            writer.writerow([*_FIRST, *titles, *_LAST])
            for one in theirs[place :: len(names)]:
                given = kept.get((one.student, cell))
                if given is None or given.number != one.number or given.points != one.points:
                    given = None
                writer.writerow(
                    [
                        *(one.number, reader, "\n".join(map(safe, one.text.splitlines()))),
                        *("x" if given and what in given.items else "" for what in items),
                        f"{given.other:g}" if given and (given.other or not given.items) else "",
                        safe(given.comment) if given else "",
                    ]
                )
            file = classroom.report / "answers" / f"{cell}.{reader}.csv"
            _check_taken(file, items, theirs, kept)
            files[file] = (_BOM + out.getvalue()).encode()
    for file, content in files.items():
        write(file, content)
    return list(files)


def take(classroom: Classroom, assignment: Assignment, files: Iterable[Path]) -> Taken:
    """Write what readers gave into the gradebook.

    A row without a mark in it has not been read yet. For no points at all, `other points` is 0.

    Args:
        classroom: the classroom, locked.
        assignment: the assignment.
        files: tables that `write_sheets` wrote, filled in.

    Raises:
        WorkbookError: a table is damaged, or holds what is no mark. Nothing is written then.
    """
    texts = {(one.cell, one.number): one for one in _texts(classroom, assignment)}
    rubrics = _rubrics(assignment)
    new: dict[tuple[str, str], Given] = {}
    left = []
    for file in files:
        sheet = spreadsheet.read(file, _WHAT, _SAVE)
        cell = next((id for id in rubrics if file.name.startswith(f"{id}.")), "")
        items = _columns(sheet, rubrics.get(cell, {}))
        for number, row in enumerate(sheet.rows, 2):
            given = _row(sheet, row, number, items, rubrics[cell], assignment.written[cell])
            if given is None:
                continue
            if (one := texts.get((cell, given.number))) is None:
                left.append(
                    f"{file.name}, row {number}: the answer {given.number} is not there any more, "
                    "or its text has changed. Write the tables anew, and read it again."
                )
                continue
            before = new.get((one.student, cell))
            if before is not None and not _is_same(before, given):
                left.append(
                    f"{file.name}, row {number}: {before.reader} gave {before.points:g} points for "
                    f"the same answer. The {given.points:g} of {given.reader} count."
                )
            new[one.student, cell] = given
    _write(classroom, assignment, new)
    by_reader = collections.defaultdict(list)
    for given in new.values():
        by_reader[given.reader].append(given.points)
    read = {who: (len(all), sum(all) / len(all)) for who, all in sorted(by_reader.items())}
    return Taken(read=read, left=tuple(left))


def refresh(classroom: Classroom, assignment: Assignment) -> Taken:
    """Compute the marks that readers gave anew, by the rubric as it is now.

    Raises:
        WorkbookError: the gradebook is in use.
    """
    kept = answer_marks.read(classroom, assignment.name)
    if not kept:
        return Taken()
    rubrics = _rubrics(assignment)
    texts = {(one.student, one.cell): one for one in _texts(classroom, assignment)}
    new, changed, left = {}, [], []
    for (student, cell), given in kept.items():
        one, items = texts.get((student, cell)), rubrics.get(cell, {})
        if one is None or one.number != given.number:
            continue  # the student has changed it: it is to be read again
        if gone := [what for what in given.items if what not in items]:
            left.append(
                f"{student}, {cell}: the rubric has no item any more that says {gone[0]!r}. The "
                "points stay as they are."
            )
            continue
        points = _points(given.items, given.other, items, assignment.written[cell])
        if points == given.points:
            continue
        if one.points != given.points:
            left.append(f"{student}, {cell}: a person has changed the points. They stay.")
            continue
        new[student, cell] = given.model_copy(update={"points": points})
        changed.append(f"{student}, {cell}: {given.points:g} points are {points:g} now.")
    _write(classroom, assignment, new)
    return Taken(changed=tuple(changed), left=tuple(left))


def _check_taken(
    file: Path,
    items: dict[str, float],
    texts: Iterable[Text],
    kept: dict[tuple[str, str], Given],
) -> None:
    """Raise an error if a table that is there holds marks that were not taken."""
    if not file.exists():
        return
    known = {one.number: kept.get((one.student, one.cell)) for one in texts}
    try:
        sheet = spreadsheet.read(file, _WHAT, _SAVE)
        columns = _columns(sheet, items)
        found = [_row(sheet, row, n, columns, items, 0) for n, row in enumerate(sheet.rows, 2)]
    except WorkbookError as error:
        what = f"It cannot be replaced: {error.what}"
    else:
        new = [
            given
            for given in found
            if given and given.number in known and not _is_same(given, known[given.number])
        ]
        if not new:
            return
        what = f"It holds marks that were not taken: {len(new)}."
    raise WorkbookError(
        what, where=str(file), todo=f"Take it (`--take {file}`), or move it to another folder."
    )


def _is_same(one: Given, other: Given | None) -> bool:
    """Whether two readings of an answer gave the same."""
    return other is not None and (one.number, {*one.items}, one.other, one.comment) == (
        *(other.number, {*other.items}),
        *(other.other, other.comment),
    )


def _rubrics(assignment: Assignment) -> dict[str, dict[str, float]]:
    """The points of each item of each written answer's rubric."""
    texts = rubric.rubrics(assignment)
    found = {}
    for cell in assignment.written:
        rows = rubric.rows(texts.get(cell, ""))
        points = {what: spreadsheet.parse_number(number) for number, what in rows}
        if not points or None in points.values():
            raise WorkbookError(
                f"The written answer {cell} has no rubric with a table of points.",
                where=str(assignment.instructor),
                todo="Write one as in grader/classroom/rubric.py, or use `grader formgrader`.",
            )
        found[cell] = {what: value for what, value in points.items() if value is not None}
    if not found:
        raise WorkbookError(f"{assignment.name} has no written answers.", todo="Name another one.")
    return found


def _texts(classroom: Classroom, assignment: Assignment) -> list[Text]:
    """The written answers of a class. Left out: empty ones, and those of excused students."""
    marks = {mark.student: mark for mark in gradebook.marks(classroom, assignment.name)}
    rules = grade_rules.read(classroom)
    secret = classroom.secret().encode()
    found = []
    for student, graded in classroom.results(assignment.name).items():
        mark = marks.get(student)
        if mark is None or rules.is_excused(assignment, student):
            continue
        for one in answers(assignment, graded, mark):
            if one.text:
                about = f"{student}\0{one.id}\0{one.text}".encode("utf-8", "replace")
                number = hmac.new(secret, about, hashlib.sha256).hexdigest()[:10]
                points = one.earned if one.id in mark.given else None
                # A number such as 12e4567890 would become another one in a spreadsheet.
                found.append(Text(student, one.id, f"n{number}", one.text, points))
    return found


def _title(what: str, points: float) -> str:
    """The title of an item's column. `_columns` finds it by the words: points may change."""
    return safe(f"{points:g}: {what}").strip()


def _columns(sheet: spreadsheet.Sheet, items: dict[str, float]) -> dict[str, int]:
    """The columns of a table by the rubric's words and the other titles."""
    titles = {title.strip(): place for place, title in enumerate(sheet.header)}
    words = {title.partition(": ")[2]: place for title, place in titles.items()}
    found = {name: titles[name] for name in (*_FIRST, *_LAST) if name in titles}
    for what in items:
        if (place := words.get(_title(what, 0).partition(": ")[2])) is not None:
            found[what] = place
    missing = [name for name in (*_FIRST, *items, *_LAST) if name not in found]
    if not items or missing:
        why = f"it has no column {missing[0]!r}" if items else "its name begins with no cell's id"
        raise WorkbookError(
            f"This is not {_WHAT} of today: {why}.",
            where=str(sheet.file),
            todo="Write the tables anew, and copy into them what was filled in.",
        )
    return found


def _row(
    sheet: spreadsheet.Sheet,
    row: list[str],
    number: int,
    columns: dict[str, int],
    items: dict[str, float],
    most: float,
) -> Given | None:
    """What a row gives; None where the answer has not been read.

    Raises:
        WorkbookError: a cell holds what is no mark.
    """
    earned = []
    for what in items:
        mark = row[columns[what]].strip().lower()
        if mark not in ("", "x"):
            raise _wrong(sheet, number, what, mark, "Write x, or nothing.")
        if mark:
            earned.append(what)
    text = row[columns["other points"]].strip()
    comment = row[columns["comment"]].strip()
    if comment and not earned and not text:
        raise WorkbookError(
            f"Row {number} has a comment and no points.",
            where=str(sheet.file),
            todo="Write x under what it earns, or 0 under `other points`.",
        )
    if not earned and not text:
        return None
    size = spreadsheet.parse_number(text.removeprefix("-") or "0")
    if size is None or size > _MOST_POINTS:
        raise _wrong(sheet, number, "other points", text, "Write a number, such as -1 or 0.5.")
    other = -size if text.startswith("-") else size
    return Given(
        number=row[columns["answer"]].strip(),
        items=tuple(earned),
        other=other,
        comment=comment,
        reader=row[columns["reader"]].strip(),
        points=_points(earned, other, items, most),
    )


def _points(earned: Iterable[str], other: float, items: dict[str, float], most: float) -> float:
    return round(min(most, max(0.0, sum(items[what] for what in earned) + other)), 4)


def _wrong(sheet: spreadsheet.Sheet, row: int, column: str, text: str, todo: str) -> WorkbookError:
    return WorkbookError(
        f"Row {row}, column {column[:60]!r}: {text[:60]!r} is no mark.",
        where=str(sheet.file),
        todo=todo,
    )


def _write(classroom: Classroom, assignment: Assignment, new: dict[tuple[str, str], Given]) -> None:
    """Write points and comments into the gradebook, and keep by which items they came."""
    by_student: dict[str, dict[str, Given]] = collections.defaultdict(dict)
    for (student, cell), given in new.items():
        by_student[student][cell] = given
    if not new:
        return
    with database.open_gradebook(classroom) as book:
        for student, theirs in by_student.items():
            for notebook in book.find_submission(assignment.name, student).notebooks:
                for grade in _of(notebook.grades, theirs):
                    grade.manual_score = theirs[dotted(grade.name)].points
                    grade.needs_manual_grade = False
                for comment in _of(notebook.comments, theirs):
                    comment.manual_comment = theirs[dotted(comment.name)].comment or None
        book.db.commit()
    kept = answer_marks.read(classroom, assignment.name)
    for student, theirs in by_student.items():
        whole = {cell: given for (who, cell), given in kept.items() if who == student} | theirs
        content = {cell: given.model_dump(mode="json") for cell, given in whole.items()}
        write(
            answer_marks.path(classroom, assignment.name, student),
            json.dumps(content, indent=1).encode(),
        )


def _of(entries: Iterable[Any], cells: dict[str, Given]) -> Iterator[Any]:
    """The gradebook's entries for these cells."""
    return (entry for entry in entries if dotted(entry.name) in cells)
