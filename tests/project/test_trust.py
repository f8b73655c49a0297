"""docs/trust.md: its dates and numbers are those of the reports and of the assignments' files."""

from __future__ import annotations

import csv
import importlib
import re

import pytest

from tests.attacks import everywhere
from workbook import assignments
from workbook.assignments import Assignment
from workbook.common import paths

PAGE = (paths.root() / "docs/trust.md").read_text("utf-8")


def date_of(report: str, pattern: str) -> str:
    """The date that a report gives its last run."""
    found = re.search(pattern, (paths.root() / report).read_text("utf-8"), re.DOTALL)
    assert found, report
    return found[1]


@pytest.mark.parametrize(
    ("command", "report", "pattern"),
    [
        (
            "workbook bench endurance",
            "BENCHMARKS.md",
            r"endurance: begin.*?\*(\d{4}-\d\d-\d\d)",
        ),
        ("make image-test", "docker/laptop/LAST_RUN.md", r"(\d{4}-\d\d-\d\d)"),
        ("make gpu", "docker/gpu/VERIFIED.md", r"date: (\d{4}-\d\d-\d\d)"),
        ("make gpu-stack", "docker/gpu/CHECKED.md", r"(\d{4}-\d\d-\d\d)"),
    ],
)
def test_the_date_is_that_of_the_report(command: str, report: str, pattern: str) -> None:
    assert f"\n  `{command}`: {date_of(report, pattern)}\n" in PAGE


def test_what_ran_on_a_gpu_is_counted_right() -> None:
    rows = re.findall(
        r"(?m)^\| lecture \S+ \| (yes|\*\*no\*\*|not run) \|",
        (paths.root() / "docker/gpu/VERIFIED.md").read_text("utf-8"),
    )
    counts = [rows.count(word) for word in ("yes", "**no**", "not run")]
    assert "{} notebooks of lectures 1 and 2 ran, {} failed, {} could not".format(*counts) in PAGE


@pytest.mark.parametrize("assignment", assignments.find(), ids=lambda one: str(one.name))
def test_the_numbers_of_an_assignment_are_right(assignment: Assignment) -> None:
    module = f"grader.assignments.{assignment.name}"
    mutants = importlib.import_module(f"{module}.mutants").MUTANTS
    has_own = (assignment.folder / "attacks.py").is_file()
    attacks = importlib.import_module(f"{module}.attacks").ATTACKS if has_own else ()
    wrong = sum(not mutant.right for mutant in mutants)
    name = assignment.name.partition("__")[0]
    (row,) = re.findall(rf"(?m)^\| {name} \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE)
    checks, right, *least = map(int, row)
    assert checks == len(assignment.checks)
    assert right == len(mutants) - wrong
    for stated, there in zip(least, (wrong, len(attacks)), strict=True):
        assert stated <= there <= stated + 25, f"{name}: write about {there} into docs/trust.md"


def test_the_attacks_on_any_assignment_are_counted_right() -> None:
    (stated,) = re.findall(r"At least (\d+) more hostile submissions", PAGE)
    assert int(stated) <= len(everywhere.ATTACKS) <= int(stated) + 25


def test_the_named_tests_are_among_those_that_ran() -> None:
    """`tests/durations.csv` lists what the last whole run took."""
    with (paths.root() / "tests/durations.csv").open(encoding="utf-8") as file:
        ran = " ".join(row["test"] for row in csv.DictReader(file))
    for place in re.findall(r"\btests/[\w/]+(?:\.py)?(?![\w.])", PAGE):
        assert place in ran or (paths.root() / place).exists(), place
