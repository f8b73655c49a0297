"""Two measuring tests may run at the same time; a test that this disturbs is repeated alone.

The tests with the marker `alone` run after all others, on two workers.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator

from workbook.common import paths


@contextlib.contextmanager
def turn(*, by_itself: bool) -> Iterator[None]:
    """Wait until this test may run, and let others wait until the block ends.

    with turn(by_itself=True):  # no other test that takes turns runs now
        measure()

    Args:
        by_itself: run without any other test that takes turns; otherwise beside another one.
    """
    with (paths.state() / "turns.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if by_itself else fcntl.LOCK_SH)
        yield
