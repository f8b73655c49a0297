"""The assignment and the classroom of attacks on the inbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.classroom.classroom import Classroom
from tests.grader.a_class import classroom, course
from workbook.assignments import Assignment


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Assignment:
    """The small assignment a9, in a checkout of its own."""
    return course(tmp_path_factory.mktemp("course"))


@pytest.fixture
def where(tmp_path: Path) -> Classroom:
    """A classroom with an empty inbox."""
    made = classroom(tmp_path)
    made.inbox.mkdir(parents=True)
    return made
