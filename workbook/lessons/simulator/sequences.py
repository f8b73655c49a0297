"""The sequence batcher: who gets a slot, and its two strategies.

Upstream: core's src/sequence_batch_scheduler.cc.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

from .dynamic import DynamicBatcher
from .instances import Instances, Payload
from .queues import Job
from .settings import Direct, DynamicBatching, Model, Oldest
from .threads import Clock, Sleeps, Thread

NO_START = "must specify the START flag on the first request of the sequence"
NO_SEQUENCE = "must specify a non-zero or non-empty correlation ID"
TOO_MANY_ROWS = "must specify batch-size 1 due to requirements of sequence batcher"
_REVISIT = 50_000  # µs: backlog_idle_wait_microseconds
_SLEEP = 500_000  # µs: default_wait_microseconds


class Strategy(Protocol):
    """What the scheduler needs of a strategy, one per instance."""

    def enqueue(self, slot: int, job: Job | None) -> None:
        """Queue a request in a slot; None means that the slot is to be released."""


class SequenceScheduler:
    """Assigns sequences to slots. Sequences without a slot wait in the backlog."""

    def __init__(
        self,
        clock: Clock,
        instances: Instances,
        model: Model,
        batching: Direct | Oldest,
        refuse: Callable[[Job, str], None],
    ) -> None:
        """Make the slots.

        Args:
            clock: the time.
            instances: who executes.
            model: for its max_batch_size.
            batching: the strategy's settings.
            refuse: called with a request that is refused, and why.
        """
        self._clock, self._refuse = clock, refuse
        self._idle = batching.max_sequence_idle_us
        self._strategies: list[Strategy] = []
        for number in range(instances.count):
            if isinstance(batching, Direct):
                slots = max(1, model.max_batch_size)
                self._strategies.append(
                    DirectStrategy(clock, instances, number, batching, slots, self.release)
                )
            else:
                slots = batching.max_candidate_sequences
                dynamic = DynamicBatcher(
                    clock,
                    instances,
                    DynamicBatching(
                        preferred_batch_size=batching.preferred_batch_size,
                        max_queue_delay_us=batching.max_queue_delay_us,
                        preserve_ordering=True,
                    ),
                    model.max_batch_size,
                    refuse,
                    number,
                )
                self._strategies.append(OldestStrategy(dynamic, slots, self.release, number))
        #: Free slots as (slot, instance): the lowest slot first, over all instances
        #: (`BatcherSequenceSlotCompare`; which instance is not said, here the first).
        self._free = [(slot, i) for slot in range(slots) for i in range(instances.count)]
        self._slots: dict[int, tuple[int, int]] = {}  # by sequence, while more may come
        self._backlog: list[list[Job]] = []
        self._waiting: dict[int, list[Job]] = {}  # the backlog by sequence, likewise
        self._last: dict[int, int] = {}  # when a sequence last sent a request

    def enqueue(self, job: Job) -> None:
        """Give a request to its sequence's slot, or to the backlog (`Enqueue`)."""
        request = job.request
        sequence = request.sequence
        if job.rows > 1:
            self._refuse(job, TOO_MANY_ROWS)
            return
        if not sequence:
            self._refuse(job, NO_SEQUENCE)
            return
        known = sequence in self._slots or sequence in self._waiting
        if not known and not request.start:
            self._refuse(job, NO_START)
            return
        job.batcher_start = now = self._clock.now
        self._last[sequence] = now
        self._clock.at(now + self._idle, lambda: self._reap(sequence, now))
        if sequence in self._waiting:
            self._waiting[sequence].append(job)
            if request.end:
                del self._waiting[sequence]
            return
        if sequence not in self._slots and not self._free:
            self._backlog.append([job])
            if not request.end:
                self._waiting[sequence] = self._backlog[-1]
            return
        if sequence not in self._slots:
            self._slots[sequence] = heapq.heappop(self._free)
        slot, instance = self._slots[sequence]
        if request.end:
            del self._slots[sequence]
        self._strategies[instance].enqueue(slot, job)

    def release(self, instance: int, slot: int) -> list[Job | None]:
        """Give a slot to the sequence that has waited longest (`ReleaseSequenceSlot`).

        Returns:
            That sequence's requests; empty if none waits, and then the slot is free.
        """
        if not self._backlog:
            heapq.heappush(self._free, (slot, instance))
            return []
        jobs = self._backlog.pop(0)
        if not jobs[-1].request.end:
            sequence = jobs[-1].request.sequence
            del self._waiting[sequence]
            self._slots[sequence] = (slot, instance)
        return list(jobs)

    def _reap(self, sequence: int, since: int) -> None:
        """Take the slot from a sequence that has sent nothing since then (`ReaperThread`)."""
        if self._last.get(sequence) != since:
            return
        if sequence in self._slots:
            slot, instance = self._slots.pop(sequence)
            self._strategies[instance].enqueue(slot, None)
        elif sequence in self._waiting:
            self._clock.at(self._clock.now + _REVISIT, lambda: self._reap(sequence, since))


class DirectStrategy:
    """One execution at a time; slot k is row k of the batch (`DirectSequenceBatch`).

    Slots below the highest one with a request take part with an empty row each. The rows of slots
    above are left out.
    """

    def __init__(
        self,
        clock: Clock,
        instances: Instances,
        instance: int,
        settings: Direct,
        slots: int,
        release: Callable[[int, int], list[Job | None]],
    ) -> None:
        self._clock, self._instances, self._instance = clock, instances, instance
        self._settings, self._release = settings, release
        self._queues: list[list[Job | None]] = [[] for _ in range(slots)]
        self._executing = False
        self._thread = Thread(clock, self._run())

    def enqueue(self, slot: int, job: Job | None) -> None:
        """Queue a request in its slot, and wake the thread."""
        self._queues[slot].append(job)
        if not self._executing:
            self._thread.notify()

    def _run(self) -> Sleeps:
        """The thread's loop (`BatcherThread`)."""
        while True:
            while self._executing:
                yield None
            for slot, queue in enumerate(self._queues):
                if queue and queue[0] is None:  # the sequence was idle for too long
                    queue[:] = self._release(self._instance, slot)
            ready = [slot for slot, queue in enumerate(self._queues) if queue]
            wait = self._wait(ready) if ready else _SLEEP
            if wait > 0:
                yield wait
                continue
            payload = Payload(saturated=True, on_release=self._execution_ended)
            for slot in range(ready[-1] + 1):
                queue = self._queues[slot]
                job = queue.pop(0) if queue else None
                payload.jobs.append(job)
                if job is not None and job.request.end:
                    queue[:] = self._release(self._instance, slot)
            self._executing = True
            self._instances.enqueue(payload, self._instance)

    def _wait(self, ready: list[int]) -> int:
        """How long to wait for more slots, in microseconds."""
        delay, least = self._settings.max_queue_delay_us, self._settings.minimum_slot_utilization
        fronts = [self._queues[slot][0] for slot in ready]
        age = self._clock.now - min(job.batcher_start for job in fronts if job is not None)
        if delay == 0 or least == 0 or len(ready) / len(self._queues) >= least or age > delay:
            return 0
        return delay - age + 1

    def _execution_ended(self) -> None:
        self._executing = False
        self._thread.notify()


class OldestStrategy:
    """At most one request of each slot is in the dynamic batcher (`OldestSequenceBatch`)."""

    def __init__(
        self,
        batcher: DynamicBatcher,
        slots: int,
        release: Callable[[int, int], list[Job | None]],
        instance: int,
    ) -> None:
        self._batcher, self._release, self._instance = batcher, release, instance
        self._queues: list[list[Job | None]] = [[] for _ in range(slots)]
        self._in_flight = [False] * slots

    def enqueue(self, slot: int, job: Job | None) -> None:
        """Queue a request in its slot; it goes on at once if none of its sequence is under way."""
        self._queues[slot].append(job)
        if not self._in_flight[slot]:
            self._next(slot)

    def _next(self, slot: int) -> None:
        """A request of the slot has ended: send the next one (`CompleteAndNext`).

        A slot is given away when its sequence's last request goes to the batcher. The next
        sequence's first request waits until that one has ended.
        """
        self._in_flight[slot] = False
        while self._queues[slot] and not self._in_flight[slot]:
            job = self._queues[slot].pop(0)
            if job is not None:
                self._in_flight[slot] = True
                job.on_release.append(lambda: self._next(slot))
                self._batcher.enqueue(job)
            if job is None or job.request.end:
                self._queues[slot][:] = self._release(self._instance, slot)
