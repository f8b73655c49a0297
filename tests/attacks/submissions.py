"""Submissions to try the grader with: the solution, the untouched release, and changes of both."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import nbformat

from workbook.common import paths

ASSIGNMENT, SHORT = "a2__forest", "a2"


def solution(to: Path) -> Path:
    """What a perfect student hands in."""
    source = paths.root() / "solutions" / ASSIGNMENT
    shutil.copytree(source / "solution", release(to), dirs_exist_ok=True)
    shutil.copy(source / f"{SHORT}.ipynb", to)
    return to


def release(to: Path) -> Path:
    """What a student hands in who has done nothing."""
    shutil.copytree(paths.root() / "assignments" / ASSIGNMENT, to)
    return to


def edit(folder: Path, change: Callable[[nbformat.NotebookNode], None]) -> None:
    """Change a submission's notebook."""
    path = folder / f"{SHORT}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    nbformat.write(notebook, path)


def first(folder: Path, code: str) -> None:
    """Put a cell of the student's own before all others."""
    cell = nbformat.v4.new_code_cell(dedent(code).strip())
    edit(folder, lambda notebook: notebook.cells.insert(0, cell))


def last(folder: Path, code: str) -> None:
    """Put a cell of the student's own after all others."""
    cell = nbformat.v4.new_code_cell(dedent(code).strip())
    edit(folder, lambda notebook: notebook.cells.append(cell))


def place(notebook: nbformat.NotebookNode, id: str) -> int:
    """Where the cell with this id stands."""
    wanted = id.replace(".", "-")
    for number, cell in enumerate(notebook.cells):
        if cell.metadata.get("nbgrader", {}).get("grade_id") == wanted:
            return number
    raise LookupError(id)
