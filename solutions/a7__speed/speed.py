"""The loads of a7__speed, what they measure, and what it is worth.

Two machines never agree on seconds, so each speed is a ratio to the deployment as it was found,
measured in the same minute. `facts` says what a ratio is worth.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Sequence

import numpy as np

from grader.vocabulary.failure import Failure, Undecided
from grader.vocabulary.probe import Array, Probe
from grader.vocabulary.require_ratio import FEWEST, Ratio, paired_ratio

from . import before, facts, load

#: How long each of the two is loaded in a round, in seconds: the one as found, the student's.
_FOUND_S, _OWN_S = 0.6, 0.3
#: How long each is warmed up before.
_WARM_S = 0.15
#: The most pictures of a load.
_MOST = 2_400
#: How many timed answers of a round are compared with the network's. They are chosen afterwards.
_COMPARED = 48
#: An overload in which the service answers this many times what it could before was none.
_OVER = 1.3
#: How often memory is read.
_READINGS = 3
#: How often a load is sent where most of its requests are refused.
_ATTEMPTS = 3
#: The seconds in which the clients of an overload come.
_ARRIVE_S = 0.3
#: How often a deployment is measured before the other one is loaded, which takes seconds.
_SLICES = 2
#: On a busy machine a picture may wait so long that it is refused, which costs throughput. Where
#: more than this share is refused, the service does not do its work.
_REFUSED = 0.5
#: The interval is narrow enough where the credits of its ends differ by no more than this.
_NARROW = 0.1
#: The most seconds in all, in the judge.
_LIMIT_S = 50.0


@dataclasses.dataclass(frozen=True)
class Pace:
    """How fast a deployment is: pictures per second with all clients; seconds for one alone."""

    rate: float
    alone: float


def credit(ratio: float, full: float, nothing: float) -> float:
    """The share of the points for a ratio: 0 at `nothing`, 1 at `full`, in between by doublings."""
    if ratio <= 0 or math.isnan(ratio):
        return 0.0
    share = math.log(ratio / nothing) / math.log(full / nothing)
    return min(max(share, 0.0), 1.0)


def throughput_credit(ratio: float) -> float:
    """The share of the points for a throughput, as a multiple of that of the deployment found."""
    return credit(ratio, facts.FULL_RATIO, 1.0) if ratio >= facts.LEAST_RATIO else 0.0


def _some(
    server: Probe, answers: Sequence[load.Answer], count: int = _COMPARED
) -> list[load.Answer]:
    """A few of the answers that have scores, chosen at random."""
    done = [one for one in answers if one.scores is not None]
    return [done[k] for k in server.rng.permutation(len(done))[:count]]


def require_right(me: str, pictures: Array, answers: Sequence[load.Answer], what: str) -> None:
    """Fail unless the scores of answers are those of the student's network, within the bound."""
    if not answers:
        return
    got = np.concatenate([one.scores for one in answers if one.scores is not None])
    rows = len(got) // len(answers)
    whole = len(pictures) // rows
    places = [
        k % whole * rows + row for k in (one.number for one in answers) for row in range(rows)
    ]
    compare(me, pictures[places], got, what)


def compare(me: str, pictures: Array, got: Array, what: str) -> None:
    """Fail unless scores (n, 10) are those of the student's network, within the bound."""
    expected = facts.own_network(me).scores(pictures)
    off = np.abs(got.astype(np.float64) - expected).max(1)
    wrong = ~(off <= facts.BOUND)
    if not wrong.any():
        return
    classes = (got.argmax(1) == expected.argmax(1)).mean()
    largest = "not a number" if np.isnan(off).any() else f"{off.max():.3g}"
    raise Failure(
        f"{wrong.sum()} of {len(got)} answers {what} are off by more than {facts.BOUND:g}; the "
        f"largest difference is {largest}. The class is right in {classes:.0%}.",
        help="Compare step by step with the models as they were: grey, smooth, shrink, normalise. "
        "If the classes are right, it may be the border, a mean over several pictures, or the "
        "precision.",
    )


def _closed(
    server: Probe, model: str, seconds: float, rate: float = 500.0, rows: int = 1
) -> tuple[Array, list[load.Answer]]:
    """The answers to `facts.CLIENTS` clients that wait for each other, after a short warm-up.

    Triton 24.10 now and then lets all of them wait for half a second (`checks._scores`), and a
    short timeout then refuses them all. So a load with many refusals is repeated.

    Args:
        rate: about how many pictures per second are answered. It decides how many are drawn.
        rows: pictures per request.

    Returns:
        The pictures (no other load has had them), and the answers with scores.

    Raises:
        Failure: many requests got no scores, three times in a row.
    """
    for _ in range(_ATTEMPTS):
        pictures, _ = facts.draw(server.rng, int(min(_MOST, 64 + seconds * 2 * rate)))
        with load.Clients(server.server.url, model, facts.CLIENTS, rows) as clients:
            _warm_up(server, clients)
            answers = clients.one_after_the_other(pictures, seconds, again=rows > 1)
        if answers and not _are_refused(answers):
            break
    return pictures, _answered(answers, model)


def _warm_up(server: Probe, clients: load.Clients) -> None:
    clients.one_after_the_other(facts.draw(server.rng, 64)[0], _WARM_S, again=True)


def _answered(answers: Sequence[load.Answer], model: str) -> list[load.Answer]:
    """Those with scores; fails where many have none."""
    refused = [one for one in answers if one.scores is None]
    if _are_refused(answers):
        what = refused[0].message or "no answer within 10 s"
        raise Failure(
            f"{model} did not answer {len(refused)} of {len(answers)} pictures of "
            f"{facts.CLIENTS} clients. The first message: {what}",
            help=f"{facts.CLIENTS} clients that wait for each other are no overload: there must be "
            "room for them in the queue.",
        )
    if not answers:
        raise Failure(f"{model} answered nothing.")
    return [one for one in answers if one.scores is not None]


def _are_refused(answers: Sequence[load.Answer]) -> bool:
    """Whether more of a load has no scores than a busy machine explains."""
    return sum(one.scores is None for one in answers) > _REFUSED * len(answers)


def throughput(server: Probe, me: str, model: str) -> Ratio:
    """How many times as many pictures per second the student's deployment answers.

    In rounds: each measures both, and the next one in the other order. The judge goes on until the
    interval is narrow; a notebook shows the interval that it has after the fewest rounds.

    Raises:
        Failure: an answer is missing or wrong.
        Undecided: the interval does not become narrow.
    """
    deadline = time.monotonic() + _LIMIT_S
    found, own = [], []  # seconds per picture
    expected = 1_000.0  # pictures per second, for the first round

    def measure_found(serve: before.Turns) -> None:
        serve(before.SERVICE)
        _, answers = _closed(server, before.SERVICE, _FOUND_S)
        found.append(_seconds_each(answers, _FOUND_S))

    def measure_own(serve: before.Turns) -> None:
        nonlocal expected
        serve(model)
        pictures, answers = _closed(server, model, _OWN_S, expected)
        own.append(_seconds_each(answers, _OWN_S))
        expected = 1 / own[-1]
        require_right(me, pictures, _some(server, answers), "under load")

    order = [measure_own, measure_found]
    with before.turns(server, me, model) as serve:
        while True:
            for measure in order:
                for _ in range(_SLICES):
                    measure(serve)
            order.reverse()
            if len(own) < FEWEST:
                continue
            ratio = paired_ratio(own, found)
            if not server.may_reload:
                return ratio
            if throughput_credit(ratio.high) - throughput_credit(ratio.low) <= _NARROW:
                return ratio
            if time.monotonic() > deadline:
                raise Undecided


def _seconds_each(answers: Sequence[load.Answer], seconds: float) -> float:
    """Seconds per picture in a closed load: the median of up to eight parts of it.

    So a moment in which another program had the processor, or in which the batcher slept, does not
    count. A part has at least three answers per client, since answers come in batches.
    """
    ends = np.sort([0.0, *(one.end for one in answers if one.end <= seconds)])
    parts = min(max((len(ends) - 1) // (3 * facts.CLIENTS), 1), 8)
    cuts = np.linspace(0, len(ends) - 1, parts + 1).astype(int)
    if cuts[-1] == 0:
        return math.inf
    return float(np.median(np.diff(ends[cuts]) / np.diff(cuts)))


def latency(server: Probe, me: str, model: str) -> tuple[float, float, float]:
    """The 99th percentile under an open load, as a multiple of one picture's time as it was found.

    The deployment as found is measured, with all clients and with a single one. Then the student's
    gets `facts.TIMES` as many pictures per second, at random times (a Poisson process), in rounds.

    Returns:
        The multiple (the median of the rounds), pictures per second that were sent, and the 99th
        percentile in seconds.

    Raises:
        Failure: an answer is missing or wrong.
        Undecided: the rounds differ too much.
    """
    rounds: list[tuple[float, float, float]] = []
    deadline = time.monotonic() + _LIMIT_S
    with before.turns(server, me, model) as serve:
        while True:
            serve(before.SERVICE)
            pace = _pace(server)
            serve(model)
            for _ in range(2 if rounds else 3):  # so that their number stays odd
                worst = _worst_wait(server, me, model, facts.TIMES * pace.rate)
                rounds.append((worst / pace.alone, facts.TIMES * pace.rate, worst))
            credits = [credit(r[0], facts.FULL_WAIT, facts.LONGEST_WAIT) for r in rounds]
            if _is_settled(server, credits, deadline):
                return sorted(rounds)[len(rounds) // 2]


def _worst_wait(server: Probe, me: str, model: str, rate: float) -> float:
    """The 99th percentile, in seconds, under an open load of `rate` pictures per second."""
    count = int(max(100, min(_MOST, rate * 1.5)))
    times = np.cumsum(server.rng.exponential(1 / rate, count))
    pictures, _ = facts.draw(server.rng, count)
    with load.Clients(server.server.url, model, 128) as clients:
        _warm_up(server, clients)
        answers = clients.at_times(pictures, times.tolist())
    require_right(me, pictures, _some(server, answers), "under the open load")
    return load.percentile(answers, 0.99)


def _is_settled(server: Probe, credits: Sequence[float], deadline: float) -> bool:
    """Whether the rounds agree: the three in the middle, of an odd number.

    Raises:
        Undecided: they do not, and the time is up.
    """
    cut = (len(credits) - 3) // 2
    middle = sorted(credits)[cut : cut + 3]
    if not server.may_reload or middle[-1] - middle[0] <= 3 * _NARROW:
        return True
    if time.monotonic() > deadline:
        raise Undecided
    return False


def _pace(server: Probe) -> Pace:
    """How fast the deployment as found is, just now."""
    pictures, answers = _closed(server, before.SERVICE, _FOUND_S)
    with load.Clients(server.server.url, before.SERVICE, 1) as client:
        alone = client.one_after_the_other(pictures[:12], 10.0)
    return Pace(1 / _seconds_each(answers, _FOUND_S), statistics.median(one.took for one in alone))


@dataclasses.dataclass(frozen=True)
class Overload:
    """What became of a flood of requests.

    Attributes:
        sent: how many requests.
        in_time: the share that was answered or refused within `facts.PATIENCE`.
        slowest: the seconds that the slowest reply took.
        lost: how many got no reply within 10 s, or lost their connection.
        goodput: the requests that were answered in time, per second, as a share of those that 16
            clients get answered.
        silent: refusals without a message.
        clients: how many there were.
    """

    sent: int
    in_time: float
    slowest: float
    lost: int
    goodput: float
    silent: int
    clients: int

    @property
    def credit(self) -> float:
        """The share of the points, by both shares."""
        few = facts.TOO_FEW_IN_TIME
        in_time = min(max((self.in_time - few) / (facts.IN_TIME - few), 0.0), 1.0)
        useful = min(self.goodput / facts.USEFUL, 1.0)
        return in_time * useful


def overload(server: Probe, me: str, model: str) -> Overload:
    """Send more than any deployment here can answer, in rounds; the best one counts.

    Other programs on the machine can only delay answers. So the best round tells what the
    deployment does by itself, if another round comes near it.

    Raises:
        Failure: an answer is wrong; or afterwards the model does not answer as before.
        Undecided: the best two rounds differ too much.
    """
    server.require(model)
    rounds = [_flood(server, me, model)]
    deadline = time.monotonic() + _LIMIT_S
    while True:
        rounds.append(_flood(server, me, model))
        best, second = sorted(rounds, key=lambda r: -r.credit)[:2]
        if best.credit - second.credit <= 2 * _NARROW or not server.may_reload:
            return best
        if time.monotonic() > deadline:
            raise Undecided


def _flood(server: Probe, me: str, model: str) -> Overload:
    """One round: the clients as always, then the flood, then single pictures."""
    url = server.server.url
    pictures, calm = _closed(server, model, _OWN_S, rows=facts.BATCH)
    capacity = 1 / _seconds_each(calm, _OWN_S)  # requests per second
    while True:
        count = round(facts.FLOOD * facts.PATIENCE * capacity)
        count = min(max(count, facts.FEWEST), facts.MOST)
        with load.Clients(url, model, count, facts.BATCH) as clients:
            answers = clients.one_after_the_other(
                pictures, facts.FLOOD_S, pause=facts.BACK_S, arrive=_ARRIVE_S, again=True
            )
        answered = load.rate(answers, facts.FLOOD_S)
        if count == facts.MOST or answered <= _OVER * capacity:
            break
        capacity = answered  # other programs had the processor before: this was no overload
    done = [one for one in answers if one.scores is not None]
    some = _some(server, answers, _COMPARED // facts.BATCH)
    require_right(me, pictures, some, "during the overload")
    with load.Clients(url, model, 1) as client:
        after = client.one_after_the_other(pictures[-10:], 10.0)
    require_right(me, pictures[-10:], _answered(after, model), "after the overload")
    useful = sum(one.end <= facts.FLOOD_S and one.took <= facts.PATIENCE for one in done)
    replied = [one for one in answers if math.isfinite(one.took)]
    return Overload(
        sent=len(answers),
        in_time=sum(one.took <= facts.PATIENCE for one in answers) / len(answers),
        slowest=max((one.took for one in replied), default=math.inf),
        lost=len(answers) - len(replied),
        goodput=useful / facts.FLOOD_S / capacity,
        clients=count,
        silent=sum(one.scores is None and not one.message.strip() for one in replied),
    )


def memory(server: Probe, model: str) -> int:
    """The bytes that the student's deployment takes under load.

    On a busy machine a reading may be late. So each is read several times: the smallest value
    without the model, and the largest one with it.
    """
    server.take_out(model)
    empty = min(server.memory() for _ in range(_READINGS))
    server.take_in(model)
    _closed(server, model, _WARM_S)
    return max(server.memory() for _ in range(_READINGS)) - empty
