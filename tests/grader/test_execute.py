"""Notebooks executed in a real sandbox, beside a real Triton: good ones, broken ones, hostile ones.

Each notebook takes seconds, so one notebook tries several things that do not disturb each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from grader.judge.run_notebook import CELL_OUTPUT, CELL_S, Execution, execute
from grader.sandbox import Limits
from tests import files_beside

pytestmark = pytest.mark.server

Run = Callable[..., Execution]

FOREST = """
import os
import xgboost
from sklearn.datasets import load_breast_cancer
rows, labels = load_breast_cancer(return_X_y=True)
rows = rows.astype("float32")
forest = xgboost.XGBClassifier(n_estimators=10, max_depth=3).fit(rows, labels)
os.makedirs("models/forest/1", exist_ok=True)
forest.get_booster().save_model("models/forest/1/xgboost.json")
"""
CONFIG = """
backend: "fil"
max_batch_size: 64
input [{ name: "input__0" data_type: TYPE_FP32 dims: [ 30 ] }]
output [{ name: "output__0" data_type: TYPE_FP32 dims: [ 2 ] }]
instance_group [{ kind: KIND_CPU }]
parameters [
  { key: "model_type" value: { string_value: "xgboost_json" } },
  { key: "predict_proba" value: { string_value: "true" } },
  { key: "output_class" value: { string_value: "true" } },
  { key: "threshold" value: { string_value: "0.5" } }
]
"""
DEPLOY = """
from workbook.server import deploy
print(deploy("models/forest"))
"""
ASK = """
import numpy as np
import tritonclient.http as http
client = http.InferenceServerClient("localhost:8000")
given = http.InferInput("input__0", [8, 30], "FP32")
given.set_data_from_numpy(rows[:8])
answer = client.infer("forest", [given]).as_numpy("output__0")
print(np.abs(answer - forest.predict_proba(rows[:8])).max() < 1e-5)
"""
REPORT = """
from workbook.common import paths
(paths.state("reported", "a2") / "a2.probabilities.json").write_text('{"version": 1}')
"""


WAY_OUT = """
import contextlib
with contextlib.suppress(PermissionError):
    for n in os.listdir(f"/proc/{os.getppid()}/fd"):
        with contextlib.suppress(PermissionError):
            os.close(os.open(f"/proc/{os.getppid()}/fd/{n}", os.O_WRONLY | os.O_NONBLOCK))
            print("opened", n)
print("tried")
"""


def notebook(*cells: str) -> dict[str, object]:
    made = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("Some text."),
            *(nbformat.v4.new_code_cell(cell) for cell in cells),
        ]
    )
    return json.loads(nbformat.writes(made))  # type: ignore[no-any-return]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run(*cells, limits=…)`: execute them beside whatever lies in `tmp_path / "work"`."""
    (tmp_path / "work").mkdir()
    (tmp_path / "out").mkdir()

    def execute_cells(*cells: str, limits: Limits | None = None, cell_s: float = 60) -> Execution:
        return execute(
            notebook(*cells),
            tmp_path / "work",
            "a2__forest",
            to=tmp_path / "out",
            limits=limits or Limits(wall_s=120),
            cell_s=cell_s,
        )

    return execute_cells


def text(execution: Execution, cell: int) -> str:
    """What a code cell printed; cell 0 is the text."""
    outputs = execution.notebook["cells"][cell]["outputs"]
    return "".join("".join(o.get("text", "")) for o in outputs)


def message(execution: Execution) -> str:
    return " ".join(f"{f.kind}: {f.detail}" for f in execution.findings)


@pytest.mark.quick
def test_a_model_is_deployed_and_answers_and_everything_comes_out(run: Run, tmp_path: Path) -> None:
    models = tmp_path / "work" / "models" / "forest"
    models.mkdir(parents=True)
    (models / "config.pbtxt").write_text(CONFIG)
    files_beside.write(tmp_path / "work")
    execution = run(FOREST, DEPLOY, ASK, REPORT, files_beside.CELL)
    assert execution.errors == ()
    assert execution.findings == ()
    assert execution.cells_run == 5
    assert text(execution, 5).strip() == files_beside.PRINTED
    assert "forest 1 is ready on fil" in text(execution, 2)
    assert text(execution, 3) == "True\n"
    assert (execution.repository / "forest/1/xgboost.json").stat().st_size > 1000
    assert (execution.repository / "forest/config.pbtxt").read_text() == CONFIG
    assert (execution.reported / "a2.probabilities.json").read_text() == '{"version": 1}'
    assert "successfully loaded 'forest'" in execution.server_log
    assert execution.outcome.isolated
    assert [p.name for p in models.iterdir()] == ["config.pbtxt"]  # the submission is unchanged


@pytest.mark.quick
def test_errors_and_floods_stop_nothing_and_nothing_is_in_sight(run: Run, tmp_path: Path) -> None:
    execution = run(
        "1 / 0",
        "print('x' * 100_000_000)",
        "for n in range(3): display({'text/plain': 'y' * 900_000}, raw=True)",
        f"import os; print(os.path.exists({str(tmp_path)!r}), os.listdir('/submission'))",
        "import grader.assignments.a2__forest.hidden",
        WAY_OUT,
        "import os; os.symlink('/etc/passwd', os.environ['TRITON_REPOSITORY'] + '/link')",
        "print('the end')",
    )
    names = [error.name for error in execution.errors]
    assert names == ["ZeroDivisionError", "ModuleNotFoundError"]
    assert execution.cells_run == 8
    assert CELL_OUTPUT <= len(text(execution, 2)) < CELL_OUTPUT + 200
    assert "[output cut: a cell may show 1024 KiB]" in text(execution, 2)
    assert "[output cut" in text(execution, 3)
    assert text(execution, 4) == "False []\n"
    assert text(execution, 6) == "tried\n"
    assert text(execution, 8) == "the end\n"
    assert list(execution.repository.iterdir()) == []


def test_a_kernel_that_dies_leaves_what_ran_before(run: Run) -> None:
    execution = run(REPORT, "print('before')", "import os; os._exit(1)", "print('after')")
    assert text(execution, 2) == "before\n"
    assert text(execution, 4) == ""
    assert "The kernel died in cell 4" in message(execution)
    assert (execution.reported / "a2.probabilities.json").exists()


def test_a_cell_that_is_too_slow_is_interrupted_and_the_rest_runs(run: Run) -> None:
    execution = run("import time; time.sleep(600)", "print('after')", cell_s=1)
    assert [error.name for error in execution.errors] == ["KeyboardInterrupt"]
    assert "interrupted after 1 s" in message(execution)
    assert text(execution, 2) == "after\n"


def test_a_cell_that_shows_too_much_without_end_is_interrupted(run: Run) -> None:
    """Its time is not over: it gets a few seconds more, not all of them."""
    execution = run("n = 0\nwhile True:\n    n += 1\n    print(n, 'x' * 60)", "print('after')")
    assert [error.name for error in execution.errors] == ["KeyboardInterrupt"]
    assert "it showed more than is kept, and went on" in message(execution)
    assert text(execution, 2) == "after\n"
    assert execution.seconds < CELL_S / 2


def test_a_loop_that_ignores_signals_is_ended_and_what_there_is_comes_out(run: Run) -> None:
    loop = (
        "import signal\n"
        "for n in range(1, 32):\n"
        "    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except OSError: pass\n"
        "while True: pass"
    )
    execution = run(REPORT, loop, cell_s=1)
    assert "did not let itself be interrupted" in message(execution)
    assert (execution.reported / "a2.probabilities.json").exists()
    assert execution.outcome.stopped == ""


def test_a_runner_that_is_stopped_ends_with_the_wall_clock(run: Run) -> None:
    execution = run(
        "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)", limits=Limits(wall_s=15)
    )
    assert execution.outcome.stopped == "wall clock"
    assert message(execution).startswith("stopped: Stopped after 15 s: the limit is 15 s.")
    assert execution.cells_run == 0
    assert list(execution.repository.iterdir()) == []


def test_a_runner_that_is_killed_is_a_finding(run: Run) -> None:
    execution = run("import os, signal; os.kill(os.getppid(), signal.SIGKILL)")
    assert "runner ended" in message(execution)
    assert execution.notebook["cells"][1]["outputs"] == []


def test_a_fork_storm_ends_the_sandbox(run: Run) -> None:
    execution = run(
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        limits=Limits(wall_s=60, processes=120),
    )
    assert execution.outcome.stopped == "processes"
    assert "120 processes" in message(execution)
