"""nbgrader's own tools read what the grader wrote: gradebook, autograde, export, feedback."""

from __future__ import annotations

import contextlib
import csv
import datetime
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from a_class import answered, classroom, course, fake_grade, pack

from grader.classroom import export, gradebook, intake, names, preprocessors
from grader.classroom.classroom import Classroom
from grader.judge import grade_submission
from workbook import assignments
from workbook.assignments import Assignment, cells, programs_on_path
from workbook.common.errors import WorkbookError

ROOT = Path(__file__).parents[2]
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


def write(
    home: Path, toy: Assignment, student: str, code: str, text: str = "", who: str = ""
) -> Classroom:
    """Hand in, store the fake grader's result under the real key, and write it to the gradebook.

    `who` is the student's id if it differs from the entry's name.
    """
    where = classroom(home)
    pack(where.inbox / f"{student}.zip", {"a9.ipynb": answered(toy, code, text), "extra.txt": "x"})
    intake.take_inbox(where, toy, where.inbox)
    student = who or student
    place = where.submission(student, toy.name)
    settings = grade_submission.Settings(secret=where.secret())
    key = grade_submission.key(place, toy.name, settings)
    where.store(fake_grade(place, toy.name, settings).model_copy(update={"key": key}))
    where.save_results_index(toy.name, {**where.results_index(toy.name), student: key})
    gradebook.Writer(where, toy).write(student, key)
    return where


def nbgrader(
    where: Classroom, toy: Assignment, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run nbgrader's command line in the folder with its configuration."""
    environment = {**os.environ, "WORKBOOK_HOME": str(toy.home), "GRADER_WORK": str(where.home)}
    with programs_on_path():
        environment["PATH"] = os.environ["PATH"]
    return subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=ROOT / "grader",
        env=environment,
        text=True,
        capture_output=True,
        timeout=250,
        check=False,
    )


def autograded(where: Classroom, student: str) -> Any:
    return nbformat.read(where.autograded / student / "a9__toy" / "a9.ipynb", as_version=4)


def cell(notebook: Any, id: str) -> Any:
    (found,) = (c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == id)
    return found


@pytest.mark.server
def test_points_are_credit_times_points(tmp_path: Path, toy: Assignment) -> None:
    where = write(tmp_path, toy, "half", "number = 0.5", text="I think so.")
    write(tmp_path, toy, "none", "number = ...")
    write(tmp_path, toy, "full", "number = 1")

    marks = {mark.student: mark for mark in gradebook.marks(where, toy.name)}

    assert {who: mark.score for who, mark in marks.items()} == {"half": 7.5, "none": 0, "full": 15}
    assert marks["half"].parts == {"a9.first": (5, 10), "a9.second": (2.5, 5), "a9.why": (0, 5)}
    # A written answer waits for a person; an unchanged one does not.
    assert {who: mark.by_hand for who, mark in marks.items()} == {"half": 1, "none": 0, "full": 0}
    assert marks["half"].most == 20
    assert gradebook.written_keys(where, toy.name) == where.results_index(toy.name)


@pytest.mark.server
@pytest.mark.quick
def test_each_check_cell_shows_the_judges_panel_and_the_score(
    tmp_path: Path, toy: Assignment
) -> None:
    where = write(tmp_path, toy, "anna", "number = 0.5")

    outputs = cell(autograded(where, "anna"), "a9-first").outputs

    assert [output.output_type for output in outputs] == ["display_data", "execute_result"]
    assert "in part: 5 of 10 points" in outputs[0].data["text/html"]
    assert "in part: 5 of 10 points" in outputs[0].data["text/plain"]
    assert outputs[1].data["text/plain"] == "5.0"


@pytest.mark.server
def test_what_a_person_gave_stays_when_points_or_the_work_change(tmp_path: Path) -> None:
    """As docs/writing_an_assignment.md says of the points of a released assignment."""
    from nbgrader.api import Gradebook

    a9 = course(tmp_path / "course")
    (tmp_path / "course" / "requirements.txt").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBOOK_HOME", str(a9.home))
        where = write(tmp_path, a9, "anna", "number = 0.5", text="I saw it.")
        with Gradebook(f"sqlite:///{where.gradebook}") as book:
            entry = book.find_grade("a9-why", "a9", a9.name, "anna")
            entry.manual_score, entry.needs_manual_grade = 4, False
            book.db.commit()
        a9.source.write_text(a9.source.read_text().replace("points=10", "points=8"))
        assignments.build(a9)
        write(tmp_path, a9, "anna", "number = 1", text="I saw it.")
    (mark,) = gradebook.marks(where, a9.name)
    assert mark.parts == {"a9.first": (8, 8), "a9.second": (5, 5), "a9.why": (4, 5)}
    assert mark.by_hand == 0  # what the person read has not changed; see test_by_hand.py


@pytest.mark.server
def test_a_new_gradebook_is_as_nbgrader_makes_it(tmp_path: Path, toy: Assignment) -> None:
    from nbgrader.api import Gradebook

    classroom(tmp_path).home.mkdir()
    (classroom(tmp_path).home / "gradebook.new").write_text("left by a run that was killed")

    where = write(tmp_path, toy, "anna", "number = 1")
    with programs_on_path(), Gradebook(f"sqlite:///{tmp_path / 'theirs.db'}"):
        pass

    assert tables(where.gradebook) == tables(tmp_path / "theirs.db")
    assert sorted(path.name for path in where.home.glob("gradebook*")) == ["gradebook.db"]
    done = nbgrader(where, toy, "db", "upgrade")
    assert done.returncode == 0, done.stderr
    assert gradebook.marks(where, toy.name)[0].score == 15


def tables(path: Path) -> tuple[dict[str, set[tuple[Any, ...]]], list[tuple[str]]]:
    """The columns of each of a database's tables, and the version that it is marked with."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        columns = {
            name: {row[1:4] for row in database.execute(f"PRAGMA table_info({name})")}
            for (name,) in names
        }
        return columns, database.execute("SELECT version_num FROM alembic_version").fetchall()


@pytest.mark.server
def test_late_penalties_and_time_stamps_are_nbgraders(tmp_path: Path, toy: Assignment) -> None:
    from nbgrader.api import Gradebook

    where = write(tmp_path, toy, "anna", "number = 1")
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        book.update_or_create_assignment(toy.name, duedate="2026-11-20 10:00:00 UTC")
    stamp = where.submission("anna", toy.name) / "timestamp.txt"
    stamp.write_text("2026-11-20 12:00:00 UTC")
    assert gradebook.written_keys(where, toy.name) == {}  # the new time is not in the gradebook yet

    gradebook.Writer(where, toy).write("anna", where.results_index(toy.name)["anna"])

    (mark,) = gradebook.marks(where, toy.name)
    assert mark.submitted == datetime.datetime(2026, 11, 20, 12)
    assert mark.due == datetime.datetime(2026, 11, 20, 10)
    assert gradebook.written_keys(where, toy.name) == where.results_index(toy.name)


@pytest.mark.server
def test_nbgraders_command_line_gives_the_same_marks(tmp_path: Path, toy: Assignment) -> None:
    where = write(tmp_path, toy, "anna", "number = 0.5", text="Because.")
    write(tmp_path, toy, "bob", "number = 1")
    (where.inbox / "eve.zip").write_text("no zip")
    intake.take_inbox(where, toy, where.inbox)
    before = {mark.student: mark.parts for mark in gradebook.marks(where, toy.name)}
    theirs = where.autograded / "anna" / toy.name / "extra.txt"
    assert theirs.read_text() == "x"

    done = nbgrader(where, toy, "autograde", toy.name, "--force")

    assert done.returncode == 0, done.stderr
    after = {mark.student: mark.parts for mark in gradebook.marks(where, toy.name)}
    eve = {"a9.first": (0, 10), "a9.second": (0, 5), "a9.why": (0, 5)}
    assert after == {**before, "eve": eve}
    names = {path.name for path in (where.autograded / "anna" / toy.name).iterdir()}
    assert names == {"a9.ipynb", "extra.txt"}  # a9.py, the source, is not among them

    table = tmp_path / "grades.csv"
    done = nbgrader(where, toy, "export", f"--to={table}")
    assert done.returncode == 0, done.stderr
    assert table.read_text() == export.table(where, toy, "nbgrader").text
    with table.open() as file:
        rows = {row["student_id"]: row["score"] for row in csv.DictReader(file)}
    assert rows == {"anna": "7.5", "bob": "15.0", "eve": ""}  # what cannot be read has no mark

    done = nbgrader(where, toy, "export", f"--to={table}", '--student=["bob"]')
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[3] for line in table.read_text().splitlines()] == ["student_id", "bob"]

    done = nbgrader(where, toy, "generate_feedback", toy.name)
    assert done.returncode == 0, done.stderr
    page = (where.feedback / "anna" / toy.name / "a9.html").read_text()
    assert "in part: 5 of 10 points" in page


@pytest.mark.server
def test_the_class_list_gives_names_to_the_gradebook(tmp_path: Path, toy: Assignment) -> None:
    from nbgrader.api import Gradebook

    where = write(tmp_path, toy, "anna", "number = 1")
    gradebook.name_students(where)  # there is no class list: nothing to do
    people = where.home / "students.csv"
    people.write_text("id,name,email\nanna,Anna Okafor,a@x.org\nzoe,Zoë Zet,\n")
    gradebook.name_students(where)
    people.write_text("id,name,email\nanna,Anna Achebe,a@x.org\nzoe,Zoë Zet,\n")
    gradebook.name_students(where)
    before = where.gradebook.read_bytes()
    gradebook.name_students(where)
    assert where.gradebook.read_bytes() == before
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        found = {s.id: (s.first_name, s.last_name, s.email) for s in book.students}
    assert found == {"anna": ("Anna", "Achebe", "a@x.org"), "zoe": ("Zoë", "Zet", None)}
    assert gradebook.marks(where, toy.name)[0].score == 15

    table = tmp_path / "grades.csv"
    done = nbgrader(where, toy, "export", f"--to={table}")
    assert done.returncode == 0, done.stderr
    with table.open() as file:
        assert {row["student_id"]: row["score"] for row in csv.DictReader(file)} == {
            **{"anna": "15.0", "zoe": "0.0"}
        }

    held = sqlite3.connect(where.gradebook, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    people.write_text("id,name\nanna,Other\n")
    with pytest.raises(WorkbookError, match="could not be written"):
        gradebook.name_students(where)
    held.close()


@pytest.mark.server
def test_without_a_class_list_moodles_entries_give_names(tmp_path: Path, toy: Assignment) -> None:
    where = write(tmp_path, toy, "Cy Li_77_assignsubmission_file_a9", "number = 1", who="Cy_Li_77")
    (mark,) = gradebook.marks(where, toy.name)
    assert (mark.first_name, mark.last_name, mark.number) == ("Cy", "Li", "77")


@pytest.mark.server
def test_the_rubric_stands_below_the_answer_for_whoever_reads_it(
    tmp_path: Path, toy: Assignment
) -> None:
    source = toy.source.read_text()
    toy.source.write_text(
        source.replace(
            "# Because.\n",
            "# Because.\n#\n# **Rubric** (5 points)\n#\n# | points | for |\n# |---|---|\n"
            "# | 5 | a reason |\n",
        )
    )
    try:
        assignments.build(toy)
        where = write(tmp_path, toy, "anna", "number = 1", text="I think so.")
    finally:
        toy.source.write_text(source)
        assignments.build(toy)
    cells = autograded(where, "anna").cells
    place = cells.index(cell(autograded(where, "anna"), "a9-why"))
    assert cells[place].source == "I think so."
    assert cells[place + 1].source.startswith("**Rubric** (5 points)")
    assert "Because" not in json.dumps(cells)
    (mark,) = gradebook.marks(where, toy.name)
    assert (mark.by_hand, mark.unread) == (1, {"a9.why"})


ATTACK = "<script>alert(1)</script>"
OUTPUTS: list[dict[str, Any]] = [
    {"output_type": "display_data", "data": {"text/html": ATTACK}, "metadata": {}},
    {"output_type": "display_data", "data": {"application/javascript": "alert(1)"}, "metadata": {}},
    {"output_type": "display_data", "data": {"image/svg+xml": f"<svg>{ATTACK}</svg>"}},
    {"output_type": "display_data", "data": {"image/png": f'"><b>{ATTACK}'}, "metadata": {}},
    {"output_type": "display_data", "data": {"image/png": PIXEL}, "metadata": {"x": ATTACK}},
    {"output_type": "stream", "name": f'x"><b>{ATTACK}', "text": "hello\n"},
    {"output_type": "error", "ename": "E", "evalue": "no", "traceback": [ATTACK]},
    {"output_type": "execute_result", "data": {"text/plain": "100"}, "execution_count": ATTACK},
    {"output_type": "stream", "name": "stdout", "text": "z" * 100_000},
]
#: Control characters of terminals, and a mark that reverses the direction of writing.
OBEYED = "\x1b[31mred\x1b[0m \x07\x9b2J \u202eback"


@pytest.mark.server
def test_nothing_of_a_submission_runs_in_the_instructors_browser(
    tmp_path: Path, toy: Assignment
) -> None:
    text = f'{ATTACK} <img src=x onerror=alert(1)> [a](javascript:alert(1)) <a href="data:x">b</a>'
    code = f"outputs = {OUTPUTS!r}\nnumber = 0  # {ATTACK}"
    where = write(tmp_path, toy, "eve", code, text=text)

    notebook = autograded(where, "eve")
    kept = cell(notebook, "a9-number").outputs
    done = nbgrader(where, toy, "generate_feedback", toy.name)

    assert done.returncode == 0, done.stderr
    assert {tuple(output.get("data", {})) for output in kept} == {(), ("image/png",)}
    assert [output.text for output in kept if "text" in output][:3] == ["hello\n", "E: no", "100"]
    assert sum(len(output.get("text", "")) for output in kept) < 30_000
    assert sum(m.score for m in gradebook.marks(where, toy.name)) == 0  # 100 was only printed
    page = (where.feedback / "eve" / toy.name / "a9.html").read_text()
    body = page[page.index("<body") :]
    assert "&lt;script&gt;alert(1)" in body
    assert "<script>alert(1)" not in body
    assert "onerror=alert" not in body.replace("&lt;img src=x onerror=alert(1)&gt;", "").replace(
        '&lt;img src="x" onerror="alert(1)"&gt;', ""
    )
    assert 'href="javascript' not in body
    assert 'href="data:' not in body
    assert f"data:image/png;base64,{PIXEL}" in body


def test_no_control_character_reaches_formgrader() -> None:
    cells = [
        nbformat.v4.new_code_cell(
            f"print({OBEYED!r})  # {OBEYED}",
            outputs=[nbformat.v4.new_output("stream", text=OBEYED)],
        ),
        nbformat.v4.new_markdown_cell(OBEYED),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    preprocessors.harmless(notebook)
    assert notebook.cells[0].outputs[0].text == "red \ufffd\ufffd2J \ufffdback"
    text = "".join([*(cell.source for cell in notebook.cells), notebook.cells[0].outputs[0].text])
    assert names.shown(text) == text


def test_metadata_that_a_template_would_print_is_left_behind() -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("1", execution_count=1)],
        metadata={"title": ATTACK, "widgets": {ATTACK: {}}, "language_info": {"name": ATTACK}},
    )
    notebook.cells[0].update(id=ATTACK, execution_count=ATTACK, metadata={"name": ATTACK})
    preprocessors.harmless(notebook)
    assert ATTACK not in json.dumps(notebook)
    nbformat.validate(notebook)


def test_instructors_files_never_replace_a_students(toy: Assignment, tmp_path: Path) -> None:
    excluded = gradebook.config(classroom(tmp_path)).Autograde.exclude_overwriting
    assert set(excluded["a9__toy"]) == {"a9.py", "a9.ipynb", "checks.py"}


@pytest.mark.server
def test_a_gradebook_in_use_is_said_and_written_later(tmp_path: Path, toy: Assignment) -> None:
    where = write(tmp_path, toy, "anna", "number = 0.5")
    held = sqlite3.connect(where.gradebook, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    # The message names what fails first: the assignment is written before the students.
    with pytest.raises(WorkbookError, match=f"could not write (anna|{toy.name})") as raised:
        gradebook.Writer(where, toy).write("anna", where.results_index(toy.name)["anna"])
    assert "Close what else has it open" in raised.value.todo
    held.execute("ROLLBACK")
    held.close()
    gradebook.Writer(where, toy).write("anna", where.results_index(toy.name)["anna"])
    assert gradebook.marks(where, toy.name)[0].score == 7.5


@pytest.mark.server
def test_a_check_may_get_another_id_after_submissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nbgrader alone refuses that. What a person gave for other cells stays, or nothing happens."""
    from nbgrader.api import Gradebook

    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    toy = course(tmp_path)
    first = answered(toy, "number = 1", "Because of it.")

    def written(*ids: str) -> Classroom:
        where = classroom(tmp_path)
        pack(where.inbox / "anna.zip", {"a9.ipynb": first})
        intake.take_inbox(where, toy, where.inbox)
        settings = grade_submission.Settings(secret=where.secret())
        place = where.submission("anna", toy.name)
        found = fake_grade(place, toy.name, settings)
        checks = zip(found.verdict.checks, ids, strict=True)
        checks = tuple(check.model_copy(update={"id": id}) for check, id in checks)
        restored = cells.restore(json.loads(first), cells.read(toy.release))
        key = grade_submission.key(place, toy.name, settings)
        verdict = found.verdict.model_copy(update={"checks": checks})
        notebook = nbformat.writes(restored)
        where.store(found.model_copy(update={"key": key, "verdict": verdict, "notebook": notebook}))
        gradebook.check_cells(where, toy)
        gradebook.Writer(where, toy).write("anna", key)
        return where

    def renamed(old: str, new: str) -> None:
        for path in (toy.source, toy.source.with_name("checks.py")):
            path.write_text(path.read_text().replace(old, new))
        assignments.build(toy)

    where = written("a9.first", "a9.second")
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        book.find_grade("a9-why", "a9", toy.name, "anna").manual_score = 4
        book.db.commit()
    renamed("a9.first", "a9.opening")
    (mark,) = gradebook.marks(written("a9.opening", "a9.second"), toy.name)
    assert mark.parts == {"a9.opening": (10, 10), "a9.second": (5, 5), "a9.why": (4, 5)}
    assert (mark.score, mark.most) == (19, 20)
    (finding,) = cells.compare(json.loads(first), cells.read(toy.release))
    assert (finding.kind, finding.cell) == ("other version", "")
    assert "New since then: a9.opening. No longer part of it: a9.first." in finding.sentence

    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        book.find_grade("a9-opening", "a9", toy.name, "anna").manual_score = 9
        book.db.commit()
    renamed("a9.opening", "a9.start")
    with pytest.raises(WorkbookError, match=r"a9.opening is no longer a cell .* for it: anna"):
        written("a9.start", "a9.second")
    (mark,) = gradebook.marks(where, toy.name)
    assert mark.score == 18
