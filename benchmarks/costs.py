"""`workbook bench costs`: the processor time that one submission of each assignment costs.

One worker grades two classes of each assignment: a small one, and one with `COPIES` more
submissions. All submissions are copies of the solution, each with a different text. The difference
of the two times is the cost of the additional submissions; the start of a run is not in it. The
checks' times come from their results: public checks are the same code that a student's notebook
calls.

The processor time of the whole machine is counted, as in `grading`. So the machine must have
nothing else to do.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from rich.console import Console

from workbook import assignments
from workbook.common import paths

from . import machine, tables
from .grading import FEW, FILE, grade_class, inbox_of, processor_seconds

COPIES = 3
#: Seconds of processor time that a submission may cost; language models and measurements take
#: longer.
TARGET = 15.0
TARGETS = {"a6__llm": 60.0, "a7__speed": 60.0}


def run(console: Console) -> None:
    """Measure every assignment, print a table, and write it to `grader/BENCHMARKS.md`.

    Raises:
        WorkbookError: a submission did not get full marks; then the times mean nothing.
    """
    rows, goals = [], []
    for folder in sorted((paths.root() / "solutions").iterdir()):
        assignment = assignments.named(folder.name)
        busy = []
        with tempfile.TemporaryDirectory(prefix="grader-bench-") as home:
            for count in (FEW, FEW + COPIES):
                console.print(f"Grading {count} submissions of {assignment.name} …")
                inbox = inbox_of(assignment, Path(home) / f"inbox{count}", count)
                began = processor_seconds()
                outcome, graded = grade_class(
                    assignment, Path(home) / f"work{count}", inbox, 1, False
                )
                busy.append(processor_seconds() - began)
        each = (busy[1] - busy[0]) / COPIES
        took: dict[str, list[float]] = defaultdict(list)
        for result in graded:
            for check in result.verdict.checks:
                took[check.id].append(check.seconds)
        slowest, seconds = max(
            ((name, statistics.median(times)) for name, times in took.items()), key=lambda c: c[1]
        )
        notebook = statistics.median(result.executed for result in graded)
        rows.append(
            (
                assignment.name,
                f"{each:.1f} s",
                f"{outcome.seconds / len(graded):.1f} s",
                f"{notebook:.1f} s",
                f"{slowest}, {seconds:.1f} s",
            )
        )
        target = TARGETS.get(assignment.name, TARGET)
        goals.append(
            tables.Goal(f"{assignment.name}: processor time", each, target, "s", at_most=True)
        )
    section = tables.Section(
        "costs",
        "What a submission costs",
        f"Processor time of {COPIES} further submissions, by their number; the run's time by the "
        "number of all submissions; the notebook's and the slowest check's medians. The slowest "
        "check's time is in the judge, with its hidden variants.",
        ("assignment", "processor time", "time", "notebook", "slowest check"),
        rows,
        goals,
    )
    tables.show(section, console)
    tables.write(section, FILE, machine.describe())
