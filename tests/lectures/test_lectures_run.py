"""Every lecture runs on a real server, and its cells run again."""

from __future__ import annotations

import inspect
import json
import operator
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.beside import turn
from tests.lectures.changes import CHANGES
from tests.lectures.course import LECTURES, each_lecture, proofs
from workbook.common.errors import WorkbookError
from workbook.notebooks import executing
from workbook.server import Server
from workbook.site import executed

pytestmark = pytest.mark.server

#: Cells that take longer are not run twice in a row.
SHORT_SECONDS = 1.5
#: If the first run takes longer, only `make mutants` does a second one, or runs the portable cells:
#: the tests that run at each change have to end within the hour.
SECOND_RUN_SECONDS = 12.0
PORTABLE_SECONDS = 25.0
#: All tries of a lecture have to end in this time.
TEST_SECONDS = 1_800

#: Errors that a busy machine can cause: the lecture is run again, with a warning.
SPOILT = re.compile(f"{executed.MEASURED.pattern}|took longer than")


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """A server on the shared repository, with the models that the lectures of this run name."""
    run = [
        value
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module
        for value in (item.callspec.params.values() if hasattr(item, "callspec") else ())
    ]
    with executed.shared_server([p for p in LECTURES if p in run or p.stem in run]) as environment:
        yield environment


@pytest.mark.alone
@pytest.mark.timeout(TEST_SECONDS)
@each_lecture
def test_a_lecture_runs_and_its_cells_run_again(path: Path, shared: dict[str, str]) -> None:
    """A lecture runs from top to bottom; then a reader goes back to its start and plays with it.

    First run: every cell runs, every claim holds, and the shared server serves what it served
    before. Cells that take less than `SHORT_SECONDS` run twice in a row.

    Unless the first run took more than `PORTABLE_SECONDS`, the cells with the tag `triton` then run
    on the same server, in a Python that lacks the course (portable_cells.py).

    Second run, unless the first took more than `SECOND_RUN_SECONDS`. In the same kernel, so with
    all that the first run left behind, every code cell runs, with another number where `CHANGES`
    has one. At the end of each section (a heading of the second level), the cells of the section
    that only look at results run once more, in reverse order. No cell may raise, so no claim may
    fail either. What this test leaves out after a long first run, the next test does.

    Lectures measure. Where a claim or a premise is false in one try, or a cell takes minutes, the
    lecture is tried again. At the first try another lecture may run beside it.
    """
    play_until_undisturbed(path, shared, operator.lt)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(TEST_SECONDS)
@each_lecture
def test_the_cells_of_a_lecture_that_takes_long_run_again(
    path: Path, shared: dict[str, str]
) -> None:
    """What the test above leaves out after first runs that take long."""
    play_until_undisturbed(path, shared, operator.ge)


def play_until_undisturbed(
    path: Path, shared: dict[str, str], wanted: Callable[[float, float], bool]
) -> None:
    """Play a lecture; a try in which a measurement was disturbed is repeated.

    Args:
        path: the lecture's source.
        shared: the variables with the shared server's addresses.
        wanted: whether something is done after the first run, given the seconds that this took and
            those that set the two tests apart.
    """
    served = serves(shared["TRITON_URL"])
    for left in reversed(range(executed.TRIES)):
        try:
            with turn(by_itself=left < executed.TRIES - 1):
                play(path, shared, wanted)
            break
        except WorkbookError as error:
            # Other programs on this machine can spoil a measurement, or take the processor for
            # minutes. Anything else is a mistake.
            if not left or not SPOILT.search(str(error)):
                raise
            warnings.warn(str(error), stacklevel=1)
    assert serves(shared["TRITON_URL"]) == served


def test_a_cell_that_hangs_is_named_before_the_test_ends() -> None:
    """A load gives up before its cell is stopped, and the last try's cell ends before the test.

    Without the cell that hangs, a lecture's first run takes up to four minutes.
    """
    load = inspect.signature(Server.load).parameters["timeout"].default
    assert load < executing.TIMEOUT
    assert executed.TRIES * (executing.TIMEOUT + 240) <= TEST_SECONDS


def play(path: Path, shared: dict[str, str], wanted: Callable[[float, float], bool]) -> None:
    """The runs of `test_a_lecture_runs_and_its_cells_run_again`.

    Raises:
        WorkbookError: a cell failed.
    """
    with executing.session(path, shared) as lecture:
        seconds = first_run(path, lecture)
        if wanted(seconds, PORTABLE_SECONDS):
            run_portable_cells(path, lecture)
        if wanted(seconds, SECOND_RUN_SECONDS):
            second_run(path, lecture)


def first_run(path: Path, lecture: executing.Session) -> float:
    """Run the lecture from top to bottom, keep the executed copy, and check the proofs.

    Returns:
        The seconds that the cells took.
    """
    total = 0.0
    for place, cell in enumerate(lecture.node.cells):
        began = time.monotonic()
        lecture.run_cell(place)
        took = time.monotonic() - began
        total += took
        if cell.cell_type == "code" and took < SHORT_SECONDS:
            lecture.cell(place)
    lecture.node.metadata.workbook["seconds"] = round(total, 1)
    executed.keep(path, lecture.node)
    assert all(c.execution_count for c in lecture.node.cells if c.cell_type == "code")
    missing = set(proofs(path)) - shown(lecture.node)
    assert not missing, f"claims and tasks that did not run: {sorted(missing)}"
    return total


#: Code that prints the addresses of a kernel's server.
_ADDRESSES = """
import json, os
print(json.dumps({k: v for k, v in os.environ.items() if k == "PATH" or k[:7] == "TRITON_"}))
"""


#: perf_analyzer for cells whose numbers nobody reads: its windows take a third of the time. If it
#: measures nothing in so short a window, it does what it was asked. A load that goes on until the
#: cell ends it is left as it is.
_SHORT_WINDOWS = """#!{python} -IS
import os, subprocess, sys

asked = [{program!r}, *sys.argv[1:]]
ms = int(asked[asked.index("-p") + 1]) if "-p" in asked else 0
if 0 < ms < 10_000:
    short = list(asked)
    short[asked.index("-p") + 1] = str(max(100, ms // 3))
    done = subprocess.run(short, capture_output=True)
    if done.returncode == 0:
        sys.stdout.buffer.write(done.stdout)
        sys.stderr.buffer.write(done.stderr)
        sys.exit()
os.execv(asked[0], asked)
"""


def shorten_windows(path: str, folder: Path) -> str:
    """A search path of programs on which perf_analyzer is `_SHORT_WINDOWS`.

    Args:
        path: the search path.
        folder: where the program is written.
    """
    if (program := shutil.which("perf_analyzer", path=path)) is None:
        return path
    file = folder / "perf_analyzer"
    file.write_text(_SHORT_WINDOWS.format(python=sys.executable, program=program), "utf-8")
    file.chmod(0o755)
    return f"{folder}:{path}"


def run_portable_cells(path: Path, lecture: executing.Session) -> None:
    """Run the cells with the tag `triton`, in their order, in a Python that lacks the course.

    The first run has measured: here, perf_analyzer measures for a shorter time.

    Raises:
        WorkbookError: a cell failed.
    """
    cells = [c.source for c in lecture.node.cells if "triton" in c.metadata.get("tags", ())]
    last = max(i for i, cell in enumerate(lecture.node.cells) if cell.cell_type == "code")
    addresses = json.loads(lecture.cell(last, _ADDRESSES).outputs[0].text)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cells.json")
        file.write_text(json.dumps(cells), "utf-8")
        script = Path(__file__).with_name("portable_cells.py")
        packages = sysconfig.get_path("purelib")
        addresses["PATH"] = shorten_windows(addresses["PATH"], Path(folder))
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(script), packages, str(file)],
            cwd=path.parent,
            env={**os.environ, **addresses, "IPYTHONDIR": folder},
            capture_output=True,
            text=True,
            timeout=executing.TIMEOUT,
            check=False,
        )
    if done.returncode:
        raise WorkbookError(
            f"A cell of {path.parent.name} does not run without the course.",
            where=str(path),
            todo=f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}",
        )


def second_run(path: Path, lecture: executing.Session) -> None:
    """Run the lecture again in the same kernel, with other numbers, and earlier cells once more."""
    changes = list(CHANGES.get(path.parent.name, ()))
    for section in sections(lecture.node):
        looking = []
        for place in section:
            code = lecture.node.cells[place].source
            for text, other in [pair for pair in changes if pair[0] in code]:
                code = code.replace(text, other)
                changes.remove((text, other))
            lecture.cell(place, code)
            if only_looks(code):
                looking.append(place)
        for place in reversed(looking):
            lecture.cell(place)
    assert not changes, f"no cell holds {changes}"


def shown(node: Any) -> set[str]:
    """The ids of the claims that held, and of the tasks that were shown, in an executed lecture."""
    cards = [
        output.get("metadata", {}).get("workbook", {})
        for cell in node.cells
        for output in cell.get("outputs", ())
    ]
    return {card[kind] for card in cards for kind in ("claim", "task") if kind in card}


@pytest.mark.alone  # both runs need the same server
@pytest.mark.parametrize(
    ("name", "lost", "needed"),
    [("00__start", ["square"], "square")],
)
def test_the_first_cell_loads_what_the_server_has_lost(
    shared: dict[str, str], name: str, lost: list[str], needed: str
) -> None:
    with Server(shared["TRITON_URL"]) as server:
        served = serves(shared["TRITON_URL"])
        for model in lost:
            server.unload(model)
        assert serves(shared["TRITON_URL"]) != served
        path = next(path for path in LECTURES if path.parent.name == name)
        with executing.session(path, shared) as lecture:
            first = next(i for i, c in enumerate(lecture.node.cells) if c.cell_type == "code")
            lecture.cell(first)
        assert server.ready(needed)
        assert serves(shared["TRITON_URL"]) == served


def sections(node: Any) -> list[list[int]]:
    """The places of the code cells of each section, from one heading `## …` to the next."""
    found: list[list[int]] = [[]]
    for place, cell in enumerate(node.cells):
        if cell.cell_type == "code":
            found[-1].append(place)
        elif cell.source.startswith("## "):
            found.append([])
    return found


def only_looks(code: str) -> bool:
    """Whether a cell only compares and claims, and sends nothing to a server."""
    asks = r"\b(lab|server|poller|client|openai|core|connect|attempt|ask|httpx|started)\b"
    return bool(re.search(r"\b(compare|claim)\(", code)) and not re.search(asks, code)


def serves(url: str) -> list[tuple[str, str]]:
    with Server(url) as server:
        return sorted((m["name"], str(m.get("version"))) for m in server.index(ready_only=True))
