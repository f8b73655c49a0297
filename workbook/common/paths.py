"""Where files are: the checkout, the shared model repository, and this machine's own state."""

from __future__ import annotations

import os
from pathlib import Path


def root() -> Path:
    """The checkout: `WORKBOOK_HOME` where it is set, else the folder that holds this package."""
    home = os.environ.get("WORKBOOK_HOME")
    return Path(home).expanduser().resolve() if home else Path(__file__).resolve().parents[2]


def package() -> Path:
    """The folder of the package `workbook`."""
    return Path(__file__).resolve().parents[1]


def repository() -> Path:
    """The shared model repository: `TRITON_REPOSITORY` if it is set, else `model_repository/`."""
    path = os.environ.get("TRITON_REPOSITORY")
    return Path(path).expanduser().resolve() if path else root() / "model_repository"


def work() -> Path:
    """The reader's own copy of the course, in which JupyterLab opens: `work/`. Git ignores it.

    It is laid out like the checkout: `work().relative_to(root())` is `work`, and a notebook such as
    `lectures/00__start/00__start.ipynb` has its copy at the same place below `work()`.
    """
    return root() / "work"


def state(*parts: str) -> Path:
    """A folder under `.workbook/`, made if it is missing: what is built or kept on this machine.

    Deleting `.workbook/` while no server runs loses nothing that `make setup` does not rebuild.
    """
    path = root().joinpath(".workbook", *parts)
    path.mkdir(parents=True, exist_ok=True)
    return path
