"""The packages' structure: allowed imports, no import cycles, no loose modules at the top."""

from __future__ import annotations

import ast
import graphlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("workbook", "grader", "benchmarks")
#: The packages that each package may import.
ALLOWED = {
    "workbook": {"workbook"},
    "grader": {"grader", "workbook"},
    "benchmarks": {"benchmarks", "grader", "workbook"},
}
#: The modules that may lie at a package's top.
LOOSE = {
    "workbook": {"__init__.py", "cli.py", "start.py"},
    "grader": {"__init__.py", "cli.py", "start.py", "nbgrader_config.py"},
}


def modules() -> dict[str, Path]:
    """The file of each module, by its dotted name; a package's name stands for its __init__."""
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    work = ROOT / "grader" / "work"  # what students handed in
    files = [file for file in files if not file.is_relative_to(work)]
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


FILES = modules()


def imported(name: str) -> set[str]:
    """The course's modules that a module imports, wherever the statement is.

    `from package import name` imports `package.name` if that is a module; otherwise it imports the
    package's `__init__`.
    """
    file = FILES[name]
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else ()), *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in FILES else base)
    return found & FILES.keys() - {name}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one import cycle, in order; empty if there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_imports_form_no_circle() -> None:
    """Imports inside functions, and imports for types only, count too."""
    found = circle({name: imported(name) for name in FILES})
    assert not found, " imports ".join(reversed(found))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    wrong = [
        f"{name} imports {other}"
        for name in FILES
        if name.split(".")[0] == package
        for other in imported(name)
        if other.split(".")[0] not in ALLOWED[package]
    ]
    assert not wrong


@pytest.mark.parametrize("package", LOOSE)
def test_no_module_lies_loose(package: str) -> None:
    assert {file.name for file in (ROOT / package).glob("*.py")} <= LOOSE[package]


def test_the_circle_finder_finds() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert not circle({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    assert "workbook.server.connection" in imported("workbook.server.triton")
    assert "workbook.common.errors" in imported("workbook.server.catalogue.failed_requests")
    assert "grader.sandbox.mounts" in FILES


def test_the_library_imports_nothing_of_one_assignment() -> None:
    """What belongs to one assignment lies in its folder."""
    import_of_one = re.compile(r"(?m)^\s*(from|import) .*\ba[1-9][0-9]?__")
    assert not [
        name for name, file in FILES.items() if import_of_one.search(file.read_text("utf-8"))
    ]
    assert import_of_one.search("    from grader.assignments.a2__forest import facts")


def test_mypy_passes_over_what_students_handed_in() -> None:
    """Two students' helper.py are one module twice, and one may not even be Python."""
    exclude = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["exclude"]
    assert re.search(exclude, "grader/work/submitted/anna/a2__forest/helper.py")
    assert not re.search(exclude, "grader/classroom/intake.py")
