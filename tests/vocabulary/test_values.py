"""Values that a student hands over: any value is read in one form, or refused with a message."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.vocabulary import values
from grader.vocabulary.failure import Failure
from tests.vocabulary.expect import fails_with

#: All values that can be in a file of reported values.
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
) | st.tuples(
    st.sampled_from([(), (0,), (3,), (3, 2), (1, 1), (0, 10**18)]),
    st.sampled_from(["bool", "int8", "uint64", "float16", "float64"]),
).map(lambda made: np.ones(made[0], made[1]))


@pytest.mark.parametrize("value", [[1, 2], (1, 2), np.float32([1, 2]), [True, 2], ["1", "2"]])
def test_array(value: Any) -> None:
    found = values.array("x", value, (2,))
    assert found.dtype == np.float64
    assert found.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("text", "`x` is not a number, or not made of numbers."),
        ([[1], [1, 2]], "not made of numbers"),
        ({}, "not made of numbers"),
        (10**400, "not made of numbers"),
        ([1, 2, 3], "`x` has the shape [3]; expected is [2]: one per class."),
        ([], "`x` is empty."),
        (np.zeros((0, 10**18)), "`x` is empty."),
        (
            [1, float("nan")],
            "`x` holds NaN, None or infinity in 1 of 2 places; numbers are wanted.",
        ),
        ([None, float("inf")], "in 2 of 2 places"),
        ([1.5, 2], "`x` holds fractions; whole numbers are wanted."),
    ],
)
def test_array_says_what_it_is_not(value: Any, words: str) -> None:
    with fails_with(words, "Look."):
        values.array("x", value, (2,), because="one per class", whole=True, help="Look.")


@pytest.mark.parametrize("value", [2, 2.0, [2], [[2]], np.array(2), np.int8([2]), "2"])
def test_number(value: Any) -> None:
    assert values.number("x", value) == 2
    assert values.whole("x", value, least=2, most=2) == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "`x` holds True or False; one number is wanted."),
        ([1, 2], "`x` holds 2 values; one number is wanted."),
        (1.5, "`x` is 1.5; a whole number is wanted."),
        (-1, "`x` is -1; a whole number from 0 to 9 is wanted."),
        (1e300, "`x` is 1e+300; a whole number from 0 to 9 is wanted."),
        ("9" * 5000, "numbers"),
    ],
)
def test_whole_says_what_it_is_not(value: Any, words: str) -> None:
    with fails_with(words, "Count."):
        values.whole("x", value, least=0, most=9, help="Count.")


def test_whole_with_one_limit() -> None:
    assert values.whole("x", 10**15, least=0) == 10**15
    with fails_with("`x` is 0; a whole number of at least 1 is wanted."):
        values.whole("x", 0, least=1)
    with fails_with("`x` is 6; a whole number of at most 5 is wanted."):
        values.whole("x", 6, most=5)


def test_choice() -> None:
    grid = [0.1, 0.2, 0.3]
    assert values.choice("x", 0.1 + 0.2, grid, of="the thresholds") == 2
    with fails_with("`x` is 0.25, which is not one of the thresholds.", "Take one of them."):
        values.choice("x", 0.25, grid, of="the thresholds")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (["a", "b"], ["a", "b"]),
        (("a", b"\xff"), ["a", "\ufffd"]),
        ("a", ["a"]),
        (np.array([[b"a"], [b"b"]], dtype=object), ["a", "b"]),
        ([["a"], ["b"]], ["a", "b"]),
        ([], []),
    ],
)
def test_texts(value: Any, found: list[str]) -> None:
    assert values.texts("x", value) == found


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, 2], "`x` holds numbers; texts are wanted."),
        (np.float32([1]), "`x` holds numbers"),
        ([None], "`x` holds a NoneType"),
        ([["a", "b"]], "`x` holds a list"),
        ({}, "`x` holds a dict"),
        (True, "`x` holds a bool"),
    ],
)
def test_texts_say_what_they_are_not(value: Any, words: str) -> None:
    with fails_with(words, "Take names."):
        values.texts("x", value, help="Take names.")


@settings(max_examples=400)
@given(ANYTHING)
@pytest.mark.filterwarnings("ignore")
def test_no_value_makes_them_raise_anything_else(value: Any) -> None:
    for read in (values.array, values.number, values.whole, values.texts):
        with contextlib.suppress(Failure):
            read("x", value)
    with contextlib.suppress(Failure):
        values.choice("x", value, [0, 1], of="them")
    with contextlib.suppress(Failure):
        values.array("x", value, (3, 2), whole=True)
