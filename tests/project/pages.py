"""Read the project's own pages of text for tests: their commands, links and headings."""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

import grader.cli
import workbook.cli
from tests.lectures.upstream_links import anchors_of_markdown
from workbook.common import paths

#: Commands that belong to the system, to Docker or to others; the tests do not know their options.
OTHERS = frozenset(
    {
        *("apt-get", "cp", "curl", "cd", "dask", "docker", "git", "helm", "kill", "kubectl", "ls"),
        *("mkdir", "scp", "source", "sudo"),
    }
)
_BLOCK = re.compile(r"(?ms)^[ ]*```(\w*)\n(.*?)^[ ]*```$")
_INLINE = re.compile(r"`((?:make|workbook|grader|\.venv/bin/\w+)(?: [^`]+)?)`")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def files() -> list[Path]:
    """The Markdown files of the project that people read; built reports and lists are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=paths.root(), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = sorted(paths.root() / name for name in listed.split("\0") if name)
    return [path for path in found if path.is_file()]


def own() -> list[Path]:
    """The pages in `docs/` and at the top of the checkout."""
    return [path for path in files() if path.parent.name in ("docs", paths.root().name)]


def text(path: Path) -> str:
    """A page without comments."""
    return re.sub(r"(?s)<!--.*?-->", "", path.read_text("utf-8"))


def commands(page: str) -> list[str]:
    """The commands of a page: lines with `$` in its blocks, and those in backquotes."""
    found = []
    for language, block in _BLOCK.findall(page):
        if language not in ("", "console", "sh"):
            continue
        joined = textwrap.dedent(block).replace("\\\n", " ")
        found += [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
    outside = _BLOCK.sub("", page)
    return found + [" ".join(inline.split()) for inline in _INLINE.findall(outside)]


def typed(command: str) -> str:
    """A command without the comment behind it."""
    return " ".join(command.partition("  #")[0].partition(" # ")[0].split())


def fault(command: str) -> str:
    """What is wrong with a command; "" if the program has this command and these options.

        fault("workbook serve --detach")      # ""
        fault("make labs")                    # "make has no labs"

    A word in capitals stands for a value of the reader's, and `…` for more words.
    """
    words = shlex.split(typed(command))
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):  # variables before a command
        words = words[1:]
    if not words:
        return ""
    name, rest = words[0].rpartition("/")[2], words[1:]
    if name == "make":
        return _make(rest)
    if name in ("workbook", "grader"):
        app = workbook.cli.app if name == "workbook" else grader.cli.app
        return _typer(name, typer.main.get_command(app), rest)
    if words[0].startswith(".venv/bin/") or words[0] in ("mypy", "pytest", "ruff"):
        return _in_environment(name, rest)
    if (paths.root() / words[0]).is_file():  # a program of the checkout
        return ""
    return "" if name in OTHERS else f"{name} is no command of the course"


def links(page: str) -> Iterator[str]:
    """The addresses that a page links to, pictures too."""
    for one in _LINK.finditer(re.sub(r"(?s)```.*?```|`[^`]*`", "", page)):
        yield one[1] or one[2]


def broken(path: Path) -> list[str]:
    """The links of a page to files or headings of the checkout that are not there."""
    faults = []
    for link in links(text(path)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        there = (path.parent / name).resolve() if name else path
        if not there.exists():
            faults.append(f"{path.name}: {link}: no such file")
        elif anchor and there.suffix == ".md" and anchor not in _anchors(there):
            faults.append(f"{path.name}: {link}: no such heading")
    return faults


def _anchors(page: Path) -> list[str]:
    return anchors_of_markdown(page.read_text("utf-8"))


def _make(words: list[str]) -> str:
    makefile = (paths.root() / "Makefile").read_text("utf-8")
    known = set(re.findall(r"(?m)^([a-z][a-z-]*):", makefile))
    settings = {*re.findall(r"(?m)^([A-Z]+) \?=", makefile)}
    for word in words:
        setting = re.match(r"([A-Z]+)=", word)
        if setting and setting[1] not in settings:
            return f"make has no variable {setting[1]}"
        if not setting and word not in known:
            return f"make has no {word}"
    return ""


def _typer(name: str, command: Any, words: list[str]) -> str:
    for position, word in enumerate(words):
        commands = getattr(command, "commands", {})
        if commands and not word.startswith("-"):
            if word == "…":
                return ""
            if word not in commands:
                return f"{name} has no {word}"
            command = commands[word]
        elif word.startswith("--"):
            options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
            if word.partition("=")[0] not in {*options, "--help"}:
                return f"{' '.join([name, *words[:position]])} has no option {word}"
    return ""


def _in_environment(name: str, words: list[str]) -> str:
    """A program of `.venv/bin`: it is installed, and files and modules in its words are there."""
    if not (paths.root() / ".venv/bin" / name).exists():
        return f".venv/bin has no {name}"
    for word in words:
        place = word.partition("::")[0]
        ours = re.match(r"(tests|docker|lectures|workbook|grader|solutions)/", place)
        if ours and not (paths.root() / place).exists():
            return f"there is no {place}"
    if words[:1] == ["-m"] and re.match(r"(tests|workbook|grader|benchmarks)\b", words[1]):
        module = paths.root() / words[1].replace(".", "/")
        if not (module.with_suffix(".py").is_file() or module.is_dir()):
            return f"there is no module {words[1]}"
    return ""
