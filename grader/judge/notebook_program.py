"""The program inside the sandbox: it executes a notebook beside a Triton of its own.

`python -m grader.judge.notebook_program` reads its orders as JSON from standard input and writes
one tar to standard output: run.json, executed.ipynb, server.log, reported/ (the values that the
notebook handed to its checks) and repository/ (the models that it deployed). This program shares
the sandbox with the student's code, so the outside trusts nothing in the tar.

It imports late, where something is needed: then the kernel and the server start at the same time.
The kernel is forked from this program (forked_kernel.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import io
import json
import os
import shutil
import stat
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from .forked_kernel import KernelProcess

if TYPE_CHECKING:
    from workbook.server import Triton

GRACE = 5.0  # seconds that a cell has to end after it was interrupted
FLOOD_S = 5.0  # seconds that a cell may go on after it has shown more than is kept
LOG_BYTES = 1 << 20  # how much of the server's log is delivered: its end
ERROR_BYTES = 16 << 10  # of the error that ends a cell which has shown too much
PER_OUTPUT = 256  # what each output counts at least, in bytes: an empty one is some memory, too
_PR_SET_DUMPABLE = 4


class Orders(TypedDict):
    """What the runner is asked to do.

    Attributes:
        notebook: nbformat JSON.
        submission: the folder with the student's files.
        assignment: such as `a2__forest`. It names the folder that the notebook runs in, and the
            folder of the values that it hands over.
        ports: for HTTP, gRPC and metrics; 0 for free ones.
        seconds: the most for the whole notebook, from the runner's start.
        cell_seconds: the most for one cell.
        cell_output: the most bytes of output that are kept per cell.
        all_output: the most bytes of output that are kept in all.
    """

    notebook: dict[str, Any]
    submission: str
    assignment: str
    ports: tuple[int, int, int]
    seconds: float
    cell_seconds: float
    cell_output: int
    all_output: int


def main() -> int:
    """Carry out the orders on standard input; returns the exit status."""
    began = time.monotonic()
    kernel = KernelProcess()
    # Only this process may write the tar. Children inherit no copy of the descriptor, and a process
    # that is not "dumpable" closes its /proc/<pid>/fd to other processes of the same user (see
    # proc(5), and PR_SET_DUMPABLE in prctl(2)).
    out = os.dup(1)
    os.dup2(2, 1)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    orders: Orders = json.load(sys.stdin)
    checkout = Path(os.environ["WORKBOOK_HOME"])
    work = checkout / "assignments" / orders["assignment"]
    reported = checkout / ".workbook" / "reported" / orders["assignment"].split("__")[0]
    repository = Path(os.environ["TRITON_REPOSITORY"])
    repository.mkdir(parents=True)
    server = _Server(repository, orders["ports"])
    server.start()
    skipped = _copy(Path(orders["submission"]), work)
    notebook, ran, notes = asyncio.run(
        _execute(orders, kernel, work, began + orders["seconds"], server)
    )
    notes += [f"{name} was left out: not a file or folder." for name in skipped]
    log = server.finish()
    notes += server.notes
    run = {"cells_run": ran, "notes": notes, "seconds": time.monotonic() - began}
    with (
        os.fdopen(out, "wb") as pipe,
        tarfile.open(fileobj=pipe, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        _add(tar, "run.json", json.dumps(run).encode())
        _add(
            tar,
            "executed.ipynb",
            json.dumps(notebook, ensure_ascii=False).encode("utf-8", "replace"),
        )
        _add(tar, "server.log", log)
        _add_tree(tar, "reported", reported)
        _add_tree(tar, "repository", repository)
    return 0


class _Server:
    """The Triton beside the notebook, started in a thread while the kernel starts."""

    def __init__(self, repository: Path, ports: tuple[int, int, int]) -> None:
        self.notes: list[str] = []
        self._repository = repository
        self._ports = ports
        self._triton: Triton | None = None
        self._thread = threading.Thread(target=self._start)

    def start(self) -> None:
        self._thread.start()

    def _start(self) -> None:
        from workbook.common.errors import WorkbookError
        from workbook.server import Triton

        http, grpc, metrics = self._ports
        triton = Triton(self._repository, http=http, grpc=grpc, metrics=metrics)
        try:
            triton.start(remember=True)
        except WorkbookError as error:
            self.notes.append(f"The server did not start: {error.what}")
        else:
            self._triton = triton

    async def ready(self) -> None:
        """Wait until the server answers, or has failed to start."""
        await asyncio.to_thread(self._thread.join)

    def finish(self) -> bytes:
        """Return the end of the server's log. The server itself is ended with the sandbox."""
        self._thread.join()
        if self._triton is None or self._triton.log is None:
            return b""
        with self._triton.log.open("rb") as file:
            file.seek(max(0, self._triton.log_size() - LOG_BYTES))
            return file.read(LOG_BYTES)


async def _execute(
    orders: Orders, kernel: KernelProcess, work: Path, deadline: float, server: _Server
) -> tuple[dict[str, Any], int, list[str]]:
    """Run all cells in the folder `work`, also after a cell that raised.

    Returns:
        The notebook with its outputs, how many cells ran, and what went wrong.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import DeadKernelError

    from .kernel_provisioner import manager_of

    class Client(NotebookClient):
        """Counts the outputs while they arrive, and drops what is over a limit."""

        flood = asyncio.Event()  # set when the current cell has shown more than is kept
        _cell = -1
        _left = _left_for_error = 0
        _left_in_all = orders["all_output"]
        _limit = ""

        def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
            if cell_index != self._cell:
                self._cell, self._left = cell_index, orders["cell_output"]
                self._left_for_error = ERROR_BYTES
                self._limit = f"a cell may show {orders['cell_output'] >> 10} KiB"
                if self._left_in_all < self._left:
                    self._left = max(0, self._left_in_all)
                    self._limit = f"a notebook may show {orders['all_output'] >> 20} MiB"
            if msg["msg_type"] not in _OUTPUTS:
                return super().process_message(msg, cell, cell_index)
            size = max(_size(msg["content"]), PER_OUTPUT)
            if self._left < 0:
                is_end = msg["msg_type"] == "error" and size <= self._left_for_error
                self._left_for_error -= size * is_end
                return super().process_message(msg, cell, cell_index) if is_end else None
            left, self._left = self._left, self._left - size
            self._left_in_all -= min(size, left)
            if size <= left:
                return super().process_message(msg, cell, cell_index)
            self.flood.set()
            note = f"\n[output cut: {self._limit}]\n"
            text = msg["content"]["text"][:left] if msg["msg_type"] == "stream" else ""
            cut = {**msg, "msg_type": "stream", "content": {"name": "stdout", "text": text + note}}
            cut["header"] = {**msg["header"], "msg_type": "stream"}
            return super().process_message(cut, cell, cell_index)

    notebook = nbformat.reads(  # type: ignore[no-untyped-call]
        json.dumps(orders["notebook"]), as_version=4
    )
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    sockets = tempfile.mkdtemp(prefix="kernel-")
    manager = manager_of(kernel, f"{sockets}/ipc")
    client = Client(
        notebook,
        km=manager,
        allow_errors=True,
        resources={"metadata": {"path": str(work)}},
        shutdown_kernel="immediate",
    )
    ran = 0
    notes: list[str] = []
    try:
        await client.async_start_new_kernel()
        await client.async_start_new_kernel_client()
    except Exception as error:
        return notebook, 0, [f"The kernel did not start: {error}"]
    await server.ready()
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        left = deadline - time.monotonic()
        if left <= 0:
            notes.append(f"The time was up before cell {index + 1}.")
            break
        client.flood.clear()
        began = time.monotonic()
        task = asyncio.ensure_future(client.async_execute_cell(cell, index))
        allowed = min(orders["cell_seconds"], left)
        if await _end(task, allowed, client.flood):
            why = ": it showed more than is kept, and went on" * client.flood.is_set()
            took = f"{time.monotonic() - began:.0f} s"
            notes.append(f"Cell {index + 1} was interrupted after {took}{why}.")
            await manager.interrupt_kernel()
            await asyncio.wait({task}, timeout=GRACE)
        if not task.done():
            notes.append(
                f"Cell {index + 1} did not let itself be interrupted; the kernel was ended."
            )
            await manager.shutdown_kernel(now=True)
        ran += 1
        try:
            await task
        except DeadKernelError:
            notes.append(f"The kernel died in cell {index + 1}; the cells after it did not run.")
            break
        except Exception as error:  # the student's code may send messages that nbclient cannot read
            notes.append(f"Cell {index + 1}: {type(error).__name__}: {error}"[:500])
    with contextlib.suppress(Exception):  # the kernel may be in any state now
        await client._async_cleanup_kernel()
    return notebook, ran, notes


async def _end(task: asyncio.Task[Any], seconds: float, flood: asyncio.Event) -> bool:
    """Wait until a cell has ended; True if it has not, and is to be interrupted.

    A cell that shows too much usually does so in a loop. It gets `FLOOD_S` after that, in place of
    the rest of its time. A cell that only prints a large table ends by itself before that.

    Args:
        task: runs the cell.
        seconds: the most for the cell.
        flood: is set when the cell has shown more than is kept.
    """
    deadline = time.monotonic() + seconds
    flooded = asyncio.ensure_future(flood.wait())
    await asyncio.wait({task, flooded}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if not flooded.cancel():  # it is done
        await asyncio.wait({task}, timeout=min(FLOOD_S, max(0.0, deadline - time.monotonic())))
    return not task.done()


_OUTPUTS = ("stream", "display_data", "execute_result", "update_display_data", "error")


def _size(content: dict[str, Any]) -> int:
    text = content.get("text")
    return len(text) if isinstance(text, str) else len(json.dumps(content, default=str))


def _copy(source: Path, target: Path) -> list[str]:
    """Copy regular files and folders; returns the names of what is neither."""
    from workbook.assignments import files

    skipped: list[str] = []
    target.mkdir(parents=True)
    for path in files(source, folders=True):
        relative, mode = str(path.relative_to(source)), path.lstat().st_mode
        if stat.S_ISDIR(mode):
            (target / relative).mkdir()
        elif stat.S_ISREG(mode):
            shutil.copy(path, target / relative)
        else:
            skipped.append(relative)
    return skipped


def _walk(folder: Path) -> Iterator[tuple[Path, str, int]]:
    """Everything below a folder, parents first: its path, its path in the folder, its mode."""
    for base, folders, files in os.walk(folder):
        for name in sorted([*folders, *files]):
            path = Path(base, name)
            with contextlib.suppress(FileNotFoundError):  # a process may still be changing them
                yield path, str(path.relative_to(folder)), path.lstat().st_mode


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def _add_tree(tar: tarfile.TarFile, name: str, folder: Path) -> None:
    """Add the files and folders below a folder; links and the like are left out."""
    for path, relative, mode in _walk(folder) if folder.is_dir() else ():
        if stat.S_ISDIR(mode):
            member = tarfile.TarInfo(f"{name}/{relative}")
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
        elif stat.S_ISREG(mode):
            with contextlib.suppress(OSError):
                _add(tar, f"{name}/{relative}", _content(path))


def _content(path: Path) -> bytes:
    """The content of a regular file. If a pipe has taken its place, this does not wait for it.

    Raises:
        OSError: it is not a regular file any more.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no regular file")
        return file.read()


if __name__ == "__main__":
    sys.exit(main())
