"""Whether the model of a1__classifier answers a batch by one call of its network."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from grader.vocabulary.failure import Failure, Undecided
from grader.vocabulary.probe import Array, Probe

from . import deep, facts
from .answers import ask, checkpoint, column, read, require_answer, source, tolerance

#: Calls a network once for each of some texts, and returns the seconds of all calls together.
Apart = Callable[[Sequence[str]], float]
#: Returns the probabilities of each class for some texts.
Truth = Callable[[Sequence[str]], Array]

#: How many rounds measure both times; the shortest of each counts. On a busy machine more rounds
#: are needed until one of each is undisturbed: the most rounds, and the most seconds.
_ROUNDS, _MOST_ROUNDS, _SECONDS = 3, 40, 20.0
#: The largest share that 32 texts at once may take of 32 calls of the deep network. With one call
#: it is 0.1, padded to the longest possible length 0.17, with four calls 0.24, and with a call
#: for each text from 0.65 (the model in a server against the network in a process) to 1 and more.
#: Beside ten other programs on two cores these shares were the same within 0.1, since both times
#: take longer then.
_SHARE = 0.35
#: Above this share the calls are as many as the texts; between the two, nobody can tell.
_UNSURE = 0.45
#: Of the texts that are timed, at least this share gets the class that the checkpoint gives.
_SAME_CLASS = 0.5
#: The server may have split 32 requests into this many executions, each with a call of its own.
_EXECUTIONS = 4
#: How many texts are sent alone in a round of the public check, and how many of those that were
#: answered at once are asked for again, alone. Each waits a tenth of a second for others.
_ALONE, _AGAIN = 4, 8
_CHARACTERS = 40
#: How often requests are sent together before the check fails because none was batched: on a busy
#: machine they may come one after the other.
_TRIES = 10
#: What is written below the copy's model.py: on several threads a call of so small a network takes
#: many times as long when other programs hold a core.
_ONE_THREAD = b"""

import torch as _torch

_torch.set_num_threads(1)
_torch.set_num_threads = lambda number: None
"""


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
    apart: Apart | None = None,
    truth: Truth | None = None,
) -> float:
    """Fail unless the network is called once for a whole batch.

    It is asked of a copy of the model, whose checkpoint has a deep and narrow network (deep.py).
    The server counts the time of each execution. 32 texts at once are compared with 32 texts one
    after the other, on the same machine, in the same seconds.

    Args:
        server: the check's probe.
        model: the model's name.
        texts: `ROWS` texts.
        classes: the labels of the checkpoint.
        apart: calls the same deep network for one text after the other, on this machine. By default
            the copy itself is asked for texts alone. A model could wait on purpose then.
        truth: the probabilities that the same deep network gives. Most texts must get its class
            from the copy: what else is wrong with the answers is for a1.answers.

    Returns:
        The time of all texts at once, as a share of the time of all one after the other.

    Raises:
        Failure: texts at once take about as long as one after the other, or get a wrong answer.
        Undecided: no round of many was quiet enough to tell.
    """
    made = deep.files(checkpoint(server, model))
    files = {(facts.CHECKPOINT / name).as_posix(): data for name, data in made.items()}
    files["1/model.py"] = source(server, model).encode() + _ONE_THREAD
    wait = {"max_queue_delay_microseconds": facts.DELAY[1]}
    with server.copied(
        model, files, max_batch_size=facts.ROWS, dynamic_batching=wait
    ) as copy:  # so that all texts share an execution, also on a busy machine
        return _compare(server, copy, texts, classes, apart, truth)


def _compare(
    server: Probe,
    copy: str,
    texts: Sequence[str],
    classes: Sequence[str],
    apart: Apart | None,
    truth: Truth | None,
) -> float:
    """The same for the copy with the deep network; the arguments are those of `one_call`."""
    short = [text[:_CHARACTERS] for text in texts]
    ask(server, copy, short, classes)
    server.counts(copy)  # when it returns, all that was sent before is counted
    one_by_one: list[float] = []
    at_once: list[_Timed] = []
    deadline = time.monotonic() + _SECONDS
    for number in range(_MOST_ROUNDS):
        # No text is asked for twice: a model may keep its answers.
        fresh, others = (
            [f"{n} {text}"[:_CHARACTERS] for text in short] for n in (number, -1 - number)
        )
        if apart is not None:
            if number % 2 == 0:  # it loads the network each time
                one_by_one.append(apart(others))
        else:
            alone = [_measure(server, copy, [text], classes).seconds for text in others[:_ALONE]]
            one_by_one.append(sum(alone) * len(short) / _ALONE)
        timed = _measure(server, copy, fresh, classes)
        if timed.executions <= _EXECUTIONS:
            at_once.append(timed)
        share = share_of([one.seconds for one in at_once], one_by_one)
        is_decided = share <= _SHARE or (_UNSURE < share < math.inf and number >= 2 * _ROUNDS)
        if number + 1 >= _ROUNDS and (is_decided or time.monotonic() > deadline):
            break
    if share > _SHARE:
        if share <= _UNSURE or not at_once:
            raise Undecided
        raise Failure(
            f"In a copy of your model with a deep network, {len(short)} texts at once took "
            f"{1000 * share * min(one_by_one):.0f} ms, and one after the other "
            f"{1000 * min(one_by_one):.0f} ms. With one call of the network for all, it is at most "
            f"{_SHARE:.0%} of that.",
            help="Collect the texts of all requests in one list first. After this loop, call "
            "tokenizer and network for the whole list.",
        )
    # What was fast must be right: a model could answer anything to a request like those above.
    best = min(at_once, key=lambda one: one.seconds)
    some = server.rng.choice(len(short), _AGAIN, replace=False)
    singly = [ask(server, copy, [best.texts[place]], classes).table for place in some]
    if not np.abs(best.table[some] - np.concatenate(singly)).max() <= tolerance().allowed:
        raise Failure(
            f"{len(short)} texts were sent at once, each in a request of its own. Some of them got "
            "other answers than at another time.",
            help="The same text gets the same answer, whatever is beside it.",
        )
    if truth is not None:
        same = (best.table.argmax(1) == truth(best.texts).argmax(1)).mean()
        if same < _SAME_CLASS:
            raise Failure("Most short texts get another class than from the checkpoint.")
    return share


def share_of(at_once: Sequence[float], one_by_one: Sequence[float]) -> float:
    """The shortest time at once, as a share of the shortest one by one; infinite where none is."""
    return min(at_once, default=math.inf) / max(min(one_by_one), 1e-9)


@dataclasses.dataclass(frozen=True)
class _Timed:
    """Texts, what the model has answered, in how many executions, and how long these took."""

    texts: list[str]
    table: Array
    executions: int
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
    executions, nanoseconds = (
        sum(found[place] - before.get(size, (0, 0))[place] for size, found in after.items())
        for place in (0, 1)
    )
    answers = [read(model, require_answer(model, outcome), 1, classes) for outcome in outcomes]
    table = np.concatenate([answer.table for answer in answers])
    return _Timed(texts, table, executions, nanoseconds / 1e9)


def _spent(server: Probe, model: str) -> dict[int, tuple[int, int]]:
    """By batch size: the executions so far, and the nanoseconds that they took in the model."""
    spent: dict[int, tuple[int, int]] = {}
    for record in server.server.statistics(model):
        for batch in record.get("batch_stats", ()):
            size, took = int(batch["batch_size"]), batch["compute_infer"]
            count, nanoseconds = spent.get(size, (0, 0))
            spent[size] = count + int(took["count"]), nanoseconds + int(took["ns"])
    return spent
