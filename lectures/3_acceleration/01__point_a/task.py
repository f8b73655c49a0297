"""The task of 01__point_a: a warm-up, so that the first request is not the slow one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import setup
from workbook.lessons import files
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it."""
    files.place(folder, Path(__file__).parent / "models/single")
    setup.prepare(folder)
    return laboratory(folder)


@define(
    "point_a.warmup",
    hints=(
        "The field is `model_warmup`. A sample has a `name`, a `batch_size`, and `inputs`: per "
        "input its type, its dims, and data.",
        'An entry of `inputs` has a `key`, here "image", and a `value` with `data_type`, `dims` '
        "and `random_data: true`.",
        "One request is not enough for TorchScript, which optimises at its first calls: `count` "
        "says how often the sample is sent. Take 3 or more.",
    ),
)
def warmup(server: Server) -> None:
    """The model single gets at least three warm-up requests of one picture each, of the right
    shape, before it is ready."""
    samples: list[dict[str, Any]] = server.config("single").get("model_warmup", [])
    if not samples:
        raise NotYet(
            "The config that the server has names no warm-up. At each load it reads "
            "$TRITON_MODELS/single/config.pbtxt."
        )
    sent = 0
    for sample in samples:
        inputs = sample.get("inputs", {})
        if list(inputs) != ["image"]:
            raise NotYet(f"The sample {sample.get('name', '')!r} has other inputs than image.")
        if [int(size) for size in inputs["image"].get("dims", [])] != [3, 64, 64]:
            raise NotYet("The sample's picture has another shape than the model's input.")
        sent += max(1, int(sample.get("count", 0)))
    if sent < 3:
        raise NotYet(f"The model gets {sent} request{'s' * (sent > 1)} to warm up.")
