"""Wait for what a server does later, such as unloading or counting."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 40.0) -> None:
    """Return when `condition()` is true; fail if it is not true within this time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so within {seconds:.0f} s"
        time.sleep(0.02)
