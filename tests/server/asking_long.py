"""Send many requests with one official client, and print this process's memory at six moments.

    python asking_long.py KIND URL REQUESTS     KIND: http, grpc, new (a client per request), stream

For test_client_memory.py: a process of its own, so that only the client's memory is seen.
"""

from __future__ import annotations

import gc
import json
import queue
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient import grpc, http

SAMPLES = 6
X = np.ones((1, 4096), np.float32)


def infer(of: Any, client: Any) -> None:
    """Send one request to `square`."""
    tensor = of.InferInput("INPUT", list(X.shape), "FP32")
    tensor.set_data_from_numpy(X)
    assert client.infer("square", [tensor]).as_numpy("OUTPUT")[0, -1] == 1.0


def stream(client: Any) -> None:
    """Open a stream, and send one request to `countdown`, which answers three times."""
    answers: queue.Queue[Any] = queue.Queue()
    tensor = grpc.InferInput("start", [1], "INT32")
    tensor.set_data_from_numpy(np.array([3], np.int32))
    client.start_stream(lambda result, error: answers.put(error))
    client.async_stream_infer("countdown", [tensor])
    assert [answers.get(timeout=60) for _ in range(3)] == [None] * 3
    client.stop_stream()


def private_mib() -> float:
    """This process's own memory."""
    gc.collect()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def main(kind: str, url: str, requests: int) -> None:
    """Ask, and print the samples as JSON."""
    of: Any = http if kind in ("http", "new") else grpc
    client = of.InferenceServerClient(url)
    samples = []
    for _ in range(SAMPLES):
        for _ in range(requests // SAMPLES):
            if kind == "stream":
                stream(client)
            elif kind == "new":
                with of.InferenceServerClient(url) as fresh:
                    infer(of, fresh)
            else:
                infer(of, client)
        samples.append(private_mib())
    client.close()
    print(json.dumps(samples))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
