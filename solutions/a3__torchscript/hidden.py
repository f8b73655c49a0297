"""The hidden checks of a3__torchscript.

They make texts of words that occur in the student's test texts. What the student's models answer is
compared with the rule and with the student's network, computed with numpy. The messages contain no
expected value.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import numpy as np

from grader.vocabulary import require
from grader.vocabulary.define import hidden
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe

from . import facts, serving


def numbers(me: str, text: str) -> list[int]:
    """A text's numbers, as task 3 asks for them."""
    alphabet = facts.own_texts(me).alphabet
    prepared = unicodedata.normalize("NFC", text).casefold().strip()[: facts.MOST]
    return [alphabet.get(letter, facts.UNKNOWN) for letter in prepared]


def secret_texts(server: Probe, me: str, count: int) -> list[str]:
    """New texts of two to six words, which occur in the student's test texts."""
    words = sorted({word for text in facts.own_texts(me).test for word in text.split()})
    sizes = server.rng.integers(2, 7, count)
    return [" ".join(server.rng.choice(words, size)) for size in sizes]


def secret_rows(server: Probe, me: str, count: int) -> list[list[int]]:
    """Rows of numbers, of 5 to 128 letters: those of secret texts, and drawn ones.

    Among them are the shortest and the longest, and rows around the length of the example of which
    task 1 tells. A program that is made for one length reads some of these wrongly.
    """
    rows = [numbers(me, text) for text in secret_texts(server, me, count // 2)]
    own = facts.own_texts(me)
    most = len(own.alphabet) + 1
    sizes = [5, facts.MOST, own.example - 1, own.example + 1]
    sizes += server.rng.integers(5, facts.MOST + 1, max(0, count - len(rows) - len(sizes))).tolist()
    for size in sizes:
        rows.append(server.rng.integers(1, most + 1, size).tolist())
    return rows


def of_the_trace(me: str) -> tuple[set[int], set[int], set[int]]:
    """What the colleague's trace does to the practice rows, each sent alone.

    Returns:
        The rows that it refuses, those that surely get another language than from the network, and
        those that may get another one. Scores that are nearly equal may go either way.
    """
    texts, weights = facts.own_texts(me), facts.network(me)
    refuses, surely, perhaps = set(), set(), set()
    for place, row in enumerate(texts.rows):
        if len(row) < texts.example:
            refuses.add(place)
            continue
        differs = serving.other_language(weights, row, texts.example)
        if differs:
            surely.add(place)
        if differs is not False:
            perhaps.add(place)
    return refuses, surely, perhaps


@hidden(
    "a3.trace",
    help="Each row is sent alone. `changed` holds those to which the trace gives another "
    "language than the network itself does, right or wrong.",
)
def true_rows(server: Probe, me: str, refused: list[int], changed: list[int]) -> None:
    """Both lists are those of the trace that the notebook made."""
    refuses, surely, perhaps = of_the_trace(me)
    for name, value, least, most in (
        ("refused", refused, refuses, refuses),
        ("changed", changed, surely, perhaps),
    ):
        given = {int(number) for number in np.asarray(value).ravel()}
        missing, extra = len(least - given), len(given - most)
        if missing or extra:
            raise Failure(
                f"`{name}` lacks {missing} rows that belong there, and has {extra} that do not.",
            )


@hidden(
    "a3.reader",
    help="The scores are compared with those of your network. Is `me` still the id with which "
    "you deployed, and does the script depend on each row's own length?",
)
def secret_reading(server: Probe, me: str, model: str) -> None:
    """Rows of other lengths get the network's scores; a third input is not needed."""
    serving.reads(server, me, model, rows=secret_rows(server, me, 12))


@hidden(
    "a3.versions",
    help="Version 2 is the small network.",
)
def secret_versions(server: Probe, me: str, model: str) -> None:
    """Version 2 reads other rows as the small network does."""
    serving.reads(server, me, model, 2, secret_rows(server, me, 8))


@hidden(
    "a3.letters",
    help="Go through the rule's steps, in their order: alone and together, a text gets the "
    "same numbers.",
)
def secret_letters(server: Probe, me: str, model: str) -> None:
    """Texts as clients may write them get the numbers of the rule, alone and together."""
    changes: tuple[Callable[[str], str], ...] = (
        str.upper,
        str.title,
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: f"\t {text}  ",
        lambda text: text.replace(" ", "→", 1),
        lambda text: f"½ {text}",
        lambda text: (1 + facts.MOST // len(text)) * text,  # too long, whatever was drawn
        lambda text: " " * 130 + text,
    )
    texts = secret_texts(server, me, 4 * len(changes))
    texts = [changes[place % len(changes)](text) for place, text in enumerate(texts)]
    rows = [numbers(me, text) for text in texts]
    serving.same_numbers(server, model, texts, rows, "other texts, written in several ways")
    serving.each_its_own(server, model, texts)


@hidden(
    "a3.ensemble",
    help="They are compared with what letters and reader answer, asked one after the other.",
)
def secret_scores(server: Probe, me: str, model: str) -> None:
    """Other texts get the scores of the ensemble's parts."""
    texts = secret_texts(server, me, 30)
    _require_parts(server, me, model, texts)
    serving.equals_parts(server, model, texts[:12], facts.tolerance(facts.network(me)))


@hidden(
    "a3.bls",
    help="They are compared with what letters and reader answer, asked one after the other. Does "
    "the program ask both for all its requests?",
)
def secret_program(server: Probe, me: str, model: str) -> None:
    """Other texts get the scores of the two steps, and share executions."""
    texts = secret_texts(server, me, facts.CROWD)
    _require_parts(server, me, model, texts)
    serving.calls_the_steps(server, model, texts, facts.tolerance(facts.network(me)))


@hidden(
    "a3.pads",
    help="They are compared with what letters and reader answer. Look at PAD_TO, and at what fills "
    "a text up.",
)
def secret_pads(server: Probe, me: str, model: str) -> None:
    """With the chosen width other texts are filled up, too, and get the scores of the parts."""
    texts = secret_texts(server, me, facts.CROWD)
    width = int(server.parameter(model, "PAD_TO") or 1)
    serving.pads(server, model, texts, width)
    requests = [{"TEXT": facts.as_text([text])} for text in texts]
    allowed = facts.tolerance(facts.network(me))
    what = f"the scores of {facts.ENSEMBLE} for other texts"

    def counted() -> Failure | None:
        parts = serving.by_hand(server, texts, allowed)
        before = server.counts(facts.READER)
        together = serving.ask_text(server, facts.ENSEMBLE, texts)
        require.close(together, parts, what=what, tolerance=allowed)
        answers = server.together(facts.ENSEMBLE, requests, outputs=["SCORES"])
        got = np.concatenate([answer["SCORES"].reshape(1, -1) for answer in answers])
        require.close(got, parts, what=what, tolerance=allowed)
        if (server.counts(facts.READER) - before).inferences == 2 * len(texts):
            return None
        return Failure(f"{facts.ENSEMBLE} does not ask {facts.READER} for each text.")

    serving.steady(counted)


def _require_parts(server: Probe, me: str, model: str, texts: list[str]) -> None:
    """Fail unless texts get the scores of letters and reader, asked one after the other."""
    allowed = facts.tolerance(facts.network(me))
    require.close(
        serving.ask_text(server, model, texts),
        serving.by_hand(server, texts, allowed),
        what=f"the scores of {model} for other texts",
        tolerance=allowed,
        help="They are compared with what letters and reader answer, asked one after the other.",
    )
