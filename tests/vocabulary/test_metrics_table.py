"""`require.metrics_table` on a real server: every figure is computed anew from served models."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from grader.vocabulary import figures, require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe
from grader.vocabulary.tolerance import Tolerance
from tests.vocabulary.expect import fails_with
from tests.vocabulary.python_models import config, model

pytestmark = [pytest.mark.server, pytest.mark.quick]

ALLOWED = Tolerance(1e-4, "both are float32")
TRUTH = np.array([0, 0, 0, 0, 1, 1, 1, 1])
#: fp32's scores; fp16's are higher by a bit, so that one more row is called positive.
SCORES = np.float32([-3, -2, -0.1, 1, -1, 0.5, 2, 3])
MODELS = {"fp32": "fp32", "fp16": "fp16"}


@pytest.fixture(scope="module")
def served(probe: Probe) -> Probe:
    """The models `fp32`, `fp16` and `broken`."""
    bodies = {"fp32": "answer(y=x)", "fp16": "answer(y=x + np.float32(0.2))"}
    for name, body in {**bodies, "broken": "answer(y=x / np.float32(0))"}.items():
        folder = probe.server.repository / name / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(model(body)["1/model.py"])
        (folder.parent / "config.pbtxt").write_text(config("x FP32 1", "y FP32 1"))
    return probe


def scores(served: Probe) -> Callable[[str], Array]:
    return lambda name: served.infer(name, {"x": SCORES[:, None]}, outputs=["y"])["y"][:, 0]


def wanted(served: Probe, above: float = 0.0) -> dict[str, figures.Figure]:
    return {
        "accuracy": figures.accuracy(TRUTH, above),
        "precision": figures.precision(TRUTH, above),
        "recall": figures.recall(TRUTH, above),
        "false positives": figures.count(TRUTH, above, "false positive"),
        "largest": figures.deviation(scores(served)("fp32"), "largest"),
    }


RIGHT: dict[str, dict[str, Any]] = {
    "fp32": {
        "accuracy": 0.75,
        "precision": 0.75,
        "recall": 0.75,
        "false positives": 1,
        "largest": 0.0,
    },
    "fp16": {
        "accuracy": 0.625,
        "precision": 0.6,
        "recall": 0.75,
        "false positives": 2,
        "largest": 0.2,
    },
}


def check(served: Probe, table: Any, **more: Any) -> None:
    given = {"models": MODELS, "figures": wanted(served), "tolerance": ALLOWED, **more}
    require.metrics_table("table", table, scores=scores(served), **given)


@pytest.mark.parametrize(
    "table",
    [
        RIGHT,
        pd.DataFrame(RIGHT).to_dict(),
        pd.DataFrame(RIGHT).T.to_dict(),
        {**RIGHT, "int8": {"accuracy": 1}},
        {row: {name: np.float32(value) for name, value in of.items()} for row, of in RIGHT.items()},
    ],
    ids=["plain", "by row", "by figure", "more rows", "numpy"],
)
def test_a_right_table(table: Any, served: Probe) -> None:
    check(served, table)


def test_figures_may_be_rounded(served: Probe) -> None:
    table = copy.deepcopy(RIGHT)
    table["fp16"]["accuracy"] = 0.62
    check(served, table, places=2)
    with fails_with(
        "1 of 10 figures in `table` is not that of the served models: accuracy of fp16. "
    ):
        check(served, table)


@pytest.mark.parametrize(
    ("row", "figure", "value", "words"),
    [
        (
            "fp16",
            "recall",
            0.8,
            "1 of 10 figures in `table` is not that of the served models: recall",
        ),
        (
            "fp32",
            "largest",
            0.2,
            "largest of fp32. They may be rounded to 3 places, and the scores",
        ),
        ("fp16", "recall", "high", "`table['fp16']['recall']` is not a number"),
        (
            "fp16",
            "recall",
            None,
            "`table['fp16']['recall']` holds NaN, None or infinity in 1 of 1 places",
        ),
        ("fp16", "recall", float("nan"), "holds NaN, None or infinity"),
        ("fp16", "recall", [0.7, 0.8], "holds 2 values; one number is wanted"),
        ("fp16", "recall", ..., "`table` lacks recall of fp16."),
    ],
)
def test_a_wrong_figure(row: str, figure: str, value: Any, words: str, served: Probe) -> None:
    table = copy.deepcopy(RIGHT)
    table[row][figure] = value
    if value is ...:
        del table[row][figure]
    with fails_with(words, "Look."):
        check(served, table, help="Look.")


@pytest.mark.parametrize(
    "table", ["text", 1, [], {}, {"fp32": 1}, np.ones((2, 5)), [RIGHT], {"fp32": {}}]
)
def test_what_is_no_table(table: Any, served: Probe) -> None:
    with fails_with("`table` "):
        check(served, table)


def test_a_table_of_other_models(served: Probe) -> None:
    """The rows are exchanged: the figures are right, but they belong to other models."""
    table = {"fp32": RIGHT["fp16"], "fp16": RIGHT["fp32"]}
    with fails_with(
        "8 of 10 figures in `table` are not those of",
        "accuracy of fp32",
        "and others",
        credit=0.5 * 0.2,
    ):
        check(served, table, partial=0.5)


def test_each_row_may_have_a_threshold_of_its_own(served: Probe) -> None:
    """With its own threshold fp16 calls the rows as fp32 does."""
    table = copy.deepcopy(RIGHT)
    table["fp16"] = {**RIGHT["fp32"], "largest": 0.2}
    limits = {"fp32": 0.0, "fp16": 0.2}
    check(served, table, figures=lambda row: wanted(served, limits[row]))
    with fails_with("figures in `table` are not those"):
        check(served, RIGHT, figures=lambda row: wanted(served, limits[row]))


@pytest.mark.parametrize("positives", [1, 2])
def test_a_row_at_the_threshold_may_be_called_either(positives: int, served: Probe) -> None:
    above = float(SCORES[2]) - 5e-5
    names = {"false positives": figures.count(TRUTH, above, "false positive")}
    table = {"fp32": {"false positives": positives}}
    check(served, table, models={"fp32": "fp32"}, figures=names)
    with fails_with("1 of 1 figures"):
        check(served, {"fp32": {"false positives": 3}}, models={"fp32": "fp32"}, figures=names)


def test_a_model_without_scores(served: Probe) -> None:
    with fails_with("broken answers scores that are not finite numbers."):
        check(served, {"fp32": RIGHT["fp32"]}, models={"fp32": "broken"})
    with pytest.raises(Failure, match="nothing"):
        check(served, {"fp32": RIGHT["fp32"]}, models={"fp32": "nothing"})


def test_figures() -> None:
    """By hand: at 0 fp32 calls rows 3, 5, 6 and 7 positive."""
    found = {
        cell: figures.count(TRUTH, 0, cell)(SCORES)
        for cell in ("true positive", "false positive", "true negative", "false negative")
    }
    assert found == {
        "true positive": 3,
        "false positive": 1,
        "true negative": 3,
        "false negative": 1,
    }
    assert figures.precision(TRUTH, 99)(SCORES) == 0
    assert figures.recall(np.zeros(8), 0)(SCORES) == 0
    for kind, value in (("mean", 1.5), ("largest", 2), ("smallest", 1)):
        assert figures.deviation(np.zeros(2), kind)(np.array([-1.0, 2.0])) == value
