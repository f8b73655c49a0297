"""The task of 05__dynamic_batcher: a batcher that makes lone requests wait."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import setup
from workbook import measure, zoo
from workbook.lessons.shared import digits_model
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_LONE_MS = 200  # the task's first config makes a lone request wait for 400
_PICTURES = 32


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
    times = []
    for picture in pictures[:3]:
        began = time.perf_counter()
        digits_model.answers(server, "crowded", picture[None])
        times.append((time.perf_counter() - began) * 1000)
    alone = min(times)  # a delay shows in each of them, another program's load does not
    if alone > _LONE_MS:
        raise NotYet(f"A lone picture took {alone:.0f} ms.")
    found = digits_model.answers(server, "crowded", pictures)
    if np.mean(found.argmax(1) == labels) < 0.9:
        raise NotYet("The answers are not the right digits any more.")
    load = measure.perf(
        server, "crowded", concurrency=_PICTURES, interval_ms=300, stability=1e6, trials=3
    ).iloc[0]
    batch = load["inferences"] / load["executions"]
    if batch < 2:
        raise NotYet(
            f"{_PICTURES} requests were under way, and {batch:.1f} pictures per execution."
        )


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it."""
    setup.crowded(folder)
    return laboratory(folder)
