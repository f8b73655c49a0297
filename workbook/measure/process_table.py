"""The processes of a laptop server, and the threads, memory and CPU time of each."""

from __future__ import annotations

import contextlib
from typing import Any

import pandas as pd
import psutil

from ..common.errors import WorkbookError
from ..server import Triton

#: The name of a process in the table, by its program. start_stub only waits for a stub, so it is
#: left out.
_KINDS = {
    "triton_python_backend_stub": "stub",
    "triton_python_backend_forkserver": "fork server",
}

COLUMNS = ["pid", "process", "model", "threads", "memory_mb", "cpu_s"]


def processes(server: Triton) -> pd.DataFrame:
    """The processes of a server at this moment.

    Args:
        server: one that was started in this process, since its process id must be known.

    Returns:
        One row per process, the server's own first: `pid`; `process` (tritonserver; stub, the
        Python process of one instance; fork server, of which stubs are copies, see
        server/native/README.md); `model` (of a stub, else empty); `threads`; `memory_mb`
        (memory that it shares with no other process, in megabytes); `cpu_s` (CPU time so far, in
        seconds).

    Raises:
        WorkbookError: the server does not run.

    Example:
        with Triton("model_repository") as server:
            server.load("square")
            print(measure.processes(server).groupby("model")["memory_mb"].sum())
    """
    if server.pid is None:
        raise WorkbookError("The server does not run.", todo="Call start() first.")
    root = psutil.Process(server.pid)
    rows = [_row(root, "tritonserver", "")]
    for child in root.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            command = child.cmdline()
            program = command[0].rsplit("/", 1)[-1] if command else ""
            if program in _KINDS:
                kind = _KINDS[program]
                rows.append(_row(child, kind, _model(command) if kind == "stub" else ""))
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(process: psutil.Process, kind: str, model: str) -> tuple[Any, ...]:
    times = process.cpu_times()
    memory = process.memory_full_info().uss / 1e6
    cpu = times.user + times.system
    return process.pid, kind, model, process.num_threads(), memory, cpu


def _model(command: list[str]) -> str:
    """The model of a stub: the second-last argument of its command is the instance, NAME_0_0."""
    return command[-2].rsplit("_", 2)[0] if len(command) > 2 else ""
