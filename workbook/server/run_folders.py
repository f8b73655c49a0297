"""The run folders of this checkout's servers: find the checkout's own server, remove old folders.

Each running server has a run folder, `.workbook/run/<token>-…/`. It contains the guard's orders,
the server's log, and two files that show whether the server still runs:

- `lock`: the guard holds this lock until it ends. The kernel releases the lock even if the guard is
  killed.
- `pid`: the server's process id. The guard removes this file as soon as the server has ended.

The server of a lecture may be paused: it has ended, and its guard waits to start it again. The file
`paused` is then there, and `pid` is not. `release` is there while another lecture asks for a pause.

If the lock is free, the guard and its server have ended. The folder and the server's shared memory
are then removed.

If the checkout's own server ends by itself, its guard keeps its log as `.workbook/last-server.log`.

The checkout's own server is the one that `workbook serve` or `make lab` has started.
`.workbook/server.json` names its run folder. `workbook status` and `workbook stop` use this server.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from ..common import locks, paths
from . import ports
from .guard import RELEASE

LOCK, ORDERS, PIDFILE, LOG = "lock", "orders.json", "pid", "triton.log"
LOADED = "loaded"  # the loads and unloads of a server that its guard starts again
LOADING = "loading"  # its loads after that (restart.py)


@dataclasses.dataclass(frozen=True)
class Record:
    """The checkout's own server: where it answers and what it serves.

        record = run_folders.current()
        print("none" if record is None else record.url)

    Attributes:
        url, grpc, metrics: its addresses.
        repository: the model repository's path.
        control: the model control mode.
        run: its run folder.
        pid, guard: process numbers of the server, when it was first started, and of its guard.
        started: seconds since the epoch.
    """

    url: str
    grpc: str
    metrics: str
    repository: str
    control: Literal["explicit", "poll", "none"] | None
    run: str
    pid: int
    guard: int
    started: float

    @property
    def log(self) -> Path:
        """The server's log."""
        return Path(self.run) / LOG

    def process(self) -> int:
        """The server's process number now: its guard may have started it again."""
        try:
            return int((Path(self.run) / PIDFILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return self.pid

    def is_listening(self) -> bool:
        """Whether this server's own process still listens at its address."""
        port = urlsplit(self.url).port
        return port is not None and ports.listens(self.process(), [port])

    def save(self) -> None:
        """Record this server as the checkout's own."""
        file = _record_file()
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        temporary.replace(file)


def new(token: str) -> tuple[Path, int]:
    """Make a run folder; returns it and its lock, a locked file descriptor for the guard."""
    prune()
    folder = Path(tempfile.mkdtemp(prefix=f".{token}-", dir=_home()))
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    locks.lock(lock)
    named = folder.with_name(folder.name[1:])  # prune() skips new folders that begin with a dot
    folder.rename(named)
    return named, lock


def current() -> Record | None:
    """The checkout's own server; None if there is none, or if it has ended."""
    try:
        record = Record(**json.loads(_record_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    run = Path(record.run)
    if _is_guarded(run):
        # Without the file the server has ended, and its guard is removing what it left.
        return record if (run / PIDFILE).is_file() else None
    # The stale record stays until the next start replaces it. Removing it here could remove the
    # record of a server that has been started meanwhile.
    prune()
    return None


def end(record: Record, timeout: float = 30.0) -> None:
    """End a recorded server: signal its guard, and kill both after `timeout` seconds.

    If the server has ended already, nothing is done. If another server has been recorded since,
    that record is kept.
    """
    run = Path(record.run)
    if _is_guarded(run):
        _signal(record.guard, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while _is_guarded(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    if _is_guarded(run):
        _signal(record.guard, signal.SIGKILL)
        _signal(record.process(), signal.SIGKILL)
    with contextlib.suppress(OSError, ValueError, KeyError):
        if json.loads(_record_file().read_text(encoding="utf-8"))["run"] == record.run:
            _record_file().unlink()
    prune()


def last_log() -> Path:
    """Where a guard keeps the log of the checkout's own server, if it ended by itself."""
    return paths.state() / "last-server.log"


def log_of_ended() -> Path | None:
    """The log of the checkout's own server, if that has ended by itself; else None."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        started = json.loads(_record_file().read_text(encoding="utf-8"))["started"]
        if last_log().stat().st_mtime >= started:
            return last_log()
    return None


def orders_of(log: Path | None) -> dict[str, Any] | None:
    """The orders of a server's guard, found by the server's log; None if it will not restart it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found = json.loads((log.parent / ORDERS).read_text(encoding="utf-8"))  # type: ignore[union-attr]
        return found if found["loaded"] else None
    return None


def orders() -> list[dict[str, Any]]:
    """The guards' orders of all running servers of this checkout: `argv`, `env`, `cwd`, …"""
    found = []
    for run in _home().iterdir():
        if _is_guarded(run):
            with contextlib.suppress(OSError, ValueError):
                found.append(json.loads((run / ORDERS).read_text(encoding="utf-8")))
    return found


def release_others(lecture: Mapping[str, Any]) -> None:
    """Ask the guards of other lectures to pause their servers (guard.py).

    Other lectures are the notebooks in other kernels of the same JupyterLab.

    Args:
        lecture: the lecture that needs its server now, as in the orders of its guard.
    """
    for each in orders():
        other = each.get("lecture")
        if other and other["parent"] == lecture["parent"] and other["kernel"] != lecture["kernel"]:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                (Path(each["log"]).parent / RELEASE).touch()


def prune() -> None:
    """Remove the run folders and shared memory of servers that were killed with their guards."""
    for run in _home().iterdir():
        try:
            if run.name.startswith(".") and time.time() - run.stat().st_mtime < 60:
                continue  # `new` is still making it
        except FileNotFoundError:  # `new` has renamed it since the listing
            continue
        if _is_guarded(run):
            continue
        with contextlib.suppress(OSError, ValueError, KeyError):
            orders = json.loads((run / ORDERS).read_text(encoding="utf-8"))
            for path in Path("/dev/shm").glob(f"{glob.escape(orders['shm_prefix'])}*"):
                path.unlink(missing_ok=True)
        shutil.rmtree(run, ignore_errors=True)


def _is_guarded(run: Path) -> bool:
    """Whether a guard holds the run's lock."""
    return is_locked(run / LOCK)


def is_locked(file: Path) -> bool:
    """Whether a process holds a lock on a file.

    This function tries to get a shared lock for itself. If it tried an exclusive lock, two
    processes that call it at the same time would each take the other's lock for the lock of a
    third process.
    """
    try:
        lock = os.open(file, os.O_RDWR)
    except OSError:
        return False
    try:
        locks.lock(lock, shared=True, wait=False)
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
