"""Build the artefacts that are missing: one process for each, at most one for each core at a time,
and at most four in all."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..common import paths
from ..common.errors import WorkbookError
from .recipe import RECIPES, Recipe, place

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

#: Each process takes up to some 700 MB while it trains.
MOST_AT_ONCE = 4

#: Called with the names of the artefacts that are being built, whenever these change.
ReportRunning = Callable[[Collection[str]], None]


class BuildError(WorkbookError):
    """An artefact of the zoo could not be built."""


def recipe(name: str) -> Recipe:
    """The recipe with this name, for example `recipe("digits_onnx")`.

    Raises:
        BuildError: there is none.
    """
    if name not in RECIPES:
        raise BuildError(
            f"The zoo has no artefact called {name!r}.",
            todo=f"Take one of: {', '.join(sorted(RECIPES))}.",
        )
    return RECIPES[name]


def missing(names: Iterable[str]) -> list[str]:
    """The missing artefacts, among these and those that they are made from.

    They come in an order in which they can be built: missing(["digits_onnx"]) may return
    `["digits_cnn", "digits_onnx"]`.
    """
    found: dict[str, None] = {}

    def look(name: str) -> None:
        if not place(recipe(name), RECIPES).exists():
            for need in recipe(name).needs:
                look(need)
            found[name] = None

    for name in names:
        look(name)
    return list(found)


def made_from(name: str) -> set[str]:
    """The names of an artefact and of all artefacts that it is made from, directly or indirectly.

    made_from("digits_onnx_fp16")       # {"digits_onnx_fp16", "digits_onnx", "digits_cnn"}
    """
    return {name}.union(*(made_from(need) for need in recipe(name).needs))


def build(
    names: Iterable[str] | None = None,
    *,
    report: ReportRunning = lambda running: None,
    bar: bool = True,
    background: bool = False,
) -> dict[str, Path]:
    """Build artefacts that are not there yet, and return where all of them lie.

        build(["digits_onnx"])["digits_onnx"]       # …/.workbook/zoo/digits_onnx/<key>/model.onnx

    Args:
        names: which ones; by default all but those that are built on request only.
        report: called with the names of the artefacts that are being built, whenever these change.
        bar: show a progress bar on the terminal.
        background: build with a low priority, because nobody waits for the artefacts.

    Raises:
        BuildError: one failed; the others that were being built are stopped.
    """
    usual = (name for name, found in RECIPES.items() if not found.on_request)
    wanted = list(usual if names is None else names)
    try:
        todo = missing(wanted)
        if todo:
            _run(todo, report, bar, background)
        return {name: place(recipe(name), RECIPES) for name in wanted}
    except OSError as error:
        raise BuildError(
            f"The folder for what is built cannot be written: {error.strerror}.",
            where=str(error.filename or paths.root() / ".workbook"),
            todo="Free some disk space, or check who owns the folder.",
        ) from None


def _run(todo: list[str], report: ReportRunning, bar: bool, background: bool) -> None:
    from rich.console import Console

    logs = paths.state("zoo", "logs")
    at_once = min(len(os.sched_getaffinity(0)), MOST_AT_ONCE)
    waiting, done = list(todo), 0
    running: dict[str, subprocess.Popen[bytes]] = {}
    with (
        contextlib.ExitStack() as stack,
        progress_bar(Console(stderr=True), disable=not bar) as progress,
    ):
        task = progress.add_task("building", total=len(todo))
        stack.callback(_stop, running)
        seen: set[str] = set()
        while waiting or running:
            for name in [n for n in waiting if _can_start(n, waiting, running)]:
                if len(running) == at_once:
                    break
                waiting.remove(name)
                log = stack.enter_context((logs / f"{name}.log").open("w"))
                running[name] = _start(name, log, background)
            if seen != set(running):
                seen = set(running)
                report(seen)
            if bar:
                sentences = (
                    f"{name}: {RECIPES[name].sentence}{_how_far(logs / f'{name}.log')}"
                    for name in running
                )
                progress.update(task, description="\n".join(sentences))
            time.sleep(0.05)
            for name, process in list(running.items()):
                if process.poll() is None:
                    continue
                del running[name]
                if process.returncode:
                    raise _failure(name, logs / f"{name}.log", process.returncode)
                done += 1
                progress.advance(task)
        report(())
        progress.update(task, description=f"built: {done}", refresh=True)


def progress_bar(console: Console, *, disable: bool = False) -> Progress:
    """A progress bar with the number that are built, the time, and what is being built.

    On a narrow terminal the sentences continue on the next line. By default Rich keeps a text
    column on one line, and cuts off the columns before it, such as the time.

    Args:
        console: where it is shown.
        disable: show nothing.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.table import Column

    return Progress(
        SpinnerColumn(table_column=Column(no_wrap=True)),
        BarColumn(20, table_column=Column(no_wrap=True)),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.description}", table_column=Column(no_wrap=False)),
        console=console,
        disable=disable,
    )


def _how_far(log: Path) -> str:
    """The progress of a long build: the last line of its log that begins with a percentage."""
    found = re.findall(r"^(\d+%.*)\n", log.read_text(errors="replace"), re.MULTILINE)
    return f" ({found[-1]})" if found else ""


def _can_start(name: str, waiting: Collection[str], running: Collection[str]) -> bool:
    return not any(need in waiting or need in running for need in RECIPES[name].needs)


def _start(name: str, log: IO[str], background: bool) -> subprocess.Popen[bytes]:
    way = ["background"] if background else []
    return subprocess.Popen(
        [sys.executable, "-m", "workbook.zoo.worker", name, *way],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env={**os.environ, "WORKBOOK_HOME": str(paths.root())},
    )


def _stop(running: dict[str, subprocess.Popen[bytes]]) -> None:
    for process in running.values():
        process.kill()
    for process in running.values():
        process.wait()


def _failure(name: str, log: Path, code: int) -> BuildError:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = lines[-1] if lines else f"it ended with code {code}"
    if code < 0:
        last = f"it was ended by signal {-code}"
        todo = "Free some memory (a build takes up to 700 MB) and run the same command again."
    elif "No space left" in last:
        todo = "Free some disk (the zoo takes about 50 MB) and run the same command again."
    else:
        todo = "Read the log; correct what it names, then run the same command again."
    return BuildError(f"{name} could not be built: {last}", where=str(log), todo=todo)
