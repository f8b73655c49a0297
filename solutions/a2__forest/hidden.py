"""The hidden checks of a2__forest.

They train models by the recipes of the assignment, and compare them with the student's models on
new rows that no student has seen. Each new row is a weighted mean of the rows of two patients, who
are drawn at random. So its values are plausible. The messages contain no expected value.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np

from grader.vocabulary import own, require
from grader.vocabulary.define import hidden
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe

from . import facts


def xgboost_model(me: str = own.DEFAULT, trees: int = 60) -> Any:
    """A model trained by the recipe of tasks 1 and 7 on the student's training rows."""
    return _xgboost(own.name(me), trees)


def lightgbm_model(me: str = own.DEFAULT) -> Any:
    """A model trained by the recipe of task 4 on the student's training rows."""
    return _lightgbm(own.name(me))


@functools.lru_cache(maxsize=8)
def _xgboost(me: str, trees: int) -> Any:
    import xgboost

    split = facts.own_rows(me)
    model = xgboost.XGBClassifier(**{**facts.RECIPE, "n_estimators": trees})
    return model.fit(split.x_train, split.y_train)


@functools.lru_cache(maxsize=8)
def _lightgbm(me: str) -> Any:
    import lightgbm

    split = facts.own_rows(me)
    return lightgbm.LGBMClassifier(**facts.RECIPE_LIGHTGBM).fit(split.x_train, split.y_train)


def complete_solution(folder: Path, me: str) -> None:
    """Write the best threshold for a student's rows into a solution's config of `verdict`.

    Args:
        folder: holds the course's solution, whose threshold is that of another id.
        me: the student's id.
    """
    split = facts.own_rows(me)
    benign = lightgbm_model(me).predict_proba(split.x_test)[:, 1]

    def mistakes(threshold: float) -> tuple[int, int, float]:
        missed = ((benign > threshold) & (split.y_test == 0)).sum()
        alarms = ((benign <= threshold) & (split.y_test == 1)).sum()
        return int(missed), int(alarms), -threshold

    allowed = facts.ALARMS * (split.y_test == 1).sum()
    best = min((t for t in facts.GRID if mistakes(t)[1] <= allowed), key=mistakes)
    path = folder / "models/verdict/config.pbtxt"
    text = path.read_text("utf-8")
    path.write_text(re.sub(r'(key: "threshold" .*string_value: ")[^"]*', rf"\g<1>{best}", text))


def secret_rows(server: Probe, count: int, *, missing: float = 0.0) -> Array:
    """New rows, each a weighted mean of the rows of two patients.

    Args:
        server: the random numbers come from its `rng`.
        count: the number of rows.
        missing: the share of measurements that are NaN.

    Returns:
        float32, shape (count, 30).
    """
    split = facts.own_rows()
    known = np.concatenate([split.x_train, split.x_test])
    one, other = server.rng.integers(len(known), size=(2, count))
    share = server.rng.random((count, 1))
    rows: Array = (known[one] * share + known[other] * (1 - share)).astype(np.float32)
    rows[server.rng.random(rows.shape) < missing] = np.nan
    return rows


def rows_near(server: Probe, model: Any, limit: float, apart: float) -> tuple[Array, Array]:
    """New rows whose probability is near to a limit, and these probabilities.

    Most rows get the same class from every forest. For rows near the limit forests differ.

    Args:
        server: the random numbers come from its `rng`.
        model: the recipe's.
        limit: of a class, a probability.
        apart: rows that are as near as this may get either class, and are left out.

    Returns:
        Float32, (100, 30), and the probability of benign for each.
    """
    rows = secret_rows(server, 5000)
    p = model.predict_proba(rows)[:, 1]
    distance = np.abs(p - limit)
    near = np.argsort(distance)
    near = near[distance[near] > apart][:100]
    return rows[near], p[near]


@hidden(
    "a2.forest",
    help="Look at the dims of its input.",
)
def other_shapes(server: Probe, model: str) -> None:
    """One row alone is answered; rows of 29 measurements are refused."""
    server.infer(model, {facts.INPUT: secret_rows(server, 1)}, outputs=[facts.OUTPUT])
    if not server.refusal(model, {facts.INPUT: secret_rows(server, 2)[:, :-1]}):
        raise Failure(
            f"{model} answers rows that lack a measurement.",
            credit=0.5,
        )


@hidden(
    "a2.probabilities",
    help="Is the model that you deployed the one of the recipe, trained on your training rows, "
    "and did you train it anew after you changed `me`?",
)
def secret_probabilities(server: Probe, me: str, model: str, library: Array) -> None:
    """The values in `library`, and the server's for other rows, are those of the recipe's model."""
    reference = xgboost_model(me)
    facts.agree(
        "the values in `library`",
        np.asarray(library),
        reference.predict_proba(facts.own_rows(me).x_test),
        "those of a model trained by RECIPE on the training rows",
    )
    for count, missing in ((1, 0.0), (7, 0.0), (100, 0.0), (50, 0.2)):
        rows = secret_rows(server, count, missing=missing)
        answer = facts.ask(server, model, rows)
        gaps = ", some measurements missing" if missing else ""
        facts.agree(
            f"the server's probabilities for {count} other rows{gaps}",
            answer,
            reference.predict_proba(rows),
            "those of a model trained by RECIPE on the training rows",
        )


@hidden(
    "a2.labels",
    help="Is the model that you deployed the one of the recipe?",
)
def secret_labels(server: Probe, me: str, model: str) -> None:
    """The labels of other rows are those that the recipe's model gives."""
    names = facts.LABELS
    apart = facts.probability_tolerance().allowed
    rows, p = rows_near(server, xgboost_model(me), 0.5, apart)
    served_labels = require.labels(server, model, {facts.INPUT: rows}, facts.OUTPUT, names)
    wrong = sum(name != names[int(x > 0.5)] for name, x in zip(served_labels, p, strict=True))
    if wrong:
        raise Failure(
            f"{wrong} of {len(rows)} other rows get another label than a model trained by RECIPE "
            "gives them.",
        )


@hidden(
    "a2.classes",
    help="They are compared with those of a model trained by RECIPE_LIGHTGBM on the training "
    "rows: the probability of benign, for each test row.",
)
def secret_classes(server: Probe, me: str, model: str, library: Array) -> None:
    """The values in `benign`, and the classes of other rows, are those of the recipe's model."""
    reference = lightgbm_model(me)
    require.close(
        np.asarray(library),
        reference.predict_proba(facts.own_rows(me).x_test)[:, 1],
        what="the values in `benign`",
        tolerance=facts.probability_tolerance(leaf=facts.LEAF_LIGHTGBM),
    )
    apart = facts.probability_tolerance(leaf=facts.LEAF_LIGHTGBM).allowed
    near, p = rows_near(server, reference, facts.threshold(server, model), apart)
    for count in (1, 7, len(near)):
        rows = near[:count]
        facts.decided(server, model, rows, p[:count], "a model trained by RECIPE_LIGHTGBM")


@hidden(
    "a2.threshold",
    help="Missed: malignant, called benign. Alarms: benign, called malignant.",
)
def true_counts(server: Probe, me: str, missed: list[int], alarms: list[int]) -> None:
    """Both counts are those of the recipe's model."""
    split = facts.own_rows(me)
    p = lightgbm_model(me).predict_proba(split.x_test)[:, 1]
    for name, given, kind, positive in (("missed", missed, 0, True), ("alarms", alarms, 1, False)):
        true = [int(((p > step) == positive)[split.y_test == kind].sum()) for step in facts.GRID]
        wrong = int((np.asarray(given, dtype=np.float64) != true).sum())
        if wrong:
            raise Failure(
                f"{wrong} of the {len(true)} counts in `{name}` are not those of a model trained "
                "by RECIPE_LIGHTGBM.",
            )


@hidden(
    "a2.batching",
    help="Look at dynamic_batching in config.pbtxt.",
)
def secret_batches(server: Probe, model: str) -> None:
    """Other rows are batched too, and each gets its own answer."""
    if facts.delay(server.config(model)):  # without one it depends on chance what is batched
        facts.batched(server, model, secret_rows(server, facts.TOGETHER))


@hidden(
    "a2.shap",
    help="Is the model that you deployed the one of the recipe?",
)
def secret_reasons(server: Probe, me: str, model: str) -> None:
    """The SHAP values of other rows are those that XGBoost gives for the recipe's model."""
    import xgboost

    rows = secret_rows(server, 20)
    require.close(
        facts.shares(server, model, rows),
        xgboost_model(me).get_booster().predict(xgboost.DMatrix(rows), pred_contribs=True),
        what="the SHAP values of other rows",
        tolerance=facts.share_tolerance(),
    )


@hidden(
    "a2.versions",
    help="Each version is a model of its own number of trees, trained by RECIPE on the "
    "training rows.",
)
def secret_versions(server: Probe, me: str, model: str) -> None:
    """Each version answers other rows as the recipe's model of that size does."""
    for version, trees in (*facts.RELEASES.items(), (None, facts.RELEASES[3])):
        rows = secret_rows(server, 30)
        answer = facts.ask(server, model, rows, version)
        which = f"of version {version}" if version else "to requests without a version"
        facts.agree(
            f"the answers {which} for other rows",
            answer,
            xgboost_model(me, trees).predict_proba(rows),
            f"those of a model of {trees} trees, trained by RECIPE on the training rows",
            trees=trees,
        )


@hidden(
    "a2.delays",
    help="Look at max_queue_delay_microseconds in config.pbtxt.",
)
def chosen_delay(server: Probe, model: str) -> None:
    """With the delay that was chosen, other rows still share batches."""
    facts.batched(server, model, secret_rows(server, facts.TOGETHER))
