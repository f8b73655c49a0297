"""What readers gave the written answers, by items of the rubric: `answers/<assignment>/`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from .classroom import Classroom


class Given(BaseModel):
    """What an answer was given.

    Attributes:
        number: the answer's number, which depends on its text.
        items: the items of the rubric that it earned, in the rubric's words.
        other: points besides, which can be below 0.
        comment: the reader's comment.
        reader: who read it.
        points: what was written into the gradebook.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: str
    items: tuple[str, ...] = ()
    other: float = 0.0
    comment: str = ""
    reader: str = ""
    points: float


def path(classroom: Classroom, assignment: str, student: str) -> Path:
    """Where it is kept what a student's answers were given."""
    return classroom.home / "answers" / assignment / f"{student}.json"


def read(classroom: Classroom, assignment: str) -> dict[tuple[str, str], Given]:
    """What answers were given, by student and cell. A file that cannot be read is left out.

    Example: `read(Classroom.default(), "a2__forest")["anna", "a2.why"].items`.
    """
    found = {}
    for file in sorted((classroom.home / "answers" / assignment).glob("*.json")):
        with contextlib.suppress(OSError, ValueError, ValidationError, AttributeError):
            for cell, given in json.loads(file.read_bytes()).items():
                found[file.stem, cell] = Given.model_validate(given)
    return found
