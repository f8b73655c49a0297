"""Models that call others, in several instances on the CPU, and that load and unload them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fault_models import CONFIG, KINDS, ask, processes, write
from tritonclient.utils import InferenceServerException

from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]

#: Sends its input to m0. If x[0] is 100, it loads m0 first; if x[0] is 200, it unloads m0.
CALLER = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(r, "x")) for r in requests]

    def answer(self, x):
        first = float(x.as_numpy()[0])
        if first == 100:
            pb_utils.load_model("m0")
        if first == 200:
            pb_utils.unload_model("m0")
        ready = pb_utils.is_model_ready("m0")
        if first >= 100:
            return pb_utils.InferenceResponse([pb_utils.Tensor("y", np.float32([ready]))])
        asked = pb_utils.InferenceRequest(
            model_name="m0", requested_output_names=["y"], inputs=[x]
        ).exec()
        if asked.has_error():
            raise pb_utils.TritonModelException(asked.error().message())
        return pb_utils.InferenceResponse([pb_utils.get_output_tensor_by_name(asked, "y")])
"""


def write_caller(repository: Path, instances: int) -> None:
    """Write the model `caller` with this number of instances on the CPU."""
    folder = write(repository, "caller")
    groups = f"instance_group [{{ count: {instances} kind: KIND_CPU }}]\n"
    (folder / "config.pbtxt").write_text(CONFIG + groups)
    (folder / "1" / "model.py").write_text(CALLER)


def test_instances_call_side_by_side(tmp_path: Path) -> None:
    """24 requests at once to three instances: each gets its own answer, and no process ends."""
    write(tmp_path, "m0")
    write_caller(tmp_path, 3)
    with Triton(tmp_path, models=["m0", "caller"]) as server, ThreadPoolExecutor(24) as pool:
        before = set(processes(server))
        for turn in range(3):
            futures = [
                pool.submit(ask, server, "caller", [turn, i, 0.5], KINDS[i % 2]) for i in range(24)
            ]
            assert all(answer.result(timeout=60) for answer in futures)
        counts = {record["name"]: record for record in server.statistics()}
        assert counts["caller"]["inference_count"] == counts["m0"]["inference_count"] == 72
        assert set(processes(server)) == before


def answer_of(server: Triton, x: float) -> float:
    """The caller's answer to a value for which it does not answer twice the value."""
    tensor = {"name": "x", "shape": [1], "datatype": "FP32", "data": [x]}
    answer = server.request("POST", "/v2/models/caller/infer", json={"inputs": [tensor]})
    return float(answer["outputs"][0]["data"][0])


def test_a_model_loads_asks_and_unloads_another(tmp_path: Path) -> None:
    write(tmp_path, "m0")
    write_caller(tmp_path, 2)
    with Triton(tmp_path, models=["caller"]) as server:
        with pytest.raises(InferenceServerException, match="m0"):
            ask(server, "caller", [1.0])
        for _ in range(3):
            assert answer_of(server, 100) == 1.0
            assert server.ready("m0")
            assert ask(server, "caller", [1.0, 2.0])
            answer_of(server, 200)
            server.wait_unloaded("m0")
            with pytest.raises(InferenceServerException, match="m0"):
                ask(server, "caller", [1.0])
