"""A small assignment and a class that handed it in, for the tests of the grader's outer parts."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

from grader.classroom.classroom import Classroom
from grader.judge.grade_submission import Settings
from grader.vocabulary.results import CheckResult, Flag, Graded, Standing, Verdict
from workbook import assignments
from workbook.assignments import Assignment

SOURCE = """\
# ---
# title: A toy
# minutes: 5
# ---

# %% [markdown] kind="given" id="a9.intro"
# # A toy

# %% kind="solution" id="a9.number"
### BEGIN SOLUTION
### STUB number = ...
number = 1
### END SOLUTION

# %% kind="check" id="a9.first" points=10
check("a9.first", number=number)

# %% kind="check" id="a9.second" points=5
check("a9.second", number=number)

# %% [markdown] kind="written" id="a9.why" points=5
# ### BEGIN SOLUTION
# Because.
# ### END SOLUTION
"""
CHECKS = """
@define("a9.first")
def first(): ...
@define("a9.second")
def second(): ...
"""


def course(home: Path, name: str = "a9__toy") -> Assignment:
    """Build the toy in a checkout of its own; under another name, a second one beside it."""
    short = name.split("__", maxsplit=1)[0]
    source = home / "solutions" / name / f"{short}.py"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE.replace("a9", short))
    source.with_name("checks.py").write_text(CHECKS.replace("a9", short))
    assignment = assignments.named(short, home)
    assignments.build(assignment)
    return assignment


def answered(assignment: Assignment, code: str, text: str = "") -> bytes:
    """The release with a student's code in its solution cell, and their written answer."""
    notebook = json.loads(assignment.release.read_text())
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name == f"{assignment.short}-number":
            cell["source"] = code
        if name == f"{assignment.short}-why" and text:
            cell["source"] = text
    return json.dumps(notebook).encode()


def pack(path: Path, files: dict[str, bytes | str]) -> Path:
    """Write a zip."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def classroom(home: Path) -> Classroom:
    """An empty classroom."""
    return Classroom(home / "work")


def fake_key(work: Path, assignment: str, settings: Settings) -> str:
    """The hash of a submission's notebook."""
    content = _notebook(work, assignment).read_bytes()
    return hashlib.sha256(content + settings.secret.encode()).hexdigest()


def fake_grade(work: Path, assignment: str, settings: Settings) -> Graded:
    """Marks by the text of the solution cell: `number = 0.5` earns half of each check.

    `figure = 2` is a figure for the leaderboard.

    Other code in it makes this fake grader misbehave; see the tests.
    """
    notebook = json.loads(_notebook(work, assignment).read_text())
    short = assignment.split("__", maxsplit=1)[0]
    (code,) = (
        cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == f"{short}-number"
    )
    words: dict[str, Any] = {}
    exec(code, {"work": work}, words)
    credit = 0.0 if words["number"] is ... else float(words["number"])
    status = {0.0: "failed", 1.0: "passed"}.get(credit, "partial")
    verdict = Verdict(
        assignment=assignment,
        checks=tuple(
            CheckResult(
                id=id,
                sentence=f"{id} holds.",
                status=status,  # type: ignore[arg-type]
                credit=credit,
                rationale="" if credit == 1 else f"The number is {credit}.",
                standing=Standing(value=words["figure"], text="fast")
                if "figure" in words
                else None,
            )
            for id in (f"{short}.first", f"{short}.second")
        ),
        flags=tuple(Flag(kind=kind, detail="") for kind in words.get("flags", ())),
        log=words.get("log", ""),
    )
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = words.get("outputs", [])
    return Graded(
        key=fake_key(work, assignment, settings),
        assignment=assignment,
        verdict=verdict,
        notebook=json.dumps(notebook),
        sandbox="none",
        log=words.get("log", ""),
        executed=0.1,
        judged=0.1,
    )


def _notebook(work: Path, assignment: str) -> Path:
    short = assignment.split("__", maxsplit=1)[0]
    return work / f"{short}.ipynb"
