"""Simulate a fleet of servers behind a proxy: where each request goes, how long it waits.

    come = arrivals(lambda second: 60, until=600)         # 60 requests per second, at random times
    run = simulate(come, np.full(len(come), 0.02), servers=3, balance="least_outstanding")
    run.requests                                          # one row per request
    latency_ms(run.requests).quantile(0.99)

All times are seconds. A server computes `slots` requests at a time; others wait in its queue, first
come, first served. It needs numpy and pandas only, so take it along.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Run(NamedTuple):
    """What happened.

    Attributes:
        requests: one row per request: `arrival`, `kind`, the `server` that had it last (-1: none),
            `start` and `end` of the computation, `tries`, and `error` ("" for an answer). A refused
            request ends without a start.
        servers: one row per server: `since` and `until`, for which it is paid.
    """

    requests: pd.DataFrame
    servers: pd.DataFrame


@dataclass(frozen=True)
class Health:
    """How the proxy learns who answers: seconds between two checks, and tries elsewhere."""

    every: float = 10.0
    retries: int = 0


@dataclass(frozen=True)
class Scaling:
    """Kubernetes' rule: servers × measured / target, rounded up.

    At one decision at most four servers come, or as many as there are, if that is more.

    Attributes:
        target: the mean wait in the queue that is aimed at.
        least, most: bounds of the number of servers.
        every: seconds between two decisions.
        window: seconds over which the wait is measured.
        delay: seconds until a new server answers.
        sure: seconds for which servers must have been wanted.
        calm: seconds for which fewer servers must have been enough.
        pace: seconds between two servers that go.
    """

    target: float
    least: int = 1
    most: int = 10
    every: float = 15.0
    window: float = 60.0
    delay: float = 60.0
    sure: float = 30.0
    calm: float = 600.0
    pace: float = 120.0


class Event(NamedTuple):
    """What happens to a server: it `dies`, or it `reloads` (its requests are finished first).

    It answers again after `seconds`; after a death, the proxy must find that out by a check.
    """

    at: float
    what: str
    server: int
    seconds: float = math.inf


@dataclass
class _Server:
    number: int
    since: float
    answers: bool = True
    listed: bool = True  # whether the proxy sends it requests
    leaves: float | None = None  # it is being emptied, and then stays away so long
    until: float = math.inf
    queue: deque[int] = field(default_factory=deque)
    running: set[int] = field(default_factory=set)

    @property
    def outstanding(self) -> int:
        return len(self.queue) + len(self.running)


def arrivals(rate: Callable[[Any], Any], until: float, seed: int = 0) -> Any:
    """Random times of requests, as independent users come, at a rate that may change.

    Args:
        rate: requests per second; a function of the time, a number or an array.
        until: the end.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    most = float(np.max(rate(np.linspace(0, until, 1001)))) * 1.01
    times = np.sort(random.uniform(0, until, random.poisson(most * until)))
    return times[random.uniform(0, most, len(times)) < rate(times)]


def latency_ms(requests: pd.DataFrame) -> pd.Series:
    """From arrival to answer in milliseconds, of the requests that were answered."""
    answered = requests[requests["error"] == ""]
    return 1000 * (answered["end"] - answered["arrival"])


def cost_per_million(run: Run, price_per_hour: float) -> float:
    """What a million answers cost, in the currency of the price of one server."""
    hours = (run.servers["until"] - run.servers["since"]).sum() / 3600
    return float(hours * price_per_hour / (run.requests["error"] == "").sum() * 1e6)


def simulate(
    arrivals: Sequence[float],
    seconds: Sequence[float],
    *,
    servers: int = 3,
    slots: int = 1,
    balance: str = "round_robin",
    kinds: Sequence[str] | None = None,
    places: Mapping[str, Sequence[int]] | None = None,
    health: Health | None = None,
    scaling: Scaling | None = None,
    events: Iterable[Event] = (),
    seed: int = 0,
) -> Run:
    """Send requests to a fleet.

    Args:
        arrivals: when they come, in order.
        seconds: how long each is computed.
        servers: how many there are at the start.
        slots: how many requests a server computes at a time.
        balance: `round_robin`, `random`, `least_outstanding`, or `by_kind`: least outstanding
            among the servers of the request's kind.
        kinds: each request's kind, e.g. its model.
        places: kind → the numbers of its servers, for `by_kind`.
        health: the proxy's checks.
        scaling: the autoscaler; by default the number of servers stays.
        events: what happens to servers.
        seed: of the random choices.
    """
    names = list(kinds) if kinds is not None else [""] * len(arrivals)
    fleet = _Fleet(slots, balance, names, seconds, places or {}, health or Health(), seed)
    fleet.fleet = [_Server(number, 0.0) for number in range(servers)]
    fleet.relist()
    for event in events:
        fleet.at(event.at, partial(fleet.happen, event))
    if any(event.what == "dies" for event in events):
        fleet.at(fleet.health.every, fleet.check)
    if scaling:
        fleet.at(scaling.every, partial(fleet.scale, scaling, []))
    return fleet.run(np.asarray(arrivals, float).tolist())


class _Fleet:
    """The proxy, its servers, and the future events in the order of time."""

    def __init__(
        self,
        slots: int,
        balance: str,
        kinds: list[str],
        seconds: Sequence[float],
        places: Mapping[str, Sequence[int]],
        health: Health,
        seed: int,
    ) -> None:
        self.slots, self.balance, self.kinds = slots, balance, kinds
        self.seconds = np.asarray(seconds, float).tolist()
        self.places, self.health = places, health
        self.random = np.random.default_rng(seed)
        self.fleet: list[_Server] = []
        self.listed: list[_Server] = []
        self.gone = -math.inf  # when a server went last
        self.now, self.turn, self.done = 0.0, 0, 0
        self.waits: deque[tuple[float, float]] = deque()  # when a request began, how long it waited
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, time: float, event: Callable[[], None]) -> None:
        """Let an event happen at a time."""
        heapq.heappush(self._events, (time, next(self._order), event))

    def run(self, arrivals: list[float]) -> Run:
        """Let everything happen until each request is answered or refused."""
        count = len(arrivals)
        self.arrival = arrivals
        self.server, self.tries, self.error = [-1] * count, [0] * count, [""] * count
        self.start, self.end = [math.nan] * count, [math.nan] * count
        for number, time in enumerate(arrivals):
            while self._events and self._events[0][0] <= time:
                self.now, _, event = heapq.heappop(self._events)
                event()
            self.now = time
            self.send(number, set())
        while self.done < count:
            self.now, _, event = heapq.heappop(self._events)
            event()
        columns = ("arrival", "kind", "server", "start", "end", "tries", "error")
        values = (arrivals, self.kinds, self.server, self.start, self.end, self.tries, self.error)
        until = [(each.since, min(each.until, self.now)) for each in self.fleet]
        return Run(
            pd.DataFrame(dict(zip(columns, values, strict=True))),
            pd.DataFrame(until, columns=["since", "until"]),
        )

    # -- one request ------------------------------------------------------------------------------

    def send(self, number: int, refused: set[int]) -> None:
        """Choose a server; if it refuses the connection, choose another, or give up."""
        able = self.listed
        if self.balance == "by_kind":
            own = self.places[self.kinds[number]]
            able = [each for each in able if each.number in own]
        if refused:
            able = [each for each in able if each.number not in refused]
        if not able:
            self.finish(number, "no server")
            return
        chosen = self.choose(able)
        self.tries[number] += 1
        self.server[number] = chosen.number
        if chosen.answers:
            chosen.queue.append(number)
            self.begin(chosen)
        elif self.tries[number] > self.health.retries:
            self.finish(number, "refused")
        else:
            self.send(number, refused | {chosen.number})

    def choose(self, able: list[_Server]) -> _Server:
        """The balancing."""
        if self.balance == "round_robin":
            self.turn += 1
            return able[self.turn % len(able)]
        if self.balance != "random":  # ties are broken at random, as Caddy does
            least = min(each.outstanding for each in able)
            able = [each for each in able if each.outstanding == least]
        return able[int(self.random.integers(len(able)))] if len(able) > 1 else able[0]

    def begin(self, server: _Server) -> None:
        """Compute what has waited longest, as long as a slot is free."""
        while server.queue and len(server.running) < self.slots:
            number = server.queue.popleft()
            server.running.add(number)
            self.start[number] = self.now
            self.waits.append((self.now, self.now - self.arrival[number]))
            self.at(self.now + self.seconds[number], partial(self.answer, server, number))

    def answer(self, server: _Server, number: int) -> None:
        """A computation is over, unless its server has died meanwhile."""
        if number in server.running:
            server.running.remove(number)
            self.finish(number)
            self.begin(server)
            self.leave(server)

    def finish(self, number: int, error: str = "") -> None:
        """A request is answered or refused."""
        self.end[number], self.error[number] = self.now, error
        self.done += 1

    # -- what happens to servers ------------------------------------------------------------------

    def relist(self) -> None:
        """The proxy's list has changed."""
        self.listed = [each for each in self.fleet if each.listed]

    def happen(self, event: Event) -> None:
        """A server dies, with all that it had, or is taken off the proxy's list."""
        server = self.fleet[event.server]
        if event.what == "dies":
            server.answers = False
            for number in (*server.running, *server.queue):
                self.finish(number, "died")
            server.running.clear()
            server.queue.clear()
            if event.seconds < math.inf:
                self.at(self.now + event.seconds, partial(setattr, server, "answers", True))
        else:
            self.empty(server, event.seconds)

    def empty(self, server: _Server, away: float) -> None:
        """Send a server nothing more; when it is empty, it stays `away` for these seconds."""
        server.listed, server.leaves = False, away
        self.relist()
        self.leave(server)

    def leave(self, server: _Server) -> None:
        """If a server was to be emptied and is empty, it goes, and may come back."""
        if server.leaves is not None and not server.outstanding:
            away, server.leaves = server.leaves, None
            server.answers = False
            if away == math.inf:
                server.until = self.now
            else:
                self.at(self.now + away, partial(self.join, server))

    def join(self, server: _Server) -> None:
        """A server answers, and the proxy knows it."""
        server.answers = server.listed = True
        self.relist()

    def check(self) -> None:
        """The health check: from now on, the proxy's list has the servers that answer."""
        for server in self.fleet:
            server.listed = server.answers and server.leaves is None
        self.relist()
        self.at(self.now + self.health.every, self.check)

    def scale(self, rule: Scaling, wanted: list[tuple[float, int]]) -> None:
        """The autoscaler's decision."""
        while self.waits and self.waits[0][0] < self.now - rule.window:
            self.waits.popleft()
        mean = sum(wait for _, wait in self.waits) / max(1, len(self.waits))
        present = [each for each in self.fleet if each.until == math.inf and each.leaves is None]
        ready = sum(each.answers for each in present)
        # What a server that is not ready would measure counts as 0; within 10 % nothing changes.
        ratio = mean / rule.target * ready / len(present)
        need = len(present) if abs(ratio - 1) <= 0.1 else math.ceil(len(present) * ratio)
        wanted.append((self.now, min(max(need, rule.least), rule.most)))
        wanted[:] = [each for each in wanted if each[0] > self.now - max(rule.calm, rule.sure)]
        more = min(count for time, count in wanted if time > self.now - rule.sure)
        fewer = max(count for time, count in wanted if time > self.now - rule.calm)
        for _ in range(min(more - len(present), max(4, len(present)))):
            new = _Server(len(self.fleet), self.now, answers=False, listed=False)
            self.fleet.append(new)
            self.at(self.now + rule.delay, partial(self.join, new))
        if fewer < len(present) and self.now >= self.gone + rule.pace:
            self.gone = self.now
            self.empty(present[-1], math.inf)
        self.at(self.now + rule.every, partial(self.scale, rule, wanted))
