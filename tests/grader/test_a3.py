"""Tests for a3__torchscript only. test_assignments.py has the tests for every assignment."""

from __future__ import annotations

import queue
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot
import numpy as np
import pytest

from grader.assignments.a3__torchscript import facts, serving
from grader.assignments.a3__torchscript import hidden as secret
from grader.authoring import mutants
from grader.vocabulary import own
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Refusal
from grader.vocabulary.tolerance import UNIT
from tests import sources
from tests.assignment_runs import as_the_students
from workbook import assignments
from workbook.server import Triton

pytestmark = pytest.mark.server

ASSIGNMENT = assignments.named("a3")
STUDENTS = (own.DEFAULT, "anna", "berta", "çetin")


@pytest.fixture(scope="module", autouse=True)
def notebooks_find_the_server(server: Triton) -> Iterator[None]:
    with as_the_students(server):
        yield


def test_mutants_are_many() -> None:
    assert len(mutants.load(ASSIGNMENT)) >= 20


def test_each_student_has_texts_of_their_own() -> None:
    """An id in any case gives the same texts; another id gives others, and another network."""
    anna, berta = facts.own_texts("anna"), facts.own_texts("berta")
    assert facts.own_texts(" Anna ") is anna
    assert anna.test != berta.test
    assert anna.alphabet != berta.alphabet
    assert not np.array_equal(facts.network("anna").memory, facts.network("berta").memory)
    for wrong in ("", "  ", 7, None, "x" * 201):
        with pytest.raises(Failure, match="no student's id"):
            facts.own_texts(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("me", STUDENTS)
def test_the_tasks_hold_for_everybody(me: str) -> None:
    """The trace refuses and changes some rows; lengths differ; the large network is the better."""
    texts = facts.own_texts(me)
    assert len(texts.test) == len(texts.rows) == facts.TEXTS
    refuses, surely, perhaps = secret.of_the_trace(me)
    assert min(len(refuses), len(surely)) >= 5
    assert surely <= perhaps
    crowd = texts.test[: facts.CROWD]
    kinds = [len({*facts.lengths(crowd, width)}) for width in (1, 32, 128)]
    assert kinds[0] > facts.CROWD / 2 > kinds[1] > kinds[2] == 1
    for text in texts.test:
        assert unicodedata.normalize("NFC", text) == text.strip()
        assert len(secret.numbers(me, text)) == facts.lengths([text])[0]
    table = facts.table([secret.numbers(me, text) for text in texts.test])
    right = {
        size: (facts.scores(facts.network(me, size), *table).argmax(1) == texts.truth).mean()
        for size in facts.STATES
    }
    assert right["large"] > 0.8
    assert right["large"] > right["small"] > 0.5


@pytest.mark.parametrize("size", facts.STATES)
def test_tolerance(size: str) -> None:
    """float32 stays within what is allowed, and a wrong letter or a shorter text does not."""
    me = own.DEFAULT
    weights, rows = facts.network(me, size), facts.own_texts(me).rows
    ids, mask = facts.table(rows)
    right, allowed = facts.scores(weights, ids, mask), facts.tolerance(weights).allowed
    state = total = np.zeros((len(rows), facts.STATES[size]), np.float32)
    for step in range(ids.shape[1]):
        state = np.tanh(weights.letter[ids[:, step]] + state @ weights.memory)
        total = total + state * mask[:, step, None].astype(np.float32)
    mean = total / mask.sum(axis=1, keepdims=True).astype(np.float32)
    off = np.abs(mean @ weights.verdict + weights.bias - right).max()
    assert UNIT < off < allowed
    changed = ids.copy()
    changed[:, 3] = changed[:, 4]
    differs = (changed != ids).any(axis=1)
    for other in (
        facts.scores(weights, changed, mask)[differs],
        facts.scores(weights, ids, mask, steps=9)[differs],
    ):
        assert (np.abs(other - right[differs]).max(axis=1) > 3 * allowed).mean() > 0.9


def test_the_memory_forgets() -> None:
    """The tolerance is derived from this: weights per state, and their sum."""
    for me in STUDENTS:
        memory = facts.network(me).memory
        assert ((memory != 0).sum(axis=0) == 4).all()
        assert np.abs(memory).sum(axis=0).max() <= 0.8 + 1e-6


PARTS = [..., None, "text", [], [[1], [1, 2]], np.float32([0.5]), np.zeros(120), 0.5]


@pytest.mark.parametrize("value", PARTS, ids=repr)
def test_cells_that_show(value: Any) -> None:
    """The given cells that show what was found run whatever is there."""
    source = sources.read(ASSIGNMENT.source)
    me = own.DEFAULT
    space: dict[str, Any] = {"me": me, "texts": facts.own_texts(me), "ask": None}
    exec("import numpy as np, torch\nfrom grader.assignments.a3__torchscript import facts", space)
    space["large"] = lambda *tensors: _Answer()
    cells = [c for c in source.cells if c.id in ("a3.difference", "a3.right", "a3.first_numbers")]
    assert len(cells) == 3
    good = {"served": np.zeros((120, 5)), "scores": np.zeros((120, 5)), "letters": ...}
    for name in good:
        for cell in cells:
            exec(compile(cell.source, cell.id, "exec"), {**space, **good, name: value})
    for cell in cells:  # a deploy that fails leaves names unset
        exec(compile(cell.source, cell.id, "exec"), dict(space))
    matplotlib.pyplot.close("all")


class _Answer:
    """The network's answer in the cell that shows a difference."""

    def numpy(self) -> Any:
        return np.zeros((120, 5))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (np.zeros((0, 5), np.float32), "shape (0, 5), not (1, 5)"),
        (np.zeros((2, 5), np.float32), "shape (2, 5), not (1, 5)"),
        (None, "shape (), not (1, 5)"),
    ],
)
def test_ask_together_says_what_came_back(found: Any, words: str) -> None:
    """A program that gives a request other rows than its own stops the locked helper in words."""

    class Client:
        def async_infer(self, model: str, inputs: object, callback: Any) -> None:
            callback(self, None)

        def as_numpy(self, name: str) -> Any:
            return found

    (cell,) = (c for c in sources.read(ASSIGNMENT.source).cells if c.id == "a3.together")
    texts = facts.own_texts(own.DEFAULT)
    space: dict[str, Any] = {"facts": facts, "texts": texts, "np": np, "queue": queue}
    space |= {"client": Client(), "tensors_of": dict, "as_text": list}
    exec(compile(cell.source, cell.id, "exec"), space)
    with pytest.raises(
        ValueError, match=re.escape(f"detect_bls answers text 0 with SCORES of {words}")
    ):
        space["ask_together"]("detect_bls", ["one text"])


def counts(*answers: tuple[int, ...]) -> Any:
    """Fail with the given counts, one after the other; an empty tuple is a right count."""
    left = list(answers)
    return lambda: Failure("late") if left.pop(0) else None


def test_a_count_that_came_late_is_taken_again() -> None:
    serving.steady(counts((1,), (1,), ()))
    with pytest.raises(Failure, match="late"):
        serving.steady(counts((1,), (1,), (1,)))


@pytest.mark.parametrize("me", STUDENTS)
def test_rows_that_a_shorter_network_reads_otherwise(me: str) -> None:
    """A row as long as the example is read alike; the hidden check's rows are those that differ."""
    texts, weights = facts.own_texts(me), facts.network(me)
    _, surely, perhaps = secret.of_the_trace(me)
    for place, row in enumerate(texts.rows):
        differs = serving.other_language(weights, row, texts.example)
        if len(row) <= texts.example:
            assert not differs
        elif place in surely:
            assert differs
        else:
            assert differs is (None if place in perhaps else False)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "Failed to process the request(s) for model 'letters_0_0', message: KeyError: 'x'"
            "\n\nAt:\n  /tmp/m/letters/1/model.py(54): <listcomp>\n"
            "  /tmp/m/letters/1/model.py(53): numbers\n"
            "  /tmp/m/letters/1/model.py(35): execute\n",
            "ends with an exception: KeyError: 'x'. It comes from line 53 of "
            "models/letters/1/model.py, in numbers.",
        ),
        (
            "Failed to process the request(s) for model 'letters_0_0', message: MemoryError"
            "\n\nAt:\n  /usr/lib/json.py(3): load\n",
            "ends with an exception: MemoryError.",
        ),
        (
            "ModelMistake: execute returned None, so 1 request would wait for ever.\n"
            "where: 1/model.py, line 41: tensors\nto do: Write …",
            "execute returned None, so 1 request would wait for ever. Look at 1/model.py, line 41",
        ),
        ("TEXT holds an empty text", "letters refuses a text. Its message: TEXT holds an empty"),
    ],
)
def test_what_letters_says_is_told(message: str, words: str) -> None:
    class Server:
        def outcomes(self, model: str, requests: object) -> list[Refusal]:
            return [Refusal(message, "INTERNAL")]

    with pytest.raises(Failure) as caught:
        serving.same_numbers(Server(), "letters", ["abc"], [[2, 3, 4]], "a text")  # type: ignore[arg-type]
    assert words in caught.value.rationale
    assert message not in caught.value.safe
