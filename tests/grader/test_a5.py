"""Tests for a5__engine only. test_assignments.py has the tests for every assignment."""

from __future__ import annotations

from typing import Any

import pytest

from grader.assignments.a5__engine import checks, facts
from grader.vocabulary.failure import Failure


def costs(longer: float) -> dict[str, dict[str, float]]:
    """A table of task 5: OpenVINO's load takes so many ms longer, and a request saves 20 ms."""
    return {
        facts.PLAIN: {"load": 1000.0, "one": 2.0, "full": 30.0},
        facts.INT8: {"load": 1000.0, "one": 3.0, "full": 40.0},
        facts.ACCELERATED: {"load": 1000.0 + longer, "one": 1.0, "full": 10.0},
        facts.IR: {"load": 1000.0, "one": 9.0, "full": 9.0},
    }


FASTEST = {"one": facts.ACCELERATED, "full": facts.IR}


@pytest.mark.parametrize(
    ("longer", "right", "wrong"),
    [
        (170.0, (8, 9), (0, 7, 10)),
        (5.0, (0, 1), (2,)),
        # a busy machine: own_plain took longer to load
        (-90.0, (0, -4, -5), (-3, -6, 1, 5)),
    ],
)
def test_earned_by_requests(longer: float, right: tuple[int, ...], wrong: tuple[int, ...]) -> None:
    probe: Any = None  # the check asks no server
    table = costs(longer)
    for earned in right:
        checks.costs(probe, "anna", facts.ACCELERATED, table, earned, FASTEST)
    for earned in wrong:
        with pytest.raises(Failure, match="gives another number") as caught:
            checks.costs(probe, "anna", facts.ACCELERATED, table, earned, FASTEST)
        assert caught.value.credit == 0.5
