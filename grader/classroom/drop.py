"""Take a student's submission out of the class: its files, its result, and its marks."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from pathlib import Path

from workbook.common.errors import WorkbookError

from . import answer_marks, database, intake, regrades, roster
from .classroom import Classroom


@dataclasses.dataclass(frozen=True)
class Submission:
    """What there is of a student's submission.

    Attributes:
        student: nbgrader's id.
        assignment: the assignment's name.
        paths: its files and folders.
        points: the points in the gradebook; None where it has no entry.
        by_hand: the points among them that a person gave.
        comments: how many comments a person wrote.
        source: the entry of the inbox that it was taken from, if that is still there.
    """

    student: str
    assignment: str
    paths: tuple[Path, ...]
    points: float | None
    by_hand: float
    comments: int
    source: str


def find(classroom: Classroom, student: str, assignment: str | None = None) -> list[Submission]:
    """What there is of a student's submissions.

    Example::

        for submission in find(classroom, "anna", "a2__forest"):
            remove(classroom, submission)

    Args:
        classroom: the classroom.
        student: nbgrader's id.
        assignment: only this one; by default all.

    Raises:
        WorkbookError: there is nothing.
    """
    rows = _rows(classroom, student)
    names = {path.name for path in (classroom.submitted / student).glob("a*") if path.is_dir()}
    names |= {path.parent.name for path in (classroom.home / "intake").glob(f"*/{student}.json")}
    names |= {path.parent.name for path in _indexes(classroom)} & _graded_assignments(
        classroom, student
    )
    names |= rows.keys()
    found = [
        _submission(classroom, student, name, rows.get(name))
        for name in sorted(names)
        if assignment in (None, name)
    ]
    if not found:
        raise WorkbookError(
            f"There is no submission of {student}{f' of {assignment}' if assignment else ''}.",
            where=str(classroom.home),
            todo="Write the student's id as in the class report.",
        )
    return found


def remove(classroom: Classroom, submission: Submission) -> None:
    """Remove a submission. Nothing in the inbox is changed.

    A student who has nothing else, and is not in the class list, leaves the gradebook, too.

    Raises:
        WorkbookError: the gradebook is in use.
    """
    student, assignment = submission.student, submission.assignment
    if submission.points is not None:
        _remove_marks(classroom, student, assignment)
    index = classroom.results_index(assignment)
    key = index.pop(student, None)
    if key is not None:
        classroom.save_results_index(assignment, index)
        if key not in index.values():
            classroom.forget(assignment, key)
    for path in submission.paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    for folder in (classroom.submitted, classroom.autograded, classroom.feedback):
        with contextlib.suppress(OSError):  # it is not empty: there is another assignment
            (folder / student).rmdir()


def _submission(
    classroom: Classroom, student: str, assignment: str, row: tuple[float, float, int] | None
) -> Submission:
    paths = (
        classroom.submission(student, assignment),
        classroom.autograded / student / assignment,
        classroom.feedback / student / assignment,
        classroom.feedback / student / f"{assignment}.html",
        classroom.home / "intake" / assignment / f"{student}.json",
        classroom.home / "by_hand" / assignment / f"{student}.json",
        regrades.path(classroom, assignment, student),
        answer_marks.path(classroom, assignment, student),
    )
    known = intake.record(classroom, assignment, student)
    entry = known.source.split(": ")[0] if known else ""
    return Submission(
        student=student,
        assignment=assignment,
        paths=tuple(path for path in paths if path.exists()),
        points=None if row is None else row[0],
        by_hand=0.0 if row is None else row[1],
        comments=0 if row is None else row[2],
        source=known.source if known and entry and (classroom.inbox / entry).exists() else "",
    )


def _indexes(classroom: Classroom) -> list[Path]:
    return list((classroom.home / "results").glob("*/class.json"))


def _graded_assignments(classroom: Classroom, student: str) -> set[str]:
    """The assignments of which a student has a result."""
    names = {path.parent.name for path in _indexes(classroom)}
    return {name for name in names if student in classroom.results_index(name)}


def _rows(classroom: Classroom, student: str) -> dict[str, tuple[float, float, int]]:
    """Points, points given by hand and comments of a student, by assignment."""
    if not classroom.gradebook.exists():
        return {}
    from nbgrader.api import MissingEntry

    with database.open_gradebook(classroom) as gradebook:
        try:
            entry = gradebook.find_student(student)
        except MissingEntry:
            return {}
        found = {}
        for submission in entry.submissions:
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
            comments = [one for notebook in submission.notebooks for one in notebook.comments]
            found[submission.assignment.name] = (
                float(submission.score or 0),
                sum(float(g.manual_score) for g in grades if g.manual_score is not None),
                sum(1 for comment in comments if comment.manual_comment),
            )
        return found


def _remove_marks(classroom: Classroom, student: str, assignment: str) -> None:
    listed = roster.read(classroom)
    with database.open_gradebook(classroom) as gradebook:
        gradebook.remove_submission(assignment, student)
        entry = gradebook.find_student(student)
        if not entry.submissions and (listed is None or student not in listed.students):
            gradebook.remove_student(student)
