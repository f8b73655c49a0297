"""The zoo: data sets and checkpoints that are built here, offline, the same on every machine.

    from workbook import zoo

    split = zoo.data.digits()
    path = zoo.checkpoint("digits_cnn")     # built at the first call, found at every later one
    zoo.build()                             # everything at once, with a progress bar
    zoo.repository.build()                  # the weights of the demonstration models
    zoo.building()                          # {"digits_tf": "building"}: by any process, just now

Importing it costs nothing: frameworks are imported when something is built.
"""

from __future__ import annotations

from pathlib import Path

from . import data, repository
from .builder import BuildError, build
from .progress import building
from .registry import RECIPES

__all__ = ["RECIPES", "BuildError", "build", "building", "checkpoint", "data", "repository"]

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
    from .hub import fetch

    return fetch(hub)
