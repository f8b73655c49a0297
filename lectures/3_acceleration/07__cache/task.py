"""The task of 07__cache: a new edition reaches the users although the cache stays switched on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tritonclient import grpc

from workbook.lessons import files
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server


def start(folder: Path) -> Server:
    """Start a server whose cache holds answers of the old edition, as after the notebook."""
    files.place(folder, Path(__file__).parent / "models/label")
    server = laboratory(folder)
    _editions(server)
    file = folder / "label/1/model.py"
    file.write_text(file.read_text("utf-8").replace("spring", "autumn"), "utf-8")
    server.load("label")
    return server


def _editions(server: Server) -> list[str]:
    """The model's answers to the numbers 0 to 4."""
    answers = []
    with server.grpc_client() as client:
        for number in range(5):
            tensor = grpc.InferInput("X", [1], "FP32")
            tensor.set_data_from_numpy(np.full(1, number, np.float32))
            answers.append(client.infer("label", [tensor]).as_numpy("edition")[0].decode())
    return answers


@define(
    "cache.new_edition",
    hints=(
        "The key of a kept answer has the model's name, its version, and the inputs. Which of "
        "these may you change, so that users need not change anything?",
        "By default the newest version serves: that of the folder with the largest number.",
        "Copy the folder `1` of `label` to `2`, with the new program, and load `label` again.",
    ),
)
def new_edition(server: Server) -> None:
    """The model label answers "autumn" to the numbers 0 to 4, and its cache stays on."""
    if not server.ready("label"):
        raise NotYet("The model label is not loaded.")
    if not server.config("label").get("response_cache", {}).get("enable"):
        raise NotYet("The cache of label is off: every request would be computed.")
    found = _editions(server)
    if set(found) != {"autumn"}:
        raise NotYet(f"The answers to the numbers 0 to 4 are {', '.join(found)}.")
