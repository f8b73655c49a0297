"""Requirements on models that answer with a stream of responses."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from .compare import items, same
from .failure import Failure
from .probe import Array, Inputs, Probe, Stream
from .tolerance import Tolerance

#: A stream that is over within this many seconds is too short to tell when its responses came.
_SHORT = 0.1
#: How many more streams are asked for if the first response came late. On a busy machine a stream
#: can begin late, also a few times in turn; if a model collects its responses, they come late each
#: time.
_AGAIN = 12


def streams(
    server: Probe,
    model: str,
    inputs: Inputs,
    output: str,
    *,
    expected: Sequence[Any] | None = None,
    tolerance: Tolerance | None = None,
    at_least: int = 2,
    first_within: float = 0.5,
    stop: Callable[[Array], bool] | None = None,
    help: str = "",
    timeout: float = 30.0,
) -> list[Array]:
    """The responses to one request; fails unless they come one by one, in order, and end.

    Example::

        tokens = require.streams(
            server, model, {"text": prompt}, "token",
            expected=facts.tokens(prompt), stop=lambda token: token.item() == b"<end>",
        )

    Args:
        server: the check's probe.
        model: the model's name.
        inputs: the request's inputs. The stream should take some tenths of a second.
        output: the output that each response holds.
        expected: what it holds in each response: texts, bytes, numbers or arrays, in order.
        tolerance: how far numbers may be from the expected ones; by default not at all.
        at_least: how many responses must come, where `expected` does not say it.
        first_within: the first response must come within this share of the stream's time. A model
            that collects all responses and sends them at the end does not do that.
        stop: tells whether an output is the last one. The stream must end with the first output for
            which it is true.
        help: what to look at.
        timeout: seconds until the stream must have ended.

    Returns:
        The output of each response, in order.

    Raises:
        Failure: the model refuses the request, or the stream is not as it should be. The message
            tells the position of the first wrong response, not what is right.
    """
    (stream,) = server.streams(model, [inputs], outputs=[output], timeout=timeout)
    found = [part[output] for part in stream.parts]
    if stream.refused is not None and not found:
        raise stream.refused.failure(model)
    if stream.refused is not None:
        raise Failure(
            f"After {_responses(len(found))} the stream of {model} ends with an error: "
            f"{stream.refused.message[:300]}",
            help=help,
            safe="A stream of the model ends with an error.",
        )
    if stream.ended is None:
        raise Failure(
            f"The stream of {model} does not end: {_responses(len(found))} came within "
            f"{timeout:.0f} s, and none said that it was the last one.",
            help="Send TRITONSERVER_RESPONSE_COMPLETE_FINAL for every request, after errors too.",
        )
    if expected is None and len(found) < at_least:
        raise Failure(
            f"{model} answers with {_responses(len(found))}; at least {at_least} should come.",
            help=help,
        )
    if stop is not None:
        _require_stop(model, found, stop, help)
    if expected is not None:
        _require_order(model, found, expected, tolerance, help)
    if not _is_paced(stream, first_within):
        again = (
            server.streams(model, [inputs], outputs=[output], timeout=timeout)[0]
            for _ in range(_AGAIN)
        )
        if not any(_is_paced(other, first_within) for other in again):
            raise Failure(
                f"The first response of {model} comes after {stream.times[0]:.2f} s, the last one "
                f"after {stream.times[-1]:.2f} s: they are not sent one by one.",
                help="Send each response as soon as it is there.",
            )
    return found


def ends_work(
    server: Probe, model: str, inputs: Inputs, *, leave_after: int = 2, timeout: float = 30.0
) -> None:
    """Fail unless the model stops working on a request whose client has left.

    The request is sent twice. The first stream shows how long the whole takes. In the second one
    the client leaves early, and the server's statistics show when the model is done with it. It has
    half of the time that the rest would have taken. Where the rest takes less than 0.4 s, there is
    nothing to see, and the check passes.

    The statistics count a request when `execute` returns. A model that answers from threads of its
    own returns early, so it passes whatever its threads do.

    Example::

        require.ends_work(server, model, {"text": prompt}, leave_after=3)

    Args:
        server: the check's probe.
        model: the model's name.
        inputs: the request's inputs. The stream should take some seconds.
        leave_after: the number of responses after which the client leaves.
        timeout: seconds until the whole stream must have ended.

    Raises:
        Failure: the model goes on, or does not answer afterwards.
    """
    (whole,) = server.streams(model, [inputs], timeout=timeout)
    if whole.refused is not None:
        raise whole.refused.failure(model)
    before = _done(server, model)
    (left,) = server.streams(model, [inputs], leave_after=leave_after, timeout=timeout)
    if whole.ended is None or not left.times:
        raise Failure(
            f"The stream of {model} does not end, or is empty.",
            help="Send at least one response to every request, and at its end "
            "TRITONSERVER_RESPONSE_COMPLETE_FINAL.",
        )
    rest = whole.ended - left.times[-1]
    if left.ended is None and rest >= 0.4:
        deadline = time.monotonic() + rest / 2
        while _done(server, model) == before and time.monotonic() < deadline:
            time.sleep(0.02)
        if _done(server, model) == before:
            raise Failure(
                f"The client left after {len(left.parts)} of {_responses(len(whole.parts))}; "
                f"{rest / 2:.1f} s later {model} still works on its request.",
                help="Ask request.is_cancelled() between two responses, and end the stream.",
            )
    (again,) = server.streams(model, [inputs], leave_after=1, timeout=timeout)
    if not again.parts:
        raise Failure(
            f"After a client has left, {model} does not answer the next one.",
            help="What execute keeps about one request must not change the next one.",
        )


def _require_stop(model: str, found: list[Array], stop: Callable[[Array], bool], help: str) -> None:
    ends = [place for place, value in enumerate(found) if stop(value)]
    if not ends:
        raise Failure(
            f"The stream of {model} ends after {_responses(len(found))}, before the response that "
            "should be its last.",
            help=help,
        )
    if after := len(found) - 1 - ends[0]:
        raise Failure(
            f"After the response that should be its last, the stream of {model} goes on with "
            f"{after} more.",
            help=help,
        )


def _require_order(
    model: str,
    found: list[Array],
    expected: Sequence[Any],
    tolerance: Tolerance | None,
    help: str,
) -> None:
    wrong = [
        place
        for place, (value, right) in enumerate(zip(found, expected, strict=False))
        if not same(value, right, tolerance)
    ]
    if not wrong and len(found) == len(expected):
        return
    if len(found) == len(expected) and Counter(map(items, found)) == Counter(map(items, expected)):
        raise Failure(
            f"The responses of {model} come in another order: number {wrong[0] + 1} of "
            f"{len(found)} is the first at a wrong place.",
            help="One thread should send all responses to a request.",
        )
    if len(found) != len(expected):
        raise Failure(
            f"{model} answers with {_responses(len(found))}; {len(expected)} belong to this "
            "request.",
            help=help,
        )
    raise Failure(
        f"{len(wrong)} of {_responses(len(found))} of {model} are not the right ones; number "
        f"{wrong[0] + 1} is the first.",
        help=help,
    )


def _is_paced(stream: Stream, first_within: float) -> bool:
    """Whether the first response came early, or the stream is too short to tell."""
    if len(stream.times) < 2 or stream.ended is None or stream.ended < _SHORT:
        return True
    return stream.times[0] <= first_within * stream.times[-1]


def _done(server: Probe, model: str) -> int:
    """How many requests the model is done with, whether they succeeded or failed."""
    counts = server.counts(model)
    return counts.requests + counts.failures


def _responses(count: int) -> str:
    return f"{count} response{'s' * (count != 1)}"
