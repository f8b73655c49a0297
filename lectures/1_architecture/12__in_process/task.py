"""The task of `12__in_process`: a program between two queues, with a Triton inside."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from pathlib import Path
from typing import Any, cast

import setup
from workbook.common.errors import WorkbookError
from workbook.lessons.shared import digits_model
from workbook.lessons.tasks import NotYet, define
from workbook.server import Server

COUNT = 360  # messages
MOST = 60  # executions: 360 pictures in batches of 64 need 6; ten times as many are allowed
_TRIES = 3
_COUNTED_S = 0.2  # the server counts a request a moment after it has answered
SECONDS = 60  # for all messages


def start(folder: Path) -> Server:
    """Start a server inside this process, and copy the notebook's bridge."""
    shutil.copy(Path(__file__).parent / "clients/bridge.py", folder)
    return cast(Server, setup.start(folder))


@define(
    "in_process.bridge",
    hints=(
        "The batcher joins requests that wait at the same time. How many requests of this loop "
        "wait at the same time?",
        "Either send many requests at once: `infer` waits, so call it in many threads "
        "(concurrent.futures). Or send many pictures in one request: up to 64.",
        "Collect messages with inbox.get() until None comes or there are 64. Join their pictures "
        "with np.stack, infer once, and put one answer per message into the outbox.",
    ),
)
def bridge(server: setup.Inside) -> None:
    """Change bridge.py: 360 messages from the inbox, one answer per message in the outbox, and the
    server counts at most 60 executions."""
    pictures = digits_model.pictures()[:COUNT]
    expected = [
        int(digit)
        for first in range(0, COUNT, 60)
        for digit in _logits(server, pictures[first : first + 60]).argmax(axis=1)
    ]
    for _ in range(_TRIES):  # a busy machine may keep threads from sending together
        before = server.counts(setup.MODEL)
        answers = _run(server, pictures)
        time.sleep(_COUNTED_S)
        after = server.counts(setup.MODEL)
        inferences, executions = (after[k] - before[k] for k in ("inferences", "executions"))
        if executions <= MOST:
            break
    if len(answers) != COUNT:
        raise NotYet(f"The outbox has {len(answers)} answers to {COUNT} messages.")
    try:
        given = dict(answers)
    except (TypeError, ValueError):
        raise NotYet("An answer is a pair: the message's number and the digit.") from None
    if [given.get(number) for number in range(COUNT)] != expected:
        raise NotYet("Not every message has the digit that the model sees in its picture.")
    if inferences != COUNT:
        raise NotYet(f"The server counted {inferences} inferences for {COUNT} pictures.")
    if executions > MOST:
        raise NotYet(f"The server counted {executions} executions; {MOST} are allowed.")


def _logits(server: setup.Inside, pictures: Any) -> Any:
    return server.infer(setup.MODEL, {"image": pictures})["logits"]


def _run(server: setup.Inside, pictures: Any) -> list[Any]:
    """Call the reader's function with full queues, and return what it put into the outbox.

    Raises:
        NotYet: the file lacks the function, or the function raised an error or did not end.
    """
    names: dict[str, Any] = {}
    inbox: queue.Queue[Any] = queue.Queue()
    outbox: queue.Queue[Any] = queue.Queue()
    for message in enumerate(pictures):
        inbox.put(message)
    inbox.put(None)
    failed: list[Exception] = []

    def work() -> None:
        try:
            file = server.folder / "bridge.py"
            exec(compile(file.read_text("utf-8"), str(file), "exec"), names)
            names["bridge"](server, inbox, outbox)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        raise NotYet(f"The bridge did not end within {SECONDS} s: does it see the None at the end?")
    if failed and isinstance(failed[0], WorkbookError):
        raise NotYet(f"The server refused: {failed[0]}")
    if failed:
        raise NotYet(f"bridge.py ended with {type(failed[0]).__name__}: {failed[0]}")
    return list(outbox.queue)
