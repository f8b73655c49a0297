"""Read a student's file with a library, so that the worst file costs only the check that reads it.

A library can crash, take all memory, or never end on a file that was made for that: a regular
expression in a tokenizer, a shape in an ONNX file. So it works in a process of its own, with a
clock (sandbox/limited.py), which returns plain data::

    found = untrusted.read("The file m/1/model.onnx", lambda: {"nodes": count(path)}, help="…")
    found["nodes"]

`Failure` may be raised within it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..sandbox import limited
from .failure import Failure

#: The most seconds, and the most memory beside what the caller has. No file of the course's needs a
#: tenth of it.
SECONDS, MEMORY = 15, 1 << 30


def read(
    name: str,
    function: Callable[[], Mapping[str, Any]],
    *,
    help: str = "",
    seconds: int = SECONDS,
    memory: int = MEMORY,
) -> dict[str, Any]:
    """Call a function that reads a student's file, in a process of its own.

    Args:
        name: what is read, for the message: it begins a sentence.
        function: called without arguments. It returns a dict of JSON and of arrays of numbers.
            What it imports should be imported before, so that the process need not do it.
        help: what to look at where nothing can be read.
        seconds: of processor time. On the wall clock it may take twice as long.
        memory: bytes.

    Returns:
        What the function returned. A hostile file could have made it anything within the limits.

    Raises:
        Failure: the function raised it; or it raised something else, crashed, or met a limit.
    """
    try:
        found = limited.call(
            lambda: _caught(function), cpu_s=seconds, memory_bytes=memory, wall_s=2.0 * seconds
        )
    except limited.NoResult as reason:
        raise Failure(f"{name} {reason}.", help=help) from None
    if "failure" in found:
        rationale, help, credit = found["failure"]
        raise Failure(str(rationale), help=str(help), credit=min(max(float(credit), 0.0), 0.99))
    return found


def _caught(function: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """In the process: what the function returns, or the `Failure` that it raises, as data.

    A failure's `safe` text does not come back: a file must not decide what students read.
    """
    try:
        return function()
    except Failure as failure:
        return {"failure": (failure.rationale, failure.help, failure.credit)}
