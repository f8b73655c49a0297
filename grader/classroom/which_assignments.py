"""Which assignments a command of the grader is about."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from workbook import assignments
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

from .classroom import Classroom


def named(name: str | None) -> Assignment:
    """The assignment of this name; without a name, the only one.

    Raises:
        WorkbookError: there is none of this name, or there are several.
    """
    if name is not None:
        return assignments.named(name)
    known = assignments.find()
    if len(known) != 1:
        raise WorkbookError(
            "Which assignment?",
            todo=f"Name one: {', '.join(found.name for found in known) or 'there is none'}.",
        )
    return known[0]


def built() -> list[Assignment]:
    """The assignments that are built, so that they can be graded."""
    return [found for found in assignments.find() if found.release.is_file()]


def handed_in(
    classroom: Classroom, meant: Assignment | None, students: Collection[str]
) -> Iterator[tuple[Assignment, Collection[str]]]:
    """The assignments with submissions, each with the students to whom grading it is limited.

    Args:
        classroom: where the submissions are.
        meant: only this one.
        students: only these students; empty: all. Without `meant`, each assignment gets those
            of them who handed it in. If none of them handed in anything, the first assignment gets
            them all, and its grading reports it.
    """
    candidates = [meant] if meant else built()
    there = [(which, who) for which in candidates if (who := classroom.submissions(which.name))]
    if meant or not students:
        yield from ((which, students) for which, _ in there)
        return
    limited = [(which, [one for one in students if one in who]) for which, who in there]
    limited = [(which, theirs) for which, theirs in limited if theirs]
    yield from limited or ((which, students) for which, _ in there[:1])


def graded(classroom: Classroom, name: str | None) -> list[Assignment]:
    """The assignment of this name; without a name, all that have a graded submission.

    Raises:
        WorkbookError: nothing has been graded yet; and as `named`.
    """
    meant = built() if name is None else [named(name)]
    found = [which for which in meant if classroom.results_index(which.name)]
    if not found:
        of = f" of {meant[0].name}" if name is not None else ""
        raise WorkbookError(
            f"Nothing{of} has been graded yet.",
            where=str(classroom.home),
            todo=f"Grade it first: `grader autograde{f' {meant[0].short}' if of else ''}`.",
        )
    return found
