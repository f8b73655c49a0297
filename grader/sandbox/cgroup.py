"""The cgroup of a sandbox, if this account may make one: the kernel limits processes and memory.

It also shares the processor fairly there: two sandboxes get the same time, however many processes
each of them has. Otherwise 200 busy processes of one submission would take the processor time of a
submission that is graded beside it.

Only in such a group does the kernel count all memory that a sandbox causes: of its processes, of
its folders in memory, and of the kernel itself (page tables, socket buffers, pipes, locks). It also
limits the number of processes however fast they are made. limits.py says what remains without one.

A group is made below the caller's own group, so that the caller's limits still apply:

- cgroup version 1 has a tree of groups per controller. Root may make groups.
- cgroup version 2 has one tree. There, a group that has processes may not have limited groups below
  it. So this process is moved into a group of its own: by itself in the root group, else by systemd
  (systemd.py).

A sandbox in which other sandboxes are made sees its own group's folder, and makes groups in it.

See cgroups(7), and the kernel's documents cgroup-v1/memory.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from . import systemd

Controller = Literal["pids", "memory", "cpu"]

_LIMITING: tuple[Controller, ...] = ("pids", "memory")
#: The controller that shares the processor. It needs no setting: groups that lie side by side have
#: the same weight. If it is missing, the other controllers limit as usual.
_SHARING: Controller = "cpu"
_CONTROLLERS = (*_LIMITING, _SHARING)
_PREFIX = "workbook-sandbox-"
_MOUNT = Path("/sys/fs/cgroup")
#: Where a sandbox that makes others sees its own group.
_INSIDE = Path("/run/workbook-cgroup")
#: With version 2: the group that has the processes, if there are limited groups beside it.
_LEAF = "processes"


@dataclasses.dataclass(frozen=True)
class _Parents:
    """The folders in which groups are made.

    Attributes:
        folders: the folder for each controller that there is; with version 2 the same one.
        unified: whether this is version 2.
    """

    folders: Mapping[Controller, Path]
    unified: bool


class Group:
    """One sandbox's group. `close()` removes it.

    Attributes:
        folders: the group's folder for each controller that limits it; with version 2 the same one.
    """

    def __init__(self, folders: Mapping[Controller, Path], *, unified: bool, nesting: bool) -> None:
        self.folders = folders
        self._unified = unified
        self._nesting = nesting

    @property
    def limits_memory(self) -> bool:
        """Whether the kernel limits the memory of the processes in it."""
        return "memory" in self.folders

    @property
    def bound(self) -> dict[str, Path]:
        """For a sandbox that makes others: path inside → folder, to be bound writable."""
        if self._unified:
            return {str(_INSIDE / "unified"): folder for folder in self.folders.values()}
        return {str(_INSIDE / name): folder for name, folder in self.folders.items()}

    @property
    def lists_of_processes(self) -> list[str]:
        """The files to which the number of a process is written to put it into the group."""
        leaf = _LEAF if self._unified and self._nesting else ""
        return [str(folder / leaf / "cgroup.procs") for folder in set(self.folders.values())]

    def give(self, user: int) -> None:
        """Let another user make groups in this one, and move its own processes into them."""
        names = ("", "cgroup.procs", "tasks", "cgroup.subtree_control", f"{_LEAF}/cgroup.procs")
        for folder in set(self.folders.values()):
            for path in (folder / name for name in names):
                if path.exists():
                    os.chown(path, user, user)

    def add(self, pid: int) -> None:
        """Put a process into the group; processes that it starts from now on are in it as well."""
        for file in self.lists_of_processes:
            Path(file).write_text(f"{pid}\n")

    def members(self) -> list[int]:
        """The ids of the processes in this group and in the groups of nested sandboxes."""
        found: list[int] = []
        for folder in self._tree(next(iter(self.folders.values()))):
            with contextlib.suppress(OSError):  # a nested group has just been removed
                found += map(int, (folder / "cgroup.procs").read_text().split())
        return found

    def too_many_processes(self) -> bool:
        """Whether the kernel has refused a process or thread because of the limit."""
        folder = self.folders.get("pids")
        return folder is not None and _number(folder / "pids.events", "max") > 0

    def out_of_memory(self) -> bool:
        """Whether the kernel has killed a process because of the memory limit."""
        folder = self.folders.get("memory")
        if folder is None:
            return False
        if self._unified:
            return _number(folder / "memory.events", "oom_kill") > 0
        return any(_number(one / "memory.oom_control", "oom_kill") for one in self._tree(folder))

    def memory(self) -> int | None:
        """Bytes in use, without the content of files. None if memory is not limited here."""
        folder = self.folders.get("memory")
        if folder is None:
            return None
        if self._unified:
            return _number(folder / "memory.stat", "anon", "shmem", "kernel", "sock")
        of_kernel = (folder / "memory.kmem.usage_in_bytes").read_text()
        return _number(folder / "memory.stat", "total_rss", "total_shmem") + int(of_kernel)

    def close(self) -> None:
        """Remove the group. Its processes must have been ended; the kernel may need a moment."""
        for folder in set(self.folders.values()):
            for _ in range(200):
                if _remove(folder):
                    break
                time.sleep(0.01)

    def _tree(self, folder: Path) -> Iterator[Path]:
        """A folder of this group, and those of nested groups."""
        if not self._nesting:
            yield folder
            return
        for base, _, _ in os.walk(folder):
            yield Path(base)


def make(processes: int, memory_bytes: int, *, nesting: bool = False) -> Group | None:
    """Make a group. Returns None if this account may make none that limits anything.

    Args:
        processes: the most processes and threads.
        memory_bytes: the most memory.
        nesting: whether processes in the group will make groups in it.
    """
    parents = _parents()
    if parents is None:
        return None
    name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    made: dict[Controller, Path] = {}
    for controller, parent in parents.folders.items():
        _remove_left_over(parent)
        folder = parent / name
        try:
            folder.mkdir(exist_ok=parents.unified)
            _limit(folder, controller, processes, memory_bytes, unified=parents.unified)
            if parents.unified and nesting and not made:
                _prepare(folder)
        except OSError:  # this account may not, or the kernel lacks the controller
            _remove(folder)
            if parents.unified:
                return None
        else:
            made[controller] = folder
    if made.keys() <= {_SHARING}:  # nothing is limited: the supervisor has to count
        for folder in made.values():
            _remove(folder)
        return None
    return Group(made, unified=parents.unified, nesting=nesting)


def _limit(
    folder: Path, controller: Controller, processes: int, memory_bytes: int, *, unified: bool
) -> None:
    if controller == "cpu":
        return
    if controller == "pids":
        (folder / "pids.max").write_text(f"{processes}\n")
    elif unified:
        (folder / "memory.max").write_text(f"{memory_bytes}\n")
        _write_if_there(folder / "memory.swap.max", "0")
    else:
        (folder / "memory.limit_in_bytes").write_text(f"{memory_bytes}\n")
        _write_if_there(folder / "memory.memsw.limit_in_bytes", str(memory_bytes))
        # Version 1 counts the buffers of TCP and UDP apart from all else, and only with a limit.
        _write_if_there(folder / "memory.kmem.tcp.limit_in_bytes", str(memory_bytes // 4))


def _parents() -> _Parents | None:
    """Where this process may make groups; None if nowhere."""
    if _INSIDE.is_dir():  # this process is in a sandbox itself
        unified = (_INSIDE / "unified").is_dir()
        folders = {name: _INSIDE / ("unified" if unified else name) for name in _CONTROLLERS}
        return _Parents({name: path for name, path in folders.items() if path.is_dir()}, unified)
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    folders = {}
    for _, controllers, path in (line.split(":", 2) for line in lines):
        for name in _CONTROLLERS:
            if name in controllers.split(","):
                folders[name] = _MOUNT / name / path.lstrip("/")
    if folders:
        return _Parents(folders, unified=False)
    own = _own_unified()
    return None if own is None else _Parents(dict.fromkeys(_LIMITING, own), unified=True)


_lock = threading.Lock()
_moved: set[int] = set()  # processes that have asked systemd; a fork must ask for itself


def _own_unified() -> Path | None:
    """With version 2: the group below which this process may make limited groups."""
    with _lock:
        folder = _MOUNT / systemd.group().lstrip("/")
        if not (folder / "cgroup.controllers").exists():
            return None
        if folder.name == _LEAF and _limits_below(folder.parent):
            return folder.parent  # this process or its parent has been here before
        if not (folder / "cgroup.type").exists():  # the machine's root group may have processes
            return folder if _enable(folder) else None
        if os.getpid() in _moved:
            return None
        _moved.add(os.getpid())
        if not systemd.move_into_scope():
            return None
        folder = _MOUNT / systemd.group().lstrip("/")
        try:
            _prepare(folder)
        except OSError:
            return None
        return folder


def _prepare(folder: Path) -> None:
    """Let a group of version 2 have limited groups below it: its own processes go into a leaf."""
    leaf = folder / _LEAF
    leaf.mkdir()
    for pid in (folder / "cgroup.procs").read_text().split():
        (leaf / "cgroup.procs").write_text(pid)
    if not _enable(folder):
        raise OSError(f"{folder} has no limited groups")


def _enable(folder: Path) -> bool:
    for names in (_LIMITING, (_SHARING,)):  # a line that names one that is missing has no effect
        with contextlib.suppress(OSError):
            wanted = " ".join(f"+{name}" for name in names)
            (folder / "cgroup.subtree_control").write_text(wanted)
    return _limits_below(folder)


def _limits_below(folder: Path) -> bool:
    try:
        return set(_LIMITING) <= set((folder / "cgroup.subtree_control").read_text().split())
    except OSError:
        return False


def _write_if_there(file: Path, text: str) -> None:
    """Write a setting that not every kernel has."""
    if file.exists():
        with contextlib.suppress(OSError):
            file.write_text(text)


def _number(file: Path, *fields: str) -> int:
    """The sum of some fields of a file with a field and a number per line; 0 if it is gone."""
    with contextlib.suppress(OSError):
        rows = (line.split() for line in file.read_text().splitlines())
        return sum(int(row[1]) for row in rows if row[0] in fields)
    return 0


def _remove(folder: Path) -> bool:
    """Remove a group and those below it. False if the kernel has not yet let go of a process."""
    try:
        for base, names, _ in os.walk(folder, topdown=False):
            for name in names:
                Path(base, name).rmdir()
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove_left_over(parent: Path) -> None:
    """Remove the groups of supervisors that were killed, unless they still have processes."""
    for left in parent.glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", owner).exists():
            _remove(left)
