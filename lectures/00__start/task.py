"""The task of 00__start: a request with five rows."""

from __future__ import annotations

from pathlib import Path

from workbook import measure
from workbook.common import paths
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server, deploy

_ROWS = 5


@define(
    "start.five",
    hints=(
        "The cell with numbers = [1, 2, 3] sends three rows.",
        "Give numbers two more, and run that cell again.",
    ),
)
def five(server: Server) -> None:
    """Let square compute five rows in one execution."""
    sizes = measure.statistics(server, "square")["batches"].iloc[0]
    if not sizes.get(_ROWS):
        seen = ", ".join(str(size) for size in sorted(sizes)) or "none"
        raise NotYet(f"Its executions so far had this many rows: {seen}.")


def start(folder: Path) -> Server:
    """Start a server with `square`, which has computed nothing yet."""
    server = laboratory(folder)
    deploy(paths.root() / "model_repository" / "square", server=server)
    return server
