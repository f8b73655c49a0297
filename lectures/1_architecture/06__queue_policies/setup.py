"""For 06__queue_policies: plans of requests, and premises for what a run of them shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from workbook import measure
from workbook.lessons.premises import Premise
from workbook.lessons.runs import Run
from workbook.lessons.shared import sleeper

#: What the reader's task starts with: a queue that is too short for ordinary traffic.
SHORT = "dynamic_batching { default_queue_policy { max_queue_size: 2 } }"

#: How late a request of a flood may be sent. Later ones would make the flood a lighter load.
_LATE_MS = 60.0


def found_a_queue(run: Run) -> Premise:
    """Premise: each urgent request, u0 to u3, found at least eight others waiting, and the plan of
    the ordinary ones was sent in its 92 ms.

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


def executions_waited(run: Run) -> pd.Series:
    """Count the executions that began after a request arrived, up to and including its own."""
    places = run.places
    starts = places["start_ms"].unique()
    counts = [
        int(((starts > row.queued_ms) & (starts <= row.start_ms)).sum())
        for row in places.itertuples()
    ]
    return pd.Series(counts, index=places["request_id"])


def sent_within(run: Run, ms: float) -> Premise:
    """Premise: all requests were sent within `ms` milliseconds."""
    sent = run.answers["sent_ms"]
    took = float(sent.max() - sent.min())
    return Premise(took < ms, f"sending the requests took {took:.0f} ms, and {ms:g} are allowed")


def over_in_time(run: Run) -> Premise:
    """Premise: the rush was over before the first execution ended, and there was a second one.

    Otherwise later requests find room in the queue, and there is a third execution; or the batcher
    woke so late that all others had been refused, and there is only one.
    """
    count = len(run.sizes)
    return Premise(
        count == 2, f"the number of executions was {count}, since the rush came unevenly"
    )


def enough(rushes: pd.DataFrame) -> Premise:
    """Premise: in at least five runs the rush was over before its first execution ended."""
    count = int((rushes["executions"] == 2).sum())
    return Premise(count >= 5, f"only {count} of {len(rushes)} rushes had two executions")


def rushes(run_once: Callable[[], Run], count: int) -> pd.DataFrame:
    """Repeat the same rush: the sizes of its executions, how many requests were served, and when.

    Args:
        run_once: sends the rush and returns a `Run`.
        count: the number of runs.

    Returns:
        One row per run. On a busy machine the batcher may wake after all other requests have been
        refused. Then there is no second execution.
    """
    rows = []
    for _ in range(count):
        run = run_once()
        starts = run.places.groupby("execution")["start_ms"].min()
        rows.append(
            {
                "served": len(run.answers) - len(run.refused),
                "executions": len(run.sizes),
                "first": run.sizes[0],
                "second": run.sizes[1] if len(starts) > 1 else 0,
                "second begins, ms": round(float(starts.iloc[1])) if len(starts) > 1 else None,
            }
        )
    return pd.DataFrame(rows, index=pd.RangeIndex(1, count + 1, name="run"))


def longest_waits(run: Run) -> pd.Series:
    """Return the longest queue time (ms) of computed requests, by their names without numbers."""
    places = run.places
    waited = places["start_ms"] - places["queued_ms"]
    return waited.groupby(places["request_id"].str.rstrip("0123456789")).max()


def add_flooded(models: Path) -> None:
    """Write the model of the task, whose executions take at most four requests."""
    sleeper.add(models, "flooded", SHORT, most=4)


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
