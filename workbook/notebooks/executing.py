"""Run a lecture from top to bottom, for its built page and in tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import nbclient
import nbformat
from nbformat import NotebookNode

from .. import notebooks
from ..common.errors import WorkbookError
from ..lessons.lesson import UNATTENDED

TIMEOUT = 180  # seconds for one cell; a lecture as a whole takes no longer on an idle machine


def run(source: Path, environment: Mapping[str, str] | None = None) -> NotebookNode:
    """Execute a lecture's source in a kernel of its own, in its own folder.

    Args:
        source: e.g. `lectures/1_architecture/01__first_model.py`.
        environment: variables for the kernel, e.g. `TRITON_URL`, added to this process's own.

    Returns:
        The notebook with its outputs; the same bytes as the built one, but for them.

    Raises:
        WorkbookError: a cell failed, or a claim did not hold; with the cell and its last words.
    """
    node = notebooks.notebook(notebooks.read(source))
    client = nbclient.NotebookClient(
        node,
        timeout=TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(source.parent)}},
    )
    try:
        client.execute(env={**os.environ, **(environment or {}), UNATTENDED: "1"})
    except nbclient.exceptions.CellExecutionError as error:
        raise WorkbookError(
            f"A cell of {source.stem} failed.",
            where=str(source),
            todo=f"Mend it:\n{error}",
        ) from None
    node.metadata.language_info = {"name": "python"}
    return node


def write(source: Path, node: NotebookNode) -> Path:
    """Write an executed notebook beside its source, as `workbook build` would."""
    target = source.with_suffix(".ipynb")
    nbformat.write(node, target)  # type: ignore[no-untyped-call]
    fresh = notebooks.notebook(notebooks.read(source), outputs_from=target)
    target.write_text(notebooks.text(fresh), "utf-8")
    return target
