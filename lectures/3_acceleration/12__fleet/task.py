"""The task of 12__fleet: the proxy asks each server for what matters."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from tritonclient import http
from tritonclient.utils import InferenceServerException

import setup
from workbook.lessons.tasks import NotYet, define
from workbook.server import Server

_REQUESTS = 40  # of 40 requests, a server among three gets none once in ten million times
_NOTICED_S = 2.0  # four times the interval of the proxy's checks


def start(folder: Path) -> Server:
    """The fleet as after the notebook: a model is refused everywhere, one server lacks `draw`."""
    first = setup.start(folder)
    setup.reload(folder / "Caddyfile")
    setup.spoil(first)
    return first


@define(
    "fleet.healthy",
    hints=(
        "Ask each server what the proxy asks it: `curl -i $TRITON_1/v2/health/ready`. Why does it "
        "say so, although `draw` answers there?",
        "What must be ready for a request for `draw`: a server, or a model?",
        "A model has a path of its own for that: it was among the three that the notebook asked "
        "while a server was loading. Write it behind `health_uri`, and let the proxy read the file "
        "again.",
    ),
)
def healthy(server: setup.First) -> None:
    """Requests for `draw` are answered by the servers that have it, and by no other."""
    third = server.fleet[-1]
    third.unload("draw")
    time.sleep(_NOTICED_S)
    shares, failed = _shares(server)
    if failed:
        raise NotYet(
            f"Of {_REQUESTS} requests {failed} failed, while the third server had no draw."
        )
    if not min(shares[:-1]):
        raise NotYet(
            f"The servers answered {shares} of {_REQUESTS} requests: one with draw got none."
        )
    third.load("draw")
    try:
        time.sleep(_NOTICED_S)
        shares, failed = _shares(server)
    finally:
        third.unload("draw")
    if failed or not shares[-1]:
        raise NotYet(
            f"When the third server has draw again, it gets {shares[-1]} of {_REQUESTS} requests, "
            f"and {failed} fail."
        )


def _shares(server: setup.First) -> tuple[list[int], int]:
    """How many requests each server has answered, and how many failed at the client."""
    before, failed = _answered(server), 0
    client = http.InferenceServerClient(os.environ["TRITON_PROXY"])
    tensor = http.InferInput("seconds", [1], "FP32")
    tensor.set_data_from_numpy(np.full(1, 0.001, np.float32))
    for _ in range(_REQUESTS):
        try:
            client.infer("draw", [tensor])
        except InferenceServerException:
            failed += 1
    time.sleep(0.2)  # the server counts a request a moment after it has answered it
    after = _answered(server)
    return [late - early for late, early in zip(after, before, strict=True)], failed


def _answered(server: setup.First) -> list[int]:
    return [
        sum(
            int(version["inference_stats"]["success"]["count"])
            for version in (each.statistics("draw") if each.ready("draw") else [])
        )
        for each in server.fleet
    ]
