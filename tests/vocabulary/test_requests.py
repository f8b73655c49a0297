"""The message for a student if the server refuses a check's request that it should answer."""

from __future__ import annotations

import pytest

from grader.vocabulary.requests import Refusal

RAISED = (
    "Failed to process the request(s) for model instance 'm_0', message: ValueError: no sixty-six"
    "\n\nAt:\n  /models/m/1/model.py(7): execute\n"
)


@pytest.mark.parametrize(
    ("message", "rationale", "help"),
    [
        ("odd words", "failed. The server's message: odd words", "Read the server's message:"),
        (" ", "failed. The server gives no message.", "Look at the end of the server's log:"),
        (
            RAISED,
            "m raised ValueError: no sixty-six (1/model.py, line 7, in execute). The",
            "load m again",
        ),
        (
            "in ensemble 'm', "
            + RAISED.replace("instance 'm_0'", "'step_2_0'").replace("/m/", "/step_2/"),
            "step_2 raised ValueError: no sixty-six (1/model.py, line 7, in execute). The",
            "load step_2 again",
        ),
        (
            "unexpected inference input 'z' for model 'm'",
            'm has no input "z". The server\'s message: unexpected inference input',
            "Compare the inputs, outputs and versions in the config of m with the task",
        ),
        (
            "unexpected shape for input 'x' for model 'm'. Expected [-1,1], got [1,2]",
            "and the request sends [1, 2].",
            "Compare the inputs, outputs and versions in the config of m with the task",
        ),
    ],
    ids=["unknown", "empty", "exception", "step", "input", "shape"],
)
def test_a_refused_request_says_what_to_do(message: str, rationale: str, help: str) -> None:
    """The server's message stands above the advice, and a check's own requests get none."""
    failure = Refusal(message, "INTERNAL").failure("m")
    assert failure.rationale.startswith("A request to m failed.")
    assert rationale in failure.rationale
    assert help in failure.help
    for unfit in ("See below", "The request failed", "send 1"):
        assert unfit not in f"{failure.rationale} {failure.help}"
    assert failure.safe == "A request to the model failed."
