"""Python models that try to end the judge's server, or to disturb other models.

Each is served as the judge serves it. It may only lose its own checks: afterwards another model
answers, on this server or on a new one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.grader.test_jail import serve

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]
HEAD = """\
import json
import os
import threading
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


def told(what):
    answer = np.array([json.dumps(what, default=str).encode()], dtype=object)
    return pb_utils.InferenceResponse([pb_utils.Tensor("told", answer)])


class TritonPythonModel:
"""
#: What `execute` does in each model. The models in FATAL may end the server.
MODELS = {
    "shouts": """
    def execute(self, requests):
        text = "\\x1b[2J<script>alert(1)</script>\\r\\n\\0\\u202e" + "x" * (8 << 20)
        return [pb_utils.InferenceResponse([], pb_utils.TritonError(text)) for _ in requests]
""",
    "calls": """
    def execute(self, requests):
        said = []
        for name in ("last", "secret", "", "../secret", "x" * 10_000):
            asked = pb_utils.InferenceRequest(
                model_name=name, requested_output_names=["told"],
                inputs=[pb_utils.Tensor("x", np.ones((1,), np.float32))])
            try:
                answer = asked.exec()
                said.append(answer.has_error() or "answered")
            except Exception as error:
                said.append(type(error).__name__)
        return [told(said) for _ in requests]
""",
    "fills": """
    def execute(self, requests):
        said = []
        for place in ("/dev/shm/x", "/tmp/x"):
            try:
                with open(place, "wb") as file:
                    for _ in range(4096):
                        file.write(bytes(1 << 20))
            except OSError as error:
                said.append(error.strerror)
        return [told(said) for _ in requests]
""",
    "many": """
    def execute(self, requests):
        one = pb_utils.Tensor("told", np.array([b'"x"'], dtype=object))
        return [pb_utils.InferenceResponse([one] * 5_000) for _ in requests]
""",
    "late": """
    def execute(self, requests):
        senders = [request.get_response_sender() for request in requests]
        def again():
            for _ in range(200):
                for sender in senders:
                    try:
                        sender.send(told("again"), flags=1)
                    except Exception:
                        pass
        threads = [threading.Thread(target=again) for _ in range(8)]
        for thread in threads:
            thread.start()
        return [told("first") for _ in requests]
""",
}
#: The last one reaches a fault of release 24.10: if the server refuses a metric, the stub reads the
#: error's text after the server has freed it, and so damages the heap of their shared memory
#: (python_backend, `Stub::SendMessage` in src/pb_stub.h).
FATAL = {
    "region": """
    def execute(self, requests):
        region = Path("/dev/shm", os.listdir("/dev/shm")[0])
        with region.open("r+b") as file:
            file.write(os.urandom(min(region.stat().st_size, 1 << 20)))
        return [told("written") for _ in requests]
""",
    "cut": """
    def execute(self, requests):
        os.truncate(Path("/dev/shm", os.listdir("/dev/shm")[0]), 0)
        return [told("cut") for _ in requests]
""",
    "metrics": """
    def execute(self, requests):
        said = []
        for name in ("", "bad name", "1\\n# TYPE x", "nv_inference_count", "x" * 70_000):
            for kind in (pb_utils.MetricFamily.COUNTER, pb_utils.MetricFamily.GAUGE):
                try:
                    family = pb_utils.MetricFamily(name=name, description=name, kind=kind)
                    family.Metric(labels={"__name__": "y", "": "z", name: '"} 1\\n'}).increment(1)
                    said.append("made")
                except Exception as error:
                    said.append(type(error).__name__)
        return [told(said) for _ in requests]
""",
}
LAST = """
    def execute(self, requests):
        return [told("fine") for _ in requests]
"""
SECRET = """
    def execute(self, requests):
        return [told("LEAK") for _ in requests]
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each model answered. `secret` lies in the repository, and nobody loads it."""
    models = {name: HEAD + body for name, body in MODELS.items()}
    models |= {"last": HEAD + LAST, "secret": HEAD + SECRET}
    return serve(tmp_path_factory.mktemp("models"), models, "last", *MODELS, "last")


def test_the_model_beside_them_answers(answers: dict[str, Any]) -> None:
    assert answers["last"] == "fine"
    assert "last" in answers["ready"]
    assert "secret" not in answers["ready"]


def test_an_error_of_eight_megabytes_is_an_error(answers: dict[str, Any]) -> None:
    assert answers["shouts"]["error"].startswith("\x1b[2J")  # pages replace what is obeyed


def test_a_model_that_was_not_loaded_cannot_be_called(answers: dict[str, Any]) -> None:
    """`last` is loaded, and may be called; `secret` lies in the same repository."""
    assert answers["calls"] == ["answered", True, True, True, True]


def test_its_folders_end_where_they_are_full(answers: dict[str, Any]) -> None:
    assert answers["fills"] == ["No space left on device"] * 2


def test_a_response_with_thousands_of_outputs(answers: dict[str, Any]) -> None:
    assert answers["many"] == "x"


def test_responses_after_the_last_one(answers: dict[str, Any]) -> None:
    assert answers["late"] in ("first", "again")  # one of the two answers, and not a second one


@pytest.mark.parametrize("name", FATAL)
def test_a_damaged_region_ends_no_more_than_the_server(tmp_path: Path, name: str) -> None:
    """The judge counts a server that has ended as lost, and starts another for the next check."""
    found = serve(tmp_path, {"good": HEAD + LAST, name: HEAD + FATAL[name]}, "good", name)
    assert found["good"] == "fine"
    if not found["ready"]:
        assert re.search(r"Signal|signal|terminate|ssert|corrupt|Error|error", found["log"])
