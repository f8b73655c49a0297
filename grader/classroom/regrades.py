"""Regrade requests: a student's words, the reply, and the points before and after it.

They are kept in `regrades/<assignment>/<student>.json`, stand on the student's feedback page and in
the class report, and go when the submission is dropped. Points are changed in formgrader.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

from . import gradebook
from .classroom import Classroom, write
from .names import shown

#: The longest text of a request or a reply, in characters.
MOST = 20_000


class Request(BaseModel):
    """A request for a regrade.

    Attributes:
        time: when it was written down, in UTC.
        words: what the student says.
        before: the points that counted then.
        replied: when it was replied to, in UTC; None while it is open.
        reply: what the instructor says.
        after: the points that counted when the reply was written down; None while it is open.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: datetime.datetime
    words: str = Field(min_length=1, max_length=MOST)
    before: float
    replied: datetime.datetime | None = None
    reply: str = Field(default="", max_length=MOST)
    after: float | None = None


_REQUESTS = TypeAdapter(list[Request])


def of(classroom: Classroom, assignment: str) -> dict[str, list[Request]]:
    """All requests of an assignment, by student, in alphabetical order.

    Example::

        [who for who, requests in of(classroom, "a2__forest").items() if is_open(requests)]

    Raises:
        WorkbookError: a file cannot be read.
    """
    folder = classroom.home / "regrades" / assignment
    return {path.stem: _read(path) for path in sorted(folder.glob("*.json"))}


def is_open(requests: list[Request]) -> bool:
    """Whether one of a student's requests has no reply."""
    return any(request.replied is None for request in requests)


def ask(classroom: Classroom, assignment: Assignment, student: str, words: str) -> Request:
    """Write down what a student says about the marks.

    Raises:
        WorkbookError: the student has no marks, or the text is empty or too long.
    """
    new = Request(
        time=datetime.datetime.now(datetime.UTC),
        words=_text(words),
        before=_points(classroom, assignment, student),
    )
    place = path(classroom, assignment.name, student)
    _write(place, [*_read(place), new])
    return new


def reply(classroom: Classroom, assignment: Assignment, student: str, words: str) -> Request:
    """Reply to the last request of a student. A reply that is there already is replaced.

    Raises:
        WorkbookError: there is no request, or the text is empty or too long.
    """
    place = path(classroom, assignment.name, student)
    requests = _read(place)
    if not requests:
        raise WorkbookError(
            f"There is no regrade request of {student} about {assignment.name}.",
            where=str(place),
            todo=f"Write it down: `grader regrade {student} {assignment.short} --request TEXT`.",
        )
    new = requests[-1].model_copy(
        update={
            "replied": datetime.datetime.now(datetime.UTC),
            "reply": _text(words),
            "after": _points(classroom, assignment, student),
        }
    )
    _write(place, [*requests[:-1], new])
    return new


def path(classroom: Classroom, assignment: str, student: str) -> Path:
    """Where a student's requests about an assignment are kept."""
    return classroom.home / "regrades" / assignment / f"{student}.json"


def _points(classroom: Classroom, assignment: Assignment, student: str) -> float:
    """The points that count for a student."""
    for mark in gradebook.marks(classroom, assignment.name):
        if mark.student == student:
            return mark.total
    raise WorkbookError(
        f"{student} has no marks for {assignment.name}.",
        where=str(classroom.gradebook),
        todo="Write the student's id as in the class report.",
    )


def _text(words: str) -> str:
    words = shown(words).strip()
    if not 0 < len(words) <= MOST:
        raise WorkbookError(
            f"The text has {len(words)} characters.", todo=f"Write 1 to {MOST} characters."
        )
    return words


def _read(file: Path) -> list[Request]:
    try:
        return _REQUESTS.validate_json(file.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValidationError) as error:
        raise WorkbookError(
            f"The regrade requests of {file.stem} cannot be read: {str(error)[:300]}",
            where=str(file),
            todo="Correct the file, or remove it.",
        ) from None


def _write(file: Path, requests: list[Request]) -> None:
    content = [request.model_dump(mode="json") for request in requests]
    write(file, json.dumps(content, indent=1).encode())
