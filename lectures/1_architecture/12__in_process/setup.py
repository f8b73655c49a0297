"""For 12__in_process: a Triton server inside the kernel, as an object.

inside = setup.start(folder)
inside.infer("digits_onnx", {"image": picture})
inside.counts("digits_onnx")                        # {"requests": 1, "executions": 1, …}
inside.stop()
"""

from __future__ import annotations

import atexit
import ctypes
import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt
import psutil

from workbook.common import paths
from workbook.common.errors import ServerError
from workbook.lessons.workspace import copy
from workbook.server.capi import NEWEST, Core

MODEL = "digits_onnx"
EXPLICIT = 2  # TRITONSERVER_MODEL_CONTROL_EXPLICIT
CLIENTS = Path(__file__).parent / "clients"

#: The servers that this process has started and not stopped.
_running: list[Inside] = []


class Inside:
    """A Triton server inside this process: the core and the pointer from ServerNew.

        inside = Inside(core, core.new("ServerNew", options))

    Args:
        core: Triton's library.
        pointer: the server.
        folder: where the task looks for the reader's file; by default, beside the notebook.

    Attributes:
        pointer: the server; None after `stop`.
    """

    def __init__(self, core: Core, pointer: ctypes.c_void_p, folder: Path = CLIENTS) -> None:
        self.core, self.folder = core, folder.resolve()
        self.pointer: ctypes.c_void_p | None = pointer
        _running.append(self)

    def infer(
        self, model: str, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """Send one request and wait for its response.

        Args:
            model: the model's name.
            inputs: arrays by name.

        Returns:
            The outputs by name.

        Raises:
            ServerError: the server refused, or has been stopped.

        Example:
            inside.infer("digits_onnx", {"image": pictures[:1]})["logits"]
        """
        return self.core.infer(self._server(), model, inputs)

    def counts(self, model: str) -> dict[str, int]:
        """Return the server's counts for a model since it was loaded, over all versions.

        Args:
            model: the model's name.

        Returns:
            `requests` that succeeded, `inferences` (rows) and `executions`.

        Raises:
            ServerError: there is no such model, or the server has been stopped.

        Example:
            inside.counts("digits_onnx")["executions"]
        """
        found: dict[str, int] = {}
        while found != (newer := self._counted(model)):  # a response is counted after it is sent
            found = newer
            time.sleep(0.02)
        return found

    def stop(self) -> None:
        """Stop the server and free it. Stopping twice does no harm."""
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            self.core("ServerStop", pointer)
            self.core("ServerDelete", pointer)
            _running.remove(self)

    def _counted(self, model: str) -> dict[str, int]:
        name, newest = model.encode(), ctypes.c_int64(NEWEST)
        answer = self.core.json("ServerModelStatistics", self._server(), name, newest)
        records = answer["model_stats"]
        return {
            "requests": sum(r["inference_stats"]["success"]["count"] for r in records),
            "inferences": sum(r["inference_count"] for r in records),
            "executions": sum(r["execution_count"] for r in records),
        }

    def _server(self) -> ctypes.c_void_p:
        if self.pointer is None:
            raise ServerError("This server was stopped.", todo="Run the cell that starts it.")
        return self.pointer


def place_model(models: Path) -> None:
    """Put digits_onnx into a repository, from which both servers read it."""
    copy(models, MODEL, MODEL, {})


def stop_all() -> None:
    """Stop the servers that this process has started inside itself; also called when it ends.

    Example:
        setup.stop_all()       # at the beginning of a cell that starts one
    """
    for inside in list(_running):
        inside.stop()


atexit.register(stop_all)


def look() -> tuple[set[int], Counter[str]]:
    """Return the ports at which this process listens, and the names of its child processes.

    Example:
        before = setup.look()
    """
    this = psutil.Process()
    ports = {c.laddr.port for c in this.net_connections() if c.status == psutil.CONN_LISTEN}
    return ports, Counter(child.name() for child in this.children(recursive=True))


def new_since(before: tuple[set[int], Counter[str]]) -> tuple[list[int], list[str]]:
    """Return the ports and the processes of this process that are new.

    Args:
        before: what `look` returned earlier.

    Example:
        ports, processes = setup.new_since(before)
    """
    ports, processes = look()
    return sorted(ports - before[0]), sorted((processes - before[1]).elements())


def start(where: Path) -> Inside:
    """Start a server inside this process, with digits_onnx from the shared repository.

    Args:
        where: the folder for its log, in which a task looks for the reader's file.

    Raises:
        ServerError: it could not start.

    Example:
        inside = setup.start(tmp_path)
    """
    core = Core()
    options = core.new("ServerOptionsNew")
    core("ServerOptionsSetModelRepositoryPath", options, os.fsencode(paths.repository()))
    core("ServerOptionsSetBackendDirectory", options, os.fsencode(core.place.backends))
    core("ServerOptionsSetModelControlMode", options, EXPLICIT)
    core("ServerOptionsSetStartupModel", options, MODEL.encode())
    core("ServerOptionsSetGpuMetrics", options, False)
    core("ServerOptionsSetLogFile", options, os.fsencode(where / "core.log"))
    with core.environment():
        pointer = core.new("ServerNew", options)
    core("ServerOptionsDelete", options)
    return Inside(core, pointer, where)
