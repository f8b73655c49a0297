"""The task of 06__openvino: a lone picture that takes as long as eight."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ... import measure
from ...server import Server
from .. import formats
from ..setups import openvino as setup
from ..workspace import laboratory
from . import NotYet, define

_ROWS, _REQUESTS = 8, 10


@define(
    "openvino.lone",
    hints=(
        "What does the backend do with seven rows that nobody sent?",
        "Padding fills them up. Without it, lone pictures are refused, as long as max_batch_size "
        "is above 0.",
        "The file itself takes any batch. Write max_batch_size: 0, put the batch into dims as -1, "
        "and take the padding out. Then load it.",
    ),
    solution="""
        file = models / "lone/config.pbtxt"
        text = file.read_text().replace("max_batch_size: 8", "max_batch_size: 0")
        text = text.replace("[ 3, 64, 64 ]", "[ -1, 3, 64, 64 ]").replace("[ 2 ]", "[ -1, 2 ]")
        file.write_text(text.replace('"YES"', '"NO"'))
        lab.load("lone")
    """,
)
def lone(server: Server) -> None:
    """The model lone answers one picture in less than half of the time of eight in one request,
    with the network's logits."""
    times = {}
    for rows in (1, _ROWS):
        one = measure.Request("one", inputs={"image": formats.pictures()[:rows]})
        measure.send(server, "lone", [one])
        before = measure.statistics(server, "lone")
        for _ in range(_REQUESTS):
            answer = measure.send(server, "lone", [one]).iloc[0]
            if answer["error"]:
                raise NotYet(f"{rows} in one request: {answer['error']}")
        change = measure.difference(before, measure.statistics(server, "lone"))
        times[rows] = float(change["compute_infer_ms"].iloc[0])
        logits = next(iter(answer["outputs"].values()))
        if np.abs(logits - formats.reference()[:rows]).max() > 0.2:
            raise NotYet("The logits are not those of the network.")
    if times[1] > times[_ROWS] / 2:
        raise NotYet(f"One picture took {times[1]:.1f} ms, eight took {times[_ROWS]:.1f} ms.")


def start(folder: Path) -> Server:
    """The model as the notebook has it, loaded."""
    (folder / "focus_openvino/1").mkdir(parents=True)
    setup.convert(folder / "focus_openvino/1/model.xml")
    setup.lone(folder, "focus_openvino")
    return laboratory(folder, only=["lone"])
