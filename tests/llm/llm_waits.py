"""Read what a server counts, and wait for it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from workbook.server import Triton


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Return when `condition()` is true; fail if it is not true within this time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so within {seconds:.0f} s"
        time.sleep(0.05)


def metrics(server: Triton, name: str, model: str) -> float:
    """A metric of a model, summed over its other labels."""
    lines = [line for line in server.metrics().splitlines() if line.startswith(name + "{")]
    found = [line for line in lines if f'model="{model}"' in line]
    assert found, f"no metric {name} of {model}"
    return sum(float(line.split()[-1]) for line in found)


def cancelled(server: Triton) -> int:
    """How many requests were cancelled while the server's models answered them, as they report."""
    return len(re.findall(r'"cancelled after \d+ tokens"|was cancelled"', server.log_text()))


def pending(server: Triton, model: str) -> float:
    """How many requests wait for a model."""
    return metrics(server, "nv_inference_pending_request_count", model)


def shared_memory(server: Triton) -> int:
    """Bytes of the shared memory through which the server and its models exchange requests."""
    maps = Path(f"/proc/{server.pid}/maps").read_text()
    return sum(Path(place).stat().st_size for place in set(re.findall(r"/dev/shm/\S+", maps)))
