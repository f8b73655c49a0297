"""Every running server has a folder of its own; this finds them, and clears away the dead.

A run's folder (`.workbook/run/<token>-…/`) holds the guard's orders, the server's log and process
number, and a lock that the guard holds for as long as it lives. A folder whose lock is free
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

from ..common import paths
from .connection import Control, Server

LOCK, ORDERS, PIDFILE, LOG = "lock", "orders.json", "pid", "triton.log"


@dataclasses.dataclass(frozen=True)
class Record:
    """The checkout's own server: where it answers and what it serves.

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
        """A handle on it."""
        return Server(
            self.url,
            grpc=self.grpc,
            metrics=self.metrics,
            repository=self.repository,
            control=self.control,
            log=self.log,
        )

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
    if _is_alive(Path(record.run)):
        return record
    # The stale record stays until the next start replaces it: removing it here could remove that
    # of a server that has been started meanwhile.
    prune()
    return None


def end(record: Record, timeout: float = 30.0) -> None:
    """End a remembered server: ask its guard, and insist after `timeout` seconds."""
    run = Path(record.run)
    _signal(record.guard, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while _is_alive(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    if _is_alive(run):
        _signal(record.guard, signal.SIGKILL)
        _signal(record.pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        _record_file().unlink()
    prune()


def prune() -> None:
    """Remove what servers left behind that were killed together with their guards."""
    for run in _home().iterdir():
        try:
            if run.name.startswith(".") and time.time() - run.stat().st_mtime < 60:
                continue  # being made
        except FileNotFoundError:  # made in between, and has its name now
            continue
        if _is_alive(run):
            continue
        with contextlib.suppress(OSError, ValueError, KeyError):
            orders = json.loads((run / ORDERS).read_text(encoding="utf-8"))
            for path in Path("/dev/shm").glob(f"{glob.escape(orders['shm_prefix'])}*"):
                path.unlink(missing_ok=True)
        shutil.rmtree(run, ignore_errors=True)


def _is_alive(run: Path) -> bool:
    """Whether a guard holds the run's lock."""
    try:
        lock = os.open(run / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
