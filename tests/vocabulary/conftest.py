"""What the tests of words share: a probe on a real server, and models for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.vocabulary.probe import Probe
from tests.vocabulary import python_models
from workbook.server import Triton

#: `put("name", body, config(…))` writes a Python model and returns its name.
Put = Callable[..., str]


@pytest.fixture(scope="module")
def probe(server: Triton) -> Iterator[Probe]:
    probe = Probe(server, load=True)
    yield probe
    probe.close()


@pytest.fixture
def put(write_model: Callable[..., Path]) -> Put:
    def put(
        name: str,
        body: str,
        config: str = "",
        *,
        before: str = "pass",
        files: dict[str, str] | None = None,
    ) -> str:
        model = python_models.model(body, before=before)
        write_model(name, config or python_models.config(), model | (files or {}))
        return name

    return put
