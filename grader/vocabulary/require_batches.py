"""Requirements on batching, judged by the server's counts, not by its config or speed."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import values
from .failure import Failure
from .probe import Array, Probe
from .require_answers import close
from .tolerance import Tolerance


def batched(
    server: Probe, model: str, rows: Mapping[str, Array], output: str, *, tolerance: Tolerance
) -> None:
    """Send each row as a request of its own, all at once; fail unless they were batched.

    Each request must get the answer that its row gets when all rows are one request. The server
    must have counted what the check has sent: a model that calls itself adds requests.

    Example::

        require.batched(server, model, {"input__0": rows}, "output__0", tolerance=allowed)

    Args:
        server: the check's probe.
        model: the model's name.
        rows: by input name, the same number of rows for each, at most the model's max_batch_size.
        output: the output that is compared.
        tolerance: how far the answers may be from those of one request.

    Raises:
        Failure: hardly any request shared an execution with another one, or an answer is wrong.
    """
    alone = server.infer(model, rows, outputs=[output])[output]
    count = len(alone)
    requests = [{name: data[place, None] for name, data in rows.items()} for place in range(count)]
    before = server.counts(model)
    answers = server.together(model, requests, outputs=[output])
    least = math.ceil(count / _largest(server.config(model)))  # executions
    deadline = time.monotonic() + 5
    change = server.counts(model) - before
    # The server counts a request after it has answered it, and the execution after that.
    while change.requests < count or change.executions < least:
        if time.monotonic() > deadline:
            break
        change = server.counts(model) - before
    if change.requests != count or change.inferences != count or change.executions < least:
        raise Failure(
            f"The check has sent {count} requests of one row, and the server has counted "
            f"{change.requests} requests with {change.inferences} rows in {change.executions} "
            "executions.",
            help="No other program may send requests to the model meanwhile, nor may the model "
            "itself.",
        )
    # The last executions may not be counted yet, so a difference of 10 % does not show batching.
    if change.executions > 0.9 * change.requests:
        raise Failure(
            f"{change.requests} requests at once took {change.executions} executions: hardly "
            "any shared one.",
            help="Is max_batch_size above 1? How long may a request wait for others?",
        )
    close(
        np.concatenate([answer[output].reshape(1, -1) for answer in answers]),
        alone.reshape(count, -1),
        what="the answers to single rows",
        tolerance=tolerance,
        help="Each request must get the answer to its own row.",
    )


def batch_counts(
    requests: Any, executions: Any, *, sent: int, config: Mapping[str, Any], help: str = ""
) -> None:
    """Fail unless the counts that a student read from the statistics show batching.

    The counts must be possible: with `sent` requests of one row, or a few times as many where the
    student counted over several tries, and with batches of at most max_batch_size.

    Example::

        require.batch_counts(requests, executions, sent=114, config=server.config(model))

    Args:
        requests: the parameter `requests` of the check.
        executions: its parameter `executions`.
        sent: how many requests the task sends.
        config: the model's parsed config.
        help: what to look at.

    Raises:
        Failure: they show no batching, or cannot be the server's.
    """
    counted, ran = values.whole("requests", requests), values.whole("executions", executions)
    largest = _largest(config)
    counts = (
        f"Your counts: {counted} request{'s' * (counted != 1)}, {ran} execution{'s' * (ran != 1)}."
    )
    if min(counted, ran) < 0:
        raise Failure(
            f"{counts} A count below 0 comes from a deploy between the two readings: it makes the "
            "server count from zero.",
            help="Deploy first, then read `before`, send, and read again.",
        )
    # A request or two may not be counted yet when a student reads the counts.
    if not (counted >= 0.85 * sent and 0 < ran < counted):
        raise Failure(
            f"{counts} They do not show batching: the task sends {sent} requests, and they must "
            "take fewer executions.",
            help=help,
        )
    if counted > 10 * sent or ran * largest < counted:
        raise Failure(
            f"{counts} They cannot be the server's: the task sends {sent} requests, and a batch of "
            f"{config.get('name')} has at most {largest} rows.",
            help=help,
        )


def delays(
    delays: Any,
    runs: Any,
    latencies: Any,
    *,
    config: Mapping[str, Any],
    sent: int,
    at_least: int,
    longest: int,
) -> None:
    """Fail unless a student's measurements of max_queue_delay_microseconds can be the server's.

    A request that comes alone waits for the whole delay, since no second one fills its batch. So
    the time that a single request takes cannot be shorter than the delay.

    Example::

        require.delays(delays, runs, latencies, config=config, sent=114, at_least=4, longest=50_000)

    Args:
        delays: the parameter `delays` of the check: the delays tried, in microseconds.
        runs: its parameter `runs`: the executions that `sent` requests at once took, per delay.
        latencies: its parameter `latencies`: the milliseconds of one request alone, per delay.
        config: the model's parsed config; its delay must be one of `delays`.
        sent: how many requests the task sends at once.
        at_least: how many different delays the task asks for.
        longest: the longest delay that the task allows, in microseconds.

    Raises:
        Failure: there are too few delays, or they are too near to each other; or the numbers cannot
            be the server's.
    """
    waits = values.array("delays", delays, whole=True, help="One number of microseconds per try.")
    size, each = (waits.size,), "one value per delay"
    ran = values.array("runs", runs, size, because=each, whole=True, help="Count executions.")
    took = values.array(
        "latencies", latencies, size, because=each, help="Milliseconds of one request."
    )
    tried, above = len(np.unique(waits)), waits[waits > 0]
    if waits.ndim != 1 or tried < at_least:
        raise Failure(f"`delays` has {tried} different values; the task asks for {at_least}.")
    if waits.min() < 0 or waits.max() > longest or waits.max() < 10 * above.min():
        raise Failure(
            f"`delays` goes from {waits.min():g} to {waits.max():g} µs.",
            help=f"Each is from 0 to {longest:,}. The longest is at least ten times the smallest "
            f"above 0: here at least {10 * above.min() if above.size else 10:g}.",
        )
    if ran.min() < 1 or ran.max() > sent:
        raise Failure(
            f"`runs` goes from {ran.min():g} to {ran.max():g}; {sent} requests take 1 to {sent} "
            "executions.",
            help="Read the counts before and after, and subtract.",
        )
    short = np.flatnonzero(1000 * took < 0.95 * waits)  # the clocks of two processes
    if short.size:
        raise Failure(
            f"With a delay of {waits[short[0]]:g} µs a single request took {took[short[0]]:.3g} "
            "ms by your list. The request waits for the whole delay, so it takes longer.",
            help="Are they milliseconds? Was the folder deployed after the config was changed?",
        )
    parsed = int((config.get("dynamic_batching") or {}).get("max_queue_delay_microseconds") or 0)
    if parsed not in waits:
        raise Failure(
            f"The server parsed a delay of {parsed} µs for {config.get('name')}, which is none of "
            "`delays`.",
            help="Deploy the folder with the one that you choose.",
        )


def _largest(config: Mapping[str, Any]) -> int:
    """The most rows of one execution; 1 for a model without batches."""
    return max(1, int(config.get("max_batch_size", 0)))
