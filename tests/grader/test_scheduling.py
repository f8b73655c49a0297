"""Which tests one worker runs: those of a file, an assignment, a lecture (tests/scheduling.py)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import scheduling
from workbook import assignments
from workbook.common import paths

FILE = "tests/grader/test_assignments.py"


def test_tests_of_other_files_are_shared_by_file() -> None:
    other = "tests/zoo/test_zoo_recipes.py"
    for test in ("test_iris", "test_named[a2__forest]"):
        assert scheduling.group(f"{other}::{test}") == other


def test_each_lecture_is_a_group() -> None:
    file = "tests/lectures/test_lectures_run.py"
    runs = [f"{file}::test_runs[{name}]" for name in ("08__fil", "11__generate")]
    assert [scheduling.group(run) for run in runs] == runs


def test_each_task_is_a_group() -> None:
    file = "tests/lectures/test_tasks.py"
    for test in ("test_a_task_is_done[fil.pickled]", "test_hints[fil.pickled]"):
        assert scheduling.group(f"{file}::{test}") == f"{file}::fil.pickled"
    assert scheduling.group(f"{file}::test_a_reader_s_work[08__fil-setup.pickled-a/b.c]") == file


def test_attacks_are_shared_by_assignment() -> None:
    file = "tests/attacks/test_every_assignment.py"
    test = "test_an_attack_gains_nothing[a1__classifier: names_that_climb]"
    assert scheduling.group(f"{file}::{test}") == f"{file}::a1__classifier"


def test_the_divided_files_are_there() -> None:
    assert [name for name in scheduling.PARTS if not (paths.root() / name).is_file()] == []


@pytest.mark.server
def test_tests_of_assignments_are_shared_by_assignment() -> None:
    """Of the tests that there are, only the one about all assignments belongs to none."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", FILE, "--collect-only", "--numprocesses=0"],
        cwd=paths.root(),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith(f"{FILE}::")]
    alone = {id for id in found if scheduling.group(id) == FILE}
    assert alone == {f"{FILE}::test_there_are_assignments"}
    named = {scheduling.group(id) for id in found} - {FILE}
    names = [f"{FILE}::{assignment.name}" for assignment in assignments.find()]
    assert named == {*names, *(f"{name} mutants" for name in names)}


def test_what_takes_longest_comes_first() -> None:
    few, many = "tests/a/test_few.py", "tests/b/test_many.py"
    tests = [f"{few}::test_1", f"{FILE}::test_solution[a2__forest]"]
    tests += [f"{many}::test_{number}" for number in range(3)]
    tests += [f"{FILE}::test_solution[a6__llm]", f"{FILE}::test_mutant[a2__forest: b]"]
    seconds = {f"{FILE}::a6__llm": 900.0, few: 2.5}
    places = scheduling.in_order(tests, seconds)
    assert sorted(tests, key=lambda test: places[test]) == [
        f"{FILE}::test_solution[a6__llm]",
        *(f"{many}::test_{number}" for number in range(3)),
        f"{few}::test_1",
        f"{FILE}::test_solution[a2__forest]",
        f"{FILE}::test_mutant[a2__forest: b]",
    ]
