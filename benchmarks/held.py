"""Count what a server's processes hold: memory, descriptors, threads, shared memory, files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable
from pathlib import Path

import psutil

from workbook.server import Triton, run_folders

_PAGES = re.compile(r"^(Anonymous|Pss|Pss_Anon): +(\d+) kB$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Resources:
    """The resources that processes use at one moment. Memory in MiB.

    Attributes:
        anonymous: the server's memory that belongs to no file: heaps and stacks. A copy of a fork
            server has also those that it has not written to yet; when it does, such a page is no
            longer the fork server's, and the copy has no more than before.
        mapped: its part of the pages of files and of shared memory, each divided by the number of
            processes that have it. Another program that opens the same file changes it.
        descriptors, threads: of the server.
        processes: the number of processes that the server has started: fork servers, stubs, and the
            `start_stub` of each stub.
        their_anonymous, their_mapped, their_descriptors, their_threads: the sums over them.
        shm: of the server's regions in /dev/shm. regions: their number.
        files: in the folders that the server and the deploys write to.
    """

    anonymous: float
    mapped: float
    descriptors: float
    threads: float
    processes: float
    their_anonymous: float
    their_mapped: float
    their_descriptors: float
    their_threads: float
    shm: float
    regions: float
    files: float


#: The columns of a table: a field of `Resources`, its title, and whether it is memory.
COLUMNS = {
    "anonymous": ("server: anonymous MiB", True),
    "mapped": ("server: mapped MiB", True),
    "descriptors": ("server: descriptors", False),
    "threads": ("server: threads", False),
    "processes": ("processes", False),
    "their_anonymous": ("their anonymous MiB", True),
    "their_mapped": ("their mapped MiB", True),
    "their_descriptors": ("their descriptors", False),
    "their_threads": ("their threads", False),
    "shm": ("/dev/shm MiB", True),
    "regions": ("regions", False),
    "files": ("files", False),
}


class Watched:
    """A running server, and the folders whose files are counted."""

    def __init__(self, server: Triton, folders: Iterable[Path]) -> None:
        assert server.pid is not None
        assert server.log is not None
        self.run = server.log.parent
        orders = json.loads((self.run / run_folders.ORDERS).read_text(encoding="utf-8"))
        self._prefix = str(orders["shm_prefix"])
        self._server = psutil.Process(server.pid)
        self._folders = (self.run, *folders)

    def processes(self) -> list[psutil.Process]:
        """The processes that the server has started and that still run."""
        return list(self._server.children(recursive=True))

    def now(self) -> Resources:
        """What is held now."""
        theirs = []
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                theirs.append(_count_process(process))
        anonymous, mapped, descriptors, threads = _count_process(self._server)
        regions = self.regions()
        return Resources(
            anonymous,
            mapped,
            descriptors,
            threads,
            processes=len(theirs),
            their_anonymous=sum(one[0] for one in theirs),
            their_mapped=sum(one[1] for one in theirs),
            their_descriptors=sum(one[2] for one in theirs),
            their_threads=sum(one[3] for one in theirs),
            shm=sum(regions.values()),
            regions=len(regions),
            files=self.files(),
        )

    def regions(self) -> dict[str, float]:
        """The server's regions in /dev/shm: MiB in use, by name."""
        found = {}
        for path in Path("/dev/shm").glob(f"{self._prefix}*"):
            with contextlib.suppress(FileNotFoundError):
                found[path.name] = path.stat().st_blocks * 512 / 2**20
        return found

    def files(self) -> int:
        """How many files the server and the deploys have written and not removed."""
        return sum(len(list(folder.rglob("*"))) for folder in self._folders)


def _count_process(process: psutil.Process) -> tuple[float, float, int, int]:
    """Anonymous and mapped memory, descriptors and threads of a process."""
    # The kernel computes this sum itself; psutil would read and add up hundreds of mappings.
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8")
    pages = {name: int(size) / 1024 for name, size in _PAGES.findall(text)}
    mapped = pages.get("Pss", 0.0) - pages.get("Pss_Anon", 0.0)
    return pages.get("Anonymous", 0.0), mapped, process.num_fds(), process.num_threads()
