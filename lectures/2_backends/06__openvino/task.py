"""The task of 06__openvino: a lone picture that takes as long as eight."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import setup
from workbook import measure
from workbook.lessons import formats
from workbook.lessons.tasks import CannotTell, NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_ROWS, _REQUESTS = 8, 25
#: One picture may take this share of the time of eight. Part of the time is the same for any batch.
_SHARE = 2 / 3


@define(
    "openvino.lone",
    hints=(
        "What does the backend do with seven rows that nobody sent?",
        "Padding fills them up. Without it, lone pictures are refused, as long as max_batch_size "
        "is above 0.",
        "The file itself takes any batch. Write max_batch_size: 0, put the batch into dims as -1, "
        "and take the padding out. Then load it.",
    ),
)
def lone(server: Server) -> None:
    """The model lone answers one picture in less than two thirds of the time of eight in one
    request, with the network's logits."""
    for rows in (1, _ROWS):
        answer = measure.send(server, "lone", [_request(rows)]).iloc[0]
        if answer["error"]:
            raise NotYet(f"{rows} in one request: {answer['error']}")
        logits = next(iter(answer["outputs"].values()))
        if np.abs(logits - formats.reference()[:rows]).max() > 0.2:
            raise NotYet("The logits are not those of the network.")
    one, eight = (_fastest_ms(server, rows) for rows in (1, _ROWS))
    took = f"One picture took {one:.1f} ms, eight took {eight:.1f} ms"
    if int(server.config("lone")["max_batch_size"]) > 0:
        raise NotYet(f"{took}, and the backend still computes eight rows for the one.")
    if one > _SHARE * eight:
        raise CannotTell(f"The backend does not pad any more. {took}.")


def _request(rows: int) -> measure.Request:
    return measure.Request("one", inputs={"image": formats.pictures()[:rows]})


def _fastest_ms(server: Server, rows: int) -> float:
    """Return the server's compute time (ms) of the fastest request; the others were disturbed."""
    times = []
    for _ in range(_REQUESTS):
        before = measure.statistics(server, "lone")
        measure.send(server, "lone", [_request(rows)])
        change = measure.counted(server, "lone", before, 1)
        times.append(float(change["compute_infer_ms"].iloc[0]))
    return min(times)


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it."""
    (folder / "focus_openvino/1").mkdir(parents=True)
    setup.convert(folder / "focus_openvino/1/model.xml")
    setup.lone(folder, "focus_openvino")
    return laboratory(folder, only=["lone"])
