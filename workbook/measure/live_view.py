"""`watch`: a live view of one model while load runs: batch sizes, times, throughput.

At each step the server's statistics are read, and the differences to the last step are drawn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..common.errors import WorkbookError
from ..common.unattended import unattended
from ..server import Server
from . import plots, server_statistics, style
from .server_argument import as_server

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TIMES = {
    "queue_ms": "queue",
    "compute_input_ms": "input",
    "compute_infer_ms": "infer",
    "compute_output_ms": "output",
}
#: As in `measure.statistics`, but per step, with the seconds since the start.
COLUMNS = ["seconds", "throughput", "batch_size", *_TIMES, "requests", "executions"]


def watch(
    server: Server | str | None,
    model: str,
    load: Callable[[], Any],
    *,
    step: float = 1.0,
    title: str = "",
) -> pd.DataFrame:
    """Run a function that makes load, and show what a model does meanwhile.

    In a notebook the figure is drawn anew at each step. Where a program executes the notebook
    (nobody watches), it is drawn once, at the end.

    Args:
        server: a server, the URL of its HTTP endpoint, or None for the one that is running.
        model: the model's name; all its versions count together.
        load: a function that makes load; it runs in a thread of its own, and the view ends with it.
        step: seconds between two readings of the statistics.
        title: a line above the figure.

    Returns:
        One row per step: `seconds` since the start, `throughput` (inferences per second),
        `batch_size` (mean), `queue_ms`, `compute_input_ms`, `compute_infer_ms`,
        `compute_output_ms` (means per request), `requests` and `executions`.

    Raises:
        WorkbookError: nothing was answered while the load ran.
        Exception: whatever `load` raised.

    Example:
        def load():
            measure.perf(server, "digits_onnx", concurrency=16)

        measure.watch(server, "digits_onnx", load, title="16 requests at a time")
    """
    from IPython import display

    connection = as_server(server)
    style.Picture(1, 1)._repr_mimebundle_()  # load fonts now, not while the load runs
    failed: list[BaseException] = []

    def run() -> None:
        try:
            load()
        except BaseException as error:  # raised again below, in the reader's thread
            failed.append(error)

    worker = threading.Thread(target=run, daemon=True)
    began = time.perf_counter()
    first = before = server_statistics.statistics(connection, model)
    rows: list[dict[str, float]] = []
    batches: dict[int, int] = {}
    then, handle = began, None
    worker.start()
    while True:
        worker.join(step)
        now, after = time.perf_counter(), server_statistics.statistics(connection, model)
        row = _row(server_statistics.difference(before, after), now - began, now - then)
        batches = plots.all_batches(server_statistics.difference(first, after))
        if row["requests"] and (not rows or now - then > step / 2):  # the last may be a short rest
            rows.append(row)
        before, then, alive = after, now, worker.is_alive()
        if rows and (not alive or not unattended()):
            picture = draw(pd.DataFrame(rows, columns=COLUMNS), batches, title=title or model)
            if handle is None:
                handle = display.display(picture, display_id=True)  # type: ignore[no-untyped-call]
            else:
                handle.update(picture)
        if not alive:
            break
    if failed:
        raise failed[0]
    if not rows:
        raise WorkbookError(
            f"{model} answered nothing while the load ran.",
            todo="Does the load name this model, and this server?",
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(table: pd.DataFrame, batches: dict[int, int], *, title: str = "") -> style.Picture:
    """The three panels of `watch`, from its table and the executions by batch size."""
    mean = sum(size * n for size, n in batches.items()) / max(1, sum(batches.values()))
    last = table.iloc[-1]
    figure = style.Picture(
        8.6, 3.1,
        f"{title}: {sum(batches.values())} executions of {mean:.1f} inferences on average; in the "
        f"last step {last['throughput']:.0f} inferences/s, {last['queue_ms']:.1f} ms in the queue.",
    )  # fmt: skip
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1.15, 1.15])
    style.panel(left, "Executions by batch size", below="rows in one execution")
    plots.draw_batches(left, batches)
    _times(middle, table)
    style.panel(right, "Throughput (inferences/s)", below="seconds")
    right.plot(
        table["seconds"], table["throughput"], color=style.COLOURS[0], marker="o", linewidth=2,
        markersize=4,
    )  # fmt: skip
    right.set_xlim(left=0)
    right.set_ylim(0, 1.15 * table["throughput"].max())
    if title:
        figure.suptitle(title, color=style.GREY, fontsize=12, x=0.01, ha="left")
    return figure


def _times(axes: Axes, table: pd.DataFrame) -> None:
    style.panel(axes, "A request's time (ms)", below="seconds")
    lengths = table["seconds"].diff().fillna(table["seconds"].iloc[0])
    bottom = pd.Series(0.0, index=table.index)
    for name, label in _TIMES.items():
        part = table[name].fillna(0.0)
        axes.bar(
            table["seconds"] - lengths / 2, part, 0.85 * lengths, bottom=bottom, label=label,
            **style.fill(name.removesuffix("_ms")),
        )  # fmt: skip
        bottom += part
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.35 * max(float(bottom.max()), 1e-3))
    style.legend(axes, ncols=2)


def _row(between: pd.DataFrame, seconds: float, length: float) -> dict[str, float]:
    """One step's row; the means over all versions are weighted with their requests."""
    requests, executions = int(between["requests"].sum()), int(between["executions"].sum())
    inferences = int(between["inferences"].sum())
    row = {
        "seconds": seconds,
        "throughput": inferences / length,
        "batch_size": inferences / executions if executions else float("nan"),
        "requests": requests,
        "executions": executions,
    }
    for name in _TIMES:
        total = between[f"{name[:-3]}_ns"].sum()
        row[name] = total / requests / 1e6 if requests else float("nan")
    return row
