"""A server with the course's language models, with random weights."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from llm_repository import MODELS, put_models

from workbook.server import Triton


@pytest.fixture(scope="module")
def llms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server with every language model but vLLM's."""
    repository = tmp_path_factory.mktemp("models")
    put_models(repository, MODELS)
    with Triton(repository) as server:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(server.load, [name for name in MODELS if name != "llama_next"]))
        server.load("llama_next")
        yield server
