"""The written answers of a feedback page: what the student wrote, the rubric, and the comment."""

from __future__ import annotations

import dataclasses
from typing import Any

from workbook.assignments import Assignment, cells
from workbook.common import bounded_json
from workbook.notebooks import dotted

from ..classroom import rubric
from ..classroom.gradebook import Mark
from ..vocabulary.results import Graded


@dataclasses.dataclass(frozen=True)
class Answer:
    """A written answer.

    Attributes:
        id: the cell's id.
        text: what the student wrote; "" where the cell is as it was released.
        earned, most: points.
        is_read: whether a person has graded it.
        rubric: rows of (points, for what).
        comment: what the person wrote.
    """

    id: str
    text: str
    earned: float
    most: float
    is_read: bool
    rubric: list[tuple[str, str]]
    comment: str


def answers(assignment: Assignment, graded: Graded, mark: Mark) -> list[Answer]:
    """The written answers of one student, in the assignment's order."""
    if not assignment.written:
        return []
    released = _written_texts(cells.read(assignment.release))
    rubrics = rubric.rubrics(assignment)
    try:
        handed_in = _written_texts(bounded_json.loads(graded.notebook.encode()))
    except (ValueError, KeyError, TypeError, AttributeError):
        handed_in = {}
    found = []
    for id, most in assignment.written.items():
        text = handed_in.get(id, "")
        found.append(
            Answer(
                id=id,
                text="" if text == released.get(id) else text,
                earned=mark.parts.get(id, (0.0, most))[0],
                most=most,
                is_read=id not in mark.unread,
                rubric=rubric.rows(rubrics.get(id, "")),
                comment=mark.comments.get(id, ""),
            )
        )
    return found


def _written_texts(notebook: dict[str, Any]) -> dict[str, str]:
    """The text of each written answer in a notebook, by id."""
    found = {}
    for cell in notebook["cells"]:
        tag = cell["metadata"].get("nbgrader", {})
        if tag.get("grade") and tag.get("solution"):
            source = cell["source"]
            text = "".join(source) if isinstance(source, list) else str(source)
            found[dotted(str(tag["grade_id"]))] = text.strip()
    return found
