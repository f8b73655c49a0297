"""Measure how many images per second ONNX Runtime infers in one process, without any server.

    python -m benchmarks.inprocess FILE BATCH SESSIONS THREADS SECONDS

prints one number. This is a separate program, so that it runs in its own session, as the server
does (see services.running).
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

from . import models


def images_per_second(
    onnx: Path, batch: int, *, sessions: int, threads: int, seconds: float
) -> float:
    """Run `sessions` sessions side by side, each with `threads` threads, on batches of one size."""
    made = [models.session(onnx, threads) for _ in range(sessions)]
    x = models.rows(models.IMAGE, batch)
    for session in made:  # the first runs allocate
        for _ in range(5):
            session.run(None, {"x": x})
    done = [0] * sessions
    began = time.perf_counter()
    end = began + seconds

    def loop(number: int, session: Any) -> None:
        while time.perf_counter() < end:
            session.run(None, {"x": x})  # gives the interpreter's lock back while it computes
            done[number] += batch

    workers = [threading.Thread(target=loop, args=pair) for pair in enumerate(made)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - began)


if __name__ == "__main__":
    file, batch, sessions, threads, seconds = sys.argv[1:]
    print(
        images_per_second(
            Path(file),
            int(batch),
            sessions=int(sessions),
            threads=int(threads),
            seconds=float(seconds),
        )
    )
