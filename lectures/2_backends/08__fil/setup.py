"""For 08__fil: the cost of each file format, the speed of forests, and two figures."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import measure, zoo
from workbook.lessons import place
from workbook.lessons.formats import loaded, size_mb
from workbook.lessons.premises import Premise
from workbook.lessons.runs import infer
from workbook.lessons.workspace import version
from workbook.measure import style
from workbook.server import Server, Triton

Array = npt.NDArray[np.float32]

PIXELS = 64
#: Rows in one request, in `speeds`.
SIZES = (1, 16, 256)
_SECONDS = 0.25  # seconds of calls to a library, and of a window of perf_analyzer
#: The configs of the notebook's models.
HERE = Path(__file__).parent / "models"


def print_warnings(save: Callable[[Path], object], file: Path) -> None:
    """Call a function that saves a model, and print its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save(file)
    for each in caught:
        print(str(each.message).partition("c_api.cc")[2].partition(": ")[2] or each.message)


def load_all(server: Triton, rows: Array, expected: Mapping[str, Array]) -> pd.DataFrame:
    """Load models that answer with probabilities, and compare these with their libraries'.

    Args:
        rows: float32 (n, features).
        expected: by model, the probabilities (n, classes) of its library.

    Returns:
        One row per model; columns `file`, `MB`, `load, s`, `largest
        difference` of a probability, as a text, and `classes changed`.
    """
    found = {}
    for name, own in expected.items():
        began = time.perf_counter()
        server.load(name)
        took = time.perf_counter() - began
        served = infer(server, name, input__0=rows)["output__0"]
        (file,) = (server.repository / name / "1").iterdir()
        found[name] = {
            "file": file.name,
            "MB": round(size_mb(file), 2),
            "load, s": round(took, 2),
            "largest difference": f"{np.abs(served - own).max():.0e}",
            "classes changed": int((served.argmax(axis=1) != own.argmax(axis=1)).sum()),
        }
    return pd.DataFrame(found).T


def speeds(
    server: Triton, model: str, in_process: Callable[[Array], object], rows: Array
) -> pd.DataFrame:
    """Measure rows per second with 1 to 256 rows per request, served and in this process.

    Requests follow one another, and each way has two turns. All ways compute the same rows,
    because a tree's time depends on the numbers.

    Args:
        model: its file is `xgboost.json`.
        in_process: the library, called in this process with one thread.
        rows: the data, float32 (n, features), n at least the largest of `SIZES`.

    Returns:
        One row per size; columns `served` and `in-process`, rows per second, the better of two; and
        `spread`: the gain over one row in the better round, divided by the gain in the other round.

    Raises:
        WorkbookError: the model is not loaded.
    """
    loaded(server, model)
    ways: dict[str, Callable[[int], float]] = {
        "served": lambda size: _served(server, model, rows[:size]),
        "in-process": lambda size: _rate(in_process, rows[:size]),
    }
    rounds = [[[rate(size) for size in SIZES] for rate in ways.values()] for _ in range(2)]
    rates = np.array(rounds)  # (rounds, ways, sizes)
    gains = rates / rates[:, :, :1]  # gain over one row, in the same round
    columns = dict(zip(ways, rates.max(axis=0), strict=True))
    columns["spread"] = (gains.max(axis=0) / gains.min(axis=0)).max(axis=0)
    return pd.DataFrame(columns, index=pd.Index(SIZES, name="rows per request"))


def agreed(table: pd.DataFrame) -> Premise:
    """Premise: the gain of many rows per request was about the same in both rounds."""
    apart = float(table["spread"].max())
    return Premise(
        apart < 3,
        f"the gain of many rows per request over one row was {apart:.1f} times larger in one round "
        "than in the other, because other programs used the cores in one of them",
    )


def _served(server: Triton, model: str, rows: Array) -> float:
    """Measure the served rows per second if each request has these rows."""
    table = measure.perf(
        server,
        model,
        batch_size=len(rows),
        input_data=[{"input__0": row} for row in rows],
        interval_ms=round(_SECONDS * 1000),
        stability=1e6,
        trials=3,
    )
    return float(table["throughput"].item())


def _rate(predict: Callable[[Array], object], rows: Array) -> float:
    predict(rows)
    done, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < _SECONDS:
        predict(rows)
        done += len(rows)
    return done / passed


def forest_counts(
    server: Server, models: Path, digits: zoo.data.Split, limits: Sequence[str]
) -> dict[str, int]:
    """Count per threshold the test digits that a scikit-learn forest of two classes calls an 8.

    Args:
        models: the repository of the server; the forest is written into it, as `forest_of_two`.
        digits: from `zoo.data.digit_rows`.
        limits: the thresholds, as the config has them.
    """
    import treelite
    from sklearn.ensemble import RandomForestClassifier

    trees = RandomForestClassifier(n_estimators=60, max_depth=8, n_jobs=1, random_state=1)
    trees.fit(digits.x_train, digits.y_train == 8)
    counts = {}
    file = version(models, "forest_of_two") / "checkpoint.tl"
    treelite.sklearn.import_model(trees).serialize(file)
    text = (HERE / "verdict/config.pbtxt").read_text("utf-8")
    text = text.replace("xgboost_json", "treelite_checkpoint")
    for limit in limits:
        config = text.replace('"0.5"', f'"{limit}"')
        (models / "forest_of_two/config.pbtxt").write_text(config, "utf-8")
        server.load("forest_of_two")
        answers = infer(server, "forest_of_two", input__0=digits.x_test)["output__0"]
        counts[limit] = int(answers.sum())
    return counts


def sure(likely: Array) -> Premise:
    """Premise: the model is sure of at least one row."""
    return Premise(float(likely.max()) > 0.9, "the model gives no row a probability above 0.9")


def plot_speeds(table: pd.DataFrame) -> style.Picture:
    """Draw milliseconds per request, and rows per second, over the rows per request."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    sizes = [int(size) for size in table.index]
    figure = style.Picture(8.6, 2.6, f"Rows per second: {table['served'].round().to_dict()}")
    for axes, title, unit in zip(
        figure.subplots(1, 2), ("Rows per second", "Milliseconds per request"), (1, 0), strict=True
    ):
        style.panel(axes, title, below="rows per request")
        for name, colour, mark in zip(
            ("served", "in-process"), style.COLOURS, style.MARKS, strict=False
        ):
            rates = table[name].to_numpy(float)
            values = rates if unit else 1000 * np.array(sizes) / rates
            axes.plot(sizes, values, color=colour, marker=mark, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 4, 6) if high < 20 * low else (1, 3)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        style.legend(axes)
    return figure


def plot_shares(rows: Array, shares: Array, scores: Array, digits: Array) -> style.Picture:
    """Draw three digits, and below each the share of each pixel in the score "an 8".

    The three are the 8 with the highest score, the 8 with the lowest score, and the other digit
    with the highest score.

    Args:
        rows: pixels (n, 64) in 0..1.
        shares: SHAP values (n, 65); the last is the bias.
        scores: probabilities of an 8, (n,).
        digits: the digit that each row shows, (n,).
    """
    eight = digits == 8
    chosen = [np.where(eight, scores, -1).argmax(), np.where(eight, scores, 2).argmin(),
              np.where(eight, -1, scores).argmax()]  # fmt: skip
    most = float(np.abs(shares[chosen, :PIXELS]).max())
    figure = style.Picture(8.6, 3.6, "Pixels that speak for an 8 and against it, of three digits")
    panels = figure.subplots(2, len(chosen))
    for column, row in enumerate(chosen):
        above, below = panels[0][column], panels[1][column]
        above.imshow(rows[row].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        title = f"{'an' if eight[row] else 'a'} {digits[row]}: {scores[row]:.2f} that it is an 8"
        above.set_title(title, color=style.GREY, fontsize=10)
        drawn = below.imshow(shares[row, :PIXELS].reshape(8, 8), cmap="PuOr", vmin=-most, vmax=most)
        for axes in (above, below):
            axes.set_xticks([])
            axes.set_yticks([])
    bar = figure.colorbar(drawn, ax=panels, shrink=0.45, anchor=(0, 0))
    bar.set_label("against    for", color=style.GREY)
    bar.ax.tick_params(colors=style.GREY)
    return figure


@functools.cache
def forest() -> Any:
    """Train the forest of the task: scikit-learn, ten digits, 60 trees."""
    from sklearn.ensemble import RandomForestClassifier

    digits = zoo.data.digit_rows()
    trees = RandomForestClassifier(n_estimators=60, max_depth=8, n_jobs=1, random_state=1)
    return trees.fit(digits.x_train, digits.y_train)


def pickled(models: Path) -> None:
    """Write the model of the task: a scikit-learn forest, which lies in the repository as a pickle.

    An existing folder stays as it is, because it may hold the reader's work.

    Args:
        models: the repository.
    """
    import joblib  # type: ignore[import-untyped]

    if (models / "pickled").exists():
        return
    place(models, HERE / "pickled")
    joblib.dump(forest(), version(models, "pickled") / "forest.joblib")
