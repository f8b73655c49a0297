"""What both kinds of pages share: the template engine, marks, and whether a page is up to date.

Everything that a student's code produced is text by the time it gets here, and is escaped. No page
shows a hidden check's source, a traceback or an expected answer. The judge's own log is on no page
for students, since a model can print the hidden inputs into it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from workbook.assignments import Assignment, cells

from ..checks import panel
from ..checks.results import Graded
from ..classroom import gradebook
from ..classroom.classroom import Classroom, write
from ..classroom.gradebook import Mark

_TEMPLATES = Path(__file__).parent / "templates"


def fingerprint(classroom: Classroom, assignment: Assignment) -> str:
    """The hash of all that the pages depend on: while it is the same, no page has to be written."""
    digest = hashlib.sha256(repr(classroom.results_index(assignment.name)).encode())
    code = (*sorted(Path(__file__).parent.glob("*.py")), Path(panel.__file__))
    for path in (classroom.gradebook, assignment.release, *code, *sorted(_TEMPLATES.iterdir())):
        digest.update(path.read_bytes() if path.is_file() else b"-")
    return digest.hexdigest()


def marks(classroom: Classroom, assignment: Assignment) -> dict[str, Mark]:
    """The marks of each student who has a result, by student.

    A student whom the gradebook does not have yet gets the marks that the verdict alone gives.
    """
    found = {mark.student: mark for mark in gradebook.marks(classroom, assignment.name)}
    points = assignment.checks
    return {
        student: found.get(student) or _without_gradebook(student, graded, points)
        for student, graded in classroom.results(assignment.name).items()
    }


def most_points(assignment: Assignment) -> float:
    """The most points of an assignment: those of its checks and of its written answers."""
    return sum(assignment.checks.values()) + sum(assignment.written.values())


def title(assignment: Assignment) -> str:
    """The assignment's title, from the header of its source; else its name."""
    header = cells.read(assignment.release).get("metadata", {}).get("workbook", {})
    return str(header.get("title") or assignment.name)


def render(template: str, **values: Any) -> str:
    """A template with its values filled in. All values are escaped, but for jinja's Markup."""
    loader = FileSystemLoader(_TEMPLATES)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(template).render(values)


def save(path: Path, text: str) -> None:
    """Write a page, unless the file holds this text already."""
    content = text.encode("utf-8", "replace")
    if not path.is_file() or path.read_bytes() != content:
        write(path, content)


def _without_gradebook(student: str, graded: Graded, points: dict[str, float]) -> Mark:
    parts = {}
    for id, most in points.items():
        result = graded.verdict.of(id)
        parts[id] = (result.credit * most if result else 0.0, most)
    score = sum(earned for earned, _ in parts.values())
    return Mark(student, score, sum(points.values()), 0.0, 0, parts)
