"""Words for a6__llm about sampling and about the end of an answer.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe
from workbook.zoo import small_llama

from . import answers as answers_of
from . import facts, network
from .answers import Written

#: So many first tokens are drawn for a test of frequencies, in requests of 8 rows; and so many
#: pairs of a first and a second token.
DRAWS, PAIRS = 384, 256
#: A right model fails a test of frequencies with this probability at most.
FALSE_ALARM = 1e-6
#: Tokens of which fewer are expected are counted together: the fewer kinds, the narrower the test.
_FEWEST = 8.0
#: A token that is expected so often comes at least once: it does not once in 5e7 times (exp(-18)).
_NEVER = 18.0
#: What `telling_chances` chooses from: temperatures, the sizes of the nucleus, and the least that
#: the rarest token of it comes.
_COLD, _SIZES, _RAREST = (0.3, 0.35, 0.4, 0.45, 0.5, 0.6), range(3, 7), 0.05


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
            "the fewest of the likeliest that reach top_p together. The one that reaches it is in. "
            "A place in the sorted list is no token yet: the token is the entry at this place.",
            safe="An answer has tokens that cannot be drawn with its parameters.",
        )


def telling(me: str, prompts: Sequence[str], temperature: float) -> tuple[str, float]:
    """A prompt and a top_p for which the token that reaches top_p is drawn often.

    So it shows whether that token is in the nucleus, and whether the temperature comes first. The
    token after it has a clearly lower score: otherwise two right programs may sort differently.

    Args:
        me: the student's id.
        prompts: those to choose from.
        temperature: above 0.
    """
    best, found = 0.0, (prompts[0], 0.5)
    for prompt in prompts:
        scores = network.logits(me, facts.tokenizer().encode(prompt).ids)[-1]
        chances = np.sort(np.exp(network.log_chances(scores, temperature)))[::-1]
        if chances[1] > best and _apart(scores, 2):
            best = float(chances[1])
            found = prompt, round(float(chances[0] + chances[1] / 2), 3)
    return found


def telling_chances(me: str, prompts: Sequence[str]) -> tuple[str, float, float]:
    """A prompt, a temperature and a top_p for which the nucleus has 3 to 6 unequal tokens.

    They are chosen so that the wrong ways to draw from the right nucleus differ most from the right
    one: all alike, the probabilities in reverse, those of temperature 1, and the first or the last
    token half of the time each.

    Args:
        me: the student's id.
        prompts: those to choose from.
    """
    best, found = 0.0, (prompts[0], _COLD[0], 0.9)
    for prompt in prompts:
        scores = network.logits(me, facts.tokenizer().encode(prompt).ids)[-1]
        order = np.argsort(-scores, kind="stable")
        plain = np.exp(network.log_chances(scores))[order]
        for temperature in _COLD:
            chances = np.exp(network.log_chances(scores, temperature))[order]
            for size in _SIZES:
                right = chances[:size] / chances[:size].sum()
                if right[-1] < _RAREST:
                    break
                if not _apart(scores, size):
                    continue
                ends = np.zeros(size)
                ends[[0, -1]] = 0.5
                wrong = (np.full(size, 1 / size), right[::-1], plain[:size] / plain[:size].sum())
                least = min(float(((one - right) ** 2 / right).sum()) for one in (*wrong, ends))
                if least > best:
                    top_p = float(chances[: size - 1].sum() + chances[size - 1] / 2)
                    best, found = least, (prompt, temperature, round(top_p, 4))
    return found


def _apart(scores: Array, size: int) -> bool:
    """Whether two right programs agree on which tokens are the likeliest, so many."""
    ordered = np.sort(scores)[::-1]
    return bool(ordered[size - 1] - ordered[size] > 2 * network.tolerance().allowed)


def all_equal(
    me: str,
    prompt: str,
    temperature: float,
    count: int,
    most: int,
    rest: float = 1.0,
    made: tuple[int, ...] = (),
) -> float:
    """The probability that so many answers to one prompt are all the same, at most; with top_p 1.

    The probabilities of all first tokens, to the power of `count`, add up to it; after each of them
    comes the same for the second token, and so on. Beginnings that hardly ever come so often are
    not followed: they count in full.

    Args:
        me: the student's id.
        prompt: the prompt of all answers.
        temperature: above 0.
        count: how many answers there are.
        most: max_tokens of each.
        rest: the probability that all have begun with the tokens of `made`.
        made: tokens of the answer so far.
    """
    ids = facts.tokenizer().encode(prompt).ids
    scores = network.logits(me, [*ids, *made])[-1]
    equal = np.exp(count * network.log_chances(scores, temperature))
    total = 0.0
    for token in np.argsort(-equal):
        together = rest * float(equal[token])
        if together < FALSE_ALARM / 1e6:
            return total + rest * float(equal[equal <= equal[token]].sum())
        if token == small_llama.EOS or len(made) + 1 == most:
            total += together
        else:
            total += all_equal(me, prompt, temperature, count, most, together, (*made, int(token)))
    return total


def telling_answers(me: str, prompts: Sequence[str]) -> tuple[str, float]:
    """A prompt and a temperature at which eight answers of 16 tokens are never all the same.

    "Never" is once in a million times. There are prompts after which nearly each token is certain.

    Args:
        me: the student's id.
        prompts: those to choose from.
    """
    least, found = 1.0, (prompts[0], 2.0)
    for temperature in (1.0, 1.5, 2.0):
        for prompt in prompts:
            chance = all_equal(me, prompt, temperature, facts.ROWS, _TOKENS)
            if chance < FALSE_ALARM / 10:
                return prompt, temperature
            if chance < least:
                least, found = chance, (prompt, temperature)
    return found


def _first_token(answer: Written, which: str) -> int:
    """The first token that was drawn for an answer: where it ended at once, the end of text."""
    if answer.tokens:
        return answer.tokens[0]
    if answer.reason != "stop":
        raise Failure(
            f"{which.capitalize()} has no token, and its finish_reason is {answer.reason[:20]!r}.",
            help="An answer without tokens is one whose first token was the end of text. Then its "
            'finish_reason is "stop".',
            safe="An answer has no token.",
        )
    return small_llama.EOS


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

    A right model fails at most once in a million times (`same_frequencies`).

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
        if start == 0:
            which = f"an answer at temperature {temperature:g}"
            for answer in found:
                answers_of.true_logprobs(me, prompt, answer, which)
    scores = network.logits(me, facts.tokenizer().encode(prompt).ids)[-1]
    inside = nucleus(scores, temperature, top_p, network.tolerance().allowed / temperature)
    how = f"temperature {temperature:g} and top_p {top_p:g}"
    tokens = [_first_token(answer, f"an answer drawn with {how}") for answer in found]
    strange = sum(not inside[token] for token in tokens)
    if strange:
        raise Failure(
            f"Of {len(tokens)} first tokens drawn with {how}, {strange} cannot be drawn at all: "
            "likelier ones reach top_p without them.",
            help="Sort by probability, and keep the fewest of the likeliest that reach top_p. The "
            "probabilities are those at this temperature: are the scores divided by it before "
            "softmax? (After softmax it is too late.) Or is the nucleus one token too long, or "
            "top_p not used at all?",
        )
    chances = np.exp(network.log_chances(scores, temperature))
    chances[~nucleus(scores, temperature, top_p)] = 0
    chances /= chances.sum()
    if len({*tokens}) == 1 and float(chances.max()) ** len(tokens) < FALSE_ALARM:
        raise Failure(
            f"{len(tokens)} first tokens drawn with {how}, each with a seed of its own, are all "
            "the same.",
            help="A seed begins a generator of random numbers, once per row: "
            "np.random.default_rng(seed).",
        )
    expected = len(tokens) * chances
    counts = np.bincount(tokens, minlength=len(expected)).astype(float)
    if never := int(((expected >= _NEVER) & (counts == 0)).sum()):
        raise Failure(
            f"Among {len(tokens)} first tokens drawn with {how}, {never} of the nucleus never "
            "came.",
            help="Which tokens are in the nucleus? The one with which the sum reaches top_p is.",
        )
    if not same_frequencies(counts, expected):
        raise Failure(
            f"{len(tokens)} first tokens were drawn with {how}. They do not come as often as they "
            f"should: a right model is off so far less than once in {1 / FALSE_ALARM:,.0f} times.",
            help="The nucleus is right, but each token of it must be drawn with its own "
            "probability: the one at this temperature, divided by the sum of the nucleus. Is that "
            "probability handed to the draw, in the same order as the tokens?",
        )


def successive(
    server: Probe, me: str, model: str, prompts: Sequence[str], seeds: Sequence[int]
) -> None:
    """Draw two tokens many times; fail unless the second is drawn anew, not with the same number.

    Among the answers that begin with one token, the second token must come as often as the network
    says. A generator that begins again in each step draws both with the same random number, so it
    gives only some of the second tokens.

    Args:
        server: the check's probe.
        me: the student's id.
        model: the name of the model.
        prompts: those to choose from.
        seeds: one for each draw, a multiple of 8.
    """
    best = None
    for prompt in prompts:
        ids = facts.tokenizer().encode(prompt).ids
        chances = np.exp(network.log_chances(network.logits(me, ids)[-1]))
        goes_on = chances.copy()
        goes_on[small_llama.EOS] = 0
        first = int(goes_on.argmax())
        second = np.exp(network.log_chances(network.logits(me, [*ids, first])[-1]))
        # Both should be spread: p(1-p) for the first, and no second token that nearly always comes.
        worth = float(chances[first] * (1 - chances[first]) * (1 - second.max()))
        if best is None or worth > best[0]:
            best = worth, prompt, first, second
    assert best is not None
    _, prompt, first, second = best
    drawn = []
    for start in range(0, len(seeds), facts.ROWS):
        some = seeds[start : start + facts.ROWS]
        wanted = [{"temperature": 1, "seed": int(seed), "max_tokens": 2} for seed in some]
        drawn += answers_of.ask(server, model, [prompt] * len(some), wanted)
    after = [
        answer.tokens[1] if len(answer.tokens) > 1 else small_llama.EOS
        for answer in drawn
        if answer.tokens and answer.tokens[0] == first
    ]
    counts = np.bincount(after, minlength=len(second)).astype(float)
    if not same_frequencies(counts, len(after) * second):
        raise Failure(
            f"{len(drawn)} answers of two tokens were drawn, each with a seed of its own. After "
            "the same first token, the second does not come as often as it should.",
            help="An answer makes its generator once, and each step draws the next number from it. "
            "If each step begins a new generator with the seed, all steps draw the same number.",
        )


def same_frequencies(counts: Array, expected: Array) -> bool:
    """Whether counts can be draws from what is expected; a right model fails once in a million.

    With n draws of k kinds, the relative entropy D of the observed shares to the right ones is x/n
    or more with a probability of at most exp(-x) (e x / (k - 1))^(k - 1), where x > k - 1 (Agrawal,
    Finite-Sample Concentration of the Multinomial in Relative Entropy, 2020). It holds for every n.
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
    came = observed > 0
    with np.errstate(divide="ignore"):
        x = float((observed[came] * np.log(observed[came] / awaited[came])).sum())
    free = len(awaited) - 1
    if x <= free:
        return True
    return free * (1 + math.log(x / free)) - x > math.log(FALSE_ALARM)


def seeds_repeat(server: Probe, me: str, model: str, prompts: Sequence[str], seed: int) -> None:
    """Fail unless a seed repeats a draw, whoever else is in the batch, and no seed draws anew."""
    prompt, temperature = telling_answers(me, prompts)
    others = [another for another in prompts if another != prompt][: facts.ROWS - 1]
    _same_beside(server, me, model, [prompt, *others], temperature, seed)
    one = {"temperature": temperature, "max_tokens": _TOKENS}
    how = f"temperature {temperature:g}"
    if _different(server, model, prompt, [one] * facts.ROWS) == 1:
        raise Failure(
            f"Eight answers to one prompt without a seed, at {how}, are all the same.",
            help="Without a seed each row begins anew: np.random.default_rng() takes one from the "
            "system.",
        )
    seeds = [{**one, "seed": seed + place} for place in range(facts.ROWS)]
    if _different(server, model, prompt, seeds) == 1:
        raise Failure(
            f"Eight seeds give one and the same answer, at {how}.", help="Is the seed read?"
        )
    # Rows that should be equal can differ in the last digits, once in thousands of tokens.
    if _different(server, model, prompt, [{**one, "seed": 0}] * facts.ROWS) > 2:
        raise Failure(
            f"Eight answers to one prompt with the seed 0, at {how}, are not the same.",
            help="0 is a seed like others. `if seed:` and `seed or …` take it for none: ask "
            "whether it `is None`.",
        )


#: So many tokens have the answers with which `seeds_repeat` looks at seeds.
_TOKENS = 16


def _same_beside(
    server: Probe,
    me: str,
    model: str,
    prompts: Sequence[str],
    temperature: float,
    seed: int,
) -> None:
    """Fail unless the first prompt gets the same tokens alone and among others, with one seed.

    The network's scores differ in the last digits between batches, which changes a draw once in
    thousands of tokens. So a right model may differ once, but not with two seeds.
    """
    one = {"temperature": temperature, "top_p": 0.95, "max_tokens": _TOKENS}
    which = "an answer with a seed"
    for begin in (seed, seed + 1000):
        wanted = [{**one, "seed": begin + place} for place in range(len(prompts))]
        (alone,) = answers_of.ask(server, model, prompts[:1], wanted[:1])
        in_nucleus(me, prompts[0], alone, temperature, 0.95, which)
        answers_of.true_logprobs(me, prompts[0], alone, which)
        rows, parameters = [*prompts[1:], prompts[0]], [*wanted[1:], wanted[0]]
        if answers_of.ask(server, model, rows, parameters)[-1].tokens == alone.tokens:
            return
    raise Failure(
        "The same prompt with the same seed gets other tokens among other prompts than alone.",
        help="Each row draws from a generator of its own, which begins with its seed. If the "
        "first tokens agree and later ones do not, look at padding and positions.",
    )


def _different(server: Probe, model: str, prompt: str, wanted: Sequence[Mapping[str, Any]]) -> int:
    """How many different answers one prompt gets in the rows of one request."""
    found = answers_of.ask(server, model, [prompt] * len(wanted), wanted)
    return len({tuple(answer.tokens) for answer in found})


def nearly_zero(server: Probe, me: str, model: str, prompts: Sequence[str]) -> None:
    """Fail unless a very low temperature gives the likeliest tokens, and no NaN."""
    temperature = 0.01
    wanted = [{"temperature": temperature, "max_tokens": 8}] * len(prompts)
    advice = (
        f"Scores divided by {temperature:g} are so large that exp gives infinity, and infinity "
        "divided by infinity is NaN. Take the largest score away before exp: the probabilities "
        "stay the same."
    )
    try:
        found = answers_of.ask(server, model, prompts, wanted)
    except Failure as failure:
        late = answers_of.LATE in failure.rationale  # no answer says nothing of its numbers
        raise Failure(
            f"At temperature {temperature:g}: {failure.rationale}",
            help=failure.help if late else advice,
            safe="At another temperature your model does not answer as it should.",
        ) from None
    # Of 1024 tokens, one whose score is lower by this comes once in a billion times.
    rarely = temperature * 28 + network.tolerance().allowed
    for prompt, answer in zip(prompts, found, strict=True):
        scores, after = answers_of.scores_along(me, prompt, answer)
        drawn = [*answer.tokens, small_llama.EOS]
        rows = [*scores, after] if answer.reason == "stop" else [*scores]
        if any(row.max() - row[token] > rarely for row, token in zip(rows, drawn, strict=False)):
            raise Failure(
                f"At temperature {temperature:g} a token came that is not among the likeliest.",
                help=advice,
            )


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


def same_end(answer: Written, expected: Written, what: str, stops: Sequence[str] = ()) -> None:
    """Fail unless an answer ends where it should.

    Args:
        answer: what the model has answered.
        expected: what is right.
        what: the kind of stop, for the message.
        stops: the stop texts, to say what is wrong with a text.
    """
    if answer.text != expected.text:
        _wrong_text(answer, expected, what, stops)
    if answer.tokens != expected.tokens:
        raise Failure(
            f"With {what}, token_ids has {len(answer.tokens)} tokens, and "
            f"{len(expected.tokens)} are right.",
            help="The answer ends with the token that completes the stop text, and without one as "
            "it would otherwise. In a stream each token is sent, also where no text can be shown.",
            safe="With stop texts, token_ids are not right.",
        )
    if answer.reason != expected.reason:
        raise Failure(
            f"With {what}, finish_reason is {answer.reason[:20]!r}; {expected.reason!r} is right.",
            help='A stop text ends an answer with "stop", also where its last token is the last '
            "one of max_tokens.",
            safe="With stop texts, finish_reason is wrong.",
        )


def _wrong_text(answer: Written, expected: Written, what: str, stops: Sequence[str]) -> None:
    """Say of a wrong text whether it is too long, too short, or another one."""
    sizes = (
        f"it has {len(answer.text)} characters, and {len(expected.text)} are right. It ends in "
        f"{answer.text[-20:]!r}; right is an end in {expected.text[-20:]!r}."
        + (f" `stop` was {[*stops]}." if stops else "")
    )
    streamed = "in a stream" in what
    if answer.text.startswith(expected.text):
        early = answer.tokens == expected.tokens and not any(one in answer.text for one in stops)
        said = (
            "The stream has sent the beginning of a stop text before it was clear that it is one. "
            "`settled` keeps back the end of the text as long as it may begin a stop text: of all "
            "stop texts, look at the longest such beginning."
            if streamed and early
            else "The text ends before the first place at which a stop text stands, wherever its "
            "tokens begin and end. Look for each of them in the whole text so far."
        )
        fault = f"text_output goes on too far: {sizes}"
    elif expected.text.startswith(answer.text) and answer.tokens == expected.tokens:
        fault = f"text_output lacks its end: {sizes}"
        said = (
            "Where the answer ends without a stop text, nothing is kept back any more: `add` must "
            "return what was kept back before."
            if not _has_stop(what)
            else "The text ends where the stop text begins: nothing before it may be missing."
        )
    else:
        fault = f"text_output is not right: {sizes}"
        said = (
            "The text ends before the first place at which a stop text stands. What only looked "
            "like its beginning is shown later, nothing twice and nothing left out."
        )
    if not streamed and _TWO in what:
        said = (
            "Of all stop texts that stand in the text, the one that begins first decides, whatever "
            "their order in `stop` is."
        )
    raise Failure(
        f"With {what}, {fault}", help=said, safe="With stop texts, text_output is not right."
    )


#: What the message says of two stop texts of which both are complete at the same time.
_TWO = "two stop texts that end at the same place"


def _has_stop(what: str) -> bool:
    return "begin" not in what and "do not occur" not in what


def _unlike(random: np.random.Generator, text: str, size: int) -> int:
    """A place in a text whose characters, so many, do not stand at an earlier place."""
    places = [
        place
        for place in range(len(text) // 4, len(text) - size)
        if text.find(text[place : place + size]) == place
        and text.find(text[place + 1 : place + size]) == place + 1
    ]
    return int(random.choice(places)) if places else len(text) // 2


def _stopping(
    random: np.random.Generator, whole: Sequence[Written], most: int
) -> list[tuple[int, str, dict[str, Any], Written]]:
    """For each kind of stop: which answer, words for it, the parameters, and what is right."""
    found = []
    kinds = (
        "a stop text",
        "a list with one stop text",
        "two stop texts",
        "stop texts that do not occur",
        _TWO,
        "a stop text that the last token of max_tokens completes",
        "a stop text that only begins at the end of the answer",
    )
    for number, kind in enumerate(kinds):
        place = number % len(whole)
        text, limit = whole[place].text, most
        one, other = (stop_between(random, text) for _ in range(2))
        stop: str | list[str] = [one]
        if number == 0:
            stop = one
        elif number == 2:
            stop = [one, other]
        elif number == 3:
            stop = ["§§", one + "§"]
        elif number == 4:
            start = _unlike(random, text, 5)
            stop = [text[start + 1 : start + 5], text[start : start + 5]]
        elif number == 6:
            stop = [text[-3:] + "§"]
        right = cut(whole[place], [stop] if isinstance(stop, str) else stop)
        if number == 5:
            limit = len(right.tokens)
        parameters = {"temperature": 0, "max_tokens": limit, "stop": stop}
        found.append((place, kind, parameters, right))
    return found


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
    asked = _stopping(server.rng, [whole[place] for place in long], most)
    rows = [prompts[long[place]] for place, *_ in asked]
    (alone,) = answers_of.ask(server, model, rows[:1], [asked[0][2]])
    same_end(alone, asked[0][3], asked[0][1], _texts(asked[0][2]))
    together = answers_of.ask(server, model, rows, [parameters for _, _, parameters, _ in asked])
    for answer, (_, kind, parameters, right) in zip(together, asked, strict=True):
        same_end(answer, right, f"{kind}, in a row among others", _texts(parameters))


def _texts(parameters: Mapping[str, Any]) -> list[str]:
    """The stop texts of a request."""
    stop = parameters["stop"]
    return [stop] if isinstance(stop, str) else [*stop]
