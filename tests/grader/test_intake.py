"""The inbox: submissions are sorted, refused ones are reported, and no file leaves its folder."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import struct
import zipfile
from pathlib import Path

import pytest
from a_class import answered, classroom, pack
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.classroom import intake, unpack_submission
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError


def take(home: Path, toy: Assignment) -> dict[str, intake.Record]:
    records = intake.take_inbox(classroom(home), toy, home / "work" / "inbox")
    return {record.source: record for record in records}


def test_every_way_of_handing_in_ends_in_the_same_place(tmp_path: Path, toy: Assignment) -> None:
    inbox = tmp_path / "work" / "inbox"
    notebook = answered(toy, "number = 1")
    config = {"a9.ipynb": notebook, "models/m/config.pbtxt": "name: 'm'", "models/m/1/": ""}
    pack(inbox / "anna.zip", config)
    pack(inbox / "wrapped.zip", {f"a9 hand in/{name}": text for name, text in config.items()})
    pack(inbox / "inner" / "whatever.ZIP", config)
    pack(inbox / "okafor_LATE_4711_90210_a9-2.zip", config)
    pack(inbox / "Ana Ruiz_12_assignsubmission_file_a9.zip", config)
    for folder in ("plain", "collected/a9__toy", "Bo Li_77_assignsubmission_file_"):
        (inbox / folder / "models/m/1").mkdir(parents=True)
        (inbox / folder / "a9.ipynb").write_bytes(notebook)
        (inbox / folder / "models/m/config.pbtxt").write_text("name: 'm'")
    stamp = "2026-11-20 10:00:00.000000 UTC"
    (inbox / "collected/a9__toy/timestamp.txt").write_text(stamp)

    records = take(tmp_path, toy)

    assert [r.problem for r in records.values()] == [""] * 8
    students = {
        *("anna", "wrapped", "inner", "plain", "collected"),
        *("okafor_4711", "Ana_Ruiz_12", "Bo_Li_77"),
    }
    assert set(classroom(tmp_path).submissions("a9__toy")) == students
    for student, folder in classroom(tmp_path).submissions("a9__toy").items():
        assert (folder / "a9.ipynb").read_bytes() == notebook
        assert (folder / "models/m/config.pbtxt").read_text() == "name: 'm'"
        assert (folder / "models/m/1").is_dir()
        stamped = folder / "timestamp.txt"
        assert stamped.exists() == (student == "collected")
    assert (
        classroom(tmp_path).submission("collected", "a9__toy").joinpath("timestamp.txt").read_text()
        == stamp
    )
    canvas = records["okafor_LATE_4711_90210_a9-2.zip"]
    assert (canvas.system, canvas.number, canvas.name) == ("canvas", "4711", "okafor")
    moodle = records["Bo Li_77_assignsubmission_file_"]
    assert (moodle.system, moodle.number, moodle.name) == ("moodle", "77", "Bo Li")


def test_a_student_cannot_choose_the_time(tmp_path: Path, toy: Assignment) -> None:
    files = {"a9.ipynb": answered(toy, "x = 1"), "timestamp.txt": "2001-01-01 00:00:00 UTC"}
    pack(tmp_path / "work/inbox/anna.zip", files)
    pack(tmp_path / "work/inbox/bob.zip", {f"a9__toy/{n}": text for n, text in files.items()})

    take(tmp_path, toy)

    for folder in classroom(tmp_path).submissions("a9__toy").values():
        assert (folder / "a9.ipynb").exists()
        assert not (folder / "timestamp.txt").exists()


def test_what_is_there_already_is_kept_and_what_changed_is_replaced(
    tmp_path: Path, toy: Assignment
) -> None:
    inbox = tmp_path / "work" / "inbox"
    pack(inbox / "anna.zip", {"a9.ipynb": answered(toy, "number = 0"), "old.txt": "x"})
    take(tmp_path, toy)
    place = classroom(tmp_path).submission("anna", "a9__toy")
    before = place.stat().st_ino
    take(tmp_path, toy)
    assert place.stat().st_ino == before

    pack(inbox / "anna.zip", {"a9.ipynb": answered(toy, "number = 1")})
    take(tmp_path, toy)

    assert sorted(p.name for p in place.iterdir()) == ["a9.ipynb"]
    assert b"number = 1" in (place / "a9.ipynb").read_bytes()
    assert not list(classroom(tmp_path).submitted.glob(".*"))


def test_the_newest_of_several_entries_of_a_student_counts(tmp_path: Path, toy: Assignment) -> None:
    inbox = tmp_path / "work" / "inbox"
    old = pack(inbox / "okafor_4711_1_a9.zip", {"a9.ipynb": answered(toy, "number = 0.5")})
    new = pack(inbox / "okafor_4711_2_a9-1.zip", {"a9.ipynb": answered(toy, "number = 1")})
    os.utime(old, (2_000, 2_000))  # Canvas's number of the file is more reliable
    os.utime(new, (1_000, 1_000))
    other = pack(inbox / "anna.zip", {"a9.ipynb": answered(toy, "number = 0.5")})
    again = pack(inbox / "anna (1).zip", {"a9.ipynb": answered(toy, "number = 1")})
    os.utime(other, (1_000, 1_000))
    os.utime(again, (2_000, 2_000))

    records = take(tmp_path, toy)

    assert set(records) == {new.name, again.name}
    assert records[again.name].student == "anna"
    for record in records.values():
        assert record.note == f"Of 2 that were handed in, the last counts: {record.source}."
        notebook = classroom(tmp_path).submission(record.student, "a9__toy") / "a9.ipynb"
        assert b"number = 1" in notebook.read_bytes()


def test_students_whose_names_are_alike_stay_apart(tmp_path: Path, toy: Assignment) -> None:
    inbox = tmp_path / "work" / "inbox"
    for name in ("a b.zip", "a_b.zip", "Anna.zip", "anna.zip", "...zip", "x" * 90 + ".zip"):
        pack(inbox / name, {"a9.ipynb": answered(toy, f"name = {name!r}")})

    take(tmp_path, toy)

    found = classroom(tmp_path).submissions("a9__toy")
    assert len({student.casefold() for student in found}) == len(found) == 5  # ...zip is hidden
    assert all(len(student) < 80 for student in found)


def link(target: str) -> dict[str, tuple[int, str]]:
    return {"models": (stat.S_IFLNK | 0o777, target)}


BOMB = {"a9.ipynb": "{}", "zeros": b"\0" * (30 << 20)}
HOSTILE: dict[str, tuple[dict[str, bytes | str], str]] = {
    "climbs": ({"../../escaped": "x"}, "leads out of"),
    "climbs late": ({"models/../../escaped": "x"}, "leads out of"),
    "climbs as on Windows": ({"..\\escaped": "x"}, "leads out of"),
    "absolute": ({"/tmp/escaped": "x"}, "leads out of"),
    "drive": ({"C:\\escaped": "x"}, "leads out of"),
    "control characters": ({"a\x1b[31m": "x"}, "not a name"),
    "long name": ({"n" * 250: "x"}, "not a name"),
    "deep": ({"d/" * 30 + "x": "x"}, "nested too deeply"),
    "case": ({"models/A": "x", "models/a": "y"}, "same name"),
    "case of a folder": ({"models/a": "x", "Models/b": "y"}, "same name"),
    "composed": ({"é": "x", "e\u0301": "y"}, "same name"),
    "file and folder": ({"models": "x", "models/a": "y"}, "both a file and a folder"),
    "bomb": (BOMB, "grows over"),
    "many": (
        {f"f{n}": "" for n in range(unpack_submission.MOST_ENTRIES + 1)},
        "more than 2000 files",
    ),
    "wrong assignment": ({"a3.ipynb": "{}"}, "There is no a9.ipynb in it. It has a3.ipynb."),
    "empty": ({}, "There is no a9.ipynb in it."),
    "no notebook": ({"a9.ipynb": "print('hello')"}, "cannot be read"),
    "a list": ({"a9.ipynb": "[]"}, "not a notebook"),
    "nested JSON": ({"a9.ipynb": "[" * 200_000}, "nested more than 100"),
    "cells of nothing": ({"a9.ipynb": '{"nbformat": 4, "cells": 7}'}, "not a notebook"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_zip_earns_nothing_and_says_why(
    tmp_path: Path, toy: Assignment, name: str
) -> None:
    files, words = HOSTILE[name]
    inbox = tmp_path / "work" / "inbox"
    pack(inbox / "eve.zip", files)
    pack(inbox / "zoe.zip", {"a9.ipynb": answered(toy, "number = 1")})

    records = take(tmp_path, toy)

    assert words in records["eve.zip"].problem
    assert not list(tmp_path.rglob("escaped"))
    assert records["zoe.zip"].problem == ""
    graded = intake.refused_result(toy, records["eve.zip"].problem)
    assert [check.credit for check in graded.verdict.checks] == [0, 0]
    assert [flag.kind for flag in graded.verdict.flags] == ["unreadable"]
    notebook = classroom(tmp_path).submission("eve", "a9__toy") / "a9.ipynb"
    assert json.loads(notebook.read_text())["nbformat"] == 4


def test_special_entries_of_a_zip_are_refused(tmp_path: Path, toy: Assignment) -> None:
    inbox = tmp_path / "work" / "inbox"
    inbox.mkdir(parents=True)
    for name, mode in {"link": stat.S_IFLNK, "pipe": stat.S_IFIFO, "disk": stat.S_IFBLK}.items():
        with zipfile.ZipFile(inbox / f"{name}.zip", "w") as opened:
            info = zipfile.ZipInfo("models")
            info.external_attr = (mode | 0o777) << 16
            opened.writestr(info, "/etc")
    locked = pack(inbox / "locked.zip", {"a9.ipynb": "{}"})
    content = bytearray(locked.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        struct.pack_into("<H", content, content.index(signature) + offset, 1)
    locked.write_bytes(content)
    (inbox / "words.zip").write_text("this is no zip")
    (inbox / "cut.zip").write_bytes(pack(tmp_path / "whole.zip", BOMB).read_bytes()[:-300])

    problems = {name: record.problem for name, record in take(tmp_path, toy).items()}

    assert "is a link" in problems["link.zip"]
    assert "is a named pipe" in problems["pipe.zip"]
    assert "is a device" in problems["disk.zip"]
    assert "encrypted" in problems["locked.zip"]
    assert "not a zip file" in problems["words.zip"]
    assert "not a zip file" in problems["cut.zip"]


def test_links_and_pipes_in_a_folder_are_refused(tmp_path: Path, toy: Assignment) -> None:
    inbox = tmp_path / "work" / "inbox"
    (tmp_path / "secret").write_text("not theirs")
    for name in ("link", "folder", "pipe", "itself"):
        (inbox / name).mkdir(parents=True)
        (inbox / name / "a9.ipynb").write_bytes(answered(toy, "number = 1"))
    (inbox / "link" / "models").symlink_to(tmp_path / "secret")
    (inbox / "folder" / "models").symlink_to(tmp_path)
    os.mkfifo(inbox / "pipe" / "models")
    (inbox / "itself" / "models").mkdir()
    (inbox / "itself" / "models" / "again").symlink_to(inbox / "itself")
    (inbox / "entry").symlink_to(inbox / "link")

    records = take(tmp_path, toy)

    assert len(records) == 5
    assert all("link" in record.problem or "pipe" in record.problem for record in records.values())
    assert not list(classroom(tmp_path).submitted.rglob("models"))


def test_clutter_of_operating_systems_is_left_out(tmp_path: Path, toy: Assignment) -> None:
    files = {
        "__MACOSX/a9/._a9.ipynb": b"\0",
        "a9/.DS_Store": b"\0",
        "a9/a9.ipynb": answered(toy, "number = 1"),
        "a9/.ipynb_checkpoints/a9-checkpoint.ipynb": b"{}",
    }
    pack(tmp_path / "work/inbox/anna.zip", files)

    (record,) = take(tmp_path, toy).values()

    place = classroom(tmp_path).submission("anna", "a9__toy")
    assert record.problem == ""
    assert [path.name for path in place.rglob("*")] == ["a9.ipynb"]


def test_an_inbox_that_is_not_there_is_an_instructors_error(
    tmp_path: Path, toy: Assignment
) -> None:
    with pytest.raises(WorkbookError, match="no inbox"):
        intake.take_inbox(classroom(tmp_path), toy, tmp_path / "nowhere")


#: zipfile itself cannot write lone surrogates, and cuts a name at a NUL.
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)


@settings(max_examples=50)
@given(st.dictionaries(NAMES | st.from_regex(r"[./\\a]+", fullmatch=True), st.binary(max_size=9)))
def test_no_zip_writes_outside_its_folder(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    home = tmp_path_factory.mktemp("zips")
    (home / "to").mkdir()
    packed = pack(home / "a.zip", dict(files))
    with contextlib.suppress(unpack_submission.Refused):
        unpack_submission.unzip(packed, home / "to")
    assert sorted(path.name for path in home.iterdir()) == ["a.zip", "to"]
    assert not [path for path in home.rglob("*") if path.is_symlink()]
