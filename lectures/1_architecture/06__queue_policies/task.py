"""The task of 06__queue_policies: a policy for an ordinary day and for a flood."""

from __future__ import annotations

from pathlib import Path

import setup
from workbook import measure
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_REFUSED, _LONGEST_MS = 0.05, 350


@define(
    "policies.flooded",
    hints=(
        "A longer queue serves the ordinary day. Try it, and look at what becomes of the flood: "
        "how many are served, and was the model busy all the time?",
        "A request that a full queue refuses does not wake the batcher (see the half second "
        "above). A request that may wait in the queue wakes it. Which setting other than a size "
        "can end the wait?",
        "`timeout_action: REJECT` with a default timeout of 200000 microseconds, and no size.",
    ),
)
def flooded(server: Server) -> None:
    """The model flooded refuses fewer than 5 % of the requests of an ordinary day. Of the 150
    requests of a flood it serves at least 40, and answers these within 350 ms."""
    refused = min(_refused(server), _refused(server))  # of two days, the one with less other load
    if refused >= _REFUSED:
        raise NotYet(f"On an ordinary day {refused:.0%} of the requests are refused.")
    flood = measure.send(server, "flooded", setup.flood())
    served = flood[(flood["error"] == "") & ~flood["id"].str.startswith("w")]
    slow = float(served["ms"].quantile(0.98)) if len(served) else 0.0
    if len(served) < 40:
        raise NotYet(
            f"In a flood only {len(served)} of 150 requests are served, though the model has time "
            "for 60."
        )
    if slow > _LONGEST_MS:
        raise NotYet(f"In a flood, requests that are served take up to {slow:.0f} ms.")


def _refused(server: Server) -> float:
    """The share of an ordinary day's requests that are refused."""
    day = measure.send(server, "flooded", setup.ordinary_day())
    counted = day[~day["id"].str.startswith("w")]
    return float((counted["error"] != "").mean())


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it."""
    setup.add_flooded(folder)
    return laboratory(folder)
