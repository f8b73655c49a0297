"""Put language models of the course into a repository, with random weights: small and quick."""

from __future__ import annotations

import shutil
from pathlib import Path

from workbook import zoo
from workbook.common import paths
from workbook.zoo import demonstrations

#: All language models except vLLM's, because its engine takes half a minute to start.
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
            if source == demonstrations.SAMPLING:
                shutil.copyfile(paths.root() / source, folder / file)
                continue
            artefact, _, inner = source.replace("llama", "llama_tiny", 1).partition("/")
            found = zoo.checkpoint(artefact) / inner
            if found.is_dir():
                shutil.copytree(found, folder / file)
            else:
                shutil.copyfile(found, folder / file)
