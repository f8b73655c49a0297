"""The reader's own copy: what is updated, what stays, and that nothing is ever lost."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbook.common.errors import WorkbookError
from workbook.lab import reader_copy
from workbook.lab.reader_copy import Update, update
from workbook.notebooks.hide_words import encode

UNIT = "lectures/1_architecture/01__first_model"
LECTURE = f"{UNIT}/01__first_model.ipynb"
IMAGE = "lectures/images/request.svg"
NOTEBOOK = "assignments/a2__forest/a2.ipynb"
CONFIG = "assignments/a2__forest/models/forest/config.pbtxt"
COURSE = (LECTURE, IMAGE, NOTEBOOK, CONFIG)


def notebook(*sources: str, output: str = "", count: int | None = None) -> bytes:
    """A notebook as JupyterLab saves it."""
    node = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    for number, source in enumerate(sources):
        cell = nbformat.v4.new_code_cell(source, id=f"cell-{number}", execution_count=count)  # type: ignore[no-untyped-call]
        if output:
            cell.outputs = [nbformat.v4.new_output("stream", text=output)]  # type: ignore[no-untyped-call]
        node.cells.append(cell)
    return str(nbformat.writes(node)).encode()  # type: ignore[no-untyped-call]


def put(path: Path, content: bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return content


def below(folder: Path) -> dict[str, bytes]:
    """The files under `work/`, without the record."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".course" not in path.relative_to(folder).parts
    }


def history(home: Path) -> list[bytes]:
    found = below(home / "work")
    return [content for path, content in sorted(found.items()) if path.startswith(".history/")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A course that is no git checkout, e.g. one that was handed out as an archive."""
    put(tmp_path / LECTURE, notebook("1 + 1", "2 + 2"))
    put(tmp_path / IMAGE, b"<svg/>")
    put(tmp_path / NOTEBOOK, notebook("answer = ..."))
    put(tmp_path / CONFIG, b'backend: "fil"\n')
    put(tmp_path / UNIT / "lesson.py", b"# a source\n")
    put(tmp_path / UNIT / "solution.py", b"# the task's solution\n")
    put(tmp_path / "lectures/images/draw.py", b"# draws\n")
    put(tmp_path / "lectures/coverage.md", b"| unit |\n")
    put(tmp_path / "solutions/a2__forest/a2.py", b"# the solution\n")
    put(tmp_path / "assignments/a2__forest/a2__forest.zip", b"handed in")
    put(tmp_path / "assignments/a2__forest/checks.py", b"# imported from here\n")
    return tmp_path


def git(home: Path, *words: str) -> None:
    who = ("-c", "user.name=Reader", "-c", "user.email=reader@example.org")
    subprocess.run(["git", *who, "-C", str(home), *words], check=True, capture_output=True)


@pytest.fixture
def checkout(home: Path) -> Path:
    """The same course as a git checkout."""
    put(home / ".gitignore", b"/work/\n*.zip\n")
    git(home, "init", "-q")
    git(home, "add", ".")
    git(home, "commit", "-qm", "The course")
    return home


# -- the copies ----------------------------------------------------------------------------------


def test_the_first_start_copies_notebooks_images_and_starter_files(home: Path) -> None:
    made = update(home)
    assert made == Update(copied=4)
    assert made.sentences() == ["4 files of the course were copied into work/."]
    assert below(home / "work") == {path: (home / path).read_bytes() for path in COURSE}


def test_a_second_start_changes_and_says_nothing(home: Path) -> None:
    update(home)
    before = {path: path.stat().st_mtime_ns for path in (home / "work").rglob("*.ipynb")}
    assert update(home).sentences() == []
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_starter_programs_can_be_run_and_copies_of_a_read_only_course_can_be_written(
    home: Path,
) -> None:
    put(home / "assignments/a2__forest/run.sh", b"#!/bin/sh\n")
    (home / "assignments/a2__forest/run.sh").chmod(0o555)
    (home / LECTURE).chmod(0o444)
    update(home)
    assert (home / "work/assignments/a2__forest/run.sh").stat().st_mode & 0o300 == 0o300
    assert (home / "work" / LECTURE).stat().st_mode & 0o300 == 0o200


def test_what_the_reader_did_not_change_follows_the_course(home: Path) -> None:
    update(home)
    fresh = {path: put(home / path, b"changed" + path.encode()) for path in COURSE}
    assert update(home) == Update(followed=4)
    assert below(home / "work") == fresh


def test_what_the_course_removed_goes_with_its_folder_when_it_was_not_changed(home: Path) -> None:
    put(home / "work/lectures/images/mine.txt", b"mine")
    update(home)
    (home / LECTURE).unlink()
    (home / IMAGE).unlink()
    assert update(home) == Update(followed=2)
    assert not (home / "work/lectures/1_architecture").exists()
    assert (home / "work/lectures/images/mine.txt").read_bytes() == b"mine"
    assert (home / "work" / NOTEBOOK).exists()


def test_what_the_reader_deleted_comes_back(home: Path) -> None:
    update(home)
    (home / "work" / CONFIG).unlink()
    assert update(home) == Update(copied=1)
    assert (home / "work" / CONFIG).read_bytes() == (home / CONFIG).read_bytes()


def test_what_both_changed_stays_and_the_new_version_is_put_beside_it_once(home: Path) -> None:
    update(home)
    mine = put(home / "work" / NOTEBOOK, notebook("answer = 42"))
    course = put(home / NOTEBOOK, notebook("answer = ...", "print(answer)"))
    (note,) = update(home).notes
    beside = home / "work/assignments/a2__forest/a2.course.ipynb"
    assert (home / "work" / NOTEBOOK).read_bytes() == mine
    assert beside.read_bytes() == course
    assert "assignments/a2__forest/a2.course.ipynb" in note.text
    news = (home / "work" / reader_copy.NEWS).read_text()
    assert note.text in news
    assert "](<assignments/a2__forest/a2.course.ipynb>)" in news
    assert update(home).sentences() == []
    assert (home / "work" / reader_copy.NEWS).read_text() == news


def test_an_untouched_version_beside_gives_way_to_a_newer_one_and_a_changed_one_does_not(
    home: Path,
) -> None:
    update(home)
    put(home / "work" / CONFIG, b"mine")
    folder = home / "work" / Path(CONFIG).parent
    put(home / CONFIG, b"second")
    update(home)
    put(home / CONFIG, b"third")
    update(home)
    assert (folder / "config.course.pbtxt").read_bytes() == b"third"
    put(folder / "config.course.pbtxt", b"third, with notes of mine")
    put(home / CONFIG, b"fourth")
    update(home)
    assert (folder / "config.course.pbtxt").read_bytes() == b"third, with notes of mine"
    assert (folder / "config.course-2.pbtxt").read_bytes() == b"fourth"
    assert (folder / "config.pbtxt").read_bytes() == b"mine"


def test_who_takes_the_course_s_version_follows_it_again(home: Path) -> None:
    update(home)
    put(home / "work" / CONFIG, b"mine")
    second = put(home / CONFIG, b"second")
    update(home)
    put(home / "work" / CONFIG, second)
    third = put(home / CONFIG, b"third")
    assert update(home) == Update(followed=1)
    assert (home / "work" / CONFIG).read_bytes() == third


def test_what_the_course_removed_and_the_reader_changed_stays_for_good(home: Path) -> None:
    update(home)
    mine = put(home / "work" / CONFIG, b"mine")
    (home / CONFIG).unlink()
    (note,) = update(home).notes
    assert "no longer part of the course" in note.text
    assert update(home) == Update()
    assert (home / "work" / CONFIG).read_bytes() == mine


def test_files_that_the_reader_made_are_never_touched(home: Path) -> None:
    update(home)
    own = {name: put(home / "work" / name, name.encode()) for name in ("x.ipynb", "lectures/y")}
    taken = put(home / "work/lectures/1_architecture/02__new.ipynb", notebook("mine"))
    put(home / "lectures/1_architecture/02__new.ipynb", notebook("the course's"))
    update(home)
    found = below(home / "work")
    assert {name: found[name] for name in own} == own
    assert found["lectures/1_architecture/02__new.ipynb"] == taken
    assert "lectures/1_architecture/02__new.course.ipynb" in found


@pytest.mark.parametrize("kind", ["folder", "link", "dangling"])
def test_a_folder_or_link_of_the_reader_s_in_place_of_a_file_stays(home: Path, kind: str) -> None:
    update(home)
    target = home / "work" / CONFIG
    target.unlink()
    if kind == "folder":
        put(target / "inside", b"mine")
    else:
        place = home / "elsewhere"
        if kind == "link":
            put(place, b"mine")
        target.symlink_to(place)
    put(home / CONFIG, b"second")
    update(home)
    assert target.is_dir() if kind == "folder" else target.is_symlink()
    assert (target.parent / "config.course.pbtxt").read_bytes() == b"second"
    (home / CONFIG).unlink()
    update(home)
    assert os.path.lexists(target)


def test_a_file_in_place_of_a_folder_is_named_in_the_error(home: Path) -> None:
    mine = put(home / "work/lectures/images", b"mine")
    with pytest.raises(WorkbookError, match="name of a folder") as caught:
        update(home)
    assert caught.value.where == str(home / "work/lectures/images")
    assert "Rename it" in caught.value.todo
    (home / "work/lectures/images").rename(home / "work/mine")
    update(home)
    found = below(home / "work")
    assert found.pop("mine") == mine
    assert found == {path: (home / path).read_bytes() for path in COURSE}


# -- notebooks that were only run ----------------------------------------------------------------


def test_a_notebook_that_was_only_run_follows_and_its_outputs_are_kept(home: Path) -> None:
    update(home)
    run = put(home / "work" / LECTURE, notebook("1 + 1", "2 + 2", output="4", count=7))
    assert update(home) == Update()
    course = put(home / LECTURE, notebook("1 + 1", "2 + 3"))
    (note,) = update(home).notes
    assert (home / "work" / LECTURE).read_bytes() == course
    assert history(home) == [run]
    (kept,) = note.links
    assert kept.startswith(".history/")
    assert (home / "work" / kept).read_bytes() == run
    assert kept in note.text
    assert update(home) == Update()


def test_a_notebook_that_was_only_run_follows_new_texts_of_its_predictions(home: Path) -> None:
    def with_text(question: str, **run: Any) -> bytes:
        node = json.loads(notebook("predict('a.b')", **run))
        node["metadata"]["workbook"] = {"words": encode({"predict": {"a.b": {"q": question}}})}
        return json.dumps(node).encode()

    put(home / LECTURE, with_text("Why?"))
    update(home)
    run = put(home / "work" / LECTURE, with_text("Why?", output="4", count=7))
    assert update(home) == Update()
    course = put(home / LECTURE, with_text("Why not?"))
    update(home)
    assert (home / "work" / LECTURE).read_bytes() == course
    assert history(home) == [run]


def test_outputs_of_a_lecture_that_is_gone_are_kept(home: Path) -> None:
    update(home)
    run = put(home / "work" / LECTURE, notebook("1 + 1", "2 + 2", output="4"))
    (home / LECTURE).unlink()
    (note,) = update(home).notes
    assert history(home) == [run]
    assert "no longer part" in note.text


def test_new_outputs_of_the_course_do_not_displace_the_reader_s(home: Path) -> None:
    update(home)
    mine = put(home / "work" / LECTURE, notebook("1 + 1", "2 + 2", output="my machine"))
    put(home / LECTURE, notebook("1 + 1", "2 + 2", output="the course's machine"))
    assert update(home) == Update()
    assert (home / "work" / LECTURE).read_bytes() == mine
    put(home / "work" / LECTURE, notebook("1 + 1", "changed"))
    put(home / LECTURE, notebook("1 + 1", "2 + 2", output="a third machine"))
    assert update(home) == Update()


@pytest.mark.parametrize(
    "changed",
    [
        notebook("1 + 1"),
        notebook("2 + 2", "1 + 1"),
        notebook("1 + 1", "2 + 2", ""),
        notebook("1 + 1", "2 + 2").replace(b'"code"', b'"raw"', 1),
        b"",
        b"[]",
        b'{"cells": [1]}',
        b"[" * 5000,
    ],
    ids=["deleted", "moved", "added", "retyped", "empty", "list", "numbers", "deep"],
)
def test_an_edited_notebook_stays(home: Path, changed: bytes) -> None:
    update(home)
    put(home / "work" / LECTURE, changed)
    course = put(home / LECTURE, notebook("3 + 3"))
    update(home)
    assert (home / "work" / LECTURE).read_bytes() == changed
    assert (home / "work" / f"{UNIT}.course" / Path(LECTURE).name).read_bytes() == course


def test_two_updates_in_one_second_keep_both_copies(home: Path) -> None:
    update(home)
    runs = []
    with mock.patch.object(
        reader_copy.datetime, "datetime", wraps=reader_copy.datetime.datetime
    ) as clock:
        clock.now.return_value = reader_copy.datetime.datetime(2026, 11, 22)
        for number in range(3):
            source = f"version = {number}"
            put(home / LECTURE, notebook(source))
            update(home)
            runs.append(put(home / "work" / LECTURE, notebook(source, output=str(number))))
    put(home / LECTURE, notebook("the last version"))
    update(home)
    assert sorted(history(home)) == sorted(runs)


# -- the folder of a lecture's notebook ----------------------------------------------------------

SETUP, MODEL = f"{UNIT}/setup.py", f"{UNIT}/models/crowd/1/model.py"
OLD = {LECTURE: notebook("import setup"), SETUP: b"old", MODEL: b"old", f"{UNIT}/task.py": b"old"}
NEW = {
    LECTURE: notebook("import setup, extra"),
    SETUP: b"new",
    MODEL: b"new",
    f"{UNIT}/extra.py": b"new",
    f"{UNIT}/clients/ask.sh": b"new",
    f"{UNIT}/at_work/cache.py": b"new",
}


@pytest.fixture
def unit(home: Path) -> Path:
    """A lecture whose notebook has modules and models beside it, and their copies in `work/`."""
    for name, text in OLD.items():
        put(home / name, text)
    put(home / UNIT / "README.md", b"for authors")
    update(home)
    return home


def edition(home: Path, files: dict[str, bytes]) -> None:
    """Make these files the course's version of the lecture."""
    for name in [*OLD, *NEW]:
        (home / name).unlink(missing_ok=True)
    for name, text in files.items():
        put(home / name, text)


def copies(home: Path, mark: str = "") -> dict[str, bytes]:
    """The reader's files of the lecture, or those in a folder beside it, by the course's paths."""
    found = below(home / "work")
    return {n.replace(mark, "", 1): t for n, t in found.items() if n.startswith(f"{UNIT}{mark}/")}


def test_modules_and_models_are_copied_with_their_notebook_and_follow_it(unit: Path) -> None:
    assert copies(unit) == OLD
    put(unit / "work" / LECTURE, notebook("import setup", output="it ran"))
    edition(unit, NEW)
    update(unit)
    assert copies(unit) == NEW


@pytest.mark.parametrize("name", [LECTURE, SETUP, MODEL])
def test_an_edited_lecture_keeps_its_modules_and_the_new_version_is_a_folder(
    unit: Path, name: str
) -> None:
    mine = put(unit / "work" / name, notebook("import setup", "mine"))
    edition(unit, NEW)
    (note,) = update(unit).notes
    assert copies(unit) == OLD | {name: mine}
    assert copies(unit, ".course") == NEW
    assert note.links == (LECTURE, LECTURE.replace(UNIT, f"{UNIT}.course"))
    assert f"{UNIT}.course" in note.text
    assert update(unit) == Update()

    # The next version replaces the version beside it, except if the reader has worked with that.
    edition(unit, OLD | {SETUP: b"third"})
    update(unit)
    assert copies(unit, ".course") == OLD | {SETUP: b"third"}
    worked = put(unit / "work" / SETUP.replace(UNIT, f"{UNIT}.course"), b"worked with")
    edition(unit, NEW)
    update(unit)
    assert copies(unit, ".course")[SETUP] == worked
    assert copies(unit, ".course-2") == NEW
    assert copies(unit) == OLD | {name: mine}


def test_who_deletes_the_edited_notebook_gets_the_new_version_in_its_place(unit: Path) -> None:
    put(unit / "work" / LECTURE, notebook("mine"))
    edition(unit, NEW)
    update(unit)
    (unit / "work" / LECTURE).unlink()
    update(unit)
    assert copies(unit) == NEW
    assert update(unit) == Update()


def test_a_lecture_that_is_gone_stays_whole_where_it_was_edited(unit: Path) -> None:
    put(unit / "work" / UNIT / "__pycache__/setup.cpython-311.pyc", b"compiled")
    edition(unit, {})
    update(unit)
    assert not (unit / "work" / UNIT).exists()
    edition(unit, OLD)
    update(unit)
    mine = put(unit / "work" / SETUP, b"mine")
    edition(unit, {})
    (note,) = update(unit).notes
    assert "no longer part of the course" in note.text
    assert copies(unit) == OLD | {SETUP: mine}
    assert update(unit) == Update()


# -- git -----------------------------------------------------------------------------------------


@pytest.mark.server
def test_changes_made_in_lectures_before_there_was_work_are_copied(checkout: Path) -> None:
    run = put(checkout / LECTURE, notebook("1 + 1", "2 + 2", output="4"))
    edited = put(checkout / NOTEBOOK, notebook("answer = 42"))
    model = put(checkout / "assignments/a2__forest/models/forest/1/xgboost.json", b"{}")
    own = put(checkout / "lectures/notes.ipynb", notebook("mine"))
    made = update(checkout)
    assert {path for note in made.notes for path in note.links} == {
        LECTURE,
        NOTEBOOK,
        "assignments/a2__forest/models/forest/1/xgboost.json",
        "lectures/notes.ipynb",
    }
    found = below(checkout / "work")
    assert found[LECTURE] == run == (checkout / LECTURE).read_bytes()
    assert found[NOTEBOOK] == edited == (checkout / NOTEBOOK).read_bytes()
    assert found["assignments/a2__forest/models/forest/1/xgboost.json"] == model
    assert found["lectures/notes.ipynb"] == own
    assert update(checkout) == Update()

    # The reader makes `git pull` possible, and pulls.
    git(checkout, "restore", "lectures", "assignments")
    assert update(checkout) == Update()
    assert below(checkout / "work") == found
    put(checkout / LECTURE, notebook("new"))
    course = put(checkout / NOTEBOOK, notebook("new = ..."))
    git(checkout, "commit", "-qam", "A new version")
    update(checkout)
    found = below(checkout / "work")
    assert found[LECTURE] == notebook("new")
    assert history(checkout) == [run]
    assert found[NOTEBOOK] == edited
    assert found["assignments/a2__forest/a2.course.ipynb"] == course


@pytest.mark.server
def test_later_changes_in_lectures_are_neither_the_course_s_nor_copied_over_the_reader_s(
    checkout: Path,
) -> None:
    update(checkout)
    before = below(checkout / "work")
    put(checkout / LECTURE, notebook("edited in another editor"))
    assert update(checkout) == Update()
    assert below(checkout / "work") == before
    (checkout / "work" / LECTURE).unlink()  # a developer deletes the copy to get it
    update(checkout)
    assert (checkout / "work" / LECTURE).read_bytes() == (checkout / LECTURE).read_bytes()


@pytest.mark.server
def test_an_own_file_that_was_copied_and_deleted_does_not_come_back(checkout: Path) -> None:
    put(checkout / "lectures/notes.ipynb", notebook("mine"))
    update(checkout)
    (checkout / "work/lectures/notes.ipynb").unlink()
    assert update(checkout) == Update()
    assert not (checkout / "work/lectures/notes.ipynb").exists()


@pytest.mark.server
def test_a_reader_s_file_that_the_course_takes_up_is_compared(checkout: Path) -> None:
    mine = put(checkout / "lectures/notes.ipynb", notebook("mine"))
    update(checkout)
    git(checkout, "add", "lectures")
    git(checkout, "commit", "-qm", "Notes")
    assert update(checkout) == Update()
    course = put(checkout / "lectures/notes.ipynb", notebook("the course's"))
    git(checkout, "commit", "-qam", "Better notes")
    assert update(checkout) == Update(followed=1)
    assert (checkout / "work/lectures/notes.ipynb").read_bytes() == course != mine


@pytest.mark.server
def test_a_course_inside_a_repository_of_the_reader_s_is_the_course(checkout: Path) -> None:
    inner = checkout / "course"
    put(inner / LECTURE, notebook("inner"))
    assert update(inner) == Update(copied=1)
    put(inner / LECTURE, notebook("inner, changed"))
    assert update(inner) == Update(followed=1)


@pytest.mark.server
def test_git_sees_nothing_of_it(checkout: Path) -> None:
    update(checkout)
    put(checkout / "work" / LECTURE, notebook("mine"))
    put(checkout / LECTURE, notebook("new"))
    git(checkout, "commit", "-qam", "A new version")
    update(checkout)
    seen = subprocess.run(
        ["git", "-C", str(checkout), "status", "--porcelain"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout == ""


# -- interruptions -------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EACCES])
def test_a_full_disk_is_told_leaves_nothing_half_written_and_the_next_start_goes_on(
    home: Path, reason: int
) -> None:
    real, calls = os.fsync, []

    def full(file: int) -> None:
        calls.append(file)
        if len(calls) == 3:
            raise OSError(reason, os.strerror(reason))
        real(file)

    with (
        mock.patch("os.fsync", full),
        pytest.raises(WorkbookError, match=os.strerror(reason)) as caught,
    ):
        update(home)
    assert "Make room" in caught.value.todo
    found = below(home / "work")
    assert len(found) == 2
    assert all(content == (home / path).read_bytes() for path, content in found.items())
    assert update(home) == Update(copied=2)


@pytest.mark.parametrize("record", [b"", b"{}", b"[]", b"\xff", b'{"version": 1, "files": 3}'])
def test_without_a_readable_record_every_difference_is_the_reader_s(
    home: Path, record: bytes
) -> None:
    update(home)
    mine = put(home / "work" / CONFIG, b"mine")
    run = put(home / "work" / LECTURE, notebook("1 + 1", "2 + 2", output="4"))
    put(home / "work/.course/copied.json", record)
    update(home)
    assert (home / "work" / CONFIG).read_bytes() == mine
    assert run in below(home / "work").values()
    course = put(home / CONFIG, b"second")
    update(home)
    assert (home / "work" / CONFIG).read_bytes() == mine
    assert course in below(home / "work").values()


@pytest.mark.server
def test_two_starts_at_once_make_one_update(home: Path) -> None:
    code = "from pathlib import Path; from workbook.lab.reader_copy import update; "
    code += f"print(update(Path({str(home)!r})).copied)"
    both = [subprocess.Popen(["python", "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    assert sorted(int(one.communicate()[0]) for one in both) == [0, 4]


# -- nothing is ever lost ------------------------------------------------------------------------

PATHS = st.sampled_from(
    [
        "lectures/a.ipynb",
        "lectures/c.svg",
        "lectures/01__b/01__b.ipynb",
        "lectures/01__b/setup.py",
        "lectures/01__b/models/m.txt",
        "assignments/a1__x/models/m.txt",
    ]
)
OWN = st.sampled_from(
    ["lectures/a.course.ipynb", "lectures/01__b.course/setup.py", "mine.txt", reader_copy.NEWS]
)
CELLS = st.integers(0, 3)
OUTPUTS = st.sampled_from(["", "one", "two"])


def content(path: str, cells: int, output: str) -> bytes:
    """One of only a few contents, so that the reader's and the course's are often equal."""
    text = f"version {cells}"
    return notebook(text, output=output) if path.endswith(".ipynb") else text.encode()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("course"), PATHS, CELLS, OUTPUTS),
        st.tuples(st.just("course removes"), PATHS),
        st.tuples(st.just("commit")),
        st.tuples(st.just("reader"), st.one_of(PATHS, OWN), CELLS, OUTPUTS),
        st.tuples(st.just("reader runs"), PATHS, OUTPUTS),
        st.tuples(st.just("reader deletes"), PATHS),
        st.tuples(st.just("update")),
        st.tuples(st.just("killed"), st.integers(1, 6)),
        st.tuples(st.just("record lost")),
    ),
    max_size=25,
)


MARKS = ("", *(f"-{n}" for n in range(2, 30)))


class Killed(BaseException):
    """The process ended here."""


def killed_after(count: int) -> Callable[..., None]:
    """Replaces `Path.replace` and `Path.rename`: call number `count` raises `Killed`."""
    real, left = Path.replace, [count]

    def replace(self: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise Killed
        real(self, target)

    return replace


def edited(path: str, held: bytes, versions: set[bytes]) -> bool:
    """Whether a reader wrote something that the course never had, apart from outputs."""
    if not path.endswith(".ipynb"):
        return held not in versions

    def sources(raw: bytes) -> list[str]:
        return ["".join(cell["source"]) for cell in json.loads(raw)["cells"]]

    return sources(held) not in [sources(version) for version in versions]


@settings(max_examples=200)
@given(with_git=st.booleans(), steps=STEPS)
def test_no_sequence_of_changes_loses_what_the_reader_wrote(
    tmp_path_factory: pytest.TempPathFactory,
    with_git: bool,
    steps: list[tuple[str, ...]],
) -> None:
    home = tmp_path_factory.mktemp("course")
    mine: dict[str, bytes] = {}  # what the reader wrote last at each place
    kept: list[bytes] = []  # what the reader wrote and an update moved away
    versions: dict[str, set[bytes]] = {}
    put(home / "lectures/start.ipynb", notebook("start"))
    if with_git:
        put(home / ".gitignore", b"/work/\n")
        git(home, "init", "-q")
        git(home, "add", ".")
        git(home, "commit", "-qm", "start")

    def checked_update(limit: int = 0) -> None:
        before = below(home / "work")
        if limit:
            end = killed_after(limit)
            with (
                mock.patch.object(Path, "replace", end),
                mock.patch.object(Path, "rename", end),
                contextlib.suppress(Killed),
            ):
                update(home)
        else:
            update(home)
        after = below(home / "work")
        everything = list(after.values())
        for path, written in mine.items():
            if path == reader_copy.NEWS:
                assert written in after[path], "the reader's text is in it"
                continue
            if before.get(path) != written:
                continue  # an earlier update moved it: it is in `kept`
            if written in versions.get(path, set()):
                continue  # the reader's text equals the course's
            if edited(path, written, versions.get(path, set())):
                assert after[path] == written, "what was edited stays in its place"
            else:
                assert written in everything, "what was run is somewhere"
            if after.get(path) != written:
                kept.append(written)
        assert all(written in everything for written in kept)

    for step, *details in steps:
        path = str(details[0]) if details else ""
        if step == "course":
            put(home / path, content(path, int(details[1]), str(details[2])))
            versions.setdefault(path, set()).add((home / path).read_bytes())
        elif step == "course removes":
            (home / path).unlink(missing_ok=True)
        elif step == "commit" and with_git:
            git(home, "add", "-A")
            git(home, "commit", "-qm", "a version", "--allow-empty")
        elif step == "reader":
            mine[path] = put(
                home / "work" / path, content(path, 2 + int(details[1]), str(details[2]))
            )
        elif step == "reader runs" and path.endswith(".ipynb"):
            if (home / "work" / path).is_file():
                node = json.loads((home / "work" / path).read_bytes())
                for cell in node["cells"]:
                    cell["outputs"] = [{"output_type": "stream", "text": "ran " + str(details[1])}]
                mine[path] = put(home / "work" / path, json.dumps(node).encode())
        elif step == "reader deletes":
            (home / "work" / path).unlink(missing_ok=True)
            mine.pop(path, None)
        elif step == "update":
            checked_update()
        elif step == "killed":
            checked_update(int(details[0]))
        elif step == "record lost":
            (home / "work/.course/copied.json").unlink(missing_ok=True)
    checked_update()
    settled = below(home / "work")
    assert update(home) == Update(), "a second update has nothing to do"
    assert below(home / "work") == settled
    if with_git:
        git(home, "add", "-A")
        git(home, "commit", "-qm", "the last version", "--allow-empty")
        checked_update()
    for path in below(home / "lectures"):
        places = {path, *(path.replace("01__b/", f"01__b.course{n}/") for n in MARKS)}
        found = [place for place in places if (home / "work/lectures" / place).is_file()]
        assert found, "every file of the course has a copy"
