"""Ctrl-C while a program imports its modules.

The imports of `workbook` and `grader` take a third of a second, or more; Python would then print a
traceback. The program has done nothing until then, so Ctrl-C ends it at once. Afterwards
`terminal.run` says what is left of the command's work.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 130  # the exit status of a shell's command that Ctrl-C ended


@contextlib.contextmanager
def end_at_once() -> Iterator[None]:
    """Ctrl-C ends this process within the block, without a traceback.

    If Ctrl-C is ignored, as in a shell's background jobs, it stays ignored.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _end)
    yield
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"Stopped.\n")
    os._exit(INTERRUPTED)
