"""The language models with random weights: small, quick, and the same in every way of serving."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workbook import zoo
from workbook.common import paths
from workbook.server import Triton

#: All but vLLM's, whose engine takes half a minute to start.
MODELS = ("llama_hf", "llama_stream", "llama_tokenizer", "llama_onnx", "llama_next", "chat_bls")


def put_models(repository: Path, names: tuple[str, ...]) -> None:
    """Copy models of the course into a repository, with the weights of the tiny Llama."""
    for name in names:
        folder = repository / name
        shutil.copytree(
            paths.root() / "model_repository" / name,
            folder,
            ignore=shutil.ignore_patterns("checkpoint", "*.onnx", "tokenizer.json", "config.json"),
        )
        (folder / "1").mkdir(exist_ok=True)
        for file, source in zoo.repository.LLAMAS[name].items():
            artefact, _, inner = source.replace("llama", "llama_tiny", 1).partition("/")
            found = zoo.checkpoint(artefact) / inner
            if found.is_dir():
                shutil.copytree(found, folder / file)
            else:
                shutil.copyfile(found, folder / file)


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
