"""Why checks could not run: real submissions, executed in the real sandbox, and odd notebooks."""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbook
from grader.classroom import gradebook
from grader.classroom.causes import explain
from grader.classroom.classroom import Classroom
from grader.classroom.private import without_paths
from grader.classroom.rubric import rows, rubrics
from grader.judge import grade_submission
from grader.pages import class_report, feedback
from grader.vocabulary.results import CheckResult, Flag, Graded, Stopped, Verdict
from tests.attacks import submissions as s
from workbook import assignments
from workbook.common import paths

ASSIGNMENT = assignments.named("a2")
#: The checks that look at the first model.
OF_FOREST = ("forest", "probabilities", "labels", "batching", "shap", "delays")
#: The message of a deploy without the model's file.
REFUSED = "The folder 1 is empty: no model was saved there."
#: The student's cells show the course's folder, in every way in which a notebook shows output.
CRASH = """
import sys, warnings
import workbook
print(sys.prefix, workbook.__file__)
warnings.warn(workbook.__file__)
raise ValueError(f"no such file: {workbook.__file__}")
"""


def change(folder: Path, id: str, code: str) -> None:
    def edit(notebook: s.nbformat.NotebookNode) -> None:
        notebook.cells[s.place(notebook, id)].source = code.strip()

    s.edit(folder, edit)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graded]:
    """One whose first cell raises, one whose kernel dies, one who has begun, one who has not."""
    home = tmp_path_factory.mktemp("handed_in")
    change(s.solution(home / "crash"), "a2.train", CRASH)
    change(home / "crash", "a2.why", "I would take 0.6, *because* <b>")
    change(s.solution(home / "dies"), "a2.verdict", "import os; os._exit(1)")
    change(s.release(home / "begun"), "a2.train", "model = xgboost.XGBClassifier()\nlibrary = ...")
    s.release(home / "idle")
    settings = grade_submission.Settings()
    return {
        folder.name: grade_submission.grade(folder, ASSIGNMENT.name, settings)
        for folder in sorted(home.iterdir())
    }


@pytest.fixture(scope="module")
def a_class(tmp_path_factory: pytest.TempPathFactory, graded: dict[str, Graded]) -> Classroom:
    where = Classroom(tmp_path_factory.mktemp("room") / "work")
    for who, item in graded.items():
        where.store(item)
        s.release(where.submission(who, ASSIGNMENT.name))
    where.save_results_index(ASSIGNMENT.name, {who: item.key for who, item in graded.items()})
    writer = gradebook.Writer(where, ASSIGNMENT)
    for who, item in graded.items():
        writer.write(who, item.key)
    (where.home / "students.csv").write_text("id,name\ncrash,Anna Okafor\nzoe,Zoë Zet\n")
    feedback.write_feedback(where, ASSIGNMENT)
    class_report.write_class_report(where, ASSIGNMENT)
    return where


def statuses(graded: Graded) -> dict[str, str]:
    return {id: r.status for id, r in explain(graded, ASSIGNMENT).results.items()}


@pytest.mark.server
@pytest.mark.timeout(900)
def test_an_error_stands_beside_each_check_that_it_stopped(graded: dict[str, Graded]) -> None:
    found = explain(graded["crash"], ASSIGNMENT)
    stopped = [id for id, result in found.results.items() if result.status == "stopped"]
    assert stopped == [f"a2.{name}" for name in OF_FOREST]
    (why,) = {found.results[id].rationale for id in stopped}  # one cause
    assert why.startswith("Cell 12 stopped: `")
    assert REFUSED in why
    assert "Before it, cell 9 had stopped: `ValueError: no such file" in why
    assert {error.cell for error in graded["crash"].errors} <= found.reported
    assert found.results["a2.versions"].status == "passed"


@pytest.mark.server
@pytest.mark.timeout(900)
def test_the_end_of_a_kernel_is_a_cause(graded: dict[str, Graded]) -> None:
    found = explain(graded["dies"], ASSIGNMENT)
    assert list(statuses(graded["dies"]).values()) == ["passed"] * 3 + ["stopped"] * 6
    (why,) = {r.rationale for r in found.results.values() if r.status == "stopped"}
    assert why == "The kernel died in cell 28; the cells after it did not run."
    assert found.flags == {why}


@pytest.mark.server
@pytest.mark.timeout(900)
def test_what_was_attempted_is_not_called_not_attempted(graded: dict[str, Graded]) -> None:
    assert list(statuses(graded["begun"]).values()) == ["unfinished"] + ["not attempted"] * 8
    assert set(statuses(graded["idle"]).values()) == {"not attempted"}


@pytest.mark.server
@pytest.mark.timeout(900)
def test_a_page_has_one_box_for_one_cause(a_class: Classroom) -> None:
    text = (a_class.feedback / "crash" / "a2__forest.html").read_text()
    assert text.count(escape(REFUSED)) == 1
    assert text.count("no such file") == 1
    assert "stopped: 0 of 55 points" in text
    assert "Anna Okafor, crash" in text
    assert "Other cells" not in text
    text = (a_class.feedback / "dies" / "a2__forest.html").read_text()
    assert text.count("The kernel died in cell 28") == 1
    text = (a_class.feedback / "idle" / "a2__forest.html").read_text()
    assert text.count('class="check attempted"') == 1
    assert "not attempted: 0 of 80 points" in text


@pytest.mark.server
@pytest.mark.timeout(900)
def test_a_page_shows_the_answer_and_the_rubric(a_class: Classroom) -> None:
    text = (a_class.feedback / "crash" / "a2__forest.html").read_text()
    assert "I would take 0.6, *because* &lt;b&gt;" in text
    assert "own counts of task 4" in text
    assert "to be read: 10 points at most" in text
    assert "At 0.5 LightGBM misses 3" not in text  # from the model answer
    text = (a_class.feedback / "idle" / "a2__forest.html").read_text()
    assert "no answer: 0 of 10 points" in text


@pytest.mark.server
@pytest.mark.timeout(900)
def test_the_class_report_tells_causes_and_who_is_missing(a_class: Classroom) -> None:
    text = (a_class.report / "a2__forest.html").read_text()
    assert ", ".join(f"a2.{name}" for name in OF_FOREST) + "</td>" in text
    assert "The kernel died in cell 28" in text
    assert "4 submissions, 1 without" in text
    assert "Zoë Zet" in text
    assert text.count("no submission") == 1


@pytest.mark.server
@pytest.mark.timeout(900)
def test_formgrader_shows_the_cause_in_the_checks_cell(a_class: Classroom) -> None:
    notebook = json.loads(
        (a_class.autograded / "crash" / ASSIGNMENT.name / "a2.ipynb").read_bytes()
    )
    (shown,) = (
        cell["outputs"][0]["data"]["text/plain"]
        for cell in notebook["cells"]
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "a2-labels"
    )
    text = "".join(shown)
    assert "stopped: 0 of 5 points" in text
    assert "Cell 12 stopped: `" in text
    assert REFUSED in text


@pytest.mark.server
@pytest.mark.timeout(900)
def test_no_path_of_this_machine_is_in_what_a_student_gets(
    a_class: Classroom, graded: dict[str, Graded]
) -> None:
    from nbgrader.converters import GenerateFeedback
    from nbgrader.coursedir import CourseDirectory

    assert str(Path(workbook.__file__).parent) in graded["crash"].notebook  # or this tests nothing
    chosen = gradebook.config(a_class)
    chosen.CourseDirectory.assignment_id = ASSIGNMENT.name
    chosen.CourseDirectory.student_id = "*"
    GenerateFeedback(coursedir=CourseDirectory(config=chosen), config=chosen).start()
    given = [*a_class.feedback.rglob("*.html"), *a_class.autograded.rglob("*.ipynb")]
    assert len(given) == 3 * len(graded)
    for path in given:
        text = path.read_text()
        for place in {a_class.home, paths.root(), Path(sys.prefix), Path.home()}:
            assert f"{place}/" not in text, path


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{root}/workbook/x.py, line 3", "…/workbook/x.py, line 3"),
        ("in {work}: no", "in …: no"),
        ("{root}x/y {root}-2", "{root}x/y {root}-2"),
        ("/usr/lib/python3 /tmp/course/a.py", "/usr/lib/python3 /tmp/course/a.py"),
    ],
)
def test_only_folders_of_this_machine_are_hidden(text: str, shown: str) -> None:
    work, places = Path("/srv/a & b"), {"root": paths.root(), "work": "/srv/a & b"}
    assert without_paths(text.format(**places), work) == shown.format(**places)
    assert without_paths("/srv/a &amp; b/x", work) == "…/x"


def test_a_rubric_is_what_stands_below_its_line() -> None:
    text = rubrics(ASSIGNMENT)["a2.why"]
    assert text.startswith("**Rubric** (10 points)")
    assert "SOLUTION" not in text
    assert sum(float(points) for points, _ in rows(text)) == 10
    assert rows("**Rubric**\nnothing") == []


TEXT = st.text(max_size=30) | st.sampled_from(["name 'x' is not defined", "x = 1", "x ="])
CELL = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown"]), "source": TEXT | st.lists(TEXT)},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "nbgrader": st.fixed_dictionaries(
                    {"grade_id": st.sampled_from(["a9-first", "a9-second", "a9-number"]) | TEXT}
                )
                | TEXT
            },
        )
    },
)


@given(
    st.lists(CELL, max_size=8),
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["NameError", "E"]), TEXT), max_size=8),
    st.lists(st.sampled_from(["Cell 3 was interrupted.", "The kernel died in cell 2."])),
)
def test_no_notebook_breaks_the_search(
    toy: assignments.Assignment,
    cells: list[object],
    errors: list[tuple[int, str, str]],
    notes: list[str],
) -> None:
    """A student's notebook can hold anything. Points never change."""
    checks = [
        CheckResult(id=id, sentence="", status=status, credit=0, rationale="r")
        for id, status in (("a9.first", "not attempted"), ("a9.second", "waits"))
    ]
    flags = tuple(Flag(kind="execution", detail=note) for note in notes)
    graded = Graded(
        key="k",
        assignment=toy.name,
        verdict=Verdict(assignment=toy.name, checks=tuple(checks), flags=flags),
        notebook=json.dumps({"cells": cells}),
        errors=tuple(Stopped(cell=c, name=n, message=m) for c, n, m in errors),
        sandbox="none",
    )
    found = explain(graded, toy).results
    assert list(found) == ["a9.first", "a9.second"]
    assert {result.credit for result in found.values()} == {0}
