"""What an assignment is, how it is built, and what may leave the house.

    solutions/a2__forest/a2.py          the source, with solutions
    solutions/a2__forest/a2.ipynb       the instructor's notebook, built
    solutions/a2__forest/starter/       what students start with: models/forest/config.pbtxt, …
    solutions/a2__forest/solution/      the solution's own files; they never leave
    assignments/a2__forest/             the student's notebook and the starter files, built

The student's notebook is made by nbgrader's own GenerateAssignment, in a temporary course without
a gradebook. nbgrader leaves one comment where a solution was; the lines that the source
marks `### STUB` (see `workbook.notebooks`) are put below it. nbgrader would drop empty folders and
run bits, so starter files are copied here; an empty folder (a model's version) gets a `.gitkeep`.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import notebooks
from ..common import paths
from ..common.errors import WorkbookError
from . import cells

if TYPE_CHECKING:
    from nbformat import NotebookNode

CODE_STUB = "# Your code here."
TEXT_STUB = "*Your answer here.*"
CLUTTER = {"__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".DS_Store", ".git"}
"""Names that belong to tools: never copied, never handed in."""
FOR_STUDENTS = (
    *(
        "README.md",
        "CHANGELOG.md",
        "BENCHMARKS.md",
        "LICENSE",
        "Makefile",
        "pyproject.toml",
        ".gitignore",
    ),
    *("requirements.in", "requirements.txt", "requirements-vllm.txt"),
    *("workbook/", "grader/", "benchmarks/", "lectures/", "model_repository/", "docker/"),
)
"""What a class gets, beside assignments/: files and folders of the checkout."""
FOR_INSTRUCTORS = ("grader/checks/hidden/", "grader/work/")

_NAME = re.compile(r"a[0-9]+__[a-z0-9_]+")
_ABSOLUTE = re.compile(r"(?<![\w.:/])(/(home|root|Users|tmp|work|mnt|media|srv)/|[A-Z]:\\\\?)\w")
_SECRETS = (
    (notebooks.MARKER, "a solution marker"),
    (re.compile(r"(?i)(BEGIN|END)[ _-]*(HIDDEN[ _-]*TESTS?|MARK[ _-]*SCHEME)"), "a hidden test"),
    (
        re.compile(r"grader[./]checks[./]hidden|from\s+grader\.checks\s+import[^\n]*\bhidden\b"),
        "hidden checks",
    ),
    (_ABSOLUTE, "an absolute path, which is another one on every machine"),
)
_INSTRUCTORS = re.compile(
    r"(^|/)(solutions?|hidden|results|submitted|autograded|feedback)/|gradebook|\.db(-journal)?$"
)


@dataclass(frozen=True)
class Assignment:
    """One assignment of a checkout, e.g. `a2__forest` with the short name `a2`."""

    name: str
    home: Path

    @property
    def short(self) -> str:
        return self.name.split("__")[0]

    @property
    def folder(self) -> Path:
        """The instructor's folder; it is not there in a student's checkout."""
        return self.home / "solutions" / self.name

    @property
    def source(self) -> Path:
        return self.folder / f"{self.short}.py"

    @property
    def instructor(self) -> Path:
        """The instructor's notebook."""
        return self.source.with_suffix(".ipynb")

    @property
    def starter(self) -> Path:
        return self.folder / "starter"

    @property
    def solution(self) -> Path:
        return self.folder / "solution"

    @property
    def handout(self) -> Path:
        """The student's folder."""
        return self.home / "assignments" / self.name

    @property
    def release(self) -> Path:
        """The student's notebook."""
        return self.handout / f"{self.short}.ipynb"

    @property
    def manifest(self) -> cells.Manifest:
        """What the release says of itself: its cells, their points, its starter files.

        Raises:
            WorkbookError: it is not built, or carries no manifest.
        """
        return cells.manifest(cells.read(self.release))

    @property
    def checks(self) -> dict[str, float]:
        """Points of each check, e.g. {"a2.probabilities": 15}."""
        return {c.id: c.points for c in self.manifest.cells if c.kind == "check"}

    @property
    def written(self) -> dict[str, float]:
        """Points of each written answer."""
        return {c.id: c.points for c in self.manifest.cells if c.kind == "written"}


@dataclass(frozen=True)
class Leak:
    """Something that must not reach students: the file, where in it, and what it is."""

    path: str
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}{', ' + self.place if self.place else ''}: {self.what}"


def find(home: Path | None = None) -> list[Assignment]:
    """The assignments of a checkout: those with a source, else those that are released."""
    home = home or paths.root()
    sources = {p.parent.name for p in home.glob("solutions/a*__*/a*.py") if _is_source(p)}
    released = {p.parent.name for p in home.glob("assignments/a*__*/a*.ipynb")}
    return [Assignment(n, home) for n in sorted(sources or released) if _NAME.fullmatch(n)]


def named(name: str, home: Path | None = None) -> Assignment:
    """The assignment with this name, short (`a2`) or long (`a2__forest`).

    Raises:
        WorkbookError: there is none.
    """
    known = find(home)
    for assignment in known:
        if name in (assignment.name, assignment.short):
            return assignment
    names = ", ".join(a.name for a in known) or "none is here"
    raise WorkbookError(
        f"There is no assignment {name[:80]!r}.",
        where=str((home or paths.root()) / "assignments"),
        todo=f"Name one of them: {names}.",
    )


def build(assignment: Assignment, into: Path | None = None) -> list[Path]:
    """Build the instructor's notebook and the student's folder.

    Files that are there and no longer belong to the assignment stay; `workbook build --check`
    names them.

    Args:
        assignment: what to build.
        into: another checkout to build into; the source stays where it is.

    Returns:
        What was written: both notebooks and the starter files.

    Raises:
        WorkbookError: the source is wrong, or the result would give something away.
    """
    target = Assignment(assignment.name, into or assignment.home)
    source = notebooks.read(assignment.source)
    for cell in source.cells:
        if cell.id and not cell.id.startswith(f"{assignment.short}."):
            raise WorkbookError(
                f'The id "{cell.id}" is not one of {assignment.name}.',
                where=f"{source.path}, line {cell.line}, id",
                todo=f"Begin it with the assignment's short name: {assignment.short}.…",
            )
    instructors = notebooks.notebook(source)
    written = [_write(target.instructor, notebooks.text(instructors))]
    with tempfile.TemporaryDirectory(prefix="workbook-build-") as folder:
        handout = Path(folder) / "handout" / assignment.name
        starter = _copy_starter(assignment, handout)
        students = _generate(assignment, instructors, Path(folder))
        described = cells.describe(assignment.name, students, starter)
        students.metadata["workbook"] = {**source.header, **described.to_json()}
        _write(handout / target.release.name, notebooks.text(students))
        gate(handout)
        for name in (target.release.name, *starter):
            path = target.handout / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(handout / name, path)
            written.append(path)
    return written


def leaks(handout: Path) -> list[Leak]:
    """What in a student's folder must not reach students, or would not work there.

    Args:
        handout: a folder such as `assignments/a2__forest`, named after its assignment.
    """
    found: list[Leak] = []
    for path in files(handout):
        name = path.relative_to(handout).as_posix()
        if path.is_symlink():
            found.append(Leak(name, "", "a link; students get files"))
            continue
        if _INSTRUCTORS.search(name) or _is_source(path):
            found.append(Leak(name, "", "a file that belongs to instructors"))
        text = path.read_bytes().decode("utf-8", "replace")
        if path.suffix != ".ipynb":
            found.extend(_secrets(name, "line {}", text))
        elif name == f"{handout.name.split('__')[0]}.ipynb":
            found.extend(_notebook_leaks(name, path))
        else:
            found.append(Leak(name, "", "a second notebook"))
    return found


def gate(handout: Path) -> None:
    """Refuse a student's folder that gives something away.

    Raises:
        WorkbookError: all of `leaks` in one error.
    """
    found = leaks(handout)
    if found:
        raise WorkbookError(
            f"{handout.name} cannot be released: {len(found)} finding{'s' * (len(found) > 1)}.\n"
            + "\n".join(f"  {leak}" for leak in found),
            where=f"assignments/{handout.name}",
            todo="Mend the source in solutions/, then build again.",
        )


def release(destination: Path, home: Path | None = None) -> list[Path]:
    """Write what a class gets: the course without solutions, tests and hidden checks.

    What is committed (in the state of the working tree) is copied; assignments are built anew.

    Args:
        destination: a folder that is not there yet, or empty.
        home: the instructor's checkout.

    Returns:
        The files of the release, relative to `destination`.

    Raises:
        WorkbookError: the destination is not empty, the checkout is no git repository, or an
            assignment does not pass the gate. Then nothing is left behind.
    """
    home = home or paths.root()
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise WorkbookError(
            "The release needs a folder of its own.",
            where=str(destination),
            todo="Name a folder that is not there yet.",
        )
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".release-") as folder:
        draft = Path(folder) / "course"
        for name in _committed(home):
            if not name.startswith(FOR_STUDENTS) or name.startswith(FOR_INSTRUCTORS):
                continue
            if (home / name).is_symlink():
                raise WorkbookError(
                    "A link cannot be released.", where=name, todo="Put a file in its place."
                )
            target = draft / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(home / name, target)
        for assignment in find(home):
            build(assignment, into=draft)
        shutil.rmtree(draft / "solutions", ignore_errors=True)  # the instructor's notebooks
        for path in draft.glob("lectures/**/*.ipynb"):
            if str(home) in path.read_text("utf-8"):
                raise WorkbookError(
                    "A lecture shows where your checkout lies.",
                    where=path.relative_to(draft).as_posix(),
                    todo=f"Run it again without printing {home}.",
                )
        if destination.exists():
            destination.rmdir()
        draft.rename(destination)
    return [path.relative_to(destination) for path in files(destination)]


def _is_source(path: Path) -> bool:
    """Whether a file is named as an assignment's source: a2.py in a folder a2__… or at the top."""
    return re.fullmatch(r"a[0-9]+\.py", path.name) is not None


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def files(folder: Path) -> Iterator[Path]:
    """Files and links under a folder in a fixed order, without what tools leave behind."""
    for path in sorted(folder.iterdir()):
        if path.name in CLUTTER:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from files(path)
        else:
            yield path


def _copy_starter(assignment: Assignment, handout: Path) -> list[str]:
    """Copy starter files; return their paths relative to the handout, sorted."""
    handout.mkdir(parents=True)
    if not assignment.starter.is_dir():
        return []
    for path in files(assignment.starter):
        target = handout / path.relative_to(assignment.starter)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target, follow_symlinks=False)
    for path in sorted(assignment.starter.rglob("*")):
        inside = path.relative_to(assignment.starter)
        if path.is_dir() and not CLUTTER.intersection(inside.parts):
            (handout / inside).mkdir(parents=True, exist_ok=True)
            if not any((handout / inside).iterdir()) and not any(path.iterdir()):
                (handout / inside / ".gitkeep").touch()
    return [path.relative_to(handout).as_posix() for path in files(handout)]


def _generate(assignment: Assignment, instructors: NotebookNode, folder: Path) -> NotebookNode:
    """The student's notebook, through nbgrader's converter in a course of its own."""
    import nbformat
    from nbgrader.converters import GenerateAssignment
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.preprocessors import SaveCells
    from traitlets.config import Config

    course = nbformat.from_dict(instructors)  # type: ignore[no-untyped-call]
    for cell in course.cells:
        cell.source = _stubs_below(cell.source)
    _write(folder / "source" / assignment.name / assignment.release.name, notebooks.text(course))
    config = Config()
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.source_directory = "source"
    config.CourseDirectory.release_directory = "release"
    config.CourseDirectory.assignment_id = assignment.name
    config.GenerateAssignment.no_database = True
    config.ClearSolutions.code_stub = {"python": CODE_STUB}
    config.ClearSolutions.text_stub = TEXT_STUB
    log = logging.Logger("workbook.assignments")  # of its own: nbgrader's goes to the terminal
    log.addHandler(logging.FileHandler(folder / "log", encoding="utf-8"))
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    converter.log = log
    # A build concerns no gradebook; who grades fills it from the notebooks.
    converter.preprocessors = [p for p in converter.preprocessors if p is not SaveCells]
    try:
        converter.start()
    except Exception:  # nbgrader says what went wrong in its log, and raises something general
        said = re.findall(r"(?m)^[\w.]+Error: .+", (folder / "log").read_text("utf-8"))
        raise WorkbookError(
            f"nbgrader could not make the student's notebook: {said[-1] if said else '?'}",
            where=str(assignment.source),
            todo="Mend the source, then build again.",
        ) from None
    finally:
        log.handlers[0].close()
    made = folder / "release" / assignment.name / assignment.release.name
    return nbformat.read(made, as_version=4)  # type: ignore[no-untyped-call,no-any-return]


@contextmanager
def programs() -> Iterator[None]:
    """Put this environment's programs on PATH: nbgrader calls `alembic` by its name."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), before))
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _stubs_below(source: str) -> str:
    """Move the stubs of solution regions below them, where nbgrader leaves them alone."""
    lines: list[str] = []
    stubs: list[str] = []
    for line in source.split("\n"):
        indent, mark, stub = line.partition(notebooks.STUB)
        if mark:
            stubs.append(indent + stub.removeprefix(" "))
            continue
        lines.append(line)
        if line.strip() == notebooks.END:
            lines.extend(stubs)
            stubs = []
    return "\n".join(lines)


def _secrets(name: str, place: str, text: str) -> Iterator[Leak]:
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in _SECRETS:
            if match := pattern.search(line):
                yield Leak(name, place.format(number), f"{what}: {match[0]!r}")


def _notebook_leaks(name: str, path: Path) -> Iterator[Leak]:
    try:
        notebook = cells.read(path)
        manifest = cells.manifest(notebook)
        described = cells.describe(manifest.assignment, notebook)
    except WorkbookError as error:
        yield Leak(name, error.where, error.what)
        return
    known = {cell.id: cell for cell in manifest.cells}
    for cell in described.cells:
        if known.pop(cell.id, None) != cell:
            yield Leak(name, cell.id, "a graded cell that the manifest does not have like this")
    for id in known:
        yield Leak(name, id, "the manifest has a cell that the notebook does not have")
    checks = {cell.id for cell in manifest.cells if cell.kind == "check"}
    for number, cell in enumerate(notebook["cells"], 1):
        place = f"cell {number}"
        source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        yield from _secrets(name, place + ", line {}", source)
        if cell.get("outputs"):
            yield Leak(name, place, "an output")
        if cell.get("execution_count") is not None:
            yield Leak(name, place, "an execution count")
        if cell["cell_type"] != "code":
            continue
        try:
            calls = notebooks.check_calls(source)
        except SyntaxError as error:
            line = f"{place}, line {error.lineno}"
            yield Leak(name, line, f"not Python ({error.msg}); a solution may need a stub line")
            continue
        for id in calls:
            if id not in checks:
                yield Leak(name, place, f"a check that the manifest does not know: {id or '?'}")


def _committed(home: Path) -> Iterable[str]:
    """The paths that git tracks and that are there, relative to the checkout."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(home), "ls-files", "-z"], capture_output=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        raise WorkbookError(
            "The release is made from a git checkout, and this is none.",
            where=str(home),
            todo="Clone the course with git, and release from the clone.",
        ) from None
    names = listed.decode("utf-8", "surrogateescape").split("\0")
    return [name for name in names if name and (home / name).is_file()]
