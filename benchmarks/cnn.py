"""Measure what serving costs: a CNN through the server, and the same file in-process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tritonclient import grpc

from workbook.common.errors import WorkbookError
from workbook.measure import perf_analyzer
from workbook.server import Triton

from . import models
from .machine import CORES
from .settings import Settings
from .tables import Goal, Section

BATCH = 8
MODEL = "cnn"
#: Two requests per instance, one computed and one waiting: so no instance waits for a client.
UNDER_WAY = 2 * CORES
#: The client uses cores that the model needs. A batch of 400 kB in shared memory, named in a
#: request over HTTP, costs the client and the server half as much as in gRPC messages.
_LIGHT = ("--shared-memory", "system")


def measure(settings: Settings) -> Section:
    """Measure in rounds: in-process (both ways to use the cores), then served."""
    ways = {
        f"in-process, {CORES} sessions of 1 thread": (CORES, 1),
        f"in-process, 1 session of {CORES} threads": (1, CORES),
    }
    served = f"served, {CORES} instances of 1 thread"
    found: dict[str, list[float]] = {name: [] for name in (*ways, served)}
    latency = []
    # The same numbers as in-process. perf_analyzer's own are random bits: one of 230 numbers is
    # then so small that a processor computes with it slowly.
    images = [{"x": image} for image in models.rows(models.IMAGE, BATCH)]
    with tempfile.TemporaryDirectory(prefix="bench-cnn-") as scratch:
        onnx = models.cnn(Path(scratch))
        alone = models.batch_seconds(onnx)
        repository = Path(scratch) / "models"
        models.place(
            repository,
            MODEL,
            onnx,
            models.IMAGE,
            batch=BATCH,
            classes=2,
            instances=CORES,  # and no dynamic batching: every request is a full batch
        )
        with Triton(repository, cache=0) as server:
            server.load(MODEL)
            _check(server, onnx)
            for number in range(settings.rounds):
                for name, (sessions, threads) in ways.items():
                    settings.say(f"CNN, round {number + 1}: {name}")
                    found[name].append(_in_process(onnx, sessions, threads, settings.seconds))
                settings.say(f"CNN, round {number + 1}: {served}")
                row = perf_analyzer.perf(
                    server,
                    MODEL,
                    concurrency=UNDER_WAY,
                    batch_size=BATCH,
                    protocol="http",
                    input_data=images,
                    options=_LIGHT,
                    interval_ms=round(1000 * settings.seconds / 3),
                    stability=1000,  # three windows; the median over the rounds is what counts
                ).iloc[0]
                found[served].append(float(row["throughput"]))
                latency.append(float(row["p50_ms"]))
    medians = {name: statistics.median(values) for name, values in found.items()}
    best = max(medians[name] for name in ways)
    rows = [
        (name, f"{value:.0f}", f"{min(found[name]):.0f} to {max(found[name]):.0f}",
         f"{value / best:.2f}")
        for name, value in medians.items()
    ]  # fmt: skip
    return Section(
        "cnn",
        "A real CNN: served against in-process",
        f"Images of 3 x 64 x 64 in batches of {BATCH} that take {alone * 1000:.0f} ms on one core, "
        f"ONNX Runtime on {CORES} cores. Served: "
        f"perf_analyzer on the same cores, over HTTP with shared memory, {UNDER_WAY} requests "
        f"under way, median latency {statistics.median(latency):.0f} ms. "
        f"{settings.rounds} alternating rounds of {settings.seconds:g} s.",
        ("", "images/s (median)", "range", "of the best in-process"),
        rows,
        [Goal("served, of the best in-process", medians[served] / best, 0.95)],
    )


def _check(server: Triton, onnx: Path) -> None:
    """Check that the served answers equal those of the file, except for rounding in float32."""
    x = models.rows(models.IMAGE, BATCH)
    (expected,) = models.session(onnx, 1).run(None, {"x": x})
    client = server.grpc_client()
    given = grpc.InferInput("x", list(x.shape), "FP32")
    given.set_data_from_numpy(x)
    answer = client.infer(MODEL, [given]).as_numpy("y")
    client.close()
    # Sums of a few hundred products in another order differ by some ulps, 1e-5 of the value.
    if not np.allclose(answer, expected, rtol=1e-5, atol=1e-6):
        raise WorkbookError("The served CNN does not answer as the same file in-process.")


def _in_process(onnx: Path, sessions: int, threads: int, seconds: float) -> float:
    words = [str(onnx), str(BATCH), str(sessions), str(threads), str(seconds)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.inprocess", *words],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    if done.returncode != 0:
        raise WorkbookError(f"The in-process run failed: {done.stderr.strip()[-500:]}")
    return float(done.stdout)
