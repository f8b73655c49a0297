"""What the checks of a6__llm require of answers that are drawn: nucleus, frequencies, seeds.

A right model fails a test of frequencies (here and in `knobs`) with a probability of at most
`FALSE_ALARM`, a test of seeds with 8e-8, and a search for a rare token with 2e-8. For a submission,
the notebook and the judge make 15, 3 and 3 of these tests. So the probability that a right
submission fails one of them is less than 5e-7.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe
from workbook.zoo import small_llama

from . import answers, facts, network
from .answers import Answer

#: The probability with which a right model fails one test.
FALSE_ALARM = 1e-8
#: How many first tokens are drawn for a test of frequencies, and how many pairs of tokens.
DRAWS, PAIRS = 384, 192
#: What `choose_sample` tries: temperatures, sizes of the nucleus, and the least probability of the
#: rarest token in it. A right model never draws such a token with the probability 0.95**384 = 3e-9.
_TEMPERATURES, _SIZES, _RAREST = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8), range(3, 7), 0.05
#: A token less probable than exp(-35) = 6e-16 may not come: 1024 such tokens together have the
#: probability 6e-13, and a submission has fewer than 10,000 draws.
_NEVER = -35.0
#: The parameters of the answers that compare seeds. The temperature is so high that two such
#: answers are hardly ever equal by chance.
_HOT = {"temperature": 1.5, "max_tokens": 8}


def next_scores(me: str, prompt: str, *tokens: int) -> Array:
    """The network's scores for the token that follows on a prompt, or on some tokens after it."""
    scores: Array = answers.scores_along(me, prompt, tokens)[-1]
    return scores


def nucleus_chances(scores: Array, temperature: float, top_p: float) -> Array:
    """The probability of each token, with a nucleus: 0 for those outside of it.

    Args:
        scores: of one step, shape (tokens,).
        temperature: above 0.
        top_p: the fewest of the likeliest tokens that reach it together are the nucleus.
    """
    chances = np.exp(network.log_chances(scores, temperature))
    order = np.argsort(-chances, kind="stable")
    likelier = np.cumsum(chances[order]) - chances[order]
    chances[order[likelier >= top_p]] = 0
    kept: Array = chances / chances.sum()
    return kept


def _drawable(scores: Array, temperature: float, top_p: float) -> Array:
    """Which tokens may be drawn: bool. `top_p` has some slack, since two programs round apart."""
    slack = network.tolerance().allowed / temperature
    chances = nucleus_chances(scores, temperature, top_p + slack)
    found: Array = (chances > 0) & (network.log_chances(scores, temperature) > _NEVER)
    return found


def require_drawable(
    me: str, prompt: str, answer: Answer, wanted: Mapping[str, Any], which: str
) -> None:
    """Fail unless each token of an answer may be drawn with its parameters, and has its logprob."""
    temperature, top_p = wanted["temperature"], wanted.get("top_p", 1)
    scores = answers.scores_along(me, prompt, answer.tokens)
    outside = [
        place
        for place, token in enumerate(answer.drawn)
        if not _drawable(scores[place], temperature, top_p)[token]
    ]
    if outside:
        raise Failure(
            f"{len(outside)} of {len(answer.drawn)} tokens in {which} cannot be drawn with "
            f"temperature {temperature:g} and top_p {top_p:g}, the first of them as token "
            f"{outside[0] + 1}.",
            help="Divide the scores by the temperature before softmax, not after it. Sort the "
            "probabilities, and keep the shortest list of the likeliest tokens whose sum reaches "
            "top_p. A place in the sorted list is no token: the token is the entry at this place.",
            safe="An answer has tokens that cannot be drawn with its parameters.",
        )
    answers.require_logprobs(me, prompt, answer, which)


def draw(
    server: Probe, model: str, prompt: str, seeds: Sequence[int], wanted: Mapping[str, Any]
) -> list[Answer]:
    """Answers to one prompt, one for each seed, in requests of 8 rows."""
    found: list[Answer] = []
    for start in range(0, len(seeds), facts.ROWS):
        rows = [{**wanted, "seed": int(seed)} for seed in seeds[start : start + facts.ROWS]]
        found += answers.ask(server, model, [prompt] * len(rows), rows)
    return found


# -- frequencies -----------------------------------------------------------------------------------


def least_likely(
    counts: Sequence[int], total: int, shares: Sequence[float] | Array
) -> tuple[float, int]:
    """The least likely of several counts, each of which has a binomial distribution.

    For each count, scipy's exact test gives the probability of one that is as far off. The least
    of k such probabilities, times k, is below x in at most this share of right samples.

    Args:
        counts: how many of the draws were of one kind, for each kind.
        total: the number of draws.
        shares: the probability of each kind.

    Returns:
        The least probability times the number of counts, and the place of this count.
    """
    found = [
        stats.binomtest(int(count), total, float(share)).pvalue
        for count, share in zip(counts, shares, strict=True)
    ]
    return min(found) * len(found), int(np.argmin(found))


def frequencies_agree(tokens: Sequence[int], chances: Array) -> bool:
    """Whether tokens can be draws with these probabilities.

    Tested are the count of each token that is expected once or more, and that of the n likeliest
    tokens together.
    """
    counts, order = np.bincount(tokens, minlength=len(chances)), np.argsort(-chances, kind="stable")
    often = order[chances[order] * len(tokens) >= 1]
    single, shares = counts[often], chances[often]
    observed = [*single, *np.cumsum(single)]
    expected = np.minimum([*shares, *np.cumsum(shares)], 1)
    return least_likely(observed, len(tokens), expected)[0] >= FALSE_ALARM


def choose_sample(me: str, prompts: Sequence[str]) -> tuple[str, float, float]:
    """A prompt, a temperature and a top_p with a nucleus of a few tokens, none of them rare.

    They are chosen so that wrong ways to draw from the right nucleus differ most from the right
    way. These wrong ways are: all tokens alike, the probabilities in reverse order, those of
    temperature 1, and the first or the last token half of the time each. The token after the
    nucleus has a clearly lower score: otherwise two right programs may sort differently.
    """
    best, found = 0.0, (prompts[0], 0.5, 0.5)
    for prompt in prompts:
        scores = next_scores(me, prompt)
        order = np.argsort(-scores, kind="stable")
        plain = np.exp(network.log_chances(scores))[order]
        for temperature in _TEMPERATURES:
            chances = np.exp(network.log_chances(scores, temperature))[order]
            for size in _SIZES:
                right = chances[:size] / chances[:size].sum()
                gap = scores[order[size - 1]] - scores[order[size]]
                if right[-1] < _RAREST or gap < 2 * network.tolerance().allowed:
                    continue
                ends = np.zeros(size)
                ends[[0, -1]] = 0.5
                wrong = (np.full(size, 1 / size), right[::-1], plain[:size] / plain[:size].sum())
                least = min(((one - right) ** 2 / right).sum() for one in (*wrong, ends))
                if least > best:
                    top_p = float(chances[: size - 1].sum() + chances[size - 1] / 2)
                    best, found = float(least), (prompt, temperature, round(top_p, 4))
    return found


def require_frequencies(
    server: Probe, me: str, model: str, prompts: Sequence[str], seeds: Sequence[int]
) -> None:
    """Draw first tokens from a small nucleus; fail unless each comes as often as it should."""
    prompt, temperature, top_p = choose_sample(me, prompts)
    how = f"temperature {temperature:g} and top_p {top_p:g}"
    wanted = {"temperature": temperature, "top_p": top_p, "max_tokens": 1}
    found = draw(server, model, prompt, seeds, wanted)
    for answer in found:
        require_drawable(me, prompt, answer, wanted, f"an answer drawn with {how}")
    tokens = [answer.drawn[0] for answer in found]
    chances = nucleus_chances(next_scores(me, prompt), temperature, top_p)
    what = f"{len(tokens)} first tokens were drawn with {how}, each with a seed of its own."
    if missing := np.count_nonzero(chances) - len({*tokens} & {*np.flatnonzero(chances)}):
        raise Failure(
            f"{what} {missing} of the nucleus never came.",
            help="Which tokens are in the nucleus? The one with which the sum reaches top_p is.",
        )
    if not frequencies_agree(tokens, chances):
        raise Failure(
            f"{what} They do not come as often as they should: a right model fails this test less "
            f"than once in {1 / FALSE_ALARM:,.0f} times.",
            help="The nucleus is right, but each token of it must be drawn with its own "
            "probability: the one at this temperature, divided by the sum of the nucleus. Is that "
            "probability handed to the draw, in the same order as the tokens?",
        )


def _choose_pair(me: str, prompts: Sequence[str]) -> tuple[str, int]:
    """A prompt and its likeliest first token, after which the second token is spread as well."""
    best, found = -1.0, (prompts[0], 0)
    for prompt in prompts:
        chances = nucleus_chances(next_scores(me, prompt), 1, 1)
        chances[small_llama.EOS] = 0
        first = int(chances.argmax())
        second = nucleus_chances(next_scores(me, prompt, first), 1, 1)
        # p(1 - p) is largest for a first token that comes half of the time
        spread = float(chances[first] * (1 - chances[first]) * (1 - second.max()))
        if spread > best:
            best, found = spread, (prompt, first)
    return found


def require_second_tokens(
    server: Probe, me: str, model: str, prompts: Sequence[str], seeds: Sequence[int]
) -> None:
    """Draw two tokens many times; fail unless each token is drawn with a random number of its own.

    Among the answers that begin with one token, the second token must come as often as the network
    says. A generator that begins again in each step draws both with the same random number, so it
    gives only some of the second tokens.
    """
    prompt, first = _choose_pair(me, prompts)
    found = draw(server, model, prompt, seeds, {"temperature": 1, "top_p": 1, "max_tokens": 3})
    tokens = [one.drawn[0] for one in found]
    if not frequencies_agree(tokens, nucleus_chances(next_scores(me, prompt), 1, 1)):
        raise Failure(
            f"{len(found)} first tokens were drawn with temperature 1 and top_p 1. They do not "
            "come as often as they should.",
            help="Without top_p the nucleus is all tokens, each with its own probability.",
        )
    after = [[*one.drawn, small_llama.EOS][1] for one in found if one.drawn[0] == first]
    second = nucleus_chances(next_scores(me, prompt, first), 1, 1)
    if after and not frequencies_agree(after, second):
        raise Failure(
            f"{len(found)} answers of two tokens were drawn, each with a seed of its own. After "
            "the same first token, the second does not come as often as it should.",
            help="An answer makes its generator once, and each step draws the next number from it. "
            "If each step begins a new generator with the seed, all steps draw the same number.",
        )


# -- seeds -----------------------------------------------------------------------------------------


def all_equal_by_chance(
    me: str, prompt: str, drawn: Sequence[Sequence[int]], temperature: float
) -> float:
    """How improbable n equal answers are: P(a)^(n-1); 1 if the answers are not all equal.

    P(a) is the probability of the answer a. All n answers are a with the probability P(a)^n. The
    sum of these over all a with P(a)^(n-1) <= x is at most x. So a right model gives x or less with
    a probability of at most x.
    """
    first = list(drawn[0])
    if any(list(other) != first for other in drawn):
        return 1.0
    logs = network.log_chances(answers.scores_along(me, prompt, first), temperature)
    return float(np.exp((len(drawn) - 1) * logs[np.arange(len(first)), first].sum()))


def require_seeds(server: Probe, me: str, model: str, prompts: Sequence[str], seed: int) -> None:
    """Fail unless the same seed gives the same tokens in any batch, and no seed gives other ones.

    The network's scores differ by up to 1e-5 between batches. That changes one token in 4,000 at
    most (simulated with a deviation of 3e-6; 1e-6 was measured). So the probability that one of 16
    compared tokens differs is 4e-3, and that this happens with three seeds, 6e-8.
    """
    answers.retry(
        3, lambda attempt: _require_seeds(server, me, model, prompts, seed + 1000 * attempt)
    )


def _require_seeds(server: Probe, me: str, model: str, prompts: Sequence[str], seed: int) -> None:
    temperature = float(_HOT["temperature"])
    prompt = min(  # the least certain; all rows have it, so that none is padded
        prompts, key=lambda one: nucleus_chances(next_scores(me, one), temperature, 1).max()
    )
    seeds = [seed + 1, seed + 2, 0, 0, None, None, seed + 3, seed]
    rows = [_HOT if one is None else {**_HOT, "seed": one} for one in seeds]
    found = answers.ask(server, model, [prompt] * len(rows), rows)
    (alone,) = answers.ask(server, model, [prompt], rows[-1:])
    how = f"at temperature {temperature:g}"
    require_drawable(me, prompt, alone, _HOT, f"an answer with a seed, {how}")
    if found[-1].tokens != alone.tokens:
        raise Failure(
            "The same prompt with the same seed gets other tokens among other rows than alone.",
            help="Each row draws from a generator of its own, which begins with its seed.",
        )
    if found[2].tokens != found[3].tokens:
        raise Failure(
            f"Two answers to one prompt with the seed 0, {how}, are not the same.",
            help="0 is a seed like others. `if seed:` and `seed or …` treat it as no seed: test "
            "whether it `is None`.",
        )
    for both, what, help in (
        (
            found[4:6],
            "without a seed",
            "Without one, np.random.default_rng() begins anew each time.",
        ),
        (found[6:8], "with two seeds", "Is the seed read?"),
    ):
        drawn = [one.drawn for one in both]
        if all_equal_by_chance(me, prompt, drawn, temperature) < FALSE_ALARM:
            raise Failure(f"Two answers to one prompt {what}, {how}, are all the same.", help=help)


def require_cold(server: Probe, me: str, model: str, prompts: Sequence[str]) -> None:
    """Fail unless a very low temperature gives the likeliest tokens, and no NaN."""
    wanted = {"temperature": 0.01, "max_tokens": 8}
    try:
        for prompt in prompts:
            (answer,) = answers.ask(server, model, [prompt], wanted)
            require_drawable(me, prompt, answer, wanted, "an answer")
    except Failure as failure:
        help = (
            "Scores divided by 0.01 are so large that exp gives infinity, and infinity divided by "
            "infinity is NaN. Subtract the largest score before exp: the probabilities stay the "
            "same."
        )
        if answers.LATE in failure.rationale:  # a missing answer says nothing about numbers
            help = failure.help
        raise Failure(
            f"At temperature 0.01: {failure.rationale}",
            help=help,
            safe="At another temperature your model does not answer as it should.",
        ) from None
