"""What is particular to a2__forest. What holds for every assignment: test_assignments.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot
import numpy as np
import pytest

from grader.authoring import mutants
from grader.checks import a2_facts
from grader.checks.hidden import a2 as secret
from tests.assignment_runs import as_the_students
from workbook import assignments, notebooks
from workbook.server import Triton

ASSIGNMENT = assignments.named("a2")


@pytest.fixture(scope="module", autouse=True)
def notebooks_find_the_server(server: Triton) -> Iterator[None]:
    with as_the_students(server):
        yield


def test_mutants_are_many() -> None:
    assert len(mutants.load(ASSIGNMENT)) >= 20


def test_leaves() -> None:
    """No leaf reaches what the tolerances are derived from."""
    for trees in (20, 60, 100):
        table = secret.xgboost_model(trees).get_booster().trees_to_dataframe()
        leaves = table[table.Feature == "Leaf"]
        assert leaves.Gain.abs().max() < a2_facts.LEAF
        assert leaves.groupby("Tree").size().max() <= 8
    table = secret.lightgbm_model().booster_.trees_to_dataframe()
    assert table[table.left_child.isna()].value.abs().max() < a2_facts.LEAF_LIGHTGBM


PARTS = [..., None, "text", [], [[1], [1, 2]], np.float32([0.5]), np.zeros(114), 0.5]


@pytest.mark.parametrize("value", PARTS, ids=repr)
def test_plots_of_part_answers(value: Any) -> None:
    """The cells that show what was found run whatever is there, and whatever is still to come."""
    source = notebooks.read(ASSIGNMENT.source)
    space: dict[str, Any] = {}
    for cell in source.cells:
        if cell.id in ("a2.setup", "a2.client", "a2.grid"):
            exec(compile(cell.source, cell.id, "exec"), space)
    good = {
        "served": np.full((114, 2), 0.5),
        "library": np.full((114, 2), 0.5),
        "missed": [1] * 19,
        "alarms": [1] * 19,
        "threshold": 0.5,
        "patient": 3,
        "values": np.ones(31),
        "releases": "nothing",
    }
    shown = ("a2.difference", "a2.mishap")
    cells = [c for c in source.cells if c.type == "code" and (not c.kind or c.id in shown)]
    assert len(cells) == 5
    for name in good:
        for cell in cells:
            exec(compile(cell.source, "plot", "exec"), space | good | {name: value})
    matplotlib.pyplot.close("all")
