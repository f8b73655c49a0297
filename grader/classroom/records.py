"""Where submissions came from: a record of each, which keeps the ids of students for good."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from workbook.assignments import Assignment

from ..vocabulary.results import CheckResult, Flag, Graded, Verdict
from .arrivals import System
from .classroom import Classroom, write
from .names import clean, digest, fold, shown

#: The longest reason that is kept: some quote what a student wrote.
_MOST_REASON = 1_000
#: What states when a submission was handed in: see `Record`.
Clock = Literal["", "given", "name", "file", "worksheet"]


class Record(BaseModel):
    """Where a submission came from.

    Attributes:
        student: nbgrader's id of the student.
        source: the entry's name in the inbox; of a download, with the name inside it.
        digest: the hash of the entry's content.
        problem: why it could not be read; empty if it could.
        system: the system that the entry was downloaded from; empty if its name does not show it.
        number: that system's id of the student; empty if its name does not hold it.
        name: the student's name in the entry's name.
        time: when it was handed in, in UTC, as nbgrader writes it; empty if that is not known.
        clock: what states the time: the instructor, in deadlines.toml; the name that nbgrader's
            exchange gave the entry; Moodle's grading worksheet; or the submission's file
            timestamp.txt. Such a file is nbgrader's, but a student can write one, too. It is not
            believed in an entry from another system, which knows the time itself.
        late: whether Canvas calls it late. By how much, Canvas does not say.
        note: what an instructor should know: which of several counts, or what came later and could
            not be read; empty if there is nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    student: str
    source: str
    digest: str
    problem: str = ""
    system: System = ""
    number: str = ""
    name: str
    time: str = ""
    clock: Clock = ""
    late: bool = False
    note: str = ""

    @property
    def key(self) -> str:
        """A text that identifies the student. Entries with the same key are one student's."""
        return f"{self.name}_{self.number}" if self.number else self.name


class Reported(BaseModel):
    """Something in the inbox that is not graded.

    Attributes:
        source: its name; of a download, with the name inside it.
        reason: why, and what to do.
        waits: whether it may be a submission, which somebody waits for.
    """

    model_config = ConfigDict(frozen=True)

    source: str
    reason: str
    waits: bool = True


def record(classroom: Classroom, assignment: str, student: str) -> Record | None:
    """Where a submission came from; None for one that was not taken from an inbox."""
    return _read(path(classroom, assignment, student))


def read_reports(classroom: Classroom) -> list[Reported]:
    """What lay in the inbox the last time and is not graded, with the reasons."""
    try:
        found = json.loads((classroom.home / "intake" / "reported.json").read_bytes())
        return [Reported.model_validate(one) for one in found]
    except (OSError, ValueError, TypeError):
        return []


def refused_result(assignment: Assignment, problem: str) -> Graded:
    """The result of a submission that could not be read: no check was attempted.

    Raises:
        WorkbookError: the assignment is not built.
    """
    text = f"Your submission could not be read. {problem}"
    release = assignment.release.read_text("utf-8")
    digest = hashlib.sha256(f"refused\n{problem}\n{release}".encode()).hexdigest()
    verdict = Verdict(
        assignment=assignment.name,
        checks=tuple(
            CheckResult(id=id, sentence="", status="not attempted", credit=0, rationale=text)
            for id in assignment.checks
        ),
        flags=(Flag(kind="unreadable", detail=problem),),
    )
    return Graded(
        key=digest, assignment=assignment.name, verdict=verdict, notebook=release, sandbox="none"
    )


def short(reason: str) -> str:
    """A reason as it can be shown and kept."""
    return shown(reason)[:_MOST_REASON]


def keep(classroom: Classroom, assignment: str, new: Record) -> None:
    """Write a record."""
    write(path(classroom, assignment, new.student), new.model_dump_json(indent=1).encode())


def keep_reported(classroom: Classroom, reports: list[Reported]) -> None:
    """Write down what is not graded."""
    text = json.dumps([report.model_dump() for report in reports], indent=1)
    write(classroom.home / "intake" / "reported.json", text.encode())


def ids(classroom: Classroom, assignment: Assignment, keys: list[str]) -> dict[str, str]:
    """The id of each key. A student keeps it in every later run, and in other assignments.

    The records of former runs say which ids are given. So no id changes when another student comes
    whose name differs in upper and lower case only, or in characters that ids do not have. That
    student's id gets a hash: two students must not share a folder, also where a disk ignores case.
    """
    found: dict[str, str] = {}
    given: dict[str, str] = {}
    records = (classroom.home / "intake").glob("*/*.json")
    # This assignment's records come last: where others say something else, they count.
    for file in sorted(records, key=lambda file: (file.parent.name == assignment.name, file)):
        if (known := _read(file)) is not None:
            found[known.key] = known.student
            given[fold(known.student)] = known.student
    folders: dict[str, set[str]] = {}
    with contextlib.suppress(FileNotFoundError):
        for folder in classroom.submitted.iterdir():
            folders.setdefault(fold(folder.name), set()).add(folder.name)
    # Names that are ids as they are come first.
    for key in sorted({*keys} - found.keys(), key=lambda key: (clean(key) != key, key)):
        plain = clean(key)
        for id in (plain, f"{plain}-{digest(key)[:6]}", f"{plain}-{digest(key)}"):
            # A folder of this name without a record is this student's: it is from nbgrader, or from
            # a run that was killed.
            if fold(id) not in given and id in folders.get(fold(id), {id}):
                break
        found[key] = given[fold(id)] = id
    return found


def path(classroom: Classroom, assignment: str, student: str) -> Path:
    """Where a record lies."""
    return classroom.home / "intake" / assignment / f"{student}.json"


def _read(file: Path) -> Record | None:
    try:
        return Record.model_validate_json(file.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
