"""A lecture's own place to work: a folder for its models, files in it, and a server for them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..common import paths
from ..common.errors import WorkbookError
from ..server import Triton, all_models

#: The servers that this kernel started with `laboratory`, by folder and options.
_running: dict[str, Triton] = {}


def folder(name: str) -> Path:
    """A fresh folder for a lecture's own models, as a path relative to the notebook.

        models = folder("first_model")    # ../../.workbook/lectures/first_model

    What an earlier run left in it is gone; a server that `laboratory` started on it is stopped. It
    lies under `.workbook/`, so git never sees it.

    Raises:
        WorkbookError: it is not a name.
    """
    home = paths.state("lectures") / checked_name(name)
    for key, server in list(_running.items()):
        if server.repository == home.resolve():
            _running.pop(key).stop()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    return Path(os.path.relpath(home))


def write(path: Path, text: str) -> None:
    """Write a file, make the folders above it, and say so.

    write(models / "cube/config.pbtxt", 'backend: "python"')
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    print(f"Wrote {path}")


def laboratory(models: Path, *, only: Sequence[str] | None = None, **options: Any) -> Triton:
    """Start a server of the lecture's own, on free ports, whose requests can be traced.

        lab = laboratory(models)                      # loads every model of the folder
        lab = laboratory(models, control="poll")      # so does mode poll
        lab = laboratory(models, only=[])             # loads none

    The shared server is not disturbed. The server ends with the kernel. A cell can be run again: a
    server that this kernel started with the same arguments is stopped first.

    Args:
        models: a model repository, e.g. what `folder` returned.
        only: the models to load, where not all of the folder's are wanted (mode explicit).
        options: for `workbook.server.Triton`.

    Raises:
        LoadError: the server refused a model.
        ServerError: the server could not start.
    """
    key = f"{models.resolve()} {only} {options}"
    if key in _running:
        _running.pop(key).stop()
    own = hashlib.sha256(key.encode()).hexdigest()[:8]
    traces = paths.state("lectures") / f"{models.resolve().name}-{own}.traces"
    shutil.rmtree(traces, ignore_errors=True)
    traces.mkdir()
    trace = {"file": traces / "trace.json", "rate": 1, "level": "OFF"}
    server = Triton(models, trace=trace, **options).start()
    if server.control == "explicit":
        wanted = all_models.names(server.repository) if only is None else only
        for error in all_models.load_all(server, wanted).values():
            server.stop()
            raise error
    _running[key] = server
    return server


def checked_name(text: str) -> str:
    """The text, if it is a name: small letters, digits, dots and underscores.

    Raises:
        WorkbookError: it is not.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.]*", text):
        raise WorkbookError(
            f"{text!r} is not a name.", todo="Take small letters, digits, dots and underscores."
        )
    return text
