"""Run the notebook of an assignment in this process, and judge what it hands over.

No kernel and no sandbox has to start, so that dozens of wrong answers can be tried in a minute.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from grader.authoring.mutants import Mutant
from grader.checks.define import evaluate, load
from grader.checks.probe import Probe
from grader.checks.results import CheckResult
from workbook import notebooks
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError
from workbook.server import Deployment, Triton, deploy

#: The result of deploying each model folder, by its content: mutants have many in common.
Deployed = dict[str, Deployment | WorkbookError]


def solution_files(assignment: Assignment, handout: Path) -> Path:
    """Make a student's folder that holds the solution's model files."""
    for folder in (assignment.starter, assignment.solution):
        if folder.is_dir():
            shutil.copytree(folder, handout, dirs_exist_ok=True)
    handout.mkdir(exist_ok=True)
    return handout


@contextlib.contextmanager
def as_the_students(server: Triton) -> Iterator[None]:
    """Notebooks find the test's server within the block."""
    import matplotlib

    matplotlib.use("Agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_URL", server.url)
        patch.setenv("TRITON_GRPC_URL", server.grpc_url)
        patch.setenv("TRITON_METRICS_URL", server.metrics_url)
        patch.setenv("TRITON_REPOSITORY", str(server.repository))
        yield


class Run:
    """A run of the code in a notebook's tagged cells; plain cells are plots.

    Attributes:
        handed: what each check was given, by its id.
        stops: what the cells that raised said.
    """

    def __init__(
        self,
        assignment: Assignment,
        server: Triton,
        deployed: Deployed,
        mutant: Mutant | None = None,
    ) -> None:
        self.handed: dict[str, dict[str, Any]] = {}
        self.stops: list[str] = []
        space: dict[str, Any] = {}

        def check(id: str, **values: Any) -> None:
            self.handed[id] = {k: None if v is ... else v for k, v in values.items()}

        def once(folder: str) -> Deployment:
            name = f"{Path(folder).name}_{_digest(Path(folder))}"
            if name not in deployed:
                try:
                    deployed[name] = deploy(folder, name=name, server=server)
                except WorkbookError as error:
                    deployed[name] = error
            found = deployed[name]
            if isinstance(found, WorkbookError):
                raise found
            return found

        for cell in notebooks.read(assignment.source).cells:
            if cell.type != "code" or not cell.kind:
                continue
            source = mutant.edit_cell(cell.id, cell.source) if mutant else cell.source
            try:
                exec(compile(source, cell.id, "exec"), space)
            except Exception as error:
                self.stops.append(str(error))
            space |= {"check": check, "deploy": once}


def judge(
    assignment: Assignment,
    probe: Probe,
    handed: Mapping[str, dict[str, Any]],
    *,
    variants: bool = True,
    number: int = 7,
) -> dict[str, CheckResult]:
    """All checks on what was handed over, as the judge runs them, but on the student's server."""
    earned: dict[str, CheckResult] = {}
    for check in load(assignment.short, variants=variants).values():
        probe.seed(number)
        earned[check.id] = evaluate(check, lambda: probe, handed.get(check.id), earned)
    return earned


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:8]
