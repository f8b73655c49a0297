"""The checks of a2__forest: the solution earns all points, the untouched release none, and each
mutant fails the checks that it should, with the messages that it should."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot
import nbclient
import nbformat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutants.a2 import MUTANTS, Mutant

from grader.checks import a2_facts, reported
from grader.checks.define import evaluate, load
from grader.checks.hidden import a2 as secret
from grader.checks.probe import Probe
from grader.checks.results import CheckResult
from workbook import assignments, notebooks
from workbook.common.errors import WorkbookError
from workbook.server import Deployment, Triton, deploy

ASSIGNMENT = assignments.named("a2")
SOURCE = notebooks.read(ASSIGNMENT.source)


def solution(handout: Path) -> Path:
    """Make a student's folder that holds the solution's model files."""
    shutil.copytree(ASSIGNMENT.starter, handout)
    shutil.copytree(ASSIGNMENT.solution, handout, dirs_exist_ok=True)
    return handout


@pytest.fixture
def handout(tmp_path: Path) -> Path:
    return solution(tmp_path / "work")


@pytest.fixture(scope="module", autouse=True)
def as_the_students(server: Triton) -> Iterator[None]:
    """Notebooks find the test's server."""
    matplotlib.use("Agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_URL", server.url)
        patch.setenv("TRITON_GRPC_URL", server.grpc_url)
        patch.setenv("TRITON_METRICS_URL", server.metrics_url)
        patch.setenv("TRITON_REPOSITORY", str(server.repository))
        yield


@pytest.fixture(scope="module")
def probe(server: Triton) -> Iterator[Probe]:
    probe = Probe(server)
    yield probe
    probe.close()


Deployed = dict[str, Deployment | WorkbookError]


@pytest.fixture(scope="module")
def deployed() -> Deployed:
    """The result of deploying each model folder, by its content: mutants have many in common."""
    return {}


class Run:
    """A run of the notebook's code in this process, where no kernel has to start.

    Attributes:
        handed: what each check was given, by its id.
        stops: what the cells that raised said.
    """

    def __init__(
        self,
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

        for cell in SOURCE.cells:
            if cell.type != "code" or not cell.kind:  # plain cells are plots
                continue
            source = mutant.edit_cell(cell.id, cell.source) if mutant else cell.source
            try:
                exec(compile(source, cell.id, "exec"), space)
            except Exception as error:
                self.stops.append(str(error))
            space |= {"check": check, "deploy": once}


def _short(value: object) -> str:
    return repr(value)[:20]


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:8]


def judge(
    probe: Probe, handed: Mapping[str, dict[str, Any]], *, variants: bool = True, number: int = 7
) -> dict[str, CheckResult]:
    """All checks on what was handed over, as the judge runs them, but on the student's server."""
    earned: dict[str, CheckResult] = {}
    for check in load("a2", variants=variants).values():
        probe.seed(number)
        earned[check.id] = evaluate(check, lambda: probe, handed.get(check.id), earned)
    return earned


def test_points() -> None:
    """The points add up to 100, and each check has a cell, three hints and a hidden variant."""
    assert sum(cell.points for cell in SOURCE.cells) == 100
    stated, earned = 0, 0
    for cell in SOURCE.cells:
        if cell.source.startswith("## "):
            assert stated == earned
            stated, earned = int((*re.findall(r"\((\d+) points\)", cell.source), 0)[0]), 0
        earned += cell.points
    assert stated == earned
    cells = {cell.id for cell in SOURCE.cells if cell.kind == "check"}
    checks = load("a2", variants=True)
    assert cells == set(checks)
    for check in checks.values():
        assert len(check.hints) == 3
        assert check.variants
        assert check.sentence


@pytest.fixture(scope="module")
def solved(
    as_the_students: None,
    server: Triton,
    deployed: Deployed,
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    """The solution, run."""
    with contextlib.chdir(solution(tmp_path_factory.mktemp("solved") / "work")):
        return Run(server, deployed)


@pytest.mark.parametrize("number", range(5))
def test_solution(number: int, probe: Probe, solved: Run) -> None:
    """The solution passes every check, whatever the secret rows."""
    assert solved.stops == []
    results = judge(probe, solved.handed, number=number)
    assert {id: (r.status, r.rationale) for id, r in results.items()} == dict.fromkeys(
        results, ("passed", "")
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant(
    mutant: Mutant,
    server: Triton,
    probe: Probe,
    deployed: Deployed,
    handout: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mutant loses exactly the checks that it should, and is told why."""
    mutant.edit_files(handout)
    monkeypatch.chdir(handout)
    run = Run(server, deployed, mutant)
    assert bool(run.stops) == bool(mutant.stops), run.stops
    assert mutant.stops in "\n".join(run.stops)
    results = judge(probe, run.handed)
    said = {
        id: f"{r.status}: {r.rationale} → {r.help}" for id, r in results.items() if r.credit < 1
    }
    assert set(said) == set(mutant.fails), said
    for id, words in mutant.fails.items():
        assert words in said[id], said[id]
        assert results[id].status != "error", said[id]


def test_mutants_are_many_and_cover_all() -> None:
    """At least 20, and every check is failed by some."""
    assert len(MUTANTS) >= 20
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {id for mutant in MUTANTS for id in mutant.fails} == set(load("a2"))


def run_notebook(path: Path, handout: Path) -> list[str]:
    """Execute a notebook in a kernel of its own, past cells that raise; returns what they said."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(handout)}}
    nbclient.NotebookClient(notebook, timeout=120, allow_errors=True, resources=resources).execute()
    return [
        f"{output.ename}: {output.evalue}"
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    ]


def test_notebooks(
    server: Triton, probe: Probe, handout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The built notebooks in real kernels: the instructor's earns all, the release nothing."""
    home = tmp_path / "course"
    assignments.build(ASSIGNMENT, into=home)
    built = assignments.Assignment(ASSIGNMENT.name, home)
    monkeypatch.setenv("WORKBOOK_HOME", str(home))
    written = home / ".workbook" / "reported" / "a2"

    def handed_over() -> dict[str, reported.Reported]:
        found = {id: reported.read(id, written) for id in load("a2")}
        return {id: values for id, values in found.items() if values}

    def both(handed: dict[str, reported.Reported]) -> dict[str, tuple[str | None, str]]:
        """What the notebook and the judge say of each check."""
        judged = judge(probe, {id: found.values for id, found in handed.items()})
        said = {id: found.result for id, found in handed.items()}
        return {id: (r.status if (r := said.get(id)) else None, judged[id].status) for id in judged}

    assert run_notebook(built.release, built.handout) == []
    untouched = ("not attempted", "not attempted")
    assert both(handed_over()) == dict.fromkeys(load("a2"), untouched)

    assert run_notebook(built.instructor, handout) == []
    assert both(handed_over()) == dict.fromkeys(load("a2"), ("passed", "passed"))


def test_leaves() -> None:
    """No leaf reaches what the tolerances are derived from."""
    for trees in (20, 60, 100):
        table = secret.xgboost_model(trees).get_booster().trees_to_dataframe()
        leaves = table[table.Feature == "Leaf"]
        assert leaves.Gain.abs().max() < a2_facts.LEAF
        assert leaves.groupby("Tree").size().max() <= 8
    table = secret.lightgbm_model().booster_.trees_to_dataframe()
    assert table[table.left_child.isna()].value.abs().max() < a2_facts.LEAF_LIGHTGBM


#: A number in a list of one is that number, as a column of a table with one row is. All requests
#: may well have been answered by one execution.
RIGHT = {("executions", "[[1]]")}


@pytest.mark.parametrize(
    "value", ["text", [], [[]], {}, -1, 1e400, [None], "9" * 5000, True, [[1]]], ids=_short
)
def test_odd_values(value: Any, probe: Probe, solved: Run) -> None:
    """Whatever a student hands over instead of an answer fails the check, with a message."""
    tried = 0
    for check in load("a2", variants=True).values():
        for name in check.parameters:
            probe.seed(1)
            result = evaluate(check, lambda: probe, {**solved.handed[check.id], name: value}, {})
            expected = "passed" if (name, repr(value)) in RIGHT else "failed"
            assert (result.status, result.credit) == (expected, float(expected == "passed")), (
                check.id,
                name,
                result,
            )
            assert bool(result.rationale) == (expected == "failed")
            tried += 1
    assert tried > 20


#: What the reader of reported values can give: JSON, and arrays of numbers.
ODD = st.recursive(
    st.text(max_size=5) | st.floats() | st.integers() | st.booleans() | st.just(10**4000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
) | st.tuples(
    st.sampled_from([(), (0,), (114,), (114, 2), (19,), (31,), (1, 1), (0, 10**18)]),
    st.sampled_from(["bool", "int8", "uint64", "float16", "float64"]),
    st.floats(),
).map(lambda made: np.full(made[0], np.float64(made[2]).astype(made[1])))


@settings(max_examples=60)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_value_breaks_a_check(data: st.DataObject, probe: Probe, solved: Run) -> None:
    """A check that breaks blames the instructor, so no value of a student's may do it."""
    for check in load("a2", variants=True).values():
        name = data.draw(st.sampled_from(check.parameters))
        probe.seed(1)
        odd = {**solved.handed[check.id], name: data.draw(ODD)}
        assert evaluate(check, lambda: probe, odd, {}).status != "error"


PARTS = [..., None, "text", [], [[1], [1, 2]], np.float32([0.5]), np.zeros(114), 0.5]


@pytest.mark.parametrize("value", PARTS, ids=repr)
def test_plots_of_part_answers(value: Any, server: Triton) -> None:
    """The cells that show what was found run whatever is there, and whatever is still to come."""
    space: dict[str, Any] = {}
    given = ("a2.setup", "a2.client", "a2.grid")
    for cell in SOURCE.cells:
        if cell.id in given:
            exec(compile(cell.source, cell.id, "exec"), space)
    good = {
        "served": np.full((114, 2), 0.5),
        "library": np.full((114, 2), 0.5),
        "missed": [1] * 19,
        "alarms": [1] * 19,
        "threshold": 0.5,
        "patient": 3,
        "values": np.ones(31),
        "releases": "nothing",
    }
    shown = ("a2.difference", "a2.mishap")
    cells = [c for c in SOURCE.cells if c.type == "code" and (not c.kind or c.id in shown)]
    assert len(cells) == 5
    for name in good:
        for cell in cells:
            exec(compile(cell.source, "plot", "exec"), space | good | {name: value})
    matplotlib.pyplot.close("all")
