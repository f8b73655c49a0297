"""For 08__clients: the network's file, premises, one client for the scoreboard."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

from workbook.lessons import formats, scoreboard
from workbook.lessons.premises import Premise, steady
from workbook.server import Triton


def prepare(models: Path) -> None:
    """Write the network's file, and 200 pictures."""
    formats.save_torchscript(models / "batched/1/model.pt")
    np.save(models / "pictures.npy", formats.pictures())


def repeats(per_s: pd.Series, factor: float = 1.6) -> Premise:
    """Premise: of each client's runs, which its name indexes, the two fastest agree."""
    for _, found in per_s.groupby(per_s.index):
        if not (agreed := steady(found.nlargest(2), factor)):
            return agreed
    return Premise(True, "")


def cores_free(table: pd.DataFrame) -> Premise:
    """Premise: with two instances at work, a picture took about the same time as with one."""
    took = table["ms per picture"]
    times = took["8 under way"] / took["blocking"]
    return Premise(
        times < 1.5,
        f"while both instances computed, a picture took {times:.1f} times as long, so they "
        "had less than two cores: close other programs",
    )


def one_client(under_way: int, count: int = 400) -> scoreboard.Measure:
    """A measure for the scoreboard: one program that keeps `under_way` requests under way."""

    def measured(server: Triton, model: str) -> dict[str, float]:
        from tritonclient import grpc

        pictures, free = formats.pictures(), threading.Semaphore(under_way)
        sent, took = np.zeros(count), np.zeros(count)
        with server.grpc_client() as client:

            def send(number: int) -> None:
                def keep(result: object, error: Exception | None) -> None:
                    took[number] = np.nan if error else time.perf_counter() - sent[number]
                    free.release()

                tensor = grpc.InferInput("image", [1, 3, 64, 64], "FP32")
                tensor.set_data_from_numpy(pictures[number % len(pictures)][None])
                sent[number] = time.perf_counter()
                client.async_infer(model, [tensor], keep)

            began = time.perf_counter()
            for number in range(count):
                free.acquire()
                send(number)
            for _ in range(under_way):
                free.acquire()
            seconds = time.perf_counter() - began
        p50, p99 = np.percentile(1000 * took, [50, 99])
        return {"throughput": count / seconds, "p50_ms": float(p50), "p99_ms": float(p99)}

    return measured
