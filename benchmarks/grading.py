"""`workbook bench grading`: how long the grading of a class takes, beside nbgrader's own command.

Copies of the solution are graded. A different cell is added to each, so that no two are equal:

1. with one worker, with two, with one again, and once more unchanged; before that a class of two,
   which shows what the start of a run costs (once per run, not per submission);
2. without a sandbox;
3. by plain `nbgrader autograde` in one process, with a laptop server beside it for the models that
   the notebooks deploy.

A class of 200 is simulated: its results are copies of one, so that only the work around grading
takes time. It shows whether time per result and memory grow with the class.

All of it is one run. The speed of a machine may change by a third meanwhile. So the time of two
workers is compared with the mean of one worker's times before and after it, and the sandbox with
what is measured directly after it. Processor time is counted for the whole machine while one worker
grades: only so does the kernel count processes that were killed when a sandbox ended. So the
machine must have nothing else to do.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import psutil
from rich.console import Console

from grader.authoring.submissions import solution
from grader.classroom import gradebook, intake
from grader.classroom.autograde import Outcome, autograde
from grader.classroom.classroom import Classroom
from grader.judge.grade_submission import Settings, key
from grader.vocabulary.results import Graded
from workbook.assignments import Assignment, programs_on_path
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.server import Triton

from . import machine, tables
from .tables import Goal

#: Submissions of a small class: from its time follows what the start of a run costs.
FEW = 2
#: Students of the simulated class.
SIMULATED = 200
_RESULT = "GRADER_BENCH_RESULT"  # a variable: the file with the result that is copied

FILE = paths.root() / "grader" / "BENCHMARKS.md"


def run(assignment: Assignment, submissions: int, console: Console) -> None:
    """Measure, print a table, and write it to `grader/BENCHMARKS.md`.

    Raises:
        WorkbookError: a submission did not get full marks; then the times mean nothing.
    """
    with tempfile.TemporaryDirectory(prefix="grader-bench-") as folder:
        home = Path(folder)
        inbox = inbox_of(assignment, home / "inbox", submissions)
        few = inbox_of(assignment, home / "few", FEW)
        began = processor_seconds()
        console.print(f"Grading {FEW} submissions with 1 worker …")
        grade_class(assignment, home / "start", few, 1, False)
        busy_few = processor_seconds() - began
        seconds, busy = [], []
        for turn, workers in enumerate((1, 2, 1)):
            began = processor_seconds()
            console.print(f"Grading {submissions} submissions with {workers} worker(s) …")
            outcome, graded = grade_class(assignment, home / f"turn{turn}", inbox, workers, False)
            seconds.append(outcome.seconds)
            busy.append(processor_seconds() - began)
        console.print("Grading the same class again, unchanged …")
        again = _time_command(assignment, home / "turn2", inbox)
        console.print("Grading with one worker and no sandbox …")
        bare = grade_class(assignment, home / "bare", inbox, 1, True)
        console.print(f"Simulating a class of {SIMULATED} …")
        simulated = _simulated(assignment, home / "simulated", graded[0])
        console.print("plain nbgrader autograde …")
        plain = _plain(assignment, home / "plain", home / "turn2" / "submitted")
    before, two, after = seconds
    one = (before + after) / 2
    ours = statistics.median(result.executed for result in graded)
    without = statistics.median(result.executed for result in bare[1])
    each = plain / submissions
    processor = ((busy[0] + busy[2]) / 2 - busy_few) / (submissions - FEW)
    rows = [
        ("processor time to start a run", f"{busy_few - FEW * processor:.2f} s"),
        ("submissions a minute, 1 worker", f"{60 * submissions / one:.2f}"),
        ("submissions a minute, 2 workers", f"{60 * submissions / two:.2f}"),
        ("a notebook in the sandbox", f"{ours:.2f} s"),
        ("a notebook in plain nbgrader", f"{each:.2f} s"),
        ("an unchanged class again", f"{again:.2f} s"),
        (f"class of {SIMULATED}: writing a result", f"{statistics.median(simulated.writes):.2f} s"),
    ]
    goals = [
        Goal("processor time per submission", processor, 5, "s", at_most=True),
        Goal("2 workers beside plain nbgrader", plain / two, 2),
        Goal("2 workers beside 1", one / two, 1.7),
        Goal("a notebook in the sandbox beside plain nbgrader's", ours / each, 1, at_most=True),
        Goal("sandbox over none", ours / without, 1.1, at_most=True),
        Goal("grading a class beside the same, unchanged, again", two / again, 50),
        *_goals(simulated, two / submissions),
    ]
    section = tables.Section(
        "grading",
        "A class",
        f"{submissions} copies of the solution of {assignment.name}. The notebook's time is a "
        "median; in the sandbox it includes the start of a server of its own. Plain nbgrader's is "
        "the whole command's time by the number of submissions, with one server for all.",
        ("", "measured"),
        rows,
        goals,
    )
    tables.show(section, console)
    tables.write(section, FILE, machine.describe())


def inbox_of(assignment: Assignment, folder: Path, submissions: int) -> Path:
    """Fill a folder with copies of the solution, and return it."""
    for number in range(submissions):
        _copy(assignment, folder / f"s{number:03}", number)
    return folder


def _copy(assignment: Assignment, to: Path, number: int) -> None:
    """Copy the solution as a student would hand it in, with a text of its own."""
    solution(assignment, to)
    notebook = json.loads((to / assignment.release.name).read_text("utf-8"))
    text = {"cell_type": "markdown", "id": "own", "metadata": {}, "source": f"Copy {number}"}
    notebook["cells"].append(text)
    (to / assignment.release.name).write_text(json.dumps(notebook), "utf-8")


def grade_class(
    assignment: Assignment, home: Path, inbox: Path, workers: int, unsandboxed: bool
) -> tuple[Outcome, list[Graded]]:
    """Grade an inbox in a classroom of its own; returns the run's outcome and the results.

    Raises:
        WorkbookError: a submission did not get full marks.
    """
    classroom = Classroom(home)
    intake.take_inbox(classroom, assignment, inbox)
    settings = Settings(secret=classroom.secret(), unsandboxed=unsandboxed)
    outcome = autograde(classroom, assignment, settings, workers=workers)
    results = classroom.results(assignment.name)
    for student, graded in results.items():
        if any(check.credit < 1 for check in graded.verdict.checks):
            raise WorkbookError(
                f"The solution of {assignment.name} did not get full marks as {student}.",
                where=", ".join(c.id for c in graded.verdict.checks if c.credit < 1),
                todo="Correct that first.",
            )
    return outcome, list(results.values())


@dataclasses.dataclass(frozen=True)
class _Simulated:
    """What writing the results of a large class took.

    Attributes:
        writes: seconds per result, in order.
        grown: bytes by which the memory of this process grew from the 50th to the last result.
    """

    writes: list[float]
    grown: int


def copied(work: Path, assignment: str, settings: Settings) -> Graded:
    """Replaces `grade` in the simulated class: returns a copy of one result."""
    result = Graded.model_validate_json(Path(os.environ[_RESULT]).read_bytes())
    return result.model_copy(update={"key": key(work, assignment, settings)})


def _simulated(assignment: Assignment, home: Path, result: Graded) -> _Simulated:
    inbox = inbox_of(assignment, home / "inbox", SIMULATED)
    classroom = Classroom(home / "work")
    intake.take_inbox(classroom, assignment, inbox)
    file = home / "result.json"
    file.write_bytes(result.model_dump_json().encode())
    writes: list[float] = []
    memory: list[int] = []
    original = gradebook.Writer.write

    def timed(writer: gradebook.Writer, student: str, key: str) -> None:
        began = time.monotonic()
        original(writer, student, key)
        writes.append(time.monotonic() - began)
        memory.append(psutil.Process().memory_info().rss)

    settings = Settings(secret=classroom.secret())
    with (
        mock.patch.dict(os.environ, {_RESULT: str(file)}),
        mock.patch.object(gradebook.Writer, "write", timed),
    ):
        autograde(classroom, assignment, settings, workers=2, grader=copied)
    assert len(classroom.results(assignment.name)) == len(writes) == SIMULATED
    return _Simulated(writes, memory[-1] - memory[SIMULATED // 4])


def _goals(simulated: _Simulated, graded_s: float) -> list[Goal]:
    """The goals of the simulated class.

    Args:
        simulated: what was measured.
        graded_s: seconds between two results where two workers grade for real.
    """
    quarter, writes = SIMULATED // 4, simulated.writes
    share = statistics.median(writes) / graded_s
    growth = statistics.median(writes[-quarter:]) / statistics.median(writes[:quarter])
    grown = simulated.grown / (1 << 20)
    return [
        Goal("writing a result beside grading with 2 workers", share, 0.5, at_most=True),
        Goal("writing: the last quarter beside the first", growth, 1.2, at_most=True),
        Goal("growth of memory after the first quarter", grown, 50, "MiB", at_most=True),
    ]


def processor_seconds() -> float:
    """Seconds that all cores together have worked since the machine was started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def _time_command(assignment: Assignment, home: Path, inbox: Path) -> float:
    """Time the command as an instructor gives it, from its start to its end, in seconds."""
    command = [
        sys.executable,
        "-m",
        "grader.cli",
        "autograde",
        assignment.name,
        "--from",
        str(inbox),
    ]
    began = time.monotonic()
    environment = {**os.environ, "GRADER_WORK": str(home)}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.monotonic() - began


def _plain(assignment: Assignment, home: Path, submitted: Path) -> float:
    """Time `nbgrader autograde` without changes, for all submissions in one process, in seconds.

    A submission's files lie beside its notebook, and a server runs. Plain nbgrader has no judge, so
    the judge's time is not part of this comparison.
    """
    shutil.copytree(submitted, home / "submitted")
    source = home / "source" / assignment.name
    source.mkdir(parents=True)
    shutil.copy(assignment.instructor, source)
    (home / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.CourseDirectory.root = {str(home)!r}\n"
        "c.Execute.timeout = 300\nc.ClearSolutions.code_stub = {'python': '...'}\n"
    )
    (home / "models").mkdir()
    with Triton(home / "models") as server, programs_on_path():
        environment = {
            **os.environ,
            "TRITON_URL": server.url,
            "TRITON_GRPC_URL": server.grpc_url,
            "TRITON_METRICS_URL": server.metrics_url,
            "TRITON_REPOSITORY": str(server.repository),
        }

        def nbgrader(step: str) -> float:
            began = time.monotonic()
            command = [sys.executable, "-m", "nbgrader", step, assignment.name]
            done = subprocess.run(
                command, cwd=home, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise WorkbookError(
                    f"nbgrader {step} failed.", where=str(home), todo=done.stderr[-800:]
                )
            return time.monotonic() - began

        nbgrader("generate_assignment")
        return nbgrader("autograde")
