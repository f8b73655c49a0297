"""The pages of text: their commands exist with their options, and their links lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.classroom import deadlines, grade_rules, roster
from grader.classroom.classroom import Classroom
from tests.project import pages
from workbook.common import paths

FILES = pages.files()
IDS = [str(path.relative_to(paths.root())) for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_every_command_exists(path: Path) -> None:
    if path.name == "CHANGELOG.md":
        pytest.skip("names commands that are gone")
    found = {command: pages.fault(command) for command in pages.commands(pages.text(path))}
    assert not {command: fault for command, fault in found.items() if fault}


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_every_link_leads_somewhere(path: Path) -> None:
    assert not pages.broken(path)


def test_the_three_files_of_a_class_on_the_page_fit_together(tmp_path: Path) -> None:
    """The grader reads the class list, due dates and weights of the page for instructors."""
    text = pages.text(paths.root() / "docs" / "instructors.md")
    for name in ("students.csv", "deadlines.toml", "grades.toml"):
        example = text.split(f"\n`{name}`", 1)[1].split("```", 2)[1]
        (tmp_path / name).write_text(example.split("\n", 1)[1])
    classroom = Classroom(tmp_path)
    listed = roster.read(classroom)
    assert listed is not None
    assert list(listed.students) == ["anna", "bob", "eve"]
    due = deadlines.read(classroom)["a2"]
    assert (due.percent_per_day, due.at_most_percent, due.grace_minutes) == (10, 50, 10)
    assert (list(due.extensions), list(due.handed_in)) == (["anna", "bob"], ["eve"])
    rules = grade_rules.read(classroom)
    assert (rules.best, rules.weights) == (5, {"a1": 10, "a2": 20})
    assert rules.excused == {"a2": {"anna", "bob"}}


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("workbook serve --detach --control poll", ""),
        ("workbook serv", "workbook has no serv"),
        ("workbook serve --detached", "workbook serve has no option --detached"),
        ("grader try a2", ""),
        ("grader grade", "grader has no grade"),
        ("make lab BROWSER=no", ""),
        ("make labs", "make has no labs"),
        ("make lab BROWSERS=no", "make has no variable BROWSERS"),
        (".venv/bin/pytest tests/server", ""),
        (".venv/bin/pytest tests/servers", "there is no tests/servers"),
        (".venv/bin/python -m tests.nothing", "there is no module tests.nothing"),
        ("OMP_WAIT_POLICY=active workbook serve", ""),
        ("frobnicate", "frobnicate is no command of the course"),
    ],
)
def test_a_wrong_command_is_found(command: str, fault: str) -> None:
    assert pages.fault(command) == fault


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# One\n[a](#one) [b](#two) [c](b.md) `[d](e.md)` [f](https://x.example/)\n")
    assert pages.broken(page) == ["a.md: #two: no such heading", "a.md: b.md: no such file"]


def test_the_commands_of_a_page_are_found() -> None:
    page = (
        "Run `make lab`.\n\n```console\n$ grader try \\\n    a2   # half a minute\na2: well\n```\n"
    )
    assert [" ".join(command.split()) for command in pages.commands(page)] == [
        "grader try a2 # half a minute",
        "make lab",
    ]
