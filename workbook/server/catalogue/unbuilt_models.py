"""The advice for the course's own models that have no weights yet."""

from __future__ import annotations

from pathlib import Path

from ...common import paths
from ...zoo.demonstrations import lacking
from ...zoo.progress import building
from .evidence import Evidence
from .rules import Advice, Catalogue, Parts

WEIGHTS: Catalogue[Evidence] = Catalogue("unbuilt_models")


def unbuilt(folder: Path) -> Advice | None:
    """The advice for an incomplete model of the shared repository; None for any other model.

    advice = unbuilt(paths.repository() / "digits_onnx")
    advice.todo  # "Run `workbook models digits_onnx`, then `workbook serve --detach`."
    """
    name = folder.name
    if folder.parent.resolve() != paths.repository().resolve() or not (command := lacking(folder)):
        return None
    if state := building(folder.parent).get(name):
        later = " (others come first)." if state == "waiting" else "."
        return Advice(
            f"The weights of {name} are still being built{later}",
            name,
            f"Wait until `workbook status` shows {name} as ready; if it shows `not loaded`, run "
            "`workbook serve --detach`.",
        )
    what = f"The weights of {name} are not built yet."
    if command == "make vllm":
        what = "The package vllm is not installed."
    return Advice(what, name, f"Run `{command}`, then `workbook serve --detach`.")


@WEIGHTS.look_up
def weights_not_built(evidence: Evidence, parts: Parts) -> Advice | None:
    """The advice for a model of the course; None for any other."""
    return unbuilt(evidence.folder)
