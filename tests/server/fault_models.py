"""A model for tests of faults, requests to it, and what a server holds; for test_faults*.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import psutil
from tritonclient import grpc, http

from workbook.server import Server, Triton

CONFIG = """
backend: "python"
input [{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ -1 ] }]
"""
#: Doubles x; after -x[0] seconds where x[0] < 0.
MODEL = """
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            time.sleep(max(0.0, -float(x[0])))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", x * 2)]))
        return responses
"""
KINDS = ("http", "grpc")


def write(repository: Path, *names: str) -> Path:
    """Write the model under these names; returns the last one's folder."""
    for name in names:
        folder = repository / name
        (folder / "1").mkdir(parents=True)
        (folder / "config.pbtxt").write_text(CONFIG)
        (folder / "1" / "model.py").write_text(MODEL)
    return folder


def ask(server: Server, model: str, values: Any, kind: str = "http") -> bool:
    """Whether the model's answer to some numbers is twice these numbers.

    Raises:
        InferenceServerException: the server answered with an error, or not at all.
    """
    of: Any = grpc if kind == "grpc" else http
    options = {} if kind == "grpc" else {"network_timeout": 200.0, "connection_timeout": 200.0}
    x = np.asarray(values, np.float32)
    tensor = of.InferInput("x", [len(x)], "FP32")
    tensor.set_data_from_numpy(x)
    with getattr(server, f"{kind}_client")(**options) as client:
        return bool(np.array_equal(client.infer(model, [tensor]).as_numpy("y"), 2 * x))


class Asking:
    """Sends requests to a model over both protocols, one after the other, while the block runs.

    Attributes:
        answered: right answers.
        failures: errors, and "wrong" for each wrong answer.
    """

    def __init__(self, server: Server, model: str) -> None:
        self.answered = 0
        self.failures: list[str] = []
        self._server, self._model = server, model
        self._stop, self._counting = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._ask, args=(kind,)) for kind in KINDS]

    def _ask(self, kind: str) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                failure = "" if ask(self._server, self._model, [number, 1], kind) else "wrong"
            except Exception as error:
                failure = f"{kind}: {error}"
            with self._counting:
                self.answered += not failure
                self.failures += [failure] if failure else []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def processes(server: Triton) -> list[psutil.Process]:
    """The server's guard, the server, and all that it has started."""
    assert server.pid is not None
    process = psutil.Process(server.pid)
    guard = process.parent()
    assert guard is not None
    return [guard, process, *process.children(recursive=True)]


def regions(server: Triton) -> dict[Path, float]:
    """The server's regions of shared memory: MiB in use."""
    assert server.pid is not None
    words = " ".join(psutil.Process(server.pid).cmdline())
    prefix = words.split("shm-region-prefix-name=")[1].split()[0]
    return {
        path: path.stat().st_blocks * 512 / 2**20 for path in Path("/dev/shm").glob(f"{prefix}*")
    }


def descriptors(server: Triton) -> int:
    """How many files and connections the server has open."""
    assert server.pid is not None
    return int(psutil.Process(server.pid).num_fds())


def until(true: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Wait until `true()` holds; fail if it does not hold within this time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.05)
