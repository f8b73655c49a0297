"""`simulate`: what a model's scheduler does with a plan of requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial

import pandas as pd

from ...common.errors import WorkbookError
from ...measure import request_plan, trace_tables
from .dynamic import DynamicBatcher
from .instances import Execution, Instances, Payload
from .queues import Job
from .sequences import SequenceScheduler
from .settings import DynamicBatching, Model, Oldest, Request
from .threads import Clock

TOO_LARGE = "inference request batch-size must be <="
#: The columns of `Simulation.requests` and of `Simulation.executions`.
REQUESTS = [
    *("id", "error", "execution", "size", "rows", "place", "instance"),
    *("queued_ms", "start_ms", "end_ms", "answered_ms"),
]
EXECUTIONS = ["execution", "instance", "size", "rows", "slots", "start_ms", "end_ms"]


@dataclass(frozen=True)
class Simulation:
    """What happened. All times are in milliseconds since the plan's start.

    Attributes:
        requests: one row per request, in the plan's order: `id`; `error`, why it was refused, ""
            if it was not; of its execution: `execution` (numbered from 1), `size` (how many
            requests), `rows`, and the `instance` (from 0); `place`, its position in the
            execution (in the direct strategy: its slot); `queued_ms`, `start_ms`, `end_ms`, and
            `answered_ms`, when the answer or the refusal is sent. What does not exist is NaN.
        executions: one row per execution, in the order in which they began: `execution`,
            `instance`, `size`, `rows` (with the direct strategy's empty slots), `slots` (the ids
            of the requests; None is an empty slot), `start_ms`, `end_ms`.
        spans: the same as a table of `measure.traces`, for `measure.plot_timeline` and
            `measure.executions`. Requests that were refused have none.
    """

    requests: pd.DataFrame
    executions: pd.DataFrame
    spans: pd.DataFrame


def simulate(
    model: Model,
    plan: Iterable[Request | request_plan.Request],
    *,
    duration_ms: float | Callable[[int], float],
    slower: Callable[[int], float] = lambda running: 1.0,
    batcher_first: bool | Collection[int] = False,
) -> Simulation:
    """Simulate a model's scheduler: which requests go together, when, and which are refused.

    Requests that arrive at the same time arrive in the order of the plan, and the server handles
    each before the next arrives: the first request finds an idle server and is computed alone.

    Args:
        model: the settings, e.g. of `from_config`.
        plan: the requests; a plan for `measure.send` can be passed too.
        duration_ms: how long an execution takes in milliseconds: a number, or a function of its
            rows.
        slower: by which factor an execution takes longer because executions share cores: a
            function of how many run when it begins, itself included.
        batcher_first: numbers of executions: after these, the batcher looks before the instance
            counts as free; True for all. With a queue policy or priorities the batcher then sleeps
            for half a second, unless a request arrives. In the real server either happens, often
            (see the package's docstring).

    Raises:
        WorkbookError: the plan is empty, two requests have the same id, a request comes after one
            that is not before it in the plan, a time is negative, or an execution takes no time.

    Example:
        model = Model(max_batch_size=8, batching=DynamicBatching(max_queue_delay_us=20_000))
        result = simulate(model, measure.every(5, 12), duration_ms=lambda rows: 10 + 2 * rows)
        result.executions["rows"].tolist()
        measure.plot_timeline(result.spans)
    """
    jobs = [Job(_request(request), number) for number, request in enumerate(plan)]
    _check(jobs)
    clock = Clock()
    executions: list[Execution] = []
    unanswered = len(jobs)
    followers: dict[str, list[Job]] = {}
    for job in jobs:
        followers.setdefault(job.request.after, []).append(job)

    def duration(rows: int, running: int) -> int:
        length = duration_ms(rows) if callable(duration_ms) else duration_ms
        length *= slower(running)
        if not length > 0:
            raise WorkbookError(
                f"An execution of {rows} rows would take {length} ms.",
                where="duration_ms",
                todo="Give a number of milliseconds above 0.",
            )
        return max(1, round(length * 1000))

    def finished(execution: Execution) -> None:
        executions.append(execution)
        for job in execution.jobs:
            if job is not None:
                answer(job)

    def refuse(job: Job, reason: str) -> None:
        job.error = reason
        answer(job)

    def answer(job: Job) -> None:
        nonlocal unanswered
        job.answered = clock.now
        unanswered -= 1
        send(followers.get(job.request.id, ()))

    batching = model.batching
    # RateLimiter::InitializePayloadQueues: the direct strategy has no delay at this place.
    delay = batching.max_queue_delay_us if isinstance(batching, DynamicBatching | Oldest) else 0

    def looks_first(execution: int) -> bool:
        return batcher_first if isinstance(batcher_first, bool) else execution in batcher_first

    instances = Instances(
        clock, model.instances, model.max_batch_size, delay, duration, finished, looks_first
    )
    enqueue = _scheduler(clock, instances, model, refuse)

    def arrive(job: Job) -> None:
        job.queued = job.batcher_start = clock.now
        if job.rows > max(1, model.max_batch_size):
            refuse(job, f"{TOO_LARGE} {model.max_batch_size}")
        else:
            enqueue(job)

    def send(waiting: Iterable[Job]) -> None:
        for job in waiting:
            at = clock.now + round(job.request.at_ms * 1000)
            clock.at(at, partial(arrive, job), arrival=True)

    send(followers[""])
    clock.run(lambda: unanswered > 0)
    executions.sort(key=lambda execution: (execution.start, execution.instance))
    if isinstance(batching, DynamicBatching) and batching.preserve_ordering:
        _answer_in_order(executions)
    return _tables(model, jobs, executions)


def _request(request: Request | request_plan.Request) -> Request:
    if isinstance(request, Request):
        return request
    rows = [len(array) for array in request.inputs.values() if array.ndim]
    return Request(
        request.id, request.at_ms, rows[0] if rows else 1, request.priority, request.timeout_us,
        request.sequence, request.start, request.end,
    )  # fmt: skip


def _check(jobs: list[Job]) -> None:
    if not jobs:
        raise WorkbookError("The plan is empty.", todo="Give at least one request.")
    known: set[str] = set()
    for job in jobs:
        if job.request.id in known:
            raise WorkbookError(
                f"Two requests are called {job.request.id!r}.", todo="Give each an own id."
            )
        if job.request.after and job.request.after not in known:
            raise WorkbookError(
                f"Request {job.request.id!r} comes after {job.request.after!r}, which is not among "
                "the requests before it.",
                todo="Name an earlier request.",
            )
        known.add(job.request.id)
    early = next((job.request for job in jobs if job.request.at_ms < 0), None)
    if early is not None:
        raise WorkbookError(
            f"Request {early.id!r} arrives at {early.at_ms} ms.", todo="Begin at 0 ms."
        )


def _scheduler(
    clock: Clock, instances: Instances, model: Model, refuse: Callable[[Job, str], None]
) -> Callable[[Job], None]:
    """The function that takes a model's requests (`TritonModel::SetConfiguredScheduler`)."""
    batching = model.batching
    if batching is None:
        # Each request is a payload of its own (DynamicBatchScheduler::Enqueue).
        return lambda job: instances.enqueue(Payload([job]))
    if isinstance(batching, DynamicBatching):
        return DynamicBatcher(clock, instances, batching, model.max_batch_size, refuse).enqueue
    return SequenceScheduler(clock, instances, model, batching, refuse).enqueue


def _answer_in_order(executions: list[Execution]) -> None:
    """Delay each answer until all requests that were batched before it are answered.

    Upstream: `DynamicBatchScheduler::DelegateResponse` and `FinalizeResponses`.
    """
    latest = 0
    for execution in executions:
        latest = max(latest, execution.end)
        for job in execution.jobs:
            if job is not None:
                job.answered = latest


def _tables(model: Model, jobs: list[Job], executions: list[Execution]) -> Simulation:
    rows: dict[int, dict[str, object]] = {
        job.number: {
            "id": job.request.id,
            "error": job.error,
            "queued_ms": job.queued / 1000,
            "answered_ms": None if job.answered is None else job.answered / 1000,
        }
        for job in jobs
    }
    spans = []
    table = []
    for number, execution in enumerate(executions, 1):
        size = sum(job is not None for job in execution.jobs)
        start, end = execution.start / 1000, execution.end / 1000
        names = [job.request.id if job else None for job in execution.jobs]
        table.append((number, execution.instance, size, execution.rows, names, start, end))
        # `measure.executions` takes requests with the same start for one execution. So each
        # execution begins some nanoseconds later than the one before.
        begin = start + number * 1e-6
        for place, job in enumerate(execution.jobs):
            if job is None:
                continue
            rows[job.number] |= {
                "execution": number, "size": size, "rows": execution.rows, "place": place,
                "instance": execution.instance, "start_ms": start, "end_ms": end,
            }  # fmt: skip
            queued = job.queued / 1000
            for span, first, last in (
                ("request", queued, end), ("queue", queued, begin),
                ("compute_input", begin, begin), ("compute_infer", begin, end),
                ("compute_output", end, end),
            ):  # fmt: skip
                spans.append((
                    job.number + 1, 0, job.request.id, model.name, "1", span, first, last - first
                ))  # fmt: skip
    requests = pd.DataFrame([rows[job.number] for job in jobs], columns=REQUESTS)
    times = {"start_ms": float, "end_ms": float}  # also where there is none
    return Simulation(
        requests.astype(dict.fromkeys(REQUESTS[2:], float)),
        pd.DataFrame(table, columns=EXECUTIONS).astype(times),
        pd.DataFrame(spans, columns=trace_tables.COLUMNS),
    )
