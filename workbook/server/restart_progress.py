"""Find out which models a server has loaded since its guard restarted it (guard.py, restart.py)."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from ..common.errors import ServerError
from . import model_folder, run_folders, server_log
from .guard import EXPLICIT, LOAD

PATIENCE = 300.0  # seconds after which `wait` gives up
NOTICED = 1.0  # seconds until the guard has seen a server's end and has logged it


class WatchedServer(Protocol):
    """The part of `Server` that this module uses."""

    url: str
    repository: Path
    log: Path | None

    def index(self, *, ready_only: bool = False) -> list[dict[str, Any]]:
        """The repository index."""

    def log_text(self) -> str:
        """The server's log; empty if it cannot be read."""

    def live(self) -> bool:
        """Whether it answers."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a server is that is being started again.

        print(restart_progress.progress(server))

    Attributes:
        why: how it ended.
        loaded: how many of its models are ready.
        waiting: the others.
    """

    why: str
    loaded: int
    waiting: tuple[str, ...]

    def models(self) -> str:
        """A sentence that says how many of its models are loaded."""
        return f"{self.loaded} of {self.loaded + len(self.waiting)} models are loaded."

    def __str__(self) -> str:
        return f"The server has ended ({self.why}) and is being started again: {self.models()}"


def progress(server: WatchedServer) -> Progress | None:
    """The progress of a server that is being started again; None if no restart is known."""
    orders = run_folders.orders_of(server.log)
    if server.log is None or orders is None:
        return None
    log = server.log_text()
    why = server_log.started_again(log)
    live = _listens(server)
    explicit = EXPLICIT in orders["argv"]
    behind = explicit and run_folders.is_locked(Path(orders["loading"]))
    if why is None or (live and not behind):
        return None
    if explicit:
        names = models(orders)
        with contextlib.suppress(ServerError):
            ready = {m["name"] for m in server.index(ready_only=True)} if live else set()
            waiting = tuple(name for name in names if name not in ready)
            return Progress(why, len(names) - len(waiting), waiting)
        return Progress(why, 0, tuple(names))
    folders = sorted(server.repository.iterdir()) if server.repository.is_dir() else []
    names = [folder.name for folder in folders if model_folder.versions(folder)]
    loaded = server_log.loaded_models(log)
    return Progress(
        why, len(loaded & set(names)), tuple(name for name in names if name not in loaded)
    )


def progress_after_failure(server: WatchedServer) -> Progress | None:
    """As `progress`, after a request has failed: waits until the guard has noticed the end."""
    deadline = time.monotonic() + NOTICED
    while run_folders.orders_of(server.log) is not None:
        if (found := progress(server)) is not None or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
    return None


def wait(server: WatchedServer, *, report: Callable[[Progress], None]) -> None:
    """Wait until a server answers that its guard is starting again.

    Args:
        report: called once with the progress, if the server is still being started again.

    Raises:
        ServerError: the server does not answer after PATIENCE seconds, or has ended.
    """
    deadline = time.monotonic() + PATIENCE
    if (found := progress(server)) is not None:
        report(found)
    while not server.live():
        if run_folders.current() is None or time.monotonic() > deadline:
            server.index()  # the error says why
        time.sleep(0.1)


def _listens(server: WatchedServer) -> bool:
    """Whether a server listens at its HTTP port. Triton opens it when it can answer requests."""
    place = urlsplit(server.url)
    with contextlib.suppress(OSError):
        socket.create_connection((place.hostname, place.port), timeout=5.0).close()
        return True
    return False


def models(orders: Mapping[str, Any]) -> list[str]:
    """The models of a server in explicit mode, from its command line and from its later loads.

    Args:
        orders: the guard's orders. They name the file `loaded`, which has a line "+NAME" for each
            load and "-NAME" for each unload.
    """
    words = orders["argv"]
    names = dict.fromkeys(word.removeprefix(LOAD) for word in words if word.startswith(LOAD))
    return list(applied(Path(orders["loaded"]), names))


def applied(file: Path, names: dict[str, None]) -> dict[str, None]:
    """Apply the lines of a file to a set of names: "+NAME" adds a name, "-NAME" removes it."""
    with contextlib.suppress(OSError):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("+"):
                names[line[1:]] = None
            else:
                names.pop(line[1:], None)
    return names
