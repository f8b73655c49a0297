"""The data that `workbook status` shows: the server, its models, and the servers of lectures."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any, Literal

import psutil

from ..common.errors import ServerError
from . import (
    all_models,
    model_processes,
    ports,
    restart_progress,
    run_folders,
    server_log,
    which_repository,
)
from .connection import Server
from .find_server import connect
from .guard import PAUSED


@dataclasses.dataclass(frozen=True)
class Status:
    """A server that answers.

    Attributes:
        server: the one that `connect()` finds.
        record: its record, where it is this checkout's own; else None.
        models: the models of its repository.
    """

    server: Server
    record: run_folders.Record | None
    models: list[all_models.ModelStatus]

    def sentences(self) -> list[str]:
        """What has happened to the checkout's own server and to the processes of its models."""
        if self.record is None:
            return []
        progress = restart_progress.progress(self.server)
        return [
            *server_log.sentences(self.server.log_text()),
            *([] if progress is None else [progress.models()]),
            *model_processes.sentences(self.server),
        ]


@dataclasses.dataclass(frozen=True)
class LectureServer:
    """A server that a notebook of this checkout has started (`workbook.lessons.laboratory`).

    Attributes:
        notebook: the notebook's name.
        state: `paused` if it has ended and is started again when a cell of its notebook runs.
        memory_mib: of its processes; memory that they share counts once.
        ports: by endpoint: `http`, `grpc`, `metrics`.
    """

    notebook: str
    state: Literal["running", "paused"]
    memory_mib: int
    ports: dict[str, int]


def lectures() -> list[LectureServer]:
    """The servers of this checkout's notebooks, sorted by the notebooks' names."""
    found = []
    for orders in run_folders.orders():
        if not (lecture := orders.get("lecture")):
            continue
        run = Path(orders["log"]).parent
        paused = (run / PAUSED).exists() and not (run / run_folders.PIDFILE).exists()
        found.append(
            LectureServer(
                notebook=lecture["notebook"],
                state="paused" if paused else "running",
                memory_mib=_memory(run) >> 20,
                ports={endpoint.lower(): port for endpoint, port in orders["ports"].items()},
            )
        )
    return sorted(found, key=lambda server: server.notebook)


def _memory(run: Path) -> int:
    """Bytes of memory that a server and its models' processes use; 0 if it does not run."""
    total = 0
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        server = psutil.Process(int((run / run_folders.PIDFILE).read_text(encoding="utf-8")))
        for process in [server, *server.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += process.memory_full_info().pss
    return total


def read() -> Status:
    """The status of the server that `connect()` finds.

    Raises:
        ServerError: there is none, or it does not answer.
    """
    return _of(connect())


def as_json() -> dict[str, Any]:
    """The status for scripts, as JSON values; if no server answers, `running` is False."""
    server = None
    try:
        server = connect()
        status = _of(server)
    except ServerError:
        progress = None if server is None else restart_progress.progress(server)
        more = {} if progress is None else {"restart": dataclasses.asdict(progress)}
        own = [dataclasses.asdict(each) for each in lectures()]
        return {"version": 1, "running": False, "lectures": own, **more}
    record = status.record
    repository = which_repository.repository(server)
    progress = restart_progress.progress(server) if record else None
    older = model_processes.older(server, server.index()) if record else []
    return {
        "version": 1,
        "running": True,
        "url": server.url,
        "grpc": server.grpc_url,
        "metrics": server.metrics_url,
        "ports": {
            "http": ports.of(server.url),
            "grpc": ports.of(server.grpc_url),
            "metrics": ports.of(server.metrics_url),
        },
        "pid": record.process() if record else None,
        "repository": str(repository) if repository else None,
        "control": server.control,
        "log": str(record.log) if record else None,
        "ended": server_log.sentences(server.log_text()) if record else [],
        "restart": None if progress is None else dataclasses.asdict(progress),
        "older_copies": [dataclasses.asdict(process) for process in older],
        "models": [dataclasses.asdict(model) for model in status.models],
        "lectures": [dataclasses.asdict(each) for each in lectures()],
    }


def _of(server: Server) -> Status:
    models = all_models.status(server)
    record = run_folders.current()
    return Status(server, record if record and record.url == server.url else None, models)
