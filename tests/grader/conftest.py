"""What the tests of classes share: a cluster that grades."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import dask.config
import distributed  # noqa: F401  # before dask.config.set: it brings settings
import pytest

from grader.classroom import cluster


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
