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
    """Put in what a student fetches with the notebook, or writes after a first run, and hands in.

    An assignment has functions for it where it needs them: `fetch_all(folder, me)` among its facts
    for files from the zoo, since a sandbox has none and would build them anew in each grading; and
    `complete_solution(folder, me)` in `hidden.py` for what depends on the id in the solution.

    Args:
        assignment: whose functions are called.
        to: the folder of a solution.
        me: the student's id.
    """
    modules = {"facts": "fetch_all"} | (
        {"hidden": "complete_solution"} if me != own.DEFAULT else {}
    )
    for module, name in modules.items():
        if (assignment.folder / f"{module}.py").is_file():
            found = importlib.import_module(f"grader.assignments.{assignment.name}.{module}")
            if hasattr(found, name):
                getattr(found, name)(to, me)


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
