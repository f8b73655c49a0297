"""Streams: requests that are answered by several responses, one after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import requests as form
from .failure import Failure
from .requests import Array, Inputs, Refusal

#: A stream may have this many responses, and as many bytes in all of them.
MOST_PARTS, MOST_BYTES = 10_000, 64 << 20


@dataclasses.dataclass(frozen=True)
class Stream:
    """What came back for one request.

    Attributes:
        parts: the responses in the order in which they came, each with its outputs by name. The
            empty response that only says that the stream has ended is not among them.
        times: for each of them, the seconds since the request was sent.
        ended: the seconds until the server said that the stream has ended; None if the client left
            before that, or the time was up.
        refused: the error with which the stream ended, if it did.
    """

    parts: tuple[dict[str, Array], ...]
    times: tuple[float, ...]
    ended: float | None
    refused: Refusal | None = None


def streams(
    connect: Callable[[], Any],
    model: str,
    requests: Sequence[Inputs],
    *,
    outputs: Iterable[str],
    declared: Mapping[str, str],
    leave_after: int | None,
    timeout: float,
) -> list[Stream]:
    """Send each request by a client of its own, all at once, and collect what comes back.

    Args:
        connect: makes a gRPC client. A client has one stream only.
        model: the model's name.
        requests: the inputs of each request.
        outputs: the outputs that each response must have; none: whatever it has.
        declared: the data type that the config states for each output.
        leave_after: leave after this many responses, so that the server cancels the request.
        timeout: seconds until a stream must have ended.

    Returns:
        One stream per request.

    Raises:
        Failure: a response cannot be read, or a stream is too long.
    """
    names = list(outputs)
    with contextlib.ExitStack() as stack:
        begun = []
        for inputs in requests:
            client, came = connect(), _Incoming()
            stack.callback(_close, client, came)
            client.start_stream(came.put)
            sent = time.monotonic()
            client.async_stream_infer(
                model,
                form.tensors(inputs),
                outputs=form.wanted(names),
                enable_empty_final_response=True,
            )
            begun.append((client, came, sent))

        def collect(one: tuple[Any, _Incoming, float]) -> Stream:
            return _collect(model, *one, names, declared, leave_after, timeout)

        # A stream that nobody reads makes the model wait, and with it perhaps the others.
        with ThreadPoolExecutor(max(1, len(begun))) as readers:
            return list(readers.map(collect, begun))


class _Incoming:
    """The responses that have come and are not read yet. When many wait, the server waits too."""

    def __init__(self) -> None:
        self.closed = self.ended = False
        self._queue: queue.Queue[tuple[float, Any, Any]] = queue.Queue(maxsize=16)

    def put(self, result: Any, error: Any) -> None:
        """Called by the client's own thread."""
        item = (time.monotonic(), result, error)
        while not self.closed:
            with contextlib.suppress(queue.Full):
                self._queue.put(item, timeout=0.1)
                return

    def get(self, deadline: float) -> tuple[float, Any, Any] | None:
        """The next response; None if none has come before the deadline."""
        left = deadline - time.monotonic()
        with contextlib.suppress(queue.Empty):
            return self._queue.get(timeout=left) if left > 0 else None
        return None


def _collect(
    model: str,
    client: Any,
    came: _Incoming,
    sent: float,
    names: list[str],
    declared: Mapping[str, str],
    leave_after: int | None,
    timeout: float,
) -> Stream:
    parts: list[dict[str, Array]] = []
    times: list[float] = []
    size = 0
    while len(parts) != leave_after:
        item = came.get(sent + timeout)
        if item is None:
            return Stream(tuple(parts), tuple(times), None)
        when, result, error = item
        if error is not None:
            return Stream(tuple(parts), tuple(times), when - sent, form.refusal(error))
        response = result.get_response()
        is_last = response.parameters["triton_final_response"].bool_param
        if response.outputs or not is_last:
            size += response.ByteSize()
            if len(parts) >= MOST_PARTS or size > MOST_BYTES:
                raise Failure(
                    f"The stream of {model} is too long: after {len(parts)} responses of "
                    f"{size >> 10} KiB together there are still more.",
                    help="Does the loop that sends them come to an end?",
                )
            parts.append(form.read(model, result, names, declared))
            times.append(when - sent)
        if is_last:
            came.ended = True
            return Stream(tuple(parts), tuple(times), when - sent)
    came.closed = True
    client.stop_stream(cancel_requests=True)
    return Stream(tuple(parts), tuple(times), None)


def _close(client: Any, came: _Incoming) -> None:
    came.closed = True  # the client's thread may be waiting to put a response
    # Where a client cancels a stream that has just ended, Triton 24.10 may keep its request: about
    # once in 80 streams the model could not be unloaded any more.
    with contextlib.suppress(Exception):
        client.stop_stream(cancel_requests=not came.ended)
    with contextlib.suppress(Exception):
        client.close()
