"""For 03__batching: two networks behind one program, a forecast, premises, mistakes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbook import measure
from workbook.common.errors import Refusal
from workbook.lessons import formats, simulator
from workbook.lessons import mistakes as made
from workbook.lessons.premises import Premise
from workbook.server import Triton
from workbook.server.explain import explain

#: The hidden numbers of the fully connected network.
_WIDTH = 1024


def prepare(models: Path) -> None:
    """Write the focus network's file for `pair` and `batched`, and the model `dense`.

    `dense` has the program and the config of `batched`, with one instance, and another network.
    """
    import torch

    formats.save_torchscript(*(models / name / "1/model.pt" for name in ("pair", "batched")))
    shutil.copytree(models / "batched", models / "dense", dirs_exist_ok=True)
    torch.jit.script(dense()).save(str(models / "dense/1/model.pt"))
    file = models / "dense/config.pbtxt"
    text = file.read_text("utf-8").partition("\n")[2]
    file.write_text(text.replace("count: 2", "count: 1"), "utf-8")


def dense() -> Any:
    """A fully connected network with random weights, always the same: 3 × 64 × 64 → 2 numbers."""
    import torch

    torch.manual_seed(3)
    layers = (
        torch.nn.Flatten(),
        torch.nn.Linear(3 * 64 * 64, _WIDTH),
        torch.nn.ReLU(),
        torch.nn.Linear(_WIDTH, 2),
    )
    return torch.nn.Sequential(*layers).eval()


def changed(server: Triton) -> int:
    """How many verdicts of `batched` on the 200 pictures are not those of the network."""
    return formats.changed(formats.served_logits(server, "batched"))


def forecast(ms: Mapping[int, float], rates: list[int], seconds: float = 4) -> list[float]:
    """What the simulator says: the mean number of pictures per execution at each request rate.

    Args:
        ms: how long an execution takes, by its pictures; between them, it grows evenly.
        rates: requests per second, which come at random times.
        seconds: how long they come.
    """
    model = simulator.Model(max_batch_size=16, batching=simulator.DynamicBatching())
    sizes, times = sorted(ms), [ms[size] for size in sorted(ms)]
    found = []
    for rate in rates:
        random = np.random.default_rng(rate)
        at = np.cumsum(random.exponential(1000 / rate, round(rate * seconds)))
        plan = [measure.Request(f"r{number}", float(time)) for number, time in enumerate(at)]
        result = simulator.simulate(
            model, plan, duration_ms=lambda rows: float(np.interp(rows, sizes, times))
        )
        found.append(float(result.executions["size"].mean()))
    return found


def grows(ms: pd.DataFrame) -> Premise:
    """Premise: for each network (columns), an execution of more pictures (rows) took longer."""
    fell = ms.diff().iloc[1:].min().min()
    return Premise(
        fell > 0, "an execution of more pictures took less time, so other programs used the cores"
    )


def batches(sizes: pd.Series) -> Premise:
    """Premise: both models behind a batcher got batches of about the same size."""
    least, most = sizes.min(), sizes.max()
    return Premise(
        least > 2 and most < 3 * least,
        f"the batches had {least:.1f} pictures in one model and {most:.1f} in the other",
    )


def mistakes(server: Triton) -> made.Results:
    """Provoke three mistakes of batching: two in a config, one in a request."""
    results = made.provoke(
        server,
        "batched",
        {
            "a preferred size above the largest": made.config(
                "dynamic_batching { }", "dynamic_batching { preferred_batch_size: [ 32 ] }"
            ),
            "priorities without a default": made.config(
                "dynamic_batching { }", "dynamic_batching { priority_levels: 2 }"
            ),
        },
    )
    name = "a request above max_batch_size"
    refused = _refusal(server, "batched", rows=17)
    return results.plus(name, "17 pictures in one request", refused)


def _refusal(server: Triton, model: str, rows: int) -> Refusal | None:
    """The server's refusal of a request with this many pictures; None if it answers."""
    from tritonclient import grpc
    from tritonclient.utils import InferenceServerException

    pictures = np.zeros((rows, 3, 64, 64), np.float32)
    tensor = grpc.InferInput("image", pictures.shape, "FP32").set_data_from_numpy(pictures)
    try:
        with server.grpc_client() as client:
            client.infer(model, [tensor])
    except InferenceServerException as error:
        found = explain(error, server, model)
        return found if isinstance(found, Refusal) else None
    return None
