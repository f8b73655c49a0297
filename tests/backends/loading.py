"""Load many models at once, and call one with many requests at once."""

from __future__ import annotations

import queue
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient
from tritonclient.utils import np_to_triton_dtype

from workbook.common.errors import LoadError
from workbook.server import Triton, all_models


def load_all(server: Triton, names: Collection[str]) -> dict[str, str]:
    """Load models side by side; returns the server's message for each by name ("" if it loaded)."""
    messages = dict.fromkeys(names, "")
    for name, error in all_models.load_all(server, names).items():
        if not isinstance(error, LoadError):  # the server is gone
            raise error
        messages[name] = error.message
    return messages


def counted(server: Triton, model: str, rows: int) -> dict[str, Any]:
    """A model's statistics, once they count `rows` rows: the server counts after it answers."""
    for _ in range(200):
        statistics = server.statistics(model)[0]
        if statistics["inference_count"] >= rows:
            break
        time.sleep(0.05)
    return statistics


def tensors(arrays: Mapping[str, Any]) -> list[grpcclient.InferInput]:
    """Arrays as a request's inputs."""
    made = []
    for name, array in arrays.items():
        one = grpcclient.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        one.set_data_from_numpy(array)
        made.append(one)
    return made


def infer(server: Triton, model: str, arrays: Mapping[str, Any], **options: Any) -> Any:
    """Send one request; returns the client's result."""
    with server.grpc_client() as client:
        return client.infer(model, tensors(arrays), **options)


def infer_together(
    server: Triton, model: str, requests: Sequence[Mapping[str, Any]], **options: Any
) -> list[Any]:
    """Send requests at once; returns the client's result or error for each, in order."""
    answers: queue.Queue[tuple[int, Any]] = queue.Queue()
    with server.grpc_client() as client:
        client.is_server_live()  # connect before, so that the requests follow each other closely
        for i, arrays in enumerate(requests):
            client.async_infer(
                model,
                tensors(arrays),
                callback=lambda result, error, i=i: answers.put((i, error or result)),
                **options,
            )
        found = dict(answers.get(timeout=60) for _ in requests)
    return [found[i] for i in range(len(requests))]


class Counts:
    """How many inferences a model answers, in how many executions, from now on.

    The server counts a request a moment after it has answered, and an execution after that. So
    counts are read until they stay the same for a moment.
    """

    def __init__(self, server: Triton, model: str) -> None:
        self._server, self._model = server, model
        self._before = self._settled()

    def since(self, inferences: int) -> tuple[int, int]:
        """Both counts, once this number of inferences is counted."""
        deadline = time.monotonic() + 5
        while self._read()[0] - self._before[0] < inferences and time.monotonic() < deadline:
            time.sleep(0.02)
        now = self._settled()
        return now[0] - self._before[0], now[1] - self._before[1]

    def _settled(self) -> tuple[int, int]:
        counts = self._read()
        while True:
            time.sleep(0.1)
            before, counts = counts, self._read()
            if counts == before:
                return counts

    def _read(self) -> tuple[int, int]:
        record = self._server.statistics(self._model)[0]
        return int(record["inference_count"]), int(record["execution_count"])


def text(*words: str) -> np.ndarray[Any, Any]:
    """A BYTES array."""
    return np.array([w.encode() for w in words], dtype=np.object_)
