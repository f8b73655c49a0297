"""Whether the model of a1__classifier answers a batch by one call of its network."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np

from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe

from . import facts
from .answers import ask, column, read, require_answer, tolerance

#: Calls a network a number of times, each time for one text, and returns the seconds of each call.
Alone = Callable[[Sequence[str], int], list[float]]
#: Returns the probabilities of each class for some texts.
Truth = Callable[[Sequence[str]], Array]

#: How many rounds measure the times of a batch and of a single text; the shortest of each counts. A
#: busy machine needs more rounds until one of each is undisturbed: the most rounds, and seconds.
_ROUNDS, _MOST_ROUNDS, _SECONDS = 5, 60, 10.0
#: How often the network is called for a single text in each round, and how often again before the
#: decision: while other processes hold the cores, all of a few calls may be slow.
_CALLS, _LAST_CALLS = 8, 40
#: A text in a batch of 32 may take at most this share of a call of the network for one text on this
#: machine. For the course's checkpoint the share is 0.5 with one call, 0.7 with padding to the
#: longest possible length, and 1.5 with a call for each text: it takes time to prepare a call, too.
_SHARE = 1.0
#: The same for the server's time of an execution with one text: the largest share if that takes
#: `_MANY_SECONDS` or more, and the largest share if it takes less. In a short execution the call of
#: the network is the smaller part: for the course's checkpoint, which takes 2 ms, the share is 0.12
#: or less with one call (on a busy machine, with padding to the longest, up to 0.196), and 0.21 to
#: 0.27 with a call for each text.
_SHARE_SERVED, _MANY_SECONDS, _SHARE_SERVED_QUICKLY = 0.4, 0.004, 0.2
_CHARACTERS = 40
#: How often requests are sent together before the check fails because none was batched: on a busy
#: machine they may come one after the other.
_TRIES = 4


def mixed_sizes(
    server: Probe,
    model: str,
    texts: Sequence[str],
    sizes: Sequence[int],
    classes: Sequence[str],
) -> None:
    """Send requests of several sizes at once; fail unless each gets the answers to its own texts.

    Args:
        server: the check's probe.
        model: the model's name.
        texts: as many as all requests hold together, at most `ROWS`.
        sizes: how many texts each request holds.
        classes: the labels of the checkpoint.

    Raises:
        Failure: an answer differs from the answer to the same texts in one request; or no request
            shared an execution with another one.
    """
    whole = ask(server, model, texts, classes)
    ends = list(itertools.accumulate(sizes))
    places = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    for _ in range(_TRIES):
        before = server.counts(model)
        outcomes = server.outcomes(
            model, [column(texts[place]) for place in places], outputs=[*facts.OUTPUTS]
        )
        answers = [require_answer(model, outcome) for outcome in outcomes]
        change = server.counts(model) - before
        if change.executions < change.requests:
            break
    if change.executions >= change.requests:
        raise Failure(
            f"{change.requests} requests at once took {change.executions} executions: none was "
            "batched with another.",
            help="Is dynamic_batching in the config, and is max_batch_size large enough?",
        )
    allowed = tolerance()
    wrong = 0
    for place, size, answer in zip(places, sizes, answers, strict=True):
        if answer[facts.LABEL].shape[:1] != (size,):  # another request's
            wrong += 1
            continue
        got = read(model, answer, size, classes)
        off = np.abs(got.table - whole.table[place]).max()
        wrong += not off <= allowed.allowed
    if wrong:
        raise Failure(
            f"{len(sizes)} requests with {', '.join(map(str, sizes))} texts were sent at once. "
            f"{wrong} of them got other answers than the same texts get in one request. Allowed "
            f"are differences of {allowed.allowed:.1g}: {allowed.because}.",
            help="execute gets a list of requests and returns a response for each, in their order: "
            "cut the batch's answers where the requests were joined. Does the network get the "
            "attention mask, so that padding changes nothing?",
        )


def one_call(
    server: Probe,
    model: str,
    texts: Sequence[str],
    classes: Sequence[str],
    alone: Alone | None = None,
    truth: Truth | None = None,
) -> float:
    """Fail unless the network is called once for a whole batch.

    The server counts the time of each execution by its batch size. A call of a network costs about
    as much for one short text as for a few, so one call for 32 texts takes far less time per text
    than 32 calls. A few calls, each for several texts, cannot be told from one: a network that
    gets all texts padded to the longest possible length takes as long, and is right.

    Args:
        server: the check's probe.
        model: the model's name.
        texts: `ROWS` texts.
        classes: the labels of the checkpoint.
        alone: calls the same network for one text, on this machine. Its time counts in place of
            the server's, so that a model cannot wait on purpose when a text comes alone.
        truth: the probabilities that the same network gives; by default what the model answers to
            the texts in one request.

    Returns:
        The time of a text in a batch, as a share of the time of a text alone.

    Raises:
        Failure: a text in a batch takes nearly as long as one alone, or gets a wrong answer.
    """
    short = [text[:_CHARACTERS] for text in texts]
    ask(server, model, short, classes)
    server.counts(model)  # when it returns, all that was sent before is counted
    single: list[float] = []
    batched: list[_Timed] = []
    most = _SHARE
    deadline = time.monotonic() + _SECONDS
    for number in range(_MOST_ROUNDS):
        # No text is asked for twice: a model may keep its answers.
        fresh = [f"{number} {text}"[:_CHARACTERS] for text in short]
        if alone is None:
            text = f"({number}) {short[number % len(short)]}"[:_CHARACTERS]
            single.append(_measure(server, model, [text], classes).seconds)
            most = _SHARE_SERVED if min(single) >= _MANY_SECONDS else _SHARE_SERVED_QUICKLY
        else:
            single += alone(fresh, _CALLS)
        batched.append(_measure(server, model, fresh, classes))
        if number + 1 < _ROUNDS:
            continue
        best = min(batched, key=lambda one: one.seconds)
        if alone is not None and best.seconds <= most * min(single):
            single += alone(short, _LAST_CALLS)
        share = best.seconds / max(min(single), 1e-9)
        if share <= most or time.monotonic() > deadline:
            break
    if not share <= most:
        raise Failure(
            f"{len(short)} texts at once took {1000 * best.seconds:.3g} ms per text, and a text "
            f"alone {1000 * min(single):.3g} ms. With one call of the network for all, it is at "
            f"most {most:.0%} of that.",
            help="Collect the texts of all requests in one list first. After this loop, call "
            "tokenizer and network for the whole list.",
        )
    # What was fast must be right: a model could answer anything to a request like those above.
    right = ask(server, model, best.texts, classes).table if truth is None else truth(best.texts)
    if not np.abs(best.table - right).max() <= tolerance().allowed:
        raise Failure(
            f"{len(short)} texts were sent at once, each in a request of its own. Some of them got "
            "other answers than at another time.",
            help="The same text gets the same answer, whatever is beside it.",
        )
    return share


def times(network: Callable[[str], object], texts: Sequence[str], calls: int) -> list[float]:
    """The seconds of each of several calls of a network with one text, one right after another.

    A call after a pause takes two or three times as long: what it needs has left the processor's
    caches. The shortest time counts.
    """
    taken = []
    for number in range(calls):
        began = time.perf_counter()
        network(texts[number % len(texts)])
        taken.append(time.perf_counter() - began)
    return taken


@dataclasses.dataclass(frozen=True)
class _Timed:
    """Texts, what the model has answered, and the time in `execute` per text."""

    texts: list[str]
    table: Array
    seconds: float


def _measure(server: Probe, model: str, texts: list[str], classes: Sequence[str]) -> _Timed:
    """Send texts at once, each in a request of its own, and read how long they took.

    All outputs are asked for: a model sees which ones a request wants.
    """
    sent = len(texts)
    before = _spent(server, model)
    requests = [column([text]) for text in texts]
    outcomes = server.outcomes(model, requests, outputs=[*facts.OUTPUTS])
    deadline = time.monotonic() + 5
    while True:  # the server counts an execution a moment after it has answered
        after = _spent(server, model)
        rows = sum(
            size * (count - before.get(size, (0, 0))[0]) for size, (count, _) in after.items()
        )
        if rows >= sent or time.monotonic() > deadline:
            break
        time.sleep(0.005)
    if rows != sent:
        raise Failure(
            f"The check has sent {sent} texts, and the server has counted {rows}.",
            help="No other program may send requests to the model meanwhile, nor may the model "
            "itself.",
        )
    nanoseconds = sum(spent - before.get(size, (0, 0))[1] for size, (_, spent) in after.items())
    answers = [read(model, require_answer(model, outcome), 1, classes) for outcome in outcomes]
    table = np.concatenate([answer.table for answer in answers])
    return _Timed(texts, table, nanoseconds / 1e9 / sent)


def _spent(server: Probe, model: str) -> dict[int, tuple[int, int]]:
    """By batch size: the executions so far, and the nanoseconds that they took in the model."""
    spent: dict[int, tuple[int, int]] = {}
    for record in server.server.statistics(model):
        for batch in record.get("batch_stats", ()):
            size, took = int(batch["batch_size"]), batch["compute_infer"]
            count, nanoseconds = spent.get(size, (0, 0))
            spent[size] = count + int(took["count"]), nanoseconds + int(took["ns"])
    return spent
