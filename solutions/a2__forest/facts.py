"""What notebook, checks and hidden checks of a2__forest share: facts, and how to ask its models.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from grader.vocabulary import own, require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe
from grader.vocabulary.tolerance import UNIT, Tolerance, float_sum, logistic
from workbook.common import bounded_json
from workbook.zoo import data

INPUT, OUTPUT, SHAP = "input__0", "output__0", "treeshap_output"
FEATURES = 30
INPUTS = {INPUT: ("FP32", [FEATURES])}

LABELS = ("malignant", "benign")

#: The XGBoost model of tasks 1 and 7.
RECIPE: dict[str, Any] = {
    "n_estimators": 60,
    "max_depth": 3,
    "learning_rate": 0.1,
    "base_score": 0.5,
    "n_jobs": 1,
    "random_state": 0,
}
#: The LightGBM model of task 4.
RECIPE_LIGHTGBM: dict[str, Any] = {
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

#: How many malignant and how many benign test rows a student has.
TEST = (42, 72)

#: The thresholds that task 4 compares, and the largest share of false alarms that it allows.
GRID = [step / 100 for step in range(5, 100, 5)]
ALARMS = 0.1
#: Task 8: the longest delay in microseconds, and how many delays are compared at least.
LONGEST_DELAY, DELAYS = 100_000, 4
#: From this delay on, requests that are sent at once share batches on any machine: task 5's delay.
LONG_DELAY = 5000
#: How many requests of one row the batching check sends at once.
TOGETHER = 100

#: All leaves of the recipes' trees have a smaller magnitude than these. The learning rate is 0.1,
#: and before it is applied, the leaves of XGBoost's first tree are below 2: a leaf of n rows of one
#: class, all with a probability of 0.5, has the value 0.5 n / (0.25 n + 1). LightGBM adds the log
#: odds of the classes, 0.52, to the leaves of its first tree.
LEAF, LEAF_LIGHTGBM = 0.2, 0.9


def own_rows(me: str = own.DEFAULT) -> data.Split:
    """The 569 patients, split for one student: which rows are for testing depends on the id.

    Args:
        me: the student's id.

    Returns:
        455 rows to train and 114 to test, 42 of them malignant; float32, shape (rows, 30). Classes
        are 0, malignant, and 1, benign. Without an id of one's own, `data.breast_cancer()`.

    Raises:
        Failure: `me` is no id.
    """
    return _rows(own.name(me))


@functools.lru_cache(maxsize=8)
def _rows(me: str) -> data.Split:
    both = data.breast_cancer()
    if me == own.DEFAULT:
        return both
    x = np.concatenate([both.x_train, both.x_test])
    y = np.concatenate([both.y_train, both.y_test])
    random = own.generator(me, "a2.rows")
    drawn = [random.permutation(np.flatnonzero(y == kind))[:n] for kind, n in enumerate(TEST)]
    test = random.permutation(np.concatenate(drawn))
    train = np.setdiff1d(np.arange(len(y)), test)
    return data.Split(x[train], y[train], x[test], y[test], LABELS)


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
    require.shape(model, answer, (len(rows), 2), output=OUTPUT, help=where)
    return answer


def require_named(model: Any, folder: str) -> None:
    """Fail if a student hands over another model than the one in `models/<folder>`."""
    if isinstance(model, str) and model != folder:
        raise Failure(
            f"This check is about the model of models/{folder}; you handed over {model[:60]!r}.",
            help=f'Hand over the name that deploy("models/{folder}") returns.',
        )


def agree(what: str, got: Array, expected: Array, whose: str, *, trees: int = 60) -> None:
    """Fail unless two tables of probabilities agree, each from a model with `trees` trees."""
    require.agreement(
        what,
        got,
        expected,
        whose,
        tolerance=probability_tolerance(trees),
        classes=LABELS,
        help="Is it the same model, trained by RECIPE on the training rows, and deployed after you "
        "saved it?",
    )


def follows_recipe(server: Probe, model: str) -> None:
    """Fail unless the deployed file of XGBoost has the trees that RECIPE asks for.

    The number of trees, their depth and the base score stand in the file. The learning rate shows
    in the first tree: its largest leaf is almost twice the learning rate (see `LEAF`).
    """
    try:
        learner = bounded_json.loads(_read_deployed(server, model, "xgboost.json"))["learner"]
        trees = learner["gradient_booster"]["model"]["trees"]
        depth = max(map(_depth, trees))
        first = max(map(abs, _leaves(trees[0])))
        base = float(learner["learner_model_param"]["base_score"].strip("[]"))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise Failure(
            f"{model}/1/xgboost.json is not what save_xgboost writes.",
            help='save_xgboost(model, "models/forest/1/xgboost.json"), then deploy.',
        ) from None
    found = {
        "n_estimators": (len(trees), len(trees) == RECIPE["n_estimators"]),
        "max_depth": (depth, depth == RECIPE["max_depth"]),
        "base_score": (f"{base:.3g}", abs(base - RECIPE["base_score"]) < 1e-6),
        "learning_rate": (  # last: the base score changes the leaves too
            f"about {first / 2:.2g}",
            0.75 * RECIPE["learning_rate"] < first / 2 < RECIPE["learning_rate"],
        ),
    }
    _compare(model, found, RECIPE, "RECIPE")


def follows_recipe_lightgbm(server: Probe, model: str) -> None:
    """Fail unless the deployed file of LightGBM says that RECIPE_LIGHTGBM made it."""
    text = _read_deployed(server, model, "model.txt").decode("utf-8", errors="replace")
    found = {}
    for name, key in (
        ("n_estimators", "num_iterations"),
        ("num_leaves", "num_leaves"),
        ("learning_rate", "learning_rate"),
    ):
        match = re.search(rf"^\[{key}: ([-+.\de]{{1,20}})\]$", text, re.MULTILINE)
        value = match[1] if match else "unknown"
        found[name] = (value, value == str(RECIPE_LIGHTGBM[name]))
    _compare(model, found, RECIPE_LIGHTGBM, "RECIPE_LIGHTGBM")


def trained_on(server: Probe, model: str, split: data.Split, version: int = 1) -> None:
    """Fail if the deployed file of XGBoost was made from other rows than a student's.

    The first tree says of each node how much its rows weigh. Before the first tree all rows have
    the probability `base`, so each of them weighs base (1 - base), and the rows can be counted. A
    file of another form passes here; `follows_recipe` finds it.
    """
    try:
        file = _read_deployed(server, model, "xgboost.json", version)
        learner = bounded_json.loads(file)["learner"]
        base = float(learner["learner_model_param"]["base_score"].strip("[]"))
        tree = learner["gradient_booster"]["model"]["trees"][0]
        counted = _rows_of_nodes(tree, split.x_train)
        weighed = {node: float(tree["sum_hessian"][node]) / (base * (1 - base)) for node in counted}
    except (Failure, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return
    except (ZeroDivisionError, OverflowError):
        return
    if any(not abs(weighed[node] - count) < 0.5 for node, count in counted.items()):
        raise _other_rows(model if version == 1 else f"Version {version} of {model}")


def trained_on_lightgbm(server: Probe, model: str, split: data.Split) -> None:
    """Fail if the deployed file of LightGBM was made from other rows than a student's.

    It says the smallest and the largest value of each measurement among the training rows.
    """
    text = _read_deployed(server, model, "model.txt").decode("utf-8", errors="replace")
    line = re.search(r"^feature_infos=(.{1,4000})$", text, re.MULTILINE)
    ranges = re.findall(r"\[([-+.\de]{1,30}):([-+.\de]{1,30})\]", line[1]) if line else []
    try:
        stated = np.array(ranges, dtype=np.float64)
    except ValueError:
        return
    true = np.stack([split.x_train.min(axis=0), split.x_train.max(axis=0)], axis=1)
    if stated.shape == true.shape and not np.allclose(stated, true, rtol=1e-5, atol=1e-9):
        raise _other_rows(model)


def _other_rows(model: str) -> Failure:
    return Failure(
        f"{model} was not trained on the training rows that are drawn for `me`.",
        help="Did you change `me`? Then run everything from task 1 again. If not: train on "
        "cancer.x_train and cancer.y_train, on all of their rows and no others.",
    )


def _rows_of_nodes(tree: Any, rows: Array) -> dict[int, int]:
    """How many rows come to each of the first nodes of a tree in XGBoost's JSON."""
    here = {0: np.ones(len(rows), dtype=bool)}
    for node in range(min(len(tree["left_children"]), 15)):
        left, right = int(tree["left_children"][node]), int(tree["right_children"][node])
        if node in here and left != -1:
            border = np.float32(tree["split_conditions"][node])
            goes_left = rows[:, int(tree["split_indices"][node])] < border
            here[left], here[right] = here[node] & goes_left, here[node] & ~goes_left
    return {node: int(mask.sum()) for node, mask in here.items()}


def _compare(
    model: str, found: dict[str, tuple[object, bool]], recipe: dict[str, Any], name: str
) -> None:
    for key, (value, fits) in found.items():
        if not fits:
            raise Failure(
                f"The file that {model} is served from has {key} = {value}; {name} says "
                f"{recipe[key]}.",
                help=f"Train with **{name}, save the model, and deploy the folder again.",
            )


def _read_deployed(server: Probe, model: str, file: str, version: int = 1) -> bytes:
    """The file of a version of a model, as it lies in the server's repository."""
    require.backend(server, model, "fil")  # so it is a model's name, and no path
    path = server.server.repository / model / str(version) / file
    try:
        if not path.is_symlink() and path.stat().st_size <= bounded_json.MOST_BYTES:
            return path.read_bytes()
    except OSError:
        pass
    raise Failure(
        f"{model} has no file {version}/{file} that can be read.",
        help=f"Save the model as models/{model}/{version}/{file}, and deploy the folder again.",
    )


def _depth(tree: Any) -> int:
    """The depth of a tree in XGBoost's JSON: 0 for one leaf.

    Raises:
        ValueError: it is no tree.
    """
    children = list(zip(tree["left_children"], tree["right_children"], strict=True))
    level, depth = [0], 0
    for depth in range(len(children)):
        level = [child for node in level for child in children[node] if child != -1]
        if not level:
            return depth
        if len(level) > len(children) or min(level) < 0:
            break
    raise ValueError("no tree")


def _leaves(tree: Any) -> list[float]:
    values = zip(tree["split_conditions"], tree["left_children"], strict=True)
    return [float(value) for value, left in values if left == -1]


def delay(config: Mapping[str, Any]) -> int:
    """The delay of the batcher in microseconds that the server parsed; 0 if there is none."""
    return int((config.get("dynamic_batching") or {}).get("max_queue_delay_microseconds") or 0)


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
        names=LABELS,
        help="Is it the same model, trained by RECIPE_LIGHTGBM, and deployed after you saved it?",
    )
    return given


def shares(server: Probe, model: str, rows: Array) -> Array:
    """SHAP values of rows; fails unless they add up to the raw score of the served probability."""
    answer = server.infer(model, {INPUT: rows}, outputs=[OUTPUT, SHAP])
    values, table = answer[SHAP], answer[OUTPUT]
    size = (len(rows), FEATURES + 1)
    require.shape(model, values, size, output=SHAP, help="It holds 31 values per row.")
    help = "It holds 2 probabilities per row."
    require.shape(model, table, (len(rows), 2), output=OUTPUT, help=help)
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
