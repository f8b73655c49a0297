"""The hidden checks of a2__forest.

They train models by the recipes of the assignment, and compare them with the student's models on
new rows that no student has seen. Each new row is a weighted mean of the rows of two patients, who
are drawn at random. So its values are plausible. The messages contain no expected value.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from grader.checks import a2
from grader.checks.define import hidden, require_close
from grader.checks.failure import Failure
from grader.checks.probe import Array, Probe


@functools.cache
def xgboost_model(trees: int = 60) -> Any:
    """A model trained by the recipe of tasks 1 and 7."""
    import xgboost

    split = a2.cancer()
    model = xgboost.XGBClassifier(
        n_estimators=trees,
        max_depth=3,
        learning_rate=0.1,
        base_score=0.5,
        n_jobs=1,
        random_state=0,
    )
    return model.fit(split.x_train, split.y_train)


@functools.cache
def lightgbm_model() -> Any:
    """A model trained by the recipe of task 4."""
    import lightgbm

    split = a2.cancer()
    model = lightgbm.LGBMClassifier(
        n_estimators=60,
        num_leaves=15,
        learning_rate=0.1,
        deterministic=True,
        n_jobs=1,
        random_state=0,
        verbose=-1,
    )
    return model.fit(split.x_train, split.y_train)


def secret_rows(server: Probe, count: int, *, missing: float = 0.0) -> Array:
    """New rows, each a weighted mean of the rows of two patients.

    Args:
        server: the random numbers come from its `rng`.
        count: the number of rows.
        missing: the share of measurements that are NaN.

    Returns:
        float32, shape (count, 30).
    """
    split = a2.cancer()
    known = np.concatenate([split.x_train, split.x_test])
    one, other = server.rng.integers(len(known), size=(2, count))
    share = server.rng.random((count, 1))
    rows: Array = (known[one] * share + known[other] * (1 - share)).astype(np.float32)
    rows[server.rng.random(rows.shape) < missing] = np.nan
    return rows


@hidden("a2.forest")
def other_shapes(server: Probe, model: str) -> None:
    """One row alone is answered; rows of 29 measurements are refused."""
    server.infer(model, {a2.INPUT: secret_rows(server, 1)}, outputs=[a2.OUTPUT])
    if not server.refusal(model, {a2.INPUT: secret_rows(server, 2)[:, :-1]}):
        raise Failure(
            f"{model} answers rows that lack a measurement.",
            help="Look at the dims of its input.",
            credit=0.5,
        )


@hidden("a2.probabilities")
def secret_probabilities(server: Probe, model: str, library: Array, served: Array) -> None:
    """The values in `library`, and the server's for new rows, are those of the recipe's model."""
    reference = xgboost_model()
    a2.require_agreement(
        "the values in `library`",
        np.asarray(library),
        reference.predict_proba(a2.cancer().x_test),
        "those of a model trained by RECIPE on the training rows",
    )
    for count, missing in ((1, 0.0), (7, 0.0), (100, 0.0), (50, 0.2)):
        rows = secret_rows(server, count, missing=missing)
        answer = server.infer(model, {a2.INPUT: rows}, outputs=[a2.OUTPUT])[a2.OUTPUT]
        gaps = ", some measurements missing" if missing else ""
        a2.require_agreement(
            f"the server's probabilities for {count} other rows{gaps}",
            answer,
            reference.predict_proba(rows),
            "those of a model trained by RECIPE on the training rows",
        )


@hidden("a2.labels")
def secret_labels(server: Probe, model: str, answers: list[str]) -> None:
    """The labels of secret rows are those that the recipe's model gives."""
    names = a2.cancer().labels
    # Most rows get the same label from every forest. For rows near 0.5 forests differ.
    rows = secret_rows(server, 5000)
    p = xgboost_model().predict_proba(rows)[:, 1]
    distance = np.abs(p - 0.5)
    near = np.argsort(distance)
    near = near[distance[near] > a2.tolerance(60)][:100]
    named = a2.require_labels(server, model, rows[near])
    wrong = sum(name != names[int(x > 0.5)] for name, x in zip(named, p[near], strict=True))
    if wrong:
        raise Failure(
            f"{wrong} of {len(near)} other rows get another label than a model trained by RECIPE "
            "gives them.",
            help="Is the model that you deployed the one of the recipe?",
        )


@hidden("a2.classes")
def secret_classes(server: Probe, model: str, library: Array) -> None:
    """The values in `library`, and the classes of secret rows, are those of the recipe's model."""
    reference = lightgbm_model()
    table = np.asarray(library)
    require_close(
        table[:, 1] if table.ndim == 2 else table,
        reference.predict_proba(a2.cancer().x_test)[:, 1],
        what="the values in `library`",
        tolerance=a2.LIGHTGBM,
        because=a2.because(60),
        help="They are compared with those of a model trained by RECIPE_LIGHTGBM on the training "
        "rows: the probability of benign, for each test row.",
    )
    for count in (1, 7, 100):
        rows = secret_rows(server, count)
        p = reference.predict_proba(rows)[:, 1]
        a2.require_classes(server, model, rows, p, "a model trained by RECIPE_LIGHTGBM")


@hidden("a2.threshold")
def true_counts(
    server: Probe, model: str, missed: list[int], alarms: list[int], threshold: float
) -> None:
    """Both counts are those of the recipe's model."""
    split = a2.cancer()
    p = lightgbm_model().predict_proba(split.x_test)[:, 1]
    for name, given, kind, positive in (("missed", missed, 0, True), ("alarms", alarms, 1, False)):
        true = [int(((p > step) == positive)[split.y_test == kind].sum()) for step in a2.GRID]
        wrong = int((np.asarray(given, dtype=np.float64) != true).sum())
        if wrong:
            raise Failure(
                f"{wrong} of the {len(true)} counts in `{name}` are not those of a model trained "
                "by RECIPE_LIGHTGBM.",
                help="Missed: malignant, called benign. Alarms: benign, called malignant.",
            )


@hidden("a2.batching")
def secret_batches(server: Probe, model: str, requests: int, executions: int) -> None:
    """Secret rows are batched too, and each gets its own answer."""
    rows = secret_rows(server, a2.TOGETHER)
    a2.require_batches(server, model, rows)


@hidden("a2.shap")
def secret_reasons(
    server: Probe, model: str, patient: int, values: Array, reasons: list[str]
) -> None:
    """The SHAP values of secret rows are those that XGBoost gives for the recipe's model."""
    import xgboost

    rows = secret_rows(server, 20)
    require_close(
        a2.require_additive(server, model, rows),
        xgboost_model().get_booster().predict(xgboost.DMatrix(rows), pred_contribs=True),
        what="the SHAP values of other rows",
        tolerance=a2.shap_tolerance(60),
        because="both sum a float32 share of each leaf of 60 trees",
        help="Is the model that you deployed the one of the recipe?",
    )


@hidden("a2.versions")
def secret_versions(server: Probe, model: str, first: Array, third: Array, plain: Array) -> None:
    """Each version answers secret rows as the recipe's model of that size does."""
    for version, trees in ((1, 20), (3, 100), (None, 100)):
        rows = secret_rows(server, 30)
        answer = server.infer(model, {a2.INPUT: rows}, outputs=[a2.OUTPUT], version=version)
        asked = f"of version {version}" if version else "to requests without a version"
        a2.require_agreement(
            f"the answers {asked} for other rows",
            answer[a2.OUTPUT],
            xgboost_model(trees).predict_proba(rows),
            f"those of a model of {trees} trees, trained by RECIPE on the training rows",
            trees=trees,
        )
