"""The task of 08__metrics: a service whose requests mostly wait."""

from __future__ import annotations

from pathlib import Path

import setup
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_CLIENTS, _SHARE = 8, 0.25


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
    parts = min((setup.split(server, "emil", _CLIENTS) for _ in range(2)), key=_share)
    if _share(parts) >= _SHARE:
        raise NotYet(f"{_share(parts):.0%} of the time is spent in the queue.")


def _share(parts: object) -> float:
    """Return the queue's share of a request's time."""
    return float(parts["queue"] / parts.sum())  # type: ignore[index, attr-defined]


def start(folder: Path) -> Server:
    """Start a server with the service as the notebook has it."""
    setup.add(folder, "emil")
    return laboratory(folder)
