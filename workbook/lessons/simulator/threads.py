"""Time that jumps from event to event, and threads that sleep in it.

A thread of the server is written here as a generator: it runs without taking time, until it
yields how many microseconds it sleeps (None: until somebody notifies it). This is what the server's
threads do with `cv_.wait_for(lock, timeout)`. As in C++, a notification of a thread that does not
sleep has no effect.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator

#: A thread: a generator that yields how long it sleeps, in microseconds.
Sleeps = Generator[int | None, None, None]

#: The order of events at the same time: the server's own events come before the next arrival.
_SERVER, _ARRIVAL = 0, 1


class Clock:
    """The future events in the order of time. Times are whole microseconds."""

    def __init__(self) -> None:
        self.now = 0
        self._order = itertools.count()
        self._events: list[tuple[int, int, int, Callable[[], None]]] = []

    def at(self, time: int, event: Callable[[], None], *, arrival: bool = False) -> None:
        """Let an event happen at a time.

        Args:
            time: microseconds since the start.
            event: what is called then.
            arrival: whether a request arrives. The server deals with all else at that time first,
                and with each arrival before the next.
        """
        kind = _ARRIVAL if arrival else _SERVER
        heapq.heappush(self._events, (time, kind, next(self._order), event))

    def run(self, while_: Callable[[], bool]) -> None:
        """Let events happen, as long as a condition holds and there are any."""
        while self._events and while_():
            self.now, _, _, event = heapq.heappop(self._events)
            event()


class Thread:
    """A thread of the server: it sleeps until its time is over or until it is notified."""

    def __init__(self, clock: Clock, body: Sleeps) -> None:
        self._clock, self._body = clock, body
        self._nap = 0  # which sleep this is: a timer of an earlier one has no effect
        self._asleep = True
        self.notify()

    def notify(self) -> None:
        """Wake the thread; it runs after what runs now."""
        if self._asleep:
            self._wake_at(self._clock.now)
            self._asleep = False  # a second notification has no effect

    def _wake_at(self, time: int) -> None:
        self._nap += 1
        nap = self._nap
        self._clock.at(time, lambda: self._run(nap))

    def _run(self, nap: int) -> None:
        if nap != self._nap:
            return
        self._asleep = False
        sleep = next(self._body)
        self._asleep = True
        self._nap += 1
        if sleep is not None:
            self._wake_at(self._clock.now + sleep)
