"""What notebook, checks and hidden checks of a2__forest share: facts, and how to ask its models.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import functools

import numpy as np

from workbook.zoo import data

from . import require
from .failure import Failure
from .probe import Array, Probe
from .tolerance import UNIT, Tolerance, float_sum, logistic

INPUT, OUTPUT, SHAP = "input__0", "output__0", "treeshap_output"
FEATURES = 30
INPUTS = {INPUT: ("FP32", [FEATURES])}

#: The XGBoost model of tasks 1 and 7.
RECIPE = {
    "n_estimators": 60,
    "max_depth": 3,
    "learning_rate": 0.1,
    "base_score": 0.5,
    "n_jobs": 1,
    "random_state": 0,
}
#: The LightGBM model of task 4.
RECIPE_LIGHTGBM = {
    "n_estimators": 60,
    "num_leaves": 15,
    "learning_rate": 0.1,
    "deterministic": True,
    "n_jobs": 1,
    "random_state": 0,
    "verbose": -1,
}
#: The number of trees of each release in task 7 that is to be served, by its version.
RELEASES = {1: 20, 3: 100}

#: The thresholds that task 4 compares, and the largest share of false alarms that it allows.
GRID = [step / 100 for step in range(5, 100, 5)]
ALARMS = 0.1
#: How many requests of one row the batching check sends at once.
TOGETHER = 100

#: All leaves of the recipes' trees have a smaller magnitude than these. The learning rate is 0.1,
#: and before it is applied, the leaves of a balanced first tree for two classes are below 2.
LEAF, LEAF_LIGHTGBM = 0.2, 0.7


@functools.cache
def cancer() -> data.Split:
    """The data set, read once per process."""
    return data.breast_cancer()


@functools.cache
def feature_names() -> tuple[str, ...]:
    """The names of the 30 measurements, in the order of the columns."""
    from sklearn.datasets import load_breast_cancer

    return tuple(str(name) for name in load_breast_cancer().feature_names)


def probability_tolerance(trees: int = 60, leaf: float = LEAF) -> Tolerance:
    """How far two probabilities of one row may be apart: sums of a leaf per tree, and a bias."""
    return logistic(float_sum(trees + 1, trees * leaf, over=f"{trees} trees"))


def share_tolerance(trees: int = 60) -> Tolerance:
    """How far two SHAP values of one measurement may be apart.

    Each is a sum over all trees, with a share of each of a tree's 8 leaves. The shares of one tree
    together are at most twice its largest leaf.
    """
    return float_sum(8 * trees + 1, trees * 2 * LEAF, over=f"the leaves of {trees} trees")


def ask(server: Probe, model: str, rows: Array, version: int | None = None) -> Array:
    """The two probabilities that FIL serves for each row; fails if they are something else."""
    require.backend(server, model, "fil")
    answer = server.infer(model, {INPUT: rows}, outputs=[OUTPUT], version=version)[OUTPUT]
    where = f"Look at predict_proba, and at the dims of {OUTPUT}."
    require.shape(model, answer, (len(rows), 2), help=where)
    return answer


def agree(what: str, got: Array, expected: Array, whose: str, *, trees: int = 60) -> None:
    """Fail unless two tables of probabilities, each from so many trees, agree."""
    require.agreement(
        what,
        got,
        expected,
        whose,
        tolerance=probability_tolerance(trees),
        classes=cancer().labels,
        help="Is it the same model, trained by RECIPE on the training rows, and deployed after you "
        "saved it?",
    )


def batched(server: Probe, model: str, rows: Array) -> None:
    """Fail unless requests of one row each are batched, and each gets its own answer."""
    require.batched(server, model, {INPUT: rows}, OUTPUT, tolerance=probability_tolerance())


def threshold(server: Probe, model: str) -> float:
    """The threshold of a model, as the server parsed it."""
    where = "It is compared with a probability: write a number between 0 and 1 into its "
    config = server.config(model)
    return require.number_parameter(
        config, "threshold", above=0, below=1, help=f"{where}string_value, with a point."
    )


def classes(server: Probe, model: str, rows: Array) -> Array:
    """The classes that FIL answers, one per row; fails where its answers are no classes."""
    require.backend(server, model, "fil")
    who = "Who decides, FIL or the caller? Look at output_class, predict_proba and dims."
    return require.classes(server, model, {INPUT: rows}, OUTPUT, help=who)


def decided(server: Probe, model: str, rows: Array, benign: Array, whose: str) -> Array:
    """The served classes; fails unless they follow from P(benign) and the served threshold."""
    given = classes(server, model, rows)
    require.decided(
        given,
        benign,
        float(np.float32(threshold(server, model))),  # as FIL compares it
        whose,
        tolerance=probability_tolerance(leaf=LEAF_LIGHTGBM),
        names=cancer().labels,
        help="Is it the same model, trained by RECIPE_LIGHTGBM, and deployed after you saved it?",
    )
    return given


def shares(server: Probe, model: str, rows: Array) -> Array:
    """SHAP values of rows; fails unless they add up to the raw score of the served probability."""
    answer = server.infer(model, {INPUT: rows}, outputs=[OUTPUT, SHAP])
    values, table = answer[SHAP], answer[OUTPUT]
    require.shape(model, values, (len(rows), FEATURES + 1), help="31 values per row.")
    require.shape(model, table, (len(rows), 2), help="2 probabilities per row.")
    p = np.clip(table[:, 1].astype(np.float64), UNIT, 1 - UNIT)
    # The error of the logit of a probability rounded to float32, plus the error of the SHAP sum.
    allowed = 4 * UNIT / (p * (1 - p)) + share_tolerance().allowed
    off = np.abs(values.astype(np.float64).sum(axis=1) - np.log(p / (1 - p)))
    if not (off <= allowed).all():
        raise Failure(
            f"The SHAP values of {int((~(off <= allowed)).sum())} of {len(rows)} rows do not add "
            "up to the raw score log(p / (1 - p)).",
            help="Are both outputs from the same model?",
        )
    return values
