"""For 01__first_model: try to serve and to ask, and plot the times of three ways to ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tritonclient.utils import InferenceServerException

from workbook.common.errors import LoadError
from workbook.lessons.workspace import laboratory
from workbook.measure import style


def try_to_serve(models: Path) -> tuple[list[str], str]:
    """Start a server on a folder, look which models it offers, and stop it.

    Args:
        models: a model repository.

    Returns:
        The names of the models, and the server's message if it refused one, else "".

    Example:
        names, message = try_to_serve(models)
    """
    try:
        with laboratory(models) as server:
            return [model["name"] for model in server.index(ready_only=True)], ""
    except LoadError as error:
        return [], error.message


def which(names: list[str]) -> str:
    """Return the option of the question `first_model.name` that fits the models' names."""
    options = {
        ("digits",): "digits: the folder's name wins",
        ("add_sub",): "add_sub: the config's name wins",
        (): "none: Triton refuses to load it",
    }
    return options.get(tuple(names), "both names, for the same model")


def try_to_ask(ask: Callable[[], Any]) -> tuple[int, str]:
    """Send a request that the server may refuse.

    Args:
        ask: a function without arguments that returns one row per answer.

    Returns:
        The number of answers, and the server's message if it refused, else "".

    Example:
        answers, message = try_to_ask(lambda: ask(client, http, pictures[:9]))
    """
    try:
        return len(ask()), ""
    except InferenceServerException as error:
        return 0, str(error.message())


def time_each(ways: Mapping[str, Callable[[], Any]], rounds: int = 40) -> pd.DataFrame:
    """Ask in each way in turn, so that all of them meet the same load of the machine.

    Args:
        ways: functions without arguments, by the name that the plot shows.
        rounds: how often each is called.

    Returns:
        One column per way, one row per round; in milliseconds.

    Example:
        time_each({"gRPC": by_grpc, "HTTP, JSON": by_json})
    """
    rows = []
    for _ in range(rounds):
        row = {}
        for name, ask in ways.items():
            began = time.perf_counter()
            ask()
            row[name] = (time.perf_counter() - began) * 1000
        rows.append(row)
    return pd.DataFrame(rows)


def plot_ways(times: pd.DataFrame) -> style.Picture:
    """Draw a table of `time_each`: one row of dots per way, and a line at the median.

    Args:
        times: one column per way, in milliseconds.

    Returns:
        A figure, which shows itself as a cell's last expression.

    Example:
        plot_ways(time_each(ways))
    """
    medians = times.median()
    summary = ", ".join(f"{name} {value:.1f} ms" for name, value in medians.items())
    figure = style.Picture(8.4, 0.9 + 0.45 * len(times.columns), f"Medians: {summary}")
    axes = figure.subplots()
    style.panel(axes, "One picture, asked many times", below="ms per request", grid="x")
    for place, name in enumerate(times.columns):
        lift = np.linspace(-0.2, 0.2, len(times))
        axes.plot(
            times[name], place + lift, style.MARKS[place], color=style.COLOURS[place],
            markersize=4, alpha=0.6, linestyle="none",
        )  # fmt: skip
        axes.plot([medians[name]] * 2, [place - 0.34, place + 0.34], color=style.GREY, linewidth=2)
        axes.text(
            medians[name], place - 0.4, f"{medians[name]:.1f}", color=style.GREY, ha="center",
            fontsize=9,
        )  # fmt: skip
    axes.set_yticks(range(len(times.columns)), [str(name) for name in times.columns])
    axes.set_ylim(len(times.columns) - 0.4, -0.75)
    axes.set_xlim(0, 1.3 * float(times.quantile(0.95).max()))
    axes.tick_params(axis="y", length=0)
    return figure
