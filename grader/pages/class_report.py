"""The class report: one HTML file with the results of a whole class."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from markupsafe import Markup

from workbook.assignments import Assignment

from ..classroom import (
    by_hand,
    deadlines,
    grade_rules,
    intake,
    lateness,
    leaderboard,
    regrades,
    roster,
    similarity,
)
from ..classroom.causes import explain
from ..classroom.classroom import Classroom
from ..classroom.gradebook import Mark
from ..classroom.private import without_paths
from ..classroom.ungraded import ungraded
from ..vocabulary import own
from ..vocabulary.panel import LOOKS, marked
from ..vocabulary.results import CheckResult, Graded
from . import due
from .page import marks, most_points, render, save, title

#: The statuses that the class's table of checks always shows.
_ALWAYS = ("passed", "partial", "failed", "not attempted")
#: The statuses whose rationales are put into groups.
_WITH_REASON = ("failed", "partial", "stopped", "unreadable", "error")
#: Submissions that took longer than these seconds are listed, at most `MOST_SLOW`, each with the
#: checks that took longer than `LONG_CHECK_S`.
LONG_S, MOST_SLOW, LONG_CHECK_S = 60.0, 20, 15.0
_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?|\b(?:inf|nan)\b)")


def page(classroom: Classroom, assignment: Assignment) -> Path:
    """The file of the class report."""
    return classroom.report / f"{assignment.name}.html"


def write_class_report(classroom: Classroom, assignment: Assignment) -> None:
    """Write the class report. It needs no other file, so it can be sent by mail.

    Example::

        write_class_report(Classroom.default(), assignments.named("a2"))
    """
    results = classroom.results(assignment.name)
    found = {who: explain(graded, assignment).results for who, graded in results.items()}
    known = roster.read(classroom)
    names = {id: student.name for id, student in known.students.items()} if known else {}
    by_student = marks(classroom, assignment)
    without_mark = ungraded(classroom, assignment, by_student)
    rules = grade_rules.read(classroom)
    listed = {*results, *without_mark, *(known.students if known else ())}
    excused = {student for student in listed if rules.is_excused(assignment, student)}
    missing = listed - results.keys() - without_mark.keys() - excused
    points = assignment.checks
    counted = [by_student[who] for who in results if who not in {*without_mark, *excused}]
    scores = [mark.total for mark in counted] or [0.0]
    boards = leaderboard.find(classroom, results, by_student, {*without_mark, *excused})
    most = most_points(assignment)
    text = render(
        "class.html",
        assignment=assignment.name,
        title=title(assignment),
        most=most,
        unread=sum(mark.by_hand for mark in counted),
        rows=[
            {
                **_row(by_student.get(who), who, results.get(who), found.get(who, {}), points),
                "name": names.get(who, "") if names.get(who) != who else "",
                "late": _late(classroom, assignment, by_student[who]) if who in results else "",
                "state": "excused"
                if who in excused
                else "not graded"
                if who in without_mark
                else "no submission"
                if who in missing
                else "",
            }
            for who in sorted(listed)
        ],
        ungraded={who: why for who, why in without_mark.items() if who not in excused},
        excused=len(excused),
        has_penalty=any(mark.penalty for mark in counted),
        has_due=deadlines.of(classroom, assignment.name) is not None,
        submissions=len(results),
        missing=len(missing),
        median=statistics.median(scores),
        mean=statistics.fmean(scores),
        least=min(scores),
        top=max(scores),
        bins=_bins(scores, most),
        checks=[_check(id, found.values(), counted) for id in points],
        looks=[
            {"sign": sign, "word": word}
            for status, (sign, word, _) in LOOKS.items()
            if status in _statuses(found.values())
        ],
        boards=[{"check": one.check, "entries": one.entries, **_strip(one)} for one in boards],
        names=names,
        groups=_groups(found),
        flags=_flags(results),
        stale=[
            (who, one)
            for who, cells in by_hand.stale(classroom, assignment.name).items()
            for one in cells
        ],
        requests=[
            (who, one)
            for who, theirs in regrades.of(classroom, assignment.name).items()
            for one in theirs
        ],
        same=_same_files(results),
        same_data=_same_data(results),
        default_id=own.DEFAULT,
        notes=_notes(classroom, assignment, results),
        in_inbox=intake.read_reports(classroom),
        similar=similarity.groups(
            similarity.solution_texts(classroom, assignment, results), assignment
        ),
        executed=sum(graded.executed for graded in results.values()),
        judged=sum(graded.judged for graded in results.values()),
        slowest=max((g.executed + g.judged for g in results.values()), default=0.0),
        slow=_slow(results),
        sandboxes=sorted({graded.sandbox for graded in results.values()}),
    )
    save(page(classroom, assignment), without_paths(text, classroom.home))


def _html(text: str) -> Markup:
    return Markup(marked(text))  # `marked` escapes it


def without_figures(rationale: str) -> str:
    """Replace each number in a rationale with `#`, so that wrong answers of one kind are equal.

    Example: `without_figures("7 of 50 rows differ") == "# of # rows differ"`.
    """
    return " ".join(_NUMBER.sub("#", rationale).split())


_Results = dict[str, CheckResult]


def _row(
    mark: Mark | None,
    student: str,
    graded: Graded | None,
    results: _Results,
    points: dict[str, float],
) -> dict[str, Any]:
    """A student's row of the table; without a result it has no cells."""
    if mark is None or graded is None:
        return {"student": student, "cells": []}
    return {
        "student": student,
        "before": mark.score,
        "penalty": mark.penalty,
        "total": mark.total,
        "cells": [_cell(results.get(id), id, mark) for id in points],
        "flags": ", ".join(dict.fromkeys(flag.kind for flag in graded.verdict.flags)),
        "seconds": graded.executed + graded.judged,
    }


def _late(classroom: Classroom, assignment: Assignment, mark: Mark) -> str:
    """How late it was, and what that costs."""
    late = lateness.of(classroom, assignment, mark.student, mark.score)
    return due.short(late, mark.penalty)


def _cell(result: CheckResult | None, id: str, mark: Mark) -> dict[str, Any]:
    """A student's result of one check."""
    status = result.status if result else "not attempted"
    sign, word, _ = LOOKS[status]
    points = mark.parts.get(id, (0.0, 0.0))[0]
    return {"sign": sign, "word": word, "look": status.split()[-1], "points": points}


def _check(id: str, results: Iterable[_Results], counted: Iterable[Mark]) -> dict[str, Any]:
    """The results of one check in the whole class; its share of points in the marks that count."""
    found = [result for of in results if (result := of.get(id)) is not None]
    parts = [mark.parts.get(id, (0.0, 0.0)) for mark in counted]
    return {
        "id": id,
        "name": id.partition(".")[2],
        "sentence": next((result.sentence for result in found if result.sentence), ""),
        "share": statistics.fmean(
            [earned / most for earned, most in parts if most]
            or [result.credit for result in found]  # of a check without points
            or [0.0]
        ),
        "counts": [
            sum(result.status == status for result in found) for status in _statuses(results)
        ],
    }


def _statuses(results: Iterable[_Results]) -> list[str]:
    """The statuses that a table of a class shows: those of the judge, and others that occur."""
    given = {result.status for of in results for result in of.values()}
    return [status for status in LOOKS if status in given or status in _ALWAYS]


def _groups(results: dict[str, _Results]) -> list[dict[str, Any]]:
    """Groups of wrong answers whose rationales differ only in numbers, the largest group first.

    What stopped several checks of a student, such as an error of a cell, is one group.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for student, of in results.items():
        for id, result in of.items():
            if result.status not in _WITH_REASON or not result.rationale:
                continue
            of_cause = result.status in ("stopped", "unreadable", "error")
            message = (
                result.found or result.rationale
            )  # of a hidden variant, more than students read
            group = found.setdefault(
                ("" if of_cause else id, without_figures(message)),
                {"checks": [], "example": _html(message[:400]), "students": []},
            )
            for value, values in ((id, group["checks"]), (student, group["students"])):
                if value not in values:
                    values.append(value)
    return sorted(found.values(), key=lambda group: (-len(group["students"]), group["checks"]))


def _flags(results: dict[str, Graded]) -> list[dict[str, Any]]:
    """The flags, which a person should look at: one entry per student and kind of flag."""
    found: dict[tuple[str, str], list[str]] = {}
    for student, graded in results.items():
        for flag in graded.verdict.flags:
            found.setdefault((student, flag.kind), []).append(flag.detail)
    return [
        {"student": student, "kind": kind, "first": first, "more": more}
        for (student, kind), (first, *more) in found.items()
    ]


def _notes(
    classroom: Classroom, assignment: Assignment, results: dict[str, Graded]
) -> list[tuple[str, str]]:
    """What an instructor should know of how submissions came in, with the students."""
    found = []
    for student in results:
        record = intake.record(classroom, assignment.name, student)
        if record is not None and record.note:
            found.append((student, record.note))
        if record is not None and record.late and not record.time:
            found.append((student, "Canvas calls it late. By how much, its download does not say."))
    return found


def _slow(results: dict[str, Graded]) -> list[dict[str, Any]]:
    """The submissions that took longer than `LONG_S`, the longest first, and what took so long.

    That is a cell which was interrupted, or a check that took more than `LONG_CHECK_S`. Each
    submission takes the time of one worker; the other workers go on.
    """
    found: list[dict[str, Any]] = []
    for student, graded in results.items():
        seconds = graded.executed + graded.judged
        if seconds <= LONG_S:
            continue
        causes = [f.detail for f in graded.verdict.flags if f.kind in ("execution", "stopped")]
        causes += [
            f"{check.id} took {check.seconds:.0f} s."
            for check in graded.verdict.checks
            if check.seconds > LONG_CHECK_S
        ]
        found.append(
            {
                "student": student,
                "seconds": seconds,
                "executed": graded.executed,
                "judged": graded.judged,
                "why": " ".join(causes)[:600],
            }
        )
    return sorted(found, key=lambda one: -one["seconds"])[:MOST_SLOW]


def _same_files(results: dict[str, Graded]) -> list[list[str]]:
    """Groups of students who handed in the same files, if these files earned points."""
    same: dict[str, list[str]] = {}
    for student, graded in results.items():
        if any(check.credit for check in graded.verdict.checks):
            same.setdefault(graded.key, []).append(student)
    return [students for students in same.values() if len(students) > 1]


def _same_data(results: dict[str, Graded]) -> list[str]:
    """The students who left the id as it was, where they are more than one."""
    found = [who for who, graded in results.items() if own.DEFAULT in graded.verdict.me]
    return sorted(found) if len(found) > 1 else []


def _strip(board: leaderboard.Leaderboard) -> dict[str, Any]:
    """Where each figure stands between the lowest and the highest, from 0 to 1, for a plot.

    Without figures of both kinds there is nothing to plot. Ratios are compared by their logarithms.
    """
    values = [entry.value for entry in board.entries]
    is_ratio = min(values) > 0
    scaled = [math.log(value) if is_ratio else value for value in values]
    low, high = min(scaled), max(scaled)
    return {
        "spots": [(value - low) / (high - low) for value in scaled] if high > low else [],
        "scale": "logarithmic" if is_ratio else "linear",
    }


def _bins(scores: list[float], most: float) -> list[dict[str, Any]]:
    """The histogram of the scores: ten bins, each with its height in percent of the highest."""
    counts = [0] * 10
    for score in scores:
        counts[min(9, int(10 * score / most)) if most else 0] += 1
    highest = max(counts) or 1
    return [
        {
            "count": count,
            "height": round(95 * count / highest),
            "label": f"{most * n / 10:g}-{most * (n + 1) / 10:g}",
        }
        for n, count in enumerate(counts)
    ]
