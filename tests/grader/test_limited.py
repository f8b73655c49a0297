"""Functions in a process of their own: what they return, and how each limit ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from grader.sandbox import limited

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
    """In a Python process of its own: a tester's has descriptors and children of other tests."""
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
