"""Words for a6__llm about the open task: what the temperature does to answers.

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

from . import facts, network, sampling

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
            f"at least {LEAST}, each once."
        )
    if not (0 < tried.min() <= COLD and HOT <= tried.max() <= 2):
        raise Failure(
            f"`temperatures` goes from {tried.min():g} to {tried.max():g}.",
            help=f"Above 0, the smallest at most {COLD}; the largest from {HOT} to 2.",
        )
    form = "For each temperature a list of answers, each of them a list of tokens."
    answers = _listed(answers)
    if answers is None or len(answers) != tried.size:
        raise Failure("`drawn` has not one list per temperature.", help=form)
    room = small_llama.CONTEXT - len(facts.tokenizer().encode(prompt).ids)
    found = []
    for given in answers:
        some = _listed(given)
        if some is None or not ANSWERS <= len(some) <= 8 * ANSWERS:
            raise Failure(
                f"For one temperature `drawn` has "
                f"{len(some) if some is not None else 'no list of'} answers; {ANSWERS} to "
                f"{8 * ANSWERS} are wanted for each.",
                help=form,
            )
        lists = [_tokens(tokens, form) for tokens in some]
        for tokens in lists:
            if len(tokens) > min(MOST, room):
                raise Failure(
                    f"`drawn` holds an answer of {len(tokens)} tokens; max_tokens is {MOST}."
                )
        if not any(lists):
            raise Failure("For one temperature all lists in `drawn` are empty.", help=form)
        found.append(lists)
    return Draws([float(one) for one in tried], found)


def _listed(value: Any) -> list[Any] | None:
    """The entries of a list, a tuple, or an array; None where it is none of these."""
    is_listed = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim)
    return list(value) if is_listed else None


def _tokens(value: Any, form: str) -> list[int]:
    """The tokens of one answer; fails where it is no list of tokens."""
    listed = _listed(value)
    whole = listed is not None and all(
        isinstance(token, int | np.integer) and not isinstance(token, bool) for token in listed
    )
    if listed is None or not whole:
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
    return tokens


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
                "rows does not count. Are the answers to prompts[0], and the three lists in the "
                "order in which `measure` returns them: answers, surprise, variety? And has `me` "
                "changed since?",
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


def drawn_anew(me: str, draws: Draws) -> None:
    """Fail where all answers for one temperature are the same, and draws hardly ever give that."""
    prompt = facts.own_prompts(me)[0]
    for temperature, some in zip(draws.temperatures, draws.answers, strict=True):
        if len({*map(tuple, some)}) > 1:
            continue
        most = max(len(some[0]), 1)
        if sampling.all_equal(me, prompt, temperature, len(some), most) < sampling.FALSE_ALARM:
            raise Failure(
                f"All {len(some)} answers for temperature {temperature:g} are the same.",
                help="Draw each of them with a seed of its own: in a request, each row has its "
                "own parameters.",
            )


def drawn_from_all(me: str, draws: Draws) -> None:
    """Fail where tokens are missing that only a top_p below 1 takes away.

    Of all tokens in all answers, some must come from outside of the nucleus of a smaller top_p. How
    improbable it is that none does, the scores say.
    """
    ids = facts.tokenizer().encode(facts.own_prompts(me)[0]).ids
    never = dict.fromkeys(_TOP_P, 0.0)  # the logarithm of the probability
    came = dict.fromkeys(_TOP_P, False)
    for temperature, some in zip(draws.temperatures, draws.answers, strict=True):
        for tokens in some:
            scores = network.logits(me, [*ids, *tokens])[len(ids) - 1 :]
            for row, token in zip(scores, tokens, strict=False):
                chances = np.exp(network.log_chances(row, temperature))
                order = np.argsort(-chances, kind="stable")
                likelier = np.cumsum(chances[order]) - chances[order]
                place = int(np.flatnonzero(order == token)[0])
                for top_p in _TOP_P:
                    came[top_p] |= bool(likelier[place] >= top_p)
                    size = int(np.searchsorted(likelier, top_p))
                    never[top_p] += float(np.log(chances[order[:size]].sum()))
    cut = [one for one in _TOP_P if not came[one] and never[one] < np.log(sampling.FALSE_ALARM)]
    if cut:
        raise Failure(
            f"No token in `drawn` is outside of the nucleus of top_p {cut[0]:g}: of so many tokens "
            "some must be.",
            help="Everything but temperature, seed and max_tokens is as it is by default: top_p "
            "is 1.",
        )


#: For these values of top_p `drawn_from_all` looks.
_TOP_P = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
