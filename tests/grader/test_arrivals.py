"""All that comes into one inbox: the student and the assignment, or why it is refused."""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import shutil
import zipfile
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from a_class import answered, classroom, course, pack

from grader.classroom import arrivals, intake, roster, unpack_entry, worksheet
from grader.classroom.classroom import Classroom
from workbook.assignments import Assignment

LIST = """\
id,name,e-mail,Canvas ID,Identifier
anna,Anna Okafor,anna@example.org,4711,
bo,Bo Li,bo@example.org,4712,
bo2,Bo Li,bo2@example.org,4713,
jose,José Núñez,,4714,
zoe,Zoë Ax,,4715,
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Assignment]:
    """Two assignments of one course."""
    home = tmp_path_factory.mktemp("course")
    return [course(home, "a8__other"), course(home)]


@pytest.fixture
def where(tmp_path: Path) -> Classroom:
    made = classroom(tmp_path)
    made.inbox.mkdir(parents=True)
    roster.path(made).write_text(LIST)
    return made


def work(assignment: Assignment, code: str = "number = 1") -> dict[str, bytes | str]:
    return {assignment.release.name: answered(assignment, code)}


def packed(files: dict[str, bytes | str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def taken(where: Classroom, both: list[Assignment]) -> dict[str, list[str]]:
    """The students of each assignment, with `!` if the submission could not be read."""
    found = intake.take(where, both, where.inbox)
    return {
        name: sorted(record.student + "!" * bool(record.problem) for record in records)
        for name, records in found.records.items()
    }


def reasons(where: Classroom) -> dict[str, str]:
    return {report.source: report.reason for report in intake.read_reports(where)}


# Names


@pytest.mark.parametrize(
    ("name", "system", "student", "number", "late"),
    [
        ("okaforanna_4711_90210_a2.zip", "canvas", "okaforanna", "4711", False),
        ("okaforanna_LATE_4711_90210_a2__forest-1.zip", "canvas", "okaforanna", "4711", True),
        ("o_kafor_4711_90210_my_file_1_2.zip", "canvas", "o_kafor", "4711", False),
        ("anon_x7Fq2_90210_a2.zip", "canvas", "anon", "x7Fq2", False),
        ("LATE_anon_x7Fq2_90210_a2.zip", "canvas", "anon", "x7Fq2", True),
        ("Anna Okafor_12_assignsubmission_file", "moodle", "Anna Okafor", "12", False),
        ("Anna Okafor_12_assignsubmission_file_", "moodle", "Anna Okafor", "12", False),
        ("Anna Okafor_12_assignsubmission_file_a2 (1).zip", "moodle", "Anna Okafor", "12", False),
        ("Participant_12_assignsubmission_file_a2.ipynb", "moodle", "Participant", "12", False),
        ("anna.zip", "", "anna", "", False),
        ("anna (2).ipynb", "", "anna", "", False),
        ("anna_a2.zip", "", "anna_a2", "", False),
        ("a2__forest.zip", "", "a2__forest", "", False),
        ("(1).zip", "", "(1)", "", False),
    ],
)
def test_what_a_name_says(name: str, system: str, student: str, number: str, late: bool) -> None:
    found = arrivals.read_entry_name(Path("/nowhere") / name)
    assert (found.system, found.name, found.number) == (system, student, number)
    assert found.late == late
    assert not found.problem


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("okaforanna_4711_text.html", "a text that was typed, and no file"),
        ("okaforanna_LATE_4711_link.html", "a link, and no file"),
        ("Anna Okafor_12_assignsubmission_onlinetext", "a text that was typed"),
        ("Anna Okafor_12_assignsubmission_onlinetext_onlinetext.html", "a text that was typed"),
        ("anna.rar", "an archive of another kind (.rar)"),
        ("anna.tar.gz", "an archive of another kind (.gz)"),
        ("anna.pdf", "It is a .pdf file"),
        ("anna.zip.crdownload", "Its download has not ended"),
    ],
)
def test_what_a_name_says_of_something_else(name: str, words: str) -> None:
    assert words in arrivals.read_entry_name(Path("/nowhere") / name).problem


# The student of a submission


def test_each_entry_finds_its_student(where: Classroom, both: list[Assignment]) -> None:
    _, toy = both
    for name in (
        "okaforanna_LATE_4711_90210_a9.zip",
        "JOSE_a9.zip",
        "Bo Li_77_assignsubmission_file_a9.zip",
        "Group A-Zoë Ax_78_assignsubmission_file_a9.zip",
        "bo2@example.org.zip",
        "libo_4712_1_a9.zip",
        "libo_9999_1_a9.zip",
        "eve.zip",
        "evemallory_4719_1_a9.zip",
        "a9__toy.zip",
    ):
        pack(where.inbox / name, work(toy))
    (where.inbox / "timetable.pdf").write_text("x")

    assert taken(where, both) == {"a8__other": [], toy.name: ["anna", "bo", "bo2", "jose", "zoe"]}
    assert {source: reason.split(".")[0] for source, reason in reasons(where).items()} == {
        "Bo Li_77_assignsubmission_file_a9.zip": "It could be of 2 students: bo, bo2",
        "libo_9999_1_a9.zip": "It could be of 2 students: bo, bo2",
        "eve.zip": "Nobody in the class list is 'eve'",
        "evemallory_4719_1_a9.zip": "Nobody in the class list is 'evemallory', 4719 in canvas",
        "a9__toy.zip": "Nobody in the class list is 'a9__toy'",
        "timetable.pdf": "It is a ",
    }
    assert intake.record(where, toy.name, "anna").late  # type: ignore[union-attr]
    assert not (where.submitted / "eve").exists()


def test_without_a_list_each_entry_is_a_student(where: Classroom, both: list[Assignment]) -> None:
    _, toy = both
    roster.path(where).unlink()
    for name in ("anna.zip", "eve.ipynb", "a9__toy.zip", "a9 (3).ipynb"):
        if name.endswith("zip"):
            pack(where.inbox / name, work(toy))
        else:
            (where.inbox / name).write_bytes(answered(toy, "number = 1"))

    assert taken(where, both) == {"a8__other": [], toy.name: ["anna", "eve"]}
    assert set(reasons(where)) == {"a9__toy.zip", "a9 (3).ipynb"}
    assert "named like an assignment" in reasons(where)["a9__toy.zip"]


def test_what_lies_about_needs_no_word(where: Classroom, both: list[Assignment]) -> None:
    for name in ("Thumbs.db", ".DS_Store", "desktop.ini", "README.txt", "~$x.docx"):
        (where.inbox / name).write_text("x")
    (where.inbox / "__MACOSX").mkdir()
    assert taken(where, both) == {"a8__other": [], "a9__toy": []}
    assert reasons(where) == {}


# Downloads of a whole class


def canvas(path: Path, both: list[Assignment]) -> None:
    other, toy = both
    pack(
        path,
        {
            "okaforanna_4711_90210_a9.zip": packed(work(toy)),
            "libo_LATE_4712_90211_a9__toy-1.zip": packed(
                {f"a9__toy/{n}": c for n, c in work(toy).items()}
            ),
            "libo_4713_90212_homework (1).ipynb": answered(toy, "number = 0.5"),
            "nunezjose_4714_text.html": "<p>I did it",
            "axzoe_4715_90214_a8.zip": packed(work(other)),
            "mallory_4799_90215_a9.zip": packed(work(toy)),
        },
    )


@pytest.mark.parametrize("how", ["zip", "wrapped", "unpacked"])
def test_canvas_download_is_taken_as_it_is(
    where: Classroom, both: list[Assignment], how: str
) -> None:
    file = where.inbox / "course-forest_submissions.zip"
    canvas(file, both)
    if how == "wrapped":
        with zipfile.ZipFile(file) as archive:
            files = {f"submissions/{name}": archive.read(name) for name in archive.namelist()}
        pack(file, {**files, "__MACOSX/submissions/._x": b"x"})
    if how == "unpacked":
        with zipfile.ZipFile(file) as archive:
            archive.extractall(where.inbox / "submissions (2)")
        file.unlink()

    found = intake.take(where, both, where.inbox)

    assert [(one.system, one.count) for one in found.downloads] == [("canvas", 6)]
    assert taken(where, both) == {"a8__other": ["zoe"], "a9__toy": ["anna", "bo", "bo2", "jose!"]}
    record = intake.record(where, "a9__toy", "jose")
    assert record is not None
    assert "a text that was typed" in record.problem
    (reason,) = reasons(where).values()
    assert "Nobody in the class list is 'mallory', 4799" in reason
    before = {path: path.stat().st_ino for path in where.submitted.glob("*/*")}
    taken(where, both)
    assert {path: path.stat().st_ino for path in where.submitted.glob("*/*")} == before


def test_moodles_download_and_worksheet(where: Classroom, both: list[Assignment]) -> None:
    _, toy = both
    (where.home / "deadlines.toml").write_text('timezone = "Europe/Berlin"\n')
    pack(
        where.inbox / "Triton 26-Forest-71.zip",
        {
            "Anna Okafor_12_assignsubmission_file/a9__toy.zip": packed(work(toy)),
            "José Núñez_13_assignsubmission_file/a9.ipynb": answered(toy, "number = 1"),
            "José Núñez_13_assignsubmission_file/models/m/config.pbtxt": "x",
            "José Núñez_13_assignsubmission_file/data/helper.py": "x",
            "José Núñez_13_assignsubmission_onlinetext/onlinetext.html": "See the file.",
            "Zoë Ax_14_assignsubmission_onlinetext/onlinetext.html": "I could not.",
            "Bo Li_15_assignsubmission_file/a9.ipynb": answered(toy, "number = 1"),
        },
    )
    (where.inbox / "Grades-Triton 26-Forest-71.csv").write_text(
        "\ufeffIdentifier,Full name,Email address,Status,Grade,Last modified (submission)\n"
        '"Participant 12",Anna Okafor,,Submitted,-,"Friday, 20 November 2026, 11:59 PM"\n'
        '"Participant 13",José Núñez,,Submitted,-,"Friday, July 3, 2026, 9:05 AM"\n'
        '"Participant 16",Max,,No submission,-,-\n'
    )
    (where.inbox / "Grades-other.csv").write_text(
        "Identifier,Last modified (submission)\nParticipant 99,samedi 3 juillet 2026\n"
    )

    assert taken(where, both) == {"a8__other": [], toy.name: ["anna", "jose", "zoe!"]}
    assert set(reasons(where)) == {
        "Grades-other.csv",
        "Triton 26-Forest-71.zip: Bo Li_15_assignsubmission_file",
    }
    anna, jose = (intake.record(where, toy.name, who) for who in ("anna", "jose"))
    assert anna is not None
    assert jose is not None
    assert (anna.time, anna.clock) == ("2026-11-20 22:59:00.000000 UTC", "worksheet")
    assert jose.time == "2026-07-03 07:05:00.000000 UTC"
    assert jose.note == ""
    place = where.submission("jose", toy.name)
    assert (place / "timestamp.txt").read_text() == jose.time
    inode = place.stat().st_ino
    (where.home / "deadlines.toml").write_text('timezone = "Asia/Tokyo"\n')  # as it is put right
    taken(where, both)
    assert (place / "timestamp.txt").read_text() == "2026-07-03 00:05:00.000000 UTC"
    assert place.stat().st_ino == inode
    assert (place / "models/m/config.pbtxt").read_text() == "x"
    assert (place / "data/helper.py").read_text() == "x"


#: The names of both times in Moodle's language packs, with times as the packs write them.
WORKSHEETS = {
    "German": (
        "Zuletzt geändert (Abgabe)",
        "Zuletzt geändert (Bewertung)",
        "Freitag, 20. November 2026, 23:59",
        "Dienstag, 3. März 2026, 08:05",
    ),
    "French": (
        "Dernière modification (travail remis)",
        "Dernière modification (note)",
        "vendredi 20 novembre 2026, 23:59",
        "mardi 3 mars 2026, 08:05",
    ),
    "Spanish": (
        "Última modificación (entrega)",
        "Última modificación (calificación)",
        "viernes, 20 de noviembre de 2026, 23:59",
        "martes, 3 de marzo de 2026, 08:05",
    ),
    "Portuguese": (
        "Última atualização (submissão)",
        "Última atualização (avaliação)",
        "sexta-feira, 20 de novembro de 2026 às 23:59",
        "terça, 3 de março de 2026 às 08:05",
    ),
    "Portuguese of Brazil": (
        "Última modificação (envio)",
        "Última modificação (nota)",
        "sexta-feira, 20 nov. 2026, 23:59",
        "terça-feira, 3 mar. 2026, 08:05",
    ),
    "Russian": (
        "Последнее изменение (ответ)",
        "Последнее изменение (оценка)",
        "пятница, 20 ноября 2026, 23:59",
        "Вторник, 3 Март 2026, 08:05",
    ),
    "Chinese": (
        "上次修改（作业）",  # noqa: RUF001
        "上次修改（评分）",  # noqa: RUF001
        "2026年11月20日 星期五 23:59",
        "2026年03月3日 星期二 08:05",
    ),
    "Chinese of Taiwan": (
        "最後修改的(作業)",
        "最後修改的(得分)",
        "2026年 11月 20日(星期五) 23:59",
        "2026年 03月 3日(星期二) 下午 8:05",
    ),
    "Italian": (
        "Ultima modifica (consegna)",
        "Ultima modifica (valutazione)",
        "venerdì, 20 novembre 2026, 23:59",
        "martedì, 3 marzo 2026, 08:05",
    ),
    "Ukrainian": (
        "Востаннє змінювалося (здача)",
        "Востаннє змінювалося (оцінка)",
        "п'ятниця 20 листопада 2026 23:59 пп",
        "вівторок 3 березня 2026 08:05 дп",
    ),
    "Turkish": (
        "Son düzenleme (gönderim)",
        "Son düzenleme (not)",
        "Cuma, 20 Kasım 2026, 11:59 ÖS",  # noqa: RUF001
        "Salı, 3 Mart 2026, 08:05 ÖÖ",  # noqa: RUF001
    ),
}


@pytest.mark.parametrize("language", WORKSHEETS)
@pytest.mark.parametrize("separator", [",", ";"])
def test_worksheets_of_other_languages(tmp_path: Path, language: str, separator: str) -> None:
    """The identifier is the first column; of two names with brackets the first is the hand-in."""
    submitted, graded, night, morning = WORKSHEETS[language]
    rows = [
        ["ID", "Name (voll)", "Status (x)", "Note", "Max", submitted, "Text", graded],
        ["Teilnehmer/in12", "Anna", "", "", "75,00", night, "", "-"],
        ["Teilnehmer/in13", "Bo", "", "", "75,00", morning, "", night],
        ["Teilnehmer/in14", "Eve", "", "", "75,00", "-", "", night],
    ]
    with (tmp_path / "Bewertungen-Kurs-a9-71.csv").open("w", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=separator).writerows(rows)
    found, faults = worksheet.handed_in(tmp_path, ZoneInfo("Europe/Berlin"))
    assert faults == {}
    evening = "下午" in morning
    assert {number: f"{time:%d.%m.%Y %H:%M}" for number, time in found.items()} == {
        "12": "20.11.2026 22:59",
        "13": "03.03.2026 19:05" if evening else "03.03.2026 07:05",
    }


@pytest.mark.parametrize(
    ("zone", "written", "utc"),
    [
        ("Europe/Berlin", "Sunday, 25 October 2026, 2:30 AM", "2026-10-25 00:30"),  # comes twice
        ("Europe/Berlin", "Sunday, 25 October 2026, 3:30 AM", "2026-10-25 02:30"),
        ("America/Sao_Paulo", "Saturday, 16 February 2019, 11:30 PM", "2019-02-17 01:30"),
        ("Europe/Moscow", "Tuesday, 29 February 2028, 11:59 PM", "2028-02-29 20:59"),
        ("Asia/Shanghai", "Wednesday, 1 March 2028, 12:00 AM", "2028-02-29 16:00"),
    ],
)
def test_a_worksheets_times_are_of_the_zone(
    tmp_path: Path, zone: str, written: str, utc: str
) -> None:
    """Of an hour that comes twice the first counts: that is for the student's good."""
    (tmp_path / "a.csv").write_text(f'Identifier,Last modified (submission)\nP1,"{written}"\n')
    found, _ = worksheet.handed_in(tmp_path, ZoneInfo(zone))
    assert f"{found['1']:%Y-%m-%d %H:%M}" == utc


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Grade,Name\n1,Anna\n", "it has other columns"),
        ("x", "it has no columns"),
        ("ID,Sist endret (levering),Sist endret (karakter)\nA12,20. joulukuuta,-\n", "1 of its 1"),
        ("ID,Zuletzt (Abgabe),Zuletzt (Note)\nA12,20/11/2026 10:00,-\n", "1 of its 1 times"),
        ("ID,Zuletzt (Abgabe),Zuletzt (Note)\nAnna,-,-\n", "it has other columns"),
        ("ID,Abgabe\nA12,Freitag\n", "it has other columns"),
    ],
)
def test_a_table_that_is_not_understood_is_reported(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "Noten.csv").write_text(text)
    found, faults = worksheet.handed_in(tmp_path, ZoneInfo("UTC"))
    assert found == {}
    assert words in faults["Noten.csv"]
    assert "Moodle" in faults["Noten.csv"]
    assert ("students.csv" in faults["Noten.csv"]) == ("no columns" in words or "other" in words)


@pytest.mark.parametrize(
    "text",
    [
        "20.11.2026 23:59",  # is it the 20th day, or month?
        "Friday, 20 November 2026, 11:59 XX",  # morning or evening?
        "Friday, 20 November 2026",
        "Friday, 31 November 2026, 12:00",
        "Friday, 20 November 1926, 12:00",
        "Friday, 20 November 2026, 12:00, 13:00",
        "20 listopad octobre 2026, 12:00",
        "",
    ],
)
def test_a_time_that_is_not_clear_is_not_guessed(text: str) -> None:
    assert worksheet.parse(text) is None


def test_without_any_time_a_due_date_is_reported(where: Classroom, both: list[Assignment]) -> None:
    """Late work must not count as on time in silence."""
    _, toy = both
    due = 'timezone = "Europe/Berlin"\n[a9]\ndue = 2026-11-20T20:00:00\n'
    (where.home / "deadlines.toml").write_text(due)
    for name in ("anna.zip", "libo_LATE_4712_1_a9.zip"):
        pack(where.inbox / name, work(toy))
    taken(where, both)
    reason = reasons(where)["deadlines.toml"]
    assert "nothing says when all submissions were handed in: they count as on time." in reason
    assert "Canvas calls late: bo." in reason
    (where.home / "deadlines.toml").write_text(due + "[a9.handed_in]\nbo = 2026-11-21T09:00:00\n")
    taken(where, both)
    assert "when 1 of 2 submissions (anna) were handed in" in reasons(where)["deadlines.toml"]
    (where.home / "deadlines.toml").write_text('timezone = "Europe/Berlin"\n')
    taken(where, both)
    assert reasons(where) == {}


@pytest.mark.parametrize("listed", [True, False])
def test_a_students_zip_is_no_download(
    where: Classroom, both: list[Assignment], listed: bool
) -> None:
    """Who hands in a zip with others' names in it hands in for nobody else."""
    if not listed:
        roster.path(where).unlink()
    _, toy = both
    pack(where.inbox / "bo.zip", work(toy))
    evil: dict[str, bytes | str] = {"Bo Li_12_assignsubmission_file/a9.ipynb": answered(toy, "0")}
    for name in ("anna.zip", "homework.zip", "okaforanna_4711_7_submissions.zip"):
        pack(
            where.inbox / name, {**evil, "libo_4712_99999_a9.zip": packed(work(toy, "number = 0"))}
        )

    taken(where, both)

    if listed:
        assert set(reasons(where)) == {"homework.zip"}
        assert "It holds 2 submissions, as" in reasons(where)["homework.zip"]
        assert "name it submissions.zip" in reasons(where)["homework.zip"]
    place = where.submission("bo", toy.name)
    assert b"number = 1" in (place / "a9.ipynb").read_bytes()


def test_a_download_is_bounded(
    where: Classroom, both: list[Assignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one submission of a download is too large, only that student is affected."""
    _, toy = both
    pack(
        where.inbox / "submissions.zip",
        {
            "okaforanna_4711_1_a9.zip": packed({**work(toy), "zeros": b"\0" * (30 << 20)}),
            "libo_4712_2_a9.ipynb": b"[" * 300_000,
            "libo_4713_3_a9.zip": b"no zip",
            "nunezjose_4714_4_a9.zip": packed(work(toy)),
            "axzoe_4715_5_a9.zip": packed({"../../escaped": "x"}),
        },
    )
    assert taken(where, both)[toy.name] == ["anna!", "bo!", "bo2!", "jose", "zoe!"]
    problems = {
        who: intake.record(where, toy.name, who).problem  # type: ignore[union-attr]
        for who in ("anna", "bo", "bo2", "zoe")
    }
    assert "grows over" in problems["anna"] or "MiB" in problems["anna"]
    assert "nested more than" in problems["bo"]
    assert "not a zip file" in problems["bo2"]
    assert "leads out of" in problems["zoe"]
    assert not list(where.home.rglob("escaped"))

    monkeypatch.setattr(unpack_entry, "MOST_PARTS", 4)
    assert list(arrivals.parts_of(where.inbox / "submissions.zip")) == []


# The assignment of a submission


@pytest.mark.parametrize(
    "name", ["a9.ipynb", "a9 (1).ipynb", "a9-Copy2.ipynb", "homework.ipynb", "deep/er/a9.ipynb"]
)
def test_a_notebook_is_found_whatever_its_name(
    where: Classroom, both: list[Assignment], name: str
) -> None:
    _, toy = both
    pack(where.inbox / "anna.zip", {name: answered(toy, "number = 1"), "notes/x.txt": "x"})
    (where.inbox / "zoe.ipynb").write_bytes(answered(toy, "number = 1"))
    assert taken(where, both)[toy.name] == ["anna", "zoe"]
    for who in ("anna", "zoe"):
        assert (where.submission(who, toy.name) / "a9.ipynb").is_file()


def test_contents_decide_before_the_name(where: Classroom, both: list[Assignment]) -> None:
    other, toy = both
    notebook = json.loads(answered(other, "number = 1"))
    pack(where.inbox / "anna_a9.zip", {"a9.ipynb": json.dumps(notebook)})
    del notebook["metadata"]["workbook"]
    pack(where.inbox / "bo.zip", {"a9.ipynb": json.dumps(notebook)})
    pack(where.inbox / "zoe.zip", {"a9.ipynb": json.dumps({"cells": [], "nbformat": 4})})
    assert taken(where, both) == {other.name: ["anna", "bo"], toy.name: ["zoe!"]}


def test_both_assignments_in_one_zip(where: Classroom, both: list[Assignment]) -> None:
    other, toy = both
    pack(where.inbox / "anna.zip", {**work(other), **work(toy)})
    pack(where.inbox / "bo.zip", {**work(other), "a9.ipynb": toy.release.read_bytes()})
    pack(where.inbox / "zoe.zip", {"a9.ipynb": toy.release.read_bytes()})
    assert taken(where, both) == {other.name: ["anna", "bo"], toy.name: ["anna", "zoe"]}


def test_the_whole_course_zipped(where: Classroom, both: list[Assignment]) -> None:
    """The copy that the student worked on counts, not the released one."""
    _, toy = both
    files: dict[str, bytes | str] = {
        "triton/lectures/01__x.ipynb": json.dumps({"cells": [], "metadata": {}, "nbformat": 4}),
        "triton/README.md": "x",
        "triton/.git/config": "x",
        "triton/assignments/a9__toy/a9.ipynb": toy.release.read_bytes(),
        "triton/work/assignments/a9__toy/a9.ipynb": answered(toy, "number = 1"),
        "triton/work/assignments/a9__toy/a9__toy.zip": packed(work(toy, "number = 0")),
        "triton/work/assignments/a9__toy/models/m/config.pbtxt": "x",
    }
    pack(where.inbox / "anna.zip", files)
    pack(where.inbox / "bo.zip", {**files, "triton/old/a9.ipynb": answered(toy, "number = 0")})

    assert taken(where, both)[toy.name] == ["anna", "bo!"]
    place = where.submission("anna", toy.name)
    assert b"number = 1" in (place / "a9.ipynb").read_bytes()
    assert (place / "models/m/config.pbtxt").exists()
    problem = intake.record(where, toy.name, "bo").problem  # type: ignore[union-attr]
    assert "It holds a9.ipynb 2 times" in problem
    assert "old/a9.ipynb" in problem


def nested(files: dict[str, bytes | str], levels: int) -> dict[str, bytes | str]:
    for level in range(levels):
        files = {f"level {level}.zip": packed(files)}
    return files


def test_zips_in_zips(where: Classroom, both: list[Assignment]) -> None:
    _, toy = both
    pack(where.inbox / "anna.zip", nested(work(toy), 3))
    pack(where.inbox / "bo.zip", nested(work(toy), 4))
    pack(where.inbox / "jose.zip", nested({f"{n}.zip": packed({"x": "x"}) for n in range(30)}, 1))
    pack(where.inbox / "zoe.zip", nested({"zeros": b"\0" * (30 << 20)}, 2))
    two = {"1.zip": packed(work(toy)), "2.zip": packed({"models/m/config.pbtxt": "x"})}
    pack(where.inbox / "bo2.zip", two)

    found = intake.take(where, both, where.inbox, assumed=toy).records[toy.name]

    problems = {record.student: record.problem for record in found}
    assert problems["anna"] == problems["bo2"] == ""
    assert "no notebook of an assignment" in problems["bo"]
    assert "It holds 30 zips" in problems["jose"]
    assert "when unpacked" in problems["zoe"]


def test_bombs_of_zips_share_one_budget(
    where: Classroom, both: list[Assignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    from grader.classroom import unpack_submission

    monkeypatch.setattr(unpack_submission, "MOST_BYTES", 3 << 20)
    inner = packed({"x": os.urandom(1 << 20)})
    pack(where.inbox / "anna.zip", {f"{n}.zip": inner for n in range(2)})
    pack(where.inbox / "bo.zip", {"1.zip": inner})
    found = intake.take(where, both, where.inbox, assumed=both[1]).records["a9__toy"]
    problems = {record.student: record.problem for record in found}
    assert "Unpacked, it is larger than 3 MiB" in problems["anna"]
    assert "no notebook" in problems["bo"]


def test_of_no_assignment(where: Classroom, both: list[Assignment]) -> None:
    """It is reported, unless something tells its assignment."""
    _, toy = both
    pack(where.inbox / "anna.zip", {"essay.txt": "x"})
    pack(where.inbox / "bo_a8.zip", {"essay.txt": "x"})
    pack(
        where.inbox / "submissions.zip",
        {
            "nunezjose_4714_4_a9.zip": packed(work(toy)),
            "axzoe_4715_5_final.zip": packed({"essay.txt": "x"}),
        },
    )
    assert taken(where, both) == {"a8__other": ["bo!"], toy.name: ["jose", "zoe!"]}
    assert (
        "There is no notebook of an assignment (a8.ipynb, a9.ipynb) in it. It has essay.txt."
        in (reasons(where)["anna.zip"])
    )


# One of several submissions


def test_the_last_that_can_be_read_counts(where: Classroom, both: list[Assignment]) -> None:
    _, toy = both
    for day, code in ((20, "number = 0.5"), (22, "number = 1"), (21, "number = 0")):
        folder = where.inbox / f"anna+a9__toy+2026-11-{day} 10:00:00 UTC+x"
        folder.mkdir()
        (folder / "a9.ipynb").write_bytes(answered(toy, code))
    broken = where.inbox / "anna+a9__toy+2026-11-23 10:00:00 UTC+y"
    broken.mkdir()
    (broken / "a9.ipynb").write_text("nothing")

    (record,) = intake.take(where, both, where.inbox).records[toy.name]

    assert record.time == "2026-11-22 10:00:00.000000 UTC"
    assert record.problem == ""
    assert "A later one, anna+a9__toy+2026-11-23 10:00:00 UTC+y, cannot be read" in record.note
    shutil.rmtree(broken)
    (record,) = intake.take(where, both, where.inbox).records[toy.name]
    assert record.note == (
        "Of 3 that were handed in, the last counts: "
        "anna+a9__toy+2026-11-22 10:00:00 UTC+x, of 2026-11-22 10:00 UTC."
    )
    # The instructor clears the inbox, and an older one comes again.
    for path in where.inbox.glob("*2[12] 10*"):
        shutil.rmtree(path)
    (record,) = intake.take(where, both, where.inbox).records[toy.name]
    assert record.time == "2026-11-22 10:00:00.000000 UTC"
    assert b"number = 1" in (where.submission("anna", toy.name) / "a9.ipynb").read_bytes()


def test_canvas_later_download_counts(where: Classroom, both: list[Assignment]) -> None:
    _, toy = both
    pack(
        where.inbox / "submissions.zip",
        {"okaforanna_4711_5_a9.zip": packed(work(toy, "number = 0"))},
    )
    pack(where.inbox / "submissions (1).zip", {"okaforanna_4711_9_a9-1.zip": packed(work(toy))})
    (record,) = intake.take(where, both, where.inbox).records[toy.name]
    assert record.source == "submissions (1).zip: okaforanna_4711_9_a9-1.zip"
    assert b"number = 1" in (where.submission("anna", toy.name) / "a9.ipynb").read_bytes()


def test_the_instructor_says_when_it_came(where: Classroom, both: list[Assignment]) -> None:
    """Canvas's download does not say it."""
    _, toy = both
    pack(where.inbox / "okaforanna_LATE_4711_5_a9.zip", work(toy))
    due = where.home / "deadlines.toml"
    stamp = where.submission("anna", toy.name) / "timestamp.txt"
    head = "[a9]\ndue = 2026-11-20T10:00:00Z\n"
    due.write_text(f"{head}[a9.handed_in]\nanna = 2026-11-22T10:00:00Z\n")

    (record,) = intake.take(where, both, where.inbox).records[toy.name]

    assert (record.time, record.clock) == ("2026-11-22 10:00:00.000000 UTC", "given")
    assert stamp.read_text() == record.time
    due.write_text(head)
    (record,) = intake.take(where, both, where.inbox).records[toy.name]
    assert (record.time, record.clock) == ("", "")
    assert not stamp.exists()


def test_without_a_time_zone_an_instructor_is_told(
    where: Classroom, both: list[Assignment]
) -> None:
    (where.inbox / "Grades.csv").write_text(
        "Identifier,Last modified (submission)\nParticipant 1,2026-11-20 14:14\n"
    )
    taken(where, both)
    assert "taken for UTC" in reasons(where)["deadlines.toml"]


def test_what_a_killed_run_left_is_removed(where: Classroom, both: list[Assignment]) -> None:
    (where.submitted / ".taking-x" / "0").mkdir(parents=True)
    taken(where, both)
    assert not list(where.submitted.iterdir())


# Moodle's worksheet


@pytest.mark.parametrize(
    "written",
    [
        "Friday, 20 November 2026, 2:14 PM",
        "20 November 2026, 2:14 PM",
        "Friday, November 20, 2026, 2:14 PM",
        "20 November 2026, 14:14",
        "2026-11-20 14:14",
    ],
)
def test_times_of_a_worksheet(tmp_path: Path, written: str) -> None:
    (tmp_path / "a.csv").write_text(
        f'Identifier,Last modified (submission)\nParticipant 1,"{written}"\n'
    )
    found, faults = worksheet.handed_in(tmp_path, datetime.UTC)
    assert found == {"1": datetime.datetime(2026, 11, 20, 14, 14, tzinfo=datetime.UTC)}
    assert faults == {}


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a,b\n1\n", b'"', b"", b"x" * 200_000])
def test_other_tables_are_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    os.mkfifo(tmp_path / "b.csv")
    found, faults = worksheet.handed_in(tmp_path, datetime.UTC)
    assert (found, set(faults)) == ({}, {"a.csv", "b.csv"})
