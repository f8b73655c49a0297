"""Find the processes of a server's Python models, and end the processes of one model.

Each instance of a Python-based model runs in a process of its own. Triton loads a changed model
beside the copy that serves, and ends the older copy when its requests have been answered. If
`execute` of the older copy never returns, its process stays, and no endpoint shows it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from ..common.errors import ServerError
from . import run_folders
from .connection import Server

#: If no process of a model has ended by itself for this many seconds, all of them are killed.
#: Triton takes 1.2 s to end one process, and ends them one after the other.
GRACE = 2.5
#: Seconds that revive.cc takes to see that a process has ended, and to end its streams.
STREAMS_END = 1.0


@dataclasses.dataclass(frozen=True)
class ModelProcess:
    """A process of a model.

    Attributes:
        model: the model's name.
        version: its version.
        instance: the instance's name, e.g. `forest_0_0`.
        pid: the process's number.
        started: seconds since the epoch.
    """

    model: str
    version: str
    instance: str
    pid: int
    started: float


def find(server: Server, model: str | None = None) -> list[ModelProcess]:
    """The processes of a server's Python models, or of one model; the oldest process is first.

    Returns:
        The processes; an empty list if this checkout has not started the server.
    """
    pid, found = _pid(server), []
    if pid is None:
        return []
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error, ValueError, IndexError):
                program, file, *rest = process.cmdline()
                # start_stub, which waits for a stub, has the same command line and another name.
                is_stub = process.name().startswith("triton_python_b")
                if is_stub and Path(program).name == "triton_python_backend_stub":
                    folder = Path(file).parent  # of a version
                    place = (folder.parent.name, folder.name, rest[-2], process.pid)
                    if model in (None, folder.parent.name):
                        found.append(ModelProcess(*place, process.create_time()))
    return sorted(found, key=lambda each: (each.started, each.pid))


def older(server: Server, index: Sequence[Mapping[str, Any]]) -> list[ModelProcess]:
    """The processes of older copies, from models that have been loaded again, or unloaded.

    Args:
        index: the server's repository index (`server.index()`).
    """
    states: dict[str, set[str]] = {}
    for entry in index:
        states.setdefault(entry["name"], set()).add(str(entry.get("state", "")))
    newest: dict[tuple[str, str, str], ModelProcess] = {}
    found = find(server)
    for process in found:
        newest[process.model, process.version, process.instance] = process
    serving = {p.pid for p in newest.values() if _is_of_config(server, p, states)}
    loading = {model for model in states if "LOADING" in states[model]}
    return [p for p in found if p.pid not in serving and p.model not in loading]


def sentences(server: Server) -> list[str]:
    """One sentence for each model that has processes of older copies left."""
    index = server.index()
    ready = {entry["name"] for entry in index if entry.get("state") == "READY"}
    left: dict[str, list[str]] = {}
    for process in older(server, index):
        left.setdefault(process.model, []).append(str(process.pid))
    return [
        (
            f"An older copy of {model} is still there: process {', '.join(pids)}. It goes when its "
            f"requests have been answered. If they never are, `kill -9 {' '.join(pids)}` ends it."
            if model in ready
            else f"{model} is unloading: process {', '.join(pids)}. It goes when its requests have "
            f"been answered. If they never are, `workbook undeploy {model} --now` ends it."
        )
        for model, pids in left.items()
    ]


def end(server: Server, model: str, timeout: float = 60.0) -> list[ModelProcess]:
    """End the processes of a model that is unloading, so that it is unloaded at once.

    A process that ends by itself is not killed: it calls `finalize`, and it must not be killed
    while Triton ends it.

    Args:
        timeout: seconds until giving up.

    Returns:
        The processes that were killed.
    """
    killed: dict[int, ModelProcess] = {}
    now = changed = time.monotonic()
    deadline, before = now + timeout, -1
    while now < deadline and (left := find(server, model)):
        if len(left) != before:
            before, changed = len(left), now
        elif now - changed > GRACE:
            for process in left:
                killed[process.pid] = process
                _kill(process.pid)
        time.sleep(0.1)
        now = time.monotonic()
    return list(killed.values())


def end_streaming(server: Server, model: str) -> list[ModelProcess]:
    """End the processes of a decoupled model before it is unloaded; returns them.

    The server then ends the streams that wait for these processes (native/revive.cc). If the model
    is unloading already, the server does not end them, and Triton would wait for ever.
    """
    found = find(server, model)
    for process in found:
        _kill(process.pid)
    if found:
        time.sleep(STREAMS_END)
    return found


def _kill(pid: int) -> None:
    """Kill a model's process, with what it has started: each has a process group of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


def _is_of_config(server: Server, process: ModelProcess, states: Mapping[str, set[str]]) -> bool:
    """Whether the server's current configuration of the model has the instance of this process."""
    if "READY" not in states.get(process.model, ()):
        return False
    try:
        config = server.config(process.model, process.version)
    except ServerError:
        return False  # this version is not served any more
    groups = config.get("instance_group", [])
    names = {f"{group['name']}_{i}" for group in groups for i in range(group.get("count", 1))}
    return process.instance in names or any(group.get("gpus") for group in groups)


def _pid(server: Server) -> int | None:
    """The server's process id, if this object or this checkout has started it; else None."""
    if server.pid is not None:
        return server.pid
    record = run_folders.current()
    return record.process() if record is not None and record.url == server.url else None
