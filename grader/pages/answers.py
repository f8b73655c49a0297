"""The written answers of a feedback page: what the student wrote, the rubric, and the comment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from workbook.assignments import Assignment, cells
from workbook.common import bounded_json
from workbook.notebooks import dotted

from ..classroom import rubric
from ..classroom.answer_marks import Given
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
        rubric: rows of (points, for what, whether it was earned).
        is_by_item: whether it is known which rows were earned.
        comment: what the person wrote.
    """

    id: str
    text: str
    earned: float
    most: float
    is_read: bool
    rubric: list[tuple[str, str, bool]]
    is_by_item: bool
    comment: str


def answers(
    assignment: Assignment,
    graded: Graded,
    mark: Mark,
    items: Mapping[tuple[str, str], Given] | None = None,
) -> list[Answer]:
    """The written answers of one student, in the assignment's order.

    Args:
        assignment: the assignment.
        graded: the student's result, with the notebook.
        mark: the gradebook's entry.
        items: what readers gave by item, by student and cell.
    """
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
        given = (items or {}).get((mark.student, id))
        earned = mark.parts.get(id, (0.0, most))[0]
        is_read = id not in mark.unread
        # If a person has changed the points since, the items do not explain them.
        by_item = given if given and is_read and given.points == earned else None
        found.append(
            Answer(
                id=id,
                text="" if text == released.get(id) else text,
                earned=earned,
                most=most,
                is_read=is_read,
                rubric=[
                    (points, what, by_item is not None and what in by_item.items)
                    for points, what in rubric.rows(rubrics.get(id, ""))
                ],
                is_by_item=by_item is not None,
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
