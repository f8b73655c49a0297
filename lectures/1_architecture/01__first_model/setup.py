"""For 01__first_model: the model's folder, a line of the log, and a plot of three ways to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from workbook.lessons.files import place
from workbook.lessons.shared import digits_model
from workbook.measure import style

HERE = Path(__file__).parent


def digits(models: Path) -> style.Picture:
    """Copy the model that lies beside the notebook, train its weights, and draw nine pictures.

    Args:
        models: the repository's folder.

    Returns:
        The first nine pictures of digits.
    """
    place(models, HERE / "models/digits")
    digits_model.save_weights(models / "digits/1/weights.npy")
    return digits_model.show_pictures(load_digits().images[:9, None] / 16)


def last_line(log: str, words: str) -> str:
    """Return the log's last message that contains `words`, without time and file; "" if none does.

    Args:
        log: from `Triton.log_text`.
        words: the text to look for.

    Example:
        last_line(lab.log_text(), "add_sub")
    """
    lines = [line for line in log.splitlines() if words in line]
    return lines[-1].split("] ", 1)[-1].strip('"') if lines else ""


def plot_ways(measured: Mapping[str, Sequence[float]]) -> style.Picture:
    """Draw the times of several ways to ask: one row of dots per way, and a line at the median.

    Args:
        measured: the name of each way → its times in milliseconds.

    Returns:
        A figure, which shows itself as a cell's last expression.

    Example:
        plot_ways({"HTTP, JSON": [1.7, 1.6], "gRPC": [0.9, 0.8]})
    """
    times = pd.DataFrame(dict(measured))
    medians = times.median()
    summary = ", ".join(f"{name} {value:.1f} ms" for name, value in medians.items())
    figure = style.Picture(8.4, 0.9 + 0.45 * len(times.columns), f"Medians: {summary}")
    axes = figure.subplots()
    style.panel(axes, "One picture, asked many times", below="ms per request", grid="x")
    for row, name in enumerate(times.columns):
        lift = np.linspace(-0.2, 0.2, len(times))
        axes.plot(
            times[name], row + lift, style.MARKS[row], color=style.COLOURS[row],
            markersize=4, alpha=0.6, linestyle="none",
        )  # fmt: skip
        axes.plot([medians[name]] * 2, [row - 0.34, row + 0.34], color=style.GREY, linewidth=2)
        axes.text(
            medians[name], row - 0.4, f"{medians[name]:.1f}", color=style.GREY, ha="center",
            fontsize=9,
        )  # fmt: skip
    axes.set_yticks(range(len(times.columns)), [str(name) for name in times.columns])
    axes.set_ylim(len(times.columns) - 0.4, -0.75)
    axes.set_xlim(0, 1.3 * float(times.quantile(0.95).max()))
    axes.tick_params(axis="y", length=0)
    return figure
