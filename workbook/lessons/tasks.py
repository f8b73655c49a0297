"""Tasks: the reader changes or repairs something on a server, and the server's state shows it.

The folder of a notebook has its tasks in `task.py`. They are found by their ids:

    from workbook.lessons.tasks import NotYet, define

    @define(
        "repository.half",
        hints=("Which files does the log name?", "Version 2 lacks its weights.",
               "Copy model.onnx from version 1, and load the model again."),
    )
    def half(server: Server) -> None:
        \"\"\"Make version 2 of `half` answer.\"\"\"
        if not server.ready("half", "2"):
            raise NotYet("Version 2 is not ready.")

    def start(folder: Path) -> Server:
        \"\"\"The state in which the reader begins, in the folder, and its server.\"\"\"

`task("repository.half", server=lab, models=models)` in the notebook calls the function with the
server, and with the other arguments that its parameters name (`models`).

The solution is `solution.py` beside `task.py`. It runs with the names `lab` and `server` (the
same), `models`, `write`, `shutil` and `Path`, and may import the notebook's own modules:

    shutil.copy(models / "half/1/model.onnx", models / "half/2/model.onnx")
    lab.load("half")

A reader's copy in `work/` lacks it; readers see it on the site only, behind a fold. Tests look at
the task before and after it (`test_tasks.py`).
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common import paths
from ..common.errors import WorkbookError
from ..notebooks import building
from ..server import Server
from . import units
from .workspace import checked_name, write

Check = Callable[..., None]


class NotYet(Exception):
    """A task is not done. The message says what is missing, but not how to do it."""


class CannotTell(NotYet):
    """The measurements do not show whether a task is done, because other programs disturbed them.

    A check that depends on time raises this where it can neither say "done" nor "not yet".
    """

    def __init__(self, seen: str) -> None:
        super().__init__(f"{seen} The machine was busy. Look again, when it is quieter.")


@dataclass(frozen=True)
class Task:
    """A task for the reader.

    Attributes:
        id: e.g. `repository.half`.
        sentence: what is to be done, from the check's docstring.
        check: raises `NotYet` until the task is done.
        hints: shown one by one; each hint says more than the one before.
        start: makes the state in which the reader begins, in an empty folder, and returns the
            server that serves it.
    """

    id: str
    sentence: str
    check: Check
    hints: tuple[str, ...]
    start: Callable[[Path], Server]

    @property
    def solution(self) -> str:
        """The text of `solution.py`, which lies beside the module of the check."""
        module = Path(self.check.__code__.co_filename)
        return module.with_name(building.SOLUTION).read_text("utf-8")

    def missing(self, server: Server, **given: Any) -> str:
        """What is still missing, as a sentence; "" when the task is done. Arguments as in `look`.

        find("repository.half").missing(server)     # "Version 2 is not ready."
        """
        lack = self.look(server, **given)
        return "" if lack is None else str(lack)

    def look(self, server: Server, **given: Any) -> NotYet | None:
        """Look whether the task is done: None if it is, `NotYet` with what is missing if not, or
        `CannotTell`.

        Args:
            server: where to look.
            given: what the notebook passes besides, e.g. `models`. The check gets what its
                parameters name.
        """
        wanted = inspect.signature(self.check).parameters
        try:
            self.check(server, **{name: given[name] for name in given if name in wanted})
        except NotYet as lack:
            return lack
        except WorkbookError as error:  # the server refused something: not yet as it should be
            return NotYet(str(error))
        return None


_tasks: dict[str, Task] = {}


def define(
    id: str,
    *,
    hints: tuple[str, ...],
    start: Callable[[Path], Server] | None = None,
) -> Callable[[Check], Check]:
    """Register a task: a decorator for its check. The docstring of this module has an example.

    Args:
        id: the topic, a dot, and the task's own name.
        hints: at least two, from a first direction to the step to take.
        start: makes the starting state; by default the module's function `start`.

    Raises:
        WorkbookError: the id has other characters, or the check has no docstring.
    """
    checked_name(id)

    def register(check: Check) -> Check:
        if not check.__doc__:
            raise WorkbookError(
                f"The task {id!r} does not say what is to be done.", todo="Write a docstring."
            )

        def begin(folder: Path) -> Server:
            made: Server = (start or check.__globals__["start"])(folder)
            return made

        sentence = " ".join(check.__doc__.split())
        _tasks[id] = Task(id, sentence, check, tuple(hints), begin)
        return check

    return register


def find(id: str) -> Task:
    """The task of this id.

        find("repository.half").sentence

    Raises:
        WorkbookError: there is none.
    """
    checked_name(id)
    if id not in _tasks and (home := _home(id)):
        units.load(home, "task")
    if id not in _tasks:
        raise WorkbookError(
            f"There is no task {id!r}.",
            where=str(paths.root() / "lectures"),
            todo="Look at the name in the cell. If the cell is of an older notebook whose task the "
            "course no longer has, open today's notebook from `lectures/`.",
        )
    return _tasks[id]


def ids() -> list[str]:
    """The ids of all tasks, in order of the alphabet."""
    for home in units.folders():
        if (home / "task.py").is_file():
            units.load(home, "task")
    return sorted(_tasks)


def solve(id: str, server: Server, models: Path | None = None, code: str = "") -> None:
    """Apply a task's solution, as tests do. It runs in this process.

        solve("repository.half", lab, models)

    Args:
        id: the task.
        server: where the reader works.
        models: the folder that it serves; needed if the solution names it.
        code: what runs in place of the solution.

    Raises:
        WorkbookError: there is no such task; the server refused a model.
    """
    code = inspect.cleandoc(code) or find(id).solution
    names = {"server": server, "lab": server, "models": models, "write": write,
             "shutil": shutil, "Path": Path}  # fmt: skip
    with units.importable(_home(id) or Path.cwd()):
        exec(compile(code, f"the solution of {id}", "exec"), names)


def _home(id: str) -> Path | None:
    """The folder whose `task.py` defines a task: the notebook's own, or another of the course."""
    for home in (Path.cwd(), *units.folders()):
        file = home / "task.py"
        if file.is_file() and f'"{id}"' in file.read_text("utf-8"):
            return home
    return None
