"""Execute a submission's notebook in a sandbox, beside a Triton of its own.

notebook_program.py runs inside the sandbox. This module runs outside: it starts the sandbox,
unpacks the tar that comes out of it, and takes from it only outputs that a notebook may show. The
tar is not trusted, since the student's code could have written it: outputs are only shown, and the
judge tests the models again, on reported values and on inputs of its own.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbook.common import bounded_json

from .. import sandbox
from ..sandbox import limited
from ..sandbox.mounts import course
from ..sandbox.unpack import unpack
from .notebook_program import GRACE, LOG_BYTES, Orders

#: The most bytes of output that are kept per cell, and in all.
CELL_OUTPUT, ALL_OUTPUT = 1 << 20, 12 << 20
#: The most seconds for a notebook, and for one cell of it. The longest is a6__llm's: it starts a
#: vLLM engine. That takes half a minute, or several minutes if other submissions share the cores.
NOTEBOOK_S, CELL_S = 480.0, 180.0
#: The most processor time and memory for reading a notebook, before it runs and after.
READING_CPU_S, READING_BYTES = 30, 1 << 30
_SUBMISSION = "/submission"


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that went wrong or is unusual: its kind, and a sentence about it."""

    kind: str
    detail: str


@dataclasses.dataclass(frozen=True)
class CellError:
    """A cell that raised: its index from 0, the exception's class and its message."""

    cell: int
    name: str
    message: str


@dataclasses.dataclass(frozen=True)
class Execution:
    """The result of executing a notebook.

    Attributes:
        notebook: the notebook that was given, with the outputs of its cells.
        repository: the folder of the models that it deployed; may be empty.
        reported: the folder of the values that it handed to its checks; may be empty.
        server_log: the end of the server's log.
        cells_run: how many code cells were started.
        errors: the cells that raised.
        seconds: wall clock, from start to end.
        outcome: how the sandbox ended, without the tar.
        findings: what went wrong, or is unusual.
    """

    notebook: dict[str, Any]
    repository: Path
    reported: Path
    server_log: str
    cells_run: int
    errors: tuple[CellError, ...]
    seconds: float
    outcome: sandbox.Outcome
    findings: tuple[Finding, ...]


class _Run(BaseModel):
    """run.json. notebook_program.py writes it, but the student's code could write another one."""

    model_config = ConfigDict(extra="forbid")

    cells_run: int = Field(ge=0, le=10_000)
    notes: list[str] = Field(max_length=100)
    seconds: float


def execute(
    notebook: dict[str, Any],
    files: Path,
    assignment: str,
    *,
    to: Path,
    limits: sandbox.Limits | None = None,
    cell_s: float = CELL_S,
    isolation: sandbox.Isolation = "sandbox",
    fork_server: sandbox.ForkServer | None = None,
) -> Execution:
    """Execute all cells of a notebook, also after one that raised.

    Whatever the notebook does, there is a result: what went wrong is in its `findings`.

    Args:
        notebook: nbformat JSON, with its locked cells restored.
        files: the submission's folder; the notebook runs in a copy of it.
        assignment: such as `a2__forest`.
        to: an empty folder for what comes out.
        limits: those of the whole sandbox. The notebook is stopped a little before the wall clock
            ends, so that there is time to deliver what it made.
        cell_s: the most seconds for one cell.
        isolation: `unsandboxed` runs it without protection, on free ports and with the caller's
            own rights.
        fork_server: as for `sandbox.run`.

    Raises:
        WorkbookError: this machine allows no sandbox, or has no laptop server.
    """
    limits = limits or sandbox.Limits()
    bound, environment = course()
    is_isolated = isolation == "sandbox"
    orders: Orders = {
        "notebook": notebook,
        "submission": _SUBMISSION if is_isolated else str(files.absolute()),
        "assignment": assignment,
        "ports": (8000, 8001, 8002) if is_isolated else (0, 0, 0),
        "seconds": limits.wall_s - min(GRACE + 10.0, limits.wall_s / 3),
        "cell_seconds": cell_s,
        "cell_output": CELL_OUTPUT,
        "all_output": ALL_OUTPUT,
    }
    outcome = sandbox.run(
        [sys.executable, "-I", "-m", "grader.judge.notebook_program"],
        read_only={**bound, _SUBMISSION: files},
        stdin=json.dumps(orders).encode(),
        environment=environment,
        limits=limits,
        isolation=isolation,
        fork_server=fork_server,
    )
    findings = [Finding("archive", wrong) for wrong in _unpack(outcome, to, limits)]
    if outcome.stopped:
        findings.insert(0, Finding("stopped", _stop_sentence(outcome, limits)))
    elif outcome.code != 0:
        last = outcome.stderr.strip().splitlines()[-1:] or [""]
        what = f"The program that runs the notebook ended early (status {outcome.code}). {last[0]}"
        findings.insert(0, Finding("runner ended", what[:500]))
    complete = not outcome.stopped and outcome.code == 0  # else it is known why parts are missing
    run, complaint = _read_run(to / "run.json")
    if complaint and complete:
        findings.append(Finding("archive", complaint))
    findings += [Finding("execution", note[:500]) for note in run.notes]
    shown, complaint = _with_outputs(notebook, to / "executed.ipynb")
    if complaint and complete:
        findings.append(Finding("archive", complaint))
    return Execution(
        notebook=shown,
        repository=to / "repository",
        reported=to / "reported",
        server_log=_read(to / "server.log", LOG_BYTES).decode(errors="replace"),
        cells_run=run.cells_run,
        errors=tuple(_errors(shown)),
        seconds=outcome.seconds,
        outcome=dataclasses.replace(outcome, stdout=b""),
        findings=tuple(findings),
    )


def _unpack(outcome: sandbox.Outcome, to: Path, limits: sandbox.Limits) -> list[str]:
    wrong = unpack(outcome.stdout, to, most_bytes=limits.output_bytes)
    return [] if outcome.stopped and not outcome.stdout else wrong


def _stop_sentence(outcome: sandbox.Outcome, limits: sandbox.Limits) -> str:
    allowed = {
        "wall clock": f"{limits.wall_s:.0f} s",
        "cpu": f"{limits.cpu_s:.0f} s of processor time",
        "memory": f"{limits.memory_bytes >> 20} MiB of memory",
        "processes": f"{limits.processes} processes and threads",
        "open files": f"{limits.open_files} open files",
        "output": f"{limits.output_bytes >> 20} MiB of results",
    }
    return (
        f"Stopped after {outcome.seconds:.0f} s: the limit is "
        f"{allowed.get(outcome.stopped, outcome.stopped)}."
    )


def _read(file: Path, most: int) -> bytes:
    """The first `most` bytes of a file; nothing where there is no such file."""
    try:
        with file.open("rb") as stream:
            return stream.read(most)
    except OSError:
        return b""


def _read_run(file: Path) -> tuple[_Run, str]:
    try:
        return _Run.model_validate_json(_read(file, 1 << 20)), ""
    except ValidationError:
        return _Run(
            cells_run=0, notes=[], seconds=0
        ), "The file run.json is missing or cannot be read."


def _with_outputs(notebook: dict[str, Any], file: Path) -> tuple[dict[str, Any], str]:
    """The given notebook with the outputs of the executed one, and what was wrong with those.

    Only outputs and execution counts are taken. Sources and metadata stay those of the notebook
    that was given.
    """
    shown = copy.deepcopy(notebook)
    for cell in shown["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    load_nbformat()
    try:
        answer = limited.call(
            lambda: _outputs(shown, file), cpu_s=READING_CPU_S, memory_bytes=READING_BYTES
        )
    except limited.NoResult as reason:
        return shown, f"There are no readable outputs: the notebook {reason}."
    if "complaint" in answer:
        return shown, answer["complaint"]
    for cell, (outputs, count) in zip(_code(shown), answer["cells"], strict=True):
        cell["outputs"], cell["execution_count"] = outputs, count
    return shown, ""


@functools.cache
def load_nbformat() -> None:
    """Import nbformat and compile its schema here, once, and not in each limited process."""
    import nbformat  # late: it takes a second to import

    empty = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    nbformat.reads(json.dumps(empty), as_version=4)  # type: ignore[no-untyped-call]


def _code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _outputs(notebook: dict[str, Any], file: Path) -> dict[str, Any]:
    """In a limited process: outputs and execution count of each code cell, or a complaint.

    Args:
        notebook: the notebook that was given, without outputs.
        file: the executed one. A student's code could have written it.
    """
    import nbformat

    shown = copy.deepcopy(notebook)
    try:
        cells = bounded_json.loads(_read(file, bounded_json.MOST_BYTES + 1))["cells"]
        if len(cells) != len(shown["cells"]):
            raise ValueError("it has other cells")
        for ours, theirs in zip(shown["cells"], cells, strict=True):
            if ours["cell_type"] == "code":
                ours["outputs"] = theirs["outputs"]
                ours["execution_count"] = theirs["execution_count"]
        nbformat.validate(nbformat.from_dict(shown))  # type: ignore[no-untyped-call]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return {"complaint": f"There are no readable outputs: {error}"[:300]}
    except nbformat.ValidationError:
        return {"complaint": "The outputs are not a notebook's."}
    return {"cells": [(cell["outputs"], cell["execution_count"]) for cell in _code(shown)]}


def _errors(notebook: dict[str, Any]) -> list[CellError]:
    return [
        CellError(index, str(output["ename"])[:200], str(output["evalue"])[:4_000])
        for index, cell in enumerate(notebook["cells"])
        for output in cell.get("outputs", ())
        if output["output_type"] == "error"
    ]
