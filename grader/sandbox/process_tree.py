"""The processes of a sandbox, their memory and their processor time, read from the machine's /proc.

The sandbox's first process is the init of its PID namespace. So every process inside remains its
descendant, also after fork and setsid, and after its parent has ended. See proc(5).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time

_TICK = os.sysconf("SC_CLK_TCK")
#: The kernel's memory for a file in a tmpfs, even an empty one: its inode and its name.
_PER_FILE = 1 << 10
#: In /proc/<pid>/status: memory, what was swapped out, and the kernel's page tables. Tables can be
#: large although no memory is: a process may map the same pages again and again.
_HELD = (b"RssAnon:", b"RssShmem:", b"VmSwap:", b"VmPTE:")
_EXACTLY_HELD = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")


@dataclasses.dataclass(frozen=True)
class Process:
    """One process.

    Attributes:
        pid, parent: process ids.
        threads: how many threads it has.
        cpu_seconds: processor time, with that of children which have ended and were waited for.
    """

    pid: int
    parent: int
    threads: int
    cpu_seconds: float


def descendants(root: int) -> list[Process]:
    """The process `root` and all its descendants; empty if it has ended."""
    children: dict[int, list[tuple[int, bytes]]] = {}
    first: list[tuple[int, bytes]] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib would take longer than the kernel
        if not name.isdecimal() or (stat := _stat(name)) is None:
            continue
        pid = int(name)
        if pid == root:
            first.append((pid, stat))
        else:
            parent = int(stat.split(b" ", 2)[1])
            children.setdefault(parent, []).append((pid, stat))
    found = first
    for pid, _ in found:  # grows while it is walked
        found.extend(children.get(pid, ()))
    return [_process(pid, stat) for pid, stat in found]


def processes(pids: list[int]) -> list[Process]:
    """The processes with these ids, without those that have ended."""
    return [_process(pid, stat) for pid in pids if (stat := _stat(str(pid))) is not None]


def memory(processes: list[Process]) -> int:
    """Bytes of memory that the processes hold, without the content of files, as an upper bound.

    A page that several processes share counts once for each of them. The page tables count, too.
    """
    return sum(_resident(p.pid) for p in processes)


def exact_memory(processes: list[Process], seconds: float) -> int:
    """The exact number of bytes that the processes hold: a shared page counts once.

    The kernel walks page tables for this. That takes milliseconds per process, and far longer while
    very many processes are being started. After `seconds` the remaining processes are counted as in
    `memory`.
    """
    deadline = time.monotonic() + seconds
    return sum(
        _exact(p.pid) if time.monotonic() < deadline else _resident(p.pid) for p in processes
    )


def tmpfs(root: int, places: tuple[str, ...]) -> int:
    """Bytes in use in tmpfs mounts, seen through the root folder of process `root`."""
    total = 0
    for place in places:
        with contextlib.suppress(OSError):
            status = os.statvfs(f"/proc/{root}/root{place}")
            total += (status.f_blocks - status.f_bfree) * status.f_frsize
            total += (status.f_files - status.f_ffree) * _PER_FILE
    return total


def open_files(processes: list[Process]) -> int:
    """How many file descriptors the processes have open together."""
    return sum(_descriptors(p.pid) for p in processes)


def _read(pid: int | str, name: str) -> bytes:
    """A file of a process, with one system call each to open, read and close.

    The supervisor reads hundreds of such files every 0.1 s, on the same cores as the notebook.
    """
    file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
    try:
        return os.read(file, 1 << 16)
    finally:
        os.close(file)


def _stat(pid: str) -> bytes | None:
    """The content of /proc/<pid>/stat after the program's name; None if the process has ended.

    The name is in brackets, and may contain brackets itself. So the last bracket is its end.
    """
    try:
        stat = _read(pid, "stat")
    except OSError:
        return None
    return stat[stat.rindex(b")") + 2 :]


def _process(pid: int, stat: bytes) -> Process:
    words = stat.split()
    spent = sum(map(int, words[11:15]))
    return Process(pid, int(words[1]), int(words[17]), spent / _TICK)


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        return _kilobytes(_read(pid, "status"), _HELD)
    return 0


def _exact(pid: int) -> int:
    try:
        held = _kilobytes(_read(pid, "smaps_rollup"), _EXACTLY_HELD)
        return held + _kilobytes(_read(pid, "status"), (b"VmPTE:",))
    except OSError:  # a zombie, or a process that this account may not read
        return _resident(pid)


def _descriptors(pid: int) -> int:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        # Since Linux 6.2 the folder's size is the number of its entries.
        return os.stat(folder).st_size or len(os.listdir(folder))  # noqa: PTH116, PTH208 - faster
    return 0


def _kilobytes(table: bytes, fields: tuple[bytes, ...]) -> int:
    lines = (line.split() for line in table.splitlines() if line.startswith(fields))
    return sum(int(words[1]) for words in lines) << 10
