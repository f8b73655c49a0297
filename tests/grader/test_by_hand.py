"""Points and comments that a person gave, after the student hands in again."""

from __future__ import annotations

from pathlib import Path

import pytest
from a_class import answered, classroom, fake_grade, fake_key, pack

from grader.classroom import by_hand, gradebook, intake
from grader.classroom.classroom import Classroom
from grader.judge.grade_submission import Settings
from workbook.assignments import Assignment

pytestmark = pytest.mark.server


def hand_in(where: Classroom, toy: Assignment, code: str, text: str) -> None:
    """Hand in, and write the fake grader's result into the gradebook."""
    pack(where.inbox / "anna.zip", {"a9.ipynb": answered(toy, code, text)})
    intake.take_inbox(where, toy, where.inbox)
    place = where.submission("anna", toy.name)
    settings = Settings(secret=where.secret())
    where.store(fake_grade(place, toy.name, settings))
    key = fake_key(place, toy.name, settings)
    where.save_results_index(toy.name, {"anna": key})
    gradebook.Writer(where, toy).write("anna", key)


def grade(
    where: Classroom, toy: Assignment, cell: str, points: float | None, comment: str = ""
) -> None:
    """Write what formgrader writes when a person grades a cell."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        entry = book.find_grade(cell, "a9", toy.name, "anna")
        entry.manual_score = points
        entry.needs_manual_grade = points is None and entry.auto_score is None
        if comment:
            book.find_comment(cell, "a9", toy.name, "anna").manual_comment = comment
        book.db.commit()


def state(where: Classroom, toy: Assignment) -> tuple[float, int, list[str]]:
    """The score, how many cells are unread, and which are stale."""
    (mark,) = gradebook.marks(where, toy.name)
    stale = by_hand.stale(where, toy.name).get("anna", [])
    return mark.score, mark.by_hand, [one.cell for one in stale]


def test_what_has_not_changed_stays_read(tmp_path: Path, toy: Assignment) -> None:
    where = classroom(tmp_path)
    hand_in(where, toy, "number = 0.5", "Because.")
    assert state(where, toy) == (7.5, 1, [])
    grade(where, toy, "a9-why", 4, "Well said.")
    assert state(where, toy) == (11.5, 0, [])

    hand_in(where, toy, "number = 1", "Because.")

    assert state(where, toy) == (19, 0, [])
    (mark,) = gradebook.marks(where, toy.name)
    assert mark.comments == {"a9.why": "Well said."}


def test_a_changed_answer_is_stale_until_it_is_read(tmp_path: Path, toy: Assignment) -> None:
    where = classroom(tmp_path)
    hand_in(where, toy, "number = 1", "Because.")
    grade(where, toy, "a9-why", 4, "Well said.")

    hand_in(where, toy, "number = 1", "I do not know.")

    assert state(where, toy) == (19, 1, ["a9.why"])
    (one,) = by_hand.stale(where, toy.name)["anna"]
    assert (one.points, one.comment, one.read) == (4, "Well said.", "Because.")

    hand_in(where, toy, "number = 0.5", "I really do not know.")  # what was read stays the first
    (one,) = by_hand.stale(where, toy.name)["anna"]
    assert one.read == "Because."
    assert state(where, toy) == (11.5, 1, ["a9.why"])

    grade(where, toy, "a9-why", 1)
    assert state(where, toy) == (8.5, 0, [])
    hand_in(where, toy, "number = 1", "I really do not know.")
    assert state(where, toy) == (16, 0, [])


def test_an_answer_that_comes_back_is_read(tmp_path: Path, toy: Assignment) -> None:
    where = classroom(tmp_path)
    hand_in(where, toy, "number = 1", "Because.")
    grade(where, toy, "a9-why", 4)
    hand_in(where, toy, "number = 1", "I do not know.")
    hand_in(where, toy, "number = 1", "Because.")
    assert state(where, toy) == (19, 0, [])


def test_points_in_place_of_a_checks(tmp_path: Path, toy: Assignment) -> None:
    where = classroom(tmp_path)
    hand_in(where, toy, "number = 0", "Because.")
    grade(where, toy, "a9-first", 10)
    grade(where, toy, "a9-why", 5)
    assert state(where, toy) == (15, 0, [])

    hand_in(where, toy, "number = 0", "Another reason.")
    assert state(where, toy) == (15, 1, ["a9.why"])
    hand_in(where, toy, "number = 0.0", "Because.")
    assert state(where, toy) == (15, 1, ["a9.first"])
    (one,) = by_hand.stale(where, toy.name)["anna"]
    assert "number = 0" in one.read


def test_a_refused_one_makes_stale_what_was_given(tmp_path: Path, toy: Assignment) -> None:
    """If an instructor drops the good submission's files, no points by hand vanish silently."""
    where = classroom(tmp_path)
    hand_in(where, toy, "number = 1", "Because.")
    grade(where, toy, "a9-why", 4)
    nothing = intake.refused_result(toy, "It cannot be read.")
    where.store(nothing)
    gradebook.Writer(where, toy).write("anna", nothing.key)
    assert state(where, toy) == (4, 1, ["a9.why"])


def test_a_comment_on_code_is_stale_with_it(tmp_path: Path, toy: Assignment) -> None:
    """A cell without points: nbgrader has no mark that it must be read again."""
    from nbgrader.api import Gradebook

    where = classroom(tmp_path)
    hand_in(where, toy, "number = 1", "Because.")
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        book.find_comment("a9-number", "a9", toy.name, "anna").manual_comment = "Elegant."
        book.db.commit()
    hand_in(where, toy, "number = 0.5", "Because.")
    (one,) = by_hand.stale(where, toy.name)["anna"]
    assert (one.cell, one.comment, one.read) == ("a9.number", "Elegant.", "number = 1")
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        book.find_comment("a9-number", "a9", toy.name, "anna").manual_comment = "It was elegant."
        book.db.commit()
    assert by_hand.stale(where, toy.name) == {}
