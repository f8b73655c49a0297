"""The run folders of this checkout's servers: find the one that is meant, remove those left over.

Each running server has a run folder, `.workbook/run/<token>-…/`. It holds the guard's orders, the
server's log, and two signs of life: the guard holds the lock as long as it lives, and it removes
the file with the process number as soon as the server has ended. A folder whose lock is free
belongs to a server that is gone, whatever ended it: its shared memory and the folder are removed.

The checkout's own server, started by `workbook serve` or `make lab`, is the run that
`.workbook/server.json` names. It is the one that `workbook status` and `workbook stop` mean.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import glob
import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..common import paths
from . import ports
from .connection import Control, Server

LOCK, ORDERS, PIDFILE, LOG = "lock", "orders.json", "pid", "triton.log"


@dataclasses.dataclass(frozen=True)
class Record:
    """The checkout's own server: where it answers and what it serves.

        record = runs.current()
        print("none" if record is None else record.url)

    Attributes:
        url, grpc, metrics: its addresses.
        repository: the model repository's path.
        control: the model control mode.
        run: its run folder.
        pid, guard: process numbers of the server and of its guard.
        started: seconds since the epoch.
    """

    url: str
    grpc: str
    metrics: str
    repository: str
    control: Control | None
    run: str
    pid: int
    guard: int
    started: float

    @property
    def log(self) -> Path:
        """The server's log."""
        return Path(self.run) / LOG

    def server(self) -> Server:
        """A `Server` to send requests to it."""
        return Server(
            self.url,
            grpc=self.grpc,
            metrics=self.metrics,
            repository=self.repository,
            control=self.control,
            log=self.log,
        )

    def is_listening(self) -> bool:
        """Whether this server's own process still listens at its address."""
        port = urlsplit(self.url).port
        return port is not None and ports.listens(self.pid, [port])

    def save(self) -> None:
        """Remember this server as the checkout's own."""
        file = _record_file()
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        temporary.replace(file)


def new(token: str) -> tuple[Path, int]:
    """A fresh run folder and its lock, held, as an open file descriptor for the guard."""
    prune()
    folder = Path(tempfile.mkdtemp(prefix=f".{token}-", dir=_home()))
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    named = folder.with_name(folder.name[1:])  # prune() passes over names that begin with a dot
    folder.rename(named)
    return named, lock


def current() -> Record | None:
    """The checkout's own server, or None when there is none (any more)."""
    try:
        record = Record(**json.loads(_record_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    run = Path(record.run)
    if _is_guarded(run):
        # Without the file the server has ended, and its guard is removing what it left.
        return record if (run / PIDFILE).is_file() else None
    # The stale record stays until the next start replaces it: removing it here could remove that
    # of a server that has been started meanwhile.
    prune()
    return None


def end(record: Record, timeout: float = 30.0) -> None:
    """End a remembered server: ask its guard, and kill both after `timeout` seconds.

    Nothing is done to a server that is gone, nor to one that has been remembered since.
    """
    run = Path(record.run)
    if _is_guarded(run):
        _signal(record.guard, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while _is_guarded(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    if _is_guarded(run):
        _signal(record.guard, signal.SIGKILL)
        _signal(record.pid, signal.SIGKILL)
    with contextlib.suppress(OSError, ValueError, KeyError):
        if json.loads(_record_file().read_text(encoding="utf-8"))["run"] == record.run:
            _record_file().unlink()
    prune()


def orders() -> list[dict[str, Any]]:
    """What the guards of all running servers of this checkout were told: `argv`, `env`, `cwd`, …"""
    found = []
    for run in _home().iterdir():
        if _is_guarded(run):
            with contextlib.suppress(OSError, ValueError):
                found.append(json.loads((run / ORDERS).read_text(encoding="utf-8")))
    return found


def prune() -> None:
    """Remove what servers left behind that were killed together with their guards."""
    for run in _home().iterdir():
        try:
            if run.name.startswith(".") and time.time() - run.stat().st_mtime < 60:
                continue  # being made
        except FileNotFoundError:  # made in between, and has its name now
            continue
        if _is_guarded(run):
            continue
        with contextlib.suppress(OSError, ValueError, KeyError):
            orders = json.loads((run / ORDERS).read_text(encoding="utf-8"))
            for path in Path("/dev/shm").glob(f"{glob.escape(orders['shm_prefix'])}*"):
                path.unlink(missing_ok=True)
        shutil.rmtree(run, ignore_errors=True)


def _is_guarded(run: Path) -> bool:
    """Whether a guard holds the run's lock.

    The lock that is tried is a shared one: two processes that look at the same time would take
    each other for a guard if it were exclusive.
    """
    try:
        lock = os.open(run / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _home() -> Path:
    return paths.state("run")


def _record_file() -> Path:
    return paths.state() / "server.json"
