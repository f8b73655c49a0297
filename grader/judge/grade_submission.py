"""Grade one submission: restore its locked cells, run its notebook, run the checks on its models.

A submission is a folder with the notebook (`a2.ipynb`) and its files (`models/…`). `grade` returns
a result for every submission. If a part of it could not be read, run or judged, a flag of the
result names the problem, and the checks that need this part earn no points.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from workbook import assignments
from workbook.assignments import Assignment, cells
from workbook.common.errors import WorkbookError

from .. import sandbox
from ..sandbox import limited
from ..sandbox.mounts import course
from ..vocabulary.define import Check, load
from ..vocabulary.results import CheckResult, Flag, Graded, Stopped, Verdict
from . import forks_per_assignment, scratch
from .course_files import fingerprint
from .judge import Line, Order
from .run_notebook import (
    CELL_S,
    NOTEBOOK_S,
    READING_BYTES,
    READING_CPU_S,
    Execution,
    execute,
    load_nbformat,
)

#: The limits for the notebook and the server that it deploys to, together.
EXECUTION = sandbox.Limits()
#: The limits for the judge. Its checks train models for comparison.
JUDGE = sandbox.Limits(wall_s=600, cpu_s=900, memory_bytes=6 << 30, output_bytes=4 << 20)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an instructor decides for a whole class.

    Attributes:
        secret: a text that decides the hidden inputs; the same text gives the same inputs.
        wall_s: the most seconds for one notebook.
        cell_s: the most seconds for one cell of it.
        unsandboxed: run submissions without protection. Only where the instructor asks for it.
    """

    secret: str = "open"
    wall_s: float = NOTEBOOK_S
    cell_s: float = CELL_S
    unsandboxed: bool = False

    @property
    def limits(self) -> dict[str, float]:
        """The limits among the settings, by name."""
        return {"wall_s": self.wall_s, "cell_s": self.cell_s}

    @property
    def isolation(self) -> sandbox.Isolation:
        """`unsandboxed`, as the functions of `sandbox` take it."""
        return "unsandboxed" if self.unsandboxed else "sandbox"


def key(work: Path, assignment: str, settings: Settings) -> str:
    """The hash of everything that a result depends on, as 64 hexadecimal digits.

    These are: the submission's files and folders, the released notebook, the settings, and the
    files of the course that decide this assignment's marks (course_files.py): its checks, the
    vocabulary that they use, the grading core and the pinned packages. So a new assignment, a plot
    or a page gives no result another key.

    Args:
        work: the submission's folder.
        assignment: such as `a2__forest`.
        settings: the class's.
    """
    digest = hashlib.sha256()
    meant = _require_release(assignment)
    for part in (fingerprint(meant), _hash(meant.release), repr(settings), assignment):
        digest.update(f"{part}\n".encode())
    for name, content in _files(work):
        if name == "timestamp.txt":  # the time of handing in changes nothing about the work
            continue
        digest.update(f"{name}\0{content}\n".encode())
    return digest.hexdigest()


def grade(work: Path, assignment: str, settings: Settings) -> Graded:
    """Grade one submission. No content of a submission makes this function raise an error.

    The result's key is computed here, from the files of this machine. So the caller can see whether
    a dask worker has another version of the course.

    Args:
        work: the submission's folder. It is only read.
        assignment: such as `a2__forest`.
        settings: the class's.

    Raises:
        WorkbookError: the grader cannot work: there is no release, no sandbox, or no checks.
    """
    meant = _require_release(assignment)
    checks = load(meant.short, variants=True)
    release = cells.read(meant.release)
    flags: list[Flag] = []

    def graded(verdict: Verdict, **more: object) -> Graded:
        return Graded.model_validate(
            {
                "key": key(work, assignment, settings),
                "assignment": assignment,
                "verdict": verdict.model_copy(update={"flags": (*flags, *verdict.flags)}),
                "notebook": _json(release),
                "sandbox": "none" if settings.unsandboxed else _protection(),
                **more,
            }
        )

    restored = _restore(work / meant.release.name, release)
    if "notebook" not in restored:
        flags.append(Flag(kind="unreadable", detail=restored["unreadable"][:4_000]))
        return graded(_empty_verdict(assignment, checks, "There is no notebook to run."))
    flags += [Flag(kind=kind, detail=detail) for kind, detail in restored["findings"]]
    notebook = restored["notebook"]
    flags += _missing_files(work, meant)

    with scratch.folder() as place:
        ran = execute(
            notebook,
            work,
            assignment,
            to=Path(place),
            limits=dataclasses.replace(EXECUTION, wall_s=settings.wall_s),
            cell_s=settings.cell_s,
            isolation=settings.isolation,
            fork_server=forks_per_assignment.for_notebooks(meant),
        )
        flags += [Flag(kind=f.kind, detail=f.detail[:4_000]) for f in ran.findings]
        flags += _without_libraries(ran.repository)
        verdict = _judge(meant, checks, ran, settings)
    return graded(
        verdict,
        notebook=_json(ran.notebook),
        errors=tuple(
            Stopped(cell=e.cell + 1, name=e.name[:200], message=e.message[:4_000])
            for e in ran.errors
        ),
        log=ran.server_log[-20_000:],
        executed=ran.seconds,
        judged=verdict.seconds,
    )


def _restore(path: Path, release: Mapping[str, object]) -> dict[str, Any]:
    """Read a student's notebook, in a process of its own.

    Returns:
        `notebook`, with the released cells restored, and `findings`, kinds of flags with their
        details; or, where it cannot be read, `unreadable`, which says why.
    """
    load_nbformat()

    def read() -> dict[str, Any]:
        try:
            theirs = cells.read(path)
            findings = cells.compare(theirs, release)
            notebook = cells.restore(theirs, release)
        except WorkbookError as error:
            return {"unreadable": f"{error.what} {error.todo}"}
        flags = [
            (one.kind if one.kind == "other version" else f"{one.kind} cell", one.sentence[:4_000])
            for one in findings
        ]
        return {"notebook": notebook, "findings": flags}

    try:
        return limited.call(read, cpu_s=READING_CPU_S, memory_bytes=READING_BYTES)
    except limited.NoResult as reason:
        return {"unreadable": f"The notebook {reason}. Save it again, without outputs."}


def _missing_files(work: Path, assignment: Assignment) -> list[Flag]:
    """A flag if a submission lacks files of the assignment: some hand in the notebook alone."""
    given = [name for name in assignment.manifest.files if not name.endswith(".gitkeep")]
    missing = [name for name in given if not (work / name).is_file()]
    if not missing:
        return []
    alone = len(missing) == len(given)
    what = "was handed in alone, without the files of the assignment" if alone else "lacks files"
    listed = ", ".join(missing[:4]) + f" and {len(missing) - 4} more" * (len(missing) > 4)
    detail = (
        f"The notebook {what}: {listed}. What needs them earns no points. Hand in the zip that "
        f"`workbook submit {assignment.short}` writes."
    )
    return [Flag(kind="files missing", detail=detail)]


def _judge(
    assignment: Assignment, checks: dict[str, Check], ran: Execution, settings: Settings
) -> Verdict:
    """Run the judge in its sandbox on the notebook's models and values, and read its lines."""
    order = Order(
        assignment=assignment.short,
        repository=ran.repository,
        reported=ran.reported,
        secret=settings.secret,
        isolation=settings.isolation,
    )
    bound, environment = course(hidden=True)
    outcome = sandbox.run(
        [sys.executable, "-I", "-m", "grader.judge.judge"],
        read_only={
            **bound,
            str(ran.repository): ran.repository,
            str(ran.reported): ran.reported,
        },
        stdin=order.model_dump_json().encode(),
        environment=environment,
        limits=JUDGE,
        network="own",
        nesting=True,
        isolation=settings.isolation,
        fork_server=forks_per_assignment.for_judges(assignment),
    )
    results: dict[str, CheckResult] = {}
    flags: list[Flag] = []
    ids: dict[str, None] = {}
    log = ""
    is_complete = False
    for text in outcome.stdout.splitlines():
        try:
            line = Line.model_validate_json(text)
        except ValidationError:
            break
        if line.check is not None:
            results[line.check.id] = line.check
        if line.me:
            ids[line.me] = None
        if line.flag is not None:
            flags.append(line.flag)
        log = line.log or log
        is_complete = line.kind == "end"
    if not is_complete:
        why = (
            f"stopped by its limit ({outcome.stopped})"
            if outcome.stopped
            else "ended before it was done"
        )
        stderr = outcome.stderr[-1_500:].strip()
        flags.append(Flag(kind="judge ended", detail=f"The judge was {why}. {stderr}"))
    missing = _empty_verdict(
        assignment.name, checks, "The judge did not get to this check.", "error"
    )
    return Verdict(
        assignment=assignment.name,
        checks=tuple(results.get(result.id, result) for result in missing.checks),
        flags=tuple(flags),
        log=log,
        seconds=outcome.seconds,
        me=tuple(ids)[:100],
    )


def _without_libraries(repository: Path) -> list[Flag]:
    """Delete shared libraries from a repository; one flag for each.

    For a backend X Triton looks for libtriton_X.so in the model's own folders first, and would load
    it into its own process. Then the student's code could decide what the server answers.
    """
    flags = []
    for path in sorted(repository.rglob("*")):
        if path.is_file() and (".so" in path.suffixes or _begins(path, b"\x7fELF")):
            path.unlink()
            name = path.relative_to(repository)
            flags.append(Flag(kind="native library", detail=f"{name} was taken out."))
    return flags


def _empty_verdict(
    assignment: str, checks: Mapping[str, Check], why: str, status: str = "not attempted"
) -> Verdict:
    """A verdict that gives no points, with the same reason for each check."""
    return Verdict.model_validate(
        {
            "assignment": assignment,
            "checks": [
                {
                    "id": check.id,
                    "sentence": check.sentence,
                    "status": status,
                    "credit": 0,
                    "rationale": why,
                }
                for check in checks.values()
            ],
        }
    )


def _require_release(assignment: str) -> Assignment:
    """The assignment of this name; raises an error if its notebook for students is not built."""
    meant = assignments.named(assignment)
    if not meant.release.is_file():
        raise WorkbookError(
            f"There is no release of {assignment}.",
            where=str(meant.release),
            todo="Build it with `workbook build`.",
        )
    return meant


@functools.cache
def _protection() -> str:
    """The protection that this machine allows, as a text; tried once per process."""
    return sandbox.protection().level


def _files(folder: Path) -> Iterable[tuple[str, str]]:
    """What a submission consists of: relative name and hash, in order of the names.

    Folders count, too: Triton takes an empty one in a model's folder for a version. And so does
    whether a file may be executed. Both reach the sandbox, so both can decide a result.
    """
    for path in assignments.files(folder, folders=True):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            continue
        if path.is_dir():
            yield name, "folder"
        elif path.is_file():
            run = " may run" if path.stat().st_mode & stat.S_IXUSR else ""
            yield name, f"{_hash(path)}{run}"


def _begins(path: Path, start: bytes) -> bool:
    """Whether a file begins with these bytes. The rest of it is not read."""
    with path.open("rb") as file:
        return file.read(len(start)) == start


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _json(notebook: Mapping[str, object]) -> str:
    return json.dumps(notebook, ensure_ascii=False, separators=(",", ":"))
