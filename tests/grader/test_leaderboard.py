"""The leaderboard: figures of checks, aliases that students choose, and places."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from a_class import classroom
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.classroom import leaderboard
from grader.classroom.gradebook import Mark
from grader.judge.judge import Line
from grader.vocabulary import alias as aliases
from grader.vocabulary.collect import standing
from grader.vocabulary.define import Check, Probe, evaluate
from grader.vocabulary.failure import Failure
from grader.vocabulary.results import CheckResult, Graded, Standing, Verdict


@pytest.mark.parametrize(
    ("alias", "shown"),
    [
        ("Speedy_1", "Speedy_1"),
        ("  Zoë\n 9 ", "Zoë 9"),
        ("अनिता", "अनिता"),
        ("李明-2", "李明-2"),
        ("\U0001d400nna", "Anna"),  # the same letters, as NFKC has it
        ("a" * 24, "a" * 24),
        ("a" * 25, ""),
        ("a" * 10_000_000, ""),
        ("<b>", ""),
        ("a.b", ""),
        ("---", ""),
        ("\u0410nna", ""),  # the first letter is Cyrillic
        ("Anna\u3164", ""),  # letters that cannot be seen
        ("Anna\ufe0f", ""),
        ("Anna\u202e", ""),  # turns the direction of writing
        ("e" + "\u0301" * 4, ""),
        ("\u0301a", ""),
        ("\ud800", ""),
        *[(value, "") for value in ("", None, 3, ["Anna"], np.array(["a", "b"]))],
    ],
)
def test_an_alias_is_shown_or_dropped(alias: Any, shown: str) -> None:
    assert aliases.fit(alias) == shown
    assert Standing(value=1, text="×1", alias=alias).alias == shown


@settings(max_examples=200)
@given(st.text(max_size=30))
def test_any_text_makes_an_alias_that_needs_no_escape(text: str) -> None:
    found = aliases.fit(text)
    assert len(found) <= 24
    assert not set(found) & set("<>&\"'`=+@\n\t")
    assert aliases.fit(found) == found


def fast(server: Probe, alias: Any) -> None:
    """It is fast."""
    standing(1, "×1.0")
    standing(2, "×2.0", alias)


def faster(server: Probe, alias: Any) -> None:
    """It is faster."""
    standing(3, "×3.0", alias)
    raise Failure("Not fast enough.", credit=0.5)


def slow(server: Probe) -> None:
    """It is not slow."""
    standing(0.5, "×0.5")
    raise Failure("It is slow.")


def passes(server: Probe) -> None:
    """It works."""


def no_number(server: Probe, alias: Any) -> None:
    standing(float("nan"), "×nan")


@pytest.mark.parametrize(
    ("functions", "status", "figure"),
    [
        ((fast,), "passed", "×2.0"),
        ((fast, passes), "passed", "×2.0"),
        ((fast, faster), "partial", "×3.0"),
        ((faster, passes), "partial", "×3.0"),
        ((fast, faster, slow), "failed", ""),  # what earns nothing has no place
        ((no_number,), "error", ""),
    ],
)
def test_the_figure_is_a_part_of_the_checks_result(
    functions: tuple[Callable[..., None], ...], status: str, figure: str
) -> None:
    probe: Any = None  # none of these functions asks a server
    check = dataclasses.replace(Check("a9.fast", functions[0]), variants=functions[1:])
    result = evaluate(check, lambda: probe, {"alias": "Speedy"}, {})
    line = Line.model_validate_json(Line(kind="check", check=result).model_dump_json())
    assert line.check == result
    assert result.status == status
    assert (result.standing.text if result.standing else "") == figure
    assert result.standing is None or result.standing.alias == "Speedy"


@pytest.mark.parametrize(("alias", "is_noted"), [("<b>", True), (np.zeros(2), True), (" ", False)])
def test_an_alias_that_does_not_fit_costs_no_points(alias: Any, is_noted: bool) -> None:
    probe: Any = None
    result = evaluate(Check("a9.fast", fast), lambda: probe, {"alias": alias}, {})
    assert result.credit == 1
    assert result.standing == Standing(value=2, text="×2.0")
    assert ("at most 24 letters" in result.rationale) is is_noted


PEOPLE = {
    "anna": ("Anna Maria", "Okafor-Li"),
    "bob": ("Bob", "Ruiz"),
    "cy": ("Cy", "Ruíz"),
    "dee": ("D.", "Möller"),
    "eve_9": (),
}


def shown(**wanted: str) -> dict[str, str]:
    """The names that the class reads, of students with these aliases, the best first."""
    standings = {
        who: Standing(value=9 - n, text=f"×{9 - n}", alias=alias)
        for n, (who, alias) in enumerate(wanted.items())
    }
    return {entry.student: entry.name for entry in leaderboard.rank(standings, PEOPLE)}


def test_nobody_takes_a_name_an_id_or_an_alias_of_another() -> None:
    assert shown(bob="Speedy", anna="", cy="D 2") == {"bob": "Speedy", "anna": "", "cy": "D 2"}
    same = {"bob": "Speedy", "cy": "SPEEDY", "anna": "spee-dy", "dee": "Speedy 2"}
    assert shown(**same) == {
        **{"bob": "Speedy (1)", "cy": "SPEEDY (2)", "anna": "spee-dy (3)", "dee": "Speedy 2"}
    }
    assert shown(bob="Eve-9", dee="eve 9", eve_9="eve_9") == {
        **{"bob": "Eve-9 (2)", "dee": "eve 9 (3)", "eve_9": "eve_9"}
    }
    assert shown(dee="EVE 9") == {"dee": "EVE 9 (2)"}
    assert shown(eve_9="eve_9") == {"eve_9": "eve_9"}  # one's own id
    for alias in ("Anna Okafor", "OkaforAnna", "Maria", "ruiz", "Rúiz Bob", "li okafor", "moller"):
        assert shown(eve_9=alias) == {"eve_9": ""}, alias
    assert shown(bob="Bob Ruiz", cy="Ruiz") == {"bob": "Bob Ruiz", "cy": "Ruiz"}  # their own
    assert shown(bob="Li-La") == {"bob": "Li-La"}


def test_equal_figures_share_a_place() -> None:
    values = {"anna": 2.04, "bob": 11.2, "cy": 2.01, "dee": 1.0}
    standings = {who: Standing(value=value, text=f"×{value:.1f}") for who, value in values.items()}
    entries = leaderboard.rank(standings, PEOPLE)
    assert [(entry.place, entry.student) for entry in entries] == [
        *((1, "bob"), (2, "anna"), (2, "cy"), (4, "dee"))
    ]


def graded(credit: float, *figures: float | None) -> Graded:
    """A result with a check for each figure."""
    checks = tuple(
        CheckResult(
            id=f"a9.{name}",
            sentence="",
            status="passed",
            credit=credit,
            standing=None if figure is None else Standing(value=figure, text=f"×{figure}"),
        )
        for name, figure in zip(("first", "second"), figures, strict=False)
    )
    verdict = Verdict(assignment="a9__toy", checks=checks)
    return Graded(key="0" * 64, assignment="a9__toy", verdict=verdict, notebook="", sandbox="none")


def test_who_is_on_it(tmp_path: Path) -> None:
    def mark(student: str, points: float, most: float = 10) -> Mark:
        return Mark(student, points, most, 0, 0, {"a9.second": (points, most)})

    where = classroom(tmp_path)
    where.home.mkdir()
    (where.home / "students.csv").write_text("id\nanna\nbob\ncy\ndee\neve\n")
    results = {
        "anna": graded(1, None, 3),
        "bob": graded(1, None, 4),
        "cy": graded(1, None, 5),  # excused, or not graded
        "dee": graded(1, None, 6),  # a person took the points away
        "eve": graded(1, 7, None),
        "gone": graded(1, None, 8),  # not in the class list
    }
    marks = {who: mark(who, 0 if who == "dee" else 5) for who in results}
    first, second = leaderboard.find(where, results, marks, {"cy"})
    assert (first.check, [entry.student for entry in first.entries]) == ("a9.first", ["eve"])
    assert (second.check, [e.student for e in second.entries]) == ("a9.second", ["bob", "anna"])
    assert not second.is_table_for_class
    assert second.of("cy") is None
    # Of a check without points, the credit decides.
    marks = {who: mark(who, 0, most=0) for who in results}
    assert [len(one.entries) for one in leaderboard.find(where, results, marks, ())] == [1, 4]
    assert leaderboard.find(where, {"anna": graded(0, 1)}, {}, ()) == []
