"""The stand-in for FIL on a real server, against XGBoost, LightGBM and scikit-learn in-process."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import struct
import time
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
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from tritonclient import http
from tritonclient.utils import InferenceServerException

from workbook.backends.fil.treeshap import NotExplainable, TreeShap
from workbook.errors import LoadError
from workbook.server import Triton

Array = npt.NDArray[Any]
WriteModel = Callable[..., Path]

CANCER, MALIGNANT = load_breast_cancer(return_X_y=True)
DIGITS, DIGIT = load_digits(return_X_y=True)
CANCER, DIGITS = CANCER.astype(np.float32), DIGITS.astype(np.float32)
CANCER[::7, 3] = np.nan  # missing values, as XGBoost and LightGBM take them
FULL = np.nan_to_num(CANCER)  # and as scikit-learn does not
ROWS, DIGIT_ROWS = CANCER[:48], DIGITS[:48]
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
    def files(self) -> dict[str, bytes]:
        return {f"1/{self.file}": self.content}

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


@pytest.fixture(scope="module")
def forests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Forest]:
    """One small model of each kind."""
    folder = tmp_path_factory.mktemp("forests")
    size, seed = 9, 3
    binary = {"objective": "binary:logistic"}
    return {
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
        "extra_ten": _sklearn(ExtraTreesClassifier(size, random_state=seed), DIGITS, DIGIT),
        "gb_ten": _sklearn(
            GradientBoostingClassifier(n_estimators=4, random_state=seed), DIGITS, DIGIT
        ),
        "isolation": _sklearn(IsolationForest(n_estimators=size, random_state=seed), FULL),
    }


def config(
    forest: Forest,
    out: list[int],
    *,
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


@pytest.fixture
def deploy(server: Triton, write_model: WriteModel, request: pytest.FixtureRequest) -> Any:
    """`deploy(forest, out, ...)` writes a model named after the test and loads it."""
    counter = itertools.count()

    def run(
        forest: Forest, out: list[int], files: dict[str, bytes] | None = None, **kw: Any
    ) -> str:
        name = f"m{abs(hash(request.node.name)) % 10**8}_{next(counter)}"
        write_model(name, config(forest, out, **kw), forest.files if files is None else files)
        server.load(name)
        return name

    return run


def _input(rows: Array) -> http.InferInput:
    tensor = http.InferInput("input__0", list(rows.shape), "FP32")
    tensor.set_data_from_numpy(np.ascontiguousarray(rows))
    return tensor


def ask(server: Triton, model: str, rows: Array, output: str = "output__0") -> Array:
    with server.http_client() as client:
        answer = client.infer(model, [_input(rows)])
        result: Array = answer.as_numpy(output)
        return result


# -- what output__0 holds ------------------------------------------------------------------------


def _margin_probability(forest: Forest) -> Array:
    library = forest.library
    if isinstance(library, xgb.Booster):
        return library.predict(xgb.DMatrix(forest.rows))
    if isinstance(library, lgb.Booster):
        return np.asarray(library.predict(forest.rows))
    if hasattr(library, "predict_proba"):
        return np.asarray(library.predict_proba(forest.rows))
    if isinstance(library, IsolationForest):
        return -np.asarray(library.score_samples(forest.rows))
    return np.asarray(library.predict(forest.rows))


VALUES = [
    # forest, parameters, dims of output__0
    ("xgb", {}, [1]),
    ("xgb_ubj", {}, [-1]),
    ("xgb_reg", {}, [1]),
    ("xgb_ten", {}, [10]),
    ("xgb_ten", PROBA, [10]),
    ("lgb", {}, [1]),
    ("lgb_ten", PROBA, [10]),
    ("lgb_rf", {}, [1]),
    ("rf", PROBA, [2]),
    ("rf_ten", {}, [10]),
    ("rf_reg", {}, [1]),
    ("extra_ten", PROBA, [10]),
    ("gb_ten", PROBA, [10]),
    ("isolation", {}, [1]),
]


@pytest.mark.parametrize(("which", "parameters", "out"), VALUES)
def test_scores_are_those_of_the_library(
    server: Triton,
    deploy: Any,
    forests: dict[str, Forest],
    which: str,
    parameters: dict[str, str],
    out: list[int],
) -> None:
    forest = forests[which]
    got = ask(server, deploy(forest, out, **parameters), forest.rows)
    expected = _margin_probability(forest)
    assert got.shape == expected.shape, "dims of 1 are left out of the shape"
    assert got.dtype == np.float32
    slack = 0.0
    if which == "isolation":  # 2^-(depth / c): its slope is below 1, its mean over trees exact
        slack = forest.tolerance
    np.testing.assert_allclose(got, expected, rtol=0, atol=forest.tolerance + slack)


def test_poisson_regression_is_the_exponential_of_the_raw_score(
    server: Triton, deploy: Any, forests: dict[str, Forest]
) -> None:
    forest = forests["lgb_poisson"]
    got = ask(server, deploy(forest, [1]), forest.rows)
    # An error e in the raw score is a relative error of e after exp, to first order.
    np.testing.assert_allclose(got, forest.library.predict(forest.rows), rtol=2 * forest.tolerance)


def test_two_columns_of_a_binary_model_are_1_minus_p_and_p(
    server: Triton, deploy: Any, forests: dict[str, Forest]
) -> None:
    forest = forests["xgb"]
    p = _margin_probability(forest)
    both = ask(server, deploy(forest, [2], **PROBA), forest.rows)
    np.testing.assert_allclose(both, np.stack([1 - p, p], axis=1), rtol=0, atol=forest.tolerance)
    alone = ask(server, deploy(forest, [1], **PROBA), forest.rows)
    np.testing.assert_array_equal(alone, both[:, 1])


@pytest.mark.parametrize("threshold", ["0.5", "0.31", "0.9"])
def test_a_class_is_a_probability_above_the_threshold(
    server: Triton, deploy: Any, forests: dict[str, Forest], threshold: str
) -> None:
    forest = forests["lgb" if threshold == "0.9" else "xgb"]
    p = _margin_probability(forest)
    assert np.abs(p - float(threshold)).min() > forest.tolerance, "no row is too close to call"
    name = deploy(forest, [1], output_class="true", threshold=threshold)
    got = ask(server, name, forest.rows)
    np.testing.assert_array_equal(got, (p > float(threshold)).astype(np.float32))
    assert 0 < got.sum() < len(got), "both classes occur"


def test_a_probability_equal_to_the_threshold_is_class_0(
    server: Triton, deploy: Any, forests: dict[str, Forest]
) -> None:
    forest = forests["xgb"]
    p = ask(server, deploy(forest, [1]), forest.rows)
    middle = np.sort(p)[len(p) // 2]
    name = deploy(forest, [1], output_class="true", threshold=repr(float(middle)))
    got = ask(server, name, forest.rows)
    np.testing.assert_array_equal(got, (p > middle).astype(np.float32))
    assert got[p == middle].max() == 0


@pytest.mark.parametrize("which", ["xgb_ten", "xgb_max", "lgb_ten", "rf_ten", "rf"])
def test_a_class_of_many_is_the_greatest_score(
    server: Triton, deploy: Any, forests: dict[str, Forest], which: str
) -> None:
    forest = forests[which]
    got = ask(server, deploy(forest, [1], **CLASS), forest.rows)
    scores = _margin_probability(forest)
    if which == "xgb_max":  # this objective answers with the class itself
        scores = np.eye(10)[scores.astype(int)]
    best = scores.argmax(axis=1)
    second, first = np.sort(scores, axis=1)[:, -2:].T
    clear = first - second > 2 * forest.tolerance
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(got[clear], best[clear])


def test_categorical_splits_and_missing_categories(
    server: Triton, deploy: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 6, (400, 4)).astype(np.float32)
    y = rows[:, 0] % 2 + rows[:, 1] * (rows[:, 2] > 2)
    rows[::9, 0] = np.nan
    lightgbm = _lightgbm(
        rows,
        y,
        objective="regression",
        categories=[0, 1],
        min_data_in_leaf=5,
        min_data_per_group=1,
        cat_smooth=0,
    )
    got = ask(server, deploy(lightgbm, [1]), lightgbm.rows)
    np.testing.assert_allclose(
        got, lightgbm.library.predict(lightgbm.rows), rtol=0, atol=lightgbm.tolerance
    )
    types = ["c", "c", "q", "q"]
    forest = _xgboost(tmp_path, rows, y, feature_types=types, max_cat_to_onehot=1)
    assert any(
        (forest.tree.get_tree_accessor(i).get_field("node_type") == 2).any()
        for i in range(forest.tree.num_tree)
    ), "the model has categorical splits"
    data = xgb.DMatrix(forest.rows, feature_types=types, enable_categorical=True)
    got = ask(server, deploy(forest, [1]), forest.rows)
    np.testing.assert_allclose(got, forest.library.predict(data), rtol=0, atol=forest.tolerance)


# -- SHAP ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "shap"), [("xgb", [31]), ("xgb_ten", [10, 65]), ("lgb", [31]), ("rf", [2, 31])]
)
def test_shap_values_over_the_wire(
    server: Triton, deploy: Any, forests: dict[str, Forest], which: str, shap: list[int]
) -> None:
    forest = forests[which]
    classes = 1 if len(shap) == 1 else shap[0]
    name = deploy(forest, [classes], shap=shap)
    with server.http_client() as client:
        answer = client.infer(name, [_input(forest.rows)])
    got = answer.as_numpy("treeshap_output")
    assert got.shape == (len(forest.rows), *shap)
    raw = treelite.gtil.predict(forest.tree, forest.rows, pred_margin=True)[:, 0, :]
    # features + 1 terms, each rounded to float32 once, beside the float32 sum over the trees.
    terms = np.abs(got).reshape(len(got), classes, -1).sum(axis=2)
    room = forest.tolerance + UNIT * terms.max()
    np.testing.assert_allclose(
        got.astype(np.float64).reshape(len(got), classes, -1).sum(axis=2), raw, rtol=0, atol=room
    )
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


def test_shap_follows_missing_values_and_categories(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 6, (400, 4)).astype(np.float32)
    y = rows[:, 0] % 2 + rows[:, 1] * (rows[:, 2] > 2)
    rows[::9, 0] = np.nan
    types = ["c", "c", "q", "q"]
    forest = _xgboost(tmp_path, rows, y, feature_types=types, max_cat_to_onehot=1)
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


# -- what the config may say ---------------------------------------------------------------------

WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "no output_class": (
        "xgb",
        {"output_class": None},
        "Required parameter output_class not found in config",
    ),
    "no threshold": (
        "xgb",
        {"output_class": "true"},
        "Required parameter threshold not found in config",
    ),
    "threshold is a word": (
        "xgb",
        {"output_class": "true", "threshold": "high"},
        "Bad input for parameter threshold",
    ),
    "True is not true": (
        "xgb",
        {"output_class": "True"},
        "Expected 'true' or 'false' for parameter 'output_class', got: 'True'",
    ),
    "predict_proba": ("xgb", {"predict_proba": "1"}, "for parameter 'predict_proba', got: '1'"),
    "model_type": (
        "xgb",
        {"model_type": "xgb"},
        "xgb not recognized as a valid serialization format",
    ),
    "algo": ("xgb", {"algo": "FAST"}, "Unknown FIL algorithm name: FAST"),
    "storage_type": ("xgb", {"storage_type": "TINY"}, "Unknown FIL storage type name: TINY"),
    "layout": ("xgb", {"layout": "sideways"}, "Unknown FIL layout name: sideways"),
    "threads_per_tree": ("xgb", {"threads_per_tree": "3"}, "must be a power of 2"),
    "blocks_per_sm": ("xgb", {"blocks_per_sm": "-1"}, "blocks_per_sm must be nonnegative"),
    "input name": ("xgb", {"input_name": "features"}, "the backend reads 'input__0'"),
    "output name": ("xgb", {"output_name": "output"}, "No output with name output__0"),
    "type": ("xgb", {"type_": "TYPE_FP64"}, "with required type TYPE_FP32"),
    "features": ("xgb", {"features": 29}, "the model has 30 features: write dims: [ 30 ]"),
    "two columns without proba": ("xgb", {"out": [2]}, "gives 1 value a row: write dims: [ 1 ]"),
    "class of ten": ("xgb_ten", {"out": [10], **CLASS}, "gives 1 value a row: write dims: [ 1 ]"),
    "proba of ten": ("xgb_ten", {"out": [1], **PROBA}, "gives 10 values a row"),
    "variable dims": ("xgb_ten", {"out": [2, -1]}, "must request desired output shape"),
    "shap dims": ("xgb", {"shap": [30]}, "write dims: [31]"),
    "shap dims of ten": ("xgb_ten", {"out": [10], "shap": [65]}, "write dims: [10, 65]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_configs_do_not_load(deploy: Any, forests: dict[str, Forest], case: str) -> None:
    which, changes, words = WRONG[case]
    arguments = {"out": [1], **changes}
    with pytest.raises(LoadError) as caught:
        deploy(forests[which], arguments.pop("out"), **arguments)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("file", "kind", "content", "words"),
    [
        ("", "xgboost_json", "", "xgboost.json"),
        ("xgboost.model", "xgboost", "xgb_ubj", "written as xgboost_ubj. Set model_type to"),
        ("xgboost.model", "xgboost", "", 'save_model("xgboost.json")'),
        ("xgboost.json", "xgboost_json", "xgb_ubj", "written as xgboost_ubj"),
        ("model.txt", "lightgbm", "xgb", "written as xgboost_json"),
        ("xgboost.ubj", "xgboost_ubj", "lgb", "written as lightgbm"),
        ("checkpoint.tl", "treelite_checkpoint", "", "failed to load into Treelite"),
        ("xgboost.json", "xgboost_json", "half", "failed to load into Treelite with error"),
    ],
)
def test_wrong_files_do_not_load(
    deploy: Any, forests: dict[str, Forest], file: str, kind: str, content: str, words: str
) -> None:
    data = b"\x07" * 200
    if content == "half":
        data = forests["xgb"].content[:3000]
    elif content:
        data = forests[content].content
    files = {f"1/{file}": data} if file else {"1/empty": b""}
    with pytest.raises(LoadError) as caught:
        deploy(forests["xgb"], [1], files=files, model_type=kind)
    assert words in caught.value.message


def test_unknown_fields_of_a_newer_xgboost(
    server: Triton, deploy: Any, forests: dict[str, Forest]
) -> None:
    forest = forests["xgb"]
    newer = json.loads(forest.content)
    newer["learner"]["invented_later"] = {"a": [1]}
    files = {"1/xgboost.json": json.dumps(newer).encode()}
    with pytest.raises(LoadError, match="failed to load into Treelite with error"):
        deploy(forest, [1], files=files)
    name = deploy(forest, [1], files=files, xgboost_allow_unknown_field="true")
    got = ask(server, name, forest.rows)
    np.testing.assert_allclose(got, _margin_probability(forest), rtol=0, atol=forest.tolerance)


def test_values_that_the_real_backend_passes_over(
    server: Triton, deploy: Any, forests: dict[str, Forest]
) -> None:
    """Both generations' parameters load together; what is no number counts as left out."""
    forest = forests["xgb"]
    name = deploy(
        forest,
        [1],
        output_class="true",
        is_classifier="false",  # output_class wins
        threshold="0.5 of all",  # the number at its beginning
        storage_type="SPARSE",
        algo="NAIVE",
        layout="layered",
        chunk_size="32",
        blocks_per_sm="many",
        threads_per_tree="-4",
        transfer_threshold="2",
        use_experimental_optimizations="true",
        invented="yes",
    )
    p = _margin_probability(forest)
    np.testing.assert_array_equal(ask(server, name, forest.rows), (p > 0.5).astype(np.float32))


def test_is_classifier_alone(server: Triton, deploy: Any, forests: dict[str, Forest]) -> None:
    forest = forests["xgb"]
    name = deploy(forest, [1], output_class=None, is_classifier="true", threshold="0.5")
    assert set(ask(server, name, forest.rows)) == {0.0, 1.0}


def test_a_file_of_another_name(server: Triton, deploy: Any, forests: dict[str, Forest]) -> None:
    forest = forests["xgb"]
    files = {"1/booster.json": forest.content}
    more = 'default_model_filename: "booster.json"'
    got = ask(server, deploy(forest, [1], files=files, more=more), forest.rows)
    np.testing.assert_allclose(got, _margin_probability(forest), rtol=0, atol=forest.tolerance)


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


def test_the_old_binary_format_is_still_served(
    server: Triton, deploy: Any, forests: dict[str, Forest]
) -> None:
    """Recent XGBoost cannot write it, Treelite still reads it; it is the default model_type."""
    files = {"1/xgboost.model": _legacy_binary()}
    name = deploy(forests["xgb"], [1], files=files, features=2, model_type=None)
    got = ask(server, name, np.array([[9, 0], [9, 1]], np.float32))
    np.testing.assert_array_equal(got, [-1, 2])


def test_a_missing_config_is_refused_as_upstream(
    server: Triton, write_model: WriteModel, forests: dict[str, Forest]
) -> None:
    """FIL fills in nothing: neither its own name nor the tensors."""
    write_model("no_config", "", forests["xgb"].files)
    with pytest.raises(LoadError):
        server.load("no_config")
    write_model("no_tensors", 'backend: "fil"\nmax_batch_size: 8', forests["xgb"].files)
    with pytest.raises(LoadError):
        server.load("no_tensors")


# -- how requests are served ---------------------------------------------------------------------


def test_requests_are_batched_and_a_bad_one_fails_alone(
    server: Triton, deploy: Any, forests: dict[str, Forest]
) -> None:
    forest = forests["xgb"]
    more = "dynamic_batching { max_queue_delay_microseconds: 200000 }"
    name = deploy(forest, [-1], features=-1, more=more)
    good = [forest.rows[i : i + 1 + i % 3] for i in range(12)]
    with http.InferenceServerClient(server.url.removeprefix("http://"), concurrency=13) as client:
        waiting = [client.async_infer(name, [_input(rows)]) for rows in good]
        bad = client.async_infer(name, [_input(forest.rows[:2, :7])])
        answers = [one.get_result().as_numpy("output__0") for one in waiting]
        with pytest.raises(InferenceServerException, match="7 features a row; the model has 30"):
            bad.get_result()
    expected = _margin_probability(forest)
    for i, got in enumerate(answers):
        np.testing.assert_allclose(got, expected[i : i + 1 + i % 3], rtol=0, atol=forest.tolerance)
    (statistics,) = server.statistics(name)
    assert statistics["inference_count"] == sum(len(rows) for rows in good)
    assert statistics["execution_count"] < len(good)


def _stubs(server: Triton, model: str) -> list[psutil.Process]:
    assert server.pid is not None
    family = psutil.Process(server.pid).children(recursive=True)
    return [p for p in family if f"{model}_0" in " ".join(p.cmdline()) and "stub" in p.name()]


def test_threads_and_instances_are_those_of_the_config(
    server: Triton, deploy: Any, forests: dict[str, Forest]
) -> None:
    forest = forests["xgb_ten"]
    rows = np.tile(DIGIT_ROWS, (2, 1))[:64]
    used = {}
    for threads in (1, 5):
        name = deploy(forest, [10], cpu_nthread=str(threads))
        ask(server, name, rows[:1])
        (stub,) = _stubs(server, name)
        ask(server, name, rows)
        used[threads] = stub.num_threads()
    assert used[5] - used[1] == 4
    name = deploy(forest, [10], more="instance_group { count: 2 kind: KIND_CPU }")
    assert len(server.config(name)["instance_group"]) == 1
    assert server.config(name)["instance_group"][0]["count"] == 2


def test_shap_is_fast_enough_to_be_used(forests: dict[str, Forest]) -> None:
    """No quadratic cost in the rows: 8 times the rows take less than 32 times the time."""
    explainer = TreeShap(forests["xgb_ten"].tree)

    def seconds(count: int) -> float:
        rows = DIGITS[:count]
        best = math.inf
        for _ in range(3):
            start = time.perf_counter()
            explainer.explain(rows)
            best = min(best, time.perf_counter() - start)
        return best

    explainer.explain(DIGITS[:8])
    assert seconds(512) < 32 * seconds(64)
