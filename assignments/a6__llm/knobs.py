"""What the check of a6__llm's open task requires of the answers and figures that are handed over.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.vocabulary import values
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array
from workbook.zoo import small_llama

from . import answers, drawing, facts, network

#: The fewest temperatures, the fewest answers for each of them, and the most tokens of an answer.
LEAST, ANSWERS, MOST = 4, 8, 40
#: The lowest temperature must be at most the first, and the highest at least the second.
COLD, HOT = 0.5, 1.4
#: For each of these places, `_require_uniform` counts the tokens below it.
_MARKS = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995, 0.999, 0.9999)


@dataclasses.dataclass(frozen=True)
class Draws:
    """What was drawn for a prompt: temperatures, and for each of them lists of tokens."""

    prompt: str
    temperatures: list[float]
    answers: list[list[list[int]]]


def read(me: Any, temperatures: Any, drawn: Any) -> Draws:
    """The temperatures and answers that a student handed over; fails where their form is wrong.

    Raises:
        Failure: there are too few, or something in them is no token.
    """
    prompt = facts.own_prompts(me)[0]
    tried = values.array("temperatures", temperatures, help="One number per temperature.")
    if tried.ndim != 1 or len(np.unique(tried)) < max(LEAST, tried.size):
        raise Failure(
            f"`temperatures` has {len(np.unique(tried))} different values; the task asks for "
            f"at least {LEAST}, each once."
        )
    if not (0 < tried.min() <= COLD and HOT <= tried.max() <= 2):
        raise Failure(
            f"`temperatures` goes from {tried.min():g} to {tried.max():g}.",
            help=f"Above 0, the smallest at most {COLD}; the largest from {HOT} to 2.",
        )
    form = "For each temperature a list of answers, each of them a list of tokens."
    lists = [_as_list(some, form) for some in _as_list(drawn, form)]
    if len(lists) != tried.size:
        raise Failure("`drawn` has not one list per temperature.", help=form)
    found = [[_tokens(answer, form) for answer in some] for some in lists]
    for some in found:
        if not ANSWERS <= len(some) <= 8 * ANSWERS or not any(some):
            with_tokens = sum(map(bool, some))
            raise Failure(
                f"For one temperature `drawn` has {len(some)} answers, {with_tokens} of them with "
                f"tokens; {ANSWERS} to {8 * ANSWERS} are wanted for each.",
                help=form,
            )
    return Draws(prompt, [float(one) for one in tried], found)


def _as_list(value: Any, form: str) -> list[Any]:
    """The entries of a list, a tuple, or an array."""
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        return list(value)
    raise Failure("`drawn` holds something else than lists of lists of tokens.", help=form)


def _tokens(value: Any, form: str) -> list[int]:
    """The tokens of one answer; fails where it is no list of tokens."""
    listed = _as_list(value, form)
    if any(isinstance(one, bool) or not isinstance(one, int | np.integer) for one in listed):
        raise Failure("`drawn` holds something else than lists of tokens.", help=form)
    tokens = [int(token) for token in listed]
    if facts.FILLED in tokens:
        raise Failure(
            f"An answer in `drawn` holds {facts.FILLED}, which is no token: it pads shorter rows.",
            help="Keep what is 0 or more of each row: row[row >= 0].",
        )
    answers.require_tokens("An answer in `drawn`", tokens)
    if len(tokens) > MOST:
        raise Failure(f"`drawn` holds an answer of {len(tokens)} tokens; max_tokens is {MOST}.")
    return tokens


def require_figures(me: str, draws: Draws, surprise: Any, variety: Any) -> None:
    """Fail unless the figures that a student handed over are those of the answers."""
    surprises, varieties = [], []
    for some in draws.answers:
        logs, together = [], [token for tokens in some for token in tokens]
        for tokens in some:
            rows = network.log_chances(answers.scores_along(me, draws.prompt, tokens))
            logs += rows[np.arange(len(tokens)), tokens].tolist()
        surprises.append(-float(np.mean(logs)))
        varieties.append(len({*together}) / len(together))
    for name, value, right, what in (
        ("surprise", surprise, surprises, "the mean of -logprob over all tokens"),
        ("variety", variety, varieties, "the share of different tokens among all tokens"),
    ):
        given = values.array(name, value, (len(right),), because="one number per temperature")
        off = float(np.abs(given - right).max())
        if off > 0.005:
            raise Failure(
                f"`{name}` differs by up to {off:.2g} from what `drawn` gives.",
                help=f"It is {what} of a temperature's answers together, without the padding of "
                "shorter rows. Are the answers to prompts[0], and the three lists in the order in "
                "which `measure` returns them: answers, surprise, variety? And has `me` changed "
                "since?",
            )


def require_drawn(me: str, draws: Draws, random: np.random.Generator) -> None:
    """Fail unless answers can be draws at their temperatures, with a seed each and top_p 1.

    The tests share twice `drawing.FALSE_ALARM`: a right model fails with at most this probability.
    """
    allowed = drawing.FALSE_ALARM / (len(draws.temperatures) + 1)
    found = []
    for temperature, some in zip(draws.temperatures, draws.answers, strict=True):
        # an answer with fewer tokens has drawn the end of text
        drawn = [[*tokens, small_llama.EOS][:MOST] for tokens in some]
        if drawing.all_equal_by_chance(me, draws.prompt, drawn, temperature) < allowed:
            raise Failure(
                f"All {len(some)} answers for temperature {temperature:g} are the same.",
                help="Draw each of them with a seed of its own: in a request, each row has its "
                "own parameters.",
            )
        found.append(_places(me, draws.prompt, drawn, temperature, random))
        _require_uniform(found[-1], f"temperature {temperature:g}", allowed)
    _require_uniform(np.concatenate(found), "all temperatures together", allowed)


def _places(
    me: str,
    prompt: str,
    drawn: Sequence[Sequence[int]],
    temperature: float,
    random: np.random.Generator,
) -> Array:
    """Where each drawn token lies among all, from 0 (the likeliest) to 1.

    All tokens, the likeliest first, share the line from 0 to 1 by their probabilities. A place is
    drawn within a token's share. So the places of a right model are uniform and independent,
    whatever the prompt, the step and the temperature (the probability integral transform).
    """
    found = []
    for tokens in drawn:
        scores = answers.scores_along(me, prompt, tokens)[:-1]
        chances = np.exp(network.log_chances(scores, temperature))
        own = chances[np.arange(len(tokens)), tokens]
        likelier = np.where(chances > own[:, None], chances, 0).sum(axis=1)
        found.append(likelier + random.random(len(tokens)) * own)
    return np.concatenate(found)


def _require_uniform(found: Array, what: str, allowed: float) -> None:
    """Fail unless as many places lie below each mark as of uniform numbers; the test is exact."""
    below = [int((found < mark).sum()) for mark in _MARKS]
    probability, place = drawing.least_likely(below, len(found), _MARKS)
    if probability < allowed:
        raise Failure(
            f"The answers for {what} do not look as if they were drawn so. The likeliest tokens "
            f"that together have the probability {_MARKS[place]:.4g} should be about "
            f"{len(found) * _MARKS[place]:.1f} of {len(found)} tokens; they are {below[place]}.",
            help=f"Did you set only the temperature? top_p stays 1, max_tokens is {MOST}, and the "
            "prompt is prompts[0]. If you did, look at `choose` again: a6.sampling tests the first "
            "two tokens of an answer only.",
        )
