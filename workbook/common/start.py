"""The programs `workbook` and `grader`. Ctrl-C prints no traceback while they import their modules.

The imports take a third of a second, more on a busy machine. Nothing has been done until then, so
Ctrl-C ends the program at once. Afterwards `terminal.run` says what it leaves.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130  # the exit status, as of a shell's command that Ctrl-C ended


def workbook() -> None:
    """Run `workbook`."""
    ours = _end_at_once()
    from ..cli import main

    _as_before(ours)
    main()


def grader() -> None:
    """Run `grader`."""
    ours = _end_at_once()
    from grader.cli import main

    _as_before(ours)
    main()


def _end_at_once() -> bool:
    """Let Ctrl-C end this process. False where it is ignored, as in a shell's background jobs."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _end)
    return ours


def _as_before(ours: bool) -> None:
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"Stopped.\n")
    os._exit(INTERRUPTED)
