"""How often a task's verdict is right on a busy machine: `python -m tests.lectures.busy`.

Two loops that never end keep two cores busy. Meanwhile each task that depends on time looks twenty
times at a right answer, at the state in which it begins, and at wrong answers. A right answer must
never get "not yet", and a wrong one never "done"; both may get "cannot tell".

With the name of a lecture, e.g. `06__queue_policies`, the lecture is run so often, and its claims
and comparisons are counted: done if they hold, "not yet" if one does not, although its premise was
true, and "cannot tell" if a premise was false.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from tests.lectures.wrong_answers import ALMOST, ALSO_RIGHT
from workbook.common.errors import WorkbookError
from workbook.lessons import tasks, units
from workbook.notebooks import building, executing
from workbook.server import Triton
from workbook.site import executed

#: The tasks whose verdict depends on time; the others look at contents and counts.
TIMED = (
    "schedulers.chain",
    "sequences.apart",
    "batcher.crowded",
    "policies.flooded",
    "metrics.queue",
    "in_process.bridge",
    "python.verdict",
    "openvino.lone",
    "llm.assistant",
)
_BUSY = "while True: pass"


def main() -> int:
    """Print the table; returns 1 if a verdict was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "tasks", nargs="*", default=TIMED, help="tasks or lectures; by default all timed tasks"
    )
    parser.add_argument("--times", type=int, default=20, help="how often each answer is looked at")
    parser.add_argument("--loops", type=int, default=2, help="programs that keep a core busy")
    given = parser.parse_args()
    os.environ["WORKBOOK_UNATTENDED"] = "1"
    rows = []
    with busy(given.loops):
        for id in given.tasks:
            for answer, is_right, seen in verdicts(id, given.times):
                wrong = seen["not yet" if is_right else "done"]
                counts = {name: seen[name] for name in ("done", "cannot tell", "not yet")}
                rows.append({"of": id, "answer": answer, **counts, "wrong": wrong or ""})
                print(*rows[-1].values(), sep=" | ", file=sys.stderr, flush=True)
    print(pd.DataFrame(rows).to_string(index=False))
    return int(any(row["wrong"] for row in rows))


def verdicts(id: str, times: int) -> Iterator[tuple[str, bool, Counter[str]]]:
    """The verdicts on each answer to a task, or on each cell of a lecture that claims something."""
    if "." in id:
        for answer, is_right, code in answers(id):
            yield answer, is_right, looks(id, code, times)
    else:
        for told, seen in claims(id, times).items():
            yield told, True, seen


def claims(name: str, times: int) -> dict[str, Counter[str]]:
    """Run a lecture, and count what each cell with claims and comparisons says."""
    (source,) = (each.source for each in building.lectures() if each.source.parent.name == name)
    seen: dict[str, Counter[str]] = {}
    with executed.shared_server([source]) as environment:
        for _ in range(times):
            with executing.session(source, environment) as lecture:
                for place, cell in enumerate(lecture.node.cells):
                    lack = ""
                    try:
                        lecture.run_cell(place)
                    except WorkbookError as error:
                        lack = str(error)
                        print(name, lack[-600:], file=sys.stderr)
                    told = re.findall(r'(?:claim|compare)\("(.+?)"', cell.source)
                    if told or lack:
                        key = ", ".join(dict.fromkeys(told)) or cell.source[:40]
                        seen.setdefault(key, Counter())[said(lack)] += 1
    return seen


def said(lack: str) -> str:
    """The verdict of a cell, from its error."""
    if "This run does not show it" in lack or "Cannot tell" in lack:
        return "cannot tell"
    return "not yet" if lack else "done"


def answers(id: str) -> Iterator[tuple[str, bool, str]]:
    """The answers to a task: a name, whether it is right, and the code."""
    yield "solution", True, tasks.find(id).solution
    if id in ALSO_RIGHT:
        yield "another solution", True, ALSO_RIGHT[id]
    yield "untouched", False, ""
    for wrong in ALMOST:
        if wrong.task == id:
            yield wrong.said, False, wrong.code


def looks(id: str, answer: str, times: int) -> Counter[str]:
    """Give an answer to a task on a server of its own, and count its verdicts."""
    task, seen = tasks.find(id), Counter[str]()
    with tempfile.TemporaryDirectory() as home:
        models = Path(home) / "models"
        models.mkdir()
        server = task.start(models)
        try:
            if answer:
                tasks.solve(id, server, models, answer)
            for _ in range(times):
                lack = task.look(server, models=models)
                unsure = isinstance(lack, tasks.CannotTell)
                verdict = "cannot tell" if unsure else "not yet" if lack else "done"
                seen[verdict] += 1
                if lack:
                    print(f"  {verdict}: {lack}", file=sys.stderr, flush=True)
        finally:
            inside = units.load(units.find("12__in_process"), "setup").Inside
            if isinstance(server, Triton | inside):
                server.stop()
    return seen


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Within the block, so many programs keep a core busy each."""
    loops = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()


if __name__ == "__main__":
    sys.exit(main())
