"""Call a function in a short-lived process with limited memory, processor time and wall clock.

It is for functions that read a student's file. If the file makes a parser crash or never end, the
process ends, and its caller goes on. This also holds for the compiled code of a library: Python's
signal handlers do not interrupt it, and a panic in Rust is no `Exception`.

A file may also make such a library run code. So the result is data: JSON and arrays of limited
size, never a pickle. And no file, pipe or socket of the caller is open in the process, such as the
pipe into which the judge writes its results. The process has the same rights as its caller: a
function that is meant to run a student's code belongs in a sandbox.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import gc
import json
import math
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from workbook.common import bounded_json

#: The longest answer of a function, in bytes: its JSON, and its arrays.
MOST_JSON, MOST_ARRAYS = bounded_json.MOST_BYTES, 512 << 20
#: An answer begins with the length of its JSON, in this form. After the JSON come the arrays.
_LENGTH = struct.Struct("<Q")
_KINDS = "fiub"  # of an array's numbers, as numpy calls them
_CHUNK = 1 << 20
#: The descriptors with which threads wait, as /proc names them. They hold no data.
_WAITING = frozenset({"anon_inode:[eventpoll]", "anon_inode:[eventfd]"})
#: The names of exceptions that come back. No other text does: a file could have chosen it.
_KNOWN = frozenset(
    {name for name, kind in vars(builtins).items() if isinstance(kind, type)} | {"PanicException"}
)


class NoResult(Exception):
    """The function gave no result. The text says why: it follows the name of what was read."""


def call(
    function: Callable[[], Mapping[str, Any]],
    *,
    cpu_s: int,
    memory_bytes: int,
    wall_s: float = 60.0,
) -> dict[str, Any]:
    """Call a function in a copy of this process, and return what it returns.

    The copy is made by fork: modules that the caller has imported need not be imported again.

    Example::

        count = lambda: {"cells": len(cells.read(path)["cells"])}
        answer = limited.call(count, cpu_s=3, memory_bytes=256 << 20)

    Args:
        function: called without arguments. Its result is a dict whose values are JSON, or arrays of
            numbers.
        cpu_s: the most processor time.
        memory_bytes: the most memory, beside what this process has now.
        wall_s: the most time in all.

    Raises:
        NoResult: a limit was reached, or the function raised or crashed.
    """
    until = time.monotonic() + wall_s
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            _answer(function, write, cpu_s, memory_bytes)
        finally:  # also where it raises: nothing of the caller's may go on here
            os._exit(0)
    os.close(write)  # so that the end of the process ends the pipe
    status = 0
    try:
        data = _receive(read, until)
    finally:
        os.close(read)
        # When the answer is there, the process gets a moment to end by itself, or by SIGXCPU.
        status = _wait_for_end(process, min(until, time.monotonic() + 1))
    if data is None:
        raise NoResult(f"takes more than {wall_s:g} s")
    try:
        result, kind = _unpack(data)
    except (ValueError, KeyError, TypeError, OverflowError, struct.error):
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            raise NoResult(f"takes more than {cpu_s} s of processor time") from None
        raise NoResult("ends the program that reads it") from None
    if kind == "MemoryError":
        raise NoResult(f"takes more than {memory_bytes >> 20} MiB of memory")
    if kind:
        raise NoResult(f"cannot be read ({kind})")
    return result


def _receive(pipe: int, until: float) -> bytes | None:
    """All that the process writes; None where it has not closed the pipe in time."""
    data = bytearray()
    waiting = select.poll()  # select.select fails in a process with many open files
    waiting.register(pipe, select.POLLIN)
    while waiting.poll(max(0.0, until - time.monotonic()) * 1000):
        part = os.read(pipe, _CHUNK)
        data += part
        if not part or len(data) > MOST_JSON + MOST_ARRAYS:
            return bytes(data)
    return None


def _wait_for_end(process: int, until: float) -> int:
    """Wait until the process has ended, at the latest end it then; returns its status."""
    end = os.pidfd_open(process)
    try:
        waiting = select.poll()
        waiting.register(end, select.POLLIN)
        waiting.poll(max(0.0, until - time.monotonic()) * 1000)
    finally:
        os.close(end)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
    return status


def _pack(answer: dict[str, Any]) -> bytes:
    """An answer as bytes: the JSON's length, the JSON, and the arrays in its order."""
    result = answer.get("result", {})
    arrays = {name: value for name, value in result.items() if isinstance(value, np.ndarray)}
    header = {
        **answer,
        "arrays": {name: [array.dtype.str, array.shape] for name, array in arrays.items()},
    }
    if "result" in answer:
        header["result"] = {name: value for name, value in result.items() if name not in arrays}
    try:
        text = json.dumps(header, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a character; as an escape it can be sent
        text = json.dumps(header).encode()
    content = b"".join(array.tobytes() for array in arrays.values())
    return _LENGTH.pack(len(text)) + text + content


def _unpack(data: bytes) -> tuple[dict[str, Any], str]:
    """The result in an answer; or, with an empty one, the kind of the exception.

    Raises:
        ValueError, KeyError, TypeError, struct.error: it is no answer.
    """
    (length,) = _LENGTH.unpack_from(data)
    place = _LENGTH.size + length
    header = bounded_json.loads(data[_LENGTH.size : place])
    if "result" not in header:
        if header["kind"] not in _KNOWN:
            raise ValueError("no exception")
        return {}, str(header["kind"])
    result: dict[str, Any] = dict(header["result"])
    for name, (kind, shape) in header["arrays"].items():
        dtype = np.dtype(str(kind))
        if dtype.kind not in _KINDS or dtype.hasobject or min([*shape, 0]) < 0:
            raise ValueError("no array of numbers")
        end = place + dtype.itemsize * math.prod(shape)
        if end > len(data):
            raise ValueError("an array without its numbers")
        result[name] = np.frombuffer(data[place:end], dtype).reshape(shape)
        place = end
    return result, ""


def _answer(
    function: Callable[[], Mapping[str, Any]], pipe: int, cpu_s: int, memory_bytes: int
) -> None:
    """Run in the new process: set the limits, call the function, send the answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to handle
    # What the caller has left to Python's garbage collector stays the caller's. Collected here, a
    # gRPC client with a stream would wait for its thread, which only the caller has.
    gc.freeze()
    pipe = fcntl.fcntl(pipe, fcntl.F_DUPFD, 3)  # the caller may have had no standard input
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # a parser's warnings quote what it reads
        os.dup2(nowhere, stream)
    sys.stdout = sys.stderr = os.fdopen(1, "w", closefd=False)  # a notebook has its own
    pipe = os.dup2(pipe, 3)
    _close_from(4)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, cpu_s)
    _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory_bytes)
    answer: dict[str, Any]
    try:
        answer = {"result": function()}
    except MemoryError:
        answer = {"kind": "MemoryError"}
    except BaseException as error:  # a panic of Rust's is no Exception
        answer = {"kind": _kind(error)}
    view = memoryview(_pack(answer))
    while view:
        view = view[os.write(pipe, view) :]


def _close_from(first: int) -> None:
    """Close the descriptors from `first` on, but not those with which a thread waits.

    A notebook that imports gRPC before this course has gRPC's preparation for forks, which starts a
    thread in each new process. Without its descriptors this thread ends the process (SIGABRT).
    """
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the folder's own descriptor is closed already
            if int(path.name) >= first and str(path.readlink()) not in _WAITING:
                os.close(int(path.name))


def _kind(error: BaseException) -> str:
    """The nearest of Python's own exceptions: `ValueError` for a JSONDecodeError."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KNOWN)


def _limit(which: int, most: int) -> None:
    """Set a limit of this process. One that is lower already stays."""
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, hard))
