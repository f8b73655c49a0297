"""The due dates of `deadlines.toml`, as nbgrader knows them.

`Due` is a preprocessor of nbgrader's Autograde. It writes due date and extension into the gradebook
before nbgrader's own AssignLatePenalties computes how late a submission is. `Penalty` is the plugin
that this preprocessor asks for the points. `refresh` does both for what is in the gradebook
already: the file may have changed, or a person may have given points since.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.plugins import BasePlugin, LateSubmissionPlugin
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import TraitError, Unicode
from traitlets.config import Config
from traitlets.utils.importstring import import_item

from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

from . import database, deadlines
from .classroom import Classroom, write


class Due(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader carries no types
    """Write the due date and the student's extension into the gradebook."""

    work = Unicode(help="The folder of the class, such as grader/work.").tag(config=True)

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Return the notebook as it is."""
        about = resources["nbgrader"]
        deadline = deadlines.of(Classroom(Path(self.work)), about["assignment"])
        if deadline is not None:
            with Gradebook(about["db_url"]) as gradebook:
                _state(gradebook, gradebook.find_assignment(about["assignment"]), deadline)
                submission = gradebook.find_submission(about["assignment"], about["student"])
                submission.extension = deadline.extension(about["student"])
                gradebook.db.commit()
        return nb, resources


class Penalty(LateSubmissionPlugin):  # type: ignore[misc]
    """The penalty by `deadlines.toml`; where it has no due date, by nbgrader's own rules."""

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float | None:
        """The points that are subtracted; see nbgrader's LateSubmissionPlugin."""
        plugin = self.parent  # nbgrader's AssignLatePenalties
        deadline = deadlines.of(Classroom(Path(self.config.Due.work)), plugin.assignment_id)
        if deadline is None:
            own = super().late_submission_penalty(student_id, score, total_seconds_late)
            return None if own is None else float(own)
        notebook = plugin.gradebook.find_submission_notebook(
            plugin.notebook_id, plugin.assignment_id, student_id
        )
        return points(deadline, student_id, score, notebook.max_score, total_seconds_late)


def points(
    deadline: deadlines.Deadline, student: str, score: float, most: float, seconds: float
) -> float:
    """The points that a late submission loses: at least 0, and not more than it has.

    Args:
        deadline: the rules.
        student: nbgrader's id.
        score: the points before the penalty.
        most: all points of the assignment.
        seconds: how long after the due date it was handed in, with the extension.

    Raises:
        WorkbookError: there is no such plugin, or it failed.
    """
    if seconds <= max(0.0, deadline.grace_minutes * 60):
        return 0.0
    if deadline.plugin:
        lost = _by_plugin(deadline, student, score, seconds)
    else:
        due = deadlines.utc(deadline.due_for(student))
        submitted = due + datetime.timedelta(seconds=seconds)
        lost = deadline.penalty(deadline.days_late(student, submitted), most)
    return max(0.0, min(lost, score))


def check(classroom: Classroom, assignment: Assignment) -> None:
    """Look at the rules of an assignment before anybody's points depend on them.

    Raises:
        WorkbookError: `deadlines.toml` is wrong, or its plugin does not work.
    """
    deadline = deadlines.of(classroom, assignment.name)
    if deadline is not None and deadline.plugin:
        points(deadline, "nobody", 1.0, 1.0, 86_400 + deadline.grace_minutes * 60)


def refresh(classroom: Classroom, assignment: Assignment) -> None:
    """Compute the penalties in the gradebook anew, unless nothing has changed since the last time.

    Raises:
        WorkbookError: `deadlines.toml` is wrong, or its plugin failed.
    """
    deadline = deadlines.of(classroom, assignment.name)
    stamp = classroom.home / "results" / assignment.name / "penalties"
    if deadline is None or not classroom.gradebook.exists():
        return
    if _content(stamp) == _state_of(classroom):
        return
    with database.open_gradebook(classroom) as gradebook:
        entry = gradebook.update_or_create_assignment(assignment.name)
        _state(gradebook, entry, deadline)
        for submission in entry.submissions:
            extension = deadline.extension(submission.student.id)
            if submission.extension != extension:
                submission.extension = extension
            for notebook in submission.notebooks:
                lost = points(
                    deadline,
                    submission.student.id,
                    float(notebook.score or 0),
                    float(notebook.max_score or 0),
                    submission.total_seconds_late,
                )
                if float(notebook.late_submission_penalty or 0) != lost:
                    notebook.late_submission_penalty = lost or None
        gradebook.db.commit()
    write(stamp, _state_of(classroom))


def _state(gradebook: Gradebook, entry: Any, deadline: deadlines.Deadline) -> None:
    """Write the due date into the gradebook; nbgrader keeps times in UTC, without a zone."""
    due = deadlines.utc(deadline.due).replace(tzinfo=None)
    if entry.duedate != due:
        entry.duedate = due
        gradebook.db.commit()


def _by_plugin(deadline: deadlines.Deadline, student: str, score: float, seconds: float) -> float:
    try:
        found = import_item(deadline.plugin)
        if not (isinstance(found, type) and issubclass(found, BasePlugin)):
            raise ImportError("it is no plugin of nbgrader's")
        plugin: Any = found(config=Config({found.__name__: deadline.options}))
        unknown = [name for name in deadline.options if name not in plugin.trait_names()]
        if unknown:
            raise TraitError(f"it has no option {unknown[0]}")
        return float(plugin.late_submission_penalty(student, score, seconds) or 0)
    except Exception as error:  # the plugin is the instructor's own code
        raise WorkbookError(
            f"The late penalty: {deadline.plugin} failed: {type(error).__name__}: {error}",
            where="deadlines.toml",
            todo="Name a class with nbgrader's late_submission_penalty(student, score, seconds).",
        ) from None


def _state_of(classroom: Classroom) -> bytes:
    """What the penalties depend on: the due dates, and what is in the gradebook."""
    digest = hashlib.sha256(_content(deadlines.path(classroom)) or b"")
    with contextlib.suppress(OSError):
        status = classroom.gradebook.stat()
        digest.update(f"{status.st_mtime_ns} {status.st_size}".encode())
    return digest.hexdigest().encode()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
