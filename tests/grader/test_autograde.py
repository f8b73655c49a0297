"""A class on a real dask cluster: what is graded and kept, and what remains after failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from a_class import answered, classroom, fake_grade, fake_key, pack

from grader.classroom import autograde, cluster, gradebook, intake
from grader.classroom.classroom import Classroom
from grader.judge.grade_submission import Settings
from grader.vocabulary.results import Graded
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

pytestmark = pytest.mark.server

HERE = Path(__file__).parent


def run(where: Classroom, toy: Assignment, **options: object) -> autograde.Outcome:
    return autograde.autograde(
        where,
        toy,
        Settings(),
        **{"workers": 2, "grader": fake_grade, "keyer": fake_key, **options},  # type: ignore[arg-type]
    )


def hand_in(home: Path, toy: Assignment, work: dict[str, str]) -> Classroom:
    where = classroom(home)
    for student, code in work.items():
        pack(where.inbox / f"{student}.zip", {"a9.ipynb": answered(toy, code)})
    intake.take_inbox(where, toy, where.inbox)
    return where


def scores(where: Classroom) -> dict[str, float]:
    return {mark.student: mark.score for mark in gradebook.marks(where, "a9__toy")}


@pytest.mark.quick
def test_a_class_is_graded_once(
    tmp_path: Path, class_home: Path, toy: Assignment, one_cluster: None
) -> None:
    """Each solution cell leaves a line in a file when it is graded."""
    trace = f"open({str(tmp_path / 'trace')!r}, 'a').write('x')\n"
    work = {f"s{n}": f"{trace}number = {n / 4}" for n in range(5)}
    work["s1"] += "\nfigure = 2"
    where = hand_in(class_home, toy, {**work, "twin": work["s4"]})
    (where.inbox / "eve.zip").write_text("no zip")
    intake.take_inbox(where, toy, where.inbox)

    first = run(where, toy)

    assert first.graded == ("s0", "s1", "s2", "s3", "s4", "twin")
    assert first.failed == first.unwritten == {}
    assert scores(where) == {
        **{f"s{n}": 15 * n / 4 for n in range(5)},
        **{"twin": 15, "eve": 0},
    }
    assert (tmp_path / "trace").read_text() == "x" * 5  # twins have one result

    def figures(student: str) -> list[float]:
        checks = where.results("a9__toy")[student].verdict.checks
        return [check.standing.value for check in checks if check.standing]

    assert (figures("s0"), figures("s1")) == ([], [2, 2])

    before = where.gradebook.read_bytes()
    second = run(where, toy)

    assert second.graded == ()
    assert set(second.known) == {"s0", "s1", "s2", "s3", "s4", "twin", "eve"}
    assert (tmp_path / "trace").read_text() == "x" * 5
    assert where.gradebook.read_bytes() == before

    pack(where.inbox / "s1.zip", {"a9.ipynb": answered(toy, f"{trace}number = 1\nfigure = 3")})
    intake.take_inbox(where, toy, where.inbox)
    third = run(where, toy)

    assert third.graded == ("s1",)
    assert figures("s1") == [3, 3]  # the new one, in place of the old one
    assert scores(where)["s1"] == 15

    assert len(run(where, toy, force=True).graded) == 6


def test_what_the_gradebook_lost_is_written_again_without_grading(
    class_home: Path, toy: Assignment, one_cluster: None
) -> None:
    where = hand_in(class_home, toy, {"anna": "number = 1", "bob": "number = 0.5"})
    run(where, toy)
    where.gradebook.unlink()

    again = run(where, toy)

    assert again.graded == ()
    assert scores(where) == {"anna": 15, "bob": 7.5}


@pytest.mark.quick
def test_one_bad_submission_never_stops_the_others(
    tmp_path: Path, class_home: Path, toy: Assignment
) -> None:
    died = tmp_path / "died"
    once = f"""
import os, pathlib
if not pathlib.Path({str(died)!r}).exists():
    pathlib.Path({str(died)!r}).touch()
    os._exit(1)
number = 1"""
    where = hand_in(
        class_home,
        toy,
        {
            "kills": "import os; os._exit(1)",
            "once": once,
            "hangs": "import time; time.sleep(600)",
            "breaks": "raise RuntimeError('the grader has a bug')",
            **{f"s{n}": f"number = 1  # {n}" for n in range(4)},
        },
    )

    outcome = run(where, toy, deadline_s=40)

    assert outcome.graded == ("once", "s0", "s1", "s2", "s3"), outcome
    assert "died, twice" in outcome.failed["kills"]
    assert "did not end within 40 s" in outcome.failed["hangs"]
    assert "RuntimeError: the grader has a bug" in outcome.failed["breaks"]
    assert scores(where) == {
        **dict.fromkeys(("kills", "hangs", "breaks"), 0),
        **dict.fromkeys(("once", "s0", "s1", "s2", "s3"), 15),
    }
    result = where.results("a9__toy")["kills"]
    assert [flag.kind for flag in result.verdict.flags] == [autograde.NOT_GRADED]
    assert [check.status for check in result.verdict.checks] == ["error", "error"]

    # A submission without a verdict is tried again; one with a verdict is not.
    died.unlink()
    for student in ("kills", "hangs", "breaks"):
        pack(where.inbox / f"{student}.zip", {"a9.ipynb": answered(toy, "number = 1")})
    intake.take_inbox(where, toy, where.inbox)
    assert set(run(where, toy).graded) == {"kills", "hangs", "breaks"}


def test_what_fails_twice_costs_no_more_time(
    tmp_path: Path, class_home: Path, toy: Assignment, one_cluster: None
) -> None:
    """The next run grades it once more, since the failure may have been the machine's fault."""
    tried = tmp_path / "tried"
    counts = f"open({str(tried)!r}, 'a').write('x')\n"
    where = hand_in(
        class_home,
        toy,
        {
            "breaks": f"{counts}raise RuntimeError('the grader has a bug')",
            "judge": f"{counts}flags = ['judge ended']\nnumber = 0",
            "fine": "number = 1",
        },
    )
    assert run(where, toy).graded == ("fine", "judge")

    second = run(where, toy)

    assert second.graded == ("judge",)
    assert tried.read_text() == "xxxx"
    for student in ("breaks", "judge"):
        kinds = [flag.kind for flag in where.results("a9__toy")[student].verdict.flags]
        assert kinds[-1] == autograde.TWICE, student

    third = run(where, toy)

    assert third.graded == ()
    assert tried.read_text() == "xxxx"
    assert list(third.failed) == ["breaks"]  # every run reports it to the instructor
    assert "the grader has a bug" in third.failed["breaks"]
    assert "--force" in third.failed["breaks"]

    assert run(where, toy, force=True).graded == ("fine", "judge")
    assert tried.read_text() == "xxxxxx"


def test_two_graders_never_work_in_one_classroom(class_home: Path) -> None:
    where = classroom(class_home)
    with (
        where.lock(),
        pytest.raises(WorkbookError, match="Another grader") as raised,
        classroom(class_home).lock(),
    ):
        pass
    assert str(where.home) in raised.value.where
    with where.lock():
        pass


def start(where: Classroom, toy: Assignment) -> subprocess.Popen[str]:
    """Start the same run in a separate process, as the command line does."""
    code = (
        "import signal\n"  # in tests that run in the background, Ctrl-C is ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from a_class import *\n"
        "from pathlib import Path\n"
        "from grader.classroom import autograde\n"
        "from grader.judge.grade_submission import Settings\n"
        "from workbook import assignments\n"
        "if __name__ == '__main__':\n"
        f"    autograde.autograde(Classroom(Path({str(where.home)!r})), assignments.named('a9'),\n"
        "        Settings(), workers=2, grader=fake_grade, keyer=fake_key)\n"
    )
    script = where.home / "run.py"
    script.write_text(code)
    environment = {**os.environ, "WORKBOOK_HOME": str(toy.home), "PYTHONPATH": str(HERE)}
    return subprocess.Popen(
        [sys.executable, script], env=environment, stderr=subprocess.PIPE, text=True
    )


def ours(where: Classroom) -> list[int]:
    """The processes that this run's script started and that are still there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"GRADER_TEST={where.home}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_stopped_goes_on_where_it_was(
    tmp_path: Path,
    class_home: Path,
    toy: Assignment,
    one_cluster: None,
    how: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = tmp_path / "trace"
    slow = f"import time; time.sleep(1); open({str(trace)!r}, 'a').write('%d ')\nnumber = 1"
    where = hand_in(class_home, toy, {f"s{n}": slow % n for n in range(8)})
    monkeypatch.setenv("GRADER_TEST", str(where.home))
    stored = where.home / "results" / "a9__toy"

    process = start(where, toy)
    until = time.monotonic() + 400  # the workers' first imports take long on a busy machine
    while len(list(stored.glob("?" * 64 + ".json"))) < 3 and time.monotonic() < until:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    os.kill(process.pid, how)
    _, said = process.communicate(timeout=60)
    kept = {path.name for path in stored.glob("?" * 64 + ".json")}
    until = time.monotonic() + 30
    while set(ours(where)) - {os.getpid()} and time.monotonic() < until:
        time.sleep(0.1)

    assert not set(ours(where)) - {os.getpid()}  # the workers are gone as well
    assert process.returncode in (-how, 1, 130)
    assert 3 <= len(kept) < 8
    if how is signal.SIGINT:
        assert said.strip().splitlines()[-1] == "KeyboardInterrupt"
        assert said.count("Traceback") == 1  # not during a write, where nbgrader adds one

    trace.write_text("")
    outcome = run(where, toy)

    assert len(outcome.graded) == 8 - len(kept)
    assert sorted(trace.read_text().split()) == sorted(s[1:] for s in outcome.graded)
    assert scores(where) == {f"s{n}": 15 for n in range(8)}
    for path in stored.glob("*.json"):
        json.loads(path.read_text())


def test_the_same_code_runs_on_a_scheduler_given_by_address(
    tmp_path: Path, class_home: Path, toy: Assignment
) -> None:
    """The worker has another folder, and sees of the classroom only what it is sent."""
    where = hand_in(class_home, toy, {"anna": "number = 1", "bob": "number = str(work)"})
    environment = {**os.environ, "WORKBOOK_HOME": str(toy.home), "PYTHONPATH": str(HERE)}
    told = tmp_path / "scheduler.json"
    common = ("--scheduler-file", str(told), "--no-dashboard")
    scheduled = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common)
    works = ("distributed.cli.dask_worker", "--nthreads", "1", "--nworkers", "1", *common)

    def dask(arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", *arguments], env=environment, cwd=tmp_path)

    with dask(scheduled) as scheduler, dask(works) as worker:
        try:
            until = time.monotonic() + 60
            while not (told.exists() and told.read_text()) and time.monotonic() < until:
                time.sleep(0.05)
            outcome = run(where, toy, scheduler=json.loads(told.read_text())["address"])
        finally:
            worker.terminate()
            worker.wait(30)
            scheduler.terminate()

    assert outcome.graded == ("anna",)
    assert "could not convert" in outcome.failed["bob"]
    assert str(where.home) not in outcome.failed["bob"]


def test_a_scheduler_that_is_not_there_is_said(
    class_home: Path, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "ANSWER_S", 1.0)
    where = hand_in(class_home, toy, {"anna": "number = 1"})
    with pytest.raises(WorkbookError, match="no dask scheduler"):
        run(where, toy, scheduler="tcp://127.0.0.1:1")


def of_another_version(work: Path, assignment: str, settings: Settings) -> Graded:
    graded = fake_grade(work, assignment, settings)
    return graded.model_copy(update={"version": 2})


def test_a_result_of_another_layout_is_no_result(
    class_home: Path, toy: Assignment, one_cluster: None
) -> None:
    where = hand_in(class_home, toy, {"anna": "number = 1"})
    outcome = run(where, toy, grader=of_another_version)
    assert outcome.graded == ()
    assert "another version of the grader" in outcome.failed["anna"]
    assert scores(where) == {"anna": 0}


def refuses(work: Path, assignment: str, settings: Settings) -> None:
    raise WorkbookError("There is no sandbox.", todo="Install bubblewrap.")


def test_a_machine_that_cannot_grade_stops_the_run(
    class_home: Path, toy: Assignment, one_cluster: None
) -> None:
    where = hand_in(class_home, toy, {"anna": "number = 1"})
    with pytest.raises(WorkbookError, match="no sandbox") as raised:
        run(where, toy, grader=refuses)
    assert raised.value.todo == "Install bubblewrap."
    assert where.results("a9__toy") == {}
