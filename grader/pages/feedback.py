"""The feedback pages: one HTML file per student."""

from __future__ import annotations

import re
from pathlib import Path

from workbook.assignments import Assignment

from ..classroom import (
    answer_marks,
    deadlines,
    grade_rules,
    lateness,
    leaderboard,
    regrades,
    roster,
)
from ..classroom.causes import explain
from ..classroom.classroom import Classroom
from ..classroom.gradebook import Mark
from ..classroom.private import without_paths
from ..classroom.ungraded import ungraded
from ..vocabulary.results import Graded
from . import due
from .answers import answers
from .boxes import boxes
from .page import marks, most_points, render, save, title

#: Where an entry of the server's log begins.
_ENTRY = re.compile(r"^(?=[IWEF]\d{4} )", re.MULTILINE)
#: An entry that is an error, except for the one that every server without a GPU writes, and the one
#: that comes with each copy of a model that a check serves (`Probe.copied`).
_ERROR = re.compile(r"[EF]\d{4} (?!.*(CudaDriverHelper|config modification time))")
#: The most lines and characters of a student's own server log that their page shows.
LOG_LINES, LOG_CHARACTERS = 40, 6_000

#: The flags whose details a student reads. The others are for an instructor to look at first.
_FOR_STUDENTS = re.compile(
    r".* cell|other version|files missing|unreadable.*|not graded|stopped|execution|runner ended"
    r"|native library"
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
    known = roster.read(classroom)
    names = {id: student.name for id, student in known.students.items()} if known else {}
    zone = deadlines.timezone(classroom)
    without_mark = ungraded(classroom, assignment, by_student)
    rules = grade_rules.read(classroom)
    items = answer_marks.read(classroom, assignment.name)
    requests = regrades.of(classroom, assignment.name)
    results = classroom.results(assignment.name)
    excused = {student for student in results if rules.is_excused(assignment, student)}
    boards = leaderboard.find(classroom, results, by_student, {*without_mark, *excused})
    for student, graded in results.items():
        mark = by_student[student]
        late = lateness.of(classroom, assignment, student, mark.score)
        text = _page(
            assignment,
            names.get(student, ""),
            graded,
            mark,
            late=due.sentence(late, zone, mark.penalty),
            not_graded=without_mark[student].answer if student in without_mark else "",
            excused=student in excused,
            requests=requests.get(student, []),
            places=[(board, own) for board in boards if (own := board.of(student))],
            items=items,
        )
        save(places[student], without_paths(text, classroom.home))


def _page(
    assignment: Assignment,
    name: str,
    graded: Graded,
    mark: Mark,
    *,
    late: str,
    not_graded: str,
    excused: bool,
    requests: list[regrades.Request],
    places: list[tuple[leaderboard.Leaderboard, leaderboard.Entry]],
    items: dict[tuple[str, str], answer_marks.Given],
) -> str:
    explained = explain(graded, assignment)
    parts = {
        id: mark.parts.get(id, (result.credit * assignment.checks[id], assignment.checks[id]))
        for id, result in explained.results.items()
        if id in assignment.checks
    }
    is_read = all(result.status != "unreadable" for result in explained.results.values())
    wrong = any(check.credit < 1 for check in graded.verdict.checks)
    notes = [
        flag.detail
        for flag in graded.verdict.flags
        if _FOR_STUDENTS.fullmatch(flag.kind) and flag.detail not in explained.flags
    ]
    return render(
        "feedback.html",
        assignment=assignment.name,
        title=title(assignment),
        student=mark.student,
        name=name if name != mark.student else "",
        total=mark.total,
        most=most_points(assignment),
        late=late,
        not_graded=not_graded,
        excused=excused,
        requests=requests,
        places=places,
        before=mark.score,
        penalty=mark.penalty,
        unread=mark.by_hand,
        notes=[note for note in dict.fromkeys(notes) if note],
        # The reason why nothing could be read is in `not_graded`.
        boxes=boxes(explained, parts) if is_read or not not_graded else [],
        answers=answers(assignment, graded, mark, items) if is_read else [],
        comments={id: s for id, s in mark.comments.items() if id not in assignment.written},
        errors=[
            # The lines after the first one are often a traceback through a library.
            {"cell": e.cell, "name": e.name, "message": e.message.partition("\n")[0][:300]}
            for e in graded.errors
            if e.cell not in explained.reported
        ],
        log=_errors(graded.log) if wrong else "",
    )


def _errors(log: str) -> str:
    """The last errors in a server's log, as whole lines."""
    entries = [entry for entry in _ENTRY.split(log) if _ERROR.match(entry)]
    # The same error at another time is shown once, where it came last.
    last = {entry.partition("]")[2]: entry for entry in entries}
    errors = "".join(entry for entry in entries if last[entry.partition("]")[2]] is entry)
    return "\n".join(errors[-LOG_CHARACTERS:].splitlines()[-LOG_LINES:])
