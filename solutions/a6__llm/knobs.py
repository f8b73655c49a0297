"""What the check of a6__llm's open task requires of the answers and figures that are handed over.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from grader.vocabulary import values
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array
from workbook.zoo import small_llama

from . import drawing, facts, network
from .answers import Answer

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


def read(me: Any, temperatures: Any, answers: Any) -> Draws:
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
    lists = _as_list(answers, form)
    if len(lists) != tried.size:
        raise Failure("`drawn` has not one list per temperature.", help=form)
    found = [[_tokens(answer, form) for answer in _as_list(some, form)] for some in lists]
    for some in found:
        if not ANSWERS <= len(some) <= 8 * ANSWERS:
            raise Failure(
                f"For one temperature `drawn` has {len(some)} answers; {ANSWERS} to "
                f"{8 * ANSWERS} are wanted for each.",
                help=form,
            )
        if not any(some):
            raise Failure("For one temperature all lists in `drawn` are empty.", help=form)
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
    if small_llama.EOS in tokens:
        raise Failure(
            "An answer in `drawn` holds the end of text, which is no part of an answer.",
            help="Take the tokens as token_ids has them, without the padding.",
        )
    if any(not 0 <= token < small_llama.VOCABULARY for token in tokens):
        raise Failure("`drawn` holds numbers that are no tokens: they go from 0 to 1023.")
    if len(tokens) > MOST:
        raise Failure(f"`drawn` holds an answer of {len(tokens)} tokens; max_tokens is {MOST}.")
    return tokens


def _log_chances(me: str, prompt: str, tokens: Sequence[int], temperature: float) -> Array:
    """The logarithms of all probabilities before each token of an answer, and after its last."""
    ids = facts.tokenizer().encode(prompt).ids
    logits = network.logits(me, [*ids, *tokens])[len(ids) - 1 :]
    return network.log_chances(logits, temperature)


def figures(me: str, draws: Draws) -> tuple[Array, Array]:
    """Surprise and variety per temperature, computed from the tokens and the network."""
    surprise, variety = [], []
    for some in draws.answers:
        logs = []
        for tokens in some:
            rows = _log_chances(me, draws.prompt, tokens, 1.0)
            logs += rows[np.arange(len(tokens)), tokens].tolist()
        together = [token for tokens in some for token in tokens]
        surprise.append(-float(np.mean(logs)))
        variety.append(len({*together}) / len(together))
    return np.array(surprise), np.array(variety)


def require_figures(me: str, draws: Draws, surprise: Any, variety: Any) -> None:
    """Fail unless the figures that a student handed over are those of the answers."""
    right = figures(me, draws)
    for name, value, truth, what in (
        ("surprise", surprise, right[0], "the mean of -logprob over all tokens"),
        ("variety", variety, right[1], "the share of different tokens among all tokens"),
    ):
        given = values.array(name, value, truth.shape, because="one number per temperature")
        off = float(np.abs(given - truth).max())
        if off > 0.005:
            raise Failure(
                f"`{name}` differs by up to {off:.2g} from what `drawn` gives.",
                help=f"It is {what} of a temperature's answers together. The padding of shorter "
                "rows does not count. Are the answers to prompts[0], and the three lists in the "
                "order in which `measure` returns them: answers, surprise, variety? And has `me` "
                "changed since?",
            )


def places(me: str, draws: Draws, random: np.random.Generator) -> list[Array]:
    """Where each drawn token lies among all, from 0 (the likeliest) to 1; for each temperature.

    All tokens, the likeliest first, share the line from 0 to 1 by their probabilities. A place is
    drawn within a token's share. So the places of a right model are uniform and independent,
    whatever the prompt, the step and the temperature (the probability integral transform).
    """
    found = []
    for temperature, some in zip(draws.temperatures, draws.answers, strict=True):
        of_some = []
        for tokens in some:
            drawn = [*tokens, small_llama.EOS][:MOST]  # a shorter answer has drawn the end of text
            logs = _log_chances(me, draws.prompt, tokens, temperature)
            chances = np.exp(logs[: len(drawn)])
            own = chances[np.arange(len(drawn)), drawn][:, None]
            likelier = np.where(chances > own, chances, 0).sum(axis=1)
            of_some.append(likelier + random.random(len(drawn)) * own[:, 0])
        found.append(np.concatenate(of_some))
    return found


def require_drawn(me: str, draws: Draws, random: np.random.Generator) -> None:
    """Fail unless answers can be draws at their temperatures, with a seed each and top_p 1.

    The tests share twice `drawing.FALSE_ALARM`: a right model fails with at most this probability.
    """
    allowed = drawing.FALSE_ALARM / (len(draws.temperatures) + 1)
    for temperature, some in zip(draws.temperatures, draws.answers, strict=True):
        answers = [
            Answer("", tokens, [], "stop" if len(tokens) < MOST else "length") for tokens in some
        ]
        if drawing.all_equal_by_chance(me, draws.prompt, answers, temperature, MOST) < allowed:
            raise Failure(
                f"All {len(some)} answers for temperature {temperature:g} are the same.",
                help="Draw each of them with a seed of its own: in a request, each row has its "
                "own parameters.",
            )
    found = places(me, draws, random)
    for temperature, some_places in zip(draws.temperatures, found, strict=True):
        _require_uniform(some_places, f"temperature {temperature:g}", allowed)
    _require_uniform(np.concatenate(found), "all temperatures together", allowed)


def _require_uniform(found: Array, what: str, allowed: float) -> None:
    """Fail unless as many places lie below each mark as of uniform numbers; the test is exact."""
    for mark in _MARKS:
        below = int((found < mark).sum())
        if stats.binomtest(below, len(found), mark).pvalue < allowed / len(_MARKS):
            raise Failure(
                f"The answers for {what} do not look as if they were drawn so. The likeliest "
                f"tokens that together have the probability {mark:.4g} should be about "
                f"{len(found) * mark:.1f} of {len(found)} tokens; they are {below}.",
                help=f"Did you set only the temperature? top_p stays 1, max_tokens is {MOST}, and "
                "the prompt is prompts[0]. If you did, look at `choose` again: a6.sampling tests "
                "the first two tokens of an answer only.",
            )
