"""The course's own models whose weights are not built yet."""

from __future__ import annotations

from pathlib import Path

from ...common import paths
from ...zoo.repository import MODELS, lacking
from .evidence import Evidence
from .rules import Advice, Catalogue, Said

WEIGHTS: Catalogue[Evidence] = Catalogue()


def build_command(folder: Path) -> str:
    """The command that builds what a model of the shared repository lacks; "" where it lacks none.

    build_command(paths.repository() / "digits_onnx")  # workbook models digits_onnx
    """
    if folder.resolve().parent != paths.repository() or not folder.is_dir():
        return ""
    files = MODELS.get(folder.name)
    if files is not None and not all((folder / file).exists() for file in ("1", *files)):
        return f"workbook models {folder.name}"
    return lacking(folder)


@WEIGHTS.rule(
    "weights-not-built",
    "is at UNAVAILABLE state",
    "at least one version must be available under the version policy of model",
)
def weights_not_built(evidence: Evidence, said: Said) -> Advice | None:
    """Build the weights (`workbook models NAME`), then load the model."""
    command = build_command(evidence.folder)
    if not command:
        return None
    return Advice(
        f"The weights of {evidence.model} are not built yet.",
        str(evidence.folder),
        f"Run `{command}`, then load the model (`workbook serve --detach` loads what is new).",
    )
