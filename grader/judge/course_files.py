"""Which files of the course decide the marks of an assignment.

They are found by reading import statements (imports.py), from

- the grading core: what restores, runs and judges a submission
- the assignment's checks, its facts and its hidden checks, with the vocabulary that they use
- what the cells of its notebook import
- the backends that it admits, and the sources of the compiled parts

A page, a plot, a lecture or another assignment is not among them.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from workbook.assignments import Assignment, cells
from workbook.common.errors import WorkbookError

from .imports import Course

#: Grades a submission. The programs in its sandboxes are named in it, and found from there.
CORE = "grader.judge.grade_submission"
#: Every stand-in runs on it, whichever backends an assignment admits.
ALWAYS = "python"
#: The lists of installed packages.
PINNED = ("requirements.txt", "requirements-torch.txt")


def course_files(assignment: Assignment) -> list[Path]:
    """The files that the marks of an assignment depend on, beside the submission and the release.

    Example::

        course_files(assignments.named("a2"))    # […/a2__forest/checks.py, …/sandbox/seccomp.py, …]

    Args:
        assignment: its checks and its notebook decide which files count.

    Returns:
        Existing files of the assignment's checkout, sorted.
    """
    course = Course(assignment.home)
    own = f"grader.assignments.{assignment.name}"
    for module in (CORE, f"{own}.checks", f"{own}.facts", f"{own}.hidden"):
        course.follow(module)
    course.files.update(assignment.handout.glob("*.py"))  # the notebook imports these copies
    for tree in _notebook_code(assignment):
        course.follow_code(tree)
    folders = assignment.home / "workbook" / "backends"
    backends = _backends(course.file(f"{own}.checks")) or {path.name for path in folders.glob("*/")}
    for name in {*backends, ALWAYS}:
        for path in (folders / name).rglob("*"):
            if path.suffix == ".py":
                inside = path.relative_to(assignment.home).with_suffix("")
                course.follow(".".join(inside.parts).removesuffix(".__init__"))
            elif path.is_file() and path.suffix not in (".md", ".pyc"):
                course.files.add(path)
    pinned = {assignment.home / name for name in PINNED}
    return sorted(course.files | {path for path in pinned if path.is_file()})


@functools.cache
def fingerprint(assignment: Assignment) -> str:
    """The hash of `course_files`, their names included. It is computed once per process.

    Args:
        assignment: as for `course_files`.
    """
    digest = hashlib.sha256()
    for path in course_files(assignment):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(assignment.home).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def _backends(checks: Path | None) -> set[str]:
    """`BACKENDS` of a module of checks, read from its source; empty if it does not say."""
    tree = ast.parse(checks.read_bytes() if checks else b"")
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BACKENDS":
            try:
                return {str(name) for name in ast.literal_eval(node.value)}
            except (ValueError, TypeError):
                return set()
    return set()


def _notebook_code(assignment: Assignment) -> Iterator[ast.Module]:
    """The code of the notebook's tagged cells, with the solution where it is here.

    Plain cells are plots: nothing that they compute is handed to a check.
    """
    for path in (assignment.instructor, assignment.release):
        if not path.is_file():
            continue
        notebook = cells.read(path)
        body: list[ast.stmt] = []
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code" and "nbgrader" in cell["metadata"]:
                body += parse_cell("".join(cell["source"]))
        yield ast.Module(body, [])
        return
    raise WorkbookError(
        f"{assignment.name} has no notebook.",
        where=str(assignment.release),
        todo="Build it with `workbook build`.",
    )


def parse_cell(code: str) -> list[ast.stmt]:
    """The statements of a cell, without magics; none where it is not Python."""
    try:
        return ast.parse(re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", code)).body
    except SyntaxError:
        return []
