"""What a person gave by hand, when a student hands in again.

nbgrader keeps such points and comments, and marks every cell that has some as to be read again,
whether it has changed or not. Here only cells that have changed are marked: the points and comments
are *stale*. Until the person has graded the cell again, they stay in the gradebook, every run names
them, and the text that the person has read is kept.

A written answer has changed if its text has. Points in place of a check's points become stale if
the check has another result, or if a cell of the student's code has another text.
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from workbook.notebooks import dotted

from . import database
from .classroom import Classroom, write


class Stale(BaseModel):
    """Points or a comment of a person for a cell that has changed since.

    Attributes:
        cell: the cell's id, such as `a2.why`.
        points: the points that the person gave; None if only a comment.
        comment: the person's comment.
        read: the text that the person read; of a check, its result and the student's code.
        since: when the changed text came in, in UTC.
    """

    model_config = ConfigDict(frozen=True)

    cell: str
    points: float | None
    comment: str
    read: str
    since: datetime.datetime


def stale(classroom: Classroom, assignment: str) -> dict[str, list[Stale]]:
    """What is stale, by student, in alphabetical order.

    Example::

        for student, cells in stale(Classroom.default(), "a2__forest").items():
            print(student, ", ".join(one.cell for one in cells))
    """
    found: dict[str, list[Stale]] = {}
    for path in sorted((classroom.home / "by_hand" / assignment).glob("*.json")):
        given = _read_grades(classroom, assignment, path.stem)
        if left := [one for one in _read_stale(path).values() if _is_open(one, given)]:
            found[path.stem] = left
    return found


@contextlib.contextmanager
def watched(classroom: Classroom, assignment: str, student: str) -> Iterator[None]:
    """Compare a student's cells before and after the block, in which nbgrader writes them.

    A cell that has a person's points or comment becomes stale if it has changed. If it has not
    changed, its mark stays as it was: whether a person has to read it.
    """
    before = _read_grades(classroom, assignment, student)
    texts = _texts(classroom, assignment, student) if before else {}
    yield
    if not before:
        return
    path = _path(classroom, assignment, student)
    kept = {cell: one for cell, one in _read_stale(path).items() if _is_open(one, before)}
    now = _texts(classroom, assignment, student)
    settled = []
    for cell, (points, comment, unread) in before.items():
        read = kept[cell].read if cell in kept else texts.get(cell, "")
        if now.get(cell, "") == read:
            if cell in kept or not unread:
                settled.append(cell)  # the person has read this very text
            kept.pop(cell, None)
        elif not unread or cell in kept:
            since = kept[cell].since if cell in kept else datetime.datetime.now(datetime.UTC)
            kept[cell] = Stale(
                cell=cell, points=points, comment=comment, read=read[:100_000], since=since
            )
    _settle(classroom, assignment, student, settled, unread=list(kept))
    if kept:
        content = [one.model_dump(mode="json") for one in kept.values()]
        write(path, json.dumps(content, indent=1).encode())
    else:
        path.unlink(missing_ok=True)


#: Points, comment, and whether a person has still to read the cell; None where nbgrader does not
#: know, as for a cell without points.
_Given = tuple[float | None, str, bool | None]


def _is_open(one: Stale, given: dict[str, _Given]) -> bool:
    """Whether the person has not graded a cell since it became stale."""
    if one.cell not in given:
        return False
    _, comment, unread = given[one.cell]
    return comment == one.comment if unread is None else unread


def _read_grades(classroom: Classroom, assignment: str, student: str) -> dict[str, _Given]:
    """What a person gave, by the cell's id."""
    found: dict[str, _Given] = {}
    with _notebooks(classroom, assignment, student) as notebooks:
        for notebook in notebooks:
            comments = {c.name: c.manual_comment or "" for c in notebook.comments}
            grades = {grade.name: grade for grade in notebook.grades}
            for name in {*comments, *grades}:
                points = grades[name].manual_score if name in grades else None
                unread = bool(grades[name].needs_manual_grade) if name in grades else None
                if points is not None or comments.get(name):
                    found[dotted(name)] = (points, comments.get(name, ""), unread)
    return found


def _settle(
    classroom: Classroom, assignment: str, student: str, read: list[str], *, unread: list[str]
) -> None:
    """Mark cells as read by a person, or as to be read."""
    with _notebooks(classroom, assignment, student) as notebooks:
        for notebook in notebooks:
            for grade in notebook.grades:
                if dotted(grade.name) in read and grade.manual_score is not None:
                    grade.needs_manual_grade = False
                elif dotted(grade.name) in unread:
                    grade.needs_manual_grade = True


@contextlib.contextmanager
def _notebooks(classroom: Classroom, assignment: str, student: str) -> Iterator[list[Any]]:
    """The gradebook's entries of a submission; none if it has none. Changes are written."""
    if not classroom.gradebook.exists():
        yield []
        return
    from nbgrader.api import MissingEntry

    with database.open_gradebook(classroom) as gradebook:
        try:
            yield list(gradebook.find_submission(assignment, student).notebooks)
            gradebook.db.commit()
        except MissingEntry:
            yield []


def _texts(classroom: Classroom, assignment: str, student: str) -> dict[str, str]:
    """What a person reads of each cell, by its id, in the notebook that formgrader shows."""
    found: dict[str, str] = {}
    code = []
    checks = []
    for path in sorted((classroom.autograded / student / assignment).glob("*.ipynb")):
        try:
            cells = json.loads(path.read_bytes())["cells"]
            for cell in cells:
                about = cell["metadata"].get("nbgrader", {})
                source = "".join(cell["source"])
                if not about.get("grade_id"):
                    continue
                id = dotted(about["grade_id"])
                if cell["cell_type"] == "code" and about.get("solution"):
                    code.append(source)
                if about.get("grade") and not about.get("solution"):
                    checks.append((id, _points_of(cell)))
                else:
                    found[id] = source
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    for id, printed in checks:
        found[id] = "\n\n".join([printed, *code])
    return found


def _points_of(cell: dict[str, Any]) -> str:
    """The points in a check's cell. Its text is left out: it may change with the grader."""
    outputs = (one for one in cell.get("outputs", []) if one.get("output_type") == "execute_result")
    texts = (output.get("data", {}).get("text/plain", "") for output in outputs)
    return "\n".join("".join(text) for text in texts)


def _read_stale(path: Path) -> dict[str, Stale]:
    try:
        found = [Stale.model_validate(one) for one in json.loads(path.read_bytes())]
    except (OSError, ValueError, TypeError, ValidationError):
        return {}
    return {one.cell: one for one in found}


def _path(classroom: Classroom, assignment: str, student: str) -> Path:
    return classroom.home / "by_hand" / assignment / f"{student}.json"
