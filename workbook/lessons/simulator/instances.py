"""Payloads, and the instances that take and execute them.

A payload is a batch that has left the batcher's queue. It waits in a queue of payloads until an
instance takes it. Upstream: `RateLimiter` in core's src/rate_limiter.cc, `InstanceQueue` in
src/instance_queue.cc, `Payload` in src/payload.cc, and `TritonBackendThread` in
src/backend_model_instance.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .queues import Job
from .threads import Clock, Sleeps, Thread


@dataclass(eq=False)
class Payload:
    """A batch on its way to an instance.

    Attributes:
        jobs: its requests; None is an empty slot of the direct strategy, which costs a row.
        scheduled: whether it waits for an instance, or has been taken.
        taken: whether no request can join any more, because an instance has it.
        saturated: whether it must not be merged with others.
        on_change: called when an instance takes it, and when the execution has ended.
        on_release: called after that, when the payload is given back.
    """

    jobs: list[Job | None] = field(default_factory=list)
    scheduled: bool = False
    taken: bool = False
    saturated: bool = False
    on_change: Callable[[], None] = lambda: None
    on_release: Callable[[], None] = lambda: None

    @property
    def requests(self) -> list[Job]:
        return [job for job in self.jobs if job is not None]

    @property
    def rows(self) -> int:
        return sum(job.rows if job else 1 for job in self.jobs)


@dataclass(frozen=True, eq=False)
class Execution:
    """One execution: what, where and when, in microseconds."""

    jobs: tuple[Job | None, ...]
    rows: int
    instance: int
    start: int
    end: int


class Instances:
    """The instances of a model, each a thread, and the payloads that wait for them."""

    def __init__(
        self,
        clock: Clock,
        count: int,
        max_batch_size: int,
        delay: int,
        duration: Callable[[int, int], int],
        finished: Callable[[Execution], None],
        batcher_first: Callable[[int], bool],
    ) -> None:
        """Start the threads.

        Args:
            clock: the time.
            count: how many instances.
            max_batch_size: rows of an execution, for merging.
            delay: the batcher's max_queue_delay_microseconds.
            duration: from an execution's rows, and how many executions run when it begins, to its
                length in microseconds.
            finished: called with each execution when it has ended.
            batcher_first: whether after the end of this execution (numbered from 1) the batcher
                looks before the instance counts as free.
        """
        self._clock, self._max, self._delay = clock, max_batch_size, delay
        self._duration, self._finished = duration, finished
        self._batcher_first, self._started, self._running = batcher_first, 0, 0
        self.count = count
        self._idle = [False] * count
        self._shared: list[Payload] = []  # any instance may take these
        self._own: list[list[Payload]] = [[] for _ in range(count)]
        self._free = 0
        self._threads = [Thread(clock, self._run(number)) for number in range(count)]

    def slot_available(self, instance: int | None, prefetching: bool) -> bool:
        """Whether the batcher may form a batch now (`RateLimiter::PayloadSlotAvailable`).

        With prefetching, up to two payloads per instance may wait. Upstream counts the payloads
        that any instance may take, also where the batcher belongs to one instance (oldest): there
        the answer is always yes. Without prefetching, an instance must be free.
        """
        if not prefetching:
            return self._free > 0
        return len(self._shared) < 2 * (self.count if instance is None else 1)

    def enqueue(self, payload: Payload, instance: int | None = None) -> None:
        """Let a payload wait for one instance, or for any (`RateLimiter::EnqueuePayload`)."""
        payload.scheduled = True
        self._free -= 1
        (self._shared if instance is None else self._own[instance]).append(payload)
        for number, thread in enumerate(self._threads):
            # C++ may wake any of the idle instances. Here it is the one with the lowest number.
            if self._idle[number] and instance in (None, number):
                self._idle[number] = False
                thread.notify()
                return

    def _run(self, number: int) -> Sleeps:
        while True:
            self._free += 1
            while not (self._shared or self._own[number]):
                self._idle[number] = True
                yield None
            self._idle[number] = False
            payload = self._take(self._shared or self._own[number])
            payload.on_change()
            start = self._clock.now
            self._started += 1
            execution = self._started
            self._running += 1
            yield self._duration(payload.rows, self._running)
            self._running -= 1
            self._finished(
                Execution(tuple(payload.jobs), payload.rows, number, start, self._clock.now)
            )
            for job in payload.requests:
                for release in job.on_release:
                    release()
            payload.on_change()
            if self._batcher_first(execution):
                yield 0  # other threads run
            payload.on_release()

    def _take(self, waiting: list[Payload]) -> Payload:
        """The first payload, merged with those behind it that fit (`InstanceQueue::Dequeue`).

        They are merged only if there is a delay, and if they have waited longer than it.
        """
        first = waiting.pop(0)
        first.taken = True
        while waiting and self._delay > 0 and self._max > 1 and not first.saturated:
            second = waiting[0]
            age = self._clock.now - min(job.batcher_start for job in second.requests)
            if second.saturated or age <= self._delay:
                break
            second.taken = True  # upstream marks it before it knows whether it fits
            if first.rows + second.rows > self._max:
                break
            first.jobs += second.jobs
            waiting.pop(0)
            second.on_change()
        return first
