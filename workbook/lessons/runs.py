"""One run of a plan on a server that traces: the answers, the executions, and the counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import pandas as pd

from .. import measure
from ..server import Server
from ..server.explain import explain
from .premises import Premise, arrived_together, attempt

Array = npt.NDArray[Any]

#: The columns of `measure.send`.
ANSWERS = ["id", "sent_ms", "answered_ms", "ms", "error", "outputs"]


@dataclass(frozen=True)
class Run:
    """What the server did with a plan.

    Attributes:
        answers: of `measure.send`, one row per request, with `error` if it was refused. If a
            function sent the requests, the table that it returned, or one without rows.
        places: of `measure.executions`, one row per request that was computed.
        counts: what the statistics endpoint counted meanwhile, of `measure.difference`.
        spans: of `measure.traces`, for `measure.plot_timeline`.
    """

    answers: pd.DataFrame
    places: pd.DataFrame
    counts: pd.DataFrame
    spans: pd.DataFrame

    @property
    def refused(self) -> pd.DataFrame:
        """The answers that are errors."""
        return self.answers[self.answers["error"] != ""]

    @property
    def sizes(self) -> list[int]:
        """The number of requests of each execution, in the order in which they began."""
        first = self.places.drop_duplicates("execution").sort_values("start_ms")
        return [int(size) for size in first["size"]]

    @property
    def together(self) -> Premise:
        """Premise: all requests had come before the first one was done, in their first model."""
        return arrived_together(self.places[self.places["model"] == self.places["model"].iloc[0]])

    def count(self, name: str) -> float:
        """One of the counts, e.g. "executions", "inferences", or "batch_size", their ratio."""
        return float(self.counts[name].item())


def record(
    server: Server, model: str, requests: Iterable[measure.Request] | Callable[[], object]
) -> Run:
    """Send requests to a server that was started by `laboratory`, and record what it does.

    Example:
        run = record(lab, "eager", measure.every(5, 40))        # a plan
        run.count("executions"), run.sizes
        run = record(lab, "eager", lambda: steady("eager", 200))    # a function of the notebook

    Args:
        requests: a plan, or a function that sends requests and returns when they are answered. If
            it returns a table like that of `measure.send`, this becomes `answers`.

    Raises:
        WorkbookError: the plan is empty, or the server has no trace file.
        ServerError: no server, or no such model.
    """
    before = measure.statistics(server, model)
    answers = pd.DataFrame(columns=ANSWERS)
    with measure.recording(server) as seen:
        returned = requests() if callable(requests) else measure.send(server, model, requests)
        if isinstance(returned, pd.DataFrame):
            answers = returned
    if "error" not in answers or answers.empty:
        counts = measure.difference(before, measure.statistics(server, model))
    else:
        served = int((answers["error"] == "").sum())
        counts = measure.counted(server, model, before, served)
    return Run(answers, measure.executions(seen.spans), counts, seen.spans)


def record_together(server: Server, model: str, plan: Iterable[measure.Request]) -> Run:
    """As `record`, but send the plan again if some requests did not arrive in time.

    Example:
        run = record_together(lab, "single", measure.every(1, 6))
        run.together                    # the premise of what the run shows

    Raises:
        WorkbookError: the plan is empty, or the server has no trace file.
        ServerError: no server, or no such model.
        RequestError: the server refused all requests.
    """
    requests = list(plan)

    def experiment() -> Run:
        run = record(server, model, requests)
        if len(run.refused) == len(run.answers):
            raise explain(run.refused["error"].iloc[0], server, model)
        return run

    return attempt(experiment, lambda run: run.together)


def infer(server: Server, model: str, **tensors: Array) -> dict[str, Array]:
    """Send one request over gRPC.

    Args:
        tensors: arrays by the inputs' names.

    Returns:
        Arrays by the outputs' names.

    Raises:
        RequestError: the server answered with an error.
    """
    answer = measure.send(server, model, [measure.Request("r", inputs=tensors)]).iloc[0]
    if answer["error"]:
        raise explain(answer["error"], server, model)
    found: dict[str, Array] = answer["outputs"]
    return found
