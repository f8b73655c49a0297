"""`require.texts` on a real server: right answers, and each mistake with its message."""

from __future__ import annotations

import numpy as np
import pytest

from grader.vocabulary import require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe
from tests.vocabulary.conftest import Put
from tests.vocabulary.expect import fails_with
from tests.vocabulary.python_models import config

pytestmark = [pytest.mark.server, pytest.mark.quick]

ROWS = {"x": np.float32([[1, 2], [4, 3], [5, 6]])}
RIGHT = ["up", "down", "up"]
NAMES = ("up", "down")
TEXTS = config("x FP32 2", "y STRING 1")
BODY = "answer(y=np.array([['up' if a < b else 'down'] for a, b in x], object))"


def test_right_texts(put: Put, probe: Probe) -> None:
    put("texts_right", BODY, TEXTS)
    for more in ({}, {"among": NAMES}, {"expected": RIGHT}):
        assert require.texts(probe, "texts_right", ROWS, "y", **more) == RIGHT
    # Without a dimension of its own, and with letters that are no ASCII.
    put("texts_flat", "answer(y=np.array(['süß'] * len(x), object))", config(
        "x FP32 -1 2", "y STRING -1", batch=0))  # fmt: skip
    assert require.texts(probe, "texts_flat", ROWS, "y", expected=["süß"] * 3) == ["süß"] * 3


@pytest.mark.parametrize(
    ("name", "body", "stated", "words"),
    [
        ("texts_numbers", "answer(y=x[:, :1])", config("x FP32 2", "y FP32 1"), "with numbers; te"),
        (
            "texts_many",
            "answer(y=np.array([['up', 'up']] * len(x), object))",
            config("x FP32 2", "y STRING 2"),
            "texts_many answers 3 rows with 6 texts in y; one per row is wanted.",
        ),
        (
            "texts_strange",
            BODY.replace("'down'", "'DOWN'"),
            TEXTS,
            "texts_strange answers with 'DOWN', which is none of up, down.",
        ),
        (
            "texts_binary",
            "answer(y=np.array([[b'\\xff']] * len(x), object))",
            TEXTS,
            "which is none of up, down.",
        ),
        (
            "texts_wrong",
            BODY.replace("a < b", "True"),
            TEXTS,
            "1 of 3 texts that texts_wrong answers are not the right ones.",
        ),
    ],
)
def test_a_mistake(name: str, body: str, stated: str, words: str, put: Put, probe: Probe) -> None:
    put(name, body, stated)
    with fails_with(words, "Look at model.py."):
        require.texts(probe, name, ROWS, "y", among=NAMES, expected=RIGHT, help="Look at model.py.")


def test_a_hidden_check_quotes_no_text_of_a_model(put: Put, probe: Probe) -> None:
    put("texts_telling", "answer(y=np.array([[str(row)] for row in x], object))", TEXTS)
    with pytest.raises(Failure) as raised:
        require.texts(probe, "texts_telling", ROWS, "y", among=NAMES)
    assert "[1. 2.]" in raised.value.rationale
    assert raised.value.safe == "The model answers with a text that is none of the wanted ones."


def test_one_row(put: Put, probe: Probe) -> None:
    put("texts_one", BODY, TEXTS)
    one = {"x": ROWS["x"][:1]}
    with fails_with("The text that texts_one answers is not the right one."):
        require.texts(probe, "texts_one", one, "y", expected=["down"])
