"""Grade a class: one dask task per submission, and one writer for the gradebook.

The dask cluster is on this machine unless a scheduler's address is given. A task gets a submission
as bytes and returns the result as JSON. So a worker needs a checkout of the course, and no other
files of this machine. Each result is stored as soon as it is known, under a key: the hash of
everything that the result depends on. A submission whose key has a stored result is not graded
again, even if the last run was killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import io
import queue
import tarfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from rich.console import Console

from workbook.assignments import Assignment, files
from workbook.common.errors import WorkbookError

from ..judge import grade_submission, scratch
from ..vocabulary.results import Flag, Graded, Status, Verdict
from . import cluster, deadlines, gradebook, intake, progress_bar, roster
from .classroom import Classroom
from .ungraded import MAYBE_MACHINE, NOT_GRADED

if TYPE_CHECKING:
    from distributed import Client, Future

#: The function that grades one submission, and the one that computes the key of its result: see
#: `grade_submission.grade` and `grade_submission.key`.
Grader = Callable[[Path, str, grade_submission.Settings], Graded]
Keyer = Callable[[Path, str, grade_submission.Settings], str]

#: The flag of a submission whose second result has a flag of `MAYBE_MACHINE`, or a crashed check,
#: too. With the first such result, the next run grades it a second time; after that, only --force
#: grades it again.
TWICE = "tried twice"
#: Why there is no result where a worker died.
_DIED = "The process that graded it died, twice."


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one run did.

    Attributes:
        graded: students whose submission was graded in this run.
        known: students whose result had been stored before this run.
        failed: students whose submission could not be graded, in this run or before, with the
            reason.
        unwritten: students whose result could not be written into the gradebook, with the reason.
        unknown: students with a submission who are not in the class list. They are not graded.
        seconds: how long the run took.
    """

    graded: tuple[str, ...]
    known: tuple[str, ...]
    failed: dict[str, str]
    unwritten: dict[str, str]
    unknown: tuple[str, ...]
    seconds: float


def autograde(
    classroom: Classroom,
    assignment: Assignment,
    settings: grade_submission.Settings,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    force: bool = False,
    students: Collection[str] | None = None,
    deadline_s: float | None = None,
    console: Console | None = None,
    grader: Grader = grade_submission.grade,
    keyer: Keyer = grade_submission.key,
) -> Outcome:
    """Grade every submission that has no result yet, and write all results to the gradebook.

    Args:
        classroom: its `submitted/` is graded; results and gradebook are written there.
        assignment: the assignment, built.
        settings: as for `grade_submission.grade`.
        workers: processes on this machine; by default one per core.
        scheduler: the address of a running dask scheduler, instead of processes on this machine.
            Its workers run the code that clients send: students must not be able to reach it.
        force: grade and write every submission again.
        students: only these; by default all who are in the class list, or all where there is none.
        deadline_s: the most seconds for one submission in all; by default the limits of notebook
            and judge together, and 60 s more.
        console: where progress is shown.
        grader, keyer: the functions that grade one submission, and compute the key of its result.

    Raises:
        WorkbookError: nothing can be graded here: there is no sandbox, no release, or no worker;
            or the class list or the due dates are wrong; or one of `students` has no submission.
    """
    began = time.monotonic()
    deadline_s = deadline_s or settings.wall_s + grade_submission.JUDGE.wall_s + 60
    scratch.remove_left()
    _check_deadlines(classroom, assignment)
    gradebook.check_cells(classroom, assignment)
    listed = roster.read(classroom)
    plan = _plan(classroom, assignment, settings, force, keyer, listed, students)
    others = classroom.results_index(assignment.name) if students is not None else {}
    classroom.save_results_index(assignment.name, {**others, **plan.keys})
    classroom.set_limits(assignment.name, settings.limits)
    written = {} if force else gradebook.written_keys(classroom, assignment.name)
    writer = gradebook.Writer(classroom, assignment)
    graded: list[str] = []
    failed = dict(plan.failed)
    unwritten: dict[str, str] = {}

    def write(key: str, *, anew: bool = False) -> None:
        for student in plan.students[key]:
            if anew or written.get(student) != key:
                try:
                    writer.write(student, key)
                except WorkbookError as error:
                    unwritten[student] = str(error)

    if plan.todo:
        with progress_bar.shown(console, f"Grading {assignment.name}", len(plan.todo)) as advance:
            connection = cluster.connect(classroom, workers=workers, scheduler=scheduler)
            tasks = _results(plan.todo, assignment, settings, connection, deadline_s, grader)
            with (
                _report_when_stopped(console, plan.todo, graded),
                contextlib.closing(tasks) as results,
            ):
                for key, came in results:
                    if isinstance(came, Graded):
                        graded.extend(plan.students[key])
                        result = came
                    else:
                        failed.update(dict.fromkeys(plan.students[key], came))
                        result = _failure(assignment, key, came)
                    if key in plan.second_try and not is_final(result):
                        result = _as_final(result)
                    classroom.store(result)
                    write(key, anew=True)
                    advance()
    for key in plan.students:
        if key not in plan.todo:
            write(key)
    gradebook.name_students(classroom)
    if deadlines.of(classroom, assignment.name) is not None:
        from . import late_penalties  # late: nbgrader takes seconds to import

        late_penalties.refresh(classroom, assignment)
    return Outcome(
        graded=tuple(sorted(graded)),
        known=tuple(student for student, key in plan.keys.items() if key not in plan.todo),
        failed=failed,
        unwritten=unwritten,
        unknown=plan.unknown,
        seconds=time.monotonic() - began,
    )


@dataclasses.dataclass
class _Plan:
    """What a run has to do.

    Attributes:
        keys: the key of each student's result, by student.
        todo: the folders of the submissions to be graded, by key.
        second_try: keys among them whose last result may have been the machine's fault.
        failed: students whose submission could not be graded in two runs, with the reason.
        unknown: students with a submission who are not in the class list.
    """

    keys: dict[str, str] = dataclasses.field(default_factory=dict)
    todo: dict[str, Path] = dataclasses.field(default_factory=dict)
    second_try: set[str] = dataclasses.field(default_factory=set)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @functools.cached_property
    def students(self) -> dict[str, list[str]]:
        """The students of each result, by key. Students with the same files share one result."""
        found: dict[str, list[str]] = {}
        for student, key in self.keys.items():
            found.setdefault(key, []).append(student)
        return found


def _plan(
    classroom: Classroom,
    assignment: Assignment,
    settings: grade_submission.Settings,
    force: bool,
    keyer: Keyer,
    listed: roster.Roster | None,
    students: Collection[str] | None,
) -> _Plan:
    """Find the submissions to be graded. For those that cannot be read, store a result at once."""
    there = classroom.submissions(assignment.name)
    for student in students or ():
        if student not in there:
            raise WorkbookError(
                f"{student} has handed in nothing of {assignment.name}.",
                where=str(classroom.submitted),
                todo=_alike(student, there),
            )
    known_ids = None if listed is None else listed.students.keys()
    plan = _Plan(unknown=tuple(id for id in there if known_ids is not None and id not in known_ids))
    for student, folder in there.items():
        if student in plan.unknown or (students is not None and student not in students):
            continue
        known = intake.record(classroom, assignment.name, student)
        if known and known.problem:
            nothing = intake.refused_result(assignment, known.problem)
            plan.keys[student] = nothing.key
            if not classroom.has(assignment.name, nothing.key):
                classroom.store(nothing)
            continue
        key = plan.keys[student] = keyer(folder, assignment.name, settings)
        found = classroom.find(assignment.name, key)
        if force or found is None or not is_final(found):
            plan.todo[key] = folder
            if found is not None and not force:
                plan.second_try.add(key)
        elif NOT_GRADED in (kinds := _kinds(found)):
            plan.failed[student] = f"{kinds[NOT_GRADED]} {kinds[TWICE]}"
    return plan


@contextlib.contextmanager
def _report_when_stopped(
    console: Console | None, todo: Collection[str], graded: Collection[str]
) -> Iterator[None]:
    """If Ctrl-C ends the block, say how much of the work is done."""
    try:
        yield
    except KeyboardInterrupt:
        if console is not None:
            console.print(
                f"Of {len(todo)} submissions to be graded, {len(graded)} are, and are kept."
            )
        raise


def _alike(student: str, there: Iterable[str]) -> str:
    """A sentence with the ids that are most similar to an id that nobody has."""
    meant = difflib.get_close_matches(student, list(there), n=5, cutoff=0.5)
    return f"Write an id as in the class report, such as {', '.join(meant or list(there)[:5])}."


def _check_deadlines(classroom: Classroom, assignment: Assignment) -> None:
    """Raise before anything is graded if `deadlines.toml` is wrong."""
    deadline = deadlines.of(classroom, assignment.name)
    if deadline is not None and deadline.plugin:
        from . import late_penalties  # late: nbgrader takes seconds to import

        late_penalties.check(classroom, assignment)


def is_final(graded: Graded) -> bool:
    """Whether a result is final; False where the next run should grade the submission again."""
    kinds = _kinds(graded).keys()
    crashed = any(check.status == "error" for check in graded.verdict.checks)
    return TWICE in kinds or not (crashed or kinds & MAYBE_MACHINE)


def _kinds(graded: Graded) -> dict[str, str]:
    """The flags of a result: their details by kind."""
    return {flag.kind: flag.detail for flag in graded.verdict.flags}


def _as_final(graded: Graded) -> Graded:
    """The result with the added flag that makes it final."""
    why = "It ended so in two runs. It is graded again only with --force, or when it changes."
    flags = (*graded.verdict.flags, Flag(kind=TWICE, detail=why))
    return graded.model_copy(update={"verdict": graded.verdict.model_copy(update={"flags": flags})})


def _failure(assignment: Assignment, key: str, why: str) -> Graded:
    """The result of a submission that could not be graded, with the reason."""
    status: Status = "error"
    nothing = intake.refused_result(assignment, why)
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
    settings: grade_submission.Settings,
    connection: contextlib.AbstractContextManager[Client],
    deadline_s: float,
    grader: Grader,
) -> Generator[tuple[str, Graded | str], None, None]:
    """Yield each key with its result, or with the reason why there is none, when it is known.

    A separate thread sends the tasks to the workers. So no worker has to wait while the caller
    writes a result into the gradebook, which takes a part of a second.
    """
    results: queue.SimpleQueue[tuple[str, Graded | str] | BaseException | None] = (
        queue.SimpleQueue()
    )
    stop = threading.Event()

    with connection as client:

        def work() -> None:
            try:
                _hand_out(client, todo, assignment, settings, deadline_s, grader, results.put, stop)
            except BaseException as error:
                results.put(error)
            results.put(None)

        thread = threading.Thread(target=work, name="hand out")
        thread.start()
        try:
            while (result := results.get()) is not None:
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
    settings: grade_submission.Settings,
    deadline_s: float,
    grader: Grader,
    tell: Callable[[tuple[str, Graded | str]], None],
    stop: threading.Event,
) -> None:
    """Have all of `todo` graded; `tell` is called with each result.

    There are never more tasks on the cluster than workers. So each task begins at once, and it is
    known how long it has run. When a worker dies, its task moves to another one, which may have a
    task already; if that worker dies, too, both tasks are blamed. So a task that is blamed comes
    once more in the end, with nothing beside it.
    """
    run = uuid.uuid4().hex[:8]
    blamed = set[str]()
    done: queue.SimpleQueue[Future[str]] = queue.SimpleQueue()
    waiting = deque(todo.items())
    running: dict[Future[str], tuple[str, float]] = {}
    try:
        while (waiting or running) and not stop.is_set():
            workers = max(1, sum(client.nthreads().values()))
            while waiting and len(running) < (1 if waiting[0][0] in blamed else workers):
                key, folder = waiting.popleft()
                future: Future[str] = client.submit(
                    _task,
                    grader,
                    _pack(folder),
                    assignment.name,
                    settings,
                    key=f"grade-{key}-{run}{'-alone' if key in blamed else ''}",
                    pure=False,
                )
                running[future] = (key, time.monotonic())
                future.add_done_callback(done.put)
            with contextlib.suppress(queue.Empty):
                future = done.get(timeout=0.5)
                if future in running:
                    key, _ = running.pop(future)
                    answer = _answer(future, key)
                    if answer == _DIED and key not in blamed:
                        blamed.add(key)
                        waiting.append((key, todo[key]))
                    else:
                        tell((key, answer))
            for future, (key, since) in list(running.items()):
                if time.monotonic() - since > deadline_s and not future.done():
                    del running[future]
                    _stop(client, future)
                    tell((key, f"It did not end within {deadline_s:.0f} s, and was stopped."))
    finally:
        client.cancel(list(running), force=True)


def _answer(future: Future[str], key: str) -> Graded | str:
    """The result of a finished task, or the reason why it has none.

    Raises:
        WorkbookError: the grader cannot work on this machine, so that the run has to end.
    """
    from distributed.scheduler import KilledWorker

    if future.status == "finished":
        try:
            graded = Graded.model_validate_json(future.result())
        except ValidationError:
            return "The worker's answer is no result: it has another version of the grader."
        if graded.key != key:
            return "The course's files changed during the run, or the worker has others."
        return graded
    error = future.exception() if future.status == "error" else None
    if isinstance(error, WorkbookError):
        raise error
    if isinstance(error, KilledWorker):
        return _DIED
    return f"The grader itself failed: {type(error).__name__}: {str(error)[:500]}"


def _task(
    grader: Grader, packed: bytes, assignment: str, settings: grade_submission.Settings
) -> str:
    """Grade one submission, in a worker; returns the result as JSON."""
    with scratch.folder() as place:
        # A sandbox's own user reads root's files by their group (sandbox/own_user.py).
        Path(place).chmod(0o750)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            # Python before 3.11.4 (Debian 12) has no filters. `_packed` has made this archive.
            safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(place, **safe)
        return grader(Path(place), assignment, settings).model_dump_json()


def _pack(folder: Path) -> bytes:
    """A submission as a tar. It holds regular files and folders only, and no clutter."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in files(folder, folders=True):
            if not path.is_symlink() and (path.is_file() or path.is_dir()):
                archive.add(path, path.relative_to(folder), recursive=False)
    return stream.getvalue()


def _stop(client: Client, future: Future[str]) -> None:
    """End a task that does not end by itself: its worker is killed and started again."""
    where = [who for who, keys in client.processing().items() if future.key in keys]
    client.cancel([future], force=True)
    with contextlib.suppress(
        Exception
    ):  # where dask cannot restart a worker, it stays busy; others go on
        client.restart_workers(where, timeout=30, raise_for_error=False)
