"""The task of 06__accelerators: OpenVINO computes a whole network, not pieces of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import setup
from workbook.lessons import files, formats
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Triton


def start(folder: Path) -> Triton:
    """Start a server with the model as the notebook has it, and the network as exported."""
    here = Path(__file__).parent
    compiled = here.parent / "04__compile/models/compiled"
    files.place(folder, compiled, here / "models/night")
    setup.prepare(folder)
    formats.save_onnx(folder / "compiled/1/model.onnx")
    setup.night(folder)
    return laboratory(folder, only=["night"])


@define(
    "accelerators.whole",
    hints=(
        "Which providers does the server's log name for night? In which list does its config have "
        "openvino, and for which instances is that list read?",
        "Who takes its operators? Look: `setup.parts(models / 'night/1/model.onnx')`.",
        "Write `cpu_execution_accelerator` in the config, copy the exported file "
        "`{models}/compiled/1/model.onnx` into the model's folder, and load night.",
    ),
)
def whole(server: Triton, models: Path) -> None:
    """OpenVINO computes all operators of the model night, with the answers of compiled."""
    wanted = server.config("night").get("optimization", {}).get("execution_accelerators", {})
    named = [entry["name"] for entry in wanted.get("cpu_execution_accelerator", [])]
    if "openvino" not in named:
        raise NotYet("For instances on the CPU, the config that the server has names no openvino.")
    if "OpenVINO" not in setup.providers(server, "night"):
        raise NotYet(
            "The log names no OpenVINO for it. Is night loaded again, and the plug-in there?"
        )
    found = setup.parts(models / "night/1/model.onnx")["computed by"]
    if set(found) != {"OpenVINO"}:
        raise NotYet(f"Its graph is in {len(found)} parts, and ONNX Runtime computes some of them.")
    apart = float(np.abs(formats.served_logits(server, "night") - formats.reference()).max())
    if apart > 1e-2:
        raise NotYet(f"Its logits differ by {apart:.2g} from those of the network.")
