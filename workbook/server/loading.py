"""Load models by name, and check which of them are ready."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from ..common.errors import ServerError, WorkbookError
from . import model_folder
from .connection import Server

LOAD_TIMEOUT = 300.0  # seconds for one model
AT_ONCE = 3  # loads at the same time; some of them wait while others import packages


def load(server: Server, name: str, timeout: float | None = None) -> WorkbookError | None:
    """Load one model; returns the error if it does not load.

        if (error := loading.load(server, "digits_onnx")) is not None:
            print(error)

    Args:
        timeout: seconds to wait for it; by default LOAD_TIMEOUT.
    """
    try:
        model_folder.check_inside(server.repository, name)
        model_folder.precompile(server.repository / name)
        server.load(name, timeout=LOAD_TIMEOUT if timeout is None else timeout)
    except WorkbookError as error:
        return error
    return None


def missing(server: Server, models: Iterable[str]) -> list[str]:
    """The models that are not ready, in the order given.

        missing(server, ["square", "chooser"])  # ['chooser']

    Raises:
        ServerError: the server does not answer.
    """
    ready = {entry["name"] for entry in server.index(ready_only=True)}
    return [name for name in models if name not in ready]


def check_alive(server: Server, errors: Collection[WorkbookError]) -> None:
    """Check that the server still runs, if models did not load.

    Raises:
        ServerError: it has ended.
    """
    if errors and not server.live():
        raise ServerError(
            "The server ended while it was loading models.",
            where=server.url,
            todo="Run the same command again. If it ends again, its log says why.",
        )


def is_ensemble(folder: Path) -> bool:
    """Whether a model's folder has the config of an ensemble."""
    try:
        text = (folder / "config.pbtxt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "ensemble_scheduling" in text
