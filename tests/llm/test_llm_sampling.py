"""`sampling.py`, which three models share: how an answer is drawn, and when it ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbook.llm import sampling

LETTERS = "abcdefgh"


def decode(tokens: list[int]) -> str:
    """A text of single bytes: tokens above 7 are the bytes of a letter of two bytes."""
    raw = b"".join(LETTERS[t].encode() if t < 8 else "ä".encode()[t - 8 : t - 7] for t in tokens)
    return raw.decode("utf-8", errors="replace")


logits = st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=40).map(
    lambda values: np.array(values, np.float32)
)


@given(logits, st.floats(0.05, 1.0), st.floats(0.1, 5.0), st.integers(0, 2**31))
def test_only_the_likeliest_up_to_top_p_are_drawn(
    scores: Any, top_p: float, temperature: float, seed: int
) -> None:
    drawer = sampling.Sampling(
        f'{{"top_p": {top_p}, "temperature": {temperature}, "seed": {seed}}}'
    )
    token, chance = drawer.choose(scores)
    chances = np.exp((scores - scores.max()).astype(np.float64) / temperature)
    chances /= chances.sum()
    likelier = chances[chances > chances[token]].sum()
    assert likelier < top_p + 1e-9  # what is likelier than it does not reach top_p yet
    assert 0 < chance <= 1


@given(logits)
def test_temperature_zero_takes_the_first_of_the_likeliest(scores: Any) -> None:
    assert sampling.Sampling('{"temperature": 0}').choose(scores) == (int(scores.argmax()), 1.0)


@given(logits, st.integers(1, 5), st.integers(0, 1000))
def test_top_k_bounds_the_choice(scores: Any, top_k: int, seed: int) -> None:
    token, _ = sampling.Sampling(f'{{"top_k": {top_k}, "seed": {seed}}}').choose(scores)
    assert (scores > scores[token]).sum() < top_k


def test_draws_follow_the_chances() -> None:
    drawer = sampling.Sampling('{"seed": 0}')
    scores = np.log(np.array([0.6, 0.3, 0.1], np.float32))
    drawn = np.bincount([drawer.choose(scores)[0] for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(drawn, [0.6, 0.3, 0.1], atol=0.04)  # 5 standard deviations


@pytest.mark.parametrize("stops", [["bx", "abcd"], ["abcd", "bx"], ["ax", "bx", "abcd"]])
def test_the_longest_beginning_of_a_stop_text_is_held_back(stops: list[str]) -> None:
    """Whichever stop text comes first in the list: after "ab", both letters wait."""
    parameters = sampling.Sampling()
    parameters.stop = stops
    answer = sampling.Answer(parameters, decode, eos=7, room=100)
    assert [answer.add(LETTERS.index(letter)) for letter in "eabcd"] == ["e", "", "", "", ""]
    assert (answer.text, answer.reason) == ("e", "stop")


@settings(max_examples=300)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.lists(st.text(LETTERS[:3] + "ä", min_size=1, max_size=3), max_size=2),
    st.integers(1, 40),
)
def test_the_pieces_of_an_answer_are_the_answer(
    tokens: list[int], stops: list[str], most: int
) -> None:
    parameters = sampling.Sampling()
    parameters.stop, parameters.max_tokens = stops, most
    answer = sampling.Answer(parameters, decode, eos=7, room=100)
    pieces = ""
    for token in tokens:
        pieces += answer.add(token)
        assert pieces == answer.text
        if answer.reason:
            break
    whole = decode(answer.tokens)
    ends = [whole.find(stop) for stop in stops if stop in whole]
    if ends:
        assert (pieces, answer.reason) == (whole[: min(ends)], "stop")
    elif answer.reason:
        assert pieces == whole
        assert (answer.reason == "length") == (len(answer.tokens) == most)
    else:
        assert whole.startswith(pieces)
    assert len(answer.tokens) <= most
