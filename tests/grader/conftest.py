"""The assignment of most tests of the grader."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.grader.a_class import course
from workbook.assignments import Assignment


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assignment]:
    """The small assignment a9, in a checkout of its own, which is that of the module's tests."""
    home = tmp_path_factory.mktemp("course")
    (home / "requirements.txt").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBOOK_HOME", str(home))
        yield course(home)
