"""For 08__fil: the configs, the speed of forests, two figures, and the task's pickle."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import measure, zoo
from workbook.lessons import place
from workbook.lessons.premises import Premise
from workbook.lessons.workspace import version
from workbook.measure import style

Array = npt.NDArray[np.float32]

PIXELS = 64
#: Rows in one request, in `read_speeds`.
SIZES = (1, 16, 256)
#: The configs of the notebook's models.
HERE = Path(__file__).parent / "models"
#: Those that the notebook's first cell copies; the other one is the task's.
CONFIGS = tuple(sorted(folder for folder in HERE.iterdir() if folder.name != "pickled"))


def read_speeds(reports: Path, inside: Sequence[Sequence[float]]) -> pd.DataFrame:
    """Read perf_analyzer's reports `rows_1.1.csv` to `rows_256.2.csv`: two rounds of three sizes.

    Args:
        reports: their folder.
        inside: rows per second of the library in the notebook's process: per round, one per size.

    Returns:
        One row per size; columns `served` and `in-process`, rows per second, the better of two; and
        `spread`: the gain over one row in the better round, divided by the gain in the other round.

    Raises:
        WorkbookError: a report is missing.
    """
    served = [
        measure.read_reports(*(reports / f"rows_{size}.{turn}.csv" for size in SIZES))["throughput"]
        for turn in (1, 2)
    ]
    rates = np.array([served, inside]).swapaxes(0, 1)  # (rounds, ways, sizes)
    gains = rates / rates[:, :, :1]  # gain over one row, in the same round
    columns = dict(zip(("served", "in-process"), rates.max(axis=0), strict=True))
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
