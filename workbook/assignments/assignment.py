"""What an assignment is: its name, its folders and files, its cells and their points.

    solutions/a2__forest/a2.py          the source, with solutions
    solutions/a2__forest/a2.ipynb       the instructor's notebook, built from the source
    solutions/a2__forest/checks.py      its checks; facts.py: what they share with the notebook
    solutions/a2__forest/starter/       files that students start with: models/forest/config.pbtxt
    solutions/a2__forest/solution/      the same files, solved; students never get them
    assignments/a2__forest/             what students get: notebook, starter files, checks, facts

The last of these folders is built from the others (build.py). It gets only the modules that MODULES
and the source's header name: hidden checks, wrong answers and attacks lie in the same folder and
must not reach students.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..common import paths
from ..common.errors import WorkbookError
from . import cells

CLUTTER = {
    *("__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".git", ".venv", ".workbook"),
    *(".DS_Store", "__MACOSX", "Thumbs.db", "desktop.ini"),
}
"""Files and folders that tools and operating systems leave behind: never copied, never submitted,
and left out of what is handed in."""

MOST_ENTRIES = 2_000
"""How many files and folders the grader takes of a submission."""

MODULES = ("checks", "facts")
"""The modules that students get of every assignment. The field `modules` of a source's header
names those that they get beside."""

_NAME = re.compile(r"a[0-9]+__[a-z0-9_]+")


@dataclass(frozen=True)
class Assignment:
    """One assignment of a checkout.

    Example:
        forest = assignments.named("a2")
        forest.source       # solutions/a2__forest/a2.py
        forest.handout      # assignments/a2__forest/
        forest.checks       # {"a2.probabilities": 15, …}

    Attributes:
        name: e.g. "a2__forest".
        home: the checkout that it belongs to.
    """

    name: str
    home: Path

    @property
    def short(self) -> str:
        """The short name, e.g. "a2"."""
        return self.name.split("__")[0]

    @property
    def folder(self) -> Path:
        """The instructor's folder; a student's checkout does not have it."""
        return self.home / "solutions" / self.name

    @property
    def source(self) -> Path:
        """The py:percent source, with solutions."""
        return self.folder / f"{self.short}.py"

    @property
    def instructor(self) -> Path:
        """The instructor's notebook."""
        return self.source.with_suffix(".ipynb")

    @property
    def starter(self) -> Path:
        """The folder of the files that students start with."""
        return self.folder / "starter"

    @property
    def solution(self) -> Path:
        """The folder of the solved files."""
        return self.folder / "solution"

    @property
    def handout(self) -> Path:
        """The folder that students get."""
        return self.home / "assignments" / self.name

    @property
    def release(self) -> Path:
        """The notebook that students get."""
        return self.handout / f"{self.short}.ipynb"

    @property
    def manifest(self) -> cells.Manifest:
        """The manifest in the student's notebook: its graded cells, points and starter files.

        Raises:
            WorkbookError: the notebook is not built, or has no manifest.
        """
        try:
            state = self.release.stat()
        except OSError:  # reading the notebook below gives the reason
            return cells.manifest(cells.read(self.release))
        return _manifest(self.release, (state.st_ino, state.st_mtime_ns, state.st_size))

    @property
    def checks(self) -> dict[str, float]:
        """Points of each check, e.g. {"a2.probabilities": 15}."""
        return {c.id: c.points for c in self.manifest.cells if c.kind == "check"}

    @property
    def written(self) -> dict[str, float]:
        """Points of each written answer."""
        return {c.id: c.points for c in self.manifest.cells if c.kind == "written"}


@functools.lru_cache(maxsize=32)  # a grader asks for it many times per student
def _manifest(release: Path, state: tuple[int, ...]) -> cells.Manifest:
    """The manifest of a notebook, as long as the file's state is the same."""
    return cells.manifest(cells.read(release))


def find(home: Path | None = None) -> list[Assignment]:
    """The assignments of a checkout: those with a source; without any source, those released."""
    home = home or paths.root()
    sources = {p.parent.name for p in home.glob("solutions/a*__*/a*.py") if is_source(p)}
    released = {p.parent.name for p in home.glob("assignments/a*__*/a*.ipynb")}
    return [Assignment(n, home) for n in sorted(sources or released) if _NAME.fullmatch(n)]


def named(name: str, home: Path | None = None) -> Assignment:
    """The assignment with this name, short (`a2`) or long (`a2__forest`).

    Raises:
        WorkbookError: there is no such assignment.

    Example:
        assignments.named("a2").name        # "a2__forest"
    """
    known = find(home)
    for assignment in known:
        if name in (assignment.name, assignment.short):
            return assignment
    names = ", ".join(a.name for a in known) or "there are none here"
    raise WorkbookError(
        f"There is no assignment {name[:80]!r}.",
        where=str((home or paths.root()) / "assignments"),
        todo=f"Name one of them: {names}.",
    )


def is_clutter(name: str) -> bool:
    """Whether a tool left a file or folder of this name behind: CLUTTER, or compiled Python.

    Clutter does not change a submission: it is never packed, and never part of a key.
    """
    return name in CLUTTER or name.endswith(".pyc")


def files(folder: Path, *, folders: bool = False) -> Iterator[Path]:
    """All files and links under a folder, sorted, without clutter.

    Args:
        folder: the folder.
        folders: yield its folders too, each before what is in it.
    """
    for path in sorted(folder.iterdir()):
        if is_clutter(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            if folders:
                yield path
            yield from files(path, folders=folders)
        else:
            yield path


def is_source(path: Path) -> bool:
    """Whether a file is named like an assignment's source, e.g. a2.py."""
    return re.fullmatch(r"a[0-9]+\.py", path.name) is not None
