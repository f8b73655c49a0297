"""Functions for both kinds of pages: templates, marks, and whether the pages are up to date.

Output of a student's code reaches this module as text only, and the templates escape it. No page
shows a hidden check's source, a traceback or an expected answer. The judge's own log is not shown
to students, because a model can print the hidden inputs into it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from workbook.assignments import Assignment, cells

from ..classroom import deadlines, grade_rules, gradebook, names, roster
from ..classroom.classroom import Classroom, write
from ..classroom.gradebook import Mark
from ..vocabulary import panel
from ..vocabulary.results import Graded

_TEMPLATES = Path(__file__).parent / "templates"


def fingerprint(classroom: Classroom, assignment: Assignment) -> str:
    """The hash of everything that the pages depend on. Without a change, no page is written."""
    digest = hashlib.sha256(repr(classroom.results_index(assignment.name)).encode())
    ours = sorted(Path(__file__).parent.glob("*.py"))
    theirs = sorted(Path(names.__file__).parent.glob("*.py"))
    code = (*ours, *theirs, Path(panel.__file__), *sorted(_TEMPLATES.iterdir()))
    lists = (
        *(classroom.gradebook, roster.path(classroom)),
        *(deadlines.path(classroom), grade_rules.path(classroom)),
    )
    stale = sorted((classroom.home / "by_hand" / assignment.name).glob("*.json"))
    kept = (classroom.home / name / assignment.name for name in ("answers", "regrades"))
    by_people = [path for folder in kept for path in sorted(folder.glob("*.json"))]
    intake = classroom.home / "intake"
    came = (intake / "reported.json", *sorted((intake / assignment.name).glob("*.json")))
    for path in (
        *lists,
        *stale,
        *by_people,
        *came,
        assignment.release,
        assignment.instructor,
        *code,
    ):
        digest.update(path.read_bytes() if path.is_file() else b"-")
    return digest.hexdigest()


def marks(classroom: Classroom, assignment: Assignment) -> dict[str, Mark]:
    """The marks of each student who has a result, by student.

    If a student is not in the gradebook yet, the marks are computed from the verdict.
    """
    found = {mark.student: mark for mark in gradebook.marks(classroom, assignment.name)}
    return {
        student: found.get(student) or _without_gradebook(student, graded, assignment)
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
    """A template with its values filled in. All values are escaped, except jinja's Markup.

    Names, and what a student's code has printed, may hold control characters: see `names.shown`.
    """
    return names.shown(_environment().get_template(template).render(values))


@functools.cache
def _environment() -> Environment:
    loader = FileSystemLoader(_TEMPLATES)
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def save(path: Path, text: str) -> None:
    """Write a page, unless the file already has this text."""
    content = text.encode("utf-8", "replace")
    if not path.is_file() or path.read_bytes() != content:
        write(path, content)


def write_if_changed(
    kind: str,
    classroom: Classroom,
    assignment: Assignment,
    pages: Iterable[Path],
    writer: Callable[[Classroom, Assignment], None],
) -> None:
    """Write pages, unless they are there and nothing that they show has changed.

    A hidden file beside the class report keeps what they were made from the last time.

    Args:
        kind: "feedback" or "report".
        pages: the files.
        writer: writes them.
    """
    now = fingerprint(classroom, assignment).encode()
    last = classroom.report / f".{assignment.name}.{kind}"
    if last.is_file() and last.read_bytes() == now and all(page.is_file() for page in pages):
        return
    writer(classroom, assignment)
    write(last, now)


def _without_gradebook(student: str, graded: Graded, assignment: Assignment) -> Mark:
    points = assignment.checks
    parts = {}
    for id, most in points.items():
        result = graded.verdict.of(id)
        parts[id] = (result.credit * most if result else 0.0, most)
    score = sum(earned for earned, _ in parts.values())
    unread = frozenset(assignment.written)
    return Mark(student, score, sum(points.values()), 0.0, 0, parts, unread=unread)
