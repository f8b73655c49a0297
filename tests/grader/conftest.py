"""What the tests of the grader share: a small assignment, and a cluster that grades."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import dask.config
import distributed  # noqa: F401  # before dask.config.set: it brings settings
import pytest

from grader.classroom import cluster
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


@pytest.fixture(scope="module")
def started_cluster() -> Iterator[tuple[Any, Any]]:
    with dask.config.set(cluster._QUIET), cluster._on_this_machine(2) as found:
        yield found


@pytest.fixture
def one_cluster(started_cluster: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs of a test module grade in one cluster: to start another takes seconds."""
    monkeypatch.setattr(
        cluster, "_on_this_machine", lambda workers: contextlib.nullcontext(started_cluster)
    )
