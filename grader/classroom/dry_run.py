"""What a run would take from the inbox, and for whom, without taking it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from workbook.assignments import Assignment

from . import deadlines, intake, records, roster
from .classroom import Classroom
from .records import Record

_PREFIX = ".dry-run-"


def look(
    classroom: Classroom,
    assignments: Sequence[Assignment],
    inbox: Path,
    *,
    assumed: Assignment | None = None,
) -> intake.Taken:
    """What `intake.take` would give. Nothing of the class is changed, and nothing is kept.

    It takes the inbox into a copy of the classroom without the submissions' files. The classroom
    has to be locked.

    Example::

        with classroom.lock():
            taken = look(classroom, which_assignments.built(), classroom.inbox)
        taken.records["a2__forest"][0].student

    Args, Raises: as for `intake.take`.
    """
    for left in classroom.home.glob(f"{_PREFIX}*"):  # of a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    # On the disk of the class, which has room for its submissions.
    with tempfile.TemporaryDirectory(dir=classroom.home, prefix=_PREFIX) as folder:
        copy = Classroom(Path(folder))
        for file in (roster.path, deadlines.path):
            if file(classroom).is_file():
                shutil.copy(file(classroom), file(copy))
        if (kept := classroom.home / "intake").is_dir():
            shutil.copytree(kept, copy.home / "intake")
        for assignment in assignments:
            for student in classroom.submissions(assignment.name):
                copy.submission(student, assignment.name).mkdir(parents=True)
        return intake.take(copy, assignments, inbox, assumed=assumed)


def state(classroom: Classroom, assignment: str, found: Record) -> str:
    """What a run would do with a submission: "new", "changed", "as before" or "unreadable"."""
    if found.problem:
        return "unreadable"
    before = records.record(classroom, assignment, found.student)
    if before is None:
        return "new"
    return "as before" if before.digest == found.digest else "changed"
