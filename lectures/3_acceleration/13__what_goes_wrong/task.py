"""The task of 13__what_goes_wrong: a deployment with three mistakes goes live."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tritonclient import grpc

import setup
from workbook import measure
from workbook.lessons import files, formats
from workbook.lessons.tasks import CannotTell, NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Triton

_CLIENTS, _TRIES, _MOST, _PICTURES = 8, 3, 2, 200


def start(folder: Path) -> Triton:
    """Start a server with the network as it should be, and launch as somebody prepared it."""
    here = Path(__file__).parent
    for each in ("03__batching/models/batched", "04__compile/models/compiled"):
        files.place(folder, here.parent / each)
    files.place(folder, here / "models/int8", here / "models/launch")
    setup.prepare(folder)
    setup.launch(folder)
    return laboratory(folder, only=["compiled"])


@define(
    "wrong.launch",
    hints=(
        "Load launch, and read the message: what does the file say, and what does the config?",
        "Then look as above: at the verdicts, and at the pictures per execution. Which line of the "
        "config of compiled does that of launch lack? With which pixels was its file calibrated?",
        "In the config, `TYPE_FP32` for the input, and `dynamic_batching { }`. In "
        "`{models}/launch/quantize.py`, bring the pixels into -1..1: `PICTURES / 127.5 - 1`. Run "
        "it, and load launch.",
    ),
)
def launch(server: Triton) -> None:
    """The model launch is loaded; at most 2 of its 200 verdicts are not those of the network, and
    it computes the pictures of eight clients in batches."""
    if not server.ready("launch"):
        raise NotYet("The model launch is not loaded.")
    changed = setup.changed(server, "launch")
    if changed > _MOST:
        raise NotYet(f"{changed} of 200 verdicts are not those of the network.")
    config = server.config("launch")
    if "dynamic_batching" not in config or config.get("max_batch_size", 0) < 2:
        raise NotYet("launch computes each request alone.")
    means = [_batch(server) for _ in range(_TRIES)]
    if max(means) == 1:
        raise CannotTell("No two of 200 requests were computed together.")


def _batch(server: Triton) -> float:
    """The mean number of pictures in an execution, with eight clients."""
    before = measure.statistics(server, "launch")
    with server.grpc_client() as client, ThreadPoolExecutor(_CLIENTS) as pool:

        def ask(number: int) -> None:
            tensor = grpc.InferInput("image", [1, 3, 64, 64], "FP32")
            tensor.set_data_from_numpy(formats.pictures()[number : number + 1])
            client.infer("launch", [tensor])

        list(pool.map(ask, range(_PICTURES)))
    return float(measure.counted(server, "launch", before, _PICTURES).iloc[0]["batch_size"])
