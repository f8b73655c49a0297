"""The machine under test: which cores are used, what it is, and how much memory a process holds."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

#: The number of cores that servers and clients of a benchmark use together, on every machine. So
#: the figures of a laptop with sixteen cores can be compared with those of a small cloud machine.
CORES = 2
#: If other programs took more than this share of the cores, no figure is called reached or missed:
#: Linux then gives a server of several processes another share than a single process.
CROWDED = 0.05


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """Keep this process, and all that it starts in the block, on the first `CORES` of its cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:CORES])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Crowd:
    """How much of the cores in use other programs took since this was made.

    A benchmark on a crowded machine says little, so its table shows this share. The kernel's time
    in interrupts is left out: Linux counts it for no process, and under load over HTTP the
    benchmark's own packets cause it (5 to 7 % of the cores).
    """

    def __init__(self) -> None:
        self._cores = os.sched_getaffinity(0)
        self._began = time.monotonic()
        self._busy = self._busy_seconds()
        self._own = _own_seconds()

    def share(self) -> float:
        """Their share, 0 to 1. Call it when the processes that this one started have ended."""
        passed = (time.monotonic() - self._began) * len(self._cores)
        others = self._busy_seconds() - self._busy - (_own_seconds() - self._own)
        return min(1.0, max(0.0, others / passed))

    def _busy_seconds(self) -> float:
        times = psutil.cpu_times(percpu=True)
        # Not `guest`: it is a part of `user`. Only Linux has `steal`, what other machines took.
        of_programs = ("user", "nice", "system", "steal")
        return sum(getattr(times[i], kind, 0.0) for i in self._cores for kind in of_programs)


def _own_seconds() -> float:
    own, ended = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def describe() -> str:
    """The processor, the cores in use, the memory and the Python."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = psutil.virtual_memory().total / 2**30
    used = len(os.sched_getaffinity(0))
    kernel = ".".join(platform.release().split(".")[:2])
    return (
        f"{model}, {used} of {psutil.cpu_count()} cores used, {memory:.0f} GiB, "
        f"{platform.system()} {kernel}, Python {platform.python_version()}"
    )


def memory_mib(process: psutil.Process) -> tuple[float, float | None]:
    """Resident memory and proportional share (PSS) in MiB; None for PSS if the system lacks it.

    A page that several processes share counts fully in the first number, and in part in the second.
    """
    rss = process.memory_info().rss / 2**20
    try:
        return rss, process.memory_full_info().pss / 2**20
    except (psutil.AccessDenied, AttributeError):
        return rss, None
