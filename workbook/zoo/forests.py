"""Tree ensembles on breast cancer (two classes) and on digits (ten), in the formats FIL reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import data
from .recipe import Recipe


def _split(name: str) -> data.Split:
    return data.breast_cancer() if name == "cancer" else data.digit_rows()


def save_xgboost(model: Any, target: Path | str) -> None:
    """Save an XGBoost model as JSON that every version of the FIL backend reads.

    Since 3.1 XGBoost writes `base_score` as a list, `"[5E-1]"`, which the FIL backend of older
    containers cannot read. Here it is the number alone, which XGBoost reads as well.

    Args:
        model: an `XGBModel` or a `Booster` whose `base_score` is one number.
        target: the file; the FIL backend looks for `xgboost.json` by default.

    Example:
        model = xgboost.XGBClassifier(n_estimators=50).fit(split.x_train, split.y_train)
        save_xgboost(model, "models/forest/1/xgboost.json")
    """
    model.save_model(target)
    saved = json.loads(Path(target).read_text())
    parameters = saved["learner"]["learner_model_param"]
    parameters["base_score"] = parameters["base_score"].strip("[]").split(",")[0]
    Path(target).write_text(json.dumps(saved))


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
