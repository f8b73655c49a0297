"""Requirements on speed. A speed is a ratio of two models, measured in one run on one machine."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Sequence

from .collect import note
from .failure import Failure
from .probe import Inputs, Probe
from .require_answers import close
from .tolerance import Tolerance

#: The smallest number of rounds for which an interval can be computed.
FEWEST = 6


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A measured ratio: the median of its rounds, and the interval that holds it in 95 of 100 runs.

    Attributes:
        value: the median.
        low: the lower end of the interval.
        high: its upper end.
        rounds: how many rounds were measured.
    """

    value: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        if self.rounds < FEWEST:
            return f"×{self.value:.2f} (no interval from {self.rounds} rounds)"
        interval = f"95% interval {self.low:.2f} to {self.high:.2f}"
        return f"×{self.value:.2f} ({interval}, {self.rounds} rounds)"

    def is_within(self, share: float) -> bool:
        """Whether the interval is no wider than this share of the value to either side."""
        return self.high <= self.value * (1 + share) and self.value <= self.low * (1 + share)


def ratio(
    server: Probe,
    faster: str,
    slower: str,
    requests: Sequence[Inputs],
    *,
    at_least: float,
    what: str = "requests per second",
    within: float = 0.1,
    limit_s: float = 20.0,
    measure: Callable[[str], float] | None = None,
    output: str = "",
    tolerance: Tolerance | None = None,
    help: str = "",
) -> Ratio:
    """How much faster one model is than another; fails unless it is fast enough.

    A round measures both models, one after the other, and the next round in the other order, so
    that a machine that becomes slower meanwhile favours neither. Rounds are repeated until the
    ratio's interval is narrow enough or lies above what is asked, or the time is up.

    The check fails where the interval lies below what is asked. Where the time is up before the
    interval is narrow, the ratio itself decides. The ratio, its interval and the verdict are shown
    in either case.

    Example::

        require.ratio(
            server, "batched", "plain", [{"x": row[None]} for row in rows],
            at_least=1.5, output="y", tolerance=tolerance.rounding(), help="Look at the delay.",
        )
        # batched answers ×2.31 (95% interval 2.21 to 2.42, 9 rounds) as many requests per second
        # as plain; at least ×1.5 is asked: reached.

    Args:
        server: the check's probe.
        faster: the name of the model that should be faster.
        slower: the name of the other one.
        requests: the inputs of the requests of one round, which are sent all at once. A round
            should take a tenth of a second or more.
        at_least: the ratio that is asked. Leave a margin for noise.
        what: what is compared, for the message.
        within: the interval is narrow enough where it is no wider than this share to either side.
        limit_s: the most seconds for all rounds.
        measure: measures a model, and returns its cost: seconds, or another number that is better
            when it is lower. By default the seconds until all requests are answered.
        output: the output in which the two must agree.
        tolerance: how far they may be apart there; None: their answers are not compared.
        help: what to look at.

    Returns:
        The ratio.

    Raises:
        Failure: a request fails, the answers differ, or the ratio is too low.
    """

    def seconds(model: str) -> float:
        began = time.monotonic()
        server.together(model, requests)
        return time.monotonic() - began

    deadline = time.monotonic() + limit_s
    answers = {model: server.together(model, requests) for model in (faster, slower)}  # warm
    if tolerance is not None:
        for one, other in zip(answers[faster], answers[slower], strict=True):
            which = f"the answers of {faster}"
            why = f"They are compared with those of {slower} to the same requests."
            close(one[output], other[output], what=which, tolerance=tolerance, help=why)
    costs: dict[str, list[float]] = {faster: [], slower: []}
    take = measure or seconds
    while True:
        order = (faster, slower) if len(costs[faster]) % 2 else (slower, faster)
        for model in order:
            costs[model].append(max(take(model), 1e-9))
        is_over = time.monotonic() > deadline
        if len(costs[faster]) < FEWEST and not is_over:
            continue
        found = paired_ratio(costs[faster], costs[slower])
        if found.is_within(within) or is_over or found.low >= at_least:
            break
    reached = (found.high if found.is_within(within) else found.value) >= at_least
    sentence = (
        f"{faster} answers {found} as many {what} as {slower}; at least ×{at_least:g} is asked: "
    )
    if not reached:
        raise Failure(f"{sentence}not reached.", help=help)
    note(f"{sentence}reached.")
    return found


def paired_ratio(costs: Sequence[float], others: Sequence[float]) -> Ratio:
    """The ratio of two lists of costs, which were measured in pairs.

    The value is the median of the pairs' ratios. The interval lies between two of them in the order
    of size: a true median lies below the k-th of n, or above the k-th from the end, with twice the
    probability that fewer than k of n coins show heads. k is the largest for which this is at most
    5%. So nothing is assumed about the noise, and a single slow round moves nothing.

    Args:
        costs: what the faster model took, per round.
        others: what the other one took in the same rounds.

    Returns:
        The ratio of the others to these. With fewer than `FEWEST` rounds there is no interval: it
        goes from 0 to infinity.
    """
    ratios = sorted(other / cost for cost, other in zip(costs, others, strict=True))
    count = len(ratios)
    value = statistics.median(ratios)
    if count < FEWEST:
        return Ratio(value, 0.0, math.inf, count)
    tail, k = 0, 0  # tail: how many of the 2**count outcomes show fewer than k heads
    while 2 * 20 * (tail + math.comb(count, k)) <= 2**count:
        tail += math.comb(count, k)
        k += 1
    return Ratio(value, ratios[k - 1], ratios[count - k], count)
