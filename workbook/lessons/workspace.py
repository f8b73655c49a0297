"""A lecture's own folder for models, files in this folder, and a server that serves it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .. import zoo
from ..common import paths
from ..common.errors import WorkbookError
from ..measure import perf_install
from ..server import Server, Triton, all_models
from . import one_server

#: The servers that this kernel started with `laboratory`, by folder and options.
_running: dict[str, Triton] = {}


def folder(name: str) -> Path:
    """A fresh folder for a lecture's own models, as a path relative to the notebook.

        models = folder("first_model")    # ../../../.workbook/lectures/first_model

    Files of an earlier run are deleted. If this kernel has started a server on the folder
    (`laboratory`), the server is stopped. The folder is in `.workbook/`, which git ignores.

    Raises:
        WorkbookError: the name has other characters than `checked_name` allows.
    """
    home = paths.state("lectures") / checked_name(name)
    for key, server in list(_running.items()):
        if server.repository == home.resolve():
            _running.pop(key).stop()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    return Path(os.path.relpath(home))


def version(models: Path, name: str) -> Path:
    """The folder of version 1 of a model; it is made if it is not there.

    version(models, "forest") / "xgboost.json"    # …/forest/1/xgboost.json
    """
    home = models / name / "1"
    home.mkdir(parents=True, exist_ok=True)
    return home


def write(path: Path, text: str) -> None:
    """Write a file, make the folders above it, and print the file's path.

    write(models / "cube/config.pbtxt", 'backend: "python"')
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    print(f"Wrote {path}")


def laboratory(models: Path, *, only: Sequence[str] | None = None, **options: Any) -> Triton:
    """Start a second server, for one lecture's experiments, on free ports.

        lab = laboratory(models)                      # loads every model of the folder
        lab = laboratory(models, control="poll")      # loads every model, and watches the folder
        lab = laboratory(models, only=[])             # loads no model

    The shared server is not changed. The requests of this server can be traced. The server ends
    when the kernel ends. While another lecture's server runs, and after ten minutes without use,
    it is paused (one_server.py). A cell can be run again: a server that this kernel started with
    the same arguments is stopped first. Its addresses become environment variables
    (`set_addresses`).

    Args:
        models: a model repository, e.g. what `folder` returned.
        only: the models to load; by default all that the folder has (mode explicit).
        options: passed to `workbook.server.Triton`.

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
    server = Triton(models, trace=trace, **options).start(lecture=one_server.lecture())
    one_server.follow(server)
    if server.control == "explicit":
        wanted = all_models.names(server.repository) if only is None else only
        for error in all_models.load_all(server, wanted).values():
            server.stop()
            raise error
    _running[key] = server
    set_addresses(server)
    return server


def course_server(*models: str) -> Server:
    """The server that `make lab` has started, with these models loaded.

        server = course_server("square")

    Its addresses become environment variables (`set_addresses`).

    Raises:
        ServerError: there is no server, or several models did not load.
        LoadError: one model did not load.
    """
    server = all_models.ensure(*models)
    set_addresses(server)
    return server


def set_addresses(server: Server) -> None:
    """Set the environment variables from which cells and programs read a server's addresses.

    At work they are set once in a terminal: `export TRITON_HTTP=localhost:8000`.

    | variable | example | for |
    |---|---|---|
    | `TRITON_HTTP` | `localhost:8000` | `curl $TRITON_HTTP/v2`, `tritonclient.http` |
    | `TRITON_GRPC` | `localhost:8001` | `tritonclient.grpc`, `perf_analyzer -i grpc -u` |
    | `TRITON_METRICS` | `localhost:8002` | `curl $TRITON_METRICS/metrics` |
    | `TRITON_MODELS` | `/srv/models` | the model repository |

    `PATH` gets the folder of the command `perf_analyzer`, if it is installed.
    """
    os.environ["TRITON_HTTP"] = urlsplit(server.url).netloc
    os.environ["TRITON_GRPC"] = server.grpc_url
    os.environ["TRITON_METRICS"] = urlsplit(server.metrics_url).netloc
    os.environ["TRITON_MODELS"] = str(server.repository)
    commands = str(perf_install.commands())
    if commands not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = f"{commands}{os.pathsep}{os.environ['PATH']}"


def checked_name(text: str) -> str:
    """Return the text if it has only small letters, digits, dots and underscores.

    Raises:
        WorkbookError: it has other characters, or begins with a dot or an underscore.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.]*", text):
        raise WorkbookError(
            f"{text!r} is not a name.", todo="Take small letters, digits, dots and underscores."
        )
    return text


def copy(models: Path, name: str, target: str, changes: Mapping[str, str]) -> None:
    """Copy version 1 of one of the course's models into a repository, and change its config.

    Args:
        models: the repository.
        name: the model in the shared repository. It is built if it is not there yet.
        target: its name in the other repository.
        changes: text of its config → what takes its place.
    """
    zoo.repository.build(only=[name], bar=False)
    home = paths.root() / "model_repository" / name
    shutil.rmtree(models / target, ignore_errors=True)
    shutil.copytree(home / "1", models / target / "1")
    for file in home.glob("*.txt"):
        shutil.copy(file, models / target)
    text = (home / "config.pbtxt").read_text("utf-8")
    for old, new in {**changes, "version_policy { all { } }\n": ""}.items():
        text = text.replace(old, new)
    (models / target / "config.pbtxt").write_text(text, "utf-8")
