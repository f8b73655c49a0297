"""Submissions to try the grader with: the solution, the untouched release, and changes of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import nbformat

from grader.authoring import submissions
from workbook import assignments
from workbook.assignments import Assignment

#: The default assignment.
ASSIGNMENT, SHORT = "a2__forest", "a2"


def solution(to: Path, assignment: Assignment | None = None) -> Path:
    """Write the submission of a perfect student."""
    return submissions.solution(assignment or assignments.named(ASSIGNMENT), to)


def release(to: Path, assignment: Assignment | None = None) -> Path:
    """Write the submission of a student who has done nothing."""
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
    """The position of the cell with this id."""
    wanted = id.replace(".", "-")
    for number, cell in enumerate(notebook.cells):
        if cell.metadata.get("nbgrader", {}).get("grade_id") == wanted:
            return number
    raise LookupError(id)


def checks(notebook: nbformat.NotebookNode) -> list[int]:
    """The positions of the check cells."""
    return [
        number
        for number, cell in enumerate(notebook.cells)
        if (tag := cell.metadata.get("nbgrader", {})).get("grade") and not tag.get("solution")
    ]
