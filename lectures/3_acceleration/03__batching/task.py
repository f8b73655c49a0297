"""The task of 03__batching: a program that calls its library once per execution."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from workbook import measure
from workbook.common.errors import RequestError
from workbook.lessons import files
from workbook.lessons.runs import infer
from workbook.lessons.tasks import CannotTell, NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

#: How many rows each request has.
_ROWS = (1, 2, 1, 3, 1, 1, 2, 1, 1, 3)
_TRIES = 3


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it."""
    files.place(folder, Path(__file__).parent / "models/slow")
    return laboratory(folder)


@define(
    "batching.slow",
    hints=(
        "`execute` gets the requests of a batch. How often does it call `library.double`?",
        "np.concatenate joins the rows of all requests. One call computes them.",
        "A request may have several rows: np.split cuts the result where each request's rows end, "
        "so at np.cumsum of their numbers, without the last one.",
    ),
)
def slow(server: Server) -> None:
    """The program of slow calls its library once per execution, and each request gets the answer
    to its own rows."""
    for _ in range(_TRIES):
        before = measure.statistics(server, "slow")
        with ThreadPoolExecutor(len(_ROWS)) as pool:
            calls = sum(pool.map(lambda i: _calls(server, i), range(len(_ROWS))))
        change = measure.counted(server, "slow", before, len(_ROWS))
        executions = int(change["executions"].item())
        if executions < len(_ROWS) - 2:
            break
    else:
        raise CannotTell("The requests did not come at the same time, so there were no batches.")
    if round(calls) > executions:
        raise NotYet(f"In {executions} executions, the library was called {calls:.0f} times.")


def _calls(server: Server, number: int) -> float:
    """Send a request; returns its rows' shares of the library's calls."""
    x = (10 * number + np.arange(_ROWS[number], dtype=np.float32))[:, None]
    try:
        y = infer(server, "slow", X=x)["Y"]
    except RequestError as error:
        raise NotYet(f"A request failed: {error.what}") from None
    if y.shape != (len(x), 2):
        raise NotYet(
            f"A request of {len(x)} rows got an answer of the shape {list(y.shape)}, not "
            f"{[len(x), 2]}."
        )
    if not np.array_equal(y[:, 0], 2 * x[:, 0]):
        raise NotYet("A request got the answer to other rows than its own.")
    return float((1 / y[:, 1]).sum())
