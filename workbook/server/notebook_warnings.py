"""Show warnings about models in a notebook, below the cell that caused them."""

from __future__ import annotations

import sys
from pathlib import Path

from . import model_warnings
from .connection import Server

#: The log of each server that this kernel uses, and how many bytes of it were read.
_read: dict[Path, int] = {}


def watch(server: Server) -> None:
    """After each cell of this notebook, print the warnings about models in the server's log.

    Outside of a notebook, or if the server's log is not on this machine, nothing is printed.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or server.log is None:
        return
    if not _read:
        shell.events.register("post_run_cell", _show)
    _read.setdefault(server.log, server.log_size())


def _show(_result: object) -> None:
    """IPython calls this after a cell, with the cell's result."""
    for log, start in list(_read.items()):
        try:
            with log.open("rb") as file:
                file.seek(start)
                news = file.read()
        except OSError:  # the server has ended
            continue
        _read[log] = start + len(news)
        for warning in model_warnings.of_log(news.decode("utf-8", errors="replace")):
            print(f"Warning: {warning}")
