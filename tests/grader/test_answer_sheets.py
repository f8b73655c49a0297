"""Several people grade written answers in tables, without names, by the rubric's items."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from a_class import answered, classroom, course, fake_grade, fake_key, pack
from typer.testing import CliRunner

from grader.classroom import answer_sheets, gradebook, intake
from grader.classroom.classroom import Classroom
from grader.cli import app
from grader.judge.grade_submission import Settings
from grader.pages import feedback
from workbook import assignments
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

RUBRIC = """\
#
# **Rubric** (5 points)
#
# | points | for |
# |---|---|
# | 3 | =a reason |
# | 2 | a figure |
"""
TEXTS = {"anna": "Because\n=1+1", "bob": "It is 7.", "cy": "", "dora": "I do not know."}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assignment]:
    """The small assignment with a rubric."""
    home = tmp_path_factory.mktemp("course")
    (home / "requirements.txt").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBOOK_HOME", str(home))
        made = course(home)
        source = made.source.read_text()
        made.source.write_text(source.replace("# Because.\n", f"# Because.\n{RUBRIC}"))
        assignments.build(made)
        yield made


def hand_in(where: Classroom, toy: Assignment, student: str, text: str) -> None:
    """Hand in, and write the fake grader's result into the gradebook."""
    pack(where.inbox / f"{student}.zip", {"a9.ipynb": answered(toy, "number = 1", text)})
    intake.take_inbox(where, toy, where.inbox)
    place, settings = where.submission(student, toy.name), Settings(secret=where.secret())
    where.store(fake_grade(place, toy.name, settings))
    key = fake_key(place, toy.name, settings)
    where.save_results_index(toy.name, {**where.results_index(toy.name), student: key})
    gradebook.Writer(where, toy).write(student, key)


def fill_in(file: Path, marks: dict[str, dict[str, str]], delimiter: str = ",") -> list[str]:
    """Fill in a table, as a spreadsheet saves it: by the beginning of the text. Gives its texts."""
    rows = list(csv.DictReader(io.StringIO(file.read_text("utf-8-sig"), newline="")))
    for row in rows:
        for begin, values in marks.items():
            if row["text"].startswith(begin):
                row.update({title: values.get(title, "") for title in values})
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    file.write_text("\ufeff" + out.getvalue(), "utf-8", newline="")
    return [row["text"] for row in rows]


def points(where: Classroom, toy: Assignment) -> dict[str, tuple[float, bool]]:
    """The points of each student's answer, and whether it is read."""
    return {
        mark.student: (mark.parts["a9.why"][0], "a9.why" not in mark.unread)
        for mark in gradebook.marks(where, toy.name)
    }


@pytest.mark.server
def test_shares_are_read_without_names_and_the_rubric_may_change(
    tmp_path: Path, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = classroom(tmp_path)
    monkeypatch.setenv("GRADER_WORK", str(where.home))
    for student, text in TEXTS.items():
        hand_in(where, toy, student, text)

    def grader(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["answers", "a9", *arguments])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    grader("--reader", "ann", "--reader", "bea")
    files = [where.report / "answers" / f"a9.why.{who}.csv" for who in ("ann", "bea")]
    everything = "".join(file.read_text() for file in files)
    assert not any(student in everything for student in TEXTS)
    marks = {
        "Because": {"3: =a reason": "x", "comment": "Good."},
        "It is 7": {"2: a figure": "X", "other points": "-0,5"},
        "I do": {"other points": "0"},
    }
    shares = [fill_in(file, marks, ";") for file in files]
    assert sorted(map(len, shares)) == [1, 2]
    assert "Because\n'=1+1" in [*shares[0], *shares[1]]
    assert "ann: " in grader("--take", str(files[0]), "--take", str(files[1]))
    assert points(where, toy) == {
        **{"anna": (3, True), "bob": (1.5, True), "cy": (0, True), "dora": (0, True)}
    }
    comments = {mark.student: mark.comments for mark in gradebook.marks(where, toy.name)}
    assert comments["anna"] == {"a9.why": "Good."}

    feedback.write_feedback(where, toy)
    page = (where.feedback / "anna" / f"{toy.name}.html").read_text()
    assert "<td>=a reason</td><td>✓</td>" in page
    assert "<td>a figure</td><td></td>" in page

    # No table is replaced that holds marks which were not taken, and no comment is lost.
    grader("--reader", "ann", "--reader", "bea")
    fill_in(files[0], {shares[0][0]: {"other points": "1"}})
    with pytest.raises(WorkbookError, match="marks that were not taken: 1"):
        answer_sheets.write_sheets(where, toy, ["ann", "bea"])
    empty = dict.fromkeys(("3: =a reason", "2: a figure", "other points"), "")
    fill_in(files[0], {shares[0][0]: {**empty, "comment": "Why?"}})
    with pytest.raises(WorkbookError, match="has a comment and no points"):
        answer_sheets.take(where, toy, files)

    new = where.report / "answers" / "a9.why.all.csv"
    # What was given stands in new tables. A student's new text has another number.
    old = where.report / "old" / "a9.why.all.csv"
    grader()
    old.parent.mkdir()
    old.write_bytes(new.read_bytes())
    assert fill_in(new, {}) == fill_in(old, {})
    hand_in(where, toy, "dora", "I know now.")
    assert "is not there any more" in grader("--take", str(old))
    assert points(where, toy)["dora"] == (0, False)

    # An item gets other points: earlier marks follow, except those that a person has changed.
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        book.find_grade("a9-why", "a9", toy.name, "bob").manual_score = 5
        book.db.commit()
    source = toy.source.read_text()
    toy.source.write_text(source.replace("| 3 |", "| 4 |").replace("| 2 |", "| 1 |"))
    assignments.build(toy)
    text = grader()
    assert "anna, a9.why: 3 points are 4 now." in text
    assert "bob, a9.why: a person has changed the points" in text
    assert {who: found[0] for who, found in points(where, toy).items()} == {
        **{"anna": 4, "bob": 5, "cy": 0, "dora": 0}
    }
    with pytest.raises(WorkbookError, match="it has no column"):
        answer_sheets.take(where, toy, [_without_a_column(old)])
    fill_in(new, {"Because": {"4: =a reason": "yes"}})
    with pytest.raises(WorkbookError, match="'yes' is no mark"):
        answer_sheets.take(where, toy, [new])
    fill_in(new, {"Because": {"4: =a reason": "", "other points": "9" * 400}})
    with pytest.raises(WorkbookError, match="is no mark"):
        answer_sheets.take(where, toy, [new])
    new.write_bytes(new.read_text("utf-8").replace("other", "öther").encode("latin-1", "replace"))
    with pytest.raises(WorkbookError, match="it is no UTF-8") as raised:
        answer_sheets.take(where, toy, [new])
    assert "CSV UTF-8" in raised.value.todo
    assert points(where, toy)["anna"] == (4, True)


def _without_a_column(file: Path) -> Path:
    file.write_text(file.read_text().replace("a figure", "another"))
    return file
