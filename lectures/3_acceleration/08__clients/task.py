"""The task of 08__clients: a TaskGroup without a bound, which one bad request empties."""

from __future__ import annotations

import asyncio
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from workbook import measure
from workbook.lessons import files
from workbook.lessons.tasks import CannotTell, NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_COUNT, _BAD = 160, 50  # requests, and which of them has a wrong shape
_FEWEST, _MOST = 4, 16  # requests under way
_TRIES, _SECONDS = 3, 60


def start(folder: Path) -> Server:
    """Start a server with the waiting model, and copy the notebook's program."""
    home = Path(__file__).parent
    files.place(folder, home / "models/remote")
    shutil.copy(home / "clients/own.py", folder)
    return laboratory(folder)


@define(
    "clients.own",
    hints=(
        "Two things are missing: what happens to one task's error, and a bound.",
        "An error that leaves a task cancels all others. Catch InferenceServerException inside "
        "`ask`, and return it. For the bound, see `free` in clients/tasks.py.",
        "Make `free = asyncio.Semaphore(16)` in `send`, and put the call into `async with free:`.",
    ),
)
def own(server: Server) -> None:
    """Change own.py: all answers arrive although one request fails; its error stands in its place.
    The server has at most 16 requests at a time, and at least 4 on average."""
    numbers = [np.full((1, 1), n, np.float32) for n in range(_COUNT)]
    numbers[_BAD] = np.zeros((1, 2), np.float32)
    means = []
    for _ in range(_TRIES):
        before, began = measure.statistics(server, "remote"), time.perf_counter()
        answers = _sent(server, numbers)
        seconds = time.perf_counter() - began
        change = measure.counted(server, "remote", before, _COUNT - 1).iloc[0]
        _check(answers, int(change["requests"]))
        means.append(float(change["request_ns"]) / 1e9 / seconds)  # Little's law
        if means[-1] > 1.1 * _MOST:
            raise NotYet(f"On average {means[-1]:.0f} requests were at the server.")
        if means[-1] >= _FEWEST:
            return
    if max(means) < _FEWEST / 2:
        raise NotYet(f"On average, only {max(means):.1f} requests were at the server.")
    raise CannotTell(f"On average {max(means):.1f} requests were at the server.")


def _sent(server: Server, numbers: list[Any]) -> Any:
    """What the reader's function returns.

    Raises:
        NotYet: the file lacks the function, or the function raised an error or never ended.
    """
    file = server.repository / "own.py"
    names: dict[str, Any] = {}

    def run() -> Any:  # in a thread: the notebook's own has an event loop
        sent = names["send"](server.grpc_url, numbers)
        return asyncio.run(asyncio.wait_for(sent, _SECONDS))

    try:
        exec(compile(file.read_text("utf-8"), str(file), "exec"), names)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(run).result()
    except FileNotFoundError:
        raise NotYet("There is no own.py yet: run the cell above.") from None
    except ExceptionGroup as group:
        first = group.exceptions[0]
        raise NotYet(f"No answer arrived. send raised {type(first).__name__}: {first}") from None
    except Exception as error:
        raise NotYet(f"own.py ended with {type(error).__name__}: {error}") from None


def _check(answers: Any, computed: int) -> None:
    """Each number has its double, and the bad request an error; the server computed all others."""
    if not isinstance(answers, list) or len(answers) != _COUNT:
        raise NotYet(f"send must return a list of {_COUNT}: an answer or an error for each array.")
    if not isinstance(answers[_BAD], Exception):
        raise NotYet(f"In place {_BAD}, whose request failed, there is no error.")
    good = [place for place in range(_COUNT) if place != _BAD]
    wrong = [place for place in good if not np.array_equal(answers[place], [[2 * place]])]
    if wrong:
        raise NotYet(f"{len(wrong)} answers are missing or wrong, the first in place {wrong[0]}.")
    if computed != len(good):
        raise NotYet(f"The server computed {computed} requests, not {len(good)}.")
