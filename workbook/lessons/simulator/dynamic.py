"""The dynamic batcher.

Upstream: core's src/dynamic_batch_scheduler.cc. The oldest strategy of the sequence batcher uses
one per instance.
"""

from __future__ import annotations

from collections.abc import Callable

from .instances import Instances, Payload
from .queues import EXPIRED, FULL, Job, PriorityQueue
from .settings import DynamicBatching
from .threads import Clock, Sleeps, Thread

_SLEEP = 500_000  # µs: how long the batcher's thread sleeps at most (default_wait_microseconds)


class DynamicBatcher:
    """The batcher's thread, its queue, and the payload that it fills."""

    def __init__(
        self,
        clock: Clock,
        instances: Instances,
        batching: DynamicBatching,
        max_batch_size: int,
        refuse: Callable[[Job, str], None],
        instance: int | None = None,
    ) -> None:
        """Start the batcher's thread.

        Args:
            clock: the time.
            instances: who executes.
            batching: the settings.
            max_batch_size: rows of an execution at most; 0 counts as 1.
            refuse: called with a request that is refused, and why.
            instance: the only instance that it forms batches for; None for all.
        """
        self._clock, self._instances, self._instance = clock, instances, instance
        self._refuse = refuse
        self._queue = PriorityQueue(batching)
        self._max = max(1, max_batch_size)
        # NormalizeModelConfig in src/model_config_utils.cc: no preferred size means the largest.
        self._preferred = sorted(set(batching.preferred_batch_size) or {self._max})
        self._delay = batching.max_queue_delay_us
        self._payload = Payload()
        self._saturated = False  # whether nothing more is to go into the payload
        self._rows = 0  # in the queue (queued_batch_size_)
        self._next_preferred = 0  # fewer rows than that need not wake the thread
        self._thread = Thread(clock, self._run())

    def enqueue(self, job: Job) -> None:
        """Queue a request and wake the thread if there may be something to do (`Enqueue`)."""
        job.batcher_start = self._clock.now
        self._rows += job.rows  # upstream counts refused requests too, and never subtracts them
        if not self._queue.enqueue(job, self._clock.now):
            self._refuse(job, FULL)
            return
        enough = self._saturated or self._payload.taken or self._rows >= self._next_preferred
        if enough and self._slot_available():
            self._thread.notify()

    def _slot_available(self) -> bool:
        return self._instances.slot_available(self._instance, self._queue.supports_prefetching)

    def _run(self) -> Sleeps:
        """The thread's loop (`BatcherThread`)."""
        while True:
            if self._saturated or self._payload.taken:
                self._payload, self._saturated, self._next_preferred = Payload(), False, 0
            if not self._queue:
                yield _SLEEP
                continue
            yield from self._wait_for_slot()
            if self._payload.taken:
                continue
            rejected: list[Job] = []
            batch, wait = self._choose(rejected)
            for job in batch if wait == 0 else ():
                self._queue.remove(job)
                self._payload.jobs.append(job)
                self._rows -= job.rows
            if wait:
                yield wait
            if self._payload.jobs and not self._payload.scheduled:
                self._payload.on_change = self._thread.notify
                self._instances.enqueue(self._payload, self._instance)
            self._finish_rejected(rejected)  # after the sleep: refusals can come late

    def _wait_for_slot(self) -> Sleeps:
        """Sleep until an instance or a place for a payload is free.

        Every half second, requests whose timeout is over are refused. So on a busy server they can
        be answered long after their timeout (`WaitForPayloadSlotAvailable`).
        """
        while not self._slot_available():
            until = self._clock.now + _SLEEP
            while not self._slot_available() and self._clock.now < until:
                yield until - self._clock.now
            if not self._slot_available():
                self._finish_rejected(self._queue.reject_expired(self._clock.now))

    def _finish_rejected(self, rejected: list[Job]) -> None:
        for job in rejected:
            self._refuse(job, EXPIRED)
        rejected.clear()

    def _choose(self, rejected: list[Job]) -> tuple[list[Job], int]:
        """Which requests join the payload now (`GetDynamicBatch`).

        Args:
            rejected: gets the requests whose timeout is over.

        Returns:
            The requests in their order, and 0; or how long to wait before looking again, in
            microseconds. What is in the payload already counts towards the sizes.
        """
        now, there, largest = self._clock.now, self._payload.rows, self._preferred[-1]
        pending: list[Job] = []
        rows = 0  # of the pending requests
        best: int | None = None  # how many of them make a preferred size
        cannot_grow = False
        for job in self._queue.candidates(now, rejected):
            if there + rows > 0:
                if there + rows + job.rows > largest and not best:
                    best = len(pending)
                    self._saturated = True
                if there + rows + job.rows > self._max:
                    cannot_grow = True
                    break
            pending.append(job)
            rows += job.rows
            if there + rows in self._preferred:
                best = len(pending)
        self._rows -= sum(job.rows for job in rejected)
        oldest = min((job.batcher_start for job in pending), default=0)
        too_late = self._delay > 0 and now - oldest >= self._delay
        if best and not too_late:
            # A preferred size goes at once, and without a delay nothing joins it any more.
            self._saturated = self._saturated or self._delay == 0
            return pending[:best], 0
        if not pending:
            return [], 0
        if cannot_grow or there + rows >= largest:
            self._saturated = True
            return pending, 0
        if too_late or self._delay == 0:
            return pending, 0
        larger = [size for size in self._preferred if size > there + rows]
        self._next_preferred = (larger or self._preferred)[0] - there
        if not self._saturated and there > 0 and there not in self._preferred:
            return pending, 0  # a payload that waits for an instance anyway takes them along
        wait = oldest + self._delay - now
        deadlines = [job.deadline for job in pending if job.deadline is not None]
        if deadlines:
            wait = min(wait, max(1, min(deadlines) - now + 1))
        return pending, wait
