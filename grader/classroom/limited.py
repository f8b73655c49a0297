"""Call a function in a short-lived process with limited memory and processor time.

For what reads a student's files before any sandbox: a parser that a file leads astray, or into a
crash, ends with that process, and the class goes on.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

#: The longest answer of a function, as JSON.
_MOST_ANSWER = 1 << 20


class NoResult(Exception):
    """The function gave no result. The text says why: it follows the name of what was read."""


def call(
    function: Callable[[], dict[str, Any]],
    *,
    cpu_s: int,
    memory_bytes: int,
    wall_s: float = 60.0,
) -> dict[str, Any]:
    """Call a function in a copy of this process, and return what it returns.

    The copy is made by fork: modules that the caller has imported need not be imported again.

    Example::

        count = lambda: {"cells": len(cells.read(path)["cells"])}
        told = limited.call(count, cpu_s=3, memory_bytes=256 << 20)

    Args:
        function: called without arguments; its result must be JSON.
        cpu_s: the most processor time.
        memory_bytes: the most memory, beside what this process has now.
        wall_s: the most time in all.

    Raises:
        NoResult: a limit was reached, or the function raised or crashed.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_answer, args=(function, sender, cpu_s, memory_bytes), daemon=True
    )
    process.start()
    sender.close()  # so that the end of the process ends the pipe
    try:
        with receiver:
            if not receiver.poll(wall_s):
                raise NoResult(f"takes more than {wall_s:g} s")
            answer = json.loads(receiver.recv_bytes(_MOST_ANSWER))
    except (EOFError, OSError, ValueError):  # it gave no answer, or none that is one
        answer = {}
        process.join(1)
    finally:
        process.kill()
        process.join()
    if "result" in answer:
        result: dict[str, Any] = answer["result"]
        return result
    if process.exitcode == -signal.SIGXCPU:
        raise NoResult(f"takes more than {cpu_s} s of processor time")
    raise NoResult(answer.get("error", "ends the program that reads it"))


def _answer(
    function: Callable[[], dict[str, Any]], sender: Connection, cpu_s: int, memory_bytes: int
) -> None:
    """Run in the new process: set the limits, call the function, send the answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to handle
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # a parser's warnings quote what it reads
        os.dup2(nowhere, stream)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, cpu_s)
    _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory_bytes)
    answer: dict[str, Any]
    try:
        answer = {"result": function()}
    except MemoryError:
        answer = {"error": f"takes more than {memory_bytes >> 20} MiB of memory"}
    except Exception as error:
        answer = {"error": f"cannot be read ({type(error).__name__})"}
    sender.send_bytes(json.dumps(answer).encode())


def _limit(which: int, most: int) -> None:
    """Set a limit of this process. One that is lower already stays."""
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, hard))
