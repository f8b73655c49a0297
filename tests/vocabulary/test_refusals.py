"""`require.refuses` on a real server: the right model, and each mistake with its message."""

from __future__ import annotations

import numpy as np
import pytest

from grader.vocabulary import require
from grader.vocabulary.probe import Probe
from tests.vocabulary.conftest import Put
from tests.vocabulary.expect import fails_with
from tests.vocabulary.python_models import config

pytestmark = [pytest.mark.server, pytest.mark.quick]

DELAYED = config(
    "x FP32 2", "y FP32 2", "dynamic_batching { max_queue_delay_microseconds: 200000 }"
)
GOOD = {"x": np.float32([[1, 2]])}
BAD = {"x": np.float32([[-1, 2]])}
ERROR = """
if (x < 0).any():
    error = pb_utils.TritonError({message!r}, pb_utils.TritonError.INVALID_ARG)
    responses.append(pb_utils.InferenceResponse([], error))
    {more}
else:
    {right}
"""
#: Each answer of an execution goes to the previous request; the first answer goes to the last.
MOVED = """
if len(responses) == len(requests) > 1 and any(each.has_error() for each in responses):
    responses.append(responses.pop(0))
"""
RAISES = "if (x < 0).any():\n    raise ValueError('x must not be negative')\nanswer(y=x)"


def error(message: str = "x must not be negative", more: str = "pass", right: str = "") -> str:
    return ERROR.format(message=message, more=more, right=right or "answer(y=x)")


@pytest.mark.parametrize(
    ("name", "body", "stated", "words"),
    [
        ("refuses_right", error(), DELAYED, ()),
        # Without batching, an exception is the answer to its own request only.
        ("refuses_alone", RAISES, config(batch=0, inputs="x FP32 -1 2", outputs="y FP32 -1 2"), ()),
        (
            "refuses_nothing",
            "answer(y=x)",
            DELAYED,
            ("refuses_nothing answers a negative number; it should refuse it", "Look at execute."),
        ),
        (
            "refuses_all",
            RAISES,
            DELAYED,
            ("Beside a negative number, refuses_all refuses a right request too.", "by itself"),
        ),
        (
            "refuses_its_neighbour",
            error() + MOVED,
            DELAYED,
            (
                "A negative number and two right requests were sent at once.",
                "Are the responses in the order of the requests?",
            ),
        ),
        (
            "refuses_unclearly",
            error("no"),
            DELAYED,
            ("but the message does not say why: 'no'.", "Look at execute."),
        ),
        (
            "refuses_forever",
            error(
                more="self.broken = True",
                right="\n    ".join(
                    [
                        "if getattr(self, 'broken', False) and len(requests) == 1:",
                        "    raise ValueError('still broken')",
                        "answer(y=x)",
                    ]
                ),
            ),
            DELAYED,
            ("After a negative number, refuses_forever refuses right requests as well", "broken"),
        ),
        (
            "refuses_late",
            "if (x < 0).any():\n    time.sleep(4)\nanswer(y=x)",
            DELAYED,
            ("refuses_late did not answer within 2 s.",),
        ),
    ],
)
def test_refuses(
    name: str, body: str, stated: str, words: tuple[str, ...], put: Put, probe: Probe
) -> None:
    put(name, body, stated)

    def check() -> None:
        require.refuses(
            probe,
            name,
            BAD,
            "a negative number",
            good=GOOD,
            naming=("x", "negative"),
            help="Look at execute.",
            timeout=2,
        )

    if not words:
        check()
        return
    with fails_with(*words) as failure:
        check()
    assert "model.py(" not in failure.text  # no traceback, with the judge's folders


def test_what_waited_too_long_is_sent_again(put: Put, probe: Probe) -> None:
    """A queue policy refuses requests while the machine is busy: here, during the first one."""
    slow = "if not hasattr(self, 'warm'):\n    self.warm = True\n    time.sleep(0.5)\n"
    policy = (
        "dynamic_batching { default_queue_policy "
        "{ timeout_action: REJECT default_timeout_microseconds: 100000 } }"
    )
    waits = slow + error(), config("x FP32 2", "y FP32 2", policy, batch=1)
    put("refuses_what_waits", *waits)
    first = probe.outcomes("refuses_what_waits", [GOOD, GOOD, GOOD])
    assert any("Request timeout expired" in getattr(one, "message", "") for one in first)
    put("refuses_what_waits_2", *waits)
    require.refuses(
        probe, "refuses_what_waits_2", BAD, "a negative number", good=GOOD, naming=("negative",)
    )


def test_a_model_that_ends_its_process(put: Put, probe: Probe) -> None:
    """The good request beside it is lost, or the one after it; both have a message."""
    body = "if (x < 0).any():\n    import os\n    os._exit(1)\nanswer(y=x)"
    put("refuses_dying", body, DELAYED)
    with fails_with("a negative number, refuses_dying refuses"):
        require.refuses(probe, "refuses_dying", BAD, "a negative number", good=GOOD, timeout=10)
