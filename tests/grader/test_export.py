"""Exports into files as Moodle and Canvas write them, read as their importers read them.

The readers below follow moodle/moodle, mod/assign/feedback/offline/importgradeslib.php and
mod/assign/feedback/file/importziplib.php, and instructure/canvas-lms, lib/gradebook_importer.rb.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import json
import re
import zipfile
from pathlib import Path

import pytest
from a_class import answered, classroom, fake_grade, pack
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from grader.classroom import (
    by_hand,
    export,
    export_canvas,
    export_nbgrader,
    export_rows,
    gradebook,
    intake,
    names,
    spreadsheet,
    ungraded,
)
from grader.classroom.classroom import Classroom
from grader.classroom.export_rows import Row
from grader.cli import app
from grader.judge.grade_submission import Settings
from grader.pages import class_report
from grader.vocabulary.results import CheckResult, Flag, Graded, Status, Verdict
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

#: Student, number in Moodle, number in Canvas, credit, what they wrote.
CLASS = {
    "anna": ("Anna Okafor", 4711, 11, 1.0, "Because."),
    "bela": ("Béla =Bartók", 4712, 12, 0.5, ""),
    "cy": ("Cy Li", 4713, 13, None, ""),
    "dora": ("Dora_Ann Díaz", 4714, 14, 0.0, ""),
}
MOODLE = (
    *("Identifier", "Full name", "ID number", "Email address", "Status", "Grade"),
    *("Maximum Grade", "Grade can be changed", "Last modified (submission)", "Online text"),
    *("Last modified (grade)", "Feedback comments"),
)
GERMAN = (
    *("ID", "Vollständiger Name", "Matrikelnummer", "E-Mail-Adresse", "Status", "Bewertung"),
    *("Maximale Bewertung", "Bewertung kann geändert werden", "Zuletzt geändert (Abgabe)"),
    *("Texteingabe online", "Zuletzt geändert (Bewertung)", "Feedback als Kommentar"),
)


@pytest.fixture(scope="module")
def a_class(tmp_path_factory: pytest.TempPathFactory, toy: Assignment) -> Classroom:
    where = classroom(tmp_path_factory.mktemp("room"))
    where.home.mkdir()
    lines = [f"{id},{name},{id}@x.org,{canvas}" for id, (name, _, canvas, _, _) in CLASS.items()]
    (where.home / "students.csv").write_text("id,name,email,Canvas ID\n" + "\n".join(lines))
    writer = gradebook.Writer(where, toy)
    for id, (_, _, _, credit, text) in CLASS.items():
        if credit is None:
            continue
        pack(where.inbox / f"{id}.zip", {"a9.ipynb": answered(toy, f"number = {credit}", text)})
    intake.take_inbox(where, toy, where.inbox)
    for id, (_, _, _, credit, text) in CLASS.items():
        if credit is None:
            continue
        status = "passed" if credit == 1 else "partial" if credit else "failed"
        checks = tuple(
            CheckResult(
                id=check,
                sentence="It holds.",
                status=status,
                credit=credit,
                rationale="=A1 <b>\x1b",
            )
            for check in toy.checks
        )
        graded = Graded(
            key=f"{id:x>64}",
            assignment=toy.name,
            verdict=Verdict(assignment=toy.name, checks=checks),
            notebook=answered(toy, f"number = {credit}", text).decode(),
            sandbox="none",
        )
        where.store(graded)
        where.save_results_index(toy.name, {**where.results_index(toy.name), id: graded.key})
        writer.write(id, graded.key)
    return where


def moodle_rows(maximum: str = "20.00", prefix: str = "Participant ") -> list[list[str]]:
    """The rows of a worksheet. One has a teacher's comment, one belongs to a student who left."""
    rows = [
        [
            *(f"{prefix}{number}", name, f"s{number}", f"{id}@x.org", "Submitted", "", maximum),
            *("Yes", "Friday, 20 November 2026, 10:00 AM", "<p>text, with\nlines</p>", "-", ""),
        ]
        for id, (name, number, _, _, _) in CLASS.items()
    ]
    rows[1][-1] = "<p>We talked about it.</p>"
    rows[3][9] = "=HYPERLINK(1)"
    gone = [f"{prefix}9", "Gone Girl", "", "gone@x.org", "-", "3.00", maximum, "Yes"]
    return [*rows, [*gone, "-", "", "-", ""]]


def sheet(path: Path, header: tuple[str, ...], rows: list[list[str]], **how: str) -> Path:
    out = io.StringIO()
    csv.writer(out, **how).writerows([header, *rows])  # type: ignore[call-overload]
    path.write_bytes(("\ufeff" + out.getvalue()).encode())
    return path


def moodle_reads(text: str, header: tuple[str, ...] = MOODLE) -> dict[str, tuple[str, str]]:
    """What importgradeslib.php reads: grade and feedback by the participant's number."""
    rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    columns = rows[0]
    at = {columns[n]: n for n in range(len(columns))}
    grade, modified, feedback = (header[n] for n in (5, 10, 11))
    assert {header[0], grade, modified} <= at.keys()
    prefix = len("Teilnehmer/in" if header is GERMAN else "Participant ")
    return {row[0][prefix:]: (row[at[grade]], row[at[feedback]]) for row in rows[1:]}


def test_moodles_worksheet_comes_back_filled_in(
    tmp_path: Path, a_class: Classroom, toy: Assignment
) -> None:
    given = moodle_rows()
    made = export.table(a_class, toy, "moodle", sheet(tmp_path / "g.csv", MOODLE, given))
    read = moodle_reads(made.text)
    assert {id: grade for id, (grade, _) in read.items()} == {
        **{"4711": "15.00", "4712": "7.50", "4713": "", "4714": "0.00", "9": "3.00"}
    }
    assert "15 of 20 points" in read["4711"][1]
    assert "a9.first</b>: passed, 10 of 10" in read["4711"][1]
    assert "Written answers are still to be read" in read["4711"][1]
    assert read["4712"][1] == "<p>We talked about it.</p>"
    assert "No submission." in read["4713"][1]
    assert "=A1 &lt;b&gt;" in read["4714"][1]
    rows = list(csv.reader(io.StringIO(made.text.removeprefix("\ufeff"), newline="")))
    assert tuple(rows[0]) == MOODLE
    for before, after in zip(given, rows[1:], strict=True):
        for place in (0, 1, 2, 3, 4, 6, 7, 8, 10):
            assert after[place] == before[place]
    assert rows[4][9] == "'=HYPERLINK(1)"
    assert made.text.startswith("\ufeff")
    assert "\x1b" not in made.text
    assert [note.partition(":")[0] for note in made.notes] == [
        "Written answers of 1 are not read yet",
        "Without a submission",
        "In the worksheet, but nobody of the class; left as it was",
    ]


def test_a_worksheet_that_was_filled_in_can_be_filled_in_again(
    tmp_path: Path, a_class: Classroom, toy: Assignment
) -> None:
    first = export.table(a_class, toy, "moodle", sheet(tmp_path / "g.csv", MOODLE, moodle_rows()))
    (tmp_path / "again.csv").write_text(first.text, newline="")
    assert export.table(a_class, toy, "moodle", tmp_path / "again.csv").text == first.text


def test_a_worksheet_in_another_language_is_read_by_its_columns(
    tmp_path: Path, a_class: Classroom, toy: Assignment
) -> None:
    given = moodle_rows("20,00", "Teilnehmer/in")
    given[4][5] = "3,00"
    made = export.table(a_class, toy, "moodle", sheet(tmp_path / "g.csv", GERMAN, given))
    read = moodle_reads(made.text, GERMAN)
    assert [grade for grade, _ in read.values()] == ["15,00", "7,50", "", "0,00", "3,00"]
    assert "15 of 20 points" in read["4711"][1]


@pytest.mark.parametrize(
    ("header", "maximum", "why"),
    [
        ([*MOODLE[:10], "x", *MOODLE[11:]], "20.00", r"lacks Last modified \(grade\)"),
        ([*MOODLE[:5], "x", *MOODLE[6:]], "20.00", "lacks Grade"),
        (MOODLE, "100.00", "the maximum grade is 100.00, here it is 20"),
        (MOODLE, "Good", "the maximum grade is Good"),
        (["a", *"bcdefghijkl"], "20.00", "not those that Moodle writes"),
    ],
)
def test_what_moodle_would_not_take_is_refused(
    tmp_path: Path, a_class: Classroom, toy: Assignment, header: list[str], maximum: str, why: str
) -> None:
    file = sheet(tmp_path / "g.csv", tuple(header), moodle_rows(maximum))
    with pytest.raises(WorkbookError, match=why) as raised:
        export.table(a_class, toy, "moodle", file)
    assert raised.value.todo


def zip_reads(path: Path, participants: set[int]) -> dict[int, str]:
    """What importziplib.php reads: the file by the participant's number."""
    found = {}
    for name in zipfile.ZipFile(path).namelist():
        parts = f"/import/{name}".split("/")
        assert not parts[-1].startswith((".", "~"))
        while parts:
            info = parts.pop(0).split("_", 4)
            if len(info) == 5 and info[1].isdecimal() and int(info[1]) in participants:
                assert info[2:4] == ["assignsubmission", "file"]
                found[int(info[1])] = "/".join([info[4], *parts])
                break
    return found


def test_the_feedback_pages_go_to_moodle_as_a_zip(
    tmp_path: Path, a_class: Classroom, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADER_WORK", str(a_class.home))
    file = sheet(tmp_path / "g.csv", MOODLE, moodle_rows())
    to = tmp_path / "out.csv"
    options = ["--format", "moodle", "--worksheet", str(file), "--to", str(to)]
    run = CliRunner().invoke(app, ["export", "a9", *options])
    assert run.exit_code == 0, run.output
    assert "Written answers of 1 are not read yet: anna" in run.stderr
    everybody = {number for _, number, _, _, _ in CLASS.values()}
    read = zip_reads(to.with_suffix(".feedback.zip"), everybody)
    assert read == dict.fromkeys((4711, 4712, 4714), "/a9__toy.html")
    with zipfile.ZipFile(to.with_suffix(".feedback.zip")) as archive:
        pages = {name: archive.read(name).decode() for name in archive.namelist()}
    assert [name for name, text in pages.items() if "15 of 20 points" in text] == [
        "Anna Okafor_4711_assignsubmission_file_/a9__toy.html"
    ]
    assert any(name.startswith("Dora Ann Díaz_4714_") for name in pages)


CANVAS = (
    *("Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Notes", "A toy (501)"),
    *("Another (502)", "Assignments Current Score", "Override Score (2020)"),
)


def canvas_rows(points: str = "20.00") -> list[list[str]]:
    rows = [
        ["", "", "", "", "", "", "Manual Posting", "", "", ""],
        ["    Points Possible", "", "", "", "", "", points, "5.00", "(read only)", ""],
    ]
    for id, (name, _, canvas, _, _) in CLASS.items():
        first, _, last = name.partition(" ")
        person = [f"{last}, {first}", str(canvas), f"00{canvas}", id, "Monday"]
        rows.append([*person, "private", "", "4.00", "80.0", ""])
    rows[-1][6] = "EX"
    rows.append(["Student, Test", "99", "", "f00", "Monday", "", "1.00", "", "", ""])
    return rows


def canvas_reads(text: str) -> tuple[list[str], str, dict[str, str]]:
    """What gradebook_importer.rb reads: assignments, possible points, scores by id."""
    text = text.removeprefix("\ufeff")
    head = text.splitlines()[:3]
    counts = {c: [len(next(csv.reader([line], delimiter=c))) for line in head] for c in ";,"}
    fields = {c: n[0] if len(set(n)) == 1 else 0 for c, n in counts.items()}
    rows = list(csv.reader(io.StringIO(text), delimiter=";" if fields[";"] > fields[","] else ","))
    header = rows[0]
    assert "Student" in header[0]
    assert "ID" in header[1]
    columns = 3
    if "SIS Login ID" in header[2]:
        columns = 4
    elif "SIS User ID" in header[2] and "SIS Login ID" in header[3]:
        columns = 5
    assert "Section" in header[columns - 1]
    points, scores = "", {}
    for row in rows[1:]:
        if "Points Possible" in row[0]:
            points = row[columns]
        elif not all(re.fullmatch(r"\s*(Muted|Manual Posting.*)?\s*", cell) for cell in row):
            scores[row[1]] = row[columns]
    return header[columns:], points, scores


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_canvas_gets_its_own_column_and_nothing_else(
    tmp_path: Path, a_class: Classroom, toy: Assignment, delimiter: str
) -> None:
    given = canvas_rows()
    file = sheet(tmp_path / "c.csv", CANVAS, given, delimiter=delimiter)
    made = export.table(a_class, toy, "canvas", file)
    assignments, points, scores = canvas_reads(made.text)
    assert assignments == ["A toy (501)"]
    assert points == "20.00"
    assert scores == {"11": "15.00", "12": "7.50", "13": "", "14": "EX", "99": "1.00"}
    rows = list(csv.reader(io.StringIO(made.text.removeprefix("\ufeff")), delimiter=delimiter))
    for before, after in zip([CANVAS, *given], rows, strict=True):
        assert after[1:5] == list(before[1:5])
        assert after[0].removeprefix("'") == before[0]
    assert rows[4][0] == "'=Bartók, Béla"
    assert [note.partition(":")[0] for note in made.notes][2:] == [
        "In Canvas, but nobody of the class; left as it was",
        "Excused in Canvas, and left so",
    ]


@pytest.mark.server
def test_without_a_class_list_the_systems_numbers_decide(tmp_path: Path, toy: Assignment) -> None:
    """Two students of one name, as Moodle and Canvas name the files that they give."""
    where = classroom(tmp_path)
    entries = {
        "Cy Li_71_assignsubmission_file_a9.zip": 1.0,
        "Cy Li_72_assignsubmission_file_a9.zip": 0.5,
        "okaforanna_LATE_81_9001_a9.zip": 1.0,
        "=cmd().zip": 0.0,
    }
    for name, credit in entries.items():
        pack(where.inbox / name, {"a9.ipynb": answered(toy, f"number = {credit}", name)})
    writer = gradebook.Writer(where, toy)
    for record in intake.take_inbox(where, toy, where.inbox):
        folder = where.submission(record.student, toy.name)
        graded = fake_grade(folder, toy.name, Settings(secret=where.secret()))
        where.store(graded)
        index = where.results_index(toy.name)
        where.save_results_index(toy.name, {**index, record.student: graded.key})
        writer.write(record.student, graded.key)
    given = [
        [f"Participant {n}", "Cy Li", "", f"{n}@x.org", "-", "", "20", "Yes", "-", "", "-", ""]
        for n in (72, 71, 73)
    ]
    made = export.table(where, toy, "moodle", sheet(tmp_path / "g.csv", MOODLE, given))
    read = moodle_reads(made.text)
    assert {id: grade for id, (grade, _) in read.items()} == {"72": "7.50", "71": "15.00", "73": ""}
    assert "Graded, but not in the worksheet: cmd, okaforanna_81." in made.notes[1]
    rows = canvas_rows()[:2]
    rows.append(["Okafor, Anna", "81", "", "ann", "Monday", "", "", "", "", ""])
    rows.append(["=cmd()", "82", "", "cmd", "Monday", "", "", "", "", ""])
    made = export.table(where, toy, "canvas", sheet(tmp_path / "c.csv", CANVAS, rows))
    assert canvas_reads(made.text)[2] == {"81": "15.00", "82": "0.00"}
    for student in where.results_index(toy.name):
        (where.feedback / student).mkdir(parents=True)
        (where.feedback / student / f"{toy.name}.html").write_text(student)
    content, left_out = export_canvas.feedback_zip(where, toy)
    assert left_out == ["Cy_Li_71", "Cy_Li_72", "cmd"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        (name,) = archive.namelist()
        assert archive.read(name) == b"okaforanna_81"
    # As Canvas's infer_comment_context_from_filename reads it: the student, and their file.
    assert [part for part in name.split("_") if part.isdecimal()][:2] == ["81", "9001"]


def test_the_assignments_column_in_canvas_must_be_clear(
    tmp_path: Path, a_class: Classroom, toy: Assignment
) -> None:
    header = [*CANVAS]
    header[6] = "Toys (501)"
    file = sheet(tmp_path / "c.csv", tuple(header), canvas_rows())
    with pytest.raises(WorkbookError, match="No column") as raised:
        export.table(a_class, toy, "canvas", file)
    assert "Toys (501); Another (502)." in raised.value.todo
    assert canvas_reads(export.table(a_class, toy, "canvas", file, "Toys (501)").text)[0] == [
        "Toys (501)"
    ]
    header[7] = "toys (502)"
    file = sheet(tmp_path / "c.csv", tuple(header), canvas_rows())
    with pytest.raises(WorkbookError, match="Several columns"):
        export.table(a_class, toy, "canvas", file, "Toys")
    with pytest.raises(WorkbookError, match="In Canvas the assignment has 10 points, here it"):
        export.table(a_class, toy, "canvas", sheet(tmp_path / "c.csv", CANVAS, canvas_rows("10")))


def test_canvas_may_write_first_and_last_names_apart(
    tmp_path: Path, a_class: Classroom, toy: Assignment
) -> None:
    header = ("LastName", "FirstName", "ID", "SIS Login ID", "Section", "A toy (501)")
    rows = [
        ["    Points Possible", "", "", "", "", "20,00"],
        ["Okafor", "Anna", "11", "", "", ""],
        ["Bartók", "=Béla", "12", "", "", "1,00"],
    ]
    made = export.table(a_class, toy, "canvas", sheet(tmp_path / "c.csv", header, rows))
    read = list(csv.reader(io.StringIO(made.text.removeprefix("\ufeff"))))
    assert read[2] == ["Okafor", "Anna", "11", "", "", "15,00"]
    assert read[3] == ["Bartók", "'=Béla", "12", "", "", "7,50"]


TITLES = st.sampled_from([*MOODLE, *CANVAS, *GERMAN]) | st.text(max_size=9)
CELLS = st.sampled_from(["", "-", "20", "20.00", "Participant 4711", "11", "EX"]) | st.text(
    max_size=9
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(["moodle", "canvas"]), st.sampled_from([",", ";"]))
def test_any_sheet_is_filled_in_or_refused(
    tmp_path: Path,
    a_class: Classroom,
    toy: Assignment,
    data: st.DataObject,
    format: export.Format,
    delimiter: str,
) -> None:
    known = list(MOODLE if format == "moodle" else CANVAS)
    header = data.draw(st.just(known) | st.permutations(known) | st.lists(TITLES, min_size=2))
    cells = st.lists(CELLS, min_size=len(header), max_size=len(header))
    rows = data.draw(st.lists(cells, max_size=5))
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([header, *rows])
    (tmp_path / "g.csv").write_bytes(out.getvalue().encode("utf-8", "surrogatepass"))
    with contextlib.suppress(WorkbookError):
        made = export.table(a_class, toy, format, tmp_path / "g.csv")
        text = io.StringIO(made.text, newline="")
        assert len(list(csv.reader(text, delimiter=delimiter))) == 1 + len(rows)


def test_nbgraders_table_has_all_students(a_class: Classroom, toy: Assignment) -> None:
    made = export.table(a_class, toy, "nbgrader")
    rows = {row["student_id"]: row for row in csv.DictReader(io.StringIO(made.text))}
    assert tuple(next(iter(rows.values()))) == export_nbgrader.COLUMNS
    assert {id: row["score"] for id, row in rows.items()} == {
        **{"anna": "15.0", "bela": "7.5", "cy": "0.0", "dora": "0.0"}
    }
    assert rows["cy"]["status"] == "no submission"
    assert rows["anna"]["status"] == "1 written answer to be read"
    assert rows["bela"]["last_name"] == "'=Bartók"
    assert rows["anna"]["email"] == "anna@x.org"


def test_due_dates_stand_in_nbgraders_table(
    tmp_path: Path, a_class: Classroom, toy: Assignment
) -> None:
    due = a_class.home / "deadlines.toml"
    stamp = a_class.submission("anna", toy.name) / "timestamp.txt"
    try:
        due.write_text(
            'timezone = "UTC"\n[a9]\ndue = 2026-11-20T10:00:00\nextensions = {bela = 2}\n'
        )
        stamp.write_text("2026-11-21 12:00:00 UTC")
        text = export.table(a_class, toy, "nbgrader").text
    finally:
        due.unlink()
        stamp.unlink()
    rows = {row["student_id"]: row for row in csv.DictReader(io.StringIO(text))}
    assert rows["anna"]["duedate"] == "2026-11-20 10:00:00"
    assert (rows["anna"]["days_late"], rows["bela"]["days_late"]) == ("2", "0")
    assert (rows["bela"]["extension_days"], rows["bela"]["duedate"]) == (
        "2.0",
        "2026-11-22 10:00:00",
    )
    assert rows["cy"]["days_late"] == ""


def test_what_changed_since_a_person_graded_it_is_said(
    tmp_path: Path, a_class: Classroom, toy: Assignment
) -> None:
    kept = a_class.home / "by_hand" / toy.name / "anna.json"
    with Gradebook(f"sqlite:///{a_class.gradebook}") as book:
        book.find_grade("a9-why", "a9", toy.name, "anna").manual_score = 4
        book.db.commit()
    stale = by_hand.Stale(
        cell="a9.why",
        points=4,
        comment="Good <b>",
        read="It was that.",
        since=datetime.datetime.now(),
    )
    try:
        kept.parent.mkdir(parents=True)
        kept.write_text(json.dumps([stale.model_dump(mode="json")]))
        made = export.table(a_class, toy, "nbgrader")
        class_report.write_class_report(a_class, toy)
    finally:
        kept.unlink()
        with Gradebook(f"sqlite:///{a_class.gradebook}") as book:
            book.find_grade("a9-why", "a9", toy.name, "anna").manual_score = None
            book.db.commit()
    rows = {row["student_id"]: row for row in csv.DictReader(io.StringIO(made.text))}
    assert rows["anna"]["status"] == "changed since it was graded by hand: a9.why"
    assert rows["anna"]["score"] == "19.0"
    assert "Changed since a person graded it: anna (a9.why)." in made.notes[0]
    page = class_report.page(a_class, toy).read_text()
    for words in ("Graded by hand, and changed since", "Good &lt;b&gt;", "It was that."):
        assert words in page


def read_all(where: Classroom, toy: Assignment, folder: Path) -> dict[str, dict[str, str]]:
    """What each system reads as the points of dora, bela and anna, by format and student."""
    moodle = export.table(where, toy, "moodle", sheet(folder / "m.csv", MOODLE, moodle_rows()))
    rows = canvas_rows()
    rows[5][6] = ""  # without the EX that the fixture has for dora
    canvas = export.table(where, toy, "canvas", sheet(folder / "c.csv", CANVAS, rows))
    table = csv.DictReader(io.StringIO(export.table(where, toy, "nbgrader").text))
    ids = {id: (str(moodle), str(canvas)) for id, (_, moodle, canvas, _, _) in CLASS.items()}
    read, scores = moodle_reads(moodle.text), canvas_reads(canvas.text)[2]
    return {
        "moodle": {id: read[number][0] for id, (number, _) in ids.items()},
        "canvas": {id: scores[number] for id, (_, number) in ids.items()},
        "nbgrader": {row["student_id"]: row["score"] for row in table},
        "feedback": {id: read[number][1] for id, (number, _) in ids.items()},
    }


@pytest.mark.parametrize("lost", [False, True])
def test_a_failure_of_the_grader_is_no_zero(
    tmp_path: Path, a_class: Classroom, toy: Assignment, lost: bool
) -> None:
    """The judge ended before it was done; or a run was stopped before it had graded this one."""
    index = a_class.results_index(toy.name)
    before = a_class.find(toy.name, index["dora"])
    assert before is not None
    ended = before.verdict.model_copy(
        update={
            "checks": tuple(
                c.model_copy(update={"status": "error"}) for c in before.verdict.checks
            ),
            "flags": (Flag(kind="judge ended", detail="It ended <b>."),),
        }
    )
    try:
        if lost:
            a_class.save_results_index(toy.name, {**index, "dora": "e" * 64})
        else:
            a_class.store(before.model_copy(update={"verdict": ended}))
        read = read_all(a_class, toy, tmp_path)
        with pytest.raises(WorkbookError, match="Handed in, but not graded: dora"):
            export.table(a_class, toy, "nbgrader", final=True)
        class_report.write_class_report(a_class, toy)
        page = class_report.page(a_class, toy).read_text()
    finally:
        a_class.store(before)
        a_class.save_results_index(toy.name, index)
    systems = ("moodle", "canvas", "nbgrader")
    assert [read[system]["dora"] for system in systems] == ["", "", ""]
    assert [read[system]["bela"] for system in systems] == ["7.50", "7.50", "7.5"]
    answer = "and is not graded yet"
    assert read["feedback"]["dora"].startswith("<p>Not graded yet.")
    assert answer in read["feedback"]["dora"]
    assert "from 7.5 to 15" in page
    assert "Handed in, and not graded" in page
    assert answer in page


@pytest.mark.parametrize(
    ("flag", "status", "answer"),
    [
        ("not graded", "error", "You need not do anything"),
        ("judge ended", "error", "You need not do anything"),
        ("runner ended", "not attempted", "You need not do anything"),
        ("", "error", "You need not do anything"),
        ("unreadable", "not attempted", "Hand in again: `workbook submit a9`"),
        ("stopped", "not attempted", None),
        ("runner ended", "failed", None),
        ("", "waits", None),
    ],
)
def test_what_is_the_graders_fault(
    toy: Assignment, flag: str, status: Status, answer: str | None
) -> None:
    checks = tuple(CheckResult(id=id, sentence="", status=status, credit=0) for id in toy.checks)
    flags = (Flag(kind=flag, detail="It ended."),) if flag else ()
    verdict = Verdict(assignment=toy.name, checks=checks, flags=flags)
    graded = Graded(key="f" * 64, assignment=toy.name, verdict=verdict, notebook="", sandbox="")
    found = ungraded.why_ungraded("anna", graded, toy)
    assert (found is None) == (answer is None)
    assert found is None or (answer and answer in found.answer)


def test_a_person_settles_what_the_grader_could_not(toy: Assignment) -> None:
    error = CheckResult(id="a9.first", sentence="", status="error", credit=0)
    good = CheckResult(id="a9.second", sentence="", status="passed", credit=1)
    verdict = Verdict(assignment=toy.name, checks=(error, good))
    graded = Graded(
        key="f" * 64, assignment=toy.name, verdict=verdict, notebook="{}", sandbox="none"
    )
    found = ungraded.why_ungraded("anna", graded, toy)
    assert found
    assert "points for a9.first in `grader formgrader`" in found.todo
    mark = gradebook.Mark("anna", 15, 20, 0, 0, {}, given=frozenset({"a9.first"}))
    assert ungraded.why_ungraded("anna", graded, toy, mark) is None


def test_final_scores_have_no_unread_answer(a_class: Classroom, toy: Assignment) -> None:
    with pytest.raises(WorkbookError, match="Written answers of 1 are not read yet: anna"):
        export.table(a_class, toy, "nbgrader", final=True)


def test_who_is_excused_gets_no_points_and_loses_none(
    tmp_path: Path, a_class: Classroom, toy: Assignment
) -> None:
    rules = a_class.home / "grades.toml"
    try:
        rules.write_text('[excused]\na9 = ["bela", "cy"]\n')
        read = read_all(a_class, toy, tmp_path)
        made = export.table(a_class, toy, "nbgrader")
        class_report.write_class_report(a_class, toy)
        page = class_report.page(a_class, toy).read_text()
        rules.write_text('[excused]\na9 = ["nobody"]\n')
        with pytest.raises(WorkbookError, match="nobody is not in the class list"):
            export.table(a_class, toy, "nbgrader")
    finally:
        rules.unlink()
    systems = ("moodle", "canvas", "nbgrader")
    assert [read[system]["bela"] for system in systems] == ["", "EX", ""]
    assert [read[system]["cy"] for system in systems] == ["", "EX", ""]
    assert [read[system]["dora"] for system in systems] == ["0.00", "0.00", "0.0"]
    assert "excused from this assignment" in read["feedback"]["cy"]
    assert made.notes[-1] == "Excused: bela, cy."
    assert "2 excused" in page
    assert "mean 7.5, from 0 to 15" in page


@pytest.mark.parametrize("format", ["canvas", "moodle"])
@pytest.mark.parametrize(
    "content", [b"", b"x", b"\xff\xfe\x00", b"PK\x03\x04\x00", b'a,b\n"c', b"a,b\nc,d,e\n"]
)
def test_a_file_that_is_none_is_refused(
    tmp_path: Path, a_class: Classroom, toy: Assignment, format: export.Format, content: bytes
) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(WorkbookError):
        export.table(a_class, toy, format, tmp_path / "x.csv")
    with pytest.raises(WorkbookError, match="cannot be read"):
        export.table(a_class, toy, format, tmp_path / "missing.csv")
    with pytest.raises(WorkbookError, match="needs its own file"):
        export.table(a_class, toy, format)


#: Characters that begin a formula in a spreadsheet, with their wide and small forms.
SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
BEFORE = st.sampled_from(["", " ", "\t", "\r", "\n", "  ", "\u00a0", "\u2003", "\ufeff", '"'])


@given(
    st.text(),
    st.lists(st.tuples(BEFORE, st.sampled_from(["", *SIGNS]), st.text(max_size=8)), max_size=3),
    st.sampled_from([*",;|\t", "\r\n", "\n"]),
)
def test_no_cell_is_a_formula_or_holds_what_a_terminal_obeys(
    text: str, parts: list[tuple[str, str, str]], between: str
) -> None:
    """Also where a spreadsheet takes another sign than the comma for the end of a cell."""
    cell = spreadsheet.safe(between.join(["".join(part) for part in parts] + [text]))
    assert names.shown(cell) == cell
    assert not set(cell) & set("\n\r\t")
    for part in re.split(r"[,;|]", cell):
        assert not part.lstrip(' \u00a0\u2003\ufeff"').startswith(tuple(SIGNS)), part


@pytest.mark.parametrize(
    "id", ["@SUM", "@SUM.A1", "=1", "+1", "-1", "\t=1", " @A1", "x;=1", "x;@A1"]
)
def test_an_id_is_no_formula_in_any_table(
    id: str, tmp_path: Path, toy: Assignment, a_class: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A student whom the class list, nbgrader or another system calls so, in every export."""
    row = Row(student=id, name=id, first_name=id, last_name=id, email=id)
    monkeypatch.setattr(export_rows, "rows", lambda *_: {id: row})
    moodle = [[cell or id for cell in cells] for cells in moodle_rows()]
    canvas = [[id, "7", id, id, id, ""], [id, "", id, id, id, ""]]
    points = ["    Points Possible", "", "", "", "", "20.00"]
    header = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", "A toy (1)")
    sheet(tmp_path / "moodle.csv", MOODLE, moodle)
    sheet(tmp_path / "canvas.csv", header, [points, *canvas])
    kept = MOODLE.index("Grade"), MOODLE.index("Last modified (grade)"), len(MOODLE) - 1
    for format, more in (
        ("nbgrader", {}),
        ("moodle", {"worksheet": tmp_path / "moodle.csv"}),
        ("canvas", {"worksheet": tmp_path / "canvas.csv", "column": "A toy"}),
    ):
        text = export.table(a_class, toy, format, **more).text  # type: ignore[arg-type]
        for line in list(csv.reader(io.StringIO(text)))[1:]:
            for place, cell in enumerate(line):
                if format == "moodle" and (place in kept or cell == "-"):
                    continue  # Moodle's own text, which it reads again
                assert not re.match(r"\s*[=+\-@]", cell), (format, place, line)


@given(
    st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=3)),
    st.sampled_from([",", ";", "\t"]),
)
def test_a_sheet_is_written_as_it_was_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], delimiter: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "sheet.csv"
    rows = [[cell.replace("\0", "") for cell in row] for row in rows]
    sheet(file, ("one", "two", "three"), rows, delimiter=delimiter)
    found = spreadsheet.read(file, "a sheet")
    assert found.delimiter == delimiter
    assert found.rows == rows
    assert found.text(found.rows).encode() == file.read_bytes()
