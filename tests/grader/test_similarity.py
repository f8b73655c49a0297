"""Similar solutions: copies are found, however many have them; independent solutions are not."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from a_class import classroom
from hypothesis import given, settings
from hypothesis import strategies as st
from solutions_a2 import ALONE, disguised

from grader.authoring import mutants
from grader.classroom import similarity
from grader.classroom.causes import solution_cells
from grader.pages import class_report
from grader.vocabulary.results import CheckResult, Graded, Verdict
from workbook import assignments
from workbook.assignments import Assignment

ASSIGNMENT = assignments.named("a2")
RELEASE = ASSIGNMENT.release.read_text()
ALL = assignments.find()


@functools.cache
def solution(assignment: Assignment) -> dict[str, str]:
    """The course's solution: its cells and Python files."""
    cells = solution_cells(assignment.instructor.read_text())
    return cells | similarity._python_files(assignment.solution)


@pytest.fixture(autouse=True, scope="module")
def one_course() -> Iterator[None]:
    """What the course has is read once per assignment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity, "_Course", functools.cache(similarity._Course))
        yield


@pytest.fixture(autouse=True, scope="module")
def in_this_process() -> Iterator[None]:
    """Read the texts here. Only the test of the report starts processes for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity.limited, "call", lambda function, **_: function())
        yield


def groups(
    students: Mapping[str, Mapping[str, str]], assignment: Assignment = ASSIGNMENT
) -> list[list[str]]:
    """The groups of students that are found, with the course's solution where it is in one."""
    return [
        [*group.students, *{p.other for p in group.pairs if p.other == similarity.COURSE}]
        for group in similarity.groups(students, assignment)
    ]


def test_solutions_of_ones_own_are_no_group() -> None:
    assert len(ALONE) == 5
    assert groups(ALONE) == []


@settings(max_examples=15)
@given(st.data())
def test_parts_of_solutions_of_ones_own_are_no_group(data: st.DataObject) -> None:
    """Also those who have done one task only, in the plainest way."""
    cells = st.sets(st.sampled_from(sorted(ALONE["plain"])), min_size=1)
    students = {
        who: {id: texts[id] for id in sorted(data.draw(cells))} for who, texts in ALONE.items()
    }
    assert groups(students) == []


@settings(max_examples=15)
@given(st.sampled_from(sorted(ALONE)), st.integers(2, 30), st.integers(0, 10**6), st.booleans())
def test_copies_of_one_solution_are_one_group(
    author: str, many: int, seed: int, is_disguised: bool
) -> None:
    """However much of the class has it: two of seven, or thirty of thirty-four."""
    copies = {
        f"copy_{n:02}": disguised(ALONE[author], seed + n) if is_disguised else ALONE[author]
        for n in range(many - 1)
    }
    assert groups({**ALONE, **copies}) == [sorted([author, *copies])]


@pytest.mark.parametrize("assignment", ALL, ids=lambda a: a.name)
def test_the_courses_solution_handed_in_thirteen_times(assignment: Assignment) -> None:
    """As it is, with wrong answers in it, and with other names: one group, with the course's."""
    texts = solution(assignment)
    # A wrong answer with most of it replaced holds no more of the solution than anybody's.
    size = sum(map(len, texts.values()))
    wrong = [
        one
        for one in mutants.load(assignment)
        if size > 2 * sum(len(texts.get(e.where, "")) for e in one.edits if not e.old)
    ]
    made = [texts, disguised(texts, 1), disguised(texts, 2)]
    chance = random.Random(1)
    for one in chance.sample(wrong, 10):
        made.append({id: one.edit_cell(id, text) for id, text in texts.items()})
    copies = {f"copy_{n:02}": one for n, one in enumerate(made)}
    honest = ALONE if assignment == ASSIGNMENT else {}
    assert groups({**copies, **honest}, assignment) == [[*copies, similarity.COURSE]]


@pytest.mark.parametrize("assignment", ALL, ids=lambda a: a.name)
def test_the_release_is_no_group(assignment: Assignment) -> None:
    """What the release gives does not count, also where somebody has written a line into it."""
    untouched = solution_cells(assignment.release.read_text(), all=True)
    starter = similarity._python_files(assignment.handout)
    students = {
        who: {**untouched, **starter, "more": f"answer = {n} + {n}"} for n, who in enumerate("abcd")
    }
    assert groups({**students, "e": untouched, "f": untouched}, assignment) == []


def test_half_of_a_solution_is_enough() -> None:
    half = {**ALONE["pandas"], **dict(list(disguised(ALONE["careful"], 1).items())[3:])}
    (found,) = similarity.groups({**ALONE, "thief": half}, ASSIGNMENT)
    assert found.students == ["careful", "pandas", "thief"]
    assert {(p.one, p.other) for p in found.pairs} == {("careful", "thief"), ("pandas", "thief")}


def test_a_copied_file_is_found() -> None:
    """A program in a model's folder is compared as a cell is; most of a1 is one."""
    program = solution(assignments.named("a6"))["models/chat/1/writing.py"]
    copies = {"a": {"models/classifier/1/model.py": program}, "b": {"helper.py": program}}
    assert groups(copies, assignments.named("a1")) == [["a", "b"]]


def test_the_pairs_join_the_group_and_the_first_are_shown() -> None:
    many = {f"s{n:02}": disguised(ALONE["careful"], n) for n in range(8)}
    (found,) = similarity.groups(many, ASSIGNMENT, shown=3)
    assert found.students == sorted(many)
    assert len(found.pairs) == 7
    assert [bool(pair.texts) for pair in found.pairs] == [True] * 3 + [False] * 4
    assert [p.share for p in found.pairs] == sorted((p.share for p in found.pairs), reverse=True)


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


def test_the_report_shows_pairs_side_by_side(tmp_path: Path) -> None:
    where = classroom(tmp_path)
    cells = {**ALONE["careful"], "a2.names": "answers = '<script>alert(1)</script>\x1b'"}
    students = {"anna": cells, "bob": disguised(cells, 3), "cy": ALONE["plain"]}
    for who, text in students.items():
        where.store(graded(who, text))
    where.save_results_index(ASSIGNMENT.name, {who: who for who in students})
    class_report.write_class_report(where, ASSIGNMENT)
    page = class_report.page(where, ASSIGNMENT).read_text()
    assert "2 students: anna, bob" in page
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
