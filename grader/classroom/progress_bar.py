"""Show how far a run is: a bar on a terminal, elsewhere a line each half minute."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

#: Seconds between two lines.
EVERY_S = 30.0


@contextlib.contextmanager
def shown(console: Console | None, title: str, total: int) -> Iterator[Callable[[], None]]:
    """Show progress within the block; the function that it gives is called after each step.

    Example::

        with progress_bar.shown(console, "Grading a2__forest", total=40) as advance:
            for submission in submissions:
                grade(submission)
                advance()

    Args:
        console: where it is shown; None for nowhere.
        title: what is done.
        total: the number of steps.
    """
    if console is None:
        yield lambda: None
    elif console.is_terminal:
        with _bar(console) as bar:
            line = bar.add_task(title, total=total)
            yield lambda: bar.advance(line)
    else:
        lines = _Lines(console, title, total)
        thread = threading.Thread(target=lines.run, name="progress", daemon=True)
        thread.start()
        try:
            yield lines.advance
        finally:
            lines.ended.set()
            thread.join()


def _bar(console: Console) -> Progress:
    """A progress bar. It is redrawn only twice a second, to leave the processor to the grading."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        refresh_per_second=2,
    )


class _Lines:
    """Prints a line each half minute, in a thread of its own, until `ended` is set."""

    def __init__(self, console: Console, title: str, total: int) -> None:
        self.ended = threading.Event()
        self._console = console
        self._title = title
        self._total = total
        self._done = 0
        self._began = time.monotonic()

    def advance(self) -> None:
        self._done += 1

    def run(self) -> None:
        self._print()
        while not self.ended.wait(EVERY_S):
            self._print()

    def _print(self) -> None:
        took = time.monotonic() - self._began
        text = f"{self._title}: {self._done} of {self._total}"
        if self._done:
            left = took / self._done * (self._total - self._done)
            text += f", {_minutes(took)} so far, about {_minutes(left)} left"
        self._console.print(text, markup=False, soft_wrap=True)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
