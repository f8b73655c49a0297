"""Read the laptop image's Dockerfile for tests: its stages, and what each one copies."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
from pathlib import Path

import pathspec

from workbook.common import paths

HOME = paths.root() / "docker" / "laptop"
_STAGE = re.compile(r"FROM (\S+)(?: AS (\S+))?")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments, continued lines joined."""
    text = (HOME / "Dockerfile").read_text("utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    pairs = [line.partition(" ") for line in lines if line.strip()]
    return [(name.upper(), " ".join(words.split())) for name, _, words in pairs]


def value(name: str) -> str:
    """The argument of the last instruction of this name."""
    return [words for each, words in instructions() if each == name][-1]


def command() -> list[str]:
    """What the image runs: its CMD."""
    return [str(word) for word in json.loads(value("CMD"))]


def copied(target: str) -> dict[str, str]:
    """The files of the checkout that a target gets: its path in the image → that in the checkout.

    Args:
        target: a stage's name. Stages that it is built `FROM` count; stages that it copies from do
            not.
    """
    stages: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for instruction, words in instructions():
        if instruction == "FROM":
            found = _STAGE.match(f"FROM {words}")
            assert found is not None
            name = found[2]
            stages[name] = (found[1], [])
        elif instruction == "COPY" and "--from" not in words:
            stages[name][1].append(words)
    files: dict[str, str] = {}
    while target in stages:
        base, copies = stages[target]
        for words in copies:
            files = {**_matched(words), **files}
        target = base
    return files


def _matched(words: str) -> dict[str, str]:
    """The files of one COPY, in the form of `copied`."""
    *sources, to = [word for word in words.split() if not word.startswith("--")]
    files: dict[str, str] = {}
    for source in sources:
        found = [name for name in context() if _is_in(name, source)]
        assert found, f"COPY {words}: the build would find no {source}"
        for name in found:
            inner = Path(name).relative_to(source) if name.startswith(f"{source}/") else None
            place = Path(to, inner) if inner else Path(to, Path(name).name)
            files[place.as_posix()] = name
    return files


def _is_in(name: str, source: str) -> bool:
    if name == source or name.startswith(f"{source}/"):
        return True
    same_depth = name.count("/") == source.count("/")  # in Docker, * does not match a slash
    return same_depth and fnmatch.fnmatchcase(name, source)


def context() -> list[str]:
    """The tracked and new files that .dockerignore lets into a build."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=paths.root(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = [name for name in listed.split("\0") if name and (paths.root() / name).is_file()]
    hidden = ignored()
    return [name for name in names if not hidden.match_file(name)]


def ignored() -> pathspec.PathSpec:
    """`.dockerignore` as patterns. Unlike git's, each begins at the top of the checkout."""
    lines = (paths.root() / ".dockerignore").read_text("utf-8").splitlines()
    anchored = [
        f"!/{line[1:]}" if line.startswith("!") else f"/{line}"
        for line in lines
        if line and not line.startswith("#")
    ]
    return pathspec.PathSpec.from_lines("gitignore", anchored)
