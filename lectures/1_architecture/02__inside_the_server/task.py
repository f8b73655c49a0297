"""The task of 02__inside_the_server: repeated questions are answered from the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import setup
from workbook import measure
from workbook.lessons.shared import digits_model
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server


@define(
    "inside_the_server.cached",
    hints=(
        "The server has a cache already. A model uses it only if its own config says so.",
        "The block is named in the section on the cache. After a change of its config, a model "
        "has to be loaded again.",
        'Add response_cache { enable: true } to careful/config.pbtxt, and run lab.load("careful").',
    ),
)
def cached(server: Server) -> None:
    """A picture that careful has seen is answered without another run of it."""
    if not server.ready("careful"):
        raise NotYet("careful is not ready.")
    first, second = np.random.default_rng().random((2, 1, 1, 8, 8), dtype=np.float32)
    before = measure.statistics(server, "careful")
    answers = [digits_model.scores(server, "careful", x) for x in (first, first, second, first)]
    seen = measure.counted(server, "careful", before, 4).iloc[0]
    if np.array_equal(answers[0], answers[2]):
        raise NotYet("Two different pictures got the same scores.")
    if seen.executions > 2:
        raise NotYet(
            f"Two new pictures were sent, one of them three times: careful ran {seen.executions} "
            "times."
        )
    if seen.requests != 4:
        raise NotYet("Other requests came in at the same time: look again.")


def start(folder: Path) -> Server:
    """Start a server with `careful`, without the cache."""
    setup.add(folder, "careful")
    return laboratory(folder)
