"""Tests for a2__forest only. test_assignments.py has the tests for every assignment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot
import numpy as np
import pytest

from grader.assignments.a2__forest import facts as a2_facts
from grader.assignments.a2__forest import hidden as secret
from grader.authoring import mutants
from grader.vocabulary import deploying, own
from grader.vocabulary.failure import Failure
from tests import sources
from tests.assignment_runs import as_the_students, solution_files
from workbook import assignments
from workbook.common.errors import WorkbookError
from workbook.server import Triton

pytestmark = pytest.mark.server

ASSIGNMENT = assignments.named("a2")


@pytest.fixture(scope="module", autouse=True)
def notebooks_find_the_server(server: Triton) -> Iterator[None]:
    with as_the_students(server):
        yield


def test_mutants_are_many() -> None:
    assert len(mutants.load(ASSIGNMENT)) >= 20


def test_leaves() -> None:
    """For every student's rows, no leaf is larger than the bound that the tolerances come from."""
    for me in (own.DEFAULT, "anna", "berta", "çetin"):
        for trees in (20, 60, 100):
            table = secret.xgboost_model(me, trees).get_booster().trees_to_dataframe()
            leaves = table[table.Feature == "Leaf"]
            assert leaves.Gain.abs().max() < a2_facts.LEAF
            assert leaves.groupby("Tree").size().max() <= 8
        table = secret.lightgbm_model(me).booster_.trees_to_dataframe()
        assert table[table.left_child.isna()].value.abs().max() < a2_facts.LEAF_LIGHTGBM


def test_each_student_has_rows_of_their_own() -> None:
    """An id in any case gives the same split; another id gives another split; no row is lost."""
    anna, berta = a2_facts.own_rows("anna"), a2_facts.own_rows("berta")
    np.testing.assert_array_equal(anna.x_test, a2_facts.own_rows(" Anna ").x_test)
    assert not np.array_equal(anna.x_test, berta.x_test)
    for split in (anna, berta, a2_facts.own_rows()):
        assert np.bincount(split.y_test).tolist() == list(a2_facts.TEST)
        rows = np.concatenate([split.x_train, split.x_test])
        assert rows.shape == (569, 30)
        np.testing.assert_array_equal(
            np.sort(rows.sum(axis=1)), np.sort(np.concatenate([anna.x_train, anna.x_test]).sum(1))
        )
    for wrong in ("", "  ", 7, None, "x" * 201):
        with pytest.raises(Failure, match="no student's id"):
            a2_facts.own_rows(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("me", ["anna", "berta", "çetin", "d-4"])
def test_the_patient_needs_the_sign_left_aside(me: str) -> None:
    """In the closest call some measurements pull one way and some the other."""
    import xgboost

    split, model = a2_facts.own_rows(me), secret.xgboost_model(me)
    benign = model.predict_proba(split.x_test)[:, 1]
    row = int(np.where((split.y_test == 0) & (benign <= 0.5), benign, -1).argmax())
    rows = xgboost.DMatrix(split.x_test[row : row + 1])
    shares = model.get_booster().predict(rows, pred_contribs=True)[0, :30]
    assert set(np.argsort(-np.abs(shares))[:3]) != set(np.argsort(-shares)[:3])


PARTS = [..., None, "text", [], [[1], [1, 2]], np.float32([0.5]), np.zeros(114), 0.5]


@pytest.mark.parametrize("value", PARTS, ids=repr)
def test_plots_of_part_answers(value: Any) -> None:
    """The cells that show what was found run whatever is there, and whatever is still to come."""
    source = sources.read(ASSIGNMENT.source)
    space: dict[str, Any] = {}
    for cell in source.cells:
        if cell.id in ("a2.setup", "a2.client", "a2.grid") or cell.source.startswith("me = "):
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
    plots = [c for c in source.cells if c.type == "code" and (not c.kind or c.id in shown)]
    cells = [cell for cell in plots if not cell.source.startswith("me = ")]
    assert len(cells) == 5
    for name in good:
        for cell in cells:
            exec(compile(cell.source, "plot", "exec"), space | good | {name: value})
    matplotlib.pyplot.close("all")


def test_a_deploy_names_the_file_that_is_there(tmp_path: Path) -> None:
    """The file in the folder need not have the name that the student's format requires."""
    folder = solution_files(ASSIGNMENT, tmp_path / "work") / "models" / "forest"
    config = folder / "config.pbtxt"
    config.write_text(config.read_text("utf-8").replace('"xgboost_json"', '"xgboost"'), "utf-8")
    (folder / "1" / "xgboost.json").write_text("{}")
    with pytest.raises(WorkbookError, match=r"In the folder: xgboost\.json\."):
        deploying.deploy(folder)
