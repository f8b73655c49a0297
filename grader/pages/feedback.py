"""The feedback pages: one HTML file per student."""

from __future__ import annotations

import re
from pathlib import Path

from markupsafe import Markup

from workbook.assignments import Assignment

from ..checks.panel import Panel
from ..checks.results import Graded
from ..classroom.classroom import Classroom
from ..classroom.gradebook import Mark
from .page import marks, most_points, render, save, title

#: Where an entry of the server's log begins.
_ENTRY = re.compile(r"^(?=[IWEF]\d{4} )", re.MULTILINE)
#: An entry that is an error, except for the one that every server without a GPU writes.
_ERROR = re.compile(r"[EF]\d{4} (?!.*CudaDriverHelper)")
#: The most lines and characters of a student's own server log that their page shows.
LOG_LINES, LOG_CHARACTERS = 40, 6_000

#: The flags whose details a student reads. The others are for an instructor to look at first.
_FOR_STUDENTS = re.compile(
    r".* cell|unreadable.*|not graded|stopped|execution|runner ended|native library"
)


def pages(classroom: Classroom, assignment: Assignment) -> dict[str, Path]:
    """The feedback page of each student who has a result, by student."""
    students = classroom.results_index(assignment.name)
    return {who: classroom.feedback / who / f"{assignment.name}.html" for who in students}


def write_feedback(classroom: Classroom, assignment: Assignment) -> None:
    """Write the page of each student who has a result. Unchanged pages are not written again.

    Example::

        write_feedback(Classroom.default(), assignments.named("a2"))
    """
    places = pages(classroom, assignment)
    by_student = marks(classroom, assignment)
    for student, graded in classroom.results(assignment.name).items():
        save(places[student], _page(assignment, student, graded, by_student[student]))


def _page(assignment: Assignment, student: str, graded: Graded, mark: Mark) -> str:
    points = assignment.checks
    panels = []
    for id, most in points.items():
        result = graded.verdict.of(id)
        if result is not None:
            earned, _ = mark.parts.get(id, (result.credit * most, most))
            panel = Panel(result, points=(round(earned, 2), most))
            panels.append(Markup(panel._repr_html_()))  # the panel escapes what it shows
    wrong = any(check.credit < 1 for check in graded.verdict.checks)
    return render(
        "feedback.html",
        assignment=assignment.name,
        title=title(assignment),
        student=student,
        total=mark.total,
        most=most_points(assignment),
        penalty=mark.penalty,
        unread=mark.by_hand,
        notes=list(
            dict.fromkeys(
                flag.detail
                for flag in graded.verdict.flags
                if _FOR_STUDENTS.fullmatch(flag.kind) and flag.detail
            )
        ),
        panels=panels,
        written=[
            (id, *mark.parts.get(id, (0.0, most)), mark.comments.get(id, ""))
            for id, most in assignment.written.items()
        ],
        comments={id: s for id, s in mark.comments.items() if id not in assignment.written},
        errors=[
            # The lines after the first one are often a traceback through a library.
            {"cell": e.cell, "name": e.name, "message": e.message.partition("\n")[0][:300]}
            for e in graded.errors
        ],
        log=_errors(graded.log) if wrong else "",
    )


def _errors(log: str) -> str:
    """The last errors in a server's log, as whole lines."""
    errors = "".join(entry for entry in _ENTRY.split(log) if _ERROR.match(entry))
    return "\n".join(errors[-LOG_CHARACTERS:].splitlines()[-LOG_LINES:])
