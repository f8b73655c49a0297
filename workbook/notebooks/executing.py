"""Run a lecture in a kernel: for its page on the site, and in tests.

    node = run(Path("lectures/1_architecture/01__first_model/lesson.py"))

A server with the shared repository's models has to be running, or be named in `TRITON_URL`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import nbclient
import psutil
from nbformat import NotebookNode

from ..common.errors import WorkbookError
from ..common.unattended import UNATTENDED
from .building import page
from .source import text

#: Seconds for one cell. The longest cells take up to three minutes, as their text says: one trains
#: focus_cnn in its first run, others start vLLM or a plain server. On a busy machine they take
#: twice as long. Loading a model is given up after five minutes with a message (`Server.load`); a
#: shorter limit would hide this message.
TIMEOUT = 360

#: Code for the kernel: on the signal, it writes what each of its threads is doing to a file.
_ON_SIGNAL = """\
import faulthandler, signal
faulthandler.register(signal.SIGUSR1, open({file!r}, "w"))
del faulthandler, signal
"""


class Session:
    """A lecture and the kernel in which its cells run; made by `session`.

    Attributes:
        node: the notebook; its cells have outputs after `run`.
    """

    def __init__(self, source: Path, client: nbclient.NotebookClient, threads: Path) -> None:
        self.source = source
        self._threads = threads  # where the kernel's fault handler writes
        self.node: NotebookNode = client.nb
        self._client = client

    def run(self) -> NotebookNode:
        """Run every cell from top to bottom, and return the notebook with its outputs.

        Raises:
            WorkbookError: a cell failed, or a claim did not hold.
        """
        for place in range(len(self.node.cells)):
            self.run_cell(place)
        return self.node

    def run_cell(self, place: int) -> None:
        """Run one cell; its outputs stay in the notebook.

        Args:
            place: the cell's place in the notebook, from 0.

        Raises:
            WorkbookError: the cell failed, or a claim in it did not hold.
        """
        self._execute(self.node.cells[place], place)

    def cell(self, place: int, code: str | None = None) -> NotebookNode:
        """Run one cell once more, and return a copy of it with the new outputs.

        Args:
            place: the cell's place in the notebook, from 0.
            code: what to run in its place, e.g. the same with another number.

        Raises:
            WorkbookError: the cell failed, or a claim in it did not hold.
        """
        kept: NotebookNode = self.node.cells[place]
        cell: NotebookNode = deepcopy(kept)
        cell.source = kept.source if code is None else code
        try:
            self._execute(cell, place)
        finally:
            self.node.cells[place] = kept
        return cell

    def _execute(self, cell: NotebookNode, place: int) -> None:
        try:
            self._client.execute_cell(cell, place)
        except nbclient.exceptions.CellExecutionError as error:
            raise WorkbookError(
                f"A cell of {self.source.parent.name} failed.",
                where=str(self.source),
                todo=f"Correct the cell:\n{error}",
            ) from None
        except nbclient.exceptions.CellTimeoutError:
            raise WorkbookError(
                f"A cell of {self.source.parent.name} took longer than {TIMEOUT} s.",
                where=str(self.source),
                todo=f"Make it shorter, or find out what it waits for:\n{cell.source}\n\n"
                f"{self._stop_where_it_waits()}",
            ) from None

    def _stop_where_it_waits(self) -> str:
        """End the kernel, and tell what its processes were doing: one line per thread."""
        assert self._client.km is not None
        kernel = psutil.Process(cast(Any, self._client.km.provisioner).pid)
        with contextlib.suppress(psutil.Error):
            kernel.send_signal(signal.SIGUSR1)  # see `session`
            time.sleep(1)
        lines = ["What its threads were doing:", self._threads.read_text()]
        lines.append("And the processes that it started (thread: the system's function):")
        for process in [kernel, *kernel.children(recursive=True)]:
            with contextlib.suppress(psutil.Error, OSError):
                words = " ".join(process.cmdline())[:120]
                lines.append(f"{process.pid} {process.status()} {words}")
                for thread in sorted(Path(f"/proc/{process.pid}/task").glob("*/")):
                    what = [(thread / file).read_text().strip() for file in ("comm", "wchan")]
                    lines.append(f"    {thread.name} {': '.join(what)}")
        with contextlib.suppress(psutil.Error):
            kernel.kill()
            kernel.wait(5)
        return "\n".join(lines)


@contextmanager
def session(source: Path, environment: Mapping[str, str] | None = None) -> Iterator[Session]:
    """A kernel for a lecture, in the lecture's own folder; it ends with the `with` block.

        with session(source) as lecture:
            lecture.run()       # top to bottom
            lecture.cell(7)     # the eighth cell once more

    Args:
        source: e.g. `lectures/1_architecture/01__first_model/lesson.py`.
        environment: variables for the kernel, e.g. `TRITON_URL`, added to this process's own.
    """
    client = nbclient.NotebookClient(
        page(source),
        timeout=TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],  # no warning that TCP on this machine is readable
        resources={"metadata": {"path": str(source.parent)}},
    )
    with tempfile.TemporaryDirectory() as folder:
        # `predict` and `claim` read the texts in this file: the one in the lecture's folder may be
        # older than the source.
        file = Path(folder, f"{source.parent.name}.ipynb")
        file.write_text(text(client.nb), "utf-8")
        variables = {**os.environ, **(environment or {})}
        variables |= {UNATTENDED: "1", "JPY_SESSION_NAME": str(file)}
        threads = Path(folder, "threads.txt")
        with client.setup_kernel(env=variables):
            assert client.kc is not None
            client.kc.execute(_ON_SIGNAL.format(file=str(threads)), silent=True)
            yield Session(source, client, threads)


def run(source: Path, environment: Mapping[str, str] | None = None) -> NotebookNode:
    """Run a lecture from top to bottom in a kernel of its own.

    Args:
        source: e.g. `lectures/1_architecture/01__first_model/lesson.py`.
        environment: variables for the kernel, e.g. `TRITON_URL`, added to this process's own.

    Returns:
        The notebook with its outputs; everything else is the same as in the built one.

    Raises:
        WorkbookError: a cell failed, or a claim did not hold; with the cell and its output.
    """
    with session(source, environment) as lecture:
        return lecture.run()
