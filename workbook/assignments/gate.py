"""The release gate: find what must not reach students in the folder that they get.

It finds files that are not on the list of what students get, solutions, hidden checks, outputs,
absolute paths, and cells that differ from the manifest. `leaks` lists what it finds; `gate` raises
an error with the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import notebooks
from ..common.errors import WorkbookError
from . import cells
from .assignment import MODULES, files, is_source

_ABSOLUTE = re.compile(r"(?<![\w.:/])(/(home|root|Users|tmp|work|mnt|media|srv)/|[A-Z]:\\\\?)\w")
_SECRETS = (
    (notebooks.MARKER, "a solution marker"),
    (re.compile(r"(?i)(BEGIN|END)[ _-]*(HIDDEN[ _-]*TESTS?|MARK[ _-]*SCHEME)"), "a hidden test"),
    (
        re.compile(
            r"a[0-9]+__\w+[./](hidden|mutants|attacks)\b"
            r"|^\s*(from\s+\S+\s+)?import\s.*\b(hidden|mutants|attacks)\b"
            r"|^\s*from\s+\S*\b(hidden|mutants|attacks)\s+import\b"
        ),
        "a module that only instructors have",
    ),
    (_ABSOLUTE, "an absolute path, which exists on one machine only"),
)
_INSTRUCTORS = re.compile(
    r"(^|/)(solutions?|hidden|results|submitted|autograded|feedback)/|gradebook|\.db(-journal)?$"
    r"|^(hidden|mutants|attacks)\.py$"
)


@dataclass(frozen=True)
class Leak:
    """Something that must not reach students.

    Attributes:
        path: the file, relative to the student's folder.
        place: where in the file, e.g. "cell 3, line 2"; "" for the whole file.
        what: what it is.
    """

    path: str
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}{', ' + self.place if self.place else ''}: {self.what}"


def leaks(handout: Path) -> list[Leak]:
    """Find what must not reach students in a student's folder, or would not work for them.

    Args:
        handout: a folder such as `assignments/a2__forest`, named after its assignment.

    Example:
        for leak in assignments.leaks(Path("assignments/a2__forest")):
            print(leak)         # a2.ipynb, cell 3, line 2: a solution marker: '### BEGIN SOLUTION'
    """
    found: list[Leak] = []
    listed = listed_files(handout)
    for path in files(handout):
        name = path.relative_to(handout).as_posix()
        if path.is_symlink():
            found.append(Leak(name, "", "a link; students get files"))
            continue
        if _INSTRUCTORS.search(name) or is_source(path):
            found.append(Leak(name, "", "a file that belongs to instructors"))
        elif name not in listed and path.suffix != ".ipynb":
            found.append(Leak(name, "", "a file that is not on the list of what students get"))
        text = path.read_bytes().decode("utf-8", "replace")
        if path.suffix != ".ipynb":
            found.extend(_secrets(name, "line {}", text))
        elif name == f"{handout.name.split('__')[0]}.ipynb":
            found.extend(_notebook_leaks(name, path))
        else:
            found.append(Leak(name, "", "a second notebook"))
    return found


def listed_files(handout: Path) -> set[str]:
    """The files beside the notebook that students get: of the starter, and modules.

    Empty if the notebook cannot be read.
    """
    try:
        notebook = cells.read(handout / f"{handout.name.split('__')[0]}.ipynb")
        manifest = cells.manifest(notebook)
    except WorkbookError:  # the damaged notebook is reported as a finding itself
        return set()
    modules = (*MODULES, *notebook["metadata"]["workbook"].get("modules", ()))
    return {*manifest.files, *(f"{name}.py" for name in modules)}


def gate(handout: Path) -> None:
    """Make sure that a student's folder has no leaks.

    Raises:
        WorkbookError: it has some; the error lists all of them.
    """
    found = leaks(handout)
    if found:
        raise WorkbookError(
            f"{handout.name} cannot be released: {len(found)} finding{'s' * (len(found) > 1)}.\n"
            + "\n".join(f"  {leak}" for leak in found),
            where=f"assignments/{handout.name}",
            todo="Correct the source in solutions/, then build again.",
        )


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
            yield Leak(name, cell.id, "a graded cell that differs from the manifest")
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
