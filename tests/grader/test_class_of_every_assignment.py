"""`make grade` on a class over all seven assignments, graded twice, in the sandbox.

Eight students hand in every assignment: 56 submissions. Two hand in the same solution, one the
untouched release, three a wrong answer, one a right answer in another form, and one an attack. It
takes half an hour, so `make mutants` runs it, and `make test` does not.
"""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.authoring import mutants, submissions
from grader.authoring.mutants import Mutant
from grader.classroom.causes import solution_cells
from grader.classroom.classroom import Classroom
from grader.classroom.similarity import groups
from grader.vocabulary.define import load
from grader.vocabulary.results import Graded
from tests.assignment_runs import alone
from tests.attacks.attack import Attack
from tests.attacks.test_every_assignment import assert_gains_nothing
from workbook import assignments
from workbook.assignments import Assignment
from workbook.common import paths

pytestmark = [pytest.mark.server, pytest.mark.long, pytest.mark.timeout(7_200)]

ALL = assignments.find()
WRONG = ("carl", "dora", "emil")


def attack_on(assignment: Assignment) -> Attack:
    """The last of the assignment's own attacks that is made from the solution."""
    module = importlib.import_module(f"grader.assignments.{assignment.name}.attacks")
    return [attack for attack in module.ATTACKS if attack.base == "solution"][-1]


def wrong(assignment: Assignment) -> dict[str, Mutant]:
    """Three wrong answers, from all over the list."""
    found = [mutant for mutant in mutants.load(assignment) if not mutant.right]
    return dict(zip(WRONG, found[:: -(-len(found) // len(WRONG))], strict=True))


def another(assignment: Assignment) -> Mutant:
    """A right answer in another form; without one, the solution."""
    right = [mutant for mutant in mutants.load(assignment) if mutant.right]
    return right[0] if right else Mutant("the solution", (), right=True)


def write(assignment: Assignment, student: Callable[[str], Path]) -> None:
    """Write what the eight hand in for an assignment.

    Args:
        student: gives the folder for a student's submission.
    """
    submissions.solution(assignment, student("anna"))
    submissions.solution(assignment, student("bela"))
    for name, mutant in wrong(assignment).items():
        submissions.mutant(assignment, mutant, student(name))
    submissions.mutant(assignment, another(assignment), student("fina"))
    submissions.release(assignment, student("gero"))
    submissions.solution(assignment, student("hans"))
    attack_on(assignment).change(student("hans"))


@pytest.fixture(scope="module")
def twice(class_home_of_module: Path) -> list[dict[str, dict[str, Graded]]]:
    """The results of both runs: by assignment and student."""
    home = class_home_of_module
    for assignment in ALL:
        write(assignment, functools.partial(_folder, home, assignment))
    found = []
    for force in ([], ["--force"]):
        command = [sys.executable, "-m", "grader.cli", "autograde", "--from", str(home / "inbox")]
        done = subprocess.run(
            [*command, *force],
            env={**os.environ, "GRADER_WORK": str(home / "work")},
            cwd=paths.root(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 3), done.stdout + done.stderr
        classroom = Classroom(home / "work")
        found.append({a.name: classroom.results(a.name) for a in ALL})
    return found


def _folder(home: Path, assignment: Assignment, student: str) -> Path:
    folder = home / "inbox" / student / assignment.name
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


def missed(graded: Graded) -> dict[str, str]:
    return {
        c.id: f"{c.status}: {c.rationale} → {c.help}" for c in graded.verdict.checks if c.credit < 1
    }


@pytest.mark.parametrize("assignment", ALL, ids=lambda a: a.name)
@pytest.mark.parametrize("run", [0, 1])
def test_marks_and_flags(
    assignment: Assignment, run: int, twice: list[dict[str, dict[str, Graded]]]
) -> None:
    results = twice[run][assignment.name]
    assert sorted(results) == ["anna", "bela", *WRONG, "fina", "gero", "hans"]
    for student in ("anna", "bela", "fina"):
        assert missed(results[student]) == {}, student
    assert {c.credit for c in results["gero"].verdict.checks} == {0}
    assert len(results["gero"].verdict.checks) == len(load(assignment.short))
    for student, mutant in wrong(assignment).items():
        found = missed(results[student])
        assert sorted(found) == sorted(mutant.fails), f"{mutant.name}: {found}"
        for check, words in mutant.fails.items():
            assert words in found[check], f"{mutant.name}: {found[check]}"
    assert_gains_nothing(attack_on(assignment), results["hans"])
    assert results["anna"].key == results["bela"].key, "the same files are graded once"
    texts = {who: solution_cells(graded.notebook) for who, graded in results.items()}
    assert any({"anna", "bela"} <= {*group.students} for group in groups(texts, assignment))


@pytest.mark.parametrize("assignment", ALL, ids=lambda a: a.name)
def test_both_runs_give_the_same(
    assignment: Assignment, twice: list[dict[str, dict[str, Graded]]]
) -> None:
    """The same credits; where checks measure, the mark moves by 3 points at most.

    By 5 for a wrong answer: one is slow since it waits for 80 ms, which is the more in comparison
    with the service as found, the faster the machine is at the moment.
    """

    def credits(graded: Graded) -> dict[str, float]:
        return {check.id: check.credit for check in graded.verdict.checks}

    first, second = (run[assignment.name] for run in twice)
    for student, graded in first.items():
        one, other = credits(graded), credits(second[student])
        if alone(assignment):
            points = assignment.checks
            moved = sum(points[id] * (other[id] - credit) for id, credit in one.items())
            assert abs(moved) <= (5 if student in WRONG else 3), student
        else:
            assert one == other, student
