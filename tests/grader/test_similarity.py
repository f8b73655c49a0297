"""Similar solutions: copies are found even with other names; independent solutions are not."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from a_class import classroom
from hypothesis import given, settings
from hypothesis import strategies as st
from solutions_a2 import ALONE, disguised

from grader.classroom import similarity
from grader.classroom.causes import solution_cells
from grader.pages import class_report
from grader.vocabulary.results import CheckResult, Graded, Verdict
from solutions.a2__forest.mutants import MUTANTS
from workbook import assignments

ASSIGNMENT = assignments.named("a2")
RELEASE = ASSIGNMENT.release.read_text()
SOLUTION = {
    id: "\n".join(line for line in text.splitlines() if not line.startswith("###"))
    for id, text in solution_cells(ASSIGNMENT.instructor.read_text()).items()
}
EVERYBODY = {"instructor": SOLUTION, **ALONE}


def graded(who: str, cells: dict[str, str]) -> Graded:
    """The result of a student with this text in the solution cells."""
    notebook = json.loads(RELEASE)
    for cell in notebook["cells"]:
        id = cell["metadata"].get("nbgrader", {}).get("grade_id", "").replace("-", ".")
        if id in cells and cell["cell_type"] == "code":
            cell["source"] = cells[id]
    check = CheckResult(id="a2.forest", sentence="", status="passed", credit=1)
    return Graded(
        key=who,
        assignment=ASSIGNMENT.name,
        verdict=Verdict(assignment=ASSIGNMENT.name, checks=(check,)),
        notebook=json.dumps(notebook),
        sandbox="none",
    )


def found(students: dict[str, dict[str, str]]) -> set[tuple[str, str]]:
    results = {who: graded(who, cells) for who, cells in students.items()}
    return {(pair.one, pair.other) for pair in similarity.pairs(results, ASSIGNMENT)}


def test_solutions_of_ones_own_are_no_pair() -> None:
    assert len(EVERYBODY) == 6
    assert found(EVERYBODY) == set()


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_a_disguised_copy_is_found_and_nothing_else(seed: int) -> None:
    copies = {f"{who}_copy": disguised(cells, seed) for who, cells in EVERYBODY.items()}
    assert found({**EVERYBODY, **copies}) == {(who, f"{who}_copy") for who in EVERYBODY}


def test_wrong_solutions_made_from_one_are_found() -> None:
    """Mutants change one or two lines. All mutants of one solution are reported as pairs."""
    made: dict[str, dict[str, str]] = {}
    for mutant in MUTANTS:
        cells = {id: mutant.edit_cell(id, text) for id, text in SOLUTION.items()}
        if cells not in made.values() and cells != SOLUTION:
            made[f"mutant_{len(made):02}"] = cells
    some = dict(list(made.items())[:6])
    assert len(some) == 6
    assert found({**ALONE, **some}) == set(itertools.combinations(some, 2))


def test_half_of_a_solution_is_enough() -> None:
    half = {**ALONE["plain"], **dict(list(disguised(ALONE["careful"], 1).items())[3:])}
    assert ("careful", "thief") in (pairs := found({**ALONE, "thief": half}))
    assert all("thief" in pair for pair in pairs)


def test_what_the_release_gives_and_what_many_have_does_not_count() -> None:
    given = "\n".join(solution_cells(RELEASE)[f"a2.{id}"] for id in ("train", "explain"))
    given += "\n" + solution_cells(RELEASE, all=True)["a2.together"]
    assert found({who: {"a2.train": f"{given}\nprint({who!r})"} for who in ("a", "b")}) == set()
    many = {f"s{n:02}": disguised(SOLUTION, n) for n in range(30)}
    assert found(many) == set()


def test_the_same_files_are_told_elsewhere() -> None:
    results = dict.fromkeys(("a", "b"), graded("a", SOLUTION))
    assert similarity.pairs(results, ASSIGNMENT) == []


def test_the_report_shows_pairs_side_by_side(tmp_path: Path) -> None:
    where = classroom(tmp_path)
    cells = {**ALONE["careful"], "a2.names": "answers = '<script>alert(1)</script>\x1b'"}
    students = {"anna": cells, "bob": disguised(cells, 3), "cy": ALONE["plain"]}
    for who, text in students.items():
        where.store(graded(who, text))
    where.save_results_index(ASSIGNMENT.name, {who: who for who in students})
    class_report.write_class_report(where, ASSIGNMENT)
    page = class_report.page(where, ASSIGNMENT).read_text()
    assert "anna and bob: " in page
    assert "cy and" not in page
    assert '<span class="shared">gradient.fit(cancer.x_train, cancer.y_train)</span>' in page
    assert '<span class="shared">v3_' in page
    assert "<script>" not in page
    assert "\x1b" not in page


LETTERS = st.lists(st.sampled_from("abcdefgh"), max_size=40)


@given(LETTERS, LETTERS, LETTERS, LETTERS, st.data())
def test_a_long_enough_run_in_both_is_found(
    a: list[str], b: list[str], c: list[str], d: list[str], data: st.DataObject
) -> None:
    """The guarantee of the paper: a shared run of RUN + WINDOW - 1 tokens shares a hash."""
    least = similarity.RUN + similarity.WINDOW - 1
    run = data.draw(st.lists(st.sampled_from("abcdefgh"), min_size=least, max_size=least))
    one, other = (
        similarity._prints({"x": " ".join(text)}, similarity.WINDOW)
        for text in ([*a, *run, *b], [*c, *run, *d])
    )
    assert one.keys() & other.keys()


@given(st.lists(st.text(max_size=200) | st.sampled_from(["%%time", "'''", "x = (", "\\\n" * 99])))
def test_any_text_can_be_read(texts: list[str]) -> None:
    cells = {str(place): text for place, text in enumerate(texts)}
    for hash, places in similarity._prints(cells, similarity.WINDOW).items():
        assert hash >= 0
        for id, line in places:
            assert 0 <= line < cells[id].count("\n") + 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1  # a", "y=1"),
        ("x = 'a'", 'long_name = """b\nc"""'),
        ("for i in range(3):\n    print(i)", "for j in range( 3 ):  print(j)"),
        ("def f(a):\n    return a", "def g(b):\n\n  return b"),
    ],
)
def test_names_layout_and_comments_do_not_count(one: str, other: str) -> None:
    def tokens(text: str) -> list[str]:
        names = similarity.assigned_names(text)
        return [token for token, _ in similarity._tokens(text, names)]

    assert tokens(one) == tokens(other)
