"""From solutions/ to assignments/: the real nbgrader, the gate, and a class's release."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from notebook_sample import CHECKS, CONFIG, SOURCE, save, tagged

from tests.project import pages
from workbook import assignments
from workbook.assignments import Assignment, cells
from workbook.common.errors import WorkbookError

ONLY_INSTRUCTORS = "a module that only instructors have"


def run(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workbook.cli", *words],
        env={**os.environ, "WORKBOOK_HOME": str(home), "COLUMNS": "200", **more},
        capture_output=True,
        text=True,
        check=False,
    )


def contents(home: Path) -> dict[str, bytes]:
    return {str(p.relative_to(home)): p.read_bytes() for p in home.rglob("*") if p.is_file()}


def test_an_assignment_is_found_by_either_name(sample: Assignment) -> None:
    assert assignments.find() == [sample]
    assert assignments.named("a9") == assignments.named("a9__sample") == sample
    assert sample.checks == {"a9.root_is_right": 60, "a9.doubled": 30}
    assert sample.written == {"a9.why": 10}
    with pytest.raises(WorkbookError) as caught:
        assignments.named("a8")
    assert "a9__sample" in caught.value.todo


def test_a_students_checkout_knows_its_assignments(sample: Assignment) -> None:
    for path in sorted(sample.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    sample.folder.rmdir()
    assert assignments.find() == [sample]
    assert sum(sample.checks.values()) + sum(sample.written.values()) == 100


def test_students_get_stubs_in_place_of_solutions(release: dict[str, Any]) -> None:
    assert "".join(tagged(release, "a9.root")["source"]) == "x = 16\n# Your code here.\nroot = ..."
    assert "".join(tagged(release, "a9.double")["source"]) == (
        "def double(number):\n    # Your code here.\n    return ..."
    )
    assert "".join(tagged(release, "a9.why")["source"]) == (
        "**Why** is a root not a square?\n\n*Your answer here.*"
    )
    assert "math.sqrt" not in json.dumps(release)


def test_the_instructors_notebook_keeps_the_solution_and_runs(sample: Assignment) -> None:
    node = nbformat.read(sample.instructor, as_version=4)
    root = tagged(node, "a9.root")["source"]
    scope: dict[str, Any] = {}
    exec(f"import math\n{root}", scope)
    assert scope["root"] == 4


def test_starter_files_keep_run_bits_and_empty_folders(sample: Assignment) -> None:
    assert os.access(sample.handout / "run.sh", os.X_OK)
    assert not os.access(sample.handout / "models/forest/config.pbtxt", os.X_OK)
    assert (sample.handout / "models/forest/1/.gitkeep").read_bytes() == b""
    assert (sample.handout / "models/forest/config.pbtxt").read_text() == CONFIG
    assert set(sample.manifest.files) == {
        "models/forest/1/.gitkeep",
        "models/forest/config.pbtxt",
        "run.sh",
    }
    assert not list(sample.handout.rglob("solution"))


@pytest.mark.server
def test_two_processes_with_other_hash_seeds_build_the_same_bytes(sample: Assignment) -> None:
    before = contents(sample.home)
    for seed in ("1", "2"):
        for path in (*sample.home.rglob("*.ipynb"), sample.handout / "run.sh"):
            path.unlink()
        done = run(sample.home, "build", "a9", PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        assert contents(sample.home) == before


@pytest.mark.server
def test_a_build_leaves_nothing_behind(sample: Assignment, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = set(contents(sample.home))
    assert run(sample.home, "build", TMPDIR=str(scratch)).returncode == 0
    assert list(scratch.iterdir()) == []
    assert set(contents(sample.home)) == before


@pytest.mark.server
def test_check_names_what_is_not_up_to_date(sample: Assignment) -> None:
    assert run(sample.home, "build", "--check").returncode == 0
    (sample.handout / "run.sh").chmod(0o644)
    (sample.handout / "old.txt").write_text("left over")
    sample.source.write_text(SOURCE.replace("# A sample", "# Another sample"))
    before = contents(sample.home)
    done = run(sample.home, "build", "--check")
    assert done.returncode == 1
    for path in (sample.release, sample.instructor, sample.handout / "run.sh"):
        assert str(path) in done.stderr
    assert "old.txt" in done.stderr
    assert "config.pbtxt" not in done.stderr
    assert contents(sample.home) == before


@pytest.mark.server
def test_an_unknown_name_is_said(home: Path) -> None:
    done = run(home, "build", "a9", "a8")
    assert done.returncode == 1
    assert "no source called 'a8'" in done.stderr


@pytest.mark.server
def test_the_release_goes_through_nbgraders_own_grading(sample: Assignment, tmp_path: Path) -> None:
    """generate_assignment, a submission, autograde: with the built notebook as the source."""
    course = tmp_path / "nbgrader"
    for folder, path in (
        ("source/a9__sample", sample.instructor),
        ("submitted/ada/a9__sample", sample.release),
    ):
        (course / folder).mkdir(parents=True)
        (course / folder / "a9.ipynb").write_bytes(path.read_bytes())
    program = """
from nbgrader.apps import NbGraderAPI
from nbgrader.api import Gradebook
api = NbGraderAPI()
api.coursedir.root = "."
assert api.generate_assignment("a9__sample")["success"]
assert api.autograde("a9__sample", "ada")["success"]
with Gradebook(api.coursedir.db_url) as book:
    held = book.find_submission("a9__sample", "ada").notebooks[0]
    print({g.cell.name: g.cell.max_score for g in held.grades})
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=course,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wanted = {"a9-root_is_right": 60.0, "a9-doubled": 30.0, "a9-why": 10.0}
    assert eval(done.stdout.strip().splitlines()[-1]) == wanted


def test_a_solution_that_leaves_no_python_needs_a_stub(sample: Assignment) -> None:
    sample.source.write_text(SOURCE.replace("    ### STUB return ...\n", ""))
    with pytest.raises(WorkbookError, match=r"not Python.*may need a stub line"):
        assignments.build(sample)


def test_an_id_of_another_assignment_is_refused(sample: Assignment) -> None:
    sample.source.write_text(SOURCE.replace('id="a9.setup"', 'id="a8.setup"'))
    with pytest.raises(WorkbookError, match=r"a8\.setup") as caught:
        assignments.build(sample)
    assert "line 10, id" in caught.value.where


def test_a_check_without_a_function_is_refused(sample: Assignment) -> None:
    """Otherwise the first student who runs it would find the mistake."""
    module = sample.folder / "checks.py"
    module.unlink()
    with pytest.raises(WorkbookError, match=r'"a9\.root_is_right" has no function'):
        assignments.build(sample)
    module.write_text(CHECKS.format(id="a9.doubles"))
    with pytest.raises(WorkbookError, match=r'"a9\.doubled" has no function') as caught:
        assignments.build(sample)
    assert "a9.py, line" in caught.value.where
    assert "in solutions/a9__sample/checks.py" in caught.value.todo
    module.write_text(CHECKS.format(id="a9.doubled"))
    assignments.build(sample)
    module.write_text("def")
    with pytest.raises(WorkbookError, match="Not Python"):
        assignments.build(sample)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("models/forest/config.pbtxt", "# ### BEGIN SOLUTION\n", "a solution marker"),
        ("models/forest/1/model.py", "x = 1  # END  solution\n", "a solution marker"),
        ("models/forest/1/model.py", "### STUB x = 1\n", "a solution marker"),
        ("notes.md", "### BEGIN HIDDEN TESTS\n", "a hidden test"),
        ("notes.md", "=== BEGIN MARK SCHEME ===\n", "a hidden test"),
        ("helper.py", "from grader.assignments.a9__sample.hidden import x\n", ONLY_INSTRUCTORS),
        ("helper.py", "    from grader.assignments.a9__sample import hidden\n", ONLY_INSTRUCTORS),
        ("helper.py", "from . import facts, mutants\n", ONLY_INSTRUCTORS),
        ("helper.py", "from .attacks import ATTACKS\n", ONLY_INSTRUCTORS),
        ("helper.py", "open('solutions/a9__sample/hidden.py')\n", ONLY_INSTRUCTORS),
        ("hidden.py", "", "belongs to instructors"),
        ("mutants.py", "", "belongs to instructors"),
        ("attacks.py", "", "belongs to instructors"),
        ("helper.py", 'open("/home/ada/data.csv")\n', "an absolute path"),
        ("helper.py", 'open("C:\\\\data")\n', "an absolute path"),
        ("solution/config.pbtxt", "", "belongs to instructors"),
        ("a9.py", "", "belongs to instructors"),
        ("gradebook.db", "", "belongs to instructors"),
        ("results/ada.json", "", "belongs to instructors"),
        ("second.ipynb", "{}", "a second notebook"),
    ],
)
def test_the_gate_refuses(sample: Assignment, name: str, text: str, what: str) -> None:
    path = sample.starter / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    before = contents(sample.handout)
    with pytest.raises(WorkbookError) as caught:
        assignments.build(sample)
    assert what in caught.value.what
    assert name in caught.value.what
    assert contents(sample.handout) == before


def test_the_gate_refuses_links(sample: Assignment) -> None:
    (sample.starter / "link").symlink_to("/etc/passwd")
    with pytest.raises(WorkbookError, match="link: a link"):
        assignments.build(sample)


def test_the_gate_reads_the_notebook(sample: Assignment, release: dict[str, Any]) -> None:
    def found(**changes: Any) -> str:
        notebook = copy.deepcopy(release)
        tagged(notebook, "a9.doubled").update(changes)
        save(sample, notebook)
        return "\n".join(map(str, assignments.leaks(sample.handout)))

    assert found() == ""
    assert "an output" in found(outputs=[{"output_type": "stream", "name": "stdout", "text": "1"}])
    assert "an execution count" in found(execution_count=3)
    assert "a check that the manifest does not know: a9.other" in found(source='check("a9.other")')
    assert "differs from the manifest" in found(source="pass")
    assert "differs from the manifest" in found(cell_type="raw")
    assert "manifest has a cell" in found(metadata={})
    assert "solution marker" in found(source="### END SOLUTION")
    sample.release.write_text("{}")
    assert "not a notebook" in "\n".join(map(str, assignments.leaks(sample.handout)))


def git(home: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
        cwd=home,
        check=True,
        capture_output=True,
    )


def commit(home: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    git(home, "init", "-q")
    git(home, "add", "-A")
    git(home, "commit", "-qm", "all")


@pytest.mark.server
def test_a_class_gets_everything_but_what_is_the_instructors(home: Path, tmp_path: Path) -> None:
    commit(
        home,
        {
            "README.md": "Hello\n",
            "Makefile": "lab:\n",
            "workbook/cli.py": "BEGIN = '### BEGIN SOLUTION'\n",
            "grader/vocabulary/define.py": "",
            "grader/work/gradebook.db": "",
            "tests/attacks/everywhere.py": "",
            "lectures/00__start/lesson.py": "# %%\n1\n",
            "model_repository/square/config.pbtxt": "",
            "docs/students.md": "",
            "docs/teaching.md": "Wrong options of predictions",
            "solutions/README.md": "",
            "solutions/a9__sample/answers.py": "planted",
            "solutions/a9__sample/starter.old/run.sh": "planted",
        },
    )
    (home / "workbook/scratch.txt").write_text("not committed")
    for name in ("network.py", "notes.md", "notes/checks.py", "starter.bak/run.sh"):
        planted = home / "solutions/a9__sample" / name
        planted.parent.mkdir(exist_ok=True)
        planted.write_text("planted")
    written = {str(path) for path in assignments.release(tmp_path / "class")}
    assert written == {
        "README.md",
        "Makefile",
        "docs/students.md",
        "workbook/cli.py",
        "grader/vocabulary/define.py",
        "lectures/00__start/lesson.py",
        "model_repository/square/config.pbtxt",
        "assignments/a9__sample/a9.ipynb",
        "assignments/a9__sample/checks.py",
        "assignments/a9__sample/words.py",
        "assignments/a9__sample/run.sh",
        "assignments/a9__sample/models/forest/config.pbtxt",
        "assignments/a9__sample/models/forest/1/.gitkeep",
    }
    assert contents(tmp_path / "class" / "assignments") == contents(home / "assignments")
    with pytest.raises(WorkbookError, match="must be empty or new"):
        assignments.release(tmp_path / "class")


@pytest.mark.server
def test_a_class_gets_nothing_where_the_gate_says_no(sample: Assignment, tmp_path: Path) -> None:
    (sample.starter / "notes.md").write_text("See a9__sample/hidden.py.\n")
    commit(sample.home, {"README.md": "Hello\n"})
    with pytest.raises(WorkbookError, match=ONLY_INSTRUCTORS):
        assignments.release(tmp_path / "out" / "class")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.server
def test_a_starter_file_that_git_does_not_track_gets_out_to_nobody(
    home: Path, tmp_path: Path
) -> None:
    commit(home, {"README.md": "Hello\n"})
    (home / "solutions/a9__sample/starter/models/forest/1/answers.txt").write_text("planted")
    with pytest.raises(WorkbookError, match="git does not track it") as caught:
        assignments.release(tmp_path / "class")
    assert caught.value.where == "solutions/a9__sample/starter/models/forest/1/answers.txt"
    assert not (tmp_path / "class").exists()


@pytest.mark.server
def test_a_file_beside_the_listed_ones_is_a_leak(sample: Assignment) -> None:
    (sample.handout / "answers.py").write_text("")
    (leak,) = assignments.leaks(sample.handout)
    assert str(leak) == "answers.py: a file that is not on the list of what students get"


@pytest.mark.server
def test_a_module_that_the_header_names_and_is_not_there(sample: Assignment) -> None:
    (sample.folder / "words.py").unlink()
    with pytest.raises(WorkbookError, match=r"names a module that is not there: words\.py"):
        assignments.build(sample)


#: Every file of an assignment that students get, apart from the files in starter/.
STUDENTS_GET = {
    "a1": "a1.ipynb answers.py batches.py checks.py deep.py examples.py facts.py reference.py "
    "refusals.py unsure.py",
    "a2": "a2.ipynb checks.py facts.py",
    "a3": "a3.ipynb checks.py facts.py serving.py",
    "a4": "a4.ipynb checks.py engine.py facts.py files.py fp16.py network.py serving.py",
    "a5": "a5.ipynb checks.py engine.py facts.py files.py half.py network.py serving.py speed.py",
    "a6": "a6.ipynb answers.py checks.py client.py drawing.py engine.py facts.py knobs.py loop.py "
    "network.py step.py stopping.py streaming.py",
    "a7": "a7.ipynb before.py checks.py facts.py load.py look.py speed.py",
}


@pytest.mark.server
@pytest.mark.quick
def test_students_get_of_every_assignment_what_is_listed_and_nothing_else(tmp_path: Path) -> None:
    """The real release of this checkout."""
    found = assignments.find()
    assert [one.short for one in found] == list(STUDENTS_GET)
    written = {str(path) for path in assignments.release(tmp_path / "class")}
    assert not [name for name in written if name.startswith(("solutions/", "tests/"))]
    for one in found:
        place = f"assignments/{one.name}/"
        starter = {str(path.relative_to(one.starter)) for path in assignments.files(one.starter)}
        theirs = {name.removeprefix(place) for name in written if name.startswith(place)}
        assert theirs == {*STUDENTS_GET[one.short].split(), *starter}
    there = (tmp_path / "class").rglob("*.md")
    broken = [fault for page in there for fault in pages.broken(page)]
    teaching = re.compile(r"teaching\.md(#[\w-]+)?: no such file$")
    assert all(teaching.search(fault) for fault in broken), broken


@pytest.mark.server
def test_a_lecture_may_not_show_the_instructors_checkout(home: Path, tmp_path: Path) -> None:
    commit(home, {"lectures/00__start/00__start.ipynb": json.dumps({"cells": [str(home)]})})
    with pytest.raises(WorkbookError, match="path of your checkout"):
        assignments.release(tmp_path / "class")
    assert not (tmp_path / "class").exists()


def test_a_release_of_what_is_no_checkout_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(WorkbookError, match="git checkout"):
        assignments.release(tmp_path / "class")


def test_the_manifest_has_the_points_of_the_source(sample: Assignment) -> None:
    manifest = cells.manifest(cells.read(sample.release))
    assert [(c.id, c.kind, c.points) for c in manifest.cells] == [
        ("a9.setup", "given", 0),
        ("a9.root", "solution", 0),
        ("a9.root_is_right", "check", 60),
        ("a9.double", "solution", 0),
        ("a9.doubled", "check", 30),
        ("a9.why", "written", 10),
    ]
