"""The task of 02__instances: two models that never use more than two cores together."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np

from workbook.lessons import files
from workbook.lessons.runs import infer
from workbook.lessons.tasks import CannotTell, NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

#: The models that the server has.
MODELS = ("daily", "nightly")
#: The models that are asked at the same time: 12 executions of 50 ms each.
_PLAN = (*MODELS, "daily") * 4
#: Seconds for which requests of both models must be under way.
_TOGETHER = 0.1
_HOME = Path(__file__).parent / "models"


def start(folder: Path) -> Server:
    """Start a server with two cores as a resource, and both models."""
    files.place(folder, *(_HOME / name for name in MODELS))
    return laboratory(folder, rate_limit={"core": 2})


@define(
    "instances.nightly",
    hints=(
        "Look at the config of `daily`: which lines of its instance group say that an execution "
        "needs a core?",
        "An execution of nightly needs both cores. While it computes, none is left for others.",
        "Write `rate_limiter { resources { … } }` into the instance group of "
        "models/nightly/config.pbtxt, with the resource's name and a count.",
    ),
)
def nightly(server: Server) -> None:
    """An execution of nightly computes alone: no other one of nightly or daily runs meanwhile. Two
    executions of daily may run at the same time."""
    times = _executions(server)
    for one, other in combinations(times, 2):
        if one.overlaps(other) and "nightly" in (one.model, other.model):
            if one.model == other.model:
                raise NotYet("Two executions of nightly ran at the same time.")
            raise NotYet("An execution of nightly and one of daily ran at the same time.")
    daily, night = ([each for each in times if each.model == name] for name in MODELS)
    if not any(one.overlaps(other) for one, other in combinations(daily, 2)):
        group = server.config("daily")["instance_group"][0]
        (resource,) = group.get("rate_limiter", {}).get("resources", [{}])
        if int(group["count"]) < 2 or int(resource.get("count", 1)) > 1:
            raise NotYet("Executions of daily no longer run at the same time.")
        raise CannotTell("No two executions of daily ran at the same time.")
    waited = max(min(each.sent for each in group) for group in (daily, night))
    if min(max(each.end for each in group) for group in (daily, night)) - waited < _TOGETHER:
        raise CannotTell("The requests of both models did not come at the same time.")


@dataclasses.dataclass(frozen=True)
class _Execution:
    """One execution, in seconds of this machine's clock; `sent` is when its request was sent."""

    model: str
    sent: float
    begin: float
    end: float

    def overlaps(self, other: _Execution) -> bool:
        """Whether both ran at the same time."""
        return self.begin < other.end and other.begin < self.end


def _executions(server: Server) -> list[_Execution]:
    """Send requests to both models at once: one request is one execution."""

    def ask(model: str) -> _Execution:
        sent = time.monotonic()
        begin, end = infer(server, model, X=np.ones(1, np.float32))["TIMES"]
        return _Execution(model, sent, float(begin), float(end))

    with ThreadPoolExecutor(len(_PLAN)) as pool:
        return list(pool.map(ask, _PLAN))
