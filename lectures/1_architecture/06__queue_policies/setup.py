"""For 06__queue_policies: plans of requests, and premises for what a run of them shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from workbook import measure
from workbook.lessons import files
from workbook.lessons.premises import Premise
from workbook.lessons.runs import Run
from workbook.lessons.shared import sleeper

HERE = Path(__file__).parent / "models"

#: The first letters of requests' names → who sends them.
_KINDS = {"u": "urgent", "o": "ordinary", "h": "25 ms", "p": "500 ms"}

#: How late a request of a flood may be sent. Later ones would make the flood a lighter load.
_LATE_MS = 60.0


def found_a_queue(run: Run) -> Premise:
    """Premise: each urgent request, u0 to u3, found at least eight others waiting, and the plan of
    the ordinary ones was sent in its 88 ms.

    If the last ordinary requests come late, they find no queue, and wait no longer than the urgent
    ones.
    """
    places = run.places
    waiting = [
        int(((places["queued_ms"] < row.queued_ms) & (places["start_ms"] > row.queued_ms)).sum())
        for row in places[places["request_id"].str.startswith("u")].itertuples()
    ]
    least = min(waiting, default=0)
    return sent_within(run, 110) & Premise(
        least >= 8, f"an urgent request found only {least} others waiting"
    )


def kind(name: str) -> str:
    """Who sends a request of the notebook's plans: `u0` is urgent."""
    return _KINDS[name[0]]


def executions_waited(run: Run) -> pd.DataFrame:
    """Count the executions that began after a request arrived, up to and including its own.

    Returns:
        The `mean` and the `median` of `urgent` and of `ordinary` requests.
    """
    places = run.places
    starts = places["start_ms"].unique()
    counts = [
        int(((starts > row.queued_ms) & (starts <= row.start_ms)).sum())
        for row in places.itertuples()
    ]
    kinds = [kind(name) for name in places["request_id"]]
    return pd.Series(counts).groupby(kinds).agg(["mean", "median"])


def sent_within(run: Run, ms: float) -> Premise:
    """Premise: all requests were sent within `ms` milliseconds."""
    sent = run.answers["sent_ms"]
    took = float(sent.max() - sent.min())
    return Premise(took < ms, f"sending the requests took {took:.0f} ms, and {ms:g} are allowed")


def was_overload(run: Run) -> Premise:
    """Premise: the plan of the timeouts was sent in its 78 ms, and executions took their 20 ms."""
    return sent_within(run, 120) & sleeper.slept(run.places)


def enough(rushes: pd.DataFrame) -> Premise:
    """Premise: in at least five rushes there were two executions.

    If a rush takes longer than the first execution, later requests find room in the queue, and
    there is a third one. If the batcher wakes after all others have been refused, there is one.

    Args:
        rushes: one row per rush; the list `executions` has their sizes.
    """
    count = sum(len(sizes) == 2 for sizes in rushes["executions"])
    return Premise(count >= 5, f"only {count} of {len(rushes)} rushes had two executions")


def longest_waits(run: Run) -> pd.Series:
    """Return the longest queue time (ms) of computed requests, by their names without numbers."""
    places = run.places
    waited = places["start_ms"] - places["queued_ms"]
    return waited.groupby(places["request_id"].str.rstrip("0123456789")).max()


def flooded(models: Path) -> None:
    """Make the task's model, with the config that lies beside the notebook."""
    files.place(models, HERE / "ranked", name="flooded")
    files.place(models, HERE / "flooded")


def ordinary_day() -> list[measure.Request]:
    """Plan a request every 15 ms, a third of what `flooded` can serve, and two bursts of ten.

    The last requests, called w1, w2, …, wake the batcher if it sleeps beside an idle instance.
    """
    bursts = [measure.every(0, 10, name=f"burst{k}_", after_ms=100 + 200 * k) for k in range(2)]
    evening = measure.every(15, 20, name="w", after_ms=600)
    return [*measure.every(15, 40), *bursts[0], *bursts[1], *evening]


def flood() -> list[measure.Request]:
    """Plan more than twice what `flooded` can serve, for 300 ms, then w1, w2, … every 10 ms."""
    return measure.every(2, 150) + measure.every(10, 40, name="w", after_ms=300)


def came_as_planned(answers: pd.DataFrame, execution_ms: float) -> bool:
    """Whether a flood was the planned load: nine of ten requests were sent within `_LATE_MS` of
    their time, and the executions took 25 ms at most, on average.

    Args:
        answers: of `measure.send`, for the plan `flood`.
        execution_ms: `compute_infer_ms` of the statistics.
    """
    late = [abs(sent - r.at_ms) for sent, r in zip(answers["sent_ms"], flood(), strict=True)]
    return bool(np.quantile(late, 0.9) < _LATE_MS and execution_ms < 1.25 * sleeper.MS)
