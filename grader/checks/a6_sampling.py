"""Words for a6__llm about sampling and about the end of an answer.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from . import a6_answers as answers_of
from . import a6_facts as facts
from . import a6_network as network
from .a6_answers import Written
from .failure import Failure
from .probe import Array, Probe

#: So many first tokens are drawn for the test of frequencies, in requests of 8 rows.
DRAWS = 384
#: A right model fails the test of frequencies with this probability.
FALSE_ALARM = 1e-6
#: Tokens of which fewer are expected are counted together, so that the test's formula holds.
_FEWEST = 8.0


def nucleus(scores: Array, temperature: float, top_p: float, slack: float = 0.0) -> Array:
    """Which tokens may be drawn: bool, of the scores' shape.

    A token may be drawn where the tokens that are likelier than it do not reach top_p together.

    Args:
        scores: of one step, shape (tokens,).
        temperature: above 0.
        top_p: from above 0 to 1.
        slack: is added to top_p: two programs round differently.
    """
    chances = np.exp(network.log_chances(scores, temperature))
    order = np.argsort(-chances, kind="stable")
    likelier = np.cumsum(chances[order]) - chances[order]
    inside = np.zeros(len(scores), bool)
    inside[order] = likelier < top_p + slack
    return inside


def in_nucleus(
    me: str, prompt: str, answer: Written, temperature: float, top_p: float, which: str
) -> None:
    """Fail unless each token of an answer is one that may be drawn there."""
    scores, _ = answers_of.scores_along(me, prompt, answer)
    slack = network.tolerance().allowed / temperature
    outside = [
        place
        for place, token in enumerate(answer.tokens)
        if not nucleus(scores[place], temperature, top_p, slack)[token]
    ]
    if outside:
        raise Failure(
            f"{len(outside)} of {len(answer.tokens)} tokens in {which} cannot be drawn with "
            f"temperature {temperature:g} and top_p {top_p:g}, the first of them as token "
            f"{outside[0] + 1}.",
            help="Divide the scores by the temperature, make probabilities, sort them, and keep "
            "the fewest of the likeliest that reach top_p together. The one that reaches it is in.",
            unquoted=f"Tokens in {which} cannot be drawn with these parameters.",
        )


def telling(me: str, prompts: Sequence[str], temperature: float) -> tuple[str, float]:
    """A prompt and a top_p for which the token that reaches top_p is drawn often.

    So it shows whether that token is in the nucleus, and whether the temperature comes first.

    Args:
        me: the student's id.
        prompts: those to choose from.
        temperature: above 0.
    """
    best, found = 0.0, (prompts[0], 0.5)
    for prompt in prompts:
        scores = network.logits(me, facts.tokenizer().encode(prompt).ids)[-1]
        chances = np.sort(np.exp(network.log_chances(scores, temperature)))[::-1]
        place = 1 + int(chances[1:6].argmax())
        if chances[place] > best:
            best = float(chances[place])
            found = prompt, round(float(chances[:place].sum() + chances[place] / 2), 3)
    return found


def frequencies(
    server: Probe,
    me: str,
    model: str,
    prompt: str,
    seeds: Sequence[int],
    *,
    temperature: float,
    top_p: float,
) -> None:
    """Draw the first token many times; fail unless it comes as often as it should.

    Pearson's chi-squared test. A right model fails with a probability of `FALSE_ALARM`: about once
    in a million.

    Args:
        server: the check's probe.
        me: the student's id.
        model: the name of the model.
        prompt: what is asked.
        seeds: one for each draw, a multiple of 8.
        temperature: above 0.
        top_p: from above 0 to 1.
    """
    found: list[Written] = []
    for start in range(0, len(seeds), facts.ROWS):
        some = seeds[start : start + facts.ROWS]
        wanted = [
            {"temperature": temperature, "top_p": top_p, "seed": int(seed), "max_tokens": 1}
            for seed in some
        ]
        found += answers_of.ask(server, model, [prompt] * len(some), wanted)
    scores = network.logits(me, facts.tokenizer().encode(prompt).ids)[-1]
    inside = nucleus(scores, temperature, top_p, network.tolerance().allowed / temperature)
    how = f"temperature {temperature:g} and top_p {top_p:g}"
    tokens = [answer.tokens[0] for answer in found if answer.tokens]
    strange = sum(not inside[token] for token in tokens)
    if strange:
        raise Failure(
            f"Of {len(tokens)} first tokens drawn with {how}, {strange} cannot be drawn at all: "
            "likelier ones reach top_p without them.",
            help="Sort by probability, and keep the fewest of the likeliest that reach top_p.",
        )
    if len({*tokens}) == 1 and inside.sum() > 2:
        raise Failure(
            f"{len(tokens)} first tokens drawn with {how}, each with a seed of its own, are all "
            "the same.",
            help="A seed begins a generator of random numbers, once per row: "
            "np.random.default_rng(seed).",
        )
    chances = np.exp(network.log_chances(scores, temperature))
    chances[~nucleus(scores, temperature, top_p)] = 0
    expected = len(tokens) * chances / chances.sum()
    counts = np.bincount(tokens, minlength=len(expected)).astype(float)
    if not same_frequencies(counts, expected):
        raise Failure(
            f"{len(tokens)} first tokens were drawn with {how}. They do not come as often as they "
            f"should: a right model is off so far about once in {1 / FALSE_ALARM:,.0f} times.",
            help="Within the nucleus the probabilities are divided by their sum, and stay as they "
            "are otherwise. The temperature divides the scores before that.",
        )


def same_frequencies(counts: Array, expected: Array) -> bool:
    """Whether counts can be draws from what is expected; a right model fails once in a million.

    Tokens of which few are expected are counted as one.

    Args:
        counts: how often each token was drawn.
        expected: how often it is expected; the same sum.
    """
    often = expected >= _FEWEST
    observed = np.append(counts[often], counts[~often].sum())
    awaited = np.append(expected[often], expected[~often].sum())
    if awaited[-1] < _FEWEST:  # too few even together: with the least of the others
        if len(awaited) < 3:
            return True
        least = int(awaited[:-1].argmin())
        awaited[least] += awaited[-1]
        observed[least] += observed[-1]
        observed, awaited = observed[:-1], awaited[:-1]
    if len(awaited) < 2:
        return True
    distance = float(((observed - awaited) ** 2 / awaited).sum())
    return bool(stats.chi2.sf(distance, len(awaited) - 1) > FALSE_ALARM)


def seeds_repeat(server: Probe, me: str, model: str, prompts: Sequence[str], seed: int) -> None:
    """Fail unless a seed repeats a draw, whoever else is in the batch, and no seed draws anew."""
    one = {"temperature": 1.0, "top_p": 0.95, "max_tokens": 16}
    (alone,) = answers_of.ask(server, model, prompts[:1], [{**one, "seed": seed}])
    in_nucleus(me, prompts[0], alone, 1.0, 0.95, "an answer with a seed")
    answers_of.true_logprobs(me, prompts[0], alone, "an answer with a seed")
    wanted = [{**one, "seed": seed + place} for place in range(len(prompts))]
    beside = answers_of.ask(server, model, [*prompts[1:], prompts[0]], [*wanted[1:], wanted[0]])[-1]
    if beside.tokens != alone.tokens:
        raise Failure(
            "The same prompt with the same seed gets other tokens among other prompts than alone.",
            help="Each row draws from a generator of its own, which begins with its seed. If the "
            "first tokens agree and later ones do not, look at padding and positions.",
        )
    same = answers_of.ask(server, model, [prompts[0]] * 8, [one] * 8)
    if len({tuple(answer.tokens) for answer in same}) == 1:
        raise Failure(
            "Eight answers to one prompt without a seed, at temperature 1, are all the same.",
            help="Without a seed each row begins anew: np.random.default_rng() takes one from the "
            "system.",
        )
    others = [{**one, "seed": seed + place} for place in range(8)]
    drawn = answers_of.ask(server, model, [prompts[0]] * 8, others)
    if len({tuple(answer.tokens) for answer in drawn}) == 1:
        raise Failure("Eight seeds give one and the same answer.", help="Is the seed read?")


# -- the end of an answer --------------------------------------------------------------------------


def stop_between(random: np.random.Generator, text: str) -> str:
    """Some characters of a text, at a place that is drawn: they pay no heed to tokens."""
    size = int(random.integers(3, 7))
    start = int(random.integers(len(text) // 4, max(len(text) // 4 + 1, 3 * len(text) // 4 - size)))
    return text[start : start + size]


def cut(whole: Written, stops: Sequence[str]) -> Written:
    """What an answer becomes with stop texts."""
    decode = facts.tokenizer().decode
    for count in range(1, len(whole.tokens) + 1):
        text = decode(whole.tokens[:count])
        if places := [text.find(stop) for stop in stops if stop in text]:
            ids, logs = whole.tokens[:count], whole.logprobs[:count]
            return Written(text[: min(places)], ids, logs, "stop")
    return whole


def same_end(answer: Written, expected: Written, what: str) -> None:
    """Fail unless an answer ends where it should."""
    if answer.text != expected.text:
        shows = answer.text.startswith(expected.text)
        raise Failure(
            f"With {what}, text_output {'goes on too far' if shows else 'is not right'}: it has "
            f"{len(answer.text)} characters, and {len(expected.text)} are right.",
            help="The text ends before the first place at which a stop text stands, wherever its "
            "tokens begin and end. Look for it in the whole text so far.",
            unquoted=f"With {what}, text_output is not right.",
        )
    if answer.tokens != expected.tokens:
        raise Failure(
            f"With {what}, token_ids has {len(answer.tokens)} tokens, and "
            f"{len(expected.tokens)} are right.",
            help="The answer ends with the token that completes the stop text.",
            unquoted=f"With {what}, token_ids are not right.",
        )
    if answer.reason != expected.reason:
        raise Failure(
            f"With {what}, finish_reason is {answer.reason[:20]!r}.",
            help='A stop text ends an answer with "stop".',
            unquoted=f"With {what}, finish_reason is wrong.",
        )


def stops(server: Probe, me: str, model: str, prompts: Sequence[str]) -> None:
    """Fail unless stop texts end an answer, in a row of its own, and others do not."""
    most = 40
    wanted = [{"temperature": 0, "max_tokens": most}] * len(prompts)
    whole = answers_of.ask(server, model, prompts, wanted)
    for prompt, answer in zip(prompts, whole, strict=True):
        answers_of.likeliest(me, prompt, answer, "an answer at temperature 0")
    long = [place for place, answer in enumerate(whole) if len(answer.text) >= 24][:4]
    if not long:
        raise Failure(f"The answers of {model} at temperature 0 are too short to be stopped.")
    asked, expected, said = [], [], []
    for number, place in enumerate(long):
        text = whole[place].text
        one, other = (stop_between(server.rng, text) for _ in range(2))
        stop = (one, [one], [one, other], ["§§", one + "§"])[number]
        names = ("a stop text", "a list with one stop text", "two stop texts")
        said.append((*names, "stop texts that do not occur")[number])
        asked.append({"temperature": 0, "max_tokens": most, "stop": stop})
        texts = [stop] if isinstance(stop, str) else stop
        expected.append(cut(whole[place], texts))
    rows = [prompts[place] for place in long]
    together = answers_of.ask(server, model, rows, asked)
    for prompt, parameters, right, what in zip(rows, asked, expected, said, strict=True):
        (alone,) = answers_of.ask(server, model, [prompt], [parameters])
        same_end(alone, right, what)
    for answer, right, what in zip(together, expected, said, strict=True):
        same_end(answer, right, f"{what}, in a row among others")
