"""The course's own models whose weights are not built, or are being built.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

from pathlib import Path

from ...common import paths
from ...zoo.demonstrations import lacking
from ...zoo.progress import building
from .evidence import Evidence
from .rules import Advice, Catalogue, Said

WEIGHTS: Catalogue[Evidence] = Catalogue()


def unbuilt(folder: Path) -> Advice | None:
    """What to do about a model of the shared repository that is incomplete; None for any other.

    advice = unbuilt(paths.repository() / "digits_onnx")
    advice.todo  # "Run `workbook models digits_onnx`, then `workbook serve --detach`."
    """
    name = folder.name
    if folder.parent.resolve() != paths.repository().resolve() or not (command := lacking(folder)):
        return None
    if state := building(folder.parent).get(name):
        return Advice(
            f"The weights of {name} are still being built"
            + (" (others come first)." if state == "waiting" else "."),
            name,
            f"Wait until `workbook status` shows {name} as ready; if it shows `not loaded`, run "
            "`workbook serve --detach`.",
        )
    what = (
        "The package vllm is not installed."
        if command == "make vllm"
        else (f"The weights of {name} are not built yet.")
    )
    return Advice(what, name, f"Run `{command}`, then `workbook serve --detach`.")


@WEIGHTS.rule(
    "weights-not-built",
    "is at UNAVAILABLE state",
    "at least one version must be available under the version policy of model",
)
def weights_not_built(evidence: Evidence, said: Said) -> Advice | None:
    """Build the weights (`workbook models NAME`), or wait until they are, then load the model."""
    return unbuilt(evidence.folder)
