"""Entries of the inbox that cost much, have hostile names, or state false times.

Each is taken, or refused with a plain reason. The rest of the class is graded, and what is shown is
harmless.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import random
import socket
import stat
import struct
import unicodedata
from pathlib import Path

import pytest

from grader.classroom import export, gradebook, intake, names, unpack_entry, unpack_submission
from grader.classroom.classroom import Classroom
from grader.judge.grade_submission import Settings
from grader.pages import class_report, feedback
from grader.vocabulary.results import Flag
from tests.grader.a_class import answered, fake_grade, pack
from workbook.assignments import Assignment
from workbook.common import bounded_json

# A test that hangs is stopped soon.
pytestmark = pytest.mark.timeout(120)


def take(where: Classroom, toy: Assignment) -> dict[str, intake.Record]:
    """Take the inbox; returns the records by the names of their entries."""
    return {record.source: record for record in intake.take_inbox(where, toy, where.inbox)}


def hand_in(where: Classroom, toy: Assignment, name: str) -> Path:
    """An honest zip of this name."""
    return pack(where.inbox / name, {"a9.ipynb": answered(toy, "number = 1")})


def stored_zip(content: bytes, size: int) -> bytes:
    """A zip by hand, with one deflated member a9.ipynb of a stated size."""
    name = b"a9.ipynb"
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(content), size, len(name), 0)
    local = b"PK\3\4" + common + name
    central = b"PK\1\2" + struct.pack("<H", 20) + common + bytes(14 - 4) + bytes(4) + name
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local + content), 0)
    return local + content + central + end


def listing_of(count: int) -> bytes:
    """A zip whose list of files names the same file `count` times."""
    common = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, 0, 0, 0, 1, 0)
    local = b"PK\3\4" + common + b"x"
    central = (b"PK\1\2" + struct.pack("<H", 20) + common + bytes(14) + b"x") * count
    most = min(count, 65_535)
    return (
        local
        + central
        + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, most, most, len(central), len(local), 0)
    )


def empty_blocks(size: int) -> bytes:
    """Deflate blocks that each have tables of their own, and no content: ten bytes each."""
    order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1]
    fields = [(0, 1), (2, 2), (0, 5), (0, 5), (len(order) - 4, 4)]
    fields += [(1 if symbol in (1, 18) else 0, 3) for symbol in order]
    # 256 literals without a code, in two runs; one code for the end, one for a distance; the end.
    fields += [(1, 1), (127, 7), (1, 1), (107, 7), (0, 1), (0, 1), (0, 1)]
    bits = "".join(f"{value:0{width}b}"[::-1] for value, width in fields) * 8
    block = bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))
    return block * (size // len(block)) + b"\x03\x00"


def in_notebook(toy: Assignment, value: bytes) -> bytes:
    """The release with one more value in its metadata, and enough incompressible data."""
    notebook = json.loads(answered(toy, "number = 1"))
    noise = random.Random(1).randbytes(len(value) // 250)
    notebook["metadata"]["noise"] = base64.b64encode(noise).decode()
    notebook["metadata"]["x"] = "HERE"
    return json.dumps(notebook).encode().replace(b'"HERE"', value)


# Limits of size, number and depth, which are checked before anything is parsed or hashed


def test_a_notebook_of_empty_lists_is_not_parsed(where: Classroom, toy: Assignment) -> None:
    """Its zip has 0.1 MB; the parsed notebook would take 1.2 GB."""
    many = b"[" + b"[]," * (18_000_000 // 3) + b"0]"
    pack(where.inbox / "eve.zip", {"a9.ipynb": in_notebook(toy, many)})
    hand_in(where, toy, "zoe.zip")

    records = take(where, toy)

    assert (where.inbox / "eve.zip").stat().st_size < 200_000
    assert "more than 500000 values" in records["eve.zip"].problem
    assert "Clear its outputs" in records["eve.zip"].problem
    assert records["zoe.zip"].problem == ""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"[" * 150 + b"]" * 150, "nested more than 100 levels"),
        (b'"' + b"x" * bounded_json.MOST_BYTES + b'"', "larger than 20 MiB"),
        (b"9" * 5_000, "cannot be read"),
    ],
)
def test_a_notebook_beyond_a_limit_is_refused(
    where: Classroom, toy: Assignment, value: bytes, words: str
) -> None:
    folder = where.inbox / "eve"
    folder.mkdir()
    (folder / "a9.ipynb").write_bytes(in_notebook(toy, value))

    assert words in take(where, toy)["eve"].problem


def test_a_notebook_that_leads_a_parser_astray_ends_with_its_process(
    where: Classroom, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 MB of invalid outputs: nbformat's error for them takes a minute and 2 GB."""
    monkeypatch.setattr(unpack_entry, "CPU_S", 1)
    notebook = json.loads(answered(toy, "number = 1"))
    (cell,) = (c for c in notebook["cells"] if "number = 1" in c["source"])
    cell["outputs"] = [{"output_type": "stream", "name": 3, "text": ""}] * 20_000
    pack(where.inbox / "eve.zip", {"a9.ipynb": json.dumps(notebook)})
    hand_in(where, toy, "zoe.zip")

    records = take(where, toy)

    assert "It takes more than 1 s of processor time:" in records["eve.zip"].problem
    assert records["zoe.zip"].problem == ""


def test_a_zip_that_takes_long_and_gives_nothing_ends_with_its_process(
    where: Classroom, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 MB of such blocks take 10 to 30 s."""
    monkeypatch.setattr(unpack_entry, "CPU_S", 1)
    (where.inbox / "eve.zip").write_bytes(stored_zip(empty_blocks(60 << 20), size=1_000))

    assert "It takes more than 1 s of processor time:" in take(where, toy)["eve.zip"].problem


def test_memory_is_limited(
    where: Classroom, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack_entry, "MEMORY_BYTES", 32 << 20)
    folder = where.inbox / "eve"
    folder.mkdir()
    wide = '"\U0001f600' + "x" * (18 << 20) + '"'  # four bytes for each character
    (folder / "a9.ipynb").write_bytes(in_notebook(toy, wide.encode()))

    assert "It takes more than 32 MiB of memory:" in take(where, toy)["eve"].problem


def test_a_long_list_of_files_is_not_read(where: Classroom, toy: Assignment) -> None:
    """2 million entries would take 20 s and 700 MB."""
    (where.inbox / "eve.zip").write_bytes(listing_of(2_000_000))

    assert "list of files is longer than 2 MiB" in take(where, toy)["eve.zip"].problem


def test_a_folder_is_not_listed_to_its_end(where: Classroom, toy: Assignment) -> None:
    (where.inbox / "eve" / "deep").mkdir(parents=True)
    for number in range(unpack_submission.MOST_ENTRIES + 10):
        (where.inbox / "eve" / "deep" / str(number)).touch()

    assert "more than 2000 files" in take(where, toy)["eve"].problem


def test_sparse_files_are_refused_by_their_size(
    where: Classroom, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file of 3 GB took 15 s when it was hashed before its size was checked."""
    (where.inbox / "folder").mkdir()
    for name in ("eve.zip", "folder/a9.ipynb"):
        with (where.inbox / name).open("wb") as file:
            file.truncate(3 << 30)
    monkeypatch.setattr(intake, "_digest", lambda *_: pytest.fail("it was hashed"))

    records = take(where, toy)

    assert "larger than 100 MiB" in records["eve.zip"].problem
    assert "larger than 200 MiB" in records["folder"].problem


def test_a_reason_that_quotes_the_student_is_short(where: Classroom, toy: Assignment) -> None:
    """A reason of 130,000 characters ended the grading: it is too long for a flag."""
    packed = bytearray(pack(where.inbox / "eve.zip", {"n" * 60_000: "x"}).read_bytes())
    packed[packed.index(b"nnn") + 10] = ord("m")
    (where.inbox / "eve.zip").write_bytes(packed)

    problem = take(where, toy)["eve.zip"].problem

    assert problem
    assert len(problem) <= 1_000
    assert intake.refused_result(toy, problem).verdict.flags == (
        Flag(kind="unreadable", detail=problem),
    )


# Only regular files


def test_nothing_but_regular_files_is_opened(where: Classroom, toy: Assignment) -> None:
    """Opening a pipe without a writer waits for ever."""
    os.mkfifo(where.inbox / "pipe")
    os.mkfifo(where.inbox / "other pipe.zip")
    with socket.socket(socket.AF_UNIX) as opened:
        before = Path.cwd()
        os.chdir(where.inbox)  # a socket's path must be short
        opened.bind("socket.zip")
        os.chdir(before)
    (where.inbox / "link.zip").symlink_to("/etc/passwd")
    (where.inbox / "nowhere").symlink_to("/nowhere")
    (where.inbox / "loop").symlink_to(where.inbox / "loop")
    for kind in ("pipe", "link", "socket"):
        folder = where.inbox / f"time is a {kind}" / toy.name
        folder.mkdir(parents=True)
        (folder / "a9.ipynb").write_bytes(answered(toy, "number = 1"))
    os.mkfifo(where.inbox / "time is a pipe" / toy.name / "timestamp.txt")
    (where.inbox / "time is a link" / toy.name / "timestamp.txt").symlink_to("/dev/zero")
    os.link(
        where.inbox / "socket.zip", where.inbox / "time is a socket" / toy.name / "timestamp.txt"
    )
    hand_in(where, toy, "zoe.zip")

    problems = {source: record.problem for source, record in take(where, toy).items()}

    assert problems.pop("zoe.zip") == ""
    assert "pipe is a named pipe; put the file itself" in problems.pop("pipe")
    assert "is a named pipe" in problems.pop("other pipe.zip")
    assert "is a socket" in problems.pop("socket.zip")
    assert "is a link" in problems.pop("link.zip")
    assert "is a link" in problems.pop("nowhere")
    assert "is a link" in problems.pop("loop")
    assert "timestamp.txt is a named pipe" in problems.pop("time is a pipe")
    assert "timestamp.txt is a link" in problems.pop("time is a link")
    assert "timestamp.txt is a socket" in problems.pop("time is a socket")
    assert not problems


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_a_device_is_not_opened(where: Classroom, toy: Assignment) -> None:
    try:
        os.mknod(where.inbox / "zero.zip", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this machine lets nobody make device nodes")

    assert "is a device" in take(where, toy)["zero.zip"].problem


def test_a_folder_named_timestamp_txt_is_taken_away(where: Classroom, toy: Assignment) -> None:
    pack(
        where.inbox / "eve.zip",
        {"a9.ipynb": answered(toy, "number = 1"), "timestamp.txt/inner": "x"},
    )

    assert take(where, toy)["eve.zip"].problem == ""
    assert not (where.submission("eve", toy.name) / "timestamp.txt").exists()


# Times

TIMES = {
    "2026-11-20 10:00:00.000000 UTC": "2026-11-20 10:00:00.000000 UTC",
    "2026-11-20 10:00:00 UTC": "2026-11-20 10:00:00.000000 UTC",
    "2026-11-20T10:00:00+0130": "2026-11-20 08:30:00.000000 UTC",
    "2026-07-20 10:00:00 Europe/Berlin": "2026-07-20 08:00:00.000000 UTC",
    "2026-11-20 10:00:00 NOWHERE": "2026-11-20 10:00:00.000000 UTC",
    "2026-11-20 10:00:00 ../../etc/passwd": "",
    "2026-11-20 10:00:00 Europe": "2026-11-20 10:00:00.000000 UTC",
    "0001-01-01 00:00:00 +1400": "",
    "9999-12-31 23:59:59 -1400": "",
    "1999-12-31 23:59:59 UTC": "",
    "2026-13-01 00:00:00 UTC": "",
    "2026-11-20 10:00:00 +9999": "",
    "99999999999999999999": "",
    "10 o'clock": "",
    "": "",
}


@pytest.mark.parametrize("text", TIMES)
def test_a_time_is_read_or_left_out(where: Classroom, toy: Assignment, text: str) -> None:
    """And nbgrader, which takes `0001-01-01 +14` for a reason to stop, reads only what we wrote."""
    from nbgrader.utils import parse_utc

    folder = where.inbox / "anna" / toy.name
    folder.mkdir(parents=True)
    (folder / "a9.ipynb").write_bytes(answered(toy, "number = 1"))
    (folder / "timestamp.txt").write_text(text)

    record = take(where, toy)["anna"]

    assert (record.problem, record.time) == ("", TIMES[text])
    assert record.clock == ("file" if TIMES[text] else "")
    stamp = where.submission("anna", toy.name) / "timestamp.txt"
    assert stamp.exists() == bool(TIMES[text])
    if TIMES[text]:
        assert stamp.read_text() == TIMES[text]
        assert f"{parse_utc(TIMES[text]):%Y-%m-%d %H:%M:%S.%f} UTC" == TIMES[text]


def test_another_systems_time_comes_before_the_students(where: Classroom, toy: Assignment) -> None:
    for name in (
        "anna+a9__toy+2026-11-20 10:00:00.000000 UTC+x8Fk/a9__toy",
        "Bo Li_77_assignsubmission_file_/a9__toy",
        "okafor_4711_90210_a9/a9__toy",
    ):
        folder = where.inbox / name
        folder.mkdir(parents=True)
        (folder / "a9.ipynb").write_bytes(answered(toy, "number = 1"))
        (folder / "timestamp.txt").write_text("2001-01-01 00:00:00 UTC")

    records = {record.student: record for record in take(where, toy).values()}

    assert records["anna"].time == "2026-11-20 10:00:00.000000 UTC"
    assert (records["anna"].system, records["anna"].clock) == ("nbgrader", "name")
    assert (where.submission("anna", toy.name) / "timestamp.txt").read_text() == (
        "2026-11-20 10:00:00.000000 UTC"
    )
    for student in ("Bo_Li_77", "okafor_4711"):
        assert (records[student].time, records[student].clock) == ("", "")
        assert not (where.submission(student, toy.name) / "timestamp.txt").exists()


def test_a_student_cannot_state_when_they_handed_in(where: Classroom, toy: Assignment) -> None:
    """Not by a file in the zip, the zip's own times, a table beside it, or their own name."""
    early = "2001-01-01 10:00:00 UTC"
    table = 'Identifier,Last modified (submission)\nParticipant 12,"1 January 2001, 10:00 AM"\n'
    work = {"a9.ipynb": answered(toy, "number = 1"), "timestamp.txt": early}
    inside = {f"{toy.name}/{name}": content for name, content in work.items()}
    for name in ("eve.zip", f"mallory+{toy.name}+{early}.zip"):
        pack(where.inbox / name, work)
        os.utime(where.inbox / name, (1e9, 1e9))
    pack(where.inbox / "max.zip", inside)
    # Moodle's download, unpacked without folders: the second file is a submission's, too.
    pack(where.inbox / "Bo Li_12_assignsubmission_file_a9.zip", work)
    (where.inbox / "Bo Li_12_assignsubmission_file_Grades.csv").write_text(table)
    (where.inbox / "okafor_12_90210_Grades.csv").write_text(table)  # Canvas's
    # In a download, a student's name in Moodle has the form of a folder of nbgrader's exchange.
    own = f"anna+x+{early}+_77_assignsubmission_file_"
    pack(where.inbox / "Course-Triton-5.zip", {f"{own}/{k}": v for k, v in work.items()})
    folder = where.inbox / "Course-Triton-6" / own.replace("_77_", "_78_")
    folder.mkdir(parents=True)
    (folder / "a9.ipynb").write_bytes(work["a9.ipynb"])  # type: ignore[arg-type]

    records = take(where, toy)

    assert len(records) == 6
    for record in records.values():
        assert (record.problem, record.time, record.clock) == ("", "", ""), record
        assert record.system in ("", "moodle")
        assert record.student != "anna"
        place = where.submission(record.student, toy.name)
        assert not (place / "timestamp.txt").exists()


def test_of_two_worksheets_the_later_time_counts(where: Classroom, toy: Assignment) -> None:
    """An older worksheet, whatever its name, does not make late work early."""
    pack(
        where.inbox / "Bo Li_12_assignsubmission_file_a9.zip", {"a9.ipynb": answered(toy, "x = 1")}
    )
    for name, day in (("a.csv", 21), ("b.csv", 20)):
        (where.inbox / name).write_text(
            f'Identifier,Last modified (submission)\nParticipant 12,"{day} May 2026, 10:00 AM"\n'
        )
    (record,) = take(where, toy).values()
    assert record.time == "2026-05-21 10:00:00.000000 UTC"


def test_the_last_by_the_exchanges_time_counts(where: Classroom, toy: Assignment) -> None:
    for day, changed in ((21, 1_000), (20, 2_000)):
        folder = where.inbox / f"anna+a9__toy+2026-11-{day} 10:00:00 UTC+x"
        folder.mkdir()
        (folder / "a9.ipynb").write_bytes(answered(toy, "number = 1"))
        os.utime(folder, (changed, changed))
    (where.inbox / "bob+a9__toy+2001-01-01 10:00:00 UTC.zip").write_bytes(b"")  # no folder

    records = take(where, toy)

    assert "anna+a9__toy+2026-11-21 10:00:00 UTC+x" in records
    assert len(records) == 2
    assert {record.system for record in records.values()} == {"nbgrader", ""}


# Names and ids


def test_an_entry_whose_name_is_not_utf8_is_reported(where: Classroom, toy: Assignment) -> None:
    """Such names come from zips made on other systems. One stopped the grading of the class."""
    for name in (b"M\xfcller.zip", b"\xff", b"M\xfcller_12_assignsubmission_file_a9.zip"):
        pack(where.inbox / os.fsdecode(name), {"a9.ipynb": answered(toy, "number = 1")})
    pack(where.inbox / "M\\xfcller.zip", {"a9.ipynb": answered(toy, "number = 1")})
    hand_in(where, toy, "zoe.zip")

    records = take(where, toy)
    again = take(where, toy)

    assert records == again
    assert records["zoe.zip"].problem == ""
    refused = [record for record in again.values() if "no text in UTF-8" in record.problem]
    assert len(refused) == 3
    assert "Its name holds what is no text in UTF-8: M\\xfcller.zip. Rename it." in {
        record.problem for record in refused
    }


FIRST, SECOND = "Anna.zip", "anna.zip"


def test_an_id_stays_when_a_name_comes_that_differs_in_case(
    where: Classroom, toy: Assignment
) -> None:
    hand_in(where, toy, FIRST)
    before = take(where, toy)[FIRST].student
    hand_in(where, toy, SECOND)
    hand_in(where, toy, "ANNA.zip")
    both = take(where, toy)
    (where.inbox / FIRST).unlink()
    after = take(where, toy)

    assert before == "Anna"
    assert both[FIRST].student == before
    assert len({names.fold(record.student) for record in both.values()}) == 3
    assert after[SECOND].student == both[SECOND].student
    assert after["ANNA.zip"].student == both["ANNA.zip"].student


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("anna", "Anna"),
        ("a_b", "a b"),
        ("a b", "a_b"),
        ("straße", "strasse"),
        ("x" * 70 + "1", "x" * 70 + "2"),
        ("Ana Ruiz_12_assignsubmission_file_a9", "ana ruiz_12_assignsubmission_file_a9"),
        ("\uff21\uff22", "AB"),
        ("नमन", "न\u200dमन"),
    ],
)
def test_an_id_is_the_same_whoever_comes_later(
    where: Classroom, toy: Assignment, first: str, second: str
) -> None:
    """Also in another assignment, and after the first one's entry was taken out of the inbox."""
    hand_in(where, toy, f"{first}.zip")
    alone = take(where, toy)[f"{first}.zip"]
    hand_in(where, toy, f"{second}.zip")
    together = take(where, toy)
    other = where.home / "intake" / "a1__other"
    (where.home / "intake" / toy.name).rename(other)
    elsewhere = take(where, toy)

    assert together[f"{first}.zip"] == alone
    assert names.fold(together[f"{second}.zip"].student) != names.fold(alone.student)
    assert {s: r.student for s, r in elsewhere.items()} == {
        s: r.student for s, r in together.items()
    }


def test_an_id_cannot_be_taken_over(where: Classroom, toy: Assignment) -> None:
    """The hash of an id is no secret: a student may choose a name that is another student's id."""
    hand_in(where, toy, "Anna.zip")
    hand_in(where, toy, "anna.zip")
    theirs = take(where, toy)["anna.zip"].student
    hand_in(where, toy, f"{theirs}.zip")
    hand_in(where, toy, f"{theirs.upper()}.zip")

    students = {source: record.student for source, record in take(where, toy).items()}

    assert students["anna.zip"] == theirs
    assert len({names.fold(student) for student in students.values()}) == 4


def test_a_folder_that_was_left_by_a_killed_run_is_its_students(
    where: Classroom, toy: Assignment
) -> None:
    hand_in(where, toy, "Ana Ruiz.zip")
    before = take(where, toy)["Ana Ruiz.zip"].student
    for path in (where.home / "intake").rglob("*.json"):
        path.unlink()  # the run was killed before it wrote the record

    assert take(where, toy)["Ana Ruiz.zip"].student == before == "Ana_Ruiz"


#: Names as people write them.
PEOPLE = (
    "José Núñez",
    "Nguyễn Thị Minh Khai",
    "Łukasz Żółć",
    "Zoë O\u2019Connor-D'Arcy",
    "Æðelþryð Ĳsbrand",
    "Айгүл Жаңабекқызы",
    "Δήμητρα Αγγελή",
    "שָׁלוֹם בֶּן־דָּוִד",
    "عَبْدُ ٱلرَّحْمٰن",
    "علی‌رضا",
    "मोहन कुमार",
    "ஸ்ரீராம்",
    "ശ്രീജിത്ത്",
    "สมชาย ใจดี",
    "ខេមរា",
    "བསྟན་འཛིན།",
    "山田 太郎",
    "김철수",
    "ⵜⵉⵍⵍⵉ",
)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_of_people_survive(where: Classroom, toy: Assignment, form: str) -> None:
    """Vowels of many scripts are combining marks, and were dropped."""
    for number, name in enumerate(PEOPLE):
        spelled = unicodedata.normalize(form, name)
        hand_in(where, toy, f"{spelled}_{number}_assignsubmission_file_a9.zip")

    records = take(where, toy)

    assert len({record.student for record in records.values()}) == len(PEOPLE)
    for record in records.values():
        name = unicodedata.normalize("NFC", record.name)
        assert name in {unicodedata.normalize("NFC", person) for person in PEOPLE}
        assert record.student.endswith(f"_{record.number}")
        spoken = record.student.removesuffix(f"_{record.number}")
        assert [c for c in spoken if c not in "_-"] == [
            c for c in name if unicodedata.category(c)[0] in "LM" or c in "\u200c\u200d"
        ]


# What the instructor sees


@pytest.mark.server
def test_pages_and_tables_show_no_control_characters(
    where: Classroom, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBOOK_HOME", str(toy.home))
    entries = [
        "a\x1b[31mred.zip",
        "line\nbreak.zip",
        "ta\tb.zip",
        "del\x7f.zip",
        "c1\x9b31m.zip",
        "turned\u202egpj.zip",
        "\u2066isolated_12_assignsubmission_file_a9.zip",
        os.fsdecode(b"M\xfcller.zip"),
        "@anna.zip",
        "@SUM(1+1)*cmd|' C calc'!A0.zip",
        "\uff1d1+1.zip",
        "=HYPERLINK(1).zip",
        "Points Possible.zip",
        "o'neil.zip",
        "मोहन कुमार_5_assignsubmission_file_a9.zip",
    ]
    for name in entries:
        hand_in(where, toy, name)
    records = take(where, toy)
    assert len(records) == len(entries)
    index = {}
    printed = "\x1b]0;owned\x07 \x9b2J \u202e \x00 \r\n\tend"
    for record in records.values():
        if record.problem:
            result = intake.refused_result(toy, record.problem)
        else:
            folder = where.submission(record.student, toy.name)
            result = fake_grade(folder, toy.name, Settings(secret=where.secret()))
            checks = tuple(
                check.model_copy(update={"rationale": printed, "credit": 0, "status": "failed"})
                for check in result.verdict.checks
            )
            verdict = result.verdict.model_copy(
                update={"checks": checks, "flags": (Flag(kind="edited cell", detail=printed),)}
            )
            log = f"E1121 {printed}"
            result = result.model_copy(update={"verdict": verdict, "log": log})
        index[record.student] = result.key
        where.store(result)
    where.save_results_index(toy.name, index)
    writer = gradebook.Writer(where, toy)
    for student, key in index.items():
        writer.write(student, key)
    feedback.write_feedback(where, toy)
    class_report.write_class_report(where, toy)

    pages = [*where.feedback.rglob("*.html"), *where.report.glob("*.html")]
    assert len(pages) == len(entries) + 1
    for page in pages:
        text = page.read_text()
        assert names.shown(text) == text
        assert "end" in text or "no text in UTF-8" in text
    text = export.table(where, toy, "nbgrader").text
    assert names.shown(text) == text
    assert "\t" not in text
    for row in csv.reader(io.StringIO(text)):
        assert not any("\n" in value for value in row)
        for value in row:
            assert not value.startswith(("=", "+", "-", "@", "\uff1d"))
