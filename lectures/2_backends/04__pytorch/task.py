"""The task of 04__pytorch: inputs whose names send them to the wrong arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import setup
from workbook.lessons import formats
from workbook.lessons.runs import infer
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_ROWS = 8


@define(
    "pytorch.scaled",
    hints=(
        "Compare the config's names with the arguments of forward(image, black, white).",
        "The names count only if each input in the config has the name of an argument. Otherwise "
        "the order in the config counts.",
        'Either name the first input "image", or let the config have the order of forward(). '
        "Then load it.",
    ),
)
def scaled(server: Server) -> None:
    """The model scaled gives the network's logits for pixels from 0 (black) to 255 (white)."""
    raw = ((formats.pictures()[:_ROWS] + 1) * 127.5).astype(np.float32)
    ends = {"black": np.zeros((_ROWS, 1), np.float32), "white": np.full((_ROWS, 1), 255, "f4")}
    inputs = {}
    for entry in server.config("scaled")["input"]:
        picture = len(entry["dims"]) == 3
        if not picture and entry["name"] not in ends:
            raise NotYet(f"The clients send black and white; the config has {entry['name']}.")
        inputs[entry["name"]] = raw if picture else ends[entry["name"]]
    logits = next(iter(infer(server, "scaled", **inputs).values()))
    away = float(np.abs(logits - formats.reference()[:_ROWS]).max())
    if not away < 1e-2:
        raise NotYet(f"The logits differ from the network's by up to {away:.2g}.")


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it."""
    setup.scaled(folder)
    return laboratory(folder)
