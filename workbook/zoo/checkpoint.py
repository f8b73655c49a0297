"""Where an artefact lies: the function `zoo.checkpoint`, which recipes call too."""

from __future__ import annotations

from pathlib import Path

from .builder import BuildError, build
from .hub import fetch

#: Artefacts that a checkpoint of the hub can replace.
FROM_HUB = (
    "image_classifier",
    "text_classifier",
    "llama",
    "llama_hf",
    "llama_stream",
    "llama_vllm",
)


def checkpoint(name: str, *, hub: str = "") -> Path:
    """Where an artefact lies, built first if it is not there: a file, or a folder.

    Args:
        name: one of `zoo.RECIPES`.
        hub: for Hugging Face checkpoints, and models that hold one, the name of a checkpoint on
            the hub to take instead, e.g. "microsoft/resnet-18" or "facebook/opt-125m".

    Raises:
        BuildError: there is no such artefact, or it could not be built or downloaded.

    Example:
        zoo.checkpoint("digits_onnx")                           # a file: model.onnx
        zoo.checkpoint("image_classifier", hub="microsoft/resnet-18")   # a folder
    """
    if not hub:
        return build([name])[name]
    if name not in FROM_HUB:
        raise BuildError(
            f"{name} is not a Hugging Face checkpoint.",
            todo=f"The hub can replace: {', '.join(FROM_HUB)}.",
        )
    return fetch(hub)
