"""If a file that decides an assignment's marks changes, submissions are graded again.

Changes of other files have no effect. The tests work on a copy of the course's packages, with a2
and a toy assignment.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from a_class import course

from grader.judge import course_files as key
from grader.judge import imports
from workbook import assignments
from workbook.assignments import Assignment
from workbook.common import paths

pytestmark = pytest.mark.server

TOY_CHECKS = """\
from grader.vocabulary import require
from grader.vocabulary.define import define

BACKENDS = ("python",)


@define("a9.first")
def first(server, model):
    require.streams(server, model)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the packages, a2 and the toy a9."""
    home = tmp_path_factory.mktemp("course")
    root = paths.root()
    for folder in ("workbook", "grader", "solutions/a2__forest", "assignments/a2__forest"):
        leave = shutil.ignore_patterns("__pycache__", "work")
        shutil.copytree(root / folder, home / folder, ignore=leave)
    for name in key.PINNED:
        shutil.copy(root / name, home)
    toy = course(home).folder
    (toy / "checks.py").write_text(TOY_CHECKS)
    (toy / "hidden.py").write_text("from . import more\n")
    (toy / "more.py").write_text("x = 1\n")
    return home


def fingerprints(home: Path) -> dict[str, str]:
    key.fingerprint.cache_clear()
    return {name: key.fingerprint(assignments.named(name, home)) for name in ("a2", "a9")}


#: A file, and the assignments whose submissions are graded again when it changes.
CHANGES = {
    "solutions/a2__forest/checks.py": "a2",
    "solutions/a2__forest/facts.py": "a2",
    "solutions/a2__forest/hidden.py": "a2",
    "solutions/a9__toy/checks.py": "a9",
    "solutions/a9__toy/hidden.py": "a9",
    "solutions/a9__toy/more.py": "a9",
    # what the notebook imports in its sandbox
    "assignments/a2__forest/facts.py": "a2",
    # vocabulary: only the words that an assignment uses
    "grader/vocabulary/require_batches.py": "a2",
    "grader/vocabulary/require_streams.py": "a9",
    "grader/vocabulary/require.py": "a2 a9",
    # the core
    "grader/vocabulary/define.py": "a2 a9",
    "grader/vocabulary/admission.py": "a2 a9",
    "grader/judge/judge.py": "a2 a9",
    "grader/judge/serve.py": "a2 a9",
    "grader/judge/notebook_program.py": "a2 a9",
    "grader/judge/imports.py": "a2 a9",
    "grader/sandbox/system_calls.py": "a2 a9",
    "grader/sandbox/running.py": "a2 a9",
    "workbook/assignments/cells.py": "a2 a9",
    "workbook/server/triton.py": "a2 a9",
    "workbook/server/deploy.py": "a2 a9",
    "workbook/server/guard.py": "a2 a9",
    # the compiled parts, and what runs beside them
    "workbook/server/native/fastpath.cc": "a2 a9",
    "workbook/server/native/forkserver.c": "a2 a9",
    "workbook/server/native/forkserver.py": "a2 a9",
    "workbook/server/native/jail.py": "a2 a9",
    # backends: those that the assignment admits
    "workbook/backends/fil/model.py": "a2",
    "workbook/backends/fil/treeshap.py": "a2",
    "workbook/backends/python/answer_checks.py": "a2 a9",
    # what the cells of a2 import: they count requests, and save a forest
    "workbook/measure/server_statistics.py": "a2",
    "workbook/zoo/forests.py": "a2",
    "workbook/zoo/registry.py": "a2",
    "requirements.txt": "a2 a9",
    "requirements-torch.txt": "a2 a9",
}
#: Files that decide no mark of a2 and a9.
OTHERS = (
    "grader/vocabulary/require_ensemble.py",
    "solutions/a2__forest/mutants.py",
    "solutions/a2__forest/attacks.py",
    "workbook/server/native/README.md",
    "workbook/backends/openvino/model.py",
    "workbook/measure/timeline_plot.py",
    "workbook/measure/live_view.py",
    "workbook/measure/perf_analyzer.py",
    "workbook/lessons/predictions.py",
    "workbook/llm/chat.py",
    "workbook/assignments/build.py",
    "workbook/assignments/release.py",
    "grader/pages/templates/feedback.html",
    "grader/pages/feedback.py",
    "grader/classroom/gradebook.py",
    "grader/classroom/intake.py",
    "grader/cli.py",
    "workbook/cli.py",
)


@pytest.fixture(scope="module")
def before(copy: Path) -> dict[str, str]:
    """The hashes before any change."""
    return fingerprints(copy)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_file_grades_again_what_it_decides(
    name: str, copy: Path, before: dict[str, str]
) -> None:
    path = copy / name
    content = path.read_bytes()
    path.write_bytes(content + b"\n")
    try:
        after = fingerprints(copy)
    finally:
        path.write_bytes(content)
    changed = {which for which in before if before[which] != after[which]}
    assert changed == set(CHANGES[name].split())


def test_no_other_file_grades_again(copy: Path, before: dict[str, str]) -> None:
    """Pages, plots, lectures' helpers, the command line, unused vocabulary and unused backends."""
    kept = {copy / name: (copy / name).read_bytes() for name in OTHERS}
    for path, content in kept.items():
        path.write_bytes(content + b"\n")
    try:
        after = fingerprints(copy)
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert after == before


def test_a_new_assignment_grades_nobody_again(
    copy: Path, before: dict[str, str], tmp_path: Path
) -> None:
    """Its checks, facts, hidden checks, source and release change no other key."""
    home = tmp_path / "course"
    shutil.copytree(copy, home)
    for folder in ("solutions", "assignments"):
        (home / folder / "a8__new").mkdir()
        for name in ("checks.py", "facts.py", "hidden.py"):
            (home / folder / "a8__new" / name).write_text('"""New."""\n')
        (home / folder / "a8__new" / "a8.ipynb").write_text("{}")
    assert fingerprints(home) == before


def test_files_that_others_leave_behind_do_not_count(copy: Path, before: dict[str, str]) -> None:
    left = [copy / "grader/work/gradebook.db", copy / "solutions/a2__forest/__pycache__/checks.pyc"]
    left.append(copy / "workbook/backends/fil/__pycache__/model.cpython-311.pyc")
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    assert fingerprints(copy) == before


def test_without_a_notebook_of_solutions_the_release_counts(copy: Path, tmp_path: Path) -> None:
    home = tmp_path / "course"
    shutil.copytree(copy, home)
    (home / "solutions/a2__forest/a2.ipynb").unlink()
    found = key.course_files(Assignment("a2__forest", home))
    assert home / "workbook/measure/server_statistics.py" in found
    assert home / "workbook/measure/timeline_plot.py" not in found


def test_what_grading_really_imports_is_found() -> None:
    """The key includes all modules that the judge has loaded after it loaded a2's checks.

    `__init__` modules load more than is used; only the used names count.
    """
    code = (
        "import sys, grader.judge.judge\n"
        "from grader.vocabulary.define import load\n"
        "load('a2', variants=True)\n"
        "print('\\n'.join(m.__file__ for n, m in list(sys.modules.items()) "
        "if n.split('.')[0] in ('grader', 'workbook') and m.__file__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {Path(line) for line in done.stdout.splitlines()}
    counted = set(key.course_files(assignments.named("a2")))
    root = paths.root()
    # `__init__` modules load these for names that are not used here.
    folders = ("workbook/assignments", "workbook/server", "workbook/zoo")
    words = ("require_*.py", "compare.py", "figures.py")
    passed_on = {
        path
        for path in loaded - counted
        if path.relative_to(root).as_posix().startswith(folders)
        or any(path.match(f"grader/vocabulary/{word}") for word in words)
    }
    assert loaded - counted - passed_on == set()
    assert len(loaded & counted) > 60


def test_reading_imports(tmp_path: Path) -> None:
    """Facades, attributes of modules, types, texts that name modules, and files beside one."""
    files = {
        "__init__.py": "",
        "facade/__init__.py": "'''Passes on.'''\nfrom .one import a\nfrom .two import b as c\n",
        "facade/one.py": "a = 1",
        "facade/two.py": "b = 1",
        "whole/__init__.py": "from .one import a\nx = 1\n",
        "whole/one.py": "a = 1",
        "whole/two.py": "b = 1",
        "typed.py": "",
        "run.py": "",
        "data.c": "",
        "late.py": "",
        "by_attribute.py": "from workbook import facade\nfacade.a()\n",
        "by_anything.py": "from workbook import facade\nprint(facade)\nfacade.a()\n",
        "by_name.py": "from workbook.facade import c\n",
        "by_star.py": "from .facade import *\n",
        "by_package.py": "from .whole.two import b\n",
        "by_text.py": "x = ['workbook.run', 'data.c', 'none.c', 'workbook.none']\n",
        "by_type.py": "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import workbook.typed\ndef f():\n    import workbook.late\n",
    }
    for name, text in files.items():
        path = tmp_path / "workbook" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)

    def reached(module: str) -> set[str]:
        read = imports.Course(tmp_path)
        read.follow(f"workbook.{module}")
        found = {path.relative_to(tmp_path / "workbook").as_posix() for path in read.files}
        return found - {"__init__.py", f"{module}.py"}

    facade = {"facade/__init__.py", "facade/one.py"}
    assert reached("by_attribute") == facade
    assert reached("by_anything") == facade | {"facade/two.py"}
    assert reached("by_name") == {"facade/__init__.py", "facade/two.py"}
    assert reached("by_star") == facade | {"facade/two.py"}
    # Python runs the package's own code first, and that imports one.
    assert reached("by_package") == {"whole/__init__.py", "whole/one.py", "whole/two.py"}
    assert reached("by_text") == {"run.py", "data.c"}
    assert reached("by_type") == {"late.py"}
    assert reached("missing") == set()


def test_code_that_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "workbook").mkdir()
    (tmp_path / "workbook/__init__.py").write_text("")
    (tmp_path / "workbook/one.py").write_text("")
    read = imports.Course(tmp_path)
    read.follow_code(ast.parse("import numpy\nfrom workbook import one\none.x"))
    assert {path.name for path in read.files} == {"__init__.py", "one.py"}
