"""The processes behind a laptop server, and what each takes from the machine."""

from __future__ import annotations

import contextlib
from typing import Any

import pandas as pd
import psutil

from ..common.errors import WorkbookError
from ..server import Triton

COLUMNS = ["pid", "process", "model", "threads", "memory_mb", "cpu_s"]


def processes(server: Triton) -> pd.DataFrame:
    """What runs for a server at this moment.

    Args:
        server: one that was started in this process, since its process number must be known.

    Returns:
        One row a process, the server's own first: `pid`; `process` (tritonserver, or stub, the
        Python process of one instance); `model` (empty for the server); `threads`; `memory_mb`
        (what is its own and shared with nobody, in megabytes); `cpu_s` (seconds of CPU so far).

    Raises:
        WorkbookError: the server does not run.
    """
    if server.pid is None:
        raise WorkbookError("The server does not run.", todo="Call start() first.")
    root = psutil.Process(server.pid)
    rows = [_row(root, "tritonserver", "")]
    for child in root.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words = child.cmdline()
            if words and words[0].endswith("triton_python_backend_stub"):
                rows.append(_row(child, "stub", _model(words)))
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(process: psutil.Process, kind: str, model: str) -> tuple[Any, ...]:
    times = process.cpu_times()
    memory = process.memory_full_info().uss / 1e6
    cpu = times.user + times.system
    return process.pid, kind, model, process.num_threads(), memory, cpu


def _model(words: list[str]) -> str:
    """The model of a stub: the last word but one of its command line is NAME_0_0, an instance."""
    return words[-2].rsplit("_", 2)[0] if len(words) > 2 else ""
