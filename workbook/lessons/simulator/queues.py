"""The dynamic batcher's queue: a queue per priority level, each with its policy.

Upstream: `PriorityQueue` and `PriorityQueue::PolicyQueue` in core's src/scheduler_utils.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .settings import DynamicBatching, QueuePolicy, Request

FULL = "Exceeds maximum queue size"
EXPIRED = "Request timeout expired"


@dataclass(eq=False)
class Job:
    """A request within the server, and what became of it. Times are in microseconds."""

    request: Request
    number: int  # its place in the plan
    queued: int = 0  # when the scheduler got it
    batcher_start: int = 0  # when the batcher got it: later, if it waited for its sequence
    deadline: int | None = None  # when its timeout is over
    error: str = ""
    answered: int | None = None
    on_release: list[Callable[[], None]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return max(1, self.request.rows)


class PolicyQueue:
    """The queue of one priority level.

    Requests whose timeout is over and whose `timeout_action` is DELAY go to a second queue, which
    has its turn when the first is empty. Both count towards `max_queue_size`.
    """

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self._queue: list[Job] = []
        self._delayed: list[Job] = []

    def __iter__(self) -> Iterator[Job]:
        yield from self._queue
        yield from self._delayed

    def __len__(self) -> int:
        return len(self._queue) + len(self._delayed)

    def enqueue(self, job: Job, now: int) -> bool:
        """Add a request; False if the queue is full (`PolicyQueue::Enqueue`).

        A request's own timeout counts only if it is shorter than the default. So without a default
        timeout it has no effect, whatever `allow_timeout_override` says.
        """
        if self.policy.max_queue_size and len(self) >= self.policy.max_queue_size:
            return False
        timeout, own = self.policy.default_timeout_us, job.request.timeout_us
        if self.policy.allow_timeout_override and 0 < own < timeout:
            timeout = own
        job.deadline = now + timeout if timeout else None
        self._queue.append(job)
        return True

    def remove(self, job: Job) -> None:
        """Take a request out of the queue."""
        (self._queue if job in self._queue else self._delayed).remove(job)

    def expire(self, job: Job, now: int) -> bool:
        """Apply the timeout's action to a request (`PolicyQueue::ApplyPolicy`).

        Returns:
            Whether its timeout was over. If so, it has been taken out (REJECT) or put behind.
        """
        if job.deadline is None or now <= job.deadline or job not in self._queue:
            return False
        self._queue.remove(job)
        if self.policy.timeout_action == "DELAY":
            job.deadline = None
            self._delayed.append(job)
        return True


class PriorityQueue:
    """The queues of all levels. Level 1 goes before level 2; in a level, the oldest goes first."""

    def __init__(self, batching: DynamicBatching) -> None:
        self._batching = batching
        self._levels: dict[int, PolicyQueue] = {}

    @property
    def supports_prefetching(self) -> bool:
        """Whether batches may be formed before an instance is free.

        Only without priorities, timeouts and queue sizes: a request that has left the queue can
        be neither refused nor overtaken (`PriorityQueue::PriorityQueue`).
        """
        policy = self._batching.default_queue_policy
        return (
            self._batching.priority_levels == 0
            and policy.default_timeout_us == 0
            and not policy.allow_timeout_override
            and policy.max_queue_size == 0
        )

    def __len__(self) -> int:
        return sum(map(len, self._levels.values()))

    def enqueue(self, job: Job, now: int) -> bool:
        """Add a request to its level; False if that level is full."""
        return self._level(self._number(job.request)).enqueue(job, now)

    def remove(self, job: Job) -> None:
        """Take a request out of its level."""
        self._level(self._number(job.request)).remove(job)

    def candidates(self, now: int, rejected: list[Job]) -> Iterator[Job]:
        """The requests in the order in which they may go into a batch.

        The policy is applied to each request when its turn comes, and not before: requests
        behind the end of the batch are not looked at (`PriorityQueue::ApplyPolicyAtCursor`).

        Args:
            now: the time in microseconds.
            rejected: gets the requests that are refused on the way.
        """
        for number in sorted(self._levels):
            level = self._levels[number]
            seen: set[int] = set()
            while (job := next((j for j in level if j.number not in seen), None)) is not None:
                if level.expire(job, now):
                    if level.policy.timeout_action == "REJECT":
                        rejected.append(job)
                    continue
                seen.add(job.number)
                yield job

    def reject_expired(self, now: int) -> list[Job]:
        """Refuse all whose timeout is over (`PriorityQueue::RejectTimeoutRequests`)."""
        return [
            job
            for level in self._levels.values()
            if level.policy.timeout_action == "REJECT"
            for job in list(level)
            if level.expire(job, now)
        ]

    def _number(self, request: Request) -> int:
        """The level of a request (`InferenceRequest::SetPriority`)."""
        levels = self._batching.priority_levels
        if levels == 0:
            return 0
        level = request.priority
        return level if 0 < level <= levels else self._batching.default_priority_level

    def _level(self, number: int) -> PolicyQueue:
        if number not in self._levels:
            own = self._batching.priority_queue_policy.get(number)
            self._levels[number] = PolicyQueue(own or self._batching.default_queue_policy)
        return self._levels[number]
