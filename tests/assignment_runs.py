"""Run the notebook of an assignment in this process, and judge what it hands over.

No kernel and no sandbox has to start, and a model folder that is as in the run before is not
deployed again. So dozens of wrong answers can be tried in a minute or two.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from grader.authoring import submissions
from grader.authoring.mutants import Mutant
from grader.checks import own
from grader.checks.define import evaluate, load
from grader.checks.probe import Probe
from grader.checks.results import CheckResult
from workbook import notebooks
from workbook.assignments import Assignment
from workbook.server import Deployment, Triton, deploy, undeploy


class Models:
    """The models on a test's server. After a run they are those that this run has deployed.

    They have their folders' names, as a student's have: an ensemble names its steps, and a model
    may ask another one.

    Args:
        server: its repository holds nothing else.
    """

    def __init__(self, server: Triton) -> None:
        self.server = server
        #: The run that they are of.
        self.run: Run | None = None
        self._digests: dict[str, str] = {}
        self._deployments: dict[str, Deployment] = {}

    def deploy(self, folder: Path, *, again: bool) -> Deployment:
        """Deploy a folder, unless the model is just this already.

        Args:
            folder: the model's folder.
            again: this run has deployed it before. Otherwise the model is taken away first, so that
                a folder which the server refuses leaves none.

        Raises:
            WorkbookError: the server refuses it.
        """
        name, digest = folder.name, _digest(folder)
        if self._digests.get(name) != digest:
            if not again:
                self._remove(name)
            self._digests.pop(name, None)
            self._deployments[name] = deploy(folder, server=self.server)
            self._digests[name] = digest
        return self._deployments[name]

    def keep(self, run: Run) -> None:
        """Take away what a run has not deployed. The models are now this run's."""
        names = {folder.name for folder in run.folders}
        for path in sorted(self.server.repository.iterdir()):
            if path.name not in names and not path.name.startswith("."):
                self._remove(path.name)
        self.run = run

    def clear(self) -> None:
        """Take away all models, also those that a notebook in a kernel has deployed."""
        for path in sorted(self.server.repository.iterdir()):
            if not path.name.startswith("."):
                self._remove(path.name)
        self.run = None

    def _remove(self, name: str) -> None:
        """Take away a model, and before it the ensembles that have it as a step."""
        for config in sorted(self.server.repository.glob("*/config.pbtxt")):
            text = config.read_text("utf-8")
            if "ensemble_scheduling" in text and f'"{name}"' in text and config.parent.name != name:
                self._remove(config.parent.name)
        if (self.server.repository / name).is_dir():
            undeploy(name, server=self.server)
        self._digests.pop(name, None)


def solution_files(assignment: Assignment, handout: Path) -> Path:
    """Make a student's folder that holds the solution's model files."""
    for folder in (assignment.starter, assignment.solution):
        if folder.is_dir():
            shutil.copytree(folder, handout, dirs_exist_ok=True)
    handout.mkdir(exist_ok=True)
    submissions.fetch(assignment, handout)
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
    """A run of a notebook's code, without the plain cells that plot.

    Args:
        assignment: its notebook is run in the current folder.
        models: those of the test's server.
        mutant: a change of the notebook.
        me: the student's id, in place of the one that the notebook comes with.

    Attributes:
        handed: what each check was given, by its id.
        stops: what the cells that raised said.
        folders: the model folders that it has deployed.
    """

    def __init__(
        self,
        assignment: Assignment,
        models: Models,
        mutant: Mutant | None = None,
        me: str = own.DEFAULT,
    ) -> None:
        self.handed: dict[str, dict[str, Any]] = {}
        self.stops: list[str] = []
        self.folders: list[Path] = []
        space: dict[str, Any] = {}

        def check(id: str, **values: Any) -> None:
            self.handed[id] = {k: None if v is ... else v for k, v in values.items()}

        def once(folder: str) -> Deployment:
            path = Path(folder).resolve()
            found = models.deploy(path, again=path in self.folders)
            if path not in self.folders:
                self.folders.append(path)
            return found

        for cell in notebooks.read(assignment.source).cells:
            if cell.type != "code" or (not cell.kind and "plt." in cell.source):
                continue
            source = mutant.edit_cell(cell.id, cell.source) if mutant else cell.source
            source = source.replace(f'me = "{own.DEFAULT}"', f"me = {me!r}")
            lines = source.splitlines(keepends=True)  # torch.jit.script reads a class's source
            linecache.cache[cell.id] = (len(source), None, lines, cell.id)
            try:
                exec(compile(source, cell.id, "exec"), space)
            except Exception as error:
                self.stops.append(str(error))
            space |= {"check": check, "deploy": once}
        models.keep(self)

    def restore(self, models: Models) -> None:
        """Deploy this run's models again, where another run has taken their place."""
        if models.run is not self:
            for folder in self.folders:
                models.deploy(folder, again=False)
            models.keep(self)


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
