"""Submissions that have no mark although they were handed in: their points are no zeros.

The grader may have failed, or the submission may not be readable. nbgrader's gradebook has 0 points
for it all the same. So tables, pages and statistics ask this module whom they have to leave out.

A person can settle such a submission: by points for each of the checks that were not judged, in
formgrader.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from workbook.assignments import Assignment

from ..vocabulary.results import Graded
from . import gradebook, roster
from .classroom import Classroom
from .gradebook import Mark

#: The flag of a submission that could not be graded.
NOT_GRADED = "not graded"
#: Flags that may be the machine's fault. A submission with one of them, or with a check that
#: crashed, is graded a second time in the next run.
MAYBE_MACHINE = frozenset({NOT_GRADED, "runner ended", "judge ended", "machine busy"})
#: The flag of a submission, or of its notebook, that could not be read.
UNREADABLE = "unreadable"
#: The statuses of checks that no code judged.
_UNJUDGED = ("not attempted", "waits")

_FAULT_OF_OURS = (
    "Your submission has arrived, and is not graded yet: our grader stopped before it had judged "
    "all of it. You need not do anything. Your points come later."
)


@dataclasses.dataclass(frozen=True)
class Ungraded:
    """Why a submission has no mark.

    Attributes:
        why: what happened, for the instructor.
        todo: what the instructor does next.
        answer: what to answer the student; it stands on the feedback page.
    """

    why: str
    todo: str
    answer: str


def ungraded(
    classroom: Classroom, assignment: Assignment, marks: Mapping[str, Mark]
) -> dict[str, Ungraded]:
    """The students whose submissions have no mark, with the reasons, in alphabetical order.

    Those who are not in the class list are left out: `grader autograde` reports them.

    Example::

        marks = {mark.student: mark for mark in gradebook.marks(classroom, "a2__forest")}
        for student, found in ungraded(classroom, assignments.named("a2"), marks).items():
            print(student, found.why)

    Args:
        classroom: the classroom.
        assignment: the assignment.
        marks: the gradebook's entries, by student. They say what a person has settled.

    Raises:
        WorkbookError: the class list is wrong.
    """
    listed = roster.read(classroom)
    index = classroom.results_index(assignment.name)
    results = classroom.results(assignment.name)
    written = gradebook.keys(classroom, assignment.name)
    found = {}
    for student in sorted({*classroom.submissions(assignment.name), *results}):
        if listed is not None and student not in listed.students:
            continue
        if student not in results:
            found[student] = _waits("It is not graded yet.", "Run `make grade`.")
        elif written.get(student) != index[student]:
            found[student] = _waits(
                "The gradebook does not have the result of this submission yet.",
                "Close what else has the gradebook open, and run `make grade`.",
            )
        elif why := why_ungraded(student, results[student], assignment, marks.get(student)):
            found[student] = why
    return found


def why_ungraded(
    student: str, graded: Graded, assignment: Assignment, mark: Mark | None = None
) -> Ungraded | None:
    """Why a result is no mark; None where it is one, or where a person has settled it.

    Args:
        student: nbgrader's id.
        graded: the stored result.
        assignment: the assignment.
        mark: the gradebook's entry, where it has one.
    """
    flags = {flag.kind: flag.detail for flag in graded.verdict.flags}
    failed = flags.keys() & {*MAYBE_MACHINE, UNREADABLE}
    settled = mark.given if mark else frozenset()
    waiting = [
        result.id
        for result in graded.verdict.checks
        if (result.status == "error" or (failed and result.status in _UNJUDGED))
        and assignment.checks.get(result.id)
        and result.id not in settled
    ]
    if not waiting:
        return None
    by_hand = f"Or give points for {', '.join(waiting)} in `grader formgrader`."
    if UNREADABLE in flags:
        detail = flags[UNREADABLE]
        return Ungraded(
            why=f"It could not be read. {detail}".strip(),
            todo=f"Ask the student to hand in again. {by_hand}",
            answer=f"Your submission could not be read, so it is not graded. {detail} Hand in "
            f"again: `workbook submit {assignment.short}` checks your work and writes the zip.",
        )
    errors = [c.rationale for c in graded.verdict.checks if c.id in waiting and c.rationale]
    details = [flags[kind] for kind in sorted(failed) if flags[kind]]
    why = next(iter(details + errors), "A check ended with an error of its own.")
    return Ungraded(
        why=why.strip(),
        todo="Run `make grade` again. If that does not help: `grader autograde "
        f"{assignment.short} --student {student} --force`, while the machine does nothing else. "
        + by_hand,
        answer=_FAULT_OF_OURS,
    )


def _waits(why: str, todo: str) -> Ungraded:
    return Ungraded(why, todo, "Your submission has arrived, and is not graded yet.")
