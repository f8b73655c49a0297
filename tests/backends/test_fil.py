"""The stand-in for FIL on a real server, against XGBoost, LightGBM and scikit-learn in-process."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import psutil
import pytest
import treelite
import xgboost as xgb
from loading import counted, load_all
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import (
    GradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from tritonclient import http
from tritonclient.utils import InferenceServerException

from workbook.backends.fil.treeshap import NotExplainable, TreeShap
from workbook.common.errors import LoadError
from workbook.server import Triton
from workbook.zoo.forests import save_xgboost

Array = npt.NDArray[Any]
WriteModel = Callable[..., Path]

CANCER, MALIGNANT = load_breast_cancer(return_X_y=True)
DIGITS, DIGIT = load_digits(return_X_y=True)
CANCER, DIGITS = CANCER.astype(np.float32), DIGITS.astype(np.float32)
CANCER[::7, 3] = np.nan  # missing values, as XGBoost and LightGBM take them
FULL = np.nan_to_num(CANCER)  # and as scikit-learn does not
ROWS = CANCER[:48]
UNIT = 2.0**-24  # the unit roundoff of float32


@dataclasses.dataclass(frozen=True)
class Forest:
    """A trained model: its file, how FIL is told of it, and what its own library answers."""

    file: str
    content: bytes
    kind: str
    tree: treelite.Model
    rows: Array
    library: Any

    @property
    def tolerance(self) -> float:
        """How far two float32 sums over the trees may lie apart, in raw score.

        Adding T + 1 terms in any order is wrong by at most (T + 1) u M, where u is float32's unit
        roundoff and M the sum of the terms' magnitudes: here the greatest leaf of each tree and
        the base score. Two such sums differ by at most twice that. One more u M is for a library
        that computes in float64 and rounds at the end. The transforms that follow (identity,
        sigmoid with slope 1/4, softmax with slope 1/2) do not enlarge it, and add at most 4 u.
        """
        header = self.tree.get_header_accessor()
        total = float(np.abs(header.get_field("base_scores")).max())
        for index in range(self.tree.num_tree):
            tree = self.tree.get_tree_accessor(index)
            leaves = np.concatenate([tree.get_field("leaf_value"), tree.get_field("leaf_vector")])
            total += float(np.abs(leaves).max())
        if header.get_field("average_tree_output")[0]:
            total /= self.tree.num_tree
        return (2 * (self.tree.num_tree + 1) + 1) * UNIT * total + 4 * UNIT


def _xgboost(folder: Path, rows: Array, y: Array, suffix: str = "json", **options: Any) -> Forest:
    options = {"max_depth": 4, "base_score": None, "seed": 1, "nthread": 1, **options}
    rounds = options.pop("rounds", 12)
    types = options.pop("feature_types", None)
    data = xgb.DMatrix(rows, y, feature_types=types, enable_categorical=types is not None)
    booster = xgb.train({k: v for k, v in options.items() if v is not None}, data, rounds)
    path = folder / f"xgboost.{suffix}"
    booster.save_model(path)
    tree = treelite.frontend.from_xgboost(booster)
    return Forest(path.name, path.read_bytes(), f"xgboost_{suffix}", tree, rows[:48], booster)


def _lightgbm(rows: Array, y: Array, **options: Any) -> Forest:
    options = {"verbose": -1, "num_leaves": 8, "seed": 1, "num_threads": 1, **options}
    categories = options.pop("categories", "auto")
    booster = lgb.train(options, lgb.Dataset(rows, y, categorical_feature=categories), 12)
    tree = treelite.frontend.from_lightgbm(booster)
    text = booster.model_to_string().encode()
    return Forest("model.txt", text, "lightgbm", tree, rows[:48], booster)


def _sklearn(model: Any, rows: Array, y: Array | None = None) -> Forest:
    model.fit(rows, y)
    tree = treelite.sklearn.import_model(model)
    content = bytes(tree.serialize_bytes())
    return Forest("checkpoint.tl", content, "treelite_checkpoint", tree, rows[:48], model)


def _legacy_binary() -> bytes:
    """XGBoost's old binary format, by hand: one tree, `feature 1 < 0.5 ? -1 : 2`, base score 0.

    Laid out as Treelite's reader expects it (src/model_loader/xgboost_legacy.cc).
    """
    learner = struct.pack("<fIi31i", 0.0, 2, 0, *[0] * 31)
    names = b"".join(struct.pack("<Q", len(n)) + n for n in (b"reg:linear", b"gbtree"))
    booster = struct.pack("<iiiiqiiI31i", 1, 1, 2, 0, 0, 1, 0, 0, *[0] * 31)
    tree = struct.pack("<iiiiii31i", 1, 3, 0, 0, 2, 0, *[0] * 31)
    nodes = struct.pack("<iiiIf", -1, 1, 2, 1, 0.5)
    nodes += struct.pack("<IiiIf", 0x80000000, -1, -1, 0, -1.0)
    nodes += struct.pack("<IiiIf", 0, -1, -1, 0, 2.0)
    stats = b"".join(struct.pack("<fffi", 1.0, w, 0.0, 0) for w in (10.0, 4.0, 6.0))
    return learner + names + booster + tree + nodes + stats + struct.pack("<i", 0)


@pytest.fixture(scope="module")
def forests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Forest]:
    """One small model of each kind."""
    folder = tmp_path_factory.mktemp("forests")
    size, seed = 9, 3
    binary = {"objective": "binary:logistic"}
    rng = np.random.default_rng(4)
    mixed = rng.integers(0, 6, (400, 4)).astype(np.float32)  # two columns are categories
    target = mixed[:, 0] % 2 + mixed[:, 1] * (mixed[:, 2] > 2)
    mixed[::9, 0] = np.nan
    result = {
        "xgb": _xgboost(folder, CANCER, MALIGNANT, **binary),
        "xgb_ubj": _xgboost(folder, CANCER, MALIGNANT, "ubj", **binary),
        "xgb_reg": _xgboost(folder, CANCER, FULL[:, 0], objective="reg:squarederror"),
        "xgb_ten": _xgboost(
            folder, DIGITS, DIGIT, objective="multi:softprob", num_class=10, rounds=5
        ),
        "xgb_max": _xgboost(
            folder, DIGITS, DIGIT, objective="multi:softmax", num_class=10, rounds=5
        ),
        "lgb": _lightgbm(CANCER, MALIGNANT, objective="binary"),
        "lgb_ten": _lightgbm(DIGITS, DIGIT, objective="multiclass", num_class=10),
        "lgb_poisson": _lightgbm(CANCER, FULL[:, 0] / 10, objective="poisson"),
        "lgb_rf": _lightgbm(
            CANCER,
            MALIGNANT,
            objective="binary",
            boosting="rf",
            bagging_fraction=0.8,
            bagging_freq=1,
        ),
        "rf": _sklearn(RandomForestClassifier(size, random_state=seed), FULL, MALIGNANT),
        "rf_ten": _sklearn(RandomForestClassifier(size, random_state=seed), DIGITS, DIGIT),
        "rf_reg": _sklearn(RandomForestRegressor(size, random_state=seed), FULL, FULL[:, 0]),
        "gb_ten": _sklearn(
            GradientBoostingClassifier(n_estimators=4, random_state=seed), DIGITS, DIGIT
        ),
        "isolation": _sklearn(IsolationForest(n_estimators=size, random_state=seed), FULL),
        "lgb_cat": _lightgbm(
            mixed,
            target,
            objective="regression",
            categories=[0, 1],
            min_data_in_leaf=5,
            min_data_per_group=1,
            cat_smooth=0,
        ),
        "xgb_cat": _xgboost(
            folder, mixed, target, feature_types=["c", "c", "q", "q"], max_cat_to_onehot=1
        ),
    }
    plain = result["xgb"]
    newer = json.loads(plain.content)
    newer["learner"]["invented_later"] = {"a": [1]}
    result["newer"] = dataclasses.replace(plain, content=json.dumps(newer).encode())
    result["half"] = dataclasses.replace(plain, content=plain.content[:3000])
    result["rubbish"] = dataclasses.replace(plain, content=b"\x07" * 200)
    result["legacy"] = dataclasses.replace(plain, file="xgboost.model", content=_legacy_binary())
    return result


def config(
    forest: Forest,
    *,
    out: list[int],
    shap: list[int] | None = None,
    features: int | None = None,
    size: int = 64,
    more: str = "",
    input_name: str = "input__0",
    output_name: str = "output__0",
    type_: str = "TYPE_FP32",
    **parameters: str | None,
) -> str:
    """A config.pbtxt for FIL; a parameter of None is left out."""
    given = {"model_type": forest.kind, "output_class": "false", **parameters}
    lines = [
        f'parameters {{ key: "{k}" value: {{ string_value: "{v}" }} }}'
        for k, v in given.items()
        if v is not None
    ]
    width = forest.tree.num_feature if features is None else features
    outputs = f'{{ name: "{output_name}" data_type: TYPE_FP32 dims: {out} }}'
    if shap is not None:
        outputs += f', {{ name: "treeshap_output" data_type: TYPE_FP32 dims: {shap} }}'
    return f"""
backend: "fil"
max_batch_size: {size}
input [ {{ name: "{input_name}" data_type: {type_} dims: [ {width} ] }} ]
output [ {outputs} ]
{more}
""" + "\n".join(lines)


CLASS = {"output_class": "true", "threshold": "0.5"}
PROBA = {**CLASS, "predict_proba": "true"}
BATCHING = "dynamic_batching { max_queue_delay_microseconds: 200000 }"

#: Every model that must load: its forest and its config. `files` replaces the forest's own.
GOOD: dict[str, dict[str, Any]] = {
    "xgb": {"of": "xgb", "out": [1], "shap": [31]},
    "xgb_ubj": {"of": "xgb_ubj", "out": [-1]},
    "xgb_reg": {"of": "xgb_reg", "out": [1]},
    "xgb_ten": {"of": "xgb_ten", "out": [10], "shap": [10, 65]},
    "lgb": {"of": "lgb", "out": [1], "shap": [31]},
    "lgb_ten": {"of": "lgb_ten", "out": [10], **PROBA},
    "lgb_rf": {"of": "lgb_rf", "out": [1]},
    "lgb_poisson": {"of": "lgb_poisson", "out": [1]},
    "rf": {"of": "rf", "out": [2], "shap": [2, 31], **PROBA},
    "rf_ten": {"of": "rf_ten", "out": [10]},
    "rf_reg": {"of": "rf_reg", "out": [1]},
    "gb_ten": {"of": "gb_ten", "out": [10], **PROBA},
    "isolation": {"of": "isolation", "out": [1]},
    "lgb_cat": {"of": "lgb_cat", "out": [1]},
    "xgb_cat": {"of": "xgb_cat", "out": [1]},
    "two_columns": {"of": "xgb", "out": [2], **PROBA},
    "one_by_two": {"of": "xgb", "out": [1, 2], **PROBA},
    "any_by_two": {"of": "xgb", "out": [-1, 2], **PROBA},
    "class_031": {"of": "lgb", "out": [1], "output_class": "true", "threshold": "0.31"},
    "class_equal": {"of": "xgb", "out": [1], "output_class": "true"},
    "class_xgb_ten": {"of": "xgb_ten", "out": [1], **CLASS},
    "class_xgb_max": {"of": "xgb_max", "out": [1], **CLASS},
    "class_rf": {"of": "rf", "out": [1], **CLASS},
    "passed_over": {
        # Both generations' parameters together, and values that are no numbers.
        "of": "xgb",
        "out": [1],
        "output_class": "true",
        "is_classifier": "false",
        "threshold": "0.5 of all",
        "storage_type": "SPARSE",
        "algo": "NAIVE",
        "layout": "layered",
        "chunk_size": "32",
        "blocks_per_sm": "many",
        "threads_per_tree": "-4",
        "transfer_threshold": "2",
        "use_experimental_optimizations": "true",
        "invented": "yes",
    },
    "is_classifier": {"of": "xgb", "out": [1], "output_class": None, "threshold": "0.5"}
    | {"is_classifier": "true"},
    "other_name": {
        "of": "xgb",
        "out": [1],
        "file": "booster.json",
        "more": 'default_model_filename: "booster.json"',
    },
    "newer": {"of": "newer", "out": [1], "xgboost_allow_unknown_field": "true"},
    "legacy": {"of": "legacy", "out": [1], "features": 2, "model_type": None},
    "batched": {"of": "xgb", "out": [-1], "features": -1, "more": BATCHING},
    "one_thread": {"of": "xgb_ten", "out": [10], "size": 256, "cpu_nthread": "1"},
    "two_threads": {"of": "xgb_ten", "out": [10], "size": 256, "cpu_nthread": "2"},
    "two_instances": {
        "of": "xgb",
        "out": [1],
        "more": "instance_group { count: 2 kind: KIND_CPU }",
    },
}

#: Every config that must not load, and words of the reason.
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no output_class": (
        {"output_class": None},
        "Required parameter output_class not found in config",
    ),
    "no threshold": (
        {"output_class": "true"},
        "Required parameter threshold not found in config",
    ),
    "threshold is a word": (
        {"output_class": "true", "threshold": "high"},
        "Bad input for parameter threshold",
    ),
    "True is not true": (
        {"output_class": "True"},
        "Expected 'true' or 'false' for parameter 'output_class', got: 'True'",
    ),
    "model_type": (
        {"model_type": "xgb"},
        "xgb not recognized as a valid serialization format",
    ),
    "algo": ({"algo": "FAST"}, "Unknown FIL algorithm name: FAST"),
    "storage_type": ({"storage_type": "TINY"}, "Unknown FIL storage type name: TINY"),
    "layout": ({"layout": "sideways"}, "Unknown FIL layout name: sideways"),
    "threads_per_tree": ({"threads_per_tree": "3"}, "must be a power of 2"),
    "blocks_per_sm": ({"blocks_per_sm": "-1"}, "blocks_per_sm must be nonnegative"),
    "input name": ({"input_name": "features"}, "the backend reads 'input__0'"),
    "output name": ({"output_name": "output"}, "No output with name output__0"),
    "type": ({"type_": "TYPE_FP64"}, "with required type TYPE_FP32"),
    "features": ({"features": 29}, "the model has 30 features: write dims: [ 30 ]"),
    "features without a batch": ({"size": 0}, "write dims: [ -1, 30 ]"),
    "two columns": ({"out": [2]}, "gives 1 value per row: write dims: [ 1 ]"),
    "one of two probabilities": (
        {"out": [1], **PROBA},
        "gives 2 values per row: write dims: [ 2 ]",
    ),
    "class of ten": (
        {"of": "xgb_ten", "out": [10], **CLASS},
        "gives 1 value per row: write dims: [ 1 ]",
    ),
    "proba of ten": ({"of": "xgb_ten", **PROBA}, "gives 10 values per row"),
    "variable dims": ({"of": "xgb_ten", "out": [2, -1]}, "must request desired output shape"),
    "shap dims": ({"shap": [30]}, "write dims: [31]"),
    "shap dims of ten": ({"of": "xgb_ten", "out": [10], "shap": [65]}, "write dims: [10, 65]"),
    "no file": ({"file": "model.json"}, "xgboost.json"),
    "new file, old type": (
        {"of": "xgb_ubj", "file": "xgboost.model", "model_type": "xgboost"},
        "written as xgboost_ubj. Set model_type to xgboost_ubj",
    ),
    "broken old binary": (
        {"of": "rubbish", "file": "xgboost.model", "model_type": "xgboost"},
        'save_model("xgboost.json")',
    ),
    "ubj as json": (
        {"of": "xgb_ubj", "file": "xgboost.json", "model_type": "xgboost_json"},
        "written as xgboost_ubj",
    ),
    "lightgbm as ubj": (
        {"of": "lgb", "file": "xgboost.ubj", "model_type": "xgboost_ubj"},
        "written as lightgbm",
    ),
    "rubbish": ({"of": "rubbish"}, "failed to load into Treelite"),
    "half a file": ({"of": "half"}, "failed to load into Treelite with error"),
    "unknown field": ({"of": "newer"}, "failed to load into Treelite with error"),
}


def _write(server: Triton, name: str, forests: dict[str, Forest], plan: dict[str, Any]) -> None:
    plan = {"of": "xgb", "out": [1], **plan}
    forest = forests[plan.pop("of")]
    folder = server.repository / name / "1"
    folder.mkdir(parents=True)
    (folder / plan.pop("file", forest.file)).write_bytes(forest.content)
    (folder.parent / "config.pbtxt").write_text(config(forest, **plan))


@pytest.fixture(scope="module")
def served(server: Triton, forests: dict[str, Forest]) -> Triton:
    """A server with all of GOOD, loaded side by side."""
    middle = np.float32(np.median(_raw_probability(forests["xgb"])[::2][:-1]))
    GOOD["class_equal"]["threshold"] = repr(float(middle))
    for name, plan in GOOD.items():
        _write(server, name, forests, plan)
    assert load_all(server, GOOD) == dict.fromkeys(GOOD, "")
    return server


@pytest.fixture(scope="module")
def refusals(server: Triton, forests: dict[str, Forest]) -> dict[str, str]:
    """What the server said to each of BAD; empty where it loaded."""
    names = {f"bad_{case.replace(' ', '_').replace(',', '')}": case for case in BAD}
    for name, case in names.items():
        _write(server, name, forests, BAD[case][0])
    return {names[name]: message for name, message in load_all(server, names).items()}


def _input(rows: Array) -> http.InferInput:
    tensor = http.InferInput("input__0", list(rows.shape), "FP32")
    tensor.set_data_from_numpy(np.ascontiguousarray(rows))
    return tensor


def ask(server: Triton, model: str, rows: Array, output: str = "output__0") -> Array:
    with server.http_client() as client:
        result: Array = client.infer(model, [_input(rows)]).as_numpy(output)
        return result


def _raw_probability(forest: Forest) -> Array:
    """Treelite's own answer; a served model with one score computes the same bits."""
    result: Array = treelite.gtil.predict(forest.tree, forest.rows)[:, 0, 0]
    return result


def library_says(forest: Forest) -> Array:
    """The predictions of the library that trained the model, as scores or probabilities."""
    library = forest.library
    if isinstance(library, xgb.Booster):
        data = xgb.DMatrix(
            forest.rows, feature_types=library.feature_types, enable_categorical=True
        )
        return np.asarray(library.predict(data))
    if isinstance(library, lgb.Booster):
        return np.asarray(library.predict(forest.rows))
    if hasattr(library, "predict_proba"):
        return np.asarray(library.predict_proba(forest.rows))
    if isinstance(library, IsolationForest):
        return -np.asarray(library.score_samples(forest.rows))
    return np.asarray(library.predict(forest.rows))


# -- what output__0 holds ------------------------------------------------------------------------


XGBOOST = ("xgb", "xgb_ubj", "xgb_reg", "xgb_ten", "xgb_cat")
LIGHTGBM = ("lgb", "lgb_ten", "lgb_rf", "lgb_cat")
SKLEARN = ("rf", "rf_ten", "rf_reg", "gb_ten", "isolation")


@pytest.mark.server
@pytest.mark.quick
@pytest.mark.parametrize("name", [*XGBOOST, *LIGHTGBM, *SKLEARN])
def test_scores_are_those_of_the_library(
    served: Triton, forests: dict[str, Forest], name: str
) -> None:
    forest = forests[name]
    got = ask(served, name, forest.rows)
    expected = library_says(forest)
    assert got.shape == expected.shape, "dimensions of 1 are left out of the shape"
    assert got.dtype == np.float32
    # An isolation forest's 2^-(depth / c) has a slope below 1, like the other transforms.
    np.testing.assert_allclose(got, expected, rtol=0, atol=forest.tolerance)


def test_the_models_for_categories_split_on_them(forests: dict[str, Forest]) -> None:
    for name in ("lgb_cat", "xgb_cat"):
        tree = forests[name].tree.get_tree_accessor(0)
        assert (tree.get_field("node_type") == 2).any()


@pytest.mark.server
def test_poisson_regression_is_the_exponential_of_the_raw_score(
    served: Triton, forests: dict[str, Forest]
) -> None:
    forest = forests["lgb_poisson"]
    got = ask(served, "lgb_poisson", forest.rows)
    # An error e in the raw score is a relative error of e after exp, to first order.
    np.testing.assert_allclose(got, library_says(forest), rtol=2 * forest.tolerance)


@pytest.mark.server
def test_two_columns_of_a_binary_model_are_1_minus_p_and_p(
    served: Triton, forests: dict[str, Forest]
) -> None:
    forest = forests["xgb"]
    p = library_says(forest)
    both = ask(served, "two_columns", forest.rows)
    np.testing.assert_allclose(both, np.stack([1 - p, p], axis=1), rtol=0, atol=forest.tolerance)
    for name in ("one_by_two", "any_by_two"):  # 1 and a leading -1 are left out of the shape
        np.testing.assert_array_equal(ask(served, name, forest.rows), both)


@pytest.mark.server
def test_a_class_is_a_probability_above_the_threshold(
    served: Triton, forests: dict[str, Forest]
) -> None:
    forest = forests["lgb"]
    p = library_says(forest)
    assert np.abs(p - 0.31).min() > forest.tolerance, "no row is too close to call"
    got = ask(served, "class_031", forest.rows)
    np.testing.assert_array_equal(got, (p > 0.31).astype(np.float32))
    assert 0 < got.sum() < len(got), "both classes occur"


@pytest.mark.server
def test_a_probability_equal_to_the_threshold_is_class_0(
    served: Triton, forests: dict[str, Forest]
) -> None:
    forest = forests["xgb"]
    threshold = np.float32(GOOD["class_equal"]["threshold"])
    p = _raw_probability(forest)
    assert (p == threshold).any()
    got = ask(served, "class_equal", forest.rows)
    np.testing.assert_array_equal(got, (p > threshold).astype(np.float32))


@pytest.mark.server
@pytest.mark.parametrize("which", ["xgb_ten", "xgb_max", "rf"])
def test_a_class_of_many_is_the_greatest_score(
    served: Triton, forests: dict[str, Forest], which: str
) -> None:
    forest = forests[which]
    got = ask(served, f"class_{which}", forest.rows)
    scores = library_says(forest)
    if which == "xgb_max":  # this objective answers with the class itself
        scores = np.eye(10)[scores.astype(int)]
    second, first = np.sort(scores, axis=1)[:, -2:].T
    clear = first - second > 2 * forest.tolerance
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(got[clear], scores.argmax(axis=1)[clear])


# -- SHAP ----------------------------------------------------------------------------------------


@pytest.mark.server
@pytest.mark.parametrize("name", ["xgb", "xgb_ten", "lgb", "rf"])
def test_shap_values_over_the_wire(served: Triton, forests: dict[str, Forest], name: str) -> None:
    forest = forests[name]
    shape = GOOD[name]["shap"]
    got = ask(served, name, forest.rows, "treeshap_output")
    assert got.shape == (len(forest.rows), *shape)
    raw = treelite.gtil.predict(forest.tree, forest.rows, pred_margin=True)[:, 0, :]
    # features + 1 terms, each rounded to float32 once, beside the float32 sum over the trees.
    each = got.astype(np.float64).reshape(len(got), raw.shape[1], -1)
    room = forest.tolerance + UNIT * np.abs(each).sum(axis=2).max()
    np.testing.assert_allclose(each.sum(axis=2), raw, rtol=0, atol=room)
    if isinstance(forest.library, xgb.Booster):
        theirs = forest.library.predict(xgb.DMatrix(forest.rows), pred_contribs=True)
    elif isinstance(forest.library, lgb.Booster):
        theirs = forest.library.predict(forest.rows, pred_contrib=True)
    else:
        return
    # Their TreeSHAP unwinds products in float32 over paths of up to 7 features: 2 * 7 more steps.
    np.testing.assert_allclose(got, theirs, rtol=0, atol=16 * forest.tolerance)


def _brute_force(forest: Forest, row: Array, index: int) -> list[float]:
    """Shapley values of class `index` by their definition: every subset of the features."""
    features = forest.tree.num_feature

    def value(known: frozenset[int]) -> float:
        total = 0.0
        for number in range(forest.tree.num_tree):
            tree = forest.tree.get_tree_accessor(number)
            left, right = tree.get_field("cleft"), tree.get_field("cright")
            cover = tree.get_field("sum_hess")

            def walk(node: int, tree: Any = tree, left: Array = left, right: Array = right,
                     cover: Array = cover) -> float:  # fmt: skip
                if left[node] == -1:
                    begin = int(tree.get_field("leaf_vector_begin")[node])
                    return float(tree.get_field("leaf_vector")[begin + index])
                feature = int(tree.get_field("split_index")[node])
                if feature in known:
                    goes_left = row[feature] <= tree.get_field("threshold")[node]
                    return walk(int(left[node] if goes_left else right[node]))
                both = (walk(int(left[node])), walk(int(right[node])))
                share = cover[left[node]] / cover[node]
                return float(share * both[0] + (1 - share) * both[1])

            total += walk(0)
        return total / forest.tree.num_tree

    result = []
    for feature in range(features):
        others = [f for f in range(features) if f != feature]
        share = 0.0
        for count in range(features):
            weight = math.factorial(count) * math.factorial(features - 1 - count)
            for subset in itertools.combinations(others, count):
                known = frozenset(subset)
                share += weight * (value(known | {feature}) - value(known))
        result.append(share / math.factorial(features))
    return [*result, value(frozenset())]


def test_shap_is_what_its_definition_says() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(120, 4)).astype(np.float32)
    y = (rows[:, 0] * rows[:, 1] + rows[:, 2] > 0).astype(int)
    forest = _sklearn(RandomForestClassifier(3, max_depth=5, random_state=1), rows, y)
    got = TreeShap(forest.tree).explain(forest.rows[:3])
    expected = [[_brute_force(forest, row, c) for c in (0, 1)] for row in forest.rows[:3]]
    np.testing.assert_allclose(got, expected, rtol=0, atol=4 * UNIT)  # all else is float64


def test_shap_follows_missing_values_and_categories(forests: dict[str, Forest]) -> None:
    forest = forests["xgb_cat"]
    assert np.isnan(forest.rows).any()
    types = forest.library.feature_types
    data = xgb.DMatrix(forest.rows, feature_types=types, enable_categorical=True)
    theirs = forest.library.predict(data, pred_contribs=True)
    got = TreeShap(forest.tree).explain(forest.rows)[:, 0]
    np.testing.assert_allclose(got, theirs, rtol=0, atol=16 * forest.tolerance)


def test_shap_of_a_stump_is_all_bias(tmp_path: Path) -> None:
    forest = _xgboost(tmp_path, CANCER, MALIGNANT, objective="binary:logistic", gamma=1e9)
    got = TreeShap(forest.tree).explain(ROWS)
    raw = treelite.gtil.predict(forest.tree, ROWS, pred_margin=True)[:, 0, 0]
    assert not got[:, 0, :-1].any()
    np.testing.assert_allclose(got[:, 0, -1], raw, rtol=0, atol=forest.tolerance)


def test_shap_refuses_trees_that_are_too_deep() -> None:
    rows = np.arange(60, dtype=np.float32)[:, None]
    deep = RandomForestRegressor(1, bootstrap=False, max_depth=None).fit(rows, 2.0 ** rows[:, 0])
    assert deep.estimators_[0].get_depth() >= 32
    with pytest.raises(NotExplainable, match="depths above 32 not supported"):
        TreeShap(treelite.sklearn.import_model(deep))


def test_shap_in_pieces_is_the_same(
    forests: dict[str, Forest], monkeypatch: pytest.MonkeyPatch
) -> None:
    explainer = TreeShap(forests["xgb_ten"].tree)
    whole = explainer.explain(DIGITS[:20])
    monkeypatch.setattr("workbook.backends.fil.treeshap._CHUNK", 1)
    np.testing.assert_array_equal(explainer.explain(DIGITS[:20]), whole)


# -- what the config may say ---------------------------------------------------------------------


@pytest.mark.server
@pytest.mark.parametrize("case", BAD)
def test_wrong_configs_and_files_do_not_load(refusals: dict[str, str], case: str) -> None:
    assert BAD[case][1] in refusals[case]


@pytest.mark.server
def test_values_that_the_real_backend_passes_over(
    served: Triton, forests: dict[str, Forest]
) -> None:
    """output_class wins over is_classifier; a number is the one at the value's beginning."""
    forest = forests["xgb"]
    expected = (library_says(forest) > 0.5).astype(np.float32)
    np.testing.assert_array_equal(ask(served, "passed_over", forest.rows), expected)
    np.testing.assert_array_equal(ask(served, "is_classifier", forest.rows), expected)


@pytest.mark.server
@pytest.mark.parametrize("name", ["other_name", "newer"])
def test_other_files_of_the_same_model(
    served: Triton, forests: dict[str, Forest], name: str
) -> None:
    """A file of another name; a field that Treelite does not know yet."""
    forest = forests["xgb"]
    got = ask(served, name, forest.rows)
    np.testing.assert_allclose(got, library_says(forest), rtol=0, atol=forest.tolerance)


@pytest.mark.server
def test_a_file_that_older_containers_refuse_is_served_with_a_warning(
    server: Triton, write_model: WriteModel, forests: dict[str, Forest], tmp_path: Path
) -> None:
    """Treelite before 4.6, which containers before 26.01 have, reads neither of the two."""
    model = xgb.XGBClassifier(n_estimators=2).fit(FULL, MALIGNANT)
    for ending in ("json", "ubj"):
        model.save_model(tmp_path / f"xgboost.{ending}")
        save_xgboost(model, tmp_path / f"older.{ending}")
        for name in ("xgboost", "older"):
            content = (tmp_path / f"{name}.{ending}").read_bytes()
            kind = dataclasses.replace(forests["xgb"], kind=f"xgboost_{ending}")
            write_model(f"{name}_{ending}", config(kind, out=[1]), {f"1/xgboost.{ending}": content})
            start = len(server.log_text())
            server.load(f"{name}_{ending}")
            warned = (
                f"xgboost.{ending}: FIL in containers before 26.01 cannot read this file. XGBoost "
                "writes a section cats and base_score as a list since 3.1."
            ) in server.log_text()[start:]
            assert warned == (name == "xgboost")


@pytest.mark.server
def test_the_old_binary_format_is_still_served(served: Triton) -> None:
    """Recent XGBoost cannot write it, Treelite still reads it; it is the default model_type."""
    got = ask(served, "legacy", np.array([[9, 0], [9, 1]], np.float32))
    np.testing.assert_array_equal(got, [-1, 2])


@pytest.mark.server
def test_fil_fills_in_nothing(server: Triton, write_model: WriteModel) -> None:
    write_model("no_config", "", {"1/xgboost.json": b"{}"})
    with pytest.raises(LoadError):
        server.load("no_config")
    write_model("no_tensors", 'backend: "fil" max_batch_size: 8', {"1/xgboost.json": b"{}"})
    with pytest.raises(LoadError):
        server.load("no_tensors")


# -- how requests are served ---------------------------------------------------------------------


@pytest.mark.server
@pytest.mark.quick
def test_requests_are_batched_and_a_bad_one_fails_alone(
    served: Triton, forests: dict[str, Forest]
) -> None:
    forest = forests["xgb"]
    good = [forest.rows[i : i + 1 + i % 3] for i in range(12)]
    with http.InferenceServerClient(served.url.removeprefix("http://"), concurrency=13) as client:
        waiting = [client.async_infer("batched", [_input(rows)]) for rows in good]
        bad = client.async_infer("batched", [_input(forest.rows[:2, :7])])
        answers = [one.get_result().as_numpy("output__0") for one in waiting]
        with pytest.raises(InferenceServerException, match="7 features per row; the model has 30"):
            bad.get_result()
    expected = library_says(forest)
    for i, got in enumerate(answers):
        np.testing.assert_allclose(got, expected[i : i + 1 + i % 3], rtol=0, atol=forest.tolerance)
    statistics = counted(served, "batched", sum(len(rows) for rows in good))
    assert statistics["inference_count"] >= sum(len(rows) for rows in good)
    assert statistics["execution_count"] < len(good)


def _stubs(server: Triton, model: str) -> list[psutil.Process]:
    """The processes of a model's instances."""
    assert server.pid is not None
    family = psutil.Process(server.pid).children(recursive=True)
    names = {f"{model}_0", f"{model}_0_0", f"{model}_0_1"}
    commands = [(process, process.cmdline()) for process in family]
    return [
        process
        for process, words in commands
        if names & set(words) and "start_stub" not in words[0]
    ]


@pytest.mark.server
@pytest.mark.parametrize("allowed", [1, 2])
def test_threads_are_those_of_the_config_and_at_most_the_server_s(
    allowed: int, tmp_path: Path, forests: dict[str, Forest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(allowed))
    more = int(min(allowed, len(os.sched_getaffinity(0))) > 1)
    names = "one_thread", "two_threads"
    with Triton(tmp_path) as server:
        for name in names:
            _write(server, name, forests, GOOD[name])
            server.load(name)
        for count, expected in ((64, 0), (256, more)):  # 50 trees: 64 rows are not worth a thread
            for name in names:
                assert ask(server, name, DIGITS[:count]).shape == (count, 10)
            ((one,), (two,)) = (_stubs(server, name) for name in names)
            assert two.num_threads() - one.num_threads() == expected


@pytest.mark.server
def test_instances_are_those_of_the_config(served: Triton) -> None:
    assert len(_stubs(served, "two_instances")) == 2
