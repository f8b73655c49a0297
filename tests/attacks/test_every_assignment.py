"""Attacks on every assignment gain nothing when they are graded as in a class.

The attacks in everywhere.py need no knowledge of an assignment. Each of them is tried on one
assignment, and each assignment gets several. The attacks in an assignment's own file attacks.py are
all tried on it, some of them two in one submission (`Attack.beside`). test_class.py tries the
attacks on a2, in a class whose grading is also killed and continued.

`make test` tries the attacks in everywhere.py on the assignments that need no vLLM.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.classroom.autograde import autograde
from grader.classroom.classroom import Classroom
from grader.judge.grade_submission import Settings
from grader.vocabulary.define import load
from grader.vocabulary.results import Graded
from tests.assignment_runs import alone
from tests.attacks import everywhere
from tests.attacks import submissions as s
from tests.attacks.attack import Attack, make, outputs, together
from tests.hidden_texts import assert_tells_nothing
from workbook import assignments
from workbook.assignments import Assignment

pytestmark = [pytest.mark.server, pytest.mark.timeout(1_800)]
SETTINGS = Settings(secret="x", wall_s=240, cell_s=60)
#: One cell of its solution starts vLLM.
SLOW = {"a6__llm": Settings(secret="x", wall_s=480, cell_s=150)}
#: Assignments whose checks measure for a minute get their own attacks only, and as much time.
SLOW |= {one.name: SLOW["a6__llm"] for one in assignments.find() if alone(one)}


def attacks(assignment: Assignment) -> list[Attack]:
    """The attacks on an assignment: its share of the attacks in everywhere.py, and its own."""
    names = [one.name for one in assignments.find() if not alone(one)]
    dealt = []
    if assignment.name in names:
        dealt += everywhere.ATTACKS[names.index(assignment.name) :: len(names)]
    if assignment.name == s.ASSIGNMENT or not (assignment.folder / "attacks.py").is_file():
        return dealt
    module = importlib.import_module(f"grader.assignments.{assignment.name}.attacks")
    return [*dealt, *module.ATTACKS]


def all_attacks() -> list[Any]:
    return [
        pytest.param(
            assignment,
            attack,
            id=f"{assignment.name}: {attack.name}",
            marks=[
                *[pytest.mark.quick]
                * (attack in everywhere.ATTACKS and assignment.name not in SLOW),
                *alone(assignment),
            ],
        )
        for assignment in assignments.find()
        for attack in attacks(assignment)
    ]


@pytest.fixture(scope="module")
def results(
    class_home_of_module: Path, request: pytest.FixtureRequest
) -> Callable[[Assignment], dict[str, Graded]]:
    """A function: the results of those attacks on an assignment that are tried in this run."""
    tried = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module
    ]

    @functools.cache
    def graded(assignment: Assignment) -> dict[str, Graded]:
        classroom = Classroom(class_home_of_module / assignment.short)
        for attack in [one["attack"] for one in tried if one["assignment"] is assignment]:
            first, *others = together(attack, attacks(assignment))
            to = classroom.submission(first.name, assignment.name)
            if not to.exists():
                to.parent.mkdir(parents=True)
                make(first, to, assignment, *others)
        autograde(classroom, assignment, SLOW.get(assignment.name, SETTINGS))
        return classroom.results(assignment.name)

    return graded


@pytest.mark.parametrize(("assignment", "attack"), all_attacks())
def test_an_attack_gains_nothing(
    assignment: Assignment,
    attack: Attack,
    results: Callable[[Assignment], dict[str, Graded]],
) -> None:
    """Its marks are those of the work in it, it saw nothing, and it is flagged."""
    first, *_ = tried = together(attack, attacks(assignment))
    others = [other for other in tried if other is not attack]
    assert_gains_nothing(attack, results(assignment)[first.name], *others)


def assert_gains_nothing(attack: Attack, graded: Graded, *others: Attack) -> None:
    """Fail unless an attack got the expected result, in a submission with others or without."""
    checks = graded.verdict.checks
    known = load(graded.assignment.partition("__")[0], variants=True)
    for check in checks:
        assert_tells_nothing(check, known[check.id])
    everything = {check.id for check in checks}
    lost = [{"all": everything, "none": set()}.get(str(a.lost), a.lost) for a in (attack, *others)]
    expected = set().union(*lost)
    assert {check.id for check in checks if check.credit < 1} == expected, graded.verdict
    if attack.lost == "all":
        assert {check.credit for check in checks} == {0}
    # A flag that names a check which another attack loses may be that attack's.
    theirs = set().union(*lost[1:])
    flags = [f for f in graded.verdict.flags if not any(id in f.detail for id in theirs)]
    assert attack.flags <= {flag.kind for flag in flags}, graded.verdict.flags
    shown = outputs(graded.notebook) + graded.verdict.log  # the judge's server's: of its models
    assert shown.count(attack.says) > sum(bool(a.says) and a.says == attack.says for a in others)
    said = [check.rationale + check.found for check in checks]
    assert any(attack.message in text for text in said), said
    assert "LEAK" not in shown
