"""`require.streams` on a real server: each mistake gets its message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from grader.vocabulary import require, stream
from grader.vocabulary.probe import Probe
from grader.vocabulary.tolerance import Tolerance
from tests.vocabulary.expect import fails_with
from tests.vocabulary.python_models import STREAMING, STREAMING_TEXTS, streaming

pytestmark = [pytest.mark.server, pytest.mark.quick]

WriteModel = Callable[..., Path]
RIGHT = "for k in range(n):\n    time.sleep(0.02)\n    send(k)"
#: Name, body, and a part of the message.
ORDERS = (
    ("order_right", RIGHT, ()),
    ("order_fast", "for k in range(n):\n    send(k)", ()),
    (
        "order_swapped",
        RIGHT.replace("send(k)", "send({2: 3, 3: 2}.get(k, k))"),
        ("come in another order: number 3 of 8 is the first at a wrong place.", "One thread"),
    ),
    (
        "order_short",
        RIGHT.replace("range(n)", "range(n - 1)"),
        ("order_short answers with 7 responses; 8 belong to this request.", "Look."),
    ),
    (
        "order_long",
        RIGHT.replace("range(n)", "range(n + 1)"),
        ("order_long answers with 9 responses; 8 belong",),
    ),
    (
        "order_wrong",
        RIGHT.replace("send(k)", "send(k + (k > 5))"),
        ("2 of 8 responses of order_wrong are not the right ones; number 7 is the first.",),
    ),
    (
        "order_collected",
        "time.sleep(0.3)\nfor k in range(n):\n    send(k)",
        ("The first response of order_collected comes after 0.3", "not sent one by one"),
    ),
    (
        "order_breaks",
        RIGHT + "\n    if k == 3:\n        raise ValueError('at three')",
        ("After 4 responses the stream of order_breaks ends with an error", "at three"),
    ),
    (
        "order_refused",
        "error = pb_utils.TritonError('not today')\n"
        "sender.send(pb_utils.InferenceResponse([], error))",
        ("A request to order_refused failed.", "not today"),
    ),
    ("order_empty", "pass", ("order_empty answers with 0 responses; 8 belong",)),
)


def test_streams_at_once_are_read_side_by_side(probe: Probe, write_model: WriteModel) -> None:
    """A stream that is not read blocks its model, so its answers would seem to be late."""
    config = STREAMING.replace("count: 1", "count: 2")
    write_model("two_at_once", config, streaming(RIGHT))
    n = {"n": np.int32([40])}
    first, second = probe.streams("two_at_once", [n, n], outputs=["k"])
    assert len(first.times) == len(second.times) == 40
    assert max(first.times[30], second.times[30]) < min(first.ended or 0, second.ended or 0)


@pytest.mark.parametrize(("name", "body", "words"), ORDERS, ids=[o[0] for o in ORDERS])
def test_streams_come_in_order(
    name: str, body: str, words: tuple[str, ...], probe: Probe, write_model: WriteModel
) -> None:
    write_model(name, STREAMING, streaming(body))
    n = {"n": np.int32([8])}
    if not words:
        found = require.streams(probe, name, n, "k", expected=range(8))
        assert [part.item() for part in found] == list(range(8))
        return
    with fails_with(*words):
        require.streams(probe, name, n, "k", expected=range(8), help="Look.")


ENDS = (
    ("ends_right", "for k in range(5):\n    send(b'<end>' if k == 4 else b'word')", ()),
    (
        "ends_late",
        "for k in range(7):\n    send(b'<end>' if k == 4 else b'word')",
        ("After the response that should be its last, the stream of ends_late goes on",),
    ),
    (
        "ends_early",
        "for k in range(4):\n    send(b'word')",
        ("The stream of ends_early ends after 4 responses, before the response that should be",),
    ),
    ("ends_at_once", "send(b'<end>')", ("answers with 1 response; at least 2 should come.",)),
)


@pytest.mark.parametrize(("name", "body", "words"), ENDS, ids=[o[0] for o in ENDS])
def test_streams_end_where_they_should(
    name: str, body: str, words: tuple[str, ...], probe: Probe, write_model: WriteModel
) -> None:
    write_model(name, STREAMING_TEXTS, streaming(body, texts=True))

    def check() -> None:
        require.streams(probe, name, {"n": np.int32([8])}, "k", stop=lambda k: k.item() == b"<end>")

    if not words:
        check()
        return
    with fails_with(*words):
        check()


def test_texts_and_numbers_are_compared(probe: Probe, write_model: WriteModel) -> None:
    write_model("same_texts", STREAMING_TEXTS, streaming("send('a')\nsend('ü')", texts=True))
    n = {"n": np.int32([2])}
    require.streams(probe, "same_texts", n, "k", expected=["a", "ü"])
    require.streams(probe, "same_texts", n, "k", expected=[b"a", [["ü".encode()]]])
    with fails_with("1 of 2 responses"):
        require.streams(probe, "same_texts", n, "k", expected=["a", "u"])
    with fails_with("2 of 2 responses"):
        require.streams(probe, "same_texts", n, "k", expected=[1, 2])
    write_model("same_numbers", STREAMING, streaming("send(10)\nsend(20)"))
    require.streams(
        probe, "same_numbers", n, "k", expected=[11, 19], tolerance=Tolerance(1, "so it is")
    )
    with fails_with("1 of 2 responses"):
        require.streams(probe, "same_numbers", n, "k", expected=[10, 19])
    with fails_with("2 of 2 responses"):
        require.streams(probe, "same_numbers", n, "k", expected=["a", [1, 2]])


def test_a_stream_without_an_end(probe: Probe, write_model: WriteModel) -> None:
    write_model("endless_silence", STREAMING, streaming("send(1)", end=False))
    with fails_with("The stream of endless_silence does not end: 1 response came within 1 s"):
        require.streams(probe, "endless_silence", {"n": np.int32([1])}, "k", timeout=1)


def test_a_stream_without_limit(
    probe: Probe, write_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check leaves a stream that is too long, and the model sees the cancellation."""
    body = "while not cancelled():\n    send(1)"
    write_model("endless_numbers", STREAMING, streaming(body))
    monkeypatch.setattr(stream, "MOST_PARTS", 200)
    with fails_with("The stream of endless_numbers is too long: after 200 responses"):
        require.streams(probe, "endless_numbers", {"n": np.int32([1])}, "k")
    monkeypatch.setattr(stream, "MOST_BYTES", 2_000)
    with fails_with("too long", "1 KiB"):
        require.streams(probe, "endless_numbers", {"n": np.int32([1])}, "k")


def test_two_clients_at_once(probe: Probe, write_model: WriteModel) -> None:
    write_model("two_clients", STREAMING, streaming(RIGHT))
    short, long = probe.streams("two_clients", [{"n": np.int32([n])} for n in (2, 5)])
    assert [part["k"].item() for part in short.parts] == [0, 1]
    assert [part["k"].item() for part in long.parts] == [0, 1, 2, 3, 4]
    assert short.times == tuple(sorted(short.times))
    assert long.ended is not None
    assert long.ended >= long.times[-1]
