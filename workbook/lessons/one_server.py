"""One lecture's server at a time: it is there while its notebook is used.

Each server of `laboratory` belongs to the notebook whose kernel has started it. When a cell of a
notebook runs, the servers of the other notebooks of the same JupyterLab are paused: they end, and
their guards keep their ports (server/guard.py). After ten minutes without a cell and without a
request, a server is paused, too. Before the next cell of its notebook, it is started again at the
same ports, with the models that it had. So a cell may send requests with any client.

This holds in notebooks only. The server of a test, of a script or of an assignment is not paused,
and notebooks that different programs run do not pause each other's servers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from IPython import get_ipython

from ..common.errors import ServerError
from ..server import Triton

IDLE = 600.0  # seconds without use after which a server is paused

#: The servers of this notebook.
_followed: list[Triton] = []


def lecture() -> dict[str, Any] | None:
    """What the guard of a server records about this notebook; None outside of a notebook."""
    shell = get_ipython()
    if not hasattr(shell, "kernel"):
        return None
    named = os.environ.get("JPY_SESSION_NAME") or str(getattr(shell, "starting_dir", ""))
    notebook = Path(named).name.removesuffix(".ipynb")
    return {"notebook": notebook, "kernel": os.getpid(), "parent": os.getppid(), "idle": IDLE}


def follow(server: Triton) -> None:
    """Tell a server's guard when cells run. Outside of a notebook, nothing is done."""
    shell = get_ipython()
    if not hasattr(shell, "kernel"):
        return
    if not _followed:
        shell.events.register("pre_run_cell", _begin)
        shell.events.register("post_run_cell", _end)
    _followed.append(server)


def _begin(_cell: object) -> None:
    for server in _followed:
        try:
            server.begin_cell()
        except ServerError as error:
            print(f"{error}\nRun the cell again that starts this lecture's server.")


def _end(_result: object) -> None:
    for server in _followed:
        server.end_cell()
