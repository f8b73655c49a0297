"""The checks of a7__speed: how much faster the service has become, and what it is still.

Students get this file, so it holds no expected answer. Speed is a ratio to the deployment as it was
found, measured in the same minute; the answers that are timed are compared with the network's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grader.vocabulary import own, require
from grader.vocabulary.collect import note, standing
from grader.vocabulary.define import define
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe, Refusal

from . import before, facts, speed

#: The judge loads models of these backends only.
BACKENDS = ("ensemble", "onnxruntime", "openvino", "python")
#: The deployment as it was found: the checks themselves put it into the repository.
RESERVED = before.NAMES
#: In a notebook, an interval is wide where its ends differ by more than this factor.
_WIDE = 1.5
#: Tasks without hints: for each, what to read in place of them.
NO_HINTS = {
    "a7.words": "Look at your own measurements after each change. Read on: lecture 3, notebook 01, "
    "on what to measure first.",
}


@define(
    "a7.throughput",
    hints=(
        "Where does the time go? The table of the statistics says it: one step takes nearly all. "
        "What does numpy do with a whole picture at once?",
        "Then the others: how many requests share an execution of the network, and what does a "
        "batch of 16 take in place of 16 batches of one? Each step is also a way between two "
        "processes: which steps can be one?",
        "Vectorised with numpy (reshape(…, 16, 4, 16, 4).mean(…) shrinks): about ×10. All requests "
        "of an execute in one array, dynamic_batching without a delay in each step, max_batch_size "
        "32: about ×20. Everything in one model: beyond. In one ONNX graph: ×40 and more.",
    ),
    read="Read on: lecture 1, notebook 05, on batches; lecture 3, notebook 05.",
)
def throughput(server: Probe, me: str, model: str, alias: Any) -> None:
    """Your service answers more pictures per second than the one that you found, and rightly."""
    _require_right(server, me, model)
    found = speed.throughput(server, me, model)
    better = 1.0 if server.may_reload else facts.MARGIN
    earned = speed.throughput_credit(found.value / better)
    text = (
        f"Your service answers {found} as many pictures per second as the one that you found. "
        f"×{facts.FULL_RATIO:g} is asked for all points."
    )
    busy = _busy(server)
    if busy and found.high > _WIDE * found.low:
        text += " The interval is wide: the figure may be far off. Run this cell again."
        busy = ""
    standing(found.value, f"×{found.value:.1f}", alias)
    if earned < 1:
        margin = _margin(server, f"×{found.value / better:.1f}")
        raise Failure(
            f"{text}{margin} This earns {earned:.0%} of the points.",
            help="Measure again where the time goes: it is another step now." + busy,
            credit=earned,
        )
    note(text)


@define(
    "a7.latency",
    hints=(
        "A picture waits for those before it, and for what the batcher waits for. Which of the two "
        "is it? The statistics have the time in the queue.",
        "At twice the old throughput a fast service is mostly idle: a delay in the batcher then "
        "only adds to each answer. And more instances or threads than processors wait for each "
        "other.",
        "No max_queue_delay_microseconds, or a short one if you have measured that it helps; one "
        "or two instances, intra_op_thread_count 1.",
    ),
    read="Read on: lecture 1, notebook 05, on the delay; lecture 3, notebook 08.",
)
def latency(server: Probe, me: str, model: str) -> None:
    """Under twice the traffic that the old service could bear, 99 of 100 pictures come soon."""
    _require_right(server, me, model)
    multiple, rate, worst = speed.latency(server, me, model)
    better = 1.0 if server.may_reload else facts.MARGIN
    earned = speed.credit(multiple * better, facts.FULL_WAIT, facts.LONGEST_WAIT)
    if math.isinf(worst):
        raise Failure(
            f"At {rate:.0f} pictures per second more than 1 of 100 got no scores.",
            help="This traffic is no overload for a service that is twice as fast.",
        )
    text = (
        f"At {rate:.0f} pictures per second 99 of 100 were answered within {1000 * worst:.0f} ms: "
        f"{multiple:.1f} times what one picture took in the service that you found. For all points "
        f"it is at most {facts.FULL_WAIT:g}."
    )
    if earned < 1:
        margin = _margin(server, f"{multiple * better:.1f} times")
        raise Failure(
            f"{text}{margin} This earns {earned:.0%} of the points.",
            help="Does a picture wait, or does it take long? The statistics say both."
            + _busy(server),
            credit=earned,
        )
    note(text)


@define(
    "a7.same",
    needs=("a7.throughput",),
    hints=(
        "Compare your service with the models as they were, picture by picture.",
        "What is special: the border of a picture, a picture of one colour, several pictures in a "
        "request.",
        "np.pad(grey, ((0, 0), (1, 1), (1, 1)), 'edge') repeats the border; 1 is added to the "
        "standard deviation, so that nothing is divided by 0.",
    ),
    read="Read on: numpy's documentation of pad and reshape.",
)
def same(server: Probe, me: str, model: str) -> None:
    """What clients call is as it was: names, types, shapes, and scores within the bound."""
    _require_named(me, model)
    config = server.config(model)
    with require.all_of(partial=0.5, help="Clients are not yours: what they call stays."):
        require.tensors(config, inputs=facts.INPUTS, outputs=facts.OUTPUTS)
        require.batch_size(config, facts.BATCH, because="a client may send 8 pictures at once")
    pictures, _ = facts.draw(server.rng, 24)
    require_scores(server, me, model, pictures, (1, 1, 2, 5, 7, 8))


@define(
    "a7.refusals",
    needs=("a7.throughput",),
    hints=(
        "Send a picture of another size to your service. What comes back?",
        "The server itself refuses what does not fit the config of `service`.",
        "dims: [ 64, 64, 3 ] and TYPE_UINT8, in the model that clients call.",
    ),
    read="Read on: lecture 1, notebook 02, on inputs and outputs.",
)
def refusals(server: Probe, me: str, model: str) -> None:
    """Bad input is refused with a clear message, and others are answered."""
    _require_named(me, model)
    picture, _ = facts.draw(server.rng, 1)
    good = {facts.INPUT: picture}
    small = {facts.INPUT: np.ascontiguousarray(picture[:, :32, :32])}
    floats = {facts.INPUT: picture.astype(np.float32) / 255}
    grey = {facts.INPUT: np.ascontiguousarray(picture[..., :1])}
    server.allow_batches(model, facts.BATCH)
    for bad, what in (
        (small, "a picture of 32 x 32 pixels"),
        (floats, "a picture in FP32"),
        (grey, "a picture without colours"),
    ):
        require.refuses(server, model, bad, what, good=good, help="Look at the input's config.")


@define(
    "a7.memory",
    needs=("a7.throughput",),
    hints=(
        "Each instance of a Python model is a process with a memory of its own.",
        "How many processors are there? More instances than these answer no faster.",
        "count: 1 or 2; a network that ONNX Runtime serves needs no Python process.",
    ),
    read="Read on: lecture 1, notebook 04, on instances.",
)
def memory(server: Probe, me: str, model: str) -> None:
    """The service takes no more memory than it may."""
    _require_right(server, me, model)
    taken = max(speed.memory(server, model), 1) / 1e6
    earned = speed.credit(taken, facts.FULL_MEMORY, facts.MOST_MEMORY)
    text = f"Your service takes {taken:.0f} MB. For all points it is at most {facts.FULL_MEMORY}."
    if earned < 1:
        raise Failure(
            f"{text} This earns {earned:.0%} of them.",
            help="How many processes does your service have, and what does each of them load?",
            credit=earned,
        )
    note(text)


@define(
    "a7.overload",
    hints=(
        "What does a client gain from an answer that comes after it has left? And the one behind "
        "it in the queue?",
        "Triton can refuse: a request in a queue can have a time after which it is refused. Which "
        "model's queue is it where the requests pile up? An ensemble has none.",
        "dynamic_batching { default_queue_policy { timeout_action: REJECT "
        "default_timeout_microseconds: 100000 } } and two instances in `service`, which is one "
        "model.",
    ),
    read="Read on: lecture 1, notebook 06, on queue policies.",
)
def overload(server: Probe, me: str, model: str) -> None:
    """A flood of requests is survived: each is answered or refused soon, and then all is well."""
    _require_right(server, me, model)
    server.allow_batches(model, facts.BATCH)
    found = speed.overload(server, me, model)
    earned = found.credit
    lost = f" {found.lost} got no reply." if found.lost else ""
    text = (
        f"{found.clients} clients sent {found.sent:,} requests with {facts.BATCH} pictures each "
        f"within {facts.FLOOD_S:g} s. {found.in_time:.1%} of them were answered or refused within "
        f"{facts.PATIENCE:g} s; the slowest took {found.slowest:.2f} s.{lost} The pictures "
        f"answered in this time were {found.goodput:.0%} of those that {facts.CLIENTS} such "
        "clients get answered."
    )
    if found.silent:
        raise Failure(
            f"{text} {found.silent} were refused without a message.",
            help="A client should read why.",
            credit=0.5 * earned,
        )
    if earned < 1:
        raise Failure(
            f"{text} Asked are {facts.IN_TIME:.0%} in time, and {facts.USEFUL:.0%} of the "
            f"pictures. This earns {earned:.0%} of the points.",
            help="Too late: where do the requests wait, and how long may they? Too few pictures: "
            "are they refused too soon? In Triton 24.10 a full queue (max_queue_size) keeps the "
            "batcher from work for up to half a second. So do refusals with a single instance."
            + _busy(server),
            credit=earned,
        )
    note(text)


def require_scores(
    server: Probe, me: str, model: str, pictures: Array, sizes: tuple[int, ...]
) -> None:
    """Fail unless requests of these sizes get the network's scores; at most 8 pictures each."""
    server.allow_batches(model, max(sizes))
    ends = np.cumsum(sizes)
    for some in np.split(pictures[: ends[-1]], ends[:-1]):
        scores = _scores(server, model, some)
        shape = (len(some), facts.CLASSES)
        require.shape(model, scores, shape, output=facts.OUTPUT, help="See dims.")
        speed.compare(me, some, scores, f"to a request with {len(some)}")


def _scores(server: Probe, model: str, pictures: Array) -> Array:
    """The answer to one request; one that has waited too long in the queue is sent again."""
    requests = [{facts.INPUT: pictures}]
    (outcome,) = server.outcomes_in_time(model, requests, outputs=[facts.OUTPUT])
    if isinstance(outcome, Refusal):
        if "Request timeout expired" in outcome.message:
            _require_limit_above_delay(server, model)
        raise outcome.failure(model)
    return outcome[facts.OUTPUT]


def _require_limit_above_delay(server: Probe, model: str) -> None:
    """Fail where the batcher waits longer than the queue allows: a single request is refused."""
    batcher = server.config(model).get("dynamic_batching", {})
    delay = int(batcher.get("max_queue_delay_microseconds", 0))
    limit = int(batcher.get("default_queue_policy", {}).get("default_timeout_microseconds", 0))
    if 0 < limit <= delay:
        raise Failure(
            f"The batcher of {model} waits {delay / 1000:g} ms for more requests, and its queue "
            f"refuses a request after {limit / 1000:g} ms. So a single request is refused.",
            help="Make max_queue_delay_microseconds shorter than default_timeout_microseconds.",
        )


def _busy(server: Probe) -> str:
    """What to do where the machine may be to blame: in a notebook, which measures a few rounds."""
    if server.may_reload:
        return ""
    return " Or was the computer busy? Then run this cell again."


def _margin(server: Probe, figure: str) -> str:
    """What a figure counts as in a notebook, which takes a margin off; "" in the judge."""
    if server.may_reload:
        return ""
    return (
        f" Here {figure} counts, since another computer may find a tenth less; for your marks "
        "nothing is taken off."
    )


def _require_named(me: str, model: str) -> None:
    own.name(me)
    if model != facts.SERVICE:
        raise Failure(
            f"Clients call {facts.SERVICE}, and another model was handed over.",
            help=f'deploy("models/{facts.SERVICE}").name is what is wanted.',
        )


def _require_right(server: Probe, me: str, model: str) -> None:
    """Fail at once where the scores are wrong: before minutes go by with what earns nothing."""
    _require_named(me, model)
    pictures, _ = facts.draw(server.rng, 3)
    require_scores(server, me, model, pictures, (1, 2))
