"""Models that repeat their inputs, in every form of an answer.

Each hidden variant of an assignment with Python models asks them, on a real server. Instructors
read what such a model answered; students read a text of the check, and a mark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.authoring.mutants import Edit, Mutant
from grader.vocabulary.define import evaluate_hidden, load
from grader.vocabulary.probe import Probe
from grader.vocabulary.results import CheckResult
from tests.assignment_runs import Models, Run, as_the_students, solution_files
from tests.hidden_texts import assert_tells_nothing
from workbook import assignments
from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

#: The models that the student writes, by assignment.
PROGRAMS = {
    "a1": ("classifier",),
    "a3": ("letters", "detect_bls"),
    "a6": ("chat", "chat_stream"),
}
#: vLLM takes half a minute to start, and no hidden variant asks it.
WITHOUT_VLLM = Mutant(
    "without vLLM",
    (
        Edit("a6.engine", "", "chat_vllm = of_vllm = facts.NOT_ATTEMPTED"),
        Edit("a6.measure", "", "rates = ..."),
    ),
)
#: How the models repeat their inputs: every way, if a check takes only a moment.
WAYS = {
    "a1": ("error", "exception", "shape", "value", "dtype", "time"),
    "a3": ("error", "value"),
    "a6": ("error", "number"),
}
#: The beginning of every repeated text.
MARK = "told-to-the-student"

#: A model for any assignment: it builds its answers from the config only.
HOSTILE = """
import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils

WAY, MARK = "{way}", "{mark}"


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.outputs = [
            (out["name"], pb_utils.triton_string_to_numpy(out["data_type"]), out["dims"])
            for out in config["output"]
        ]
        self.batches = int(config["max_batch_size"]) > 0
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(config)

    def execute(self, requests):
        if WAY == "exception":
            raise ValueError(self.told(requests[0])[0])
        found = []
        for request in requests:
            text, rows = self.told(request)
            responses = [self.response(text, rows)]
            if WAY == "number" and self.decoupled:
                responses *= len(text) % 7
            if WAY == "time":
                time.sleep(0.001 * len(text))
            found.append(responses[0] if not self.decoupled else None)
            if self.decoupled:
                sender = request.get_response_sender()
                for one in responses:
                    sender.send(one)
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None if self.decoupled else found

    def told(self, request):
        array = request.inputs()[0].as_numpy()
        text = repr(array.ravel()[0])[:200]
        return f"{MARK} {text}", len(array)

    def response(self, text, rows):
        if WAY == "error":
            return pb_utils.InferenceResponse([], pb_utils.TritonError(text))
        codes = np.frombuffer(text[len(MARK) :].encode(), np.uint8)
        tensors = []
        for name, kind, dims in self.outputs:
            shape = [1 if dim < 0 else dim for dim in map(int, dims)]
            shape = [rows, *shape] if self.batches else shape
            if WAY == "shape":
                shape = [*shape, len(text), int(codes[-2])]
            if kind in (np.object_, np.bytes_):
                array = np.full(shape, text.encode(), object)
            else:
                array = np.resize(codes, shape).astype(kind)
            if WAY == "dtype" and kind not in (np.object_, np.bytes_):
                array = array.astype(np.uint8 if codes[-2] % 2 else np.int16)
            tensors.append(pb_utils.Tensor(name, array))
        return pb_utils.InferenceResponse(tensors)
"""


@pytest.fixture(scope="module", autouse=True)
def notebooks_find_the_server(server: Triton) -> Iterator[None]:
    with as_the_students(server):
        yield


@pytest.fixture(scope="module")
def hostile(
    server: Triton, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], Run]]:
    """A function: an assignment's solution, with programs that repeat what they are asked."""
    models = Models(server)
    solved: dict[str, tuple[Path, Run]] = {}

    def deployed(short: str, way: str) -> Run:
        assignment = assignments.named(short)
        if short not in solved:
            place = solution_files(assignment, tmp_path_factory.mktemp(short) / "work")
            with contextlib.chdir(place):
                run = Run(assignment, models, WITHOUT_VLLM if short == "a6" else None)
            solved[short] = place, run
        place, run = solved[short]
        run.restore(models)
        for name in PROGRAMS[short]:
            text = HOSTILE.replace("{way}", way).replace("{mark}", MARK)
            (place / "models" / name / "1" / "model.py").write_text(text)
            models.deploy(place / "models" / name, again=True)
        return run

    yield deployed
    models.clear()


@pytest.mark.parametrize(
    ("short", "way"), [(short, way) for short, ways in WAYS.items() for way in ways]
)
def test_a_hidden_variant_tells_students_nothing_of_an_answer(
    short: str, way: str, server: Triton, hostile: Callable[[str, str], Run]
) -> None:
    """Whatever a model puts into an answer, its texts for students stand in the source."""
    run = hostile(short, way)
    found: list[CheckResult] = []
    with contextlib.closing(Probe(server)) as probe:
        for check in load(short, variants=True).values():
            values: dict[str, Any] = {
                "of_vllm": ["x"],
                "vllm": "x",
                "rates": {},
                **run.handed[check.id],
            }
            passed = CheckResult(id=check.id, sentence=check.sentence, status="passed", credit=1)
            given = {name: values[name] for name in check.parameters}
            probe.seed(1)
            result = evaluate_hidden(check, lambda: probe, given, {}, passed)
            assert_tells_nothing(result, check)
            assert MARK not in result.model_dump_json(exclude={"found"})
            found.append(result)
    failed = [result for result in found if result.hidden]
    assert len(failed) >= 3, found
    if way in ("error", "exception"):
        assert any(MARK in result.found for result in failed), failed
