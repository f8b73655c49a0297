"""Texts of a hidden variant that a student reads come from the source, never from a run."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from grader.vocabulary.define import NotAttempted, evaluate, load
from grader.vocabulary.failure import Failure
from tests import hidden_texts
from workbook import assignments
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

MARK = "17 of 41 texts, such as 'Zürich'"
RAISED = (
    Failure(MARK, help=MARK),
    Failure(MARK, help=MARK, credit=0.7113),
    Failure(MARK, help=MARK, credit=0.99999, safe=min(hidden_texts.safe_texts())),
    WorkbookError(MARK, where=MARK, todo=MARK),
    NotAttempted(MARK),
    ValueError(MARK),
    KeyError(MARK),
)


def _passes(server: Any, *values: Any) -> None:
    """Nothing is wrong."""


def _instead(variant: Callable[..., None], error: Exception) -> Callable[..., None]:
    """A hidden variant that raises, with the texts of a real one."""

    def raises(server: Any) -> None:
        raise error

    raises.__doc__ = variant.__doc__
    raises.__help__ = variant.__help__  # type: ignore[attr-defined]
    return raises


@pytest.mark.parametrize("error", RAISED, ids=lambda e: f"{type(e).__name__} {e.args and ''}")
@pytest.mark.parametrize("assignment", assignments.find(), ids=lambda a: a.name)
def test_whatever_a_hidden_variant_raises_is_told_to_instructors_alone(
    assignment: Assignment, error: Exception
) -> None:
    """All hidden variants of all assignments, and all that code can raise."""
    nobody: Any = None
    for check in load(assignment.short, variants=True).values():
        for variant in check.variants:
            broken = dataclasses.replace(
                check, run=lambda server: None, needs=(), variants=(_instead(variant, error),)
            )
            result = evaluate(broken, lambda: nobody, {}, {})
            assert result.hidden
            assert result.credit < 1
            assert MARK.partition(",")[0] in result.found
            assert MARK[:5] not in result.model_dump_json(exclude={"found"})
            hidden_texts.assert_tells_nothing(result, broken)


@pytest.mark.parametrize("assignment", assignments.find(), ids=lambda a: a.name)
def test_every_hidden_variant_says_what_it_demands(assignment: Assignment) -> None:
    """Its docstring and its help are all that an honest student reads of a failure."""
    for check in load(assignment.short, variants=True).values():
        for variant in check.variants:
            assert (variant.__doc__ or "").strip().endswith("."), variant
            assert variant.__help__.endswith((".", "?")), variant  # type: ignore[attr-defined]


def test_texts_that_are_marked_as_safe_hold_no_value_of_a_run() -> None:
    """`safe=` and the help of `@hidden` are literal texts, never computed."""
    assert len(hidden_texts.safe_texts()) > 20
    for path in hidden_texts.sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_mark = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_mark and node.func.id == "hidden":  # type: ignore[attr-defined]
                for keyword in node.keywords:  # type: ignore[attr-defined]
                    assert isinstance(keyword.value, ast.Constant), (path.name, node.lineno)
