"""The simulator's input: the requests, and how a model's config schedules them.

The names come from Triton's config.pbtxt, with the unit added at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...common.errors import WorkbookError


@dataclass(frozen=True)
class Request:
    """One request of a plan.

    Example:
        Request("urgent", at_ms=30, rows=4, priority=1)

    Attributes:
        id: its name, unique within the plan.
        at_ms: when it arrives at the server, in milliseconds since the plan's start.
        after: the id of an earlier request of the plan whose answer its client waits for; `at_ms`
            is then counted from this answer (from the end of its execution, whatever
            `preserve_ordering` says).
        rows: how many rows it has, at least 1.
        priority: 0 takes the model's default, 1 is the most urgent.
        timeout_us: how long it may wait in the queue, in microseconds; 0 takes the model's own.
        sequence: the sequence that it belongs to; 0 for none.
        start, end: whether it begins or ends its sequence.
    """

    id: str
    at_ms: float = 0.0
    rows: int = 1
    priority: int = 0
    timeout_us: int = 0
    sequence: int = 0
    start: bool = False
    end: bool = False
    after: str = ""


def clients(count: int, requests: int, *, pause_ms: float = 0.0) -> list[Request]:
    """A plan of blocking clients: each sends its next request when it has its answer.

    Args:
        count: how many clients.
        requests: how many requests each sends.
        pause_ms: how long after an answer the next request arrives, and the first after the start.

    Example:
        simulate(model, clients(8, 20), duration_ms=30)     # as --concurrency-range 8
    """
    return [
        Request(f"{turn} {client}", pause_ms, after=f"{turn - 1} {client}" if turn else "")
        for turn in range(requests)
        for client in range(count)
    ]


@dataclass(frozen=True)
class QueuePolicy:
    """`default_queue_policy`, or one entry of `priority_queue_policy`.

    Attributes:
        timeout_action: what happens to a request that waited longer than its timeout: it is
            refused, or it goes behind all others of its level.
        default_timeout_us: the timeout in microseconds; 0 for none.
        allow_timeout_override: whether a request may ask for a shorter timeout.
        max_queue_size: how many requests may wait in this level's queue; 0 for any number.
    """

    timeout_action: Literal["REJECT", "DELAY"] = "REJECT"
    default_timeout_us: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0


@dataclass(frozen=True)
class DynamicBatching:
    """`dynamic_batching { }`.

    Attributes:
        preferred_batch_size: in rows; empty means max_batch_size, as the server fills it in.
        max_queue_delay_us: how long a batch may wait for more requests, in microseconds.
        preserve_ordering: whether answers are sent in the order in which batches were formed.
        priority_levels: 0 for one queue without priorities.
        default_priority_level: the level of requests that name none, or one that is too high.
        default_queue_policy: the policy of all levels without an own one.
        priority_queue_policy: policies by level.
    """

    preferred_batch_size: tuple[int, ...] = ()
    max_queue_delay_us: int = 0
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_priority_level: int = 0
    default_queue_policy: QueuePolicy = QueuePolicy()
    priority_queue_policy: Mapping[int, QueuePolicy] = field(default_factory=dict)


@dataclass(frozen=True)
class Direct:
    """`sequence_batching { direct { } }`: a sequence keeps its slot, its row of the batch.

    Attributes:
        max_queue_delay_us: how long a batch may wait for more slots, in microseconds.
        minimum_slot_utilization: the share of slots that ends that wait. The delay has an effect
            only if this is above 0.
        max_sequence_idle_us: a sequence that has sent nothing for this time loses its slot.
    """

    max_queue_delay_us: int = 0
    minimum_slot_utilization: float = 0.0
    max_sequence_idle_us: int = 1_000_000


@dataclass(frozen=True)
class Oldest:
    """`sequence_batching { oldest { } }`: a dynamic batcher per instance, at most one request of
    each sequence in it.

    Attributes:
        max_candidate_sequences: how many sequences each instance holds open.
        preferred_batch_size, max_queue_delay_us: as in `DynamicBatching`.
        max_sequence_idle_us: as in `Direct`.
    """

    max_candidate_sequences: int = 1
    preferred_batch_size: tuple[int, ...] = ()
    max_queue_delay_us: int = 0
    max_sequence_idle_us: int = 1_000_000


@dataclass(frozen=True)
class Model:
    """How a model is scheduled.

    Example:
        Model(max_batch_size=8, instances=2, batching=DynamicBatching(max_queue_delay_us=5000))

    Attributes:
        name: its name, for the tables.
        max_batch_size: rows of an execution at most; 0 means that the model does not batch.
        instances: how many executions may run at the same time.
        batching: None is the default scheduler: each request is an execution of its own.

    Raises:
        WorkbookError: Triton would refuse to load a model with these settings.
    """

    name: str = "model"
    max_batch_size: int = 0
    instances: int = 1
    batching: DynamicBatching | Direct | Oldest | None = None

    def __post_init__(self) -> None:
        if self.instances < 1:
            raise WorkbookError("A model needs an instance.", todo="Give instances=1 or more.")
        if self.max_batch_size < 0:
            raise WorkbookError(
                "max_batch_size is negative.", todo="Give 0 for a model that does not batch."
            )
        batching = self.batching
        if isinstance(batching, DynamicBatching | Oldest):
            wrong = [
                size
                for size in batching.preferred_batch_size
                if not 0 < size <= max(1, self.max_batch_size)
            ]
            if wrong:
                raise WorkbookError(
                    f"preferred_batch_size {wrong[0]} is not between 1 and max_batch_size "
                    f"{self.max_batch_size}.",
                    todo="Choose sizes that an execution can have.",
                )
        if isinstance(batching, Direct | Oldest) and batching.max_sequence_idle_us < 1:
            raise WorkbookError(
                "max_sequence_idle_us is less than 1.", todo="The server's default is 1000000."
            )
        if isinstance(batching, Oldest) and batching.max_candidate_sequences < 1:
            raise WorkbookError(
                "max_candidate_sequences is less than 1.", todo="Give at least 1 per instance."
            )
        if isinstance(batching, DynamicBatching):
            levels, default = batching.priority_levels, batching.default_priority_level
            if levels > 0 and not 0 < default <= levels:
                raise WorkbookError(
                    f"default_priority_level {default} is not between 1 and priority_levels "
                    f"{levels}.",
                    todo="Name the level of requests that name none.",
                )
