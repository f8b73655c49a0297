"""Words for a6__llm about the open task: what the temperature does to answers.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbook.zoo import small_llama

from . import a6_facts as facts
from . import a6_network as network
from . import values
from .failure import Failure
from .probe import Array

#: How many temperatures and answers the task asks for, and how many tokens an answer may have.
LEAST, ANSWERS, MOST = 4, 8, 40
#: The smallest temperature must not be above the first, the largest not below the second.
COLD, HOT = 0.5, 1.4
#: So many standard deviations the answers may be off (`spread`).
_DEVIATIONS = 6.0


@dataclasses.dataclass(frozen=True)
class Draws:
    """What a student has drawn: temperatures, and for each of them lists of tokens."""

    temperatures: list[float]
    answers: list[list[list[int]]]


def read(me: Any, temperatures: Any, answers: Any) -> Draws:
    """The temperatures and answers that a student handed over; fails where they have no such form.

    Raises:
        Failure: there are too few, or something in them is no token.
    """
    prompt = facts.own_prompts(me)[0]
    tried = values.array("temperatures", temperatures, help="One number per temperature.")
    if tried.ndim != 1 or len(np.unique(tried)) < max(LEAST, tried.size):
        raise Failure(
            f"`temperatures` has {len(np.unique(tried))} different values; the task asks for "
            f"{LEAST}, each once."
        )
    if not (0 < tried.min() <= COLD and HOT <= tried.max() <= 2):
        raise Failure(
            f"`temperatures` goes from {tried.min():g} to {tried.max():g}.",
            help=f"Above 0, the smallest at most {COLD}; the largest from {HOT} to 2.",
        )
    form = "For each temperature a list of answers, each of them a list of tokens."
    if not isinstance(answers, list) or len(answers) != tried.size:
        raise Failure("`drawn` has not one list per temperature.", help=form)
    room = small_llama.CONTEXT - len(facts.tokenizer().encode(prompt).ids)
    for some in answers:
        if not isinstance(some, list) or not ANSWERS <= len(some) <= 8 * ANSWERS:
            raise Failure(
                f"For one temperature `drawn` has "
                f"{len(some) if isinstance(some, list) else 'no list of'} answers; {ANSWERS} to "
                f"{8 * ANSWERS} are wanted for each.",
                help=form,
            )
        for tokens in some:
            if not isinstance(tokens, list) or not all(_is_token(token) for token in tokens):
                raise Failure("`drawn` holds something else than lists of tokens.", help=form)
            if len(tokens) > min(MOST, room):
                raise Failure(
                    f"`drawn` holds an answer of {len(tokens)} tokens; max_tokens is {MOST}."
                )
        if not any(some):
            raise Failure("For one temperature all lists in `drawn` are empty.", help=form)
    return Draws([float(one) for one in tried], answers)


def _is_token(value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and 0 <= value < small_llama.VOCABULARY and value != small_llama.EOS


def figures(me: str, draws: Draws) -> tuple[Array, Array]:
    """Surprise and variety per temperature, computed from the tokens and the network."""
    prompt = facts.tokenizer().encode(facts.own_prompts(me)[0]).ids
    surprise, variety = [], []
    for some in draws.answers:
        logs = []
        for tokens in some:
            rows = network.log_chances(network.logits(me, [*prompt, *tokens]))[len(prompt) - 1 :]
            logs += rows[np.arange(len(tokens)), tokens].tolist()
        together = [token for tokens in some for token in tokens]
        surprise.append(-float(np.mean(logs)))
        variety.append(len({*together}) / len(together))
    return np.array(surprise), np.array(variety)


def same_figures(me: str, draws: Draws, surprise: Any, variety: Any) -> None:
    """Fail unless the figures that a student handed over are those of the answers."""
    size = (len(draws.temperatures),)
    right = figures(me, draws)
    for name, value, truth, what in (
        ("surprise", surprise, right[0], "the mean of -logprob over all tokens"),
        ("variety", variety, right[1], "the share of different tokens among all tokens"),
    ):
        given = values.array(name, value, size, because="one number per temperature")
        off = float(np.abs(given - truth).max())
        if off > 0.005:
            raise Failure(
                f"`{name}` is off by up to {off:.2g}, computed anew from `drawn`.",
                help=f"It is {what} of a temperature's answers together. The padding of shorter "
                "rows does not count.",
            )


def spread(
    me: str, prompt: str, answers: Sequence[Sequence[int]], temperature: float, most: int
) -> float:
    """How unlikely it is that answers were drawn at a temperature, as a number of deviations.

    At each step the surprise (minus the logarithm of the probability at this temperature) has a
    mean and a variance, which the scores give. The sum over all steps is compared with its mean:
    for a right model the result is above 6 about once in a billion times.

    Args:
        me: the student's id.
        prompt: the prompt of all answers.
        answers: tokens of each answer, one at least.
        temperature: above 0.
        most: max_tokens of each. A shorter answer has drawn the end of text after its last token.
    """
    off = variance = 0.0
    ids = facts.tokenizer().encode(prompt).ids
    for tokens in answers:
        logs = network.log_chances(network.logits(me, [*ids, *tokens]), temperature)
        drawn = [*tokens, small_llama.EOS][:most]
        rows = logs[len(ids) - 1 :][: len(drawn)]
        chances = np.exp(rows)
        means = -(chances * rows).sum(axis=1)
        off += float((-rows[np.arange(len(rows)), drawn] - means).sum())
        variance += float(((chances * rows**2).sum(axis=1) - means**2).sum())
    return float(abs(off) / np.sqrt(max(variance, 1e-9)))


def drawn_so(me: str, draws: Draws) -> None:
    """Fail unless each list of answers can be drawn at its temperature, with top_p 1."""
    prompt = facts.own_prompts(me)[0]
    for temperature, some in zip(draws.temperatures, draws.answers, strict=True):
        off = spread(me, prompt, some, temperature, MOST)
        if off > _DEVIATIONS:
            raise Failure(
                f"The answers for temperature {temperature:g} do not look as if they were drawn "
                f"at it: they are {off:.0f} standard deviations off.",
                help="Were they asked for with this temperature and nothing else? top_p stays 1, "
                f"max_tokens is {MOST}, the prompt is prompts[0]. If so, `choose` does not draw as "
                "it should: look at it again (a6.sampling tests the first two tokens of an answer "
                "only).",
            )
