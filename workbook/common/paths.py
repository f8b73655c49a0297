"""Where things lie: the checkout, the shared repository, and what is built for this machine."""

from __future__ import annotations

import os
from pathlib import Path


def root() -> Path:
    """The checkout: `WORKBOOK_HOME` where it is set, else the folder that holds this package."""
    home = os.environ.get("WORKBOOK_HOME")
    return Path(home).expanduser().resolve() if home else Path(__file__).resolve().parents[2]


def repository() -> Path:
    """The shared model repository: `TRITON_REPOSITORY` if it is set, else `model_repository/`."""
    path = os.environ.get("TRITON_REPOSITORY")
    return Path(path).expanduser().resolve() if path else root() / "model_repository"


def state(*parts: str) -> Path:
    """A folder under `.workbook/`, made when missing: all that is built or remembered here.

    Deleting `.workbook/` while no server runs loses nothing that `make setup` does not rebuild.
    """
    path = root().joinpath(".workbook", *parts)
    path.mkdir(parents=True, exist_ok=True)
    return path
