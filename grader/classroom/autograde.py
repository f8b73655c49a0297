"""A class: every submission a task on dask.distributed, every result kept, one writer.

The cluster is on this machine unless a scheduler's address is given. A task gets a submission as
bytes and answers with the result as JSON, so that a worker needs this checkout and nothing else of
this machine. Results are stored by the hash of all that they depend on, each as soon as it comes:
what is stored is not graded again, after a kill neither.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import queue
import tarfile
import tempfile
import threading
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

from ..checks.results import Flag, Graded, Status, Verdict
from ..judge import grade
from . import gradebook, intake
from .classroom import Classroom

if TYPE_CHECKING:
    from distributed import Client, Future

Grader = Callable[[Path, str, grade.Settings], Graded]
Keyer = Callable[[Path, str, grade.Settings], str]

#: The flag of a submission that has no verdict.
NOT_GRADED = "not graded"
#: Flags of what may have been the machine's doing: the next run tries such a submission once more,
#: and one of which a check broke.
UNSURE = frozenset({NOT_GRADED, "runner ended", "judge ended"})
#: The flag of one that went the same way again; from then on it is graded by force only.
TWICE = "tried twice"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one run did.

    Attributes:
        graded: submissions that were graded in this run, by student.
        known: students whose result was stored already.
        failed: students whose submission could not be graded, in this run or before, and why.
        unwritten: students whose result nbgrader did not take, and why.
        seconds: how long the run took.
    """

    graded: tuple[str, ...]
    known: tuple[str, ...]
    failed: dict[str, str]
    unwritten: dict[str, str]
    seconds: float


def autograde(
    classroom: Classroom,
    assignment: Assignment,
    settings: grade.Settings,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    force: bool = False,
    deadline_s: float | None = None,
    console: Console | None = None,
    grader: Grader = grade.grade,
    keyer: Keyer = grade.key,
) -> Outcome:
    """Grade every submission that has no result yet, and write all results to the gradebook.

    Args:
        classroom: its `submitted/` is graded; results and gradebook are written there.
        settings: as for `grade.grade`.
        workers: processes on this machine; by default one for each core.
        scheduler: the address of a running dask scheduler, instead of processes on this machine.
            Its workers run code that they are sent: it must not be reachable by students.
        force: grade again what is graded, and write again what is written.
        deadline_s: the most that one submission may take in all; by default the sum of its parts'
            own limits, with a margin.
        console: where progress is shown.
        grader, keyer: what grades one submission, and names its result.

    Raises:
        WorkbookError: nothing can be graded here: no sandbox, no release, no worker.
    """
    began = time.monotonic()
    deadline_s = deadline_s or settings.wall_s + grade.JUDGE.wall_s + 60
    roll: dict[str, str] = {}
    todo: dict[str, Path] = {}
    again: set[str] = set()
    failed: dict[str, str] = {}
    unwritten: dict[str, str] = {}
    for student, folder in classroom.submissions(assignment.name).items():
        known = intake.record(classroom, assignment.name, student)
        if known and known.problem:
            nothing = intake.refused(assignment, known.problem)
            roll[student] = nothing.key
            if not classroom.has(assignment.name, nothing.key):
                classroom.keep(nothing)
            continue
        key = roll[student] = keyer(folder, assignment.name, settings)
        found = classroom.find(assignment.name, key)
        if force or found is None or not settled(found):
            todo[key] = folder
            if found is not None and not force:
                again.add(key)
        elif NOT_GRADED in (kinds := _kinds(found)):
            failed[student] = f"{kinds[NOT_GRADED]} {kinds[TWICE]}"
    classroom.save_results_index(assignment.name, roll)
    classroom.set_limits(assignment.name, settings.limits)
    owners: dict[str, list[str]] = {}
    for student, key in roll.items():
        owners.setdefault(key, []).append(student)
    written = {} if force else gradebook.written(classroom, assignment.name)
    writer = gradebook.Writer(classroom, assignment)

    def write(key: str, *, anew: bool = False) -> None:
        for student in owners[key]:
            if anew or written.get(student) != key:
                try:
                    writer.write(student, key)
                except WorkbookError as error:
                    unwritten[student] = str(error)

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        refresh_per_second=2,  # a submission takes seconds, and the processor has other work
    )
    graded: list[str] = []
    if todo:
        with bar:
            line = bar.add_task(f"Grading {assignment.name}", total=len(todo))
            tasks = _results(todo, assignment, settings, workers, scheduler, deadline_s, grader)
            with contextlib.closing(tasks) as results:
                for key, came in results:
                    if isinstance(came, Graded):
                        graded.extend(owners[key])
                        result = came
                    else:
                        failed.update(dict.fromkeys(owners[key], came))
                        result = _failure(assignment, key, came)
                    if key in again and not settled(result):
                        result = _twice(result)
                    classroom.keep(result)
                    write(key, anew=True)
                    bar.advance(line)
    for key in owners:
        if key not in todo:
            write(key)
    new = {student for key in todo for student in owners[key]}
    return Outcome(
        graded=tuple(sorted(graded)),
        known=tuple(student for student in roll if student not in new),
        failed=failed,
        unwritten=unwritten,
        seconds=time.monotonic() - began,
    )


def settled(graded: Graded) -> bool:
    """Whether a result is final, or the next run should try the submission once more."""
    kinds = _kinds(graded).keys()
    broke = any(check.status == "error" for check in graded.verdict.checks)
    return TWICE in kinds or not (broke or kinds & UNSURE)


def _kinds(graded: Graded) -> dict[str, str]:
    """A result's flags: detail by kind."""
    return {flag.kind: flag.detail for flag in graded.verdict.flags}


def _twice(graded: Graded) -> Graded:
    """The same result, with the flag that ends the trying."""
    why = "It went this way in two runs, and is graded again only with --force, or when it changes."
    flags = (*graded.verdict.flags, Flag(kind=TWICE, detail=why))
    return graded.model_copy(update={"verdict": graded.verdict.model_copy(update={"flags": flags})})


def _failure(assignment: Assignment, key: str, why: str) -> Graded:
    """The record of a submission that has no verdict."""
    status: Status = "error"
    nothing = intake.refused(assignment, why)
    checks = tuple(
        check.model_copy(
            update={"status": status, "rationale": why, "help": "Tell your instructor."}
        )
        for check in nothing.verdict.checks
    )
    verdict = Verdict(
        assignment=assignment.name, checks=checks, flags=(Flag(kind=NOT_GRADED, detail=why),)
    )
    return nothing.model_copy(update={"key": key, "verdict": verdict})


def _results(
    todo: dict[str, Path],
    assignment: Assignment,
    settings: grade.Settings,
    workers: int | None,
    scheduler: str | None,
    deadline_s: float,
    grader: Grader,
) -> Generator[tuple[str, Graded | str], None, None]:
    """Each key with its result, or with the reason why there is none, as they come.

    Work is handed out in a thread of its own: while the caller writes a result down, which takes a
    part of a second, no worker waits for the next submission.
    """
    come: queue.SimpleQueue[tuple[str, Graded | str] | BaseException | None] = queue.SimpleQueue()
    stop = threading.Event()

    with _cluster(workers, scheduler) as client:

        def work() -> None:
            try:
                _hand_out(client, todo, assignment, settings, deadline_s, grader, come.put, stop)
            except BaseException as error:
                come.put(error)
            come.put(None)

        thread = threading.Thread(target=work, name="hand out")
        thread.start()
        try:
            while (result := come.get()) is not None:
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            stop.set()
            thread.join()


def _hand_out(
    client: Client,
    todo: dict[str, Path],
    assignment: Assignment,
    settings: grade.Settings,
    deadline_s: float,
    grader: Grader,
    tell: Callable[[tuple[str, Graded | str]], None],
    stop: threading.Event,
) -> None:
    """Have all of `todo` graded, and tell each result.

    Only as many tasks as there are workers are handed out at a time: each begins at once, so that
    its age is known, and a worker that dies takes nothing with it but its own task.
    """
    run = uuid.uuid4().hex[:8]
    done: queue.SimpleQueue[Future[str]] = queue.SimpleQueue()
    waiting = deque(todo.items())
    running: dict[Future[str], tuple[str, float]] = {}
    try:
        while (waiting or running) and not stop.is_set():
            while waiting and len(running) < max(1, sum(client.nthreads().values())):
                key, folder = waiting.popleft()
                future: Future[str] = client.submit(
                    _task,
                    grader,
                    _packed(folder),
                    assignment.name,
                    settings,
                    key=f"grade-{key}-{run}",
                    pure=False,
                )
                running[future] = (key, time.monotonic())
                future.add_done_callback(done.put)
            with contextlib.suppress(queue.Empty):
                future = done.get(timeout=0.5)
                if future in running:
                    key, _ = running.pop(future)
                    tell((key, _answer(future, key)))
            for future, (key, since) in list(running.items()):
                if time.monotonic() - since > deadline_s and not future.done():
                    del running[future]
                    _stop(client, future)
                    tell((key, f"It did not end within {deadline_s:.0f} s, and was stopped."))
    finally:
        client.cancel(list(running), force=True)


def _answer(future: Future[str], key: str) -> Graded | str:
    from distributed.scheduler import KilledWorker

    if future.status == "finished":
        try:
            graded = Graded.model_validate_json(future.result())
        except ValidationError:
            return "The worker's answer is no result: it has another version of the grader."
        if graded.key != key:
            return "The course's files changed meanwhile, or the worker has other ones."
        return graded
    error = future.exception() if future.status == "error" else None
    if isinstance(error, WorkbookError):
        raise error
    if isinstance(error, KilledWorker):
        return "The process that graded it died, twice."
    return f"The grader itself failed: {type(error).__name__}: {str(error)[:500]}"


def _task(grader: Grader, packed: bytes, assignment: str, settings: grade.Settings) -> str:
    """What a worker does."""
    with tempfile.TemporaryDirectory(prefix="grade-") as scratch:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(scratch, filter="data")
        return grader(Path(scratch), assignment, settings).model_dump_json()


def _packed(folder: Path) -> bytes:
    """A submission as a tar: regular files and folders only, as the intake leaves them."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            if not path.is_symlink() and (path.is_file() or path.is_dir()):
                archive.add(path, path.relative_to(folder), recursive=False)
    return stream.getvalue()


def _stop(client: Client, future: Future[str]) -> None:
    """End a task that does not end by itself: its worker is killed, and started again."""
    where = [who for who, keys in client.processing().items() if future.key in keys]
    client.cancel([future], force=True)
    with contextlib.suppress(Exception):  # a worker without a nanny stays busy; the others go on
        client.restart_workers(where, timeout=30, raise_for_error=False)


@contextlib.contextmanager
def _cluster(workers: int | None, scheduler: str | None) -> Iterator[Client]:
    """A client of a cluster, with the cluster's end where it is ours."""
    import dask
    from distributed import Client, LocalCluster, WorkerPlugin

    class Calm(WorkerPlugin):  # type: ignore[misc]
        """Ctrl-C is the main process's business; without this each worker prints its own end."""

        def setup(self, worker: Any) -> None:
            import signal

            signal.signal(signal.SIGINT, lambda *_: None)

    quiet = {
        "distributed.scheduler.allowed-failures": 1,  # a task whose worker died is tried once more
        "distributed.logging": {"distributed": "critical"},
        "distributed.worker.daemon": True,
        "distributed.admin.large-graph-warning-threshold": "1GB",
        # What feeds a dashboard, that is not there, took a twentieth of a core in all.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.system-monitor.interval": "5s",
        "distributed.admin.tick.interval": "1s",
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(quiet))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        address: Any = scheduler
        if scheduler is None:
            address = stack.enter_context(
                LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,  # what a submission may use is the sandbox's business
                    dashboard_address=None,
                    host="127.0.0.1",
                    silence_logs=50,
                )
            )
        try:
            client = stack.enter_context(Client(address, timeout=20))
            client.wait_for_workers(1, timeout=60)
        except (OSError, TimeoutError):
            raise WorkbookError(
                "There is no dask scheduler with a worker.",
                where=str(scheduler or "this machine"),
                todo="Start one: `dask scheduler`, then `dask worker ADDRESS --nthreads 1`.",
            ) from None
        if scheduler is None:
            client.register_plugin(Calm())
        yield client
