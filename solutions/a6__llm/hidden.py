"""The hidden checks of a6__llm: the same questions, with other prompts and other parameters.

What is right is computed from the student's network (`a6_network`), which the id decides. The
messages contain no expected value.
"""

from __future__ import annotations

from typing import Any

from grader.vocabulary.define import hidden
from grader.vocabulary.probe import Array, Probe

from . import answers as answers_of
from . import engine, facts, loop
from . import knobs as knobs_of
from . import sampling as drawing
from . import stream as streamed


def seeds(server: Probe, count: int) -> list[int]:
    """Seeds that are not all neighbours."""
    return [int(seed) for seed in server.rng.integers(0, 2**31, count)]


@hidden(
    "a6.step",
    help="Do tokens and positions reach the served step as they do your network's, and does "
    "the file hold your network?",
)
def secret_step(server: Probe, me: str, model: str, first: Array, second: Array) -> None:
    """The served step is the student's network for other prompts, too."""
    loop.own_network(server, me, facts.drawn_prompts(server.rng, 6))


@hidden(
    "a6.greedy",
    help="Are the rows of a batch independent: its own positions, mask and cache for each, "
    "also when another row has ended?",
)
def secret_greedy(server: Probe, me: str, model: str) -> None:
    """Other prompts, in other batches, get their likeliest tokens."""
    prompts = facts.drawn_prompts(server.rng, 16)
    loop.own_network(server, me, prompts[:3])
    loop.alone(server, me, model, prompts[:3], 20)
    most = [int(count) for count in server.rng.integers(1, 48, 6)]
    loop.one_table(server, me, model, prompts[2:8], most)
    loop.share_steps(server, me, model, prompts[8:], int(server.rng.integers(10, 24)))
    loop.fills_context(server, me, model, prompts[:2])


@hidden(
    "a6.sampling",
    help="The chances are those of your network's scores, divided by the temperature, with the "
    "tail beyond top_p left out. The seed alone decides what is drawn.",
)
def secret_sampling(server: Probe, me: str, model: str) -> None:
    """Answers to other prompts are drawn as their temperature, top_p and seed say."""
    prompts = facts.drawn_prompts(server.rng, 6)
    drawing.seeds_repeat(server, me, model, prompts, seeds(server, 1)[0])
    drawing.nearly_zero(server, me, model, prompts)
    cold, hot = (float(server.rng.uniform(*limits)) for limits in ((0.6, 0.9), (1.1, 1.6)))
    first, share = drawing.telling(me, prompts, cold)
    drawing.successive(server, me, model, prompts, seeds(server, drawing.PAIRS))
    for prompt, temperature, top_p in (
        drawing.telling_chances(me, prompts),
        (first, cold, share),
        (prompts[5], hot, 1.0),
    ):
        drawing.frequencies(
            server,
            me,
            model,
            prompt,
            seeds(server, drawing.DRAWS),
            temperature=temperature,
            top_p=top_p,
        )
        wanted = [
            {"temperature": temperature, "top_p": top_p, "seed": seed, "max_tokens": 24}
            for seed in seeds(server, 6)
        ]
        found = answers_of.ask(server, model, prompts, wanted)
        for asked, answer in zip(prompts, found, strict=True):
            which = "a row of a request with 6 prompts"
            drawing.in_nucleus(me, asked, answer, temperature, top_p, which)
            answers_of.true_logprobs(me, asked, answer, which)


@hidden(
    "a6.stops",
    help="An answer ends before the first place at which a stop text stands, also where it is "
    "made of parts of several tokens.",
)
def secret_stops(server: Probe, me: str, model: str) -> None:
    """Other prompts, stopped at other places, end where their stop texts stand."""
    for _ in range(2):
        drawing.stops(server, me, model, facts.drawn_prompts(server.rng, 8))


@hidden(
    "a6.refusals",
    help="Test every value when the request is read. The message contains the name of what is "
    "wrong.",
)
def secret_refusals(server: Probe, model: str) -> None:
    """Other bad values of the same kinds are refused, each with a message that names it."""
    bad = (
        ("a temperature above 2", "A list", '{"temperature": 2.5}', ("temperature",)),
        ("a top_p above 1", "A list", '{"top_p": 1.5}', ("top_p",)),
        ("a top_p that is true", "A list", '{"top_p": true}', ("top_p",)),
        ("max_tokens above 256", "A list", '{"max_tokens": 257}', ("max_tokens",)),
        ("max_tokens that is true", "A list", '{"max_tokens": true}', ("max_tokens",)),
        ("a seed below 0", "A list", '{"seed": -1}', ("seed",)),
        ("a temperature that is null", "A list", '{"temperature": null}', ("temperature",)),
        ("parameters that end too early", "A list", '{"top_p": 0.5', ("json",)),
        ("parameters that are a number", "A list", "17", ("object", "json", "dict")),
        ("a parameter of another server", "A list", '{"top_q": 3}', ("top_q",)),
        ("a prompt that ends within a character", "Zürich".encode()[:2], "{}", ("utf",)),
        ("a prompt without room for an answer", "list " * 300, "{}", ("long", "context")),
    )
    loop.refuses_each(server, model, bad)
    loop.refuses_row(server, model)


@hidden(
    "a6.stream",
    help="Each token is sent as soon as it is drawn. What looks like the beginning of a stop "
    "text is held back.",
)
def secret_stream(server: Probe, me: str, model: str) -> None:
    """Other prompts come piece by piece, with other stop texts."""
    prompts = facts.drawn_prompts(server.rng, 12)
    streamed.streams_greedy(server, me, model, prompts[:4])
    streamed.comes_at_once(server, me, model, prompts)
    streamed.stops(server, me, model, prompts[4:])
    bad = {name: rows[0] for name, rows in loop.bad_request("", "{}").items()}
    streamed.refuses(server, model, bad, "an empty prompt")


@hidden(
    "a6.clients",
    help="What belongs to one request is kept in local variables, and the loop ends when its "
    "client has left.",
)
def secret_clients(server: Probe, me: str, model: str) -> None:
    """Several clients at once get each its own answer, and a client may leave."""
    prompts = facts.drawn_prompts(server.rng, 12)
    long = streamed.comes_at_once(server, me, model, prompts)
    streamed.together(server, me, model, prompts[:6], long)
    streamed.leaves(server, model, long)


@hidden(
    "a6.vllm",
    help="Each question gets an answer of its own.",
)
def same_tokens(server: Probe, me: str, vllm: str, of_vllm: list[str]) -> None:
    """The answers are different texts: not one for all."""
    engine.same_texts(me, of_vllm)


@hidden(
    "a6.speed",
    help="Measure again, with nothing else running.",
)
def same_rates(server: Probe, vllm: str, rates: dict[str, list[float]]) -> None:
    """The rates are such as an engine can have."""
    engine.plausible(rates)


@hidden(
    "a6.knobs",
    help="The tokens are compared with the chances of your network at that temperature.",
)
def secret_draws(
    server: Probe,
    me: str,
    model: str,
    temperatures: list[float],
    drawn: list[list[list[int]]],
    surprise: list[float],
    variety: list[float],
) -> None:
    """The model draws at another temperature, too, as the network says."""
    prompt = facts.own_prompts(me)[0]
    temperature = float(server.rng.uniform(0.4, 1.6))
    wanted: list[dict[str, Any]] = [
        {"temperature": temperature, "seed": seed, "max_tokens": knobs_of.MOST}
        for seed in seeds(server, facts.ROWS)
    ]
    found = answers_of.ask(server, model, [prompt] * facts.ROWS, wanted)
    knobs_of.drawn_so(me, knobs_of.Draws([temperature], [[one.tokens for one in found]]))
