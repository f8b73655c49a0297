"""The task of 01__first_model: read the weights once, and say goodbye."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from workbook import zoo
from workbook.lessons.files import place
from workbook.lessons.shared.digits_model import save_weights, scores
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_REQUESTS, _ROWS = 3, 5
_WAIT_SECONDS = 5.0  # until the log has the line that `finalize` writes


@define(
    "first_model.initialize",
    hints=(
        "Triton calls initialize(self, args) once per instance. What it stores in self can be read "
        "in each later call of execute.",
        "Move the two lines that read and log to initialize, with self.weights in place of "
        "weights. Set a count to 0 there, and add len(requests) to it in execute.",
        'In finalize(self): pb.Logger.log_info(f"answered {self.answered} requests").',
    ),
)
def initialize(server: Server) -> None:
    """The model digits reads its weights once, in initialize, and logs in finalize how many
    requests it has answered."""
    begin = server.log_size()
    server.unload("digits")
    server.load("digits")
    split = zoo.data.digits()
    right = sum(_right(server, split.x_test[i::71][:_ROWS], split.y_test[i::71][:_ROWS])
                for i in range(_REQUESTS))  # fmt: skip
    server.unload("digits")
    log = _log_until(server, begin, r"answered \d+ request")
    server.load("digits")
    if right < 0.8 * _REQUESTS * _ROWS:
        raise NotYet(f"Only {right} of {_REQUESTS * _ROWS} digits were recognised.")
    reads = log.count("weights read")
    if reads != 1:
        raise NotYet(
            f"One instance was loaded and got {_REQUESTS} requests, and the log says "
            f'"weights read" {reads} times.'
        )
    last = re.findall(r"answered (\d+) request", log)
    if not last:
        raise NotYet('The model was unloaded, and the log has no line "answered … requests".')
    if int(last[-1]) != _REQUESTS:
        raise NotYet(f"The log says: answered {last[-1]} requests. {_REQUESTS} were sent.")


def _right(server: Server, pictures: Any, digits: Any) -> int:
    """Send the pictures in one request, and count those that the model recognises."""
    return int((scores(server, "digits", pictures).argmax(1) == digits).sum())


def _log_until(server: Server, begin: int, line: str) -> str:
    """Return the log from `begin` on, once it has the line or the wait is over."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline and not re.search(line, server.log_text(begin)):
        time.sleep(0.05)
    return server.log_text(begin)


def start(folder: Path) -> Server:
    """Copy the notebook's model, which reads its weights in each call of execute, and serve it."""
    place(folder, Path(__file__).parent / "models/digits")
    save_weights(folder / "digits/1/weights.npy")
    return laboratory(folder)
