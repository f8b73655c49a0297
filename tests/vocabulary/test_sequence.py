"""`require.sequence` on a real server: running totals, right and with each mistake."""

from __future__ import annotations

import numpy as np
import pytest

from grader.vocabulary import require
from grader.vocabulary.probe import Probe
from grader.vocabulary.tolerance import Tolerance
from tests.vocabulary.conftest import Put
from tests.vocabulary.expect import fails_with
from tests.vocabulary.python_models import config

pytestmark = [pytest.mark.server, pytest.mark.quick]

BATCHING = """
sequence_batching {
  max_sequence_idle_microseconds: 5000000
  direct { }
  control_input {
    name: "START"
    control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }
  }
  control_input {
    name: "ID"
    control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }
  }
}
"""
TOTAL = config("x FP32 1", "y FP32 1", BATCHING)
RIGHT = """
start = pb_utils.get_input_tensor_by_name(request, "START").as_numpy().ravel()[0]
id = int(pb_utils.get_input_tensor_by_name(request, "ID").as_numpy().ravel()[0])
self.state[id] = x if start else self.state.get(id, 0) + x
answer(y=self.state[id])
"""
STEPS = [[1, 2, 3], [10, 20, 30, 40], [5]]
SUMS = [[1, 3, 6], [10, 30, 60, 100], [5]]


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("total_right", RIGHT, ()),
        (
            "total_none",
            "answer(y=x)",
            ("A sequence alone: the answer to request 2 of 3 is wrong.", "Add them up."),
        ),
        (
            "total_for_ever",
            RIGHT.replace("x if start else ", ""),
            ("The same sequence once more", "request 1 of 3 is wrong", "must find a new state"),
        ),
        (
            "total_shared",
            RIGHT.replace("self.state[id]", "self.state[0]").replace("get(id", "get(0"),
            ("3 sequences at once: the answer to request 2 of 3 of sequence 1 is wrong.", "own"),
        ),
    ],
)
def test_sequence(name: str, body: str, words: tuple[str, ...], put: Put, probe: Probe) -> None:
    put(name, body, TOTAL)
    sequences = [[{"x": np.float32([[step]])} for step in steps] for steps in STEPS]

    def check() -> None:
        require.sequence(probe, name, sequences, "y", SUMS, help="Add them up.")

    if not words:
        check()
        almost = [[value + 0.25 for value in sums] for sums in SUMS]
        require.sequence(probe, name, sequences, "y", almost, tolerance=Tolerance(0.5, "so it is"))
        return
    with fails_with(*words):
        check()


def test_a_model_without_sequences(put: Put, probe: Probe) -> None:
    put("total_unbatched", "answer(y=x)", config("x FP32 1", "y FP32 1"))
    with fails_with(
        "The config of total_unbatched, as the server parsed it, has no sequence_batching"
    ):
        require.sequence(probe, "total_unbatched", [[{"x": np.float32([[1]])}]], "y", [[1]])
