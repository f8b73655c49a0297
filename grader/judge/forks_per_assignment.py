"""The fork servers of this process: one for notebooks and one for judges, per assignment.

Both import, before anything of a submission is read, what the assignment's own notebook or its own
checks import. They are two processes, so that a notebook's process shows nothing of a judge's: not
even where in memory its modules lie.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator

from workbook.assignments import Assignment, cells

from ..sandbox import ForkServer
from ..sandbox.mounts import course
from ..vocabulary import define
from .course_files import parse_cell

#: Notebooks are drawn in with this; matplotlib reads it when it is imported.
_BACKEND = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}


@functools.cache
def for_notebooks(assignment: Assignment) -> ForkServer:
    """The fork server for the program that runs a notebook, and for the notebook's kernel."""
    notebook = cells.read(assignment.release)
    code = ("".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code")
    late = define.imported_late(assignment.short, "notebook")
    modules = ["grader.judge.preload", *_modules(assignment, code), *late]
    _, environment = course()
    return ForkServer(modules, environment | _BACKEND)


@functools.cache
def for_judges(assignment: Assignment) -> ForkServer:
    """The fork server for judges. It imports what the hidden checks import, but not the checks."""
    sources = (assignment.folder / name for name in ("checks.py", "hidden.py"))
    code = (path.read_text("utf-8") for path in sources if path.is_file())
    modules = ["grader.judge.judge", *_modules(assignment, code)]
    _, environment = course(hidden=True)
    return ForkServer(modules, environment)


def _modules(assignment: Assignment, sources: Iterable[str]) -> Iterator[str]:
    """What both processes of an assignment import: its checks, and what programs name."""
    own = f"grader.assignments.{assignment.name}"
    yield f"{own}.checks"
    yield from (
        name for name in _find_imports(sources, own) if not name.startswith(f"{own}.hidden")
    )
    yield from define.imported_late(assignment.short, "checks")


def _find_imports(sources: Iterable[str], package: str) -> Iterator[str]:
    """The modules that programs import, wherever in them the statement stands. Names that are no
    module are among them: `from a import b` gives `a` and `a.b`.

    Args:
        sources: the programs.
        package: the package that they lie in. Relative imports begin there.
    """
    for source in sources:
        for node in ast.walk(ast.Module(parse_cell(source), [])):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = ".".join(filter(None, [package if node.level else "", node.module]))
                names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
            else:
                continue
            yield from names
