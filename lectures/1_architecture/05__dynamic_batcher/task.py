"""The task of 05__dynamic_batcher: a batcher that makes lone requests wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import setup
from workbook import measure, zoo
from workbook.lessons.shared import digits_model
from workbook.lessons.tasks import CannotTell, NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_LONE_MS = 200  # the task's first config makes a lone request wait for 400
_PICTURES, _LOADS = 32, 2
_HARDLY = 1.2  # pictures per execution; without a batcher it is 1


@define(
    "batcher.crowded",
    hints=(
        "Ask one picture alone and look at its time. Which setting of the config is as long?",
        "The delay is the longest time that a request waits for others. A preferred size makes "
        "the batcher wait for that size until the delay is over.",
        "Neither is needed to form batches under load. Leave `dynamic_batching { }`, and load the "
        "model again.",
    ),
)
def crowded(server: Server) -> None:
    """The model crowded answers one lone picture within 200 ms. With 32 requests under way it
    computes at least two pictures per execution, on average."""
    split = zoo.data.digits()
    pictures, labels = split.x_test[:_PICTURES], split.y_test[:_PICTURES]
    waited = min(_queue_ms(server, picture) for picture in pictures[:3])  # a delay is in each
    if waited > _LONE_MS:
        raise NotYet(f"A lone picture waited for {waited:.0f} ms in the queue.")
    found = digits_model.answers(server, "crowded", pictures)
    if np.mean(found.argmax(1) == labels) < 0.9:
        raise NotYet("The answers are not the right digits any more.")
    batch = max(_mean_batch(server) for _ in range(_LOADS))  # a busy machine makes batches smaller
    if batch < 2:
        seen = f"{_PICTURES} requests were under way, and {batch:.1f} pictures per execution."
        raise NotYet(seen) if batch < _HARDLY else CannotTell(seen)


def _mean_batch(server: Server) -> float:
    """Return the pictures per execution while many requests are under way."""
    load = measure.perf(
        server, "crowded", concurrency=_PICTURES, interval_ms=300, stability=1e6, trials=3
    ).iloc[0]
    return float(load["inferences"] / load["executions"])


def _queue_ms(server: Server, picture: Any) -> float:
    """Return how long one picture waited, as the server counts: other programs change it little."""
    before = measure.statistics(server, "crowded")
    digits_model.answers(server, "crowded", picture[None])
    return float(measure.counted(server, "crowded", before, 1)["queue_ms"].item())


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it."""
    setup.crowded(folder)
    return laboratory(folder)
