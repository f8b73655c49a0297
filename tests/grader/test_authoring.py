"""`grader new` and `grader try`, and their messages for a wrong assignment."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import a_class
import pytest
from typer.testing import CliRunner

from grader.authoring import function_table, gaps, mutants, skeleton, submissions, trial
from grader.authoring.mutants import NOTHING, WAITS, Edit, Mutant
from grader.cli import app
from grader.vocabulary import require
from grader.vocabulary.results import CheckResult, Flag, Graded, Stopped, Verdict
from tests.checkouts import checkout, run
from workbook import assignments
from workbook.assignments import Assignment
from workbook.common import paths
from workbook.common.errors import WorkbookError

A2 = assignments.named("a2")
CLI = (paths.root() / "grader" / "cli.py").read_text("utf-8")


# -- a new assignment, in a checkout of its own ----------------------------------------------------


@pytest.fixture(scope="module")
def course() -> Iterator[Path]:
    """A checkout with a new assignment a8."""
    with checkout() as home:
        done = run(home, "grader", "new", "a8")
        assert done.returncode == 0, done.stderr
        yield home


@pytest.mark.server
@pytest.mark.timeout(600)
def test_a_skeleton_can_be_tried_at_once(course: Path) -> None:
    done = run(course, "grader", "try", "a8")
    assert done.returncode == 0, done.stdout + done.stderr
    names = [mutant.name for mutant in mutants.load(Assignment("a8__draft", course))]
    for name in ("solution", "release", *names):
        assert re.search(rf"✓ +{re.escape(name)} ", done.stdout), done.stdout
    assert f"All {len(names) + 2} are as expected." in done.stdout


@pytest.mark.server
@pytest.mark.timeout(600)
def test_the_tests_of_all_assignments_take_it_up(course: Path) -> None:
    """Also those of format and style: an author begins with files that pass."""
    python = course / ".venv/bin/python"
    tests = subprocess.run(
        [python, "-m", "pytest", "tests/grader/test_assignments.py", "-k", "a8__draft", "-n", "0"],
        cwd=course,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout
    assert int(re.findall(r"(\d+) passed", tests.stdout)[0]) >= 20
    files = [*course.glob("solutions/a8__draft/*.py")]
    assert len(files) == 5
    for words in (["check"], ["format", "--check"]):
        ruff = [course / ".venv/bin/ruff", *words, *files]
        assert subprocess.run(ruff, cwd=course, check=False).returncode == 0, words
    with contextlib.suppress(FileNotFoundError):  # mypy's cache of the other files saves a minute
        shutil.copytree(paths.root() / ".mypy_cache", course / ".mypy_cache")
    typed = [file for file in files if file.name != "a8.py"]  # a notebook's source is not
    mypy = subprocess.run(
        [python, "-m", "mypy", *typed], cwd=course, capture_output=True, check=False
    )
    assert b"Success: no issues found in 4 source files" in mypy.stdout, mypy.stdout


@pytest.mark.server
@pytest.mark.timeout(600)
def test_what_is_wrong_is_named_with_what_to_do(course: Path) -> None:
    """A check that sees too little, a mutant with other words, an open task that stops a cell, and
    a file that was left in the students' folder."""
    hidden = course / "solutions/a8__draft/hidden.py"
    wrong = course / "solutions/a8__draft/mutants.py"
    source = course / "solutions/a8__draft/a8.py"
    kept = {path: path.read_text() for path in (hidden, wrong, source)}
    try:
        hidden.write_text(kept[hidden].replace("2 * rows,", "facts.ask(server, model, rows),"))
        wrong.write_text(kept[wrong].replace("The values in `answers` differ", "Nonsense"))
        source.write_text(kept[source].replace("### STUB answers = ...  # ask(…)", "### STUB"))
        left = course / "assignments/a8__draft/models/old/1/model.py"
        left.parent.mkdir(parents=True)
        left.write_text("The source does not make this any more.")
        done = run(course, "grader", "try", "a8")
    finally:
        shutil.rmtree(course / "assignments/a8__draft/models/old")
        for path, text in kept.items():
            path.write_text(text)
    assert done.returncode == 1, done.stderr
    said = " ".join(done.stdout.split())
    assert re.search(r"✗ +model: three times", done.stdout)
    assert "a8.double gives all its points to this" in said
    assert re.search(r"✗ +answers: invented", done.stdout)
    assert "'Nonsense'" in said
    assert re.search(r"✗ +release", done.stdout)
    assert "NameError" in said
    assert "where: assignments/a8__draft/models/old to do: Delete it (rm -r assign" in said
    assert "3 of 7 differ; 1 gaps." in said
    assert re.search(r"✓ +solution", done.stdout)


@pytest.mark.server
@pytest.mark.timeout(600)
def test_only_what_is_named_is_graded(course: Path) -> None:
    done = run(course, "grader", "try", "a8", "--only", "invented")
    assert "All 1 are as expected." in done.stdout, done.stdout + done.stderr
    done = run(course, "grader", "try", "a8", "--only", "nothing of this name")
    assert done.returncode == 1
    assert "Leave --only out" in done.stderr


@pytest.mark.server
@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("checks.py", "config = require", "config = = require", "solutions/a8__draft/checks.py, l"),
        ("checks.py", "import require", "import requires", "cannot be imported"),
        (
            "checks.py",
            '"a8.double",',
            '"a8.single",',
            "secret_rows is a hidden variant of no check",
        ),
        (
            "hidden.py",
            "model: str",
            "model: str, answer: object",
            "secret_rows takes answer, which a8.double does not get",
        ),
        ("mutants.py", "MUTANTS = (", "MUTANTS = nothing(", "solutions/a8__draft/mutants.py, line"),
        ("mutants.py", '"3 * x"', '"3 * y" +', "solutions/a8__draft/mutants.py, line"),
        ("mutants.py", '"2 * x"', '"5 * x"', "does not hold '5 * x'"),
        ("a8.py", "### END SOLUTION", "", "solution region does not end"),
    ],
)
def test_a_mistake_of_the_author_is_no_traceback(
    file: str, old: str, new: str, says: str, course: Path
) -> None:
    path = course / "solutions/a8__draft" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    try:
        done = run(course, "grader", "try", "a8")
    finally:
        path.write_text(text)
    assert done.returncode == 1
    assert says in " ".join(done.stderr.split()), done.stderr
    assert "to do:" in done.stderr
    assert "Traceback" not in done.stderr


# -- the skeleton ----------------------------------------------------------------------------------


def files_below(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}


def test_a_new_assignment_has_all_its_files(tmp_path: Path) -> None:
    made = skeleton.new("a8__two_streams", tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in made} == files_below(tmp_path)
    source = (tmp_path / "solutions/a8__two_streams/a8.py").read_text()
    assert 'title: "Assignment 8: two streams"' in source
    for path in made:
        assert not re.search(r"\ba0\b|a0_|Assignment 0", path.read_text()), path
    assert assignments.leaks(tmp_path / "assignments/a8__two_streams") == []


BAD_NAMES = ["", "8", "a0", "a8__", "a8__Two", "a8_two", "b8", "a8__a__b", "../a8", "a123", "a8 "]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(WorkbookError, match="cannot be an assignment's name") as raised:
        skeleton.new(name, tmp_path)
    assert "a8__double" in raised.value.todo
    assert files_below(tmp_path) == set()


def test_a_taken_name_is_refused(tmp_path: Path) -> None:
    skeleton.new("a8__one", tmp_path)
    before = files_below(tmp_path)
    with pytest.raises(WorkbookError, match="There is an assignment a8__one already"):
        skeleton.new("a8__other", tmp_path)
    assert files_below(tmp_path) == before


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    left = tmp_path / "solutions/a8__draft/hidden.py"
    left.parent.mkdir(parents=True)
    left.write_text("mine")
    with pytest.raises(WorkbookError, match="another a8 is there") as raised:
        skeleton.new("a8", tmp_path)
    assert raised.value.where == "solutions/a8__draft/hidden.py"
    assert files_below(tmp_path) == {"solutions/a8__draft/hidden.py"}


# -- what is missing -------------------------------------------------------------------------------


@pytest.fixture
def changed(tmp_path: Path) -> Assignment:
    """A copy of a2's source and mutants; its checks are those of this checkout."""
    folder = "solutions/a2__forest"
    shutil.copytree(paths.root() / folder, tmp_path / folder)
    return Assignment("a2__forest", tmp_path)


GAPS = {
    "the points of a cell": (
        "source",
        'id="a2.forest" points=10',
        'id="a2.forest" points=11',
        ["'## Task 2: serve it (25 points)' states 25 points", "add up to 101"],
    ),
    "a check without a cell": (
        "source",
        'kind="check" id="a2.forest" points=10\ncheck("a2.forest", model=forest)',
        'kind="given" id="a2.other"\nprint()',
        ["No cell of the notebook asks a2.forest", "states 25", "add up to 90"],
    ),
    "a check that no mutant fails": (
        "mutants",
        '"a2.threshold"',
        '"a2.classes"',
        ["No mutant fails a2.threshold"],
    ),
    "an id that is no check": (
        "mutants",
        '{"a2.labels": "have no label"}',
        '{"a2.lables": "have no label"}',
        ["fails a2.lables, which is no check"],
    ),
    "a mutant without words": (
        "mutants",
        '{"a2.labels": "have no label"}',
        '{"a2.labels": ""}',
        ["has no words of the message of a2.labels"],
    ),
    "a mutant that fails nothing": (
        "mutants",
        '{"a2.labels": "have no label"}',
        "{}",
        ["fails nothing"],
    ),
    "a right answer that must fail": (
        "mutants",
        '{"a2.labels": "have no label"}',
        '{"a2.labels": "have no label"}, right=True',
        ["is a right answer that must fail"],
    ),
    "a mistake that costs too much, and no text says why": (
        "mutants",
        'DEAR = "as long as Triton',
        'DEAR = "it rains: Triton',
        ["'forest: wrong dtype' costs 55 points, and students do not read why"],
    ),
    "an edit of no cell": ("mutants", 'Edit("a2.names"', 'Edit("a2.nam"', ["is no cell"]),
}


@pytest.mark.parametrize("what", GAPS)
def test_a_gap_is_found(what: str, changed: Assignment) -> None:
    which, old, new, says = GAPS[what]
    path = changed.source if which == "source" else mutants.path(changed)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    found = gaps.gaps(changed)
    for words in says:
        assert any(words in gap.what for gap in found), found
    assert all(gap.todo and gap.where for gap in found)


@pytest.mark.parametrize("assignment", assignments.find(), ids=lambda a: a.name)
def test_no_assignment_has_a_gap(assignment: Assignment) -> None:
    """No mistake costs more than 40 points, unless the text says why, for example."""
    assert gaps.gaps(assignment) == []


def test_an_assignment_without_mutants(changed: Assignment) -> None:
    mutants.path(changed).unlink()
    with pytest.raises(WorkbookError, match="a2__forest has no mutants"):
        gaps.gaps(changed)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no MUTANTS"),
        ("MUTANTS = ('a',)", "no MUTANTS"),
        ("x = 1 / 0", "ZeroDivisionError"),
        ("MUTANTS = (", "SyntaxError"),
        (
            "from grader.authoring.mutants import Mutant\n"
            "MUTANTS = (Mutant('one', (), {}), Mutant('one', (), {}))",
            "Two mutants are named 'one'",
        ),
    ],
)
def test_mutants_that_cannot_be_read(text: str, says: str, changed: Assignment) -> None:
    mutants.path(changed).write_text(text)
    with pytest.raises(WorkbookError, match=says) as raised:
        mutants.load(changed)
    assert "solutions/a2__forest/mutants.py" in raised.value.where


# -- submissions -----------------------------------------------------------------------------------


def test_a_mutant_is_the_solution_with_its_edits(tmp_path: Path) -> None:
    config = "models/forest/config.pbtxt"
    change = Mutant("m", (Edit(config, "[ 30 ]", "[ 31 ]"), Edit("a2.ask", "served", "s")), {})
    made = submissions.mutant(A2, change, tmp_path / "mutant")
    right = submissions.solution(A2, tmp_path / "solution")
    assert files_below(made) == files_below(right)
    differ = {name for name in files_below(made)
              if (made / name).read_bytes() != (right / name).read_bytes()}  # fmt: skip
    assert differ == {"a2.ipynb", config}
    cells = [
        ["".join(cell["source"]) for cell in json.loads((folder / "a2.ipynb").read_text())["cells"]]
        for folder in (made, right)
    ]
    assert sum(one != other for one, other in zip(*cells, strict=True)) == 1


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (Edit("models/forest/config.pbtxt", "no such text", ""), "does not hold"),
        (Edit("models/forest/none.pbtxt", "text", ""), "no such file"),
        (Edit("a2.none", "text", ""), "there is no cell 'a2.none'"),
    ],
)
def test_an_edit_that_does_not_fit(edit: Edit, says: str, tmp_path: Path) -> None:
    with pytest.raises(WorkbookError, match=says) as raised:
        submissions.mutant(A2, Mutant("m", (edit,), {}), tmp_path / "mutant")
    assert raised.value.todo


# -- comparing -------------------------------------------------------------------------------------


def graded(*checks: tuple[str, str, float, str], errors: str = "", flag: str = "") -> Graded:
    """A result: for each check its id, status, credit and rationale."""
    return Graded(
        key="",
        assignment=A2.name,
        verdict=Verdict(
            assignment=A2.name,
            checks=tuple(
                CheckResult.model_validate(
                    {"id": id, "sentence": "", "status": s, "credit": c, "rationale": why}
                )
                for id, s, c, why in checks
            ),
            flags=(Flag(kind=flag, detail=""),) if flag else (),
        ),
        notebook="{}",
        errors=(Stopped(cell=3, name="ValueError", message=errors),) if errors else (),
        sandbox="none",
    )


MUTANT = Mutant("m", (), {"a2.forest": "30 is wanted"})


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (graded(("a2.forest", "failed", 0, "30 is wanted"), ("a2.shap", "passed", 1, "")), []),
        (graded(("a2.forest", "passed", 1, "")), ["gives all its points"]),
        (graded(("a2.forest", "failed", 0, "29 is wrong")), ["does not hold '30 is wanted'"]),
        (graded(("a2.forest", "error", 0, "30 is wanted")), ["The check crashed"]),
        (
            graded(("a2.forest", "failed", 0, "30 is wanted"), ("a2.shap", "failed", 0, "no")),
            ["Add 'a2.shap': \"words of the message\" to its fails"],
        ),
        (
            graded(("a2.forest", "failed", 0, "30 is wanted"), ("a2.shap", "waits", 0, "waits")),
            ["Add 'a2.shap': WAITS to its fails"],
        ),
        (
            graded(
                ("a2.forest", "failed", 0, "30 is wanted"),
                ("a2.shap", "not attempted", 0, f"The notebook {NOTHING}."),
            ),
            ["Add 'a2.shap': NOTHING to its fails"],
        ),
        (graded(("a2.forest", "failed", 0, "30 is wanted"), errors="bad"), ["Correct `stops`"]),
    ],
)
def test_a_mutant_is_compared(result: Graded, says: list[str]) -> None:
    found = list(trial._mutant(A2, MUTANT, result))
    assert len(found) == len(says)
    for difference, words in zip(found, says, strict=True):
        assert words in f"{difference.got} {difference.todo}"


RIGHT = Mutant("r", (), right=True)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (graded(("a2.forest", "passed", 1, "")), []),
        (graded(("a2.forest", "partial", 0.5, "half")), ["accept it in the check (solu"]),
        (graded(("a2.forest", "error", 0, "KeyError")), ["The check crashed"]),
        (graded(("a2.forest", "passed", 1, ""), errors="bad"), ["Cell 3 stops"]),
        (graded(("a2.forest", "passed", 1, ""), flag="edited cell"), ["Flag edited cell"]),
    ],
)
def test_another_right_answer_is_compared(result: Graded, says: list[str]) -> None:
    found = list(trial._mutant(A2, RIGHT, result))
    assert len(found) == len(says)
    for difference, words in zip(found, says, strict=True):
        assert words in f"{difference.got} {difference.todo}"
    assert trial._expected_outcome(A2, RIGHT) == "80 of 80 points"


ALL_CHECKS = tuple(A2.checks)


@pytest.mark.parametrize(
    ("fails", "result", "says"),
    [
        (
            {"a2.forest": "30", "a2.labels": WAITS, "a2.shap": NOTHING},
            (
                ("a2.forest", "failed", 0, ""),
                ("a2.labels", "waits", 0, ""),
                ("a2.shap", "not attempted", 0, ""),
            ),
            "fails forest; waits: labels; not attempted: shap",
        ),
        (
            dict.fromkeys(ALL_CHECKS, NOTHING),
            tuple((id, "not attempted", 0, "") for id in ALL_CHECKS),
            "0 points, not attempted",
        ),
        (
            dict.fromkeys(ALL_CHECKS, "words"),
            tuple((id, "failed", 0, "") for id in ALL_CHECKS),
            "fails all",
        ),
    ],
)
def test_the_table_says_the_same_of_what_is_as_expected(
    fails: dict[str, str], result: tuple[tuple[str, str, float, str], ...], says: str
) -> None:
    """An author compares the two columns."""
    assert trial._expected_outcome(A2, Mutant("m", (), fails)) == says
    assert trial._got(A2, graded(*result)).startswith(says)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (graded(("a2.forest", "not attempted", 0, "")), []),
        (graded(("a2.forest", "passed", 1, "")), ["100% of its points for nothing"]),
        (graded(("a2.forest", "partial", 0.5, "")), ["50% of its points for nothing"]),
        (graded(("a2.forest", "failed", 0, "wrong")), ["Untouched work is not wrong"]),
        (graded(("a2.forest", "not attempted", 0, ""), errors="bad"), ["while tasks are open"]),
        (graded(("a2.forest", "not attempted", 0, ""), flag="stopped"), ["Flag stopped"]),
    ],
)
def test_a_release_is_compared(result: Graded, says: list[str]) -> None:
    found = list(trial._release(A2, result))
    assert len(found) == len(says)
    for difference, words in zip(found, says, strict=True):
        assert words in f"{difference.got} {difference.todo}"


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (graded(("a2.forest", "passed", 1, "")), []),
        (graded(("a2.forest", "partial", 0.5, "half")), ["Correct the solution"]),
        (graded(("a2.forest", "error", 0, "KeyError")), ["solutions/a2__forest/checks.py"]),
        (graded(("a2.forest", "passed", 1, ""), errors="bad"), ["Cell 3 stops"]),
        (graded(("a2.forest", "passed", 1, ""), flag="edited cell"), ["Flag edited cell"]),
    ],
)
def test_a_solution_is_compared(result: Graded, says: list[str]) -> None:
    found = list(trial._solution(A2, result))
    assert len(found) == len(says)
    for difference, words in zip(found, says, strict=True):
        assert words in f"{difference.got} {difference.todo}"


def test_a_solution_for_any_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its notebook has the id, and what it fetches is of this id. tests/grader/test_assignments.py
    tries the solutions of several ids."""
    fetched = []
    a1 = importlib.import_module("grader.assignments.a1__classifier.facts")
    monkeypatch.setattr(a1, "fetch_checkpoint", lambda me, folder: fetched.append(me))
    for name in ("a1", "a2", "a3", "a4", "a5", "a6", "a7"):
        done = CliRunner().invoke(app, ["solve", name, "--id", "学生7", "--to", str(tmp_path)])
        assert done.exit_code == 0, done.output
        (notebook,) = tmp_path.glob(f"学生7/{name}__*/{name}.ipynb")
        lines = [
            line
            for cell in json.loads(notebook.read_text())["cells"]
            for line in "".join(cell["source"]).split("\n")
        ]
        assert lines.count("me = '学生7'") == 1
        assert 'me = "self-study"' not in lines
    assert fetched == ["学生7"]
    assert files_below(tmp_path / "学生7/a2__forest") == files_below(
        submissions.solution(A2, tmp_path / "any")
    )


@pytest.mark.parametrize("id", ["Anna Ruiz", "../anna", "-anna"])
def test_no_solution_for_what_is_no_id(id: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["solve", "a2", f"--id={id}", "--to", str(tmp_path)])
    assert f"{id!r} cannot be an id." in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_an_assignment_without_data_of_ones_own_has_one_solution(tmp_path: Path) -> None:
    toy = a_class.course(tmp_path)
    with pytest.raises(WorkbookError, match="no data of the student's own"):
        submissions.solution(toy, tmp_path / "solved", "anna")


# -- docs/writing_an_assignment.md -----------------------------------------------------------------


def test_the_table_of_functions_is_current() -> None:
    """`python -m grader.authoring.function_table` writes it."""
    text = function_table.FILE.read_text("utf-8")
    assert text == function_table.current(text)
    for name in ("require.tensors(", "values.whole(", "tolerance.float_sum(", "server.infer("):
        assert name in text


def test_every_function_has_a_sentence_and_an_example() -> None:
    for line in function_table.table().splitlines():
        if line.startswith("| `"):
            assert re.search(r"\| \S.*\S \|$", line), line
    for name in require.__all__:
        assert "Example" in (getattr(require, name).__doc__ or ""), name


def test_authoring_names_files_that_there_are() -> None:
    """Check every path, id and command of the page, with a8__double as the skeleton makes it."""
    text = function_table.FILE.read_text("utf-8")
    made = {template.format(name="a8__double", short="a8") for template in skeleton._FILES.values()}
    for path in re.findall(r"`((?:grader|tests|solutions|assignments)/[\w./]+)`", text):
        there = (paths.root() / path).exists() or any(name.startswith(path) for name in made)
        built = path.startswith(("assignments/a8__double/", "solutions/a8__double/a8.ipynb"))
        assert there or built or path == "solutions/a8__double/attacks.py", path
    for command in re.findall(r"(?m)^\$ grader (\w+)|`grader (\w+)", text):
        name = "".join(command)
        assert f'"{name}"' in CLI or f"def {name}(" in CLI, name
