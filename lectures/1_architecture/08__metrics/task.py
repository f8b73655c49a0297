"""The task of 08__metrics: a service whose requests mostly wait."""

from __future__ import annotations

from pathlib import Path

import setup
from workbook.lessons.tasks import CannotTell, NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_CLIENTS, _SHARE, _RUNS = 8, 0.25, 3


@define(
    "metrics.queue",
    hints=(
        "Which of the four numbers above the task is the largest? The table before `Means and "
        "quantiles` says what to try for each part.",
        "The model sleeps, so instances cost no core here. How many requests are under way, and "
        "how many can be computed at a time?",
        "With as many instances as clients nobody waits: `count: 8` in instance_group, then load "
        "the model again.",
    ),
)
def queue(server: Server) -> None:
    """With eight clients in a loop, requests to emil spend less than a quarter of their time in
    the queue."""
    shares = []
    for _ in range(_RUNS):
        parts = setup.split(server, "emil", _CLIENTS)
        shares.append(float(parts["queue"] / parts.sum()))
    if max(shares) >= _SHARE > min(shares):
        raise CannotTell(
            f"In {_RUNS} runs {min(shares):.0%} to {max(shares):.0%} of the time was spent in the "
            "queue."
        )
    if min(shares) >= _SHARE:
        raise NotYet(f"{min(shares):.0%} of the time is spent in the queue.")


def start(folder: Path) -> Server:
    """Start a server with the service as the notebook has it."""
    setup.add(folder, "emil")
    return laboratory(folder)
