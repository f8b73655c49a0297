"""Inbox entries that claim another student's place, or that two programs read differently."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile

import pytest

from grader.classroom import intake, names, roster
from grader.classroom.classroom import Classroom
from tests.grader.a_class import answered, pack
from workbook.assignments import Assignment

pytestmark = pytest.mark.timeout(120)
LIST = """\
id,name,e-mail,Canvas ID,Identifier
anna,Anna Okafor,anna@example.org,4711,
bo,Bo Li,bo@example.org,4712,Participant 12
eve,Eve Ax,eve@example.org,,
"""


def listed(where: Classroom) -> Classroom:
    """The same classroom, with a class list."""
    roster.path(where).write_text(LIST)
    return where


def work(toy: Assignment, number: str = "1") -> dict[str, bytes | str]:
    return {toy.release.name: answered(toy, f"number = {number}")}


def taken(where: Classroom, toy: Assignment) -> dict[str, str]:
    """By student: the text of the notebook, or the reason why nothing was taken."""
    found = {}
    for record in intake.take(where, [toy], where.inbox).records[toy.name]:
        notebook = where.submission(record.student, toy.name) / toy.release.name
        words = [n for n in ("1", "2", "3") if f"number = {n}" in notebook.read_text()]
        found[record.student] = record.problem or "".join(words)
    return found


# -- another student's place -----------------------------------------------------------------------


def test_a_name_that_another_student_has(where: Classroom, toy: Assignment) -> None:
    """Moodle shows the name that a user has chosen. The later of two submissions would count.

    Only the instructor knows who is who. What was taken before stays.
    """
    listed(where)
    download = where.inbox / "course-forest-71"
    pack(download / "Anna Okafor_31_assignsubmission_file_" / "a.zip", work(toy, "1"))
    assert taken(where, toy) == {"anna": "1"}
    pack(download / "Anna Okafor_77_assignsubmission_file_" / "a.zip", work(toy, "2"))
    pack(download / "Eve Ax_78_assignsubmission_file_" / "a.zip", work(toy, "3"))

    found = intake.take(where, [toy], where.inbox)

    assert [record.student for record in found.records[toy.name]] == ["eve"]
    assert len(found.reported) == 2
    assert all("2 people there have the name of anna" in one.reason for one in found.reported)
    notebook = where.submission("anna", toy.name) / toy.release.name
    assert "number = 1" in notebook.read_text()


def test_a_name_of_somebody_whose_number_is_known(where: Classroom, toy: Assignment) -> None:
    listed(where)
    for number, content in (("12", "1"), ("77", "2")):
        pack(where.inbox / f"Bo Li_{number}_assignsubmission_file_a9.zip", work(toy, content))

    found = intake.take(where, [toy], where.inbox)

    assert [record.number for record in found.records[toy.name]] == ["12"]
    (report,) = found.reported
    assert "_77_" in report.source


def test_a_name_in_front_of_a_group_s(where: Classroom, toy: Assignment) -> None:
    """`Eve-Anna Okafor` is read as `Anna Okafor` in a group, as Moodle writes it."""
    listed(where)
    pack(where.inbox / "Anna Okafor_31_assignsubmission_file_a9.zip", work(toy, "1"))
    pack(where.inbox / "Eve-Anna Okafor_77_assignsubmission_file_a9.zip", work(toy, "2"))
    assert taken(where, toy) == {}


@pytest.mark.parametrize(
    "name",
    [
        # Moodle writes a student's name and number first, then the name of the student's file.
        "Eve Ax_77_assignsubmission_file_Bo Li_12_assignsubmission_file_a9.zip",
        "Eve Ax_77_assignsubmission_file_anna+a9__toy+2001-01-01 10:00:00 UTC+x.zip",
        # Canvas does the same.
        "eveax_77_90210_liBo_4712_5_a9.zip",
        "eveax_77_90210_okaforanna_4711_90211_a9.zip",
        "eveax_77_90210_LATE_4711_1_a9.zip",
        "eveax_77_90210_anon_12345_1_a9.zip",
    ],
)
def test_a_file_s_name_that_holds_another_student_s(
    where: Classroom, toy: Assignment, name: str
) -> None:
    listed(where)
    pack(where.inbox / name, work(toy))
    assert taken(where, toy) == {"eve": "1"}


@pytest.mark.parametrize(
    "name",
    [
        "Bo Li_12_assignsubmission_file_x_77_assignsubmission_file_a9.zip",
        "bo_LATE_4712_1_x_77_90210_a9.zip",
        "anna@example.org_x_77_assignsubmission_file_a9.zip",
    ],
)
def test_a_student_s_name_like_a_system_s(where: Classroom, toy: Assignment, name: str) -> None:
    """Where a name could be two things, the list has the last word; a wrong id is never a guess."""
    roster.path(where).write_text(LIST.replace(",4712,Participant 12", ",4799,Participant 99"))
    pack(where.inbox / name, work(toy))
    assert {*taken(where, toy)} <= {"bo"}  # the first name, which the system writes


@pytest.mark.parametrize(
    "name", ["con", "NUL", "aux.txt", "class", "all", "index", "report", "a9__toy x", "~x", "-rf"]
)
def test_a_reserved_word_is_a_name_like_others(
    where: Classroom, toy: Assignment, name: str
) -> None:
    pack(where.inbox / "anna.zip", work(toy, "1"))
    pack(where.inbox / f"{name}.zip", work(toy, "2"))

    found = taken(where, toy)

    assert found.pop("anna") == "1"
    ((student, content),) = found.items()
    assert content == "2"
    assert names.clean(student) == student
    assert where.submission(student, toy.name).parent.parent == where.submitted


def test_one_zip_for_two_students(where: Classroom, toy: Assignment) -> None:
    """Students hand in only for themselves: two notebooks are not given to two students."""
    files = {f"{who}/{name}": c for who in ("anna", "eve") for name, c in work(toy).items()}
    files["eve/a9.ipynb"] = answered(toy, "number = 2")
    pack(where.inbox / "eve.zip", files)
    found = taken(where, toy)
    assert list(found) == ["eve"]
    assert "2 times" in found["eve"]


# -- zips that two programs read differently -------------------------------------------------------


def zipped(files: dict[str, bytes | str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def renamed(packed: bytes, old: bytes, new: bytes, *, first: bool) -> bytes:
    """The zip with another name in its first header or in its list of files."""
    place = packed.index(old) if first else packed.rindex(old)
    return packed[:place] + new + packed[place + len(old) :]


def flagged(packed: bytes, flag: int) -> bytes:
    """The zip with a flag set in both headers of its first file."""
    changed = bytearray(packed)
    for magic, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = packed.index(magic) + offset
        (flags,) = struct.unpack_from("<H", changed, place)
        struct.pack_into("<H", changed, place, flags | flag)
    return bytes(changed)


def dated(packed: bytes, date: int, time: int) -> bytes:
    """The zip with a date of its own in every header."""
    changed = bytearray(packed)
    for magic, offset in ((b"PK\3\4", 10), (b"PK\1\2", 12)):
        at = packed.find(magic)
        while at >= 0:
            struct.pack_into("<HH", changed, at + offset, time, date)
            at = packed.find(magic, at + 4)
    return bytes(changed)


def test_zips_that_programs_read_differently(where: Classroom, toy: Assignment) -> None:
    """Each is taken as Python's reader shows it, or refused with a reason. None stops others."""
    honest, other = work(toy, "1"), work(toy, "2")
    plain = zipped(honest)
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive:
        for content in (honest, other):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("warnings.warn", lambda *_, **__: None)
                archive.writestr("a9.ipynb", content["a9.ipynb"])
    commented = io.BytesIO(plain)
    with zipfile.ZipFile(commented, "a") as archive:
        archive.comment = zipped(other)[-22:]
    levels = plain
    for level in range(5):
        levels = zipped({f"{level}.zip": levels})
    inbox = {
        "header": renamed(plain, b"a9.ipynb", b"a8.ipynb", first=True),
        "climbs": renamed(plain, b"a9.ipynb", b"../ipynb", first=False),
        "twice": twice.getvalue(),
        "cases": zipped({**honest, "A9.ipynb": "{}"}),
        "forms": zipped({**honest, "caf\u00e9": "1", "cafe\u0301": "2"}),
        "both": zipped({**honest, "models": "a file", "models/forest": "in it"}),
        "secret": flagged(plain, 1),
        "levels": levels,
        "deep": zipped({**honest, "/".join(["x"] * 30): "1"}),
        "colon": zipped({**honest, "C:/x": "1"}),
        "newline": zipped({**honest, "a\nb": "1"}),
        "two": plain + zipped(other),  # the last list counts
        "before": b"#!/bin/sh\nrm -rf /\n" + plain,
        "comment": commented.getvalue(),
        "1980": dated(plain, 0, 0),
        "2107": dated(plain, 0xFFFF, 0xFFFF),
        "utf8": flagged(zipped({**honest, "x": "1"}), 1 << 11),
    }
    for name, content in inbox.items():
        (where.inbox / f"{name}.zip").write_bytes(content)

    found = taken(where, toy)

    assert {*found} == {*inbox}
    taken_as = {name: found.pop(name) for name in list(found) if found[name] in ("1", "2", "3")}
    assert taken_as.pop("two") == "2"
    assert taken_as == dict.fromkeys(("before", "1980", "2107", "utf8"), "1"), found
    words = {
        "header": "damaged",
        "comment": "damaged",
        "climbs": "leads out of",
        "twice": "is there twice",
        "cases": "same name",
        "forms": "same name",
        "both": "both a file and a folder",
        "secret": "encrypted",
        "levels": "There is no a9.ipynb in it",
        "deep": "nested too deeply",
        "colon": "leads out of",
        "newline": "is not a name",
    }
    for name, word in words.items():
        assert word in found[name], (name, found[name])


def test_rights_and_times_of_files_are_not_kept(where: Classroom, toy: Assignment) -> None:
    """This includes the right to run as another user, and times that no calendar has."""
    with zipfile.ZipFile(where.inbox / "eve.zip", "w") as archive:
        archive.writestr("a9.ipynb", work(toy)["a9.ipynb"])
        for name, mode in (("all", 0o107777), ("none", 0o100000)):
            info = zipfile.ZipInfo(name, date_time=(2107, 12, 31, 23, 59, 58))
            info.external_attr = mode << 16
            archive.writestr(info, "x")
    for name, moment in (("old", -(1 << 31)), ("new", (1 << 34) - 1), ("never", 1 << 40)):
        pack(where.inbox / f"{name}.zip", work(toy))
        os.utime(where.inbox / f"{name}.zip", (moment, moment))

    assert set(taken(where, toy).values()) == {"1"}
    place = where.submission("eve", toy.name)
    assert stat.S_IMODE((place / "all").stat().st_mode) == 0o755
    assert stat.S_IMODE((place / "none").stat().st_mode) == 0o644
