"""`cell`: the file that a lecture's `%%writefile` cell writes, for a task that begins with it."""

from __future__ import annotations

from ... import notebooks
from ...common import paths
from ...common.errors import WorkbookError


def cell(lecture: str, file: str) -> str:
    """Return the text that a cell of a lecture writes into a file.

    Args:
        lecture: the lecture's name, e.g. `09__wire`.
        file: the end of the file's path in the cell's first line, e.g. `client.py`.

    Raises:
        WorkbookError: the lecture has no such cell.

    Example:
        written.cell("09__wire", "client.py")
    """
    for source in paths.root().glob(f"lectures/*/{lecture}/lesson.py"):
        for found in notebooks.read(source).cells:
            first, _, text = found.source.partition("\n")
            if first.startswith("%%writefile") and first.endswith(file):
                return text
    raise WorkbookError(
        f"The lecture {lecture} writes no file {file}.",
        where=str(paths.root() / "lectures"),
        todo="Bring the course up to date with `git pull`.",
    )
