"""What notebook, checks and hidden checks of a3__torchscript share: texts, networks, requests.

Students get this file: it holds nothing that a task asks for.

The network reads a text letter by letter (an echo state network: Jaeger, 2001). Its letters and its
memory are drawn, and only the last layer is fitted, by least squares. So it takes no training loop,
and the same id gives the same network everywhere.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from grader.vocabulary import own
from grader.vocabulary.probe import Array
from grader.vocabulary.tolerance import UNIT, Tolerance, float_sum
from workbook.zoo import data

LETTERS, READER, ENSEMBLE, BLS = "letters", "reader", "detect", "detect_bls"

#: The languages with Latin letters, and how many of them are drawn for each student.
LATIN = ("cs", "de", "en", "es", "fi", "fr", "hu", "it", "nl", "pl", "pt", "tr")
LANGUAGES = 5
#: How many practice rows (numbers), and how many test texts, each student has; and how many test
#: texts are sent at once in tasks 5 and 6.
TEXTS, CROWD = 120, 24
#: How many letters of a text are read at most. A longer text is cut.
MOST = 128
#: Numbers of letters: what fills up a shorter text, and a letter that is not in the alphabet.
PADDING, UNKNOWN = 0, 1

#: How many numbers each network remembers, and the version of `reader` that it is to be.
STATES = {"small": 24, "large": 96}
VERSIONS = {2: "small", 3: "large"}

TEXT_INPUT = {"TEXT": ("STRING", [1])}
TABLES = {"IDS": ("INT64", [-1]), "MASK": ("INT64", [-1])}
READER_INPUTS = {"INPUT__0": ("INT64", [-1]), "INPUT__1": ("INT64", [-1])}
READER_OUTPUTS = {"OUTPUT__0": ("FP32", [LANGUAGES])}
SCORES = {"SCORES": ("FP32", [LANGUAGES])}

#: On how many numbers of the memory each number depends, and the size of these weights. The sizes
#: add up to less than 1, so what was read long ago is forgotten, and so are rounding errors.
_HEARD, _WEIGHT = 4, 0.2
#: Ridge regression: how much large weights cost.
_RIDGE = 1.0


@dataclasses.dataclass(frozen=True)
class Texts:
    """A student's languages and texts.

    Attributes:
        languages: five CLDR codes; a score's column is the language's place here.
        alphabet: the number of each letter, from 2.
        rows: practice texts as numbers: lists of 10 to 128 int, for tasks 1 and 2.
        row_truth: the place of each row's language in `languages`; int64, shape (120,).
        test: test texts, as a client would send them.
        truth: the same for the test texts.
        example: how many letters the colleague's example had, of which task 1 tells.
    """

    languages: tuple[str, ...]
    alphabet: dict[str, int]
    rows: list[list[int]]
    row_truth: Array
    test: list[str]
    truth: Array
    example: int


@dataclasses.dataclass(frozen=True)
class Network:
    """The weights of a network, float32.

    Attributes:
        letter: what each letter adds to the memory; shape (letters, states).
        memory: how the memory depends on what it was; shape (states, states).
        verdict: the last layer; shape (states, languages).
        bias: is added to the scores; shape (languages,).
    """

    letter: Array
    memory: Array
    verdict: Array
    bias: Array


def own_texts(me: str = own.DEFAULT) -> Texts:
    """The languages and texts of one student, drawn by the id.

    Raises:
        Failure: `me` is no id.
    """
    return _draw_texts(own.name(me))[0]


def network(me: str = own.DEFAULT, size: str = "large") -> Network:
    """A network that was fitted to the student's languages.

    Args:
        me: the student's id.
        size: "small" or "large".

    Raises:
        Failure: `me` is no id.
    """
    return _fit(own.name(me), size)


@functools.lru_cache(maxsize=8)
def _draw_texts(me: str) -> tuple[Texts, list[list[int]], Array]:
    """A student's texts; and the rows and the languages that the networks are fitted to."""
    random = own.generator(me, "a3.texts")
    both = _languages()
    codes = tuple(sorted(random.choice(LATIN, LANGUAGES, replace=False).tolist()))
    place = {both.labels.index(code): number for number, code in enumerate(codes)}

    def some(texts: list[str], labels: Array, each: int) -> tuple[list[str], Array]:
        chosen = [random.permutation(np.flatnonzero(labels == k))[:each] for k in place]
        order = random.permutation(np.concatenate(chosen))
        return [texts[k] for k in order], np.array([place[int(labels[k])] for k in order])

    train, truth = some(both.x_train, both.y_train, 240)
    test, test_truth = some(both.x_test, both.y_test, TEXTS // LANGUAGES)
    lower = [text.casefold()[:MOST] for text in train]
    letters = sorted({letter for text in lower for letter in text})
    numbers = random.permutation(len(letters)) + UNKNOWN + 1
    alphabet = {letter: int(number) for letter, number in zip(letters, numbers, strict=True)}
    rows = [[alphabet[letter] for letter in text] for text in lower]
    texts = Texts(
        codes, alphabet, rows[:TEXTS], truth[:TEXTS], test, test_truth, int(random.integers(26, 37))
    )
    return texts, rows[TEXTS:], truth[TEXTS:]


@functools.cache
def _languages() -> data.TextSplit:
    return data.languages()


@functools.lru_cache(maxsize=16)
def _fit(me: str, size: str) -> Network:
    texts, rows, truth = _draw_texts(me)
    random = own.generator(me, f"a3.network.{size}")
    states = STATES[size]
    letter = random.uniform(-1.0, 1.0, (len(texts.alphabet) + 2, states)).astype(np.float32)
    memory = np.zeros((states, states), np.float32)
    for column in range(states):
        inputs = random.choice(states, _HEARD, replace=False)
        memory[inputs, column] = _WEIGHT * random.choice((-1.0, 1.0), _HEARD)
    nothing = np.zeros((states, LANGUAGES), np.float32)
    empty = Network(letter, memory, nothing, nothing[0])
    means = np.column_stack([_means(empty, *table(rows)), np.ones(len(rows))])
    wanted = 2.0 * np.eye(LANGUAGES)[truth] - 1.0
    weights = np.linalg.solve(means.T @ means + _RIDGE * np.eye(states + 1), means.T @ wanted)
    fitted = weights.astype(np.float32)
    return Network(letter, memory, fitted[:-1], fitted[-1])


def table(rows: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Rows of different lengths as one table, and which of its places hold letters.

    Example::

        ids, mask = table([[7, 2], [5]])      # [[7, 2], [5, 0]], [[1, 1], [1, 0]]

    Returns:
        Numbers and mask, each int64 of shape (rows, length of the longest).
    """
    ids = np.full((len(rows), max(map(len, rows))), PADDING, np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        mask[number, : len(row)] = 1
    return ids, mask


def scores(weights: Network, ids: Array, mask: Array, *, steps: int | None = None) -> Array:
    """What a network answers, computed with numpy in float64.

    Args:
        weights: the network.
        ids: numbers of letters, shape (rows, letters).
        mask: 1 where there is a letter, else 0.
        steps: the number of letters to read; by default all.

    Returns:
        float64, shape (rows, languages).
    """
    means = _means(weights, ids, mask, steps)
    answer: Array = means @ weights.verdict.astype(np.float64) + weights.bias
    return answer


def _means(weights: Network, ids: Array, mask: Array, steps: int | None = None) -> Array:
    """The mean of the memory over all letters of a row; float64, shape (rows, states)."""
    letter, memory = weights.letter.astype(np.float64), weights.memory.astype(np.float64)
    state = np.zeros((len(ids), len(memory)))
    total = np.zeros_like(state)
    for step in range(ids.shape[1] if steps is None else min(steps, ids.shape[1])):
        state = np.tanh(letter[ids[:, step]] + state @ memory)
        total += state * mask[:, step, None]
    mean: Array = total / mask.sum(axis=1, keepdims=True)
    return mean


def tolerance(weights: Network) -> Tolerance:
    """How far two float32 scores of one text may be apart.

    An entry of the memory is a sum of five numbers, and tanh adds a few roundings. A later letter
    keeps at most 0.8 of an error, so the errors of all letters add up to at most 5 times that. The
    mean is a sum over the letters, and a score one over the states.
    """
    kept = _HEARD * _WEIGHT
    largest = float(np.abs(weights.letter).max()) + kept
    step = float_sum(_HEARD + 1, largest).allowed + 8 * UNIT
    mean = step / (1 - kept) + float_sum(MOST + 1, 1.0).allowed
    heavy = float(np.abs(weights.verdict).sum(axis=0).max())
    states = len(weights.verdict)
    score = float_sum(states + 1, heavy + float(np.abs(weights.bias).max())).allowed
    why = f"float32 sums over {MOST} letters and {states} states may be that far apart"
    return Tolerance(heavy * mean + score, why)


def lengths(texts: Sequence[str], pad_to: int = 1) -> list[int]:
    """How wide the table of each text is, where a text is filled up to a multiple of a width."""
    sizes = [min(len(text.casefold()), MOST) for text in texts]
    return [-(-size // pad_to) * pad_to for size in sizes]


def as_text(texts: Sequence[str]) -> Array:
    """Texts as Triton takes them: bytes in an array of objects, one text per row."""
    return np.array([[text.encode()] for text in texts], object)
