"""The task of 05__onnxruntime: a model that was exported with a batch of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import setup
from workbook import measure
from workbook.lessons import formats
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_ROWS = 8


@define(
    "onnxruntime.frozen",
    hints=(
        "Read the shapes: in the config, and in the file, as `session.get_inputs()` shows them.",
        "Both say 1. A config cannot free a dimension that the file has fixed.",
        "Export `net` into {models}/frozen/1/model.onnx once more, with dynamic_shapes or "
        "dynamic_axes; then write a max_batch_size into the config, dims without the batch, and "
        "load it.",
    ),
)
def frozen(server: Server) -> None:
    """The model frozen answers eight pictures in one request, in one execution, as the PyTorch
    network does."""
    pictures = formats.pictures()[:_ROWS]
    config = server.config("frozen")
    if int(config["max_batch_size"]) == 0 and config["input"][0]["dims"][0] not in ("-1", -1):
        raise NotYet(
            "The config that is loaded has a fixed batch: dims begin with "
            f"{config['input'][0]['dims'][0]}. Load frozen again; where that is refused, the "
            "server goes on with the config before."
        )
    before = measure.statistics(server, "frozen")
    request = measure.Request("eight", inputs={config["input"][0]["name"]: pictures})
    answer = measure.send(server, "frozen", [request]).iloc[0]
    if answer["error"]:
        raise NotYet(f"Eight pictures in one request: {answer['error']}")
    logits = next(iter(answer["outputs"].values()))
    expected = formats.reference()[:_ROWS]
    if logits.shape != expected.shape or np.abs(logits - expected).max() > 1e-3:
        raise NotYet("The logits are not those of the PyTorch network.")
    change = measure.counted(server, "frozen", before, 1)
    if int(change["executions"].sum()) != 1:
        raise NotYet("It took more than one execution.")


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it."""
    setup.frozen(folder)
    return laboratory(folder)
