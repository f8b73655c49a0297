"""What people read of the results: a page for each student, one for the class, and tables.

Everything that a student's code produced is text by the time it gets here, and is escaped. No page
shows a hidden check's source, a traceback or an expected answer; the judge's own log stays with the
instructor, since a model can print the secret inputs into it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from workbook.assignments import Assignment, cells

from ..checks.panel import LOOKS, Panel
from ..checks.results import Graded
from ..classroom import gradebook, intake
from ..classroom.classroom import Classroom, write
from ..classroom.gradebook import Mark

Format = Literal["nbgrader", "canvas", "moodle"]

#: Where an entry of the server's log begins, and one that reports an error. A server without a GPU
#: always reports one.
_ENTRY = re.compile(r"^(?=[IWEF]\d{4} )", re.MULTILINE)
_COMPLAINT = re.compile(r"[EF]\d{4} (?!.*CudaDriverHelper)")
#: The most lines and characters of a student's own server log that their page shows.
LOG_LINES, LOG_CHARACTERS = 40, 6_000

#: Flags that a student should hear of. The rest is for a person to look at first.
_FOR_STUDENTS = re.compile(
    r".* cell|unreadable.*|not graded|stopped|execution|runner ended|native library"
)
_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?|\b(?:inf|nan)\b)")
_FORMULA = ("=", "+", "-", "@")
_TEMPLATES = Path(__file__).parent / "templates"


def feedback(classroom: Classroom, assignment: Assignment) -> list[Path]:
    """Write a page for each student who has a result, where it is not there yet as it would be.

    Returns:
        The pages, in the students' order.
    """
    by_student = {mark.student: mark for mark in gradebook.marks(classroom, assignment.name)}
    pages = []
    for student, graded in classroom.results(assignment.name).items():
        page = classroom.feedback / student / f"{assignment.name}.html"
        _put(page, _page(assignment, student, graded, by_student.get(student)))
        pages.append(page)
    return pages


def classroom(classroom: Classroom, assignment: Assignment) -> Path:
    """Write the class report: one file that needs nothing beside it."""
    results = classroom.results(assignment.name)
    by_student = {mark.student: mark for mark in gradebook.marks(classroom, assignment.name)}
    points = assignment.checks
    marks = [by_student.get(who, _without_gradebook(who, g, points)) for who, g in results.items()]
    scores = [mark.total for mark in marks] or [0.0]
    most = sum(points.values()) + sum(assignment.written.values())
    rows = [
        {
            "student": mark.student,
            "total": mark.total,
            "cells": [_cell(graded, id, mark) for id in points],
            "flags": ", ".join(dict.fromkeys(flag.kind for flag in graded.verdict.flags)),
            "seconds": graded.executed + graded.judged,
        }
        for mark, graded in zip(marks, results.values(), strict=True)
    ]
    text = _render(
        "class.html",
        assignment=assignment.name,
        title=_title(assignment),
        most=most,
        unread=sum(mark.by_hand for mark in marks),
        rows=sorted(rows, key=lambda row: str(row["student"])),
        median=statistics.median(scores),
        mean=statistics.fmean(scores),
        least=min(scores),
        top=max(scores),
        bins=_bins(scores, most),
        checks=[_check(id, results.values()) for id in points],
        looks=[{"sign": sign, "word": word} for sign, word, _ in LOOKS.values()],
        groups=_groups(results),
        flags=_flags(results),
        twins=_twins(results),
        executed=sum(graded.executed for graded in results.values()),
        judged=sum(graded.judged for graded in results.values()),
        slowest=max((g.executed + g.judged for g in results.values()), default=0.0),
        sandboxes=sorted({graded.sandbox for graded in results.values()}),
    )
    page = classroom.report / f"{assignment.name}.html"
    _put(page, text)
    return page


def table(classroom: Classroom, assignment: Assignment, format: Format) -> str:
    """The scores as CSV, with the columns that another system takes.

    `nbgrader` is what `nbgrader export` writes. `canvas` is what Canvas's gradebook imports: it
    finds a student by `ID` (from the name of a downloaded submission), else by `SIS Login ID`.
    `moodle` serves both of Moodle's imports: the grading worksheet goes by `Identifier`, the
    gradebook by `ID number` or `Email address`.
    """
    marks = gradebook.marks(classroom, assignment.name)
    known = {
        mark.student: intake.record(classroom, assignment.name, mark.student) for mark in marks
    }
    most = sum(assignment.checks.values()) + sum(assignment.written.values())
    name = {who: (entry.name if entry else who) for who, entry in known.items()}
    header: Sequence[str]
    rows: list[Sequence[object]]
    if format == "nbgrader":
        header = (
            *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name"),
            *("email", "raw_score", "late_submission_penalty", "score", "max_score"),
        )
        rows = [
            (
                *(assignment.name, mark.due or "", mark.submitted or "", mark.student),
                *(mark.last_name, mark.first_name, mark.email, mark.score, mark.penalty),
                *(mark.total, mark.most),
            )
            for mark in marks
        ]
    elif format == "canvas":
        header = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment.name)
        rows = [("Points Possible", "", "", "", "", most)]
        for mark in marks:
            entry = known[mark.student]
            number = entry.number if entry and entry.system == "canvas" else ""
            login = "" if number else mark.student
            rows.append((name[mark.student], number, "", login, "", mark.total))
    else:
        header = ("Identifier", "Full name", "ID number", "Email address", "Grade", "Maximum grade")
        rows = []
        for mark in marks:
            entry = known[mark.student]
            number = entry.number if entry and entry.system == "moodle" else ""
            identifier = f"Participant {number}" if number else ""
            id = "" if number else mark.student
            rows.append((identifier, name[mark.student], id, mark.email, mark.total, mark.most))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[_plain(value) for value in row] for row in rows])
    return out.getvalue()


def fingerprint(classroom: Classroom, assignment: Assignment) -> str:
    """The hash of all that the pages depend on; unchanged, there is nothing to write."""
    digest = hashlib.sha256(repr(classroom.results_index(assignment.name)).encode())
    for path in (classroom.gradebook, assignment.release, Path(__file__), *_TEMPLATES.iterdir()):
        digest.update(path.read_bytes() if path.is_file() else b"-")
    return digest.hexdigest()


def normal(rationale: str) -> str:
    """A rationale without its figures: what makes two wrong answers the same mistake."""
    return " ".join(_NUMBER.sub("#", rationale).split())


def _page(assignment: Assignment, student: str, graded: Graded, mark: Mark | None) -> str:
    points = assignment.checks
    mark = mark or _without_gradebook(student, graded, points)
    panels = []
    for id, most in points.items():
        result = graded.verdict.of(id)
        if result is not None:
            earned, _ = mark.parts.get(id, (result.credit * most, most))
            panel = Panel(result, points=(round(earned, 2), most))
            panels.append(Markup(panel._repr_html_()))  # the panel escapes what it shows
    wrong = any(check.credit < 1 for check in graded.verdict.checks)
    return _render(
        "feedback.html",
        assignment=assignment.name,
        title=_title(assignment),
        student=student,
        total=mark.total,
        most=sum(points.values()) + sum(assignment.written.values()),
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
            # What follows the first line is often a trace through somebody else's library.
            {"cell": e.cell, "name": e.name, "message": e.message.partition("\n")[0][:300]}
            for e in graded.errors
        ],
        log=_complaints(graded.log) if wrong else "",
    )


def _title(assignment: Assignment) -> str:
    """The assignment's title, as its source's header has it; else its name."""
    header = cells.read(assignment.release).get("metadata", {}).get("workbook", {})
    return str(header.get("title") or assignment.name)


def _without_gradebook(student: str, graded: Graded, points: dict[str, float]) -> Mark:
    """The marks that the verdict alone gives, for a student whom nbgrader does not have yet."""
    parts = {}
    for id, most in points.items():
        result = graded.verdict.of(id)
        parts[id] = (result.credit * most if result else 0.0, most)
    score = sum(earned for earned, _ in parts.values())
    return Mark(student, score, sum(points.values()), 0.0, 0, parts)


def _cell(graded: Graded, id: str, mark: Mark) -> dict[str, Any]:
    result = graded.verdict.of(id)
    status = result.status if result else "not attempted"
    sign, word, _ = LOOKS[status]
    points = mark.parts.get(id, (0.0, 0.0))[0]
    return {"sign": sign, "word": word, "look": status.split()[-1], "points": points}


def _check(id: str, results: Iterable[Graded]) -> dict[str, Any]:
    found = [result for graded in results if (result := graded.verdict.of(id)) is not None]
    return {
        "id": id,
        "name": id.partition(".")[2],
        "sentence": next((result.sentence for result in found if result.sentence), ""),
        "share": statistics.fmean([result.credit for result in found] or [0.0]),
        "counts": [sum(result.status == status for result in found) for status in LOOKS],
    }


def _groups(results: dict[str, Graded]) -> list[dict[str, Any]]:
    """Wrong answers with the same rationale but for its figures, the most frequent first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for student, graded in results.items():
        for check in graded.verdict.checks:
            if check.status in ("failed", "partial") and check.rationale:
                group = found.setdefault(
                    (check.id, normal(check.rationale)),
                    {"check": check.id, "example": check.rationale[:400], "students": []},
                )
                group["students"].append(student)
    return sorted(found.values(), key=lambda group: (-len(group["students"]), group["check"]))


def _flags(results: dict[str, Graded]) -> list[dict[str, Any]]:
    """What a person should look at: one entry for each student and kind of flag."""
    found: dict[tuple[str, str], list[str]] = {}
    for student, graded in results.items():
        for flag in graded.verdict.flags:
            found.setdefault((student, flag.kind), []).append(flag.detail)
    return [
        {"student": student, "kind": kind, "first": first, "more": more}
        for (student, kind), (first, *more) in found.items()
    ]


def _twins(results: dict[str, Graded]) -> list[list[str]]:
    """Students whose files are the same and earned something."""
    same: dict[str, list[str]] = {}
    for student, graded in results.items():
        if any(check.credit for check in graded.verdict.checks):
            same.setdefault(graded.key, []).append(student)
    return [students for students in same.values() if len(students) > 1]


def _bins(scores: list[float], most: float) -> list[dict[str, Any]]:
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


def _complaints(log: str) -> str:
    """The last errors of a server's log, whole lines, in printable characters."""
    errors = "".join(entry for entry in _ENTRY.split(log) if _COMPLAINT.match(entry))
    lines = errors[-LOG_CHARACTERS:].splitlines()[-LOG_LINES:]
    return "\n".join("".join(c for c in line if c.isprintable() or c == "\t") for line in lines)


def _plain(value: object) -> object:
    """A table's cell that no spreadsheet takes for a formula."""
    text = str(value)
    if isinstance(value, str) and text.lstrip().startswith(_FORMULA):
        return f"'{text}"
    return round(value, 4) if isinstance(value, float) else value


def _render(template: str, **values: Any) -> str:
    loader = FileSystemLoader(_TEMPLATES)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(template).render(values)


def _put(path: Path, text: str) -> None:
    """Write a file, unless it says the same already."""
    content = text.encode("utf-8", "replace")
    if not path.is_file() or path.read_bytes() != content:
        write(path, content)
