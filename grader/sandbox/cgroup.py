"""A pids cgroup for a sandbox, if this account may make one.

With such a group the kernel limits the number of processes in a sandbox, however fast they are
made. The limit RLIMIT_NPROC is not enough: if root starts the sandbox, it does not apply, because
the processes belong to the real root in every user namespace (see setrlimit(2)). The group is made
below the caller's own group, so that the caller's limit still applies. See cgroups(7).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

_PREFIX = "workbook-sandbox-"
_V1, _V2 = Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")


class Pids:
    """One group with a limit on the number of processes and threads; `close()` removes it.

    Attributes:
        folder: the group's folder below /sys/fs/cgroup.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def inside(self) -> str:
        """The folder's path in the sandbox, which has its own cgroup namespace."""
        mount = _V1 if self.folder.is_relative_to(_V1) else _V2
        return str(mount / self.folder.name)

    def add(self, pid: int) -> None:
        """Put a process into the group; processes that it starts from now on are in it as well."""
        (self.folder / "cgroup.procs").write_text(f"{pid}\n")

    def members(self) -> list[int]:
        """The ids of the processes in this group and in the groups of nested sandboxes."""
        found: list[int] = []
        for place in (self.folder, *self.folder.glob(f"{_PREFIX}*")):
            with contextlib.suppress(OSError):  # a nested group has just been removed
                found += map(int, (place / "cgroup.procs").read_text().split())
        return found

    def refused(self) -> bool:
        """Whether the kernel has refused a process or thread because of the limit."""
        with contextlib.suppress(OSError, ValueError):
            words = (self.folder / "pids.events").read_text().split()
            return int(words[words.index("max") + 1]) > 0
        return False

    def close(self) -> None:
        """Remove the group. Its processes must have been ended; the kernel may need a moment."""
        for _ in range(200):
            try:
                for left in self.folder.glob(f"{_PREFIX}*"):  # of nested sandboxes
                    left.rmdir()
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)
            else:
                return


def pids(limit: int) -> Pids | None:
    """Make a group for at most `limit` processes and threads; None if this account may not."""
    own = _own_group()
    if own is None:
        return None
    _remove_left_over(own)
    folder = own / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        (folder / "pids.max").write_text(f"{limit}\n")
    except OSError:  # cgroup version 2, and the pids controller is off for child groups
        folder.rmdir()
        return None
    return Pids(folder)


def _own_group() -> Path | None:
    """The folder of the group that this process is in."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    rows = [line.split(":", 2) for line in lines]
    for _, controllers, path in rows:
        if "pids" in controllers.split(","):
            return _existing(_V1, path)
    for number, _, path in rows:
        if number == "0":
            return _existing(_V2, path)
    return None


def _existing(mount: Path, path: str) -> Path | None:
    folder = mount / path.lstrip("/")
    return folder if (folder / "cgroup.procs").exists() else None


def _remove_left_over(own: Path) -> None:
    """Remove the groups of supervisors that were killed, unless they still have processes."""
    for left in own.glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                for below in left.glob(f"{_PREFIX}*"):
                    below.rmdir()
                left.rmdir()
