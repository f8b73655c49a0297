"""Whether marks stay the same on a busy machine: `python -m tests.grader.busy a1`.

Two loops that never end keep two cores busy. Meanwhile the solution of an assignment, and the
mutants whose names are given, are graded ten times each, as a class's submissions are. The table
shows how often each check earned which share of its points. A mark that moved is an error.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from grader.authoring import mutants, submissions
from grader.judge.grade_submission import Settings, grade
from tests.lectures.busy import busy
from workbook import assignments
from workbook.assignments import Assignment


def main() -> int:
    """Print the table; returns 1 if a mark has moved."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("assignment")
    parser.add_argument("mutants", nargs="*", help="beginnings of the names of mutants")
    parser.add_argument("--times", type=int, default=10, help="how often each is graded")
    parser.add_argument("--loops", type=int, default=2, help="programs that keep a core busy")
    given = parser.parse_args()
    assignment = assignments.named(given.assignment)
    moved = 0
    with tempfile.TemporaryDirectory() as place, busy(given.loops):
        for name, folder in _submissions(assignment, given.mutants, Path(place)).items():
            seen: dict[str, Counter[float]] = {}
            for number in range(given.times):
                graded = grade(folder, assignment.name, Settings())
                for check in graded.verdict.checks:
                    seen.setdefault(check.id, Counter())[check.credit] += 1
                flags = [flag.kind for flag in graded.verdict.flags]
                took = f"{graded.executed:.0f} s and {graded.judged:.0f} s"
                print(name, number, took, *flags, sep=" | ", file=sys.stderr, flush=True)
            for check, credits in seen.items():
                moved += len(credits) > 1
                print(
                    name, check, dict(credits), "MOVED" * (len(credits) > 1), sep=" | ", flush=True
                )
    return int(moved > 0)


def _submissions(assignment: Assignment, names: list[str], place: Path) -> dict[str, Path]:
    """The solution and some mutants, written into folders; by name."""
    found = {"solution": submissions.solution(assignment, place / "solution")}
    for change in mutants.load(assignment):
        if any(change.name.startswith(name) for name in names):
            found[change.name] = submissions.mutant(assignment, change, place / str(len(found)))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
