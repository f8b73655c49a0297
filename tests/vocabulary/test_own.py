"""A student's own data: the same for the same id, and a flag if it belongs to another student."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.classroom.classroom import Classroom
from grader.vocabulary import own
from grader.vocabulary.failure import Failure
from grader.vocabulary.results import CheckResult, Graded, Verdict


def test_the_same_id_draws_the_same() -> None:
    one = own.generator(" Anna ", "a2.rows").random(4).tolist()
    assert own.generator("anna", "a2.rows").random(4).tolist() == one
    assert own.generator("berta", "a2.rows").random(4).tolist() != one
    assert own.generator("anna", "a3.rows").random(4).tolist() != one


@given(st.one_of(st.text(max_size=300), st.none(), st.integers(), st.lists(st.text())))
def test_any_value_is_an_id_or_is_refused_in_words(me: Any) -> None:
    try:
        name = own.name(me)
    except Failure as failure:
        assert failure.help.startswith("Write your id")  # noqa: PT017
        assert own.find_id({"me": me}) == ""
    else:
        assert own.find_id({"me": me}) == name
        own.generator(me, "a2.rows").random()


def test_no_id_among_the_values() -> None:
    assert own.find_id({"model": "forest"}) == ""


@pytest.mark.parametrize(
    ("me", "others", "flagged"),
    [
        ((), 1, False),
        (("anna",), 1, False),
        (("self-study",), 0, False),
        (("self-study",), 1, True),  # who leaves it shares data and numbers with all who do
        (("berta", "anna"), 1, True),
    ],
)
def test_the_data_of_another_student_are_flagged(
    tmp_path: Path, me: tuple[str, ...], others: int, flagged: bool
) -> None:
    """It is no part of the stored result, since the same files may come from two students."""
    check = CheckResult(id="a2.forest", sentence="It is.", status="passed", credit=1)
    verdict = Verdict(assignment="a2__forest", checks=(check,), me=me)
    graded = Graded(
        key="k", assignment="a2__forest", verdict=verdict, notebook="{}", sandbox="none"
    )
    classroom = Classroom(tmp_path)
    classroom.store(graded)
    names = ["Anna", "Berta"][: 1 + others]
    classroom.save_results_index("a2__forest", dict.fromkeys(names, "k"))
    flags = classroom.results("a2__forest")["Anna"].verdict.flags
    assert [flag.kind for flag in flags] == ["another's data"] * flagged
    assert all(f'me = "{me[0]}",' in flag.detail for flag in flags)
    assert classroom.find("a2__forest", "k") == graded
