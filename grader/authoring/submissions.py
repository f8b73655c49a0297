"""What students could hand in: the solution, the untouched release, and mutants of the solution."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

from workbook.assignments import Assignment, cells, is_clutter
from workbook.common.errors import WorkbookError
from workbook.notebooks import dotted

from ..vocabulary import own
from .mutants import Mutant


def release(assignment: Assignment, to: Path) -> Path:
    """Write what a student hands in who has done nothing.

    Args:
        assignment: built.
        to: a folder that is not there yet.

    Returns:
        The folder.
    """
    modules = {path.name for path in assignment.handout.glob("*.py")}

    def not_handed_in(folder: str, names: list[str]) -> list[str]:
        top = Path(folder) == assignment.handout
        return [n for n in names if is_clutter(n) or n.endswith(".zip") or (top and n in modules)]

    shutil.copytree(assignment.handout, to, ignore=not_handed_in)
    return to


def solution(assignment: Assignment, to: Path, me: str = own.DEFAULT) -> Path:
    """Write what a perfect student hands in: the release with the solution's files and notebook.

    Args:
        assignment: built.
        to: a folder that is not there yet.
        me: the student's id. It takes the place of the one in the notebook, so the work is done
            with this student's data.

    Returns:
        The folder.

    Raises:
        WorkbookError: an id is given, and the notebook has no line for it.
    """
    release(assignment, to)
    if assignment.solution.is_dir():
        shutil.copytree(assignment.solution, to, dirs_exist_ok=True)
    shutil.copy(assignment.instructor, to)
    if me != own.DEFAULT:
        _write_id(to / assignment.release.name, me)
    fetch(assignment, to, me)
    return to


def _write_id(path: Path, me: str) -> None:
    """Put a student's id into the line `me = "self-study"` of a notebook."""
    notebook = cells.read(path)
    default, wanted = f'{own.PARAMETER} = "{own.DEFAULT}"', f"{own.PARAMETER} = {me!r}"
    texts = ["".join(cell["source"]).split("\n") for cell in notebook["cells"]]
    if not any(default in lines for lines in texts):
        raise WorkbookError(
            "This assignment has no data of the student's own.",
            where=str(path),
            todo=f"Leave the id out. (A notebook that draws data by an id has the line {default}.)",
        )
    for cell, lines in zip(notebook["cells"], texts, strict=True):
        cell["source"] = "\n".join(wanted if line == default else line for line in lines)
    path.write_text(json.dumps(notebook), "utf-8")


def fetch(assignment: Assignment, to: Path, me: str = own.DEFAULT) -> None:
    """Put in what a student's notebook takes from the zoo, and the student then hands in.

    An assignment that needs it has a function `fetch_all(folder, me)` among its facts. A sandbox
    has no zoo, and would build such files anew in each grading.

    Args:
        assignment: whose facts are asked.
        to: the folder of a solution.
        me: the student's id.
    """
    if (assignment.folder / "facts.py").is_file():
        facts = importlib.import_module(f"grader.assignments.{assignment.name}.facts")
        if hasattr(facts, "fetch_all"):
            facts.fetch_all(to, me)


def mutant(assignment: Assignment, change: Mutant, to: Path) -> Path:
    """Write a mutant of the solution.

    Args:
        assignment: built.
        change: the mutant.
        to: a folder that is not there yet.

    Returns:
        The folder.

    Raises:
        WorkbookError: an edit does not fit, or names a cell that the notebook does not have.
    """
    solution(assignment, to)
    change.edit_files(to)
    path = to / assignment.release.name
    notebook = cells.read(path)
    known = set()
    for cell in notebook["cells"]:
        id = dotted(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))
        known.add(id)
        cell["source"] = change.edit_cell(id, "".join(cell["source"]))
    for edit in change.edits:
        if not edit.of_file and edit.where not in known:
            raise WorkbookError(
                f"The mutant {change.name!r} cannot be made: there is no cell {edit.where!r}.",
                where=f"solutions/{assignment.name}/{assignment.source.name}",
                todo="Correct the id; a file has a / in its name.",
            )
    path.write_text(json.dumps(notebook), "utf-8")
    return to
