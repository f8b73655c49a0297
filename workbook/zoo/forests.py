"""Tree ensembles on breast cancer (two classes) and on digits (ten), in the formats FIL reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import data
from .recipe import Recipe


def _split(name: str) -> data.Split:
    return data.breast_cancer() if name == "cancer" else data.digit_rows()


def save_xgboost(model: Any, target: Path | str) -> None:
    """Save an XGBoost model as JSON, or UBJSON, that FIL reads in older containers as well.

    Since 3.1 XGBoost writes two things that Treelite before 4.6, and so FIL in containers before
    26.01, cannot read: `base_score` as a list, `"[5E-1]"`, and a section `cats`, which is empty
    where no column of the training table holds names. Here `base_score` is the number alone, and
    the empty section is left out. XGBoost reads such a file as well.

    Args:
        model: an `XGBModel` or a `Booster`.
        target: the file. It is UBJSON where its name ends in `.ubj`, else JSON. FIL looks for
            `xgboost.json` or `xgboost.ubj` by default.

    Raises:
        ValueError: older containers cannot read this model in any form: its classes have a
            `base_score` each, or its file would hold names of categories.

    Example:
        model = xgboost.XGBClassifier(n_estimators=50).fit(split.x_train, split.y_train)
        save_xgboost(model, "models/forest/1/xgboost.json")
    """
    path = Path(target)
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    saved = json.loads(booster.save_raw("json"))
    learner = saved["learner"]
    scores = set(learner["learner_model_param"]["base_score"].strip("[]").split(","))
    if len(scores) > 1:
        raise ValueError(
            f"{path.name} was not written: the model has a base_score for each class, and FIL "
            "before 26.01 reads one. Train with base_score=0.5, and save it again."
        )
    if _trees(learner).pop("cats", {"enc": []})["enc"]:
        raise ValueError(
            f"{path.name} was not written: a column of the training table holds names of "
            "categories, and FIL receives numbers only. Write a number for each category "
            "(column.cat.codes) before you train, and save it again."
        )
    score = scores.pop()
    learner["learner_model_param"]["base_score"] = score
    if path.suffix == ".ubj":
        path.write_bytes(_older_ubjson(booster.save_raw("ubj"), score))
        return
    path.write_text(json.dumps(saved))


def _trees(learner: Mapping[str, Any]) -> dict[str, Any]:
    """The section of a saved model that holds its trees; `dart` has it one level below."""
    booster = learner["gradient_booster"]
    trees: dict[str, Any] = booster.get("gbtree", booster)["model"]
    return trees


def _older_ubjson(content: bytes, score: str) -> bytes:
    """XGBoost's UBJSON with `score` for its `base_score`, and without the empty section `cats`."""
    whole = re.escape(_key("base_score") + b"S") + rb"L.{8}\[[^]]*\]"
    given = _key("base_score") + b"S" + _length(len(score)) + score.encode()
    content = re.sub(whole, lambda _: given, content, count=1, flags=re.DOTALL)
    empty = b"".join(
        (
            *(_key("cats"), b"{", _key("enc"), b"[#", _length(0)),
            *(_key("feature_segments"), b"[$l#", _length(0)),
            *(_key("sorted_idx"), b"[$l#", _length(0), b"}"),
        )
    )
    return content.replace(empty, b"", 1)


def _key(name: str) -> bytes:
    """A key as XGBoost writes it into UBJSON: its length in eight bytes, and its letters."""
    return _length(len(name)) + name.encode()


def _length(count: int) -> bytes:
    return b"L" + count.to_bytes(8, "big")


def _xgboost(name: str) -> Callable[[Path], None]:
    def build(target: Path) -> None:
        import xgboost

        split = _split(name)
        model = xgboost.XGBClassifier(
            n_estimators=60, max_depth=4, base_score=0.5, n_jobs=1, random_state=0
        )
        model.fit(split.x_train, split.y_train)
        save_xgboost(model, target)

    return build


def _lightgbm(name: str) -> Callable[[Path], None]:
    def build(target: Path) -> None:
        import lightgbm

        split = _split(name)
        model = lightgbm.LGBMClassifier(
            n_estimators=60, num_leaves=15, n_jobs=1, random_state=0, deterministic=True, verbose=-1
        )
        model.fit(split.x_train, split.y_train)
        model.booster_.save_model(target)

    return build


def _sklearn(name: str) -> Callable[[Path], None]:
    def build(target: Path) -> None:
        import joblib  # type: ignore[import-untyped]
        from sklearn.ensemble import RandomForestClassifier

        split = _split(name)
        model = RandomForestClassifier(n_estimators=60, max_depth=10, n_jobs=1, random_state=0)
        joblib.dump(model.fit(split.x_train, split.y_train), target)

    return build


def _treelite(name: str) -> Callable[[Path], None]:
    def build(target: Path) -> None:
        import joblib
        import treelite

        from . import checkpoint

        treelite.sklearn.import_model(joblib.load(checkpoint(f"{name}_sklearn"))).serialize(target)

    return build


def _recipes(name: str, what: str) -> tuple[Recipe, ...]:
    packages = ("scikit-learn",)
    return (
        Recipe(
            f"{name}_xgboost",
            f"XGBoost on {what}, as JSON",
            _xgboost(name),
            "xgboost.json",
            packages=(*packages, "xgboost"),
        ),
        Recipe(
            f"{name}_lightgbm",
            f"LightGBM on {what}, as text",
            _lightgbm(name),
            "model.txt",
            packages=(*packages, "lightgbm"),
        ),
        Recipe(
            f"{name}_sklearn",
            f"a scikit-learn random forest on {what}, pickled with joblib",
            _sklearn(name),
            "forest.joblib",
            packages=packages,
        ),
        Recipe(
            f"{name}_treelite",
            f"the scikit-learn random forest on {what} as a treelite checkpoint",
            _treelite(name),
            "checkpoint.tl",
            needs=(f"{name}_sklearn",),
            packages=(*packages, "treelite"),
        ),
    )


RECIPES = (
    *_recipes("cancer", "breast cancer, 30 measurements"),
    *_recipes("digits", "digits, 64 pixels"),
)
