"""Premises: conditions that a run of an experiment must fulfil before its result means anything.

On a busy machine an experiment can go wrong. An example: it measures how long an answer takes when
a request is sent every 10 ms. If other programs use the cores, a request is sent only every 15 ms,
and the result is valid for a lighter load only. So each `compare` has a premise. If the premise is
false, the card says what differed, and shows no result.

    server = connect()
    plan = measure.every(10, 6)         # every 10 ms, 6 requests

    def experiment():
        return measure.send(server, "square", plan)     # a table, one row per request

    def on_time(answers):               # the premise of one run, from its result
        return sent_as_planned(answers, every_ms=10)

    answers = attempt(experiment, on_time)              # three runs at most
    slowest = (answers["answered_ms"] - answers["sent_ms"]).max()
    compare("my.slowest", slowest, unit="ms", premise=on_time(answers))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeVar

if TYPE_CHECKING:
    import pandas as pd

ATTEMPTS = 3  # of one experiment, the first included

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Premise:
    """A condition that a run must fulfil before its result means anything.

        Premise(requests == 1, "other programs sent requests to this model")

    `one & other` is true where both are. Otherwise it has the message of the first false one.

    Attributes:
        holds: whether the condition is true in this run.
        differs: what differed if it is false, as the end of the sentence
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
    """Run an experiment. If its premise is false, run it again, three times in all at most.

        answers = attempt(experiment, on_time)      # both as in the docstring of this module

    Args:
        experiment: a function without arguments that returns the result. It may be called
            repeatedly.
        premise: a function that takes this result and returns a `Premise`.

    Returns:
        The result of the last run. Its premise may be false, too: pass it to `compare` and `claim`,
        which then show what differed.
    """
    for left in range(ATTEMPTS - 1, 0, -1):
        result = experiment()
        found = premise(result)
        if found:
            return result
        print(f"{found} It is run again ({left} more at most).")
    return experiment()


def arrived_together(places: pd.DataFrame) -> Premise:
    """Premise: all requests arrived before the first of them was answered.

    Args:
        places: a table of `measure.executions`, one row per request.
    """
    late = places["queued_ms"].max() - places["end_ms"].min()
    return Premise(late < 0, f"the last request arrived {late:.0f} ms after the first was answered")


def sent_as_planned(table: pd.DataFrame, every_ms: float) -> Premise:
    """Premise: the mean time between two requests is within 20 % of the planned time.

    Args:
        table: of `measure.send`, or of `measure.executions`: then the times at which requests
            arrived at the server count.
        every_ms: the planned time between two requests, in milliseconds.
    """
    sent = table["sent_ms" if "sent_ms" in table else "queued_ms"]
    mean = (sent.max() - sent.min()) / (len(sent) - 1)
    return Premise(
        abs(mean - every_ms) <= 0.2 * every_ms,
        f"a request was sent every {mean:.1f} ms, and not every {every_ms:g} ms",
    )


def reached_rate(rates: Iterable[float], reached: Iterable[float]) -> Premise:
    """Premise: requests were sent at the planned rates, within 20 %.

    Args:
        rates: the planned requests per second of each run.
        reached: the requests per second that were sent.
    """
    for rate, other in zip(rates, reached, strict=True):
        if abs(other - rate) > 0.2 * rate:
            return Premise(False, f"{other:.0f} requests per second were sent, and not {rate:g}")
    return Premise(True, "")


def steady(figures: Iterable[SupportsFloat], factor: float = 1.5) -> Premise:
    """Premise: repeated measurements agree. The largest is less than `factor` times the smallest.

    Args:
        figures: the measurements, all above 0.
        factor: the largest may be less than this many times the smallest.
    """
    values = [float(figure) for figure in figures]
    apart = max(values) / min(values) if min(values) > 0 else float("inf")
    return Premise(
        apart < factor,
        f"{len(values)} measurements of the same thing differ by a factor of {apart:.1f}, perhaps "
        "because other programs used the cores",
    )


def halves_agree(figures: Sequence[float], factor: float = 2) -> Premise:
    """Premise: the first and the second half of measurements in a row have about equal medians.

    Args:
        figures: the measurements, at least two.
        factor: the larger median may be less than this many times the smaller.
    """
    half = len(figures) // 2
    return steady([median(figures[:half]), median(figures[half:])], factor)


def clear(ratio: SupportsFloat, limit: float, spread: SupportsFloat = 1.0) -> Premise:
    """Premise: a ratio is so far above or below a limit that noise has not moved it across.

        clear(slow / fast, 1.1, spread=1.05)    # at least 1.155, or at most 1.04

    Args:
        ratio: of two measurements.
        limit: what a claim compares the ratio with.
        spread: the factor by which repeated measurements of the same thing differed.
    """
    found, noise = float(ratio), float(spread)
    return Premise(
        found >= limit * noise or found * noise <= limit,
        f"a ratio of {found:.2f} is too close to {limit:.2g} to be told apart from it: measured "
        f"again, the same thing differed by a factor of {noise:.2f}",
    )


def counted(row: Any, requests: int) -> Premise:
    """Premise: the server counted our requests, and no others.

    Args:
        row: a row of `measure.difference`.
        requests: how many we sent.
    """
    differs = f"{requests} requests were sent, and the server counted {row.requests}"
    return Premise(row.requests == requests, differs)
