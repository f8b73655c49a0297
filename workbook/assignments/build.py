"""Build an assignment: the instructor's notebook, and the folder that students get.

The student's notebook is made by nbgrader's own GenerateAssignment, in a temporary course without
a gradebook. nbgrader leaves one comment where a solution was; the lines that the source
marks `### STUB` (see `workbook.notebooks`) are put below it. nbgrader would drop empty folders and
executable bits, so starter files are copied here; an empty folder (a model's version) gets a
`.gitkeep`.
"""

from __future__ import annotations

import ast
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .. import notebooks
from ..common.errors import WorkbookError
from . import cells
from .assignment import CLUTTER, MODULES, Assignment, files
from .gate import gate

if TYPE_CHECKING:
    from nbformat import NotebookNode

CODE_STUB = "# Your code here."
TEXT_STUB = "*Your answer here.*"


def build(assignment: Assignment, into: Path | None = None) -> list[Path]:
    """Build the instructor's notebook and the student's folder.

    Students get the notebook, all files of `starter/`, and the modules that MODULES and the
    source's header name.

    Old files in the student's folder that no longer belong to the assignment are not deleted;
    `workbook build --check` names them.

    Args:
        assignment: what to build.
        into: another checkout to build into; by default the assignment's own.

    Returns:
        The files written: both notebooks, the starter files and the modules.

    Raises:
        WorkbookError: the source is wrong, a check of it has no function, a module that it names
            is not there, or the result does not pass the release gate.

    Example:
        assignments.build(assignments.named("a2"))
    """
    target = Assignment(assignment.name, into or assignment.home)
    source = notebooks.read(assignment.source)
    for cell in source.cells:
        if cell.id and not cell.id.startswith(f"{assignment.short}."):
            raise WorkbookError(
                f'The id "{cell.id}" does not belong to {assignment.name}.',
                where=f"{source.path}, line {cell.line}, id",
                todo=f"Begin it with the assignment's short name: {assignment.short}.…",
            )
    _require_functions(assignment, source)
    instructors = notebooks.notebook(source)
    written = [_write(target.instructor, notebooks.text(instructors))]
    with tempfile.TemporaryDirectory(prefix="workbook-build-") as folder:
        handout = Path(folder) / "handout" / assignment.name
        starter = _copy_starter(assignment, handout)
        students = _generate(assignment, instructors, Path(folder))
        described = cells.describe(assignment.name, students, starter)
        students.metadata["workbook"] = {**source.header, **described.to_json()}
        _write(handout / target.release.name, notebooks.text(students))
        modules = _copy_modules(assignment, source, handout)
        gate(handout)
        for name in (target.release.name, *starter, *modules):
            path = target.handout / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(handout / name, path)
            written.append(path)
    return written


def _require_functions(assignment: Assignment, source: notebooks.Source) -> None:
    """Raise an error if a check of the notebook has no function among the assignment's checks.

    The functions are read, not imported: this package knows nothing of the grader.
    """
    module = assignment.folder / "checks.py"
    name = module.relative_to(assignment.home)
    try:
        tree = ast.parse(module.read_text("utf-8") if module.is_file() else "")
    except SyntaxError as error:
        raise WorkbookError(f"Not Python: {error.msg}.", where=f"{name}, {error.lineno}") from None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    defined = {
        call.args[0].value
        for call in calls
        if _name(call.func) == "define" and isinstance(call.args[0], ast.Constant)
    }
    for cell in source.cells:
        if cell.kind == "check" and cell.id not in defined:
            raise WorkbookError(
                f'The check "{cell.id}" has no function.',
                where=f"{source.path}, line {cell.line}, id",
                todo=f'Write it with @define("{cell.id}", …) in {name}, or correct the id.',
            )


def _name(called: ast.expr) -> str:
    """The last part of a called function's name, such as `define` of `checks.define`."""
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _copy_starter(assignment: Assignment, handout: Path) -> list[str]:
    """Copy the starter files; return their paths relative to the handout, sorted."""
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


def _copy_modules(assignment: Assignment, source: notebooks.Source, handout: Path) -> list[str]:
    """Copy the modules that students get; return their files' names."""
    named = [f"{name}.py" for name in source.header.get("modules", ())]
    for name in named:
        if not (assignment.folder / name).is_file():
            raise WorkbookError(
                f"The header names a module that is not there: {name}.",
                where=f"{source.path}, header, modules",
                todo=f"Write solutions/{assignment.name}/{name}, or take it from the list.",
            )
    always = (f"{name}.py" for name in MODULES)
    found = [*(name for name in always if (assignment.folder / name).is_file()), *named]
    for name in found:
        shutil.copy(assignment.folder / name, handout)
    return found


def _generate(assignment: Assignment, instructors: NotebookNode, folder: Path) -> NotebookNode:
    """Make the student's notebook with nbgrader's converter, in a temporary course."""
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
    log = logging.Logger("workbook.assignments")  # nbgrader's own logger writes to the terminal
    log.addHandler(logging.FileHandler(folder / "log", encoding="utf-8"))
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    converter.log = log
    # SaveCells writes to a gradebook; a build has none.
    converter.preprocessors = [p for p in converter.preprocessors if p is not SaveCells]
    try:
        converter.start()
    except Exception:  # the reason is in nbgrader's log only
        errors = re.findall(r"(?m)^[\w.]+Error: .+", (folder / "log").read_text("utf-8"))
        raise WorkbookError(
            f"nbgrader could not make the student's notebook: {errors[-1] if errors else '?'}",
            where=str(assignment.source),
            todo="Correct the source, then build again.",
        ) from None
    finally:
        log.handlers[0].close()
    made = folder / "release" / assignment.name / assignment.release.name
    return nbformat.read(made, as_version=4)  # type: ignore[no-untyped-call,no-any-return]


@contextmanager
def programs_on_path() -> Iterator[None]:
    """Put this environment's programs on PATH inside the block: nbgrader runs `alembic` by name."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), before))
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _stubs_below(source: str) -> str:
    """Move stub lines from inside solution regions to below them, where nbgrader keeps them."""
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


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path
