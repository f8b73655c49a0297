"""One table over all assignments: weights, the best n, and who is excused or not graded."""

from __future__ import annotations

import csv
import io
import itertools

import pytest
from a_class import classroom
from hypothesis import given
from hypothesis import strategies as st

from grader.classroom import export_rows, grade_rules, totals, which_assignments
from grader.classroom.classroom import Classroom
from grader.classroom.export_rows import Row
from grader.classroom.gradebook import Mark
from grader.classroom.totals import Part
from grader.classroom.ungraded import Ungraded
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

SHARES = st.integers(0, 20).map(lambda n: n / 20)
PARTS = st.builds(Part, st.just("a"), st.integers(1, 9).map(float), SHARES, st.just(0.0))


@given(st.lists(PARTS, min_size=1, max_size=7), st.integers(1, 7))
def test_the_best_are_the_best_of_all_choices(parts: list[Part], count: int) -> None:
    parts = [Part(f"a{n}", one.weight, one.share, one.before) for n, one in enumerate(parts)]
    count = min(count, len(parts))
    kept = totals.best(parts, count)
    best = max(totals._mean(choice) for choice in itertools.combinations(parts, count))
    assert len(kept) == count
    assert totals._mean(kept) == pytest.approx(best)


def mark(student: str, score: float, penalty: float = 0, by_hand: int = 0) -> Mark:
    return Mark(student, score, 20, penalty, by_hand, {})


@pytest.fixture
def where(
    tmp_path_factory: pytest.TempPathFactory, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> Classroom:
    """A class with three assignments of 20 points; each is the toy under another name."""
    made = classroom(tmp_path_factory.mktemp("room"))
    made.home.mkdir()
    failed = Ungraded("The judge ended.", "Again.", "Later.")
    scores = {
        "a1": {
            "anna": Row("anna", "Anna", last_name="=O", mark=mark("anna", 20, 10)),
            "bob": Row("bob", "Bob", mark=mark("bob", 10)),
            "cy": Row("cy", "Cy", mark=mark("cy", 0), ungraded=failed),
        },
        "a2": {
            "anna": Row("anna", "Anna", mark=mark("anna", 10, by_hand=1)),
            "bob": Row("bob", "Bob"),
            "cy": Row("cy", "Cy", mark=mark("cy", 20)),
        },
        "a3": {
            "anna": Row("anna", "Anna", mark=mark("anna", 0), excused=True),
            "bob": Row("bob", "Bob", mark=mark("bob", 20)),
            "cy": Row("cy", "Cy", mark=mark("cy", 20)),
        },
    }

    class Named(Assignment):
        checks = toy.checks
        written = toy.written

    monkeypatch.setattr(
        which_assignments,
        "graded",
        lambda *_: [Named(f"{name}__x", toy.home) for name in scores],
    )
    monkeypatch.setattr(grade_rules, "_check_names", lambda *_: None)
    monkeypatch.setattr(export_rows, "rows", lambda _, which: scores[which.short])
    return made


def read(where: Classroom, rules: str = "") -> dict[str, dict[str, str]]:
    grade_rules.path(where).write_text(rules)
    made = totals.table(where)
    return {row["student_id"]: row for row in csv.DictReader(io.StringIO(made.text))}


def test_without_rules_each_assignment_counts_by_its_points(where: Classroom) -> None:
    rows = read(where)
    assert (rows["anna"]["percent"], rows["anna"]["percent_before_penalties"]) == ("50.0", "75.0")
    assert (rows["anna"]["a1"], rows["anna"]["a1_penalty"], rows["anna"]["a3"]) == (
        *("10", "10"),
        "",
    )
    assert rows["anna"]["status"] == "a2: 1 written answer to be read; a3: excused"
    assert rows["anna"]["last_name"] == "'=O"
    assert (rows["bob"]["percent"], rows["bob"]["status"]) == ("50.0", "a2: no submission")
    assert (rows["cy"]["percent"], rows["cy"]["counted"]) == ("", "")
    assert rows["cy"]["status"] == "a1: not graded: The judge ended."
    notes = totals.table(where).notes
    assert "a1: Handed in, but not graded: cy." in notes[0]


def test_weights_drops_and_the_best(where: Classroom) -> None:
    rows = read(where, "[weights]\na1 = 1\na3 = 3\n")
    assert (rows["bob"]["percent"], rows["bob"]["counted"]) == ("87.5", "a1 a3")
    assert (rows["anna"]["percent"], rows["anna"]["counted"]) == ("50.0", "a1")
    assert "not counted: a2" in totals.table(where).notes[-1]
    rows = read(where, "drop_lowest = 1\n")
    assert (rows["bob"]["percent"], rows["bob"]["counted"]) == ("75.0", "a1 a3")
    rows = read(where, "best = 1\n")
    assert (rows["bob"]["percent"], rows["bob"]["counted"]) == ("100.0", "a3")
    assert (rows["anna"]["percent"], rows["anna"]["counted"]) == ("50.0", "a1")
    rows = read(where, "drop_lowest = 9\n")  # one counts always
    assert (rows["bob"]["percent"], rows["bob"]["counted"]) == ("100.0", "a3")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("best = 0", "best: "),
        ("best = 1\ndrop_lowest = 1", "choose one of drop_lowest and best"),
        ("[weights]\na1 = -1", "the weight of a1"),
        ("[weights]\na1 = nan", "the weight of a1"),
        ("[weights]\na77 = 1", "There is no assignment a77"),
        ("[excused]\na9 = 'anna'", "excused.a9"),
        ("weight = 1", "there is no such key"),
        ("best = ", "Invalid value"),
        ("\udcff", "can't decode"),
    ],
)
def test_a_wrong_file_is_said(
    tmp_path_factory: pytest.TempPathFactory, toy: Assignment, text: str, why: str
) -> None:
    made = classroom(tmp_path_factory.mktemp("room"))
    made.home.mkdir()
    grade_rules.path(made).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(WorkbookError, match=why) as raised:
        grade_rules.read(made)
    assert raised.value.where.endswith("grades.toml")
