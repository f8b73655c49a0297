"""Submissions to try the grader with: the solution, the untouched release, and changes of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import nbformat

from grader.authoring import submissions
from workbook import assignments
from workbook.assignments import Assignment

#: The assignment that is meant where none is named.
ASSIGNMENT, SHORT = "a2__forest", "a2"


def solution(to: Path, assignment: Assignment | None = None) -> Path:
    """What a perfect student hands in."""
    return submissions.solution(assignment or assignments.named(ASSIGNMENT), to)


def release(to: Path, assignment: Assignment | None = None) -> Path:
    """What a student hands in who has done nothing."""
    return submissions.release(assignment or assignments.named(ASSIGNMENT), to)


def notebook_of(folder: Path) -> Path:
    """A submission's notebook."""
    (path,) = folder.glob("a*.ipynb")
    return path


def edit(folder: Path, change: Callable[[nbformat.NotebookNode], None]) -> None:
    """Change a submission's notebook."""
    path = notebook_of(folder)
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


def checks(notebook: nbformat.NotebookNode) -> list[int]:
    """Where the check cells stand."""
    return [
        number
        for number, cell in enumerate(notebook.cells)
        if (tag := cell.metadata.get("nbgrader", {})).get("grade") and not tag.get("solution")
    ]
