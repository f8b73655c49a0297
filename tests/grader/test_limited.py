"""Functions in a process of their own: what they return, and how each limit ends them."""

from __future__ import annotations

import gc
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from grader.sandbox import limited

pytestmark = [pytest.mark.server, pytest.mark.quick]

MB = 1 << 20


def spin() -> dict[str, object]:
    while True:
        pass


def run(function: object, **limits: float) -> dict[str, object]:
    chosen = {"cpu_s": 5, "memory_bytes": 64 * MB, **limits}
    return limited.call(function, **chosen)  # type: ignore[arg-type]


def test_the_result_comes_back() -> None:
    assert run(lambda: {"pid": os.getpid()})["pid"] != os.getpid()
    assert run(dict) == {}


@pytest.mark.parametrize(
    ("function", "limits", "words"),
    [
        (spin, {"cpu_s": 1}, "takes more than 1 s of processor time"),
        (lambda: {"x": len(bytes(200 * MB))}, {}, "takes more than 64 MiB of memory"),
        (lambda: time.sleep(60), {"wall_s": 0.5}, "takes more than 0.5 s"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), {}, "ends the program that reads it"),
        (lambda: sys.exit(3), {}, r"cannot be read \(SystemExit\)"),
        (lambda: {}["missing"], {}, r"cannot be read \(KeyError\)"),
        (lambda: {"x": "y" * 30 * MB}, {"memory_bytes": 512 * MB}, "ends the program"),
    ],
)
def test_a_limit_ends_it(function: object, limits: dict[str, float], words: str) -> None:
    with pytest.raises(limited.NoResult, match=words):
        run(function, **limits)


def test_what_it_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    run(lambda: {"x": os.write(1, b"\x1b[2J"), "y": os.write(2, b"\x1b[2J")})
    assert capfd.readouterr() == ("", "")


def test_nothing_is_left_of_it() -> None:
    """Runs in a new Python process: a test process has descriptors and children of other tests."""
    code = """
import os
import psutil
from grader.sandbox import limited

def left():
    return os.listdir("/proc/self/fd"), psutil.Process().children()

def call():
    return limited.call(dict, cpu_s=5, memory_bytes=64 << 20)

call()  # what is imported or opened once
before = left()
for _ in range(20):
    call()
assert left() == before, (before, left())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_ends_well_beside_grpc_that_was_imported_first() -> None:
    """As in a notebook whose kernel `make lab` did not start: gRPC is prepared for forks there."""
    code = """
import grpc
channel = grpc.insecure_channel("localhost:1")
unanswered = channel.unary_unary("/a/b", _registered_method=False)
from grader.sandbox import limited

for _ in range(40):
    try:
        unanswered(b"", timeout=5)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert limited.call(lambda: {"x": 1}, cpu_s=5, memory_bytes=64 << 20) == {"x": 1}
"""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("GRPC_ENABLE")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


class Circle:
    """An object that only the garbage collector removes."""

    collected = False

    def __init__(self) -> None:
        self.circle = self

    def __del__(self) -> None:
        Circle.collected = True


def test_what_the_caller_left_to_the_garbage_collector_is_not_collected_there() -> None:
    """There a gRPC client with a stream would wait for its thread, which only the caller has."""
    gc.disable()
    try:
        Circle()
        assert run(lambda: {"n": gc.collect(), "collected": Circle.collected})["collected"] is False
        gc.collect()
        assert Circle.collected
    finally:
        gc.enable()


def test_arrays_come_back() -> None:
    """They return as numbers with their type and shape, not as objects."""
    sent = {
        "half": np.arange(6, dtype=np.float16).reshape(2, 3),
        "none": np.zeros((0, 4)),
        "scalar": np.array(True),
    }
    found = run(lambda: {"names": ["ö", "\ud800"], **sent}, memory_bytes=256 * MB)
    assert found.pop("names") == ["ö", "\ud800"]
    assert found.keys() == sent.keys()
    for name, array in sent.items():
        np.testing.assert_array_equal(found[name], array)  # type: ignore[arg-type]
        assert found[name].dtype == array.dtype  # type: ignore[attr-defined]
    with pytest.raises(limited.NoResult):
        run(lambda: {"x": np.array([object()])})


class PanicException(BaseException):
    """Has the name of a Rust panic in libraries that are made with pyo3."""


def panic() -> dict[str, object]:
    raise PanicException("told by a file")


def test_a_panic_is_no_end_of_the_caller() -> None:
    with pytest.raises(limited.NoResult, match=r"^cannot be read \(PanicException\)$"):
        run(panic)


def forge(data: bytes, *, then: float = 0) -> dict[str, object]:
    """Does what code in a file could do: writes an answer of its own, and keeps running."""
    os.write(3, data)
    if then:
        os.close(3)
        time.sleep(then)
    os._exit(0)


def forged(header: str, rest: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header.encode() + rest


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        forged("[" * 100_000),
        forged("{}"),
        forged('{"kind": "what a file says"}'),
        forged('{"result": 7, "arrays": {}}'),
        forged('{"result": {}, "arrays": {"x": ["|O", [1]]}}', b"12345678"),
        forged('{"result": {}, "arrays": {"x": ["<f8", [1000000000000]]}}'),
        forged('{"result": {}, "arrays": {"x": ["<f8", [-1]]}}', b"12345678"),
        forged('{"result": {}, "arrays": {"x": ["no type", [1]]}}', b"12345678"),
        forged('{"result": {}, "arrays": {"x": ["<f8", 1]}}', b"12345678"),
    ],
)
def test_a_forged_answer_is_none(data: bytes) -> None:
    with pytest.raises(limited.NoResult, match="ends the program that reads it"):
        run(lambda: forge(data))


def test_a_process_that_stays_after_its_answer_is_ended() -> None:
    began = time.monotonic()
    assert run(lambda: forge(forged('{"result": {"x": 1}, "arrays": {}}'), then=60)) == {"x": 1}
    assert time.monotonic() - began < 10


def test_it_has_none_of_its_caller_s_files(tmp_path: Path) -> None:
    """For example the pipe into which the judge writes its results."""
    with (tmp_path / "open").open("wb") as file:
        descriptor = file.fileno()
        places = [Path(f"/proc/self/fd/{number}") for number in range(3)]
        found = run(lambda: {"open": [str(place.readlink()) for place in places]})
        assert found == {"open": ["/dev/null"] * 3}
        with pytest.raises(limited.NoResult, match="OSError"):
            run(lambda: {"written": os.write(descriptor, b"x")})
