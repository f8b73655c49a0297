"""Every assignment: the solution earns all points, the untouched release none, and each mutant
fails the checks that it should, with the messages that it should.

An assignment contributes its mutants.py. `-k a2__forest` runs the tests of one assignment only.
There are hundreds of mutants. `make test ALL=yes` tries the right answers, and one mutant for each
check. A mutant is judged by the checks that it must fail, and by the checks that these need. Right
answers are judged by all checks; `make mutants` does this with every mutant. `make test` tries the
solution, the release and two mutants of each assignment, and all tests that only read the sources.
With several workers, one of them runs each assignment's mutants, and one its other tests
(tests/scheduling.py). The tests that ask the solution's models come first: each later one brings
models of its own, and the solution's need not be loaded again.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.authoring import mutants
from grader.authoring.gaps import gaps
from grader.authoring.trial import message
from grader.vocabulary import reported
from grader.vocabulary.define import evaluate, load
from grader.vocabulary.failure import UNDECIDED
from grader.vocabulary.probe import Probe
from grader.vocabulary.results import CheckResult
from tests import sources
from tests.assignment_runs import (
    Judge,
    Models,
    Run,
    alone,
    as_the_students,
    solution_files,
    with_needs,
)
from workbook import assignments
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError
from workbook.server import Triton

pytestmark = pytest.mark.server

ALL = assignments.find()
PASSED = ("passed", 1.0)


#: Whose solution is tried. Wrong answers, attacks and other right answers have the default id.
STUDENT = "anna"
#: `make test ALL=yes` tries this number of mutants for each check.
MUTANTS_FOR_A_CHECK = 1
#: a6's solution starts vLLM, which `make test` does not install. Instead, `make test` runs the
#: first wrong answer to a6: all checks pass except those of its first task and of vLLM.
WITHOUT_VLLM = [one for one in ALL if one.short != "a6"]


def each(quick: Collection[Assignment]) -> pytest.MarkDecorator:
    """A test of each assignment, which `make test` runs for the `quick` ones."""
    params = [
        pytest.param(one, marks=[pytest.mark.quick] * (one in quick) + alone(one)) for one in ALL
    ]
    return pytest.mark.parametrize("assignment", params, ids=lambda a: a.name)


def failed_by_itself(assignment: Assignment, mutant: mutants.Mutant) -> list[str]:
    """The checks that a mutant must fail, without those that wait for another one of these."""
    checks = load(assignment.short)
    return [id for id in mutant.fails if not (with_needs([id], checks) - {id}) & {*mutant.fails}]


def wrong_answers() -> list[Any]:
    """Each mutant of each assignment, with the checks that judge it: "its own" or "all".

    An assignment without a file has a single test that fails.
    """
    found = []

    def add(
        assignment: Assignment, mutant: mutants.Mutant | None, judged: str, *marks: Any
    ) -> None:
        name = f"{assignment.name}: {mutant.name if mutant else 'no mutants'}"
        id = name if judged == "its own" else f"{name}, by {judged}"
        found.append(
            pytest.param(assignment, mutant, judged, id=id, marks=(*marks, *alone(assignment)))
        )

    for assignment in ALL:
        seen = collections.Counter[str]()  # of checks that fail, and of right answers
        try:
            for number, mutant in enumerate(mutants.load(assignment)):
                quick = [pytest.mark.quick] if number < 2 else []
                if mutant.fails:
                    mine = failed_by_itself(assignment, mutant)
                    if quick or any(seen[id] < MUTANTS_FOR_A_CHECK for id in mine):
                        add(assignment, mutant, "its own", *quick)
                        seen.update(mine)
                    add(assignment, mutant, "all", pytest.mark.long)
                else:
                    # Of right answers that are measured for a minute one is enough here.
                    more = bool(alone(assignment)) and "right" in seen
                    add(assignment, mutant, "all", *quick, *[pytest.mark.long] * more)
                    seen["right"] += 1
        except WorkbookError:
            add(assignment, None, "all")
    return found


@pytest.fixture(scope="module", autouse=True)
def notebooks_find_the_server(server: Triton) -> Iterator[None]:
    with as_the_students(server):
        yield


@pytest.fixture(scope="module")
def judge(server: Triton) -> Judge:
    return Judge(server)


@pytest.fixture(scope="module")
def models(server: Triton) -> Models:
    return Models(server)


@pytest.fixture(scope="module")
def solved(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Assignment], Run]:
    """A function: the run of an assignment's solution, with its models on the server.

    It runs when it is first asked for.
    """

    @functools.cache
    def run(assignment: Assignment) -> Run:
        handout = solution_files(assignment, tmp_path_factory.mktemp("solved") / "work", STUDENT)
        with contextlib.chdir(handout):
            return Run(assignment, models, me=STUDENT)

    def served(assignment: Assignment) -> Run:
        found = run(assignment)
        found.restore(models)
        return found

    return served


def test_there_are_assignments() -> None:
    assert ALL


@each(ALL)
def test_each_check_is_tried_by_enough_mutants(assignment: Assignment) -> None:
    """`make test ALL=yes` tries a wrong answer for each check."""
    tried, there = collections.Counter[str](), collections.Counter[str]()
    for param in wrong_answers():
        one, mutant, _ = param.values
        if one == assignment and mutant:
            mine = failed_by_itself(assignment, mutant)
            there.update(mine)
            if all(mark.name != "long" for mark in param.marks):
                tried.update(mine)
    for id in load(assignment.short):
        assert tried[id] >= min(there[id], MUTANTS_FOR_A_CHECK) >= 1, id


@each(ALL)
def test_nothing_is_missing(assignment: Assignment) -> None:
    """Points, cells, hints, hidden variants, backends; and a mutant for every check."""
    assert gaps(assignment) == []


@each(WITHOUT_VLLM)
def test_solution(
    assignment: Assignment, judge: Judge, solved: Callable[[Assignment], Run]
) -> None:
    """The solution passes every check."""
    run = solved(assignment)
    assert run.stops == []
    assert_passes(judge(assignment, run.handed, number=0))


def assert_passes(results: dict[str, CheckResult]) -> None:
    """Fail with the message of the first check that has not passed: the others may wait for it."""
    wrong = [f"{id} {message(r)}" for id, r in results.items() if (r.status, r.credit) != PASSED]
    assert not wrong, wrong[0]


@pytest.mark.long
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("assignment", ALL, ids=lambda a: a.name)
def test_solution_with_other_secret_inputs(
    assignment: Assignment, number: int, judge: Judge, solved: Callable[[Assignment], Run]
) -> None:
    """Others are in `test_solution` and `test_solution_of_any_student`."""
    assert_passes(judge(assignment, solved(assignment).handed, number=number))


def _short(value: object) -> str:
    return repr(value)[:20]


#: What is no name keeps a student out of the class's list, and costs nothing (test_leaderboard.py).
ALIAS = "alias"
ODD_VALUES = ["text", [], [[]], {}, -1, 1e400, [None], "9" * 5000, True, [[1]]]


@pytest.mark.parametrize("value", ODD_VALUES, ids=_short)
@pytest.mark.parametrize("assignment", ALL, ids=lambda a: a.name)
def test_odd_values(
    assignment: Assignment, value: Any, server: Triton, solved: Callable[[Assignment], Run]
) -> None:
    """Whatever a student hands over instead of an answer fails the check, with a message."""
    handed = solved(assignment).handed
    with contextlib.closing(Probe(server)) as probe:
        for check in load(assignment.short, variants=True).values():
            for name in check.parameters:
                if _says_the_same(value, handed[check.id][name]) or _is_an_id(name, value):
                    continue
                if name == ALIAS:
                    continue
                probe.seed(1)
                result = evaluate(check, lambda: probe, {**handed[check.id], name: value}, {})
                assert (result.status, result.credit) == ("failed", 0), (check.id, name, result)
                assert result.rationale


def _says_the_same(odd: Any, right: Any) -> bool:
    """Whether an odd value may be right: a list of one number counts as this number.

    A count depends on the machine (one execution may have answered all requests). So if a whole
    number is expected, any whole number counts as right.
    """
    return odd == [[1]] and isinstance(right, int) and not isinstance(right, bool)


def _is_an_id(name: str, value: Any) -> bool:
    """Whether an odd value may be a student's id: any text is one.

    A check that compares a student's models with each other takes it; whose data they are made from
    is for other checks, and for the flag "another's data".
    """
    return name == "me" and isinstance(value, str) and bool(value)


def odd(shapes: list[tuple[int, ...]]) -> st.SearchStrategy[Any]:
    """Values that the reader of reported values can return: JSON, and arrays of numbers."""
    return st.recursive(
        st.text(max_size=5) | st.floats() | st.integers() | st.booleans() | st.just(10**4000),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=12,
    ) | st.tuples(
        st.sampled_from([*shapes, (), (0,), (1, 1), (0, 10**18)]),
        st.sampled_from(["bool", "int8", "uint64", "float16", "float64"]),
        st.floats(),
    ).map(lambda made: np.full(made[0], np.float64(made[2]).astype(made[1])))


def _shape(value: Any) -> tuple[int, ...]:
    """The shape of a value; of a list of lists of different lengths, its length."""
    try:
        return np.shape(value)
    except ValueError:
        return (len(value),)


@pytest.mark.parametrize("assignment", ALL, ids=lambda a: a.name)
@settings(max_examples=10)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_value_breaks_a_check(
    assignment: Assignment,
    data: st.DataObject,
    server: Triton,
    solved: Callable[[Assignment], Run],
) -> None:
    """A check that breaks blames the instructor, so no value of a student's may do it."""
    handed = solved(assignment).handed
    values = [value for given in handed.values() for value in given.values()]
    shapes = sorted({_shape(value) for value in values if not isinstance(value, str | dict)})
    with contextlib.closing(Probe(server)) as probe:
        for check in load(assignment.short, variants=True).values():
            name = data.draw(st.sampled_from([p for p in check.parameters if p != ALIAS]))
            probe.seed(1)
            changed = {**handed[check.id], name: data.draw(odd(shapes))}
            result = evaluate(check, lambda: probe, changed, {})
            assert result.status != "error" or result.rationale == UNDECIDED


@pytest.mark.long
@pytest.mark.parametrize("student", ["maria", "s2026148", "s2026111", "ben", "i.petrov", "学生7"])
@pytest.mark.parametrize("assignment", ALL, ids=lambda a: a.name)
def test_solution_of_any_student(
    assignment: Assignment,
    student: str,
    judge: Judge,
    models: Models,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a student gets is drawn by the id: the solution passes with each one's.

    `test_solution` tries another id.
    """
    monkeypatch.chdir(solution_files(assignment, tmp_path / "work", student))
    run = Run(assignment, models, me=student)
    assert run.stops == []
    assert_passes(judge(assignment, run.handed))


@each(ALL)
def test_every_mutant_can_be_made(assignment: Assignment, tmp_path: Path) -> None:
    """Its edits fit the solution's files and cells: told in a second, before it is ever run."""
    code = {c.id: c.source for c in sources.read(assignment.source).cells if c.type == "code"}
    for number, mutant in enumerate(mutants.load(assignment)):
        handout = tmp_path / str(number)
        for edit in mutant.edits:
            if not edit.of_file:
                assert edit.where in code, mutant.name
                continue
            for folder in (assignment.starter, assignment.solution):
                if (folder / edit.where).is_file():
                    (handout / edit.where).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(folder / edit.where, handout / edit.where)
        mutant.edit_files(handout)
        for id, source in code.items():
            mutant.edit_cell(id, source)


@pytest.mark.parametrize(("assignment", "mutant", "judged"), wrong_answers())
def test_mutant(
    assignment: Assignment,
    mutant: mutants.Mutant,
    judged: str,
    models: Models,
    judge: Judge,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mutant loses the checks that it should, with the right words; by all, it loses no more."""
    assert mutant, f"{mutants.path(assignment)} is missing or wrong"
    fails, last = {**mutant.fails}, ""
    if judged == "its own":
        fails = {id: fails[id] for id in failed_by_itself(assignment, mutant)}
        if not mutant.stops:  # otherwise the cell that raises may come later
            cells = [cell.id for cell in sources.read(assignment.source).cells]
            ends = (*fails, *(edit.where for edit in mutant.edits if not edit.of_file))
            last = max(ends, key=cells.index)
    handout = solution_files(assignment, tmp_path / "work")
    mutant.edit_files(handout)
    monkeypatch.chdir(handout)
    run = Run(assignment, models, mutant, until=last)
    assert bool(run.stops) == bool(mutant.stops), run.stops
    assert mutant.stops in "\n".join(run.stops)
    results = judge(assignment, run.handed, only=fails if judged == "its own" else ())
    messages = {id: message(result) for id, result in results.items() if result.credit < 1}
    assert set(messages) == set(fails), messages
    for id, words in fails.items():
        assert words in messages[id], messages[id]
        assert results[id].status != "error", messages[id]


def run_notebook(path: Path, handout: Path) -> list[str]:
    """Execute a notebook in a new kernel, past cells that raise; returns their messages."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(handout)}}
    nbclient.NotebookClient(notebook, timeout=120, allow_errors=True, resources=resources).execute()
    return [
        f"{output.ename}: {output.evalue}"
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    ]


@pytest.fixture
def statuses(
    assignment: Assignment,
    models: Models,
    judge: Judge,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Path, Path], dict[str, tuple[str | None, str]]]]:
    """A function: run a notebook in a folder; what it and the judge then say of each check."""
    models.clear()
    home = tmp_path / "course"
    assignments.build(assignment, into=home)
    monkeypatch.setenv("WORKBOOK_HOME", str(home))
    written = home / ".workbook" / "reported" / assignment.short

    def run(notebook: Path, folder: Path) -> dict[str, tuple[str | None, str]]:
        assert run_notebook(notebook, folder) == []
        found = {id: reported.read(id, written) for id in load(assignment.short)}
        handed = {id: values for id, values in found.items() if values}
        judged = judge(assignment, {id: found.values for id, found in handed.items()}, number=8)
        said = {id: found.result for id, found in handed.items()}
        return {id: (r.status if (r := said.get(id)) else None, judged[id].status) for id in judged}

    yield run
    models.clear()


@each(ALL)
def test_release(assignment: Assignment, statuses: Callable[..., Any], tmp_path: Path) -> None:
    """The untouched release, in a real kernel, earns nothing."""
    built = Assignment(assignment.name, tmp_path / "course")
    nothing = dict.fromkeys(load(assignment.short), ("not attempted", "not attempted"))
    assert statuses(built.release, built.handout) == nothing


@pytest.mark.parametrize(
    "assignment",
    [
        pytest.param(one, marks=pytest.mark.quick if one.short == "a2" else pytest.mark.long)
        for one in ALL
    ],
    ids=lambda a: a.name,
)
def test_instructors_notebook(
    assignment: Assignment, statuses: Callable[..., Any], tmp_path: Path
) -> None:
    """It earns everything, in a real kernel.

    `make test` tries one, and `make mutants` all. The attacks that begin with a solution run those
    of all assignments in the sandbox's kernel (tests/attacks/test_every_assignment.py).
    """
    built = Assignment(assignment.name, tmp_path / "course")
    handout = solution_files(assignment, tmp_path / "work")
    everything = dict.fromkeys(load(assignment.short), ("passed", "passed"))
    assert statuses(built.instructor, handout) == everything
