"""Run a lecture's source in a kernel: for its built page, and in tests.

    node = run(Path("lectures/1_architecture/01__first_model.py"))
    write(Path("lectures/1_architecture/01__first_model.py"), node)

A server with the shared repository's models has to be running, or be named in `TRITON_URL`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import nbclient
import nbformat
from nbformat import NotebookNode

from ..common.errors import WorkbookError
from ..common.unattended import UNATTENDED
from .source import notebook, read, text

TIMEOUT = 180  # seconds for one cell; a lecture as a whole takes no longer on an idle machine


class Session:
    """A lecture and a kernel that its cells run in, from `session`.

    Attributes:
        node: the notebook; its cells have outputs after `run`.
    """

    def __init__(self, source: Path, client: nbclient.NotebookClient) -> None:
        self.source = source
        self.node: NotebookNode = client.nb
        self._client = client

    def run(self) -> NotebookNode:
        """Run every cell from top to bottom, and return the notebook with its outputs.

        Raises:
            WorkbookError: a cell failed, or a claim did not hold.
        """
        for place, cell in enumerate(self.node.cells):
            self._execute(cell, place)
        return self.node

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
                f"A cell of {self.source.stem} failed.",
                where=str(self.source),
                todo=f"Mend it:\n{error}",
            ) from None
        except nbclient.exceptions.CellTimeoutError:
            raise WorkbookError(
                f"A cell of {self.source.stem} took longer than {TIMEOUT} s.",
                where=str(self.source),
                todo=f"Make it shorter, or find out what it waits for:\n{cell.source}",
            ) from None


@contextmanager
def session(source: Path, environment: Mapping[str, str] | None = None) -> Iterator[Session]:
    """A kernel for a lecture, in the lecture's own folder; it ends with the `with` block.

        with session(source) as lecture:
            lecture.run()       # top to bottom
            lecture.cell(7)     # the eighth cell once more

    Args:
        source: e.g. `lectures/1_architecture/01__first_model.py`.
        environment: variables for the kernel, e.g. `TRITON_URL`, added to this process's own.
    """
    client = nbclient.NotebookClient(
        notebook(read(source)),
        timeout=TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(source.parent)}},
    )
    with client.setup_kernel(env={**os.environ, **(environment or {}), UNATTENDED: "1"}):
        yield Session(source, client)


def run(source: Path, environment: Mapping[str, str] | None = None) -> NotebookNode:
    """Run a lecture from top to bottom in a kernel of its own.

    Args:
        source: e.g. `lectures/1_architecture/01__first_model.py`.
        environment: variables for the kernel, e.g. `TRITON_URL`, added to this process's own.

    Returns:
        The notebook with its outputs; for the rest it is the same as the built one.

    Raises:
        WorkbookError: a cell failed, or a claim did not hold; with the cell and its output.
    """
    with session(source, environment) as lecture:
        return lecture.run()


def write(source: Path, node: NotebookNode) -> Path:
    """Write an executed notebook beside its source, as `workbook build` would; returns its path."""
    target = source.with_suffix(".ipynb")
    nbformat.write(node, target)  # type: ignore[no-untyped-call]
    target.write_text(text(notebook(read(source), outputs_from=target)), "utf-8")
    return target
