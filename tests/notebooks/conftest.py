"""A small assignment in a checkout of its own, built once for all tests."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from notebook_sample import CHECKS, CONFIG, SOURCE

from workbook import assignments
from workbook.assignments import Assignment, cells

NAME = "a9__sample"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the assignment `a9__sample` and what is built from it."""
    home = tmp_path_factory.mktemp("built")
    folder = home / "solutions" / NAME
    (folder / "starter/models/forest/1").mkdir(parents=True)
    (folder / "starter/models/forest/config.pbtxt").write_text(CONFIG)
    (folder / "starter/run.sh").write_text("#!/bin/sh\necho hello\n")
    (folder / "starter/run.sh").chmod(0o755)
    (folder / "solution/models/forest").mkdir(parents=True)
    (folder / "solution/models/forest/config.pbtxt").write_text(CONFIG + "# the solution's\n")
    (folder / "a9.py").write_text(SOURCE)
    (folder / "checks.py").write_text(CHECKS.format(id="a9.doubled"))
    (folder / "words.py").write_text("WORDS = ()\n")
    for name in ("hidden", "mutants", "attacks"):
        (folder / f"{name}.py").write_text("SECRET = 1\n")
    assignments.build(Assignment(NAME, home))
    return home


@pytest.fixture
def sample(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Assignment:
    """The assignment, built, in a checkout that the package takes for its own."""
    home = tmp_path / "course"
    shutil.copytree(built, home)
    monkeypatch.setenv("WORKBOOK_HOME", str(home))
    return Assignment(NAME, home)


@pytest.fixture
def home(sample: Assignment) -> Path:
    """The checkout."""
    return sample.home


@pytest.fixture
def release(sample: Assignment) -> dict[str, Any]:
    """The student's notebook as JSON."""
    return cells.read(sample.release)
