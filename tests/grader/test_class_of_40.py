"""A realistic class: 40 students, two assignments, two systems, and all that can go wrong.

The first assignment was handed in on Canvas, the second on Moodle. Grading itself is replaced by a
fake: a submission's code says which part of the points it earns.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from a_class import answered, classroom, course, fake_grade, fake_key, pack
from typer.testing import CliRunner

from grader.classroom import (
    autograde,
    by_hand,
    deadlines,
    export,
    gradebook,
    intake,
    roster,
    standings,
)
from grader.classroom.classroom import Classroom
from grader.cli import app
from workbook.assignments import Assignment

pytestmark = pytest.mark.server

FIRST = (
    *("Anna", "José", "Nguyễn", "Łukasz", "Zoë", "Айгүл", "Δήμητρα", "मोहन", "สมชาย", "太郎"),
    *("Ana María", "Bo", "Bo", "Chidi", "Dmitri", "Eva-Lena", "Fatima", "Gül", "Hana", "Ines"),
)
LAST = ("Okafor", "Núñez", "Khai", "Żółć", "O'Connor", "Жаңабек", "Αγγελή", "कुमार", "ใจดี", "山田")
#: 40 students s00 to s39. s11 and s12 have the same name.
PEOPLE = {
    f"s{n:02}": (FIRST[n % 20] + ("" if n < 20 else " II"), LAST[(n - (n == 12)) % 10])
    for n in range(40)
}
DUE = """
timezone = "Europe/Berlin"

[a9]
due = 2026-11-20T23:59:00
grace_minutes = 5
percent_per_day = 10

[a9.extensions]
s05 = 3
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Assignment, Assignment]:
    """The assignment on Canvas, and the one on Moodle."""
    home = tmp_path_factory.mktemp("course")
    return course(home, "a8__other"), course(home)


@pytest.fixture
def where(
    class_home: Path, both: tuple[Assignment, Assignment], monkeypatch: pytest.MonkeyPatch
) -> Classroom:
    made = classroom(class_home)
    monkeypatch.setenv("WORKBOOK_HOME", str(both[0].home))
    monkeypatch.setenv("GRADER_WORK", str(made.home))
    faked = functools.partial(autograde.autograde, grader=fake_grade, keyer=fake_key)
    monkeypatch.setattr(autograde, "autograde", faked)
    made.make_inbox()
    text = io.StringIO()
    table = csv.writer(text, delimiter=";", lineterminator="\r\n")  # as Excel writes it
    table.writerow(["id", "First name", "Last name", "E-mail", "Canvas ID"])
    for n, (student, (first, last)) in enumerate(PEOPLE.items()):
        table.writerow([student, first, last, f"{student}@example.org", 4700 + n])
    roster.path(made).write_bytes(text.getvalue().encode("utf-8-sig"))
    deadlines.path(made).write_text(DUE)
    return made


def packed(files: dict[str, bytes | str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def notebook(assignment: Assignment, credit: float, who: str) -> bytes:
    return answered(assignment, f"number = {credit}  # {who}", f"Because, says {who}.")


def whole(assignment: Assignment, credit: float, who: str) -> bytes:
    """A zip as `workbook submit` writes it."""
    return packed({assignment.release.name: notebook(assignment, credit, who), "models/m/": ""})


def canvas_name(student: str, file: int, name: str, *, late: bool = False) -> str:
    first, last = PEOPLE[student]
    squeezed = "".join(c for c in f"{last}{first}".lower() if c.isalnum() or not c.isascii())
    number = 4700 + int(student[1:])
    return f"{squeezed}{'_LATE' if late else ''}_{number}_{file}_{name}"


def moodle_name(student: str, kind: str = "file") -> str:
    return f"{' '.join(PEOPLE[student])}_{900 + int(student[1:])}_assignsubmission_{kind}"


def on_canvas(where: Classroom, a8: Assignment, a9: Assignment) -> None:
    """30 files of 30 students; a week later, a second download with three resubmissions."""
    files: dict[str, bytes | str] = {}
    for n, student in enumerate(list(PEOPLE)[:25]):
        files[canvas_name(student, 100 + n, "a8__other.zip", late=n == 7)] = whole(a8, 1, student)
    files[canvas_name("s25", 125, "a8 (1).ipynb")] = notebook(a8, 0.5, "s25")
    files[canvas_name("s26", 126, "essay.pdf")] = "%PDF"
    files[canvas_name("s27", 127, "a8.rar")] = "Rar!"
    first, last = PEOPLE["s28"]
    files[f"{last}{first}_4728_text.html".lower().replace(" ", "")] = "<p>see my e-mail"
    files[canvas_name("s29", 129, "everything.zip")] = packed(
        {
            "triton-course/assignments/a8__other/a8.ipynb": a8.release.read_bytes(),
            "triton-course/work/assignments/a8__other/a8.ipynb": notebook(a8, 1, "s29"),
            "triton-course/work/assignments/a9__toy/a9.ipynb": a9.release.read_bytes(),
            "triton-course/.git/HEAD": "ref",
            "__MACOSX/triton-course/._README.md": b"\0",
        }
    )
    files["testergradebook_4799_130_a8.zip"] = whole(a8, 1, "nobody")
    pack(where.inbox / "triton-26-other_submissions.zip", files)
    pack(
        where.inbox / "submissions (1).zip",
        {
            canvas_name("s00", 200, "a8__other-1.zip", late=True): whole(a8, 0.5, "s00 again"),
            canvas_name("s01", 201, "a8__other-1.zip"): packed({"a8.ipynb": "{ broken"}),
            canvas_name("s26", 202, "a8-1.zip"): packed({"a8.zip": whole(a8, 1, "s26")}),
        },
    )


def on_moodle(where: Classroom, a8: Assignment, a9: Assignment) -> None:
    """Folders, texts, and the worksheet with the times."""
    files: dict[str, bytes | str] = {}
    times: dict[str, str] = {}
    for n, student in enumerate(list(PEOPLE)[:30]):
        folder = moodle_name(student)
        if n % 2:
            files[f"{folder}/a9__toy.zip"] = whole(a9, 1, student)
        else:
            files[f"{folder}/a9.ipynb"] = notebook(a9, 1, student)
            files[f"{folder}/models/m/config.pbtxt"] = "name: 'm'"
        times[student] = "Friday, 20 November 2026, 11:30 PM"
    times["s02"] = "Saturday, 21 November 2026, 12:03 AM"  # within the grace
    times["s03"] = "Saturday, 21 November 2026, 9:00 AM"  # a day late
    times["s04"] = "Monday, 23 November 2026, 12:00 PM"  # three days late
    times["s05"] = "Monday, 23 November 2026, 12:00 PM"  # has three days more
    files[f"{moodle_name('s30')}/a8.ipynb"] = notebook(a8, 1, "s30")  # the other assignment
    files[f"{moodle_name('s31', 'onlinetext')}/onlinetext.html"] = "I was ill."
    files[f"{moodle_name('s00', 'onlinetext')}/onlinetext.html"] = "See the file."
    files[f"{moodle_name('s32')}/photo.jpg"] = b"\xff\xd8"
    files["Max Nobody_999_assignsubmission_file/a9.ipynb"] = notebook(a9, 1, "max")
    pack(where.inbox / "Triton 26-Toy-71.zip", files)
    rows = [["Identifier", "Full name", "Status", "Last modified (submission)"]]
    for student, time in times.items():
        number = 900 + int(student[1:])
        rows.append([f"Participant {number}", " ".join(PEOPLE[student]), "Submitted", time])
    rows.append(["Participant 939", " ".join(PEOPLE["s39"]), "No submission", "-"])
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    (where.inbox / "Grades-Triton 26-Toy-71.csv").write_text(text.getvalue(), "utf-8-sig")


def by_mail(where: Classroom, a9: Assignment) -> None:
    """Files that an instructor puts beside the downloads, and files that systems leave there."""
    (where.inbox / "s33.zip").write_bytes(whole(a9, 0.5, "s33"))
    (where.inbox / "s33 (1).zip").write_bytes(whole(a9, 1, "s33 again"))
    os.utime(where.inbox / "s33.zip", (1_000, 1_000))
    (where.inbox / "s34@example.org.ipynb").write_bytes(notebook(a9, 1, "s34"))
    (where.inbox / "a9__toy.zip").write_bytes(whole(a9, 1, "who?"))
    evil = {f"{moodle_name('s06')}/a9.ipynb": notebook(a9, 0, "eve")}
    (where.inbox / "s35.zip").write_bytes(packed({**evil, "a9.ipynb": notebook(a9, 1, "s35")}))
    (where.inbox / "homework.zip").write_bytes(packed(dict(evil)))
    exchange = where.inbox / "s36+a9__toy+2026-11-22 10:00:00 UTC+x"
    exchange.mkdir()
    (exchange / "a9.ipynb").write_bytes(notebook(a9, 1, "s36"))
    for name in ("Thumbs.db", ".DS_Store", "desktop.ini"):
        (where.inbox / name).write_bytes(b"\0")
    (where.inbox / "__MACOSX").mkdir()
    (where.inbox / "notes.txt").write_text("call s37")


#: The report for a name without a number that two students have.
TWINS = "It could be of 2 students: s11, s12"
REPORTED = {
    "triton-26-other_submissions.zip: testergradebook_4799_130_a8.zip": "Nobody in the class list",
    f"Triton 26-Toy-71.zip: {moodle_name('s11')}": TWINS,
    f"Triton 26-Toy-71.zip: {moodle_name('s12')}": TWINS,
    "Triton 26-Toy-71.zip: Max Nobody_999_assignsubmission_file": "Nobody in the class list",
    "a9__toy.zip": "Nobody in the class list is 'a9__toy'",
    "homework.zip": "It holds 1 submission, as Moodle names them",
    "notes.txt": "It is a .txt file",
}
#: Points of the checks on Canvas, before any penalty; all other students have 15 of 15.
CANVAS = {
    **{f"s{n:02}": 15.0 for n in range(30)},
    **{"s00": 7.5, "s25": 7.5, "s27": 0.0, "s28": 0.0, "s30": 15.0},
}
MOODLE = {
    **{f"s{n:02}": 15.0 for n in range(30) if n not in (11, 12)},
    **{"s31": 0.0, "s32": 0.0, "s33": 15.0, "s34": 15.0, "s35": 15.0, "s36": 15.0},
}
#: Of 20 points, a late day costs 2.
PENALTIES = {"s03": 2.0, "s04": 6.0, "s36": 4.0}


@pytest.mark.timeout(900)
def test_a_class_of_40(where: Classroom, both: tuple[Assignment, Assignment]) -> None:
    a8, a9 = both
    on_canvas(where, a8, a9)
    on_moodle(where, a8, a9)
    by_mail(where, a9)

    done = CliRunner().invoke(app, ["autograde", "--workers", "2"])

    assert done.exit_code == 3, (done.output, done.exception)
    said = {one.source: one.reason for one in intake.read_reports(where)}
    assert said.keys() == REPORTED.keys()
    for source, words in REPORTED.items():
        assert words in said[source], source

    canvas = {mark.student: mark for mark in gradebook.marks(where, a8.name)}
    moodle = {mark.student: mark for mark in gradebook.marks(where, a9.name)}
    assert {who: mark.score for who, mark in canvas.items()} == CANVAS
    assert {who: mark.score for who, mark in moodle.items()} == MOODLE
    assert {who: mark.penalty for who, mark in moodle.items() if mark.penalty} == PENALTIES
    assert not any(mark.penalty for mark in canvas.values())

    flagged = {
        who: graded.verdict.flags[0].detail
        for who, graded in (where.results(a8.name) | where.results(a9.name)).items()
        if graded.verdict.flags
    }
    assert flagged.keys() == {"s31", "s32"} | {"s27", "s28"} - where.results(a9.name).keys()
    records = {
        name: {who: intake.record(where, name, who) for who in PEOPLE}
        for name in (a8.name, a9.name)
    }
    problems = {
        (name[:2], who): record.problem
        for name, found in records.items()
        for who, record in found.items()
        if record and record.problem
    }
    assert {key: text[:28] for key, text in problems.items()} == {
        ("a8", "s27"): "It is an archive of another ",
        ("a8", "s28"): "It is a text that was typed,",
        ("a9", "s31"): "It is a text that was typed,",
        ("a9", "s32"): "There is no notebook of an a",
    }
    notes = {
        (name[:2], who): record.note
        for name, found in records.items()
        for who, record in found.items()
        if record and record.note
    }
    assert notes.keys() == {("a8", "s00"), ("a8", "s01"), ("a9", "s33")}
    assert "Of 2 that were handed in, the last counts: submissions (1).zip" in notes["a8", "s00"]
    assert "A later one, submissions (1).zip: " in notes["a8", "s01"]
    late = {who for who, record in records[a8.name].items() if record and record.late}
    assert late == {"s00", "s07"}
    times = {who: record.time for who, record in records[a9.name].items() if record and record.time}
    assert times["s02"] == "2026-11-20 23:03:00.000000 UTC"
    assert times["s36"] == "2026-11-22 10:00:00.000000 UTC"
    assert len(times) == 29
    standing = standings.standing(where, a9, "s05", 15)
    assert standing is not None
    assert (standing.days, standing.extension.days, standing.penalty) == (0, 3, 0)

    # Nobody has handed in for another student, and all students are in the tables.
    assert b"s06" in (where.submission("s06", a9.name) / "a9.ipynb").read_bytes()
    listed = roster.read(where)
    assert listed is not None
    assert {one.id for one in listed.without(moodle)} == {"s11", "s12", "s30", "s37", "s38", "s39"}
    assert CliRunner().invoke(app, ["report"]).exit_code == 0
    for assignment, student in ((a8, "s01"), (a9, "s33")):
        report = (where.report / f"{assignment.name}.html").read_text()
        for words in (TWINS, "homework.zip", notes[assignment.name[:2], student][:30]):
            assert words in report
    assert "Canvas calls it late" in (where.report / f"{a8.name}.html").read_text()
    rows = list(csv.DictReader(io.StringIO(export.table(where, a9, "nbgrader").text)))
    assert {row["student_id"] for row in rows} == PEOPLE.keys()


@pytest.mark.timeout(900)
def test_the_next_week(where: Classroom, both: tuple[Assignment, Assignment]) -> None:
    """Another run grades only what is new; what a person gave meanwhile is kept, or stale."""
    from nbgrader.api import Gradebook

    _, a9 = both
    by_mail(where, a9)
    assert CliRunner().invoke(app, ["autograde", "--workers", "2"]).exit_code == 3
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        for student in ("s33", "s34"):
            grade = book.find_grade("a9-why", "a9", a9.name, student)
            grade.manual_score, grade.needs_manual_grade = 5, False
        book.db.commit()
    before = where.results_index(a9.name)
    kept = {path: path.stat().st_mtime_ns for path in (where.home / "results").rglob("*.json")}

    shutil.rmtree(where.inbox / "__MACOSX")
    (where.inbox / "s33 (2).zip").write_bytes(whole(a9, 0.5, "s33 a third time"))
    (where.inbox / "s34@example.org.ipynb").write_bytes(
        answered(a9, "number = 0.5", "Because, says s34.")
    )
    on_moodle(where, *both)
    done = CliRunner().invoke(app, ["autograde", "a9", "--workers", "2"])

    assert done.exit_code == 3
    marks = {mark.student: mark for mark in gradebook.marks(where, a9.name)}
    assert (marks["s33"].score, marks["s34"].score) == (12.5, 12.5)
    assert marks["s34"].by_hand == 0
    assert {
        who: [one.cell for one in cells] for who, cells in by_hand.stale(where, a9.name).items()
    } == {"s33": ["a9.why"]}
    after = where.results_index(a9.name)
    assert {who for who in before if after[who] != before[who]} == {"s33", "s34"}
    for path, time in kept.items():
        if path.name != "class.json":
            assert path.stat().st_mtime_ns == time
    assert json.loads((where.home / "intake" / "reported.json").read_text())
