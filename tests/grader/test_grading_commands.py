"""`grader autograde`, `grader drop` and the steps of `make grade`, as an instructor uses them."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from a_class import answered, classroom, course, fake_grade, fake_key, pack
from rich.console import Console
from typer.testing import CliRunner, Result

from grader.classroom import autograde, gradebook, intake, progress_bar, roster
from grader.classroom.classroom import Classroom
from grader.cli import app
from grader.judge import scratch
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

pytestmark = pytest.mark.server

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Assignment]:
    """Two assignments of one course."""
    home = tmp_path_factory.mktemp("course")
    return [course(home, "a8__other"), course(home)]


@pytest.fixture
def where(
    class_home: Path, both: list[Assignment], one_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> Classroom:
    """An empty classroom in which the commands work, with the fake grader."""
    made = classroom(class_home)
    monkeypatch.setenv("WORKBOOK_HOME", str(both[0].home))
    monkeypatch.setenv("GRADER_WORK", str(made.home))
    faked = functools.partial(autograde.autograde, grader=fake_grade, keyer=fake_key)
    monkeypatch.setattr(autograde, "autograde", faked)
    return made


def grader(*arguments: str) -> Result:
    """Run the command line. The result's output also has what rich prints on stderr."""
    return CliRunner().invoke(app, list(arguments))


def run(*arguments: str) -> str:
    done = grader("autograde", "--workers", "1", *arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def hand_in(where: Classroom, assignment: Assignment, student: str, code: str) -> None:
    pack(
        where.inbox / f"{student}_{assignment.short}.zip",
        {assignment.release.name: answered(assignment, code)},
    )


def scores(where: Classroom, assignment: Assignment) -> dict[str, float]:
    return {mark.student: mark.score for mark in gradebook.marks(where, assignment.name)}


LIST = "id,name\nanna,Anna A\nbob,Bob B\nzoe,Zoë Z\n"


def listed(where: Classroom) -> None:
    where.make_inbox()
    roster.path(where).write_text(LIST)


@pytest.mark.quick
def test_on_a_fresh_clone_the_inbox_is_made(where: Classroom) -> None:
    done = grader("autograde")

    assert done.exit_code == 4
    assert "There is no submission yet" in done.output
    text = (where.inbox / "README.txt").read_text()
    assert "submissions.zip" in text
    assert "students.csv" in text
    assert grader("autograde").exit_code == 4  # the inbox's README is no submission
    assert grader("feedback").exit_code == 1
    assert "Nothing has been graded yet" in str(grader("report").exception)


@pytest.mark.quick
def test_all_assignments_are_graded(where: Classroom, both: list[Assignment]) -> None:
    other, toy = both
    listed(where)
    hand_in(where, toy, "anna", "number = 1")
    hand_in(where, other, "anna", "number = 0.5")
    hand_in(where, toy, "bob", "number = 0.5")

    run()

    assert scores(where, toy) == {"anna": 15, "bob": 7.5}
    assert scores(where, other) == {"anna": 7.5}
    assert grader("feedback").exit_code == grader("report").exit_code == 0
    pages = {path.relative_to(where.feedback) for path in where.feedback.rglob("*.html")}
    assert pages == {
        Path("anna/a8__other.html"),
        Path("anna/a9__toy.html"),
        Path("bob/a9__toy.html"),
    }
    assert "a8__other" in grader("feedback", "a8").output
    hand_in(where, other, "bob", "number = 1")
    run("a9")
    assert "bob" not in scores(where, other)  # taken, but not graded yet
    run()
    assert scores(where, other)["bob"] == 15


def files(where: Classroom) -> dict[str, bytes]:
    """Every file of a class but its lock."""
    found = (path for path in where.home.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path): path.read_bytes() for path in found}


def test_the_inbox_is_shown_and_nothing_is_taken(
    where: Classroom, both: list[Assignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, toy = both
    assert grader("inbox").exit_code == 4
    listed(where)
    hand_in(where, toy, "anna", "number = 1")
    hand_in(where, toy, "eve", "number = 1")
    before = files(where)
    done = grader("inbox")
    assert done.exit_code == 3, (done.output, done.exception)
    assert files(where) == before
    lines = [line.split() for line in done.output.splitlines()]
    assert ["a9", "anna", "Anna", "A", "anna_a9.zip", "new"] in lines
    assert "Nothing of a9 from: bob, zoe" in done.output
    assert "eve_a9.zip: Nobody in the class list is 'eve_a9'" in done.output

    (where.inbox / "eve_a9.zip").unlink()
    intake.take_inbox(where, toy, where.inbox)
    assert "as before" in grader("inbox").output
    hand_in(where, toy, "anna", "number = 0.5")
    (where.inbox / "bob_a9.zip").write_text("no zip")
    before = files(where)
    done = grader("inbox")
    assert done.exit_code == 0, (done.output, done.exception)
    assert files(where) == before
    assert "changed" in done.output
    assert "unreadable" in done.output
    assert "Not graded, so without points: bob. The class report says" in run()


def test_what_is_nobodys_is_said(where: Classroom, both: list[Assignment]) -> None:
    _, toy = both
    listed(where)
    hand_in(where, toy, "eve", "number = 1")
    done = grader("autograde")
    assert done.exit_code == 1
    assert "Nothing in the inbox can be graded" in str(done.exception)

    hand_in(where, toy, "anna", "number = 1")
    assert grader("autograde", "--workers", "1").exit_code == 3
    assert scores(where, toy) == {"anna": 15}


@pytest.mark.parametrize(
    ("status", "ends", "pages", "said"),
    [
        (0, 0, True, ""),
        (3, 0, True, "All that could be graded is graded. The lines with ✗ above say what is not"),
        (1, 1, False, ""),
        (4, 0, False, ""),
    ],
)
def test_make_grade_ends_well_with_a_stranger_in_the_inbox(
    tmp_path: Path, status: int, ends: int, pages: bool, said: str
) -> None:
    program = tmp_path / "grader"
    program.write_text(f'#!/bin/sh\necho "$1"\ntest "$1" != autograde || exit {status}\n')
    program.chmod(0o755)
    # Inside another make (`make test`), it would print the folder that it enters and leaves.
    command = ["make", "--no-print-directory", "--dry-run", "grade", f"BIN={tmp_path}"]
    shown = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=True)
    recipe = "code=0;" + shown.stdout.rpartition("code=0;")[2]
    done = subprocess.run(["bash", "-c", recipe], capture_output=True, text=True, check=False)
    assert done.returncode == ends
    assert ("feedback\nreport\n" in done.stdout) == pages
    assert said in done.stdout
    assert ("✗" in done.stdout) == bool(said)


def test_who_was_graded_before_the_list_is_said(where: Classroom, both: list[Assignment]) -> None:
    _, toy = both
    where.make_inbox()
    pack(where.inbox / "anna.zip", {"a9.ipynb": answered(toy, "number = 1")})
    pack(where.inbox / "eve.zip", {"a9.ipynb": answered(toy, "number = 1")})
    run()
    roster.path(where).write_text(LIST)
    (where.inbox / "eve.zip").unlink()

    assert grader("autograde", "--workers", "1").exit_code == 3
    assert set(where.results(toy.name)) == {"anna"}

    assert grader("drop", "eve", "--yes").exit_code == 0
    assert set(scores(where, toy)) == {"anna"}
    run()


@pytest.mark.quick
def test_one_student(where: Classroom, both: list[Assignment]) -> None:
    other, toy = both
    listed(where)
    for student in ("anna", "bob", "zoe"):
        hand_in(where, toy, student, "number = 0.5")
    hand_in(where, other, "zoe", "number = 0.5")
    run()
    for student in ("anna", "bob", "zoe"):
        hand_in(where, toy, student, "number = 1")

    run("a9", "--student", "bob")

    assert scores(where, toy) == {"anna": 7.5, "bob": 15, "zoe": 7.5}
    assert set(where.results(toy.name)) == {"anna", "bob", "zoe"}
    run("--student", "zoe")
    assert scores(where, toy)["zoe"] == 15
    done = grader("autograde", "a9", "--student", "ana")
    assert done.exit_code == 1
    assert "ana has handed in nothing of a9__toy" in str(done.exception)
    assert "such as anna" in done.exception.todo  # type: ignore[union-attr]


def test_drop(where: Classroom, both: list[Assignment]) -> None:
    from nbgrader.api import Gradebook

    other, toy = both
    where.make_inbox()
    for student in ("anna", "twin"):
        pack(
            where.inbox / f"{student}.zip",
            {a.release.name: answered(a, "number = 1") for a in both},
        )
    run()
    grader("feedback")
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        book.find_grade("a9-why", "a9", toy.name, "anna").manual_score = 4
        book.db.commit()
    key = where.results_index(toy.name)["anna"]

    refused = grader("drop", "anna", "a9")
    assert refused.exit_code == 1
    assert "anna, a9__toy: 19 points, 4 of them given by a person" in refused.output
    assert scores(where, toy) == {"anna": 19, "twin": 15}

    done = grader("drop", "anna", "a9", "--yes")

    assert done.exit_code == 0, done.output
    assert scores(where, toy) == {"twin": 15}
    assert scores(where, other) == {"anna": 15, "twin": 15}
    assert not where.submission("anna", toy.name).exists()
    assert not (where.autograded / "anna" / toy.name).exists()
    assert not (where.feedback / "anna" / f"{toy.name}.html").exists()
    assert where.submission("anna", other.name).exists()
    assert "anna" not in where.results_index(toy.name)
    assert where.has(toy.name, key)  # it is also twin's result

    assert grader("drop", "anna", "--yes").exit_code == 0
    assert scores(where, other) == {"twin": 15}
    assert not (where.submitted / "anna").exists()
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        assert [student.id for student in book.students] == ["twin"]
    nobody = grader("drop", "anna", "--yes")
    assert "There is no submission of anna" in str(nobody.exception)
    grader("drop", "twin", "--yes")
    assert not where.has(toy.name, key)
    assert not list(where.home.glob("intake/*/*.json"))

    run()  # both are still in the inbox
    assert set(scores(where, toy)) == {"anna", "twin"}


def test_a_gradebook_in_use_is_said(where: Classroom, both: list[Assignment]) -> None:
    """Each command that opens it says so without a traceback, and a later run writes it."""
    _, toy = both
    where.make_inbox()
    hand_in(where, toy, "anna", "number = 1")
    run()
    (where.home / "deadlines.toml").write_text("[a9]\ndue = 2026-10-24T10:00:00Z\n")
    with contextlib.closing(sqlite3.connect(where.gradebook)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for command in (["autograde", "--workers", "1"], ["drop", "anna_a9", "--yes"]):
            done = grader(*command)
            assert isinstance(done.exception, WorkbookError), (command, done.output)
            assert "The gradebook is in use" in str(done.exception)
    run()
    assert where.submission("anna_a9", toy.name).is_dir()


def test_progress_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "EVERY_S", 0.05)
    stream = io.StringIO()
    with progress_bar.shown(Console(file=stream, width=40), "Grading a [long] name", 4) as advance:
        for _ in range(2):
            advance()
        time.sleep(0.3)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("Grading a [long] name: ")
    assert "2 of 4, 0 s so far, about 0 s left" in lines[-1]
    assert len(lines) >= 3
    assert "\x1b" not in stream.getvalue()


def test_folders_of_a_killed_run_are_removed() -> None:
    """Folders of a run that goes on stay, and so do other programs' files."""
    code = (
        "import os, sys\n"
        "from grader.judge import scratch\n"
        "folder = scratch.folder()\n"
        "print(folder.name, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        (left / "inner").mkdir()
        other = left.with_name(left.name + "-x-link")
        other.symlink_to("/etc")
        with scratch.folder() as ours:
            scratch.remove_left()
            assert left.is_dir()
            process.kill()
            process.wait()
            scratch.remove_left()
            assert not left.exists()
            assert Path(ours).is_dir()
            assert other.is_symlink()
            other.unlink()


def test_files_that_a_killed_run_was_writing_are_removed(tmp_path: Path) -> None:
    where = classroom(tmp_path)
    old, new = where.home / "results" / ".x1.new", where.home / "results" / ".x2.new"
    kept = where.home / "results" / "report.new"
    for path in (old, new, kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
        os.utime(path, (1_000, 1_000))
    os.utime(new)
    with where.lock():
        assert (old.exists(), new.exists(), kept.exists()) == (False, True, True)


SCRIPT = """
import functools, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from a_class import fake_grade, fake_key
from grader import cli
from grader.classroom import autograde
if __name__ == "__main__":
    autograde.autograde = functools.partial(
        autograde.autograde, grader=fake_grade, keyer=fake_key, workers=1
    )
    sys.argv = ["grader", "autograde", "a9"]
    cli.main()
"""


@pytest.mark.timeout(600)
def test_ctrl_c_says_what_is_kept(where: Classroom, both: list[Assignment], tmp_path: Path) -> None:
    """typer turns the KeyboardInterrupt into an exit status before main sees it."""
    _, toy = both
    where.make_inbox()
    for number in range(6):
        hand_in(where, toy, f"s{number}", f"import time; time.sleep(2)\nnumber = 1  # {number}")
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    stored = where.home / "results" / toy.name
    with subprocess.Popen(
        [sys.executable, script], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        until = time.monotonic() + 300
        while len(list(stored.glob("?" * 64 + ".json"))) < 2 and time.monotonic() < until:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "Grading a9__toy: 0 of 6" in said
    assert "Of 6 submissions to be graded, 2 are, and are kept." in said
    assert "Stopped. What was graded is kept; the same command goes on from there." in said


@pytest.mark.parametrize(
    ("command", "line"),
    [("models", "Stopped. The rest is built later."), ("other", "Stopped. Nothing was done.")],
)
def test_ctrl_c_in_every_command(tmp_path: Path, command: str, line: str) -> None:
    code = (
        "import signal, sys, time, typer\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from rich.console import Console\n"
        "from workbook.common import terminal\n"
        "app = typer.Typer()\n"
        "def wait():\n"
        "    print('ready', flush=True)\n"
        "    for _ in range(600): time.sleep(0.1)\n"
        "app.command('models')(wait); app.command('other')(wait)\n"
        "kept = {'models': 'The rest is built later.', '': 'Nothing was done.'}\n"
        "terminal.run(app, Console(stderr=True), stopped=kept)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, f"{line}\n")
