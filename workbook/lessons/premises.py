"""Premises: what must be so in a run before its result means anything.

An experiment on a busy machine can show something else than what it is about: requests that were
planned 1 ms apart arrive after one another, or another program takes the core that was measured.
So each `compare` names its premise. Where it does not hold, the reader is told what differed, and
no result is shown.

    def came_alone(run):
        answers, spans = run
        return answered_before(answers, "ABC", "D4")

    run = attempt(lambda: record("oldest", plan), came_alone)
    compare("schedulers.oldest", slot(run), premise=came_alone(run))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, SupportsFloat, TypeVar

if TYPE_CHECKING:
    import pandas as pd

ATTEMPTS = 3  # of one experiment, the first included

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Premise:
    """A condition under which a run shows what the experiment is about.

        Premise(requests == 1, "other programs sent requests to this model")

    Two premises joined with `&` hold where both do; the first that does not hold speaks.

    Attributes:
        holds: whether it does in this run.
        differs: what differed where it does not hold, as the end of the sentence
            "This run does not show it: …".
    """

    holds: bool
    differs: str

    def __bool__(self) -> bool:
        return bool(self.holds)  # numpy's bools too

    def __and__(self, other: Premise) -> Premise:
        return other if self else self

    def __str__(self) -> str:
        return f"This run does not show it: {self.differs}."


def attempt(experiment: Callable[[], Result], premise: Callable[[Result], Premise]) -> Result:
    """Run an experiment; run it again where its premise does not hold, three times at most.

        run = attempt(lambda: record("together", measure.every(1, 6)), arrived_together)

    Args:
        experiment: what to run; it can be run any number of times.
        premise: takes the experiment's result.

    Returns:
        The result of the last run. Its premise may not hold either: `compare` and `claim` say so
        when they are given the same premise.
    """
    for left in range(ATTEMPTS - 1, 0, -1):
        result = experiment()
        found = premise(result)
        if found:
            return result
        print(f"{found} It is run again ({left} more at most).")
    return experiment()


def arrived_together(places: pd.DataFrame) -> Premise:
    """All requests arrived before the first of them was answered.

    Args:
        places: a table of `measure.executions`, one row per request.
    """
    late = places["queued_ms"].max() - places["end_ms"].min()
    return Premise(late < 0, f"the last request arrived {late:.0f} ms after the first was answered")


def sent_as_planned(answers: pd.DataFrame, every_ms: float) -> Premise:
    """Requests were sent at about the planned distance: no more than 20 % off in the mean.

    Args:
        answers: a table of `measure.send`, one row per request.
        every_ms: the planned distance in milliseconds.
    """
    sent = answers["sent_ms"]
    mean = (sent.max() - sent.min()) / (len(sent) - 1)
    return Premise(
        abs(mean - every_ms) <= 0.2 * every_ms,
        f"a request was sent every {mean:.1f} ms, and not every {every_ms:g} ms",
    )


def answered_before(answers: pd.DataFrame, earlier: Iterable[str], later: str) -> Premise:
    """Some requests were all answered before another one was sent.

    Args:
        answers: a table of `measure.send`, with the column `id`.
        earlier: how the ids of the earlier requests begin, e.g. `"ABC"` for A1, A2, B1, ….
        later: the id of the later request.
    """
    before = answers[answers["id"].str.startswith(tuple(earlier))]
    sent = answers.loc[answers["id"] == later, "sent_ms"].item()
    late = before["answered_ms"].max() - sent
    return Premise(
        late < 0, f"{later} was sent {late:.0f} ms before the earlier requests were done"
    )


def steady(figures: Iterable[SupportsFloat], factor: float = 1.5) -> Premise:
    """Repeated measurements of one thing agree: the largest is less than `factor` times the least.

    Args:
        figures: the measurements, all above 0.
        factor: how far apart they may be.
    """
    values = [float(figure) for figure in figures]
    apart = max(values) / min(values) if min(values) > 0 else float("inf")
    return Premise(
        apart < factor,
        f"measured {len(values)} times, the same thing differed by a factor of {apart:.1f}; "
        "other programs may have taken the cores",
    )
