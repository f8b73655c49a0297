"""For 01__point_a: the network's file, how much a p99 varies, premises, three mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook.lessons import formats
from workbook.lessons import mistakes as made
from workbook.lessons.premises import Premise, steady
from workbook.server import Triton

Latencies = npt.NDArray[np.float64]

_WARM_UP = """
model_warmup {
  name: "one picture"
  batch_size: 1
  inputs {
    key: "image"
    value: { data_type: TYPE_FP32 dims: [ 3, 224, 224 ] random_data: true }
  }
}
"""


def prepare(models: Path) -> None:
    """Write the network as TorchScript beside the model's program, and one picture."""
    formats.save_torchscript(models / "single/1/model.pt")
    np.save(models / "picture.npy", formats.pictures()[:1])


def p99_spread(found: Latencies, size: int) -> float:
    """The largest p99 of `size` latencies in a row over the smallest."""
    each = np.percentile(found.reshape(-1, size), 99, axis=1)
    return float(each.max() / each.min())


def alike(throughputs: Latencies) -> Premise:
    """Premise: with two, four and eight clients the instance was as fast."""
    return steady([float(each) for each in throughputs], 2)


def undisturbed(reports: pd.DataFrame) -> Premise:
    """Premise: at the lowest rate, where requests hardly wait, p99 is near p50."""
    times = reports["p99_ms"].iloc[0] / reports["p50_ms"].iloc[0]
    return Premise(
        times < 8,
        f"p99 was {times:.0f} times p50 even at the lowest rate, so other programs used the cores",
    )


def often(found: Latencies) -> Premise:
    """Premise: the blocking client's requests took about the 5 ms of the model."""
    usual = float(np.median(found))
    return Premise(
        usual < 10, f"half of the requests took more than {usual:.0f} ms, the model takes 5 ms"
    )


def mistakes(server: Triton) -> made.Results:
    """Provoke mistakes of a first deployment: two of a warm-up, and a GPU that is not there."""
    eight = _WARM_UP.replace("224, 224", "64, 64").replace("batch_size: 1", "batch_size: 8")
    return made.provoke(
        server,
        "single",
        {
            "a warm-up of another shape": made.append(
                _WARM_UP, "model_warmup with dims: [ 3, 224, 224 ]"
            ),
            "a warm-up of eight pictures": made.append(eight, "model_warmup with batch_size: 8"),
            "an instance on a GPU": made.config("KIND_CPU", "KIND_GPU"),
        },
    )
