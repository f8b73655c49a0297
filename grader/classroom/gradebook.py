"""Write results into nbgrader's gradebook, and read marks from it.

All results are written with nbgrader's own converters and its class Gradebook. So the database is
one that `nbgrader autograde` itself could have written, and formgrader and `nbgrader export` can
read it. nbgrader is imported only in the functions that need it: the import takes seconds, and a
class without changes does not need it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import logging
import signal
import sqlite3
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from traitlets.config import Config

from workbook.assignments import Assignment, programs_on_path
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.notebooks import dotted

from . import by_hand, intake, roster
from .classroom import Classroom

_GRADER = "grader.classroom.preprocessors"
_LATE = "grader.classroom.late_penalties"
_EXPORTER = "grader.classroom.export_plugin.Exporter"
_NBGRADER = "nbgrader.preprocessors"


@dataclasses.dataclass(frozen=True)
class Mark:
    """The gradebook's entry for one student and one assignment.

    Attributes:
        student: nbgrader's id of the student.
        score: the points before the penalty. Points that a person gave replace those of the grader.
        most: the most points that can be earned.
        penalty: the points that are subtracted because the submission was late.
        by_hand: how many cells a person still has to read.
        parts: (points, most) of each graded cell, by its id, such as `a2.forest`.
        comments: the comment that a person wrote about a cell, by the cell's id.
        unread: the ids of the cells that a person still has to read.
        given: the ids of the cells for which a person gave points.
        submitted, due: times in UTC, where they are known.
        first_name, last_name, email, number: the gradebook's data of the student; mostly empty.
    """

    student: str
    score: float
    most: float
    penalty: float
    by_hand: int
    parts: dict[str, tuple[float, float]]
    comments: dict[str, str] = dataclasses.field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    submitted: datetime.datetime | None = None
    due: datetime.datetime | None = None
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    number: str = ""

    @property
    def total(self) -> float:
        """The points that count: the score without the penalty, never below 0."""
        return max(0.0, self.score - self.penalty)


def config(classroom: Classroom) -> Config:
    """nbgrader's configuration for a classroom: its folders, and the grader's preprocessors."""
    home = paths.root()
    made = Config()
    course = made.CourseDirectory
    course.root = str(home)
    course.source_directory = "solutions"
    # nbgrader's own release button must not write into assignments/: it would skip the checks that
    # the release gate makes.
    course.release_directory = str(classroom.home / "released")
    course.submitted_directory = str(classroom.submitted)
    course.autograded_directory = str(classroom.autograded)
    course.feedback_directory = str(classroom.feedback)
    course.db_url = f"sqlite:///{classroom.gradebook}"
    made.Autograde.sanitize_preprocessors = [
        f"{_GRADER}.Restore",
        f"{_NBGRADER}.OverwriteKernelspec",
        f"{_NBGRADER}.OverwriteCells",
        f"{_NBGRADER}.CheckCellMetadata",
    ]
    # nbgrader's default runs CheckCellMetadata here a second time. That is not needed: nothing
    # after the first time changes what it checks. For the same reason nbformat's schema is checked
    # only at the end, and not after each preprocessor.
    made.Autograde.autograde_preprocessors = [
        f"{_GRADER}.Grade",
        f"{_NBGRADER}.SaveAutoGrades",
        f"{_LATE}.Due",
        f"{_NBGRADER}.AssignLatePenalties",
    ]
    made.AssignLatePenalties.plugin_class = f"{_LATE}.Penalty"
    made.ExportApp.plugin_class = _EXPORTER
    made.Due.work = str(classroom.home)
    made.NotebookExporter.optimistic_validation = True
    made.Autograde.exclude_overwriting = _instructors_files(home)
    made.FromStore.work = str(classroom.home)
    made.HTMLExporter.filters = {"markdown2html": f"{_GRADER}.safe_markdown"}
    return made


def _instructors_files(home: Path) -> dict[str, list[str]]:
    """Every file of every source folder, by assignment: none may replace a student's own file."""
    return {
        folder.name: [
            str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()
        ]
        for folder in sorted((home / "solutions").glob("a*__*/"))
    }


class Writer:
    """Writes stored results into nbgrader's gradebook. One process may do that at a time.

    Example::

        Writer(classroom, assignment).write("anna", key)

    Args:
        classroom: the classroom with the results and the gradebook.
        assignment: nbgrader's own GenerateAssignment adds it to the gradebook, with the points of
            the released notebook.
    """

    def __init__(self, classroom: Classroom, assignment: Assignment) -> None:
        self._classroom = classroom
        self._assignment = assignment
        self._registered = False

    def write(self, student: str, key: str) -> None:
        """Write a student's result, through nbgrader's Autograde.

        Args:
            student: nbgrader's id of the student.
            key: the key of the stored result.

        Raises:
            WorkbookError: nbgrader could not write it; the error quotes nbgrader. Nothing of this
                submission is left half written.
        """
        with _without_interruption():
            from nbgrader.converters import Autograde

            if not self._registered:
                self._register()
                self._registered = True
            chosen = config(self._classroom)
            chosen.FromStore.key = key
            with by_hand.watched(self._classroom, self._assignment.name, student):
                self._run(Autograde, chosen, student, force=True, create_student=True)
            self._describe(student)

    def _register(self) -> None:
        from nbgrader.converters import GenerateAssignment

        with tempfile.TemporaryDirectory(prefix="grader-register-") as folder:
            # The released notebook is the source here: no solution is left in it to be cleared.
            source = Path(folder) / "source" / self._assignment.name
            source.mkdir(parents=True)
            release = self._assignment.release
            try:
                (source / release.name).write_bytes(release.read_bytes())
            except FileNotFoundError:
                raise WorkbookError(
                    f"The assignment {self._assignment.name} has not been released.",
                    where=str(release),
                    todo="Build it: `workbook build`.",
                ) from None
            chosen = config(self._classroom)
            chosen.CourseDirectory.root = folder
            chosen.CourseDirectory.source_directory = "source"
            chosen.CourseDirectory.release_directory = "release"
            chosen.GenerateAssignment.preprocessors = [
                f"{_NBGRADER}.LockCells",
                f"{_NBGRADER}.ComputeChecksums",
                f"{_GRADER}.SaveCells",
                f"{_NBGRADER}.CheckCellMetadata",
            ]
            self._create()
            self._run(GenerateAssignment, chosen, ".", force=True)

    def _create(self) -> None:
        """If there is no database, make one as nbgrader does: the tables and their version.

        nbgrader sets the version by starting the program `alembic`, which takes seconds. This uses
        alembic's functions. The file appears when it is complete.
        """
        if self._classroom.gradebook.exists():
            return
        from alembic.migration import MigrationContext
        from alembic.script import ScriptDirectory
        from nbgrader.api import Base
        from nbgrader.dbutil import ALEMBIC_DIR
        from sqlalchemy import create_engine

        self._classroom.home.mkdir(parents=True, exist_ok=True)
        aside = self._classroom.gradebook.with_suffix(".new")
        aside.unlink(missing_ok=True)
        engine = create_engine(f"sqlite:///{aside}")
        with engine.begin() as connection:
            Base.metadata.create_all(connection)
            MigrationContext.configure(connection).stamp(ScriptDirectory(ALEMBIC_DIR), "heads")
        engine.dispose()
        aside.replace(self._classroom.gradebook)

    def _describe(self, student: str) -> None:
        """Write into the gradebook what the submission's entry tells about the student.

        That is the number in Moodle or Canvas and, where no class list says more, the name in a
        Moodle entry. (Canvas runs the parts of a name together.)
        """
        from nbgrader.api import Gradebook

        known = intake.record(self._classroom, self._assignment.name, student)
        if not known or not known.number:
            return
        about = {"lms_user_id": known.number}
        with Gradebook(f"sqlite:///{self._classroom.gradebook}") as gradebook:
            if known.system == "moodle" and not gradebook.find_student(student).last_name:
                first, _, last = known.name.rpartition(" ")
                about |= {"first_name": first, "last_name": last}
            gradebook.update_or_create_student(student, **about)

    def _run(self, converter: Any, chosen: Config, student: str, **settings: Any) -> None:
        from nbgrader.coursedir import CourseDirectory

        chosen.CourseDirectory.assignment_id = self._assignment.name
        chosen.CourseDirectory.student_id = student
        ready = converter(coursedir=CourseDirectory(config=chosen), config=chosen, **settings)
        log = _Log()
        ready.log = log
        try:
            with programs_on_path(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SQLAlchemy's, about how nbgrader uses it
                ready.start()
        except WorkbookError:
            raise
        except Exception as error:  # nbgrader logs the cause, and raises a general error
            words = log.text or str(error)
            locked = "locked" in words
            what = self._assignment.name if student == "." else student
            raise WorkbookError(
                f"nbgrader could not write {what} into the gradebook.",
                where=str(self._classroom.gradebook),
                todo="Close what else has it open, and run this again."
                if locked
                else f"nbgrader's message: {words[-600:]}",
            ) from None


def check_cells(classroom: Classroom, assignment: Assignment) -> None:
    """Look whether a cell is gone from the release for which a person gave points or a comment.

    Other cells may change: the gradebook follows (`preprocessors.SaveCells`).

    Raises:
        WorkbookError: there is one.
    """
    known = {cell.id for cell in assignment.manifest.cells}
    try:
        with contextlib.closing(_read_only(classroom)) as database:
            rows = database.execute(_BY_HAND, {"assignment": assignment.name}).fetchall()
    except sqlite3.Error:  # there is no gradebook, or whoever writes it says what is wrong
        return
    lost: dict[str, set[str]] = {}
    for cell, student in rows:
        if dotted(cell) not in known:
            lost.setdefault(dotted(cell), set()).add(student)
    for cell, students in lost.items():
        raise WorkbookError(
            f"{cell} is no longer a cell of {assignment.name}, and a person gave points or a "
            f"comment for it: {', '.join(sorted(students)[:8])}. Nothing was graded.",
            where=str(classroom.gradebook),
            todo=f"Give the cell its id {cell} again, or take out the points and comments first: "
            "`grader formgrader`.",
        )


_BY_HAND = """
    SELECT base_cell.name, submitted_assignment.student_id
    FROM (
        SELECT cell_id, notebook_id FROM grade WHERE manual_score IS NOT NULL
        UNION SELECT cell_id, notebook_id FROM comment WHERE manual_comment <> ''
    ) AS given
    JOIN base_cell ON base_cell.id = given.cell_id
    JOIN submitted_notebook ON submitted_notebook.id = given.notebook_id
    JOIN submitted_assignment ON submitted_assignment.id = submitted_notebook.assignment_id
    JOIN assignment ON assignment.id = submitted_assignment.assignment_id
    WHERE assignment.name = :assignment
"""


@contextlib.contextmanager
def _without_interruption() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block.

    Python ignores a KeyboardInterrupt that arrives in a destructor, and SQLAlchemy has many.
    """
    if threading.current_thread() is not threading.main_thread():  # Ctrl-C goes elsewhere
        yield
        return
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True

    former = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        if came:
            signal.raise_signal(signal.SIGINT)


class _Log(logging.Logger):
    """Keeps nbgrader's log messages and does not show them: they tell why something failed."""

    def __init__(self) -> None:
        super().__init__("grader.gradebook", logging.ERROR)
        self.text = ""

    def handle(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage() + "\n"


def name_students(classroom: Classroom) -> None:
    """Write the class list into the gradebook: everybody in it, with names and e-mail addresses.

    Then formgrader shows names, and nbgrader's own export has those without a submission. A student
    who is not in the class list stays as they are. nbgrader is imported only if something changes.

    Raises:
        WorkbookError: the class list is wrong, or the gradebook is in use.
    """
    known = roster.read(classroom)
    if known is None or not classroom.gradebook.exists():
        return
    wanted = {
        id: tuple(map(_without_tags, (student.first_name, student.last_name, student.email)))
        for id, student in known.students.items()
    }
    try:
        with contextlib.closing(_read_only(classroom)) as database:
            rows = database.execute("SELECT id, first_name, last_name, email FROM student")
            held = {id: tuple(value or "" for value in values) for id, *values in rows}
        changed = {id: values for id, values in wanted.items() if held.get(id) != values}
        if not changed:
            return
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{classroom.gradebook}") as gradebook:
            for id, (first, last, email) in changed.items():
                gradebook.update_or_create_student(
                    id, first_name=first or None, last_name=last or None, email=email or None
                )
    except Exception as error:  # those of sqlite3, and of SQLAlchemy
        raise WorkbookError(
            f"The names of the class list could not be written: {str(error)[:300]}",
            where=str(classroom.gradebook),
            todo="Close what else has the gradebook open, and run this again.",
        ) from None


def _without_tags(text: str) -> str:
    """A name in which a browser finds no tag. Students choose their names in Moodle and Canvas
    themselves, and formgrader puts them into its pages without escaping them."""
    return text.translate({ord("<"): "(", ord(">"): ")"})


def _read_only(classroom: Classroom) -> sqlite3.Connection:
    return sqlite3.connect(f"{classroom.gradebook.as_uri()}?mode=ro", uri=True)


def written_keys(classroom: Classroom, assignment: str) -> dict[str, str]:
    """As `keys`, but only where the time of the submission is the gradebook's, too."""
    return {
        student: key
        for student, key in keys(classroom, assignment).items()
        if _content(classroom.submission(student, assignment) / "timestamp.txt")
        == _content(classroom.autograded / student / assignment / "timestamp.txt")
    }


def keys(classroom: Classroom, assignment: str) -> dict[str, str]:
    """The key of the result that is in the gradebook, by student.

    A student is left out unless the gradebook has the submission, and the autograded notebook has a
    key. This function reads the database without nbgrader, whose import takes seconds.
    """
    try:
        with contextlib.closing(_read_only(classroom)) as database:
            rows = database.execute(
                "SELECT submitted_assignment.student_id FROM submitted_assignment JOIN assignment "
                "ON assignment.id = submitted_assignment.assignment_id WHERE assignment.name = ?",
                (assignment,),
            ).fetchall()
    except sqlite3.Error:
        return {}
    found = {}
    for (student,) in rows:
        try:
            (notebook,) = (classroom.autograded / student / assignment).glob("*.ipynb")
            found[student] = json.loads(notebook.read_bytes())["metadata"]["grader"]["key"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def marks(classroom: Classroom, assignment: str) -> list[Mark]:
    """The marks of an assignment, in the students' order; empty where the gradebook has none."""
    from nbgrader.api import Gradebook, MissingEntry

    if not classroom.gradebook.exists():
        return []
    with Gradebook(f"sqlite:///{classroom.gradebook}") as gradebook:
        try:
            entry = gradebook.find_assignment(assignment)
        except MissingEntry:
            return []
        return sorted(
            (_mark(submission) for submission in entry.submissions), key=lambda mark: mark.student
        )


def _mark(submission: Any) -> Mark:
    student = submission.student
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    comments = [comment for notebook in submission.notebooks for comment in notebook.comments]
    return Mark(
        student=student.id,
        score=float(submission.score or 0),
        most=float(submission.max_score or 0),
        penalty=float(submission.late_submission_penalty or 0),
        by_hand=sum(bool(grade.needs_manual_grade) for grade in grades),
        parts={
            dotted(grade.name): (float(grade.score or 0), float(grade.max_score))
            for grade in grades
        },
        comments={dotted(c.name): c.manual_comment for c in comments if c.manual_comment},
        unread=frozenset(dotted(grade.name) for grade in grades if grade.needs_manual_grade),
        given=frozenset(dotted(grade.name) for grade in grades if grade.manual_score is not None),
        submitted=submission.timestamp,
        due=submission.duedate,
        first_name=student.first_name or "",
        last_name=student.last_name or "",
        email=student.email or "",
        number=student.lms_user_id or "",
    )


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
