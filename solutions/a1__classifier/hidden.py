"""The hidden checks of a1__classifier.

They load the student's checkpoint themselves (reference.py), and compare its answers with those of
the student's model, on texts that no student has seen: pieces of two texts of the zoo's test data,
put together at random. The messages contain no text and no expected value.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grader.vocabulary import require
from grader.vocabulary.define import hidden
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe

from . import answers as answers_of
from . import deep, facts
from .batches import mixed_sizes, one_call
from .examples import compare_examples, read_examples
from .reference import Reference, reference
from .refusals import crowd, refuses_each
from .unsure import compare_counts, read_counts


@contextlib.contextmanager
def deep_reference(server: Probe, model: str) -> Iterator[Reference]:
    """The student's checkpoint with the deep network in place of its own (deep.py)."""
    folder = answers_of.checkpoint(server, model)
    with tempfile.TemporaryDirectory() as place:
        for path in folder.iterdir():
            if path.name in facts.DATA:
                (Path(place) / path.name).write_bytes(path.read_bytes())
        for name, data in deep.files(folder).items():
            (Path(place) / name).write_bytes(data)
        yield Reference(Path(place))


def secret_texts(server: Probe, count: int, languages: Sequence[str]) -> list[str]:
    """New texts, each a piece of one test text and a piece of another of the same language.

    Args:
        server: the random numbers come from its `rng`.
        count: the number of texts.
        languages: those that they are in.
    """
    unseen, found = facts.unseen_texts(), []
    for number in range(count):
        mine = unseen[languages[number % len(languages)]]
        one, other = (mine[place] for place in server.rng.integers(len(mine), size=2))
        at = int(server.rng.integers(3, max(4, len(one))))
        found.append(f"{one[:at].strip()} {other[: int(server.rng.integers(4, 60))].strip()}")
    return [found[place] for place in server.rng.permutation(count)]


def known(server: Probe, model: str, me: str | None = None) -> tuple[list[str], tuple[str, ...]]:
    """The classes of the checkpoint, and the languages of the texts that it is asked for."""
    classes = answers_of.labels(answers_of.checkpoint(server, model))
    if answers_of.of_the_zoo(classes):
        return classes, tuple(classes)
    return classes, facts.own_languages(me) if me else facts.own_languages()


@hidden(
    "a1.config",
    help="Look at TEXT's type in config.pbtxt.",
)
def only_texts(server: Probe, model: str) -> None:
    """Numbers in place of texts are refused."""
    if not server.refusal(model, {facts.INPUT: np.zeros((2, 1), np.float32)}):
        raise Failure(f"{model} answers numbers in place of texts.", help="Look at TEXT's type.")


@hidden(
    "a1.answers",
    help="The answers are compared with those of your checkpoint. Does the network get the "
    "whole text as the client sent it, with the attention mask, and are the logits turned "
    "into probabilities by softmax? Is the checkpoint complete, and the one that you "
    "fetched?",
)
def secret_answers(server: Probe, me: str, model: str) -> None:
    """Other texts get the probabilities that the checkpoint gives, in batches of any size."""
    network = reference(server, model)
    classes, languages = known(server, model, me)
    for count in (1, 7, facts.ROWS):
        texts = secret_texts(server, count, languages)
        if count == facts.ROWS:
            answers_of.tells_apart(network(texts), "The checkpoint")
            texts[3] = " ".join(texts)[:300]  # more than the network reads
        require.close(
            answers_of.ask(server, model, texts, classes).table,
            network(texts),
            what=f"the probabilities of {count} other texts",
            tolerance=answers_of.tolerance(),
            help="They are compared with those of your checkpoint. Does the network get the whole "
            "text as the client sent it, with the attention mask, and are the logits turned into "
            "probabilities by softmax?",
        )


@hidden(
    "a1.batches",
    help="Each text must get the answer that it gets alone, whatever else is in its request "
    "and beside it. All texts of an execution go through the network in one call.",
)
def secret_batches(server: Probe, me: str, model: str) -> None:
    """Other texts, in requests of other sizes, get the answers that they get alone."""
    classes, languages = known(server, model, me)
    texts = secret_texts(server, facts.ROWS, languages)
    sizes = [*server.rng.permutation([1, 2, 3, 4, 6, 7, 9]).tolist()]
    mixed_sizes(server, model, texts, sizes, classes)
    with deep_reference(server, model) as network:
        one_call(server, model, texts, classes, apart=network.seconds, truth=network)


@hidden(
    "a1.refusals",
    help="Only empty and blank texts, texts that are no UTF-8 and texts that are too long are "
    "refused, each with a message of its own. Texts with signs that no language has, with "
    "line ends, and of exactly the greatest length are good texts.",
)
def secret_refusals(server: Probe, me: str, model: str) -> None:
    """Other bad texts of the same four kinds; and good texts that look unusual are answered."""
    classes, languages = known(server, model, me)
    texts = secret_texts(server, 16, languages)
    # All kinds in each draw, in another order: a `strip()` of bytes knows the ASCII ones only.
    blank = "".join(server.rng.permutation(["\u00a0", " ", "\t", "\n", "\u2003", "\u3000"]))
    cut = texts[0].encode() + "ё".encode()[:1]
    longer = facts.LONGEST + int(server.rng.integers(1, 40))
    bad = {
        "an empty text": b"",
        "a blank text (with wide and no-break spaces, too)": blank.encode(),
        "a text that is not UTF-8": cut,
        "a text that is too long": ("ю" * longer).encode(),
    }
    refuses_each(server, model, bad, good=texts[1 : int(server.rng.integers(3, 7))])
    crowd(server, model, texts, bad, classes)
    unusual = [texts[2] + " 🙂", f"\n{texts[3]}\n", "ю " * (facts.LONGEST // 2)]
    are_good = (
        "Texts with signs that no language has, with line ends, and of exactly "
        f"{facts.LONGEST} characters are good texts."
    )
    if server.refusal(model, answers_of.column(unusual)):
        raise Failure(f"{model} refuses good texts that look unusual.", help=are_good)


@hidden(
    "a1.examples",
    help="Each label and score in `examples` is what your model answers to the text beside it.",
)
def true_examples(server: Probe, model: str, examples: list[dict[str, Any]]) -> None:
    """Asked once more, for one text at a time, the model gives the same answers."""
    classes = answers_of.labels(answers_of.checkpoint(server, model))
    given = read_examples(examples)
    alone = []
    for one in given:
        served = [answers_of.ask(server, model, [text], classes) for text in one.texts]
        scores = np.concatenate([answer.scores for answer in served])
        alone.append(([label for answer in served for label in answer.labels], scores))
    compare_examples(given, alone, "your model")


@hidden(
    "a1.code",
    help="What execute keeps in self is still there at the next batch.",
)
def no_state(server: Probe, model: str) -> None:
    """Requests leave nothing behind: the same texts get the same answers after others."""
    classes, languages = known(server, model)
    texts, others = (secret_texts(server, 8, languages) for _ in range(2))
    first = answers_of.ask(server, model, texts, classes)
    answers_of.ask(server, model, others, classes)
    server.outcomes(model, [answers_of.column([b"\xff"]), answers_of.column([""])])
    again = answers_of.ask(server, model, texts, classes)
    require.close(
        again.table,
        first.table,
        what="the probabilities of texts that were asked a second time",
        tolerance=answers_of.tolerance(),
    )


@hidden(
    "a1.unsure",
    help="`kept` and `caught` are counted with the scores of your checkpoint, for the texts "
    "that are drawn for your `me`.",
)
def true_counts(
    server: Probe, me: str, model: str, thresholds: Any, kept: Any, caught: Any, chosen: float
) -> None:
    """The counts are those of the checkpoint's scores."""
    network = reference(server, model)
    scores = [
        network(texts).max(axis=1) for texts, _ in (facts.own_texts(me), facts.foreign_texts(me))
    ]
    counts = read_counts(thresholds, kept, caught, chosen)
    compare_counts(counts, scores[0], scores[1], "your checkpoint")
