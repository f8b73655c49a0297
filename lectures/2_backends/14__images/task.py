"""The task of 14__images: the command that composes the smallest image for a repository."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import NoReturn

import setup
from workbook.lessons.tasks import NotYet, define
from workbook.server import Server, Triton, all_models

RELEASE = "24.10"
#: A model of this platform needs no backend, because the core runs it.
_CORE = "ensemble"


def start(folder: Path) -> Server:
    """Write the notebook's repository with the first command, and start its server."""
    models = setup.repository(folder)
    command = f"python3 compose.py --container-version {RELEASE} --backend pytorch"
    (folder / "compose.sh").write_text(command, "utf-8")
    server = Triton(models).start()
    all_models.load_all(server, all_models.names(models))
    return server


@define(
    "images.compose",
    hints=(
        "The section 'Which backends does a repository need?' printed each model's backend. Which "
        "of them is no backend?",
        "`digits_cached` has response_cache in its config. NVIDIA's images keep each kind of "
        "cache in a folder of its own; --cache copies it.",
        "Name onnxruntime, python and dali with --backend each, the cache local with --cache, and "
        "nothing else.",
    ),
)
def compose(server: Server, models: Path) -> None:
    """compose.sh holds the command that composes the smallest image of release 24.10 for this
    repository: each backend that it needs, each cache, and nothing else."""
    given = _parsed(models / "compose.sh")
    backends, caches = needed(server)
    if given.container_version != RELEASE:
        raise NotYet(f"The command does not say --container-version {RELEASE}.")
    if _CORE in given.backend:
        raise NotYet("There is no backend of the name ensemble.")
    lacking = backends - set(given.backend)
    if lacking:
        raise NotYet(f"With this image {_models_of(server, lacking)} would not load.")
    idle = set(given.backend) - backends
    if idle:
        raise NotYet(f"No model of the repository needs {', '.join(sorted(idle))}.")
    if caches - set(given.cache):
        raise NotYet(
            "The server here caches answers with the cache local: its models would not be cached "
            "with this image."
        )
    if set(given.cache) - caches:
        raise NotYet("It names a cache that this repository does not use.")
    if given.repoagent:
        raise NotYet("No model of the repository names a repository agent.")


def needed(server: Server) -> tuple[set[str], set[str]]:
    """Return the backends and the caches that the loaded models need."""
    configs = [server.config(model["name"]) for model in server.index(ready_only=True)]
    backends = {config["backend"] for config in configs if config.get("platform") != _CORE}
    cached = any(config.get("response_cache", {}).get("enable") for config in configs)
    return backends, {"local"} if cached else set()


def _models_of(server: Server, backends: set[str]) -> str:
    names: list[str] = [model["name"] for model in server.index(ready_only=True)]
    return next(name for name in names if server.config(name)["backend"] in backends)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise NotYet(f"compose.py would not take the command: {message}.")


def _parsed(file: Path) -> argparse.Namespace:
    """Parse the options of the command in a file as compose.py does.

    Raises:
        NotYet: there is no command of compose.py, or compose.py would refuse it.
    """
    text = file.read_text("utf-8") if file.exists() else ""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise NotYet(f"The shell would not take the command: {error}.") from None
    if not any(word.endswith("compose.py") for word in words):
        raise NotYet("compose.sh does not call compose.py.")
    after = next(place for place, word in enumerate(words) if word.endswith("compose.py"))
    parser = _Parser(add_help=False, allow_abbrev=False)
    for name in ("--backend", "--cache", "--repoagent"):
        parser.add_argument(name, action="append", default=[])
    for name in ("--container-version", "--output-name", "--work-dir"):
        parser.add_argument(name, default="")
    parser.add_argument("--dry-run", action="store_true")
    given, unknown = parser.parse_known_args(words[after + 1 :])
    if unknown:
        raise NotYet(
            f"This course does not know the option {unknown[0]} of compose.py, and this image does "
            "not need it: leave it out."
            if unknown[0].startswith("-")
            else f"compose.py would not take the word {unknown[0]}."
        )
    return given
