"""Measure how long a reader waits for a server without models, and for a changed model."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from workbook.common.errors import WorkbookError
from workbook.server import Triton, deploy

from . import models
from .settings import Settings
from .tables import Goal, Section


def measure(settings: Settings) -> Section:
    """Measure a start without models, and deploys of a Python model that was changed."""
    starts, deploys = [], []
    with tempfile.TemporaryDirectory(prefix="bench-start-") as scratch:
        repository, folder = Path(scratch) / "models", Path(scratch) / "folder" / "scale"
        repository.mkdir()
        for number in range(settings.rounds):
            settings.say(f"server start {number + 1}")
            began = time.perf_counter()
            with Triton(repository) as server:
                starts.append(time.perf_counter() - began)
                for change in range(2):  # before the first deploy the model was not changed
                    models.scale(folder, factor=number + 2 + change)
                    began = time.perf_counter()
                    deploy(folder, server=server)
                    took = time.perf_counter() - began
                    _check(server, number + 2 + change)
                deploys.append(took)
    ready, changed = statistics.median(starts), statistics.median(deploys)
    return Section(
        "start",
        "Start and deploy",
        f"Medians of {settings.rounds}; the slowest in brackets. Deploy: from the call until the "
        "changed model answers, checked by its answer.",
        ("", "seconds"),
        [
            ("server ready, no models", f"{ready:.2f} ({max(starts):.2f})"),
            (
                "deploy of a changed Python model (numpy only)",
                f"{changed:.2f} ({max(deploys):.2f})",
            ),
        ],
        [
            Goal("server ready after start", ready, 3.0, "s", at_most=True),
            Goal("deploy of a changed Python model", changed, 2.0, "s", at_most=True),
        ],
    )


def _check(server: Triton, factor: int) -> None:
    body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, 1]}]}
    answer = server.request("POST", "/v2/models/scale/infer", json=body)
    if answer["outputs"][0]["data"] != [factor] * 4:
        raise WorkbookError("The changed model was deployed but the former one answered.")
