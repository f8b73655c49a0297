"""An instructor grades with a checkout that another user owns: nothing in it can be written.

The whole checkout is mounted read-only, as root's checkout is for an ordinary user.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.authoring import submissions
from grader.sandbox import bubblewrap
from workbook import assignments
from workbook.common import paths

pytestmark = pytest.mark.server

FOUND = bubblewrap.find()


@pytest.mark.skipif(
    FOUND is None, reason="bubblewrap is not there: `make doctor` says how to get it"
)
def test_a_class_is_graded_with_a_checkout_of_another_user(tmp_path: Path) -> None:
    """The class is elsewhere, by GRADER_WORK. The backends were not assembled before."""
    assert FOUND is not None
    a2 = assignments.named("a2")
    inbox = tmp_path / "work" / "inbox"
    inbox.mkdir(parents=True)
    submissions.solution(a2, inbox / "anna")
    submissions.release(a2, inbox / "bo")
    none = tmp_path / "none"
    none.mkdir()
    root, temporary = str(paths.root()), tmp_path / "tmp"
    temporary.mkdir()
    words = [str(FOUND.path), "--dev-bind", "/", "/", "--ro-bind", root, root]
    words += ["--ro-bind", str(none), str(paths.state("server"))]
    environment = os.environ | {"GRADER_WORK": str(inbox.parent), "TMPDIR": str(temporary)}
    done = subprocess.run(
        [*words, "--", sys.executable, "-m", "grader.cli", "autograde", "--workers", "1"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    marks = dict(
        line.split()[:2] for line in done.stdout.splitlines() if line.startswith(("anna", "bo"))
    )
    assert marks == {"anna": "80", "bo": "0"}, done.stdout + done.stderr
    assert [*temporary.glob(f"triton-workbook-{os.getuid()}/server/*/python")]
