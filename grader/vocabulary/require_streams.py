"""Requirements on models that answer with a stream of responses."""

from __future__ import annotations

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


def _responses(count: int) -> str:
    return f"{count} response{'s' * (count != 1)}"
