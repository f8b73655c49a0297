"""The Python of docs/students.md runs unchanged, in a checkout without built models."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workbook.common import paths

SNIPPETS = re.findall(
    r"(?ms)^```python\n(.*?)^```", (paths.root() / "docs/students.md").read_text("utf-8")
)


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """The shared repository as a fresh clone has it: what git knows, and no weights."""
    known = subprocess.run(
        ["git", "ls-files", "-z", "model_repository"],
        cwd=paths.root(), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, known.split("\0")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths.root() / name, tmp_path / name)
    return tmp_path / "model_repository"


def test_there_are_snippets() -> None:
    assert SNIPPETS


@pytest.mark.server
@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_a_snippet_runs_in_a_fresh_clone(snippet: str, unbuilt: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", snippet],
        cwd=unbuilt.parent,  # relative paths are as in a clone
        env={**os.environ, "TRITON_REPOSITORY": str(unbuilt)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "False" not in done.stdout, done.stdout
