"""A student and the judge measure the same.

The same models, requests and machine give the same counts and service times on a student's own
server, in the sandbox that executes a notebook, and in the judge's, where each model has a sandbox
of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from grader import sandbox
from grader.judge.run_notebook import execute
from grader.sandbox.mounts import course
from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

BATCHER = (
    "max_batch_size: 8\n"
    "dynamic_batching { preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 3000000 }\n"
    "instance_group [{ count: 1 kind: KIND_CPU }]\n"
)
PYTHON_MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.weights = np.eye(256, dtype=np.float32)

    def execute(self, requests):
        answers = []
        for request in requests:
            y = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            for _ in range(20):
                y = y @ self.weights
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", y)]))
        return answers
"""

#: Defines `measure(server)`. Each model gets 64 requests at once, which make 8 batches; then rounds
#: of batches of 8, one after the other. Other programs disturbed the fastest round least.
MEASURE = """
import json
import queue
import time

import numpy as np
import tritonclient.grpc as grpc


def record(server, model):
    stats = server.statistics(model)[0]
    return {
        "requests": stats["inference_stats"]["success"]["count"],
        "rows": stats["inference_count"],
        "executions": stats["execution_count"],
        "by size": {b["batch_size"]: b["compute_infer"]["count"] for b in stats["batch_stats"]},
        "ns": stats["inference_stats"]["compute_infer"]["ns"],
    }


def settled(server, model, executions):
    for _ in range(200):
        found = record(server, model)
        if found["executions"] >= executions:
            return found
        time.sleep(0.02)
    return found


def measure(server):
    client = grpc.InferenceServerClient(server.grpc_url)
    client.is_server_live()
    measured = {}
    for model in ("plain", "python"):
        server.load(model)

        def given(rows):
            one = grpc.InferInput("x", [rows, 256], "FP32")
            one.set_data_from_numpy(np.ones((rows, 256), np.float32))
            return [one]

        done = queue.Queue()
        for _ in range(64):
            client.async_infer(model, given(1), lambda result, error: done.put(error))
        errors = [done.get(timeout=60) for _ in range(64)]
        assert errors == [None] * 64, errors
        measured[model] = now = settled(server, model, 8)
        rounds = []
        for number in range(25):
            time.sleep(0.05)  # so that the rounds meet other moments of a busy machine
            before = now
            for _ in range(5):
                client.infer(model, given(8))
            now = settled(server, model, before["executions"] + 5)
            rounds.append((now["ns"] - before["ns"]) / 5)
        measured[model]["service_us"] = min(rounds) / 1000
    return measured
"""


def network() -> bytes:
    """y = x W W … W, 20 times."""
    names = ["x", *(f"h{i}" for i in range(19)), "y"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [a, "W"], [b]) for a, b in itertools.pairwise(names)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 256])],
        [onnx.numpy_helper.from_array(np.eye(256, dtype=np.float32), "W")],
    )
    made = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(made.SerializeToString())


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    io = 'input [{ name: "x" data_type: TYPE_FP32 dims: [ 256 ] }]\n'
    io += 'output [{ name: "y" data_type: TYPE_FP32 dims: [ 256 ] }]\n'
    for name, stated in (
        ("plain", 'platform: "onnxruntime_onnx"'),
        ("python", 'backend: "python"'),
    ):
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(f"{stated}\n{io}{BATCHER}")
    (folder / "plain" / "1" / "model.onnx").write_bytes(network())
    (folder / "python" / "1" / "model.py").write_text(PYTHON_MODEL)
    return folder


def on_the_students_machine(models: Path) -> tuple[dict[str, Any], str]:
    scope: dict[str, Any] = {}
    exec(MEASURE, scope)
    with Triton(models) as server:
        measured = scope["measure"](server)
        assert server.log is not None
        return measured, server.log.read_text()


def in_the_notebooks_sandbox(models: Path, tmp_path: Path) -> tuple[dict[str, Any], str]:
    use = """
    from workbook.server import connect, deploy
    for name in ("plain", "python"):
        deploy(f"models/{name}")
    server = connect()
    for name in ("plain", "python"):
        server.unload(name)  # so that its counts begin at zero
    print(json.dumps(measure(server)))
    """
    cells = [nbformat.v4.new_code_cell(source=c) for c in (MEASURE, dedent(use))]
    submission, out = tmp_path / "submission", tmp_path / "out"
    submission.mkdir()
    models.rename(submission / "models")
    out.mkdir()
    notebook = nbformat.v4.new_notebook(cells=cells)
    ran = execute(json.loads(nbformat.writes(notebook)), submission, "a2__forest", to=out)
    (submission / "models").rename(models)
    shown = "".join(o.get("text", "") for o in ran.notebook["cells"][1]["outputs"])
    assert "{" in shown, (ran.notebook["cells"][1]["outputs"], ran.findings)
    return json.loads(shown[shown.index("{") :].splitlines()[0]), ran.server_log


def in_the_judges_sandbox(models: Path) -> tuple[dict[str, Any], str]:
    use = f"""
    from pathlib import Path
    from grader.judge.judge import SandboxedServer
    started = SandboxedServer(Path({str(models)!r}), "sandbox")
    measured = measure(started.server)
    print(json.dumps([measured, started.log()]))
    """
    bound, environment = course(hidden=True)
    outcome = sandbox.run(
        [sys.executable, "-c", MEASURE + dedent(use)],
        read_only={**bound, str(models): models},
        environment=environment,
        nesting=True,
    )
    assert outcome.code == 0, outcome.stderr
    measured, log = json.loads(outcome.stdout.splitlines()[-1])
    return measured, log


@pytest.mark.alone  # it compares times
@pytest.mark.usefixtures("by_itself")
def test_counts_and_service_times_are_the_same(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A variable such as OPENBLAS_CORETYPE makes numpy use other, slower instructions. Sandboxes
    # have their own environment without it.
    for name in [name for name in os.environ if name.startswith("OPENBLAS_")]:
        monkeypatch.delenv(name)
    found = {
        "on the student's machine": on_the_students_machine(models),
        "in the notebook's sandbox": in_the_notebooks_sandbox(models, tmp_path),
        "in the judge's": in_the_judges_sandbox(models),
    }
    for where, (_, log) in found.items():
        assert "requests inside the server" in log, (
            where
        )  # where NVIDIA's backend runs a model, too
    for model in ("plain", "python"):
        rows = {where: dict(measured[model]) for where, (measured, _) in found.items()}
        times = {where: row.pop("service_us") for where, row in rows.items()}
        for row in rows.values():
            row.pop("ns")
            assert (row["requests"], row["executions"]) == (64, 8), rows
        assert len({json.dumps(row, sort_keys=True) for row in rows.values()}) == 1, rows
        print(model, times)
        assert max(times.values()) < 2.5 * min(times.values()), times
