"""The task of 05__precision: a calibration with pictures like those of the users."""

from __future__ import annotations

from pathlib import Path

import setup
from workbook.lessons import files, formats
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Triton

#: So many of 200 verdicts may change.
ALLOWED = 2


def start(folder: Path) -> Triton:
    """Start a server with the model as the notebook has it."""
    here = Path(__file__).parent
    compiled = here.parent / "04__compile/models/compiled"
    files.place(folder, compiled, here / "models/hurried")
    setup.prepare(folder)
    setup.quantize(folder)
    return laboratory(folder, only=["hurried"])


@define(
    "precision.calibrated",
    hints=(
        "The calibration measures the ranges of the numbers between layers. What do black pictures "
        "tell it?",
        "PICTURES has 200 typical pictures. The calibration hands them out in batches, as in the "
        "notebook.",
        "With all layers in int8 too many verdicts still change. `nodes_to_exclude` names the "
        "layers that stay in fp32: which one makes the logits?",
    ),
)
def calibrated(server: Triton, models: Path) -> None:
    """The model hurried still computes in int8, and at most 2 of its 200 verdicts are others than
    those of the network in fp32."""
    import onnx

    graph = onnx.load(models / "hurried/1/model.onnx").graph
    kinds = [node.op_type for node in graph.node]
    if kinds.count("QuantizeLinear") < 4:
        raise NotYet("The file has hardly any layer in int8 now.")
    changed = formats.changed(formats.served_logits(server, "hurried"))
    if changed > ALLOWED:
        raise NotYet(f"{changed} of 200 verdicts are others than in fp32.")
