"""The hidden checks of a6__llm: the same questions, with other prompts and other parameters.

What is right is computed from the student's network (`network`), which the id decides. The
messages contain no expected value.
"""

from __future__ import annotations

from grader.vocabulary.define import hidden
from grader.vocabulary.probe import Array, Probe

from . import answers, drawing, engine, facts, loop, stopping, streaming
from . import knobs as knobs_of


def draw_seeds(server: Probe, count: int) -> list[int]:
    """Seeds that are not all neighbours."""
    return [int(seed) for seed in server.rng.integers(0, 2**31, count)]


@hidden(
    "a6.step",
    help="Do tokens and positions reach the served step as they do your network's, and does "
    "the file hold your network?",
)
def secret_step(server: Probe, me: str, model: str, first: Array, second: Array) -> None:
    """The served step is the student's network for other prompts, too."""
    loop.require_network(server, me, facts.drawn_prompts(server.rng, 6))


@hidden(
    "a6.greedy",
    help="Are the rows of a batch independent: its own positions, mask and cache for each, "
    "also when another row has ended?",
)
def secret_greedy(server: Probe, me: str, model: str) -> None:
    """Other prompts, in other batches, get their likeliest tokens."""
    prompts = facts.drawn_prompts(server.rng, 16)
    loop.require_network(server, me, prompts[:3])
    loop.require_alone(server, me, model, prompts[:3], 20)
    most = [int(count) for count in server.rng.integers(1, 48, 6)]
    loop.require_rows(server, me, model, prompts[2:8], most)
    loop.require_shared_steps(server, me, model, prompts[8:], int(server.rng.integers(10, 24)))
    loop.require_full_context(server, me, model, prompts[:2])


@hidden(
    "a6.sampling",
    help="The probabilities come from your network's scores, divided by the temperature, without "
    "the tokens outside of the nucleus. The seed alone decides what is drawn.",
)
def secret_sampling(server: Probe, me: str, model: str) -> None:
    """Answers to other prompts are drawn as their temperature, top_p and seed say."""
    prompts = facts.drawn_prompts(server.rng, 6)
    drawing.require_seeds(server, me, model, prompts, draw_seeds(server, 1)[0])
    drawing.require_cold(server, me, model, prompts)
    drawing.require_frequencies(server, me, model, prompts, draw_seeds(server, drawing.DRAWS))
    drawing.require_second_tokens(server, me, model, prompts, draw_seeds(server, drawing.PAIRS))
    temperatures, shares = server.rng.uniform(0.6, 1.6, 6), server.rng.uniform(0.3, 1, 6)
    wanted = [
        {"temperature": float(temperature), "top_p": float(share), "max_tokens": 24}
        for temperature, share in zip(temperatures, shares, strict=True)
    ]
    for prompt, one in zip(prompts, wanted, strict=True):
        (answer,) = answers.ask(server, model, [prompt], one)
        drawing.require_drawable(me, prompt, answer, one, "an answer to another prompt")


@hidden(
    "a6.stops",
    help="An answer ends before the first place at which a stop text stands, also where it is "
    "made of parts of several tokens.",
)
def secret_stops(server: Probe, model: str) -> None:
    """Answers to other prompts end before their stop texts."""
    for _ in range(2):
        stopping.require_stops(server, model, facts.drawn_prompts(server.rng, 8))


@hidden(
    "a6.refusals",
    help="Test every value when the request is read. The message contains the name of what is "
    "wrong.",
)
def secret_refusals(server: Probe, model: str) -> None:
    """Other bad values of the same kinds are refused, each with a message that names it."""
    bad = (
        loop.bad_parameters("a temperature above 2", '{"temperature": 2.5}', "temperature"),
        loop.bad_parameters("a temperature that is null", '{"temperature": null}', "temperature"),
        loop.bad_parameters("a top_p above 1", '{"top_p": 1.5}', "top_p"),
        loop.bad_parameters("a top_p that is true", '{"top_p": true}', "top_p"),
        loop.bad_parameters("max_tokens above 256", '{"max_tokens": 257}', "max_tokens"),
        loop.bad_parameters("a seed below 0", '{"seed": -1}', "seed"),
        loop.bad_parameters("parameters that end too early", '{"top_p": 0.5', "json"),
        loop.bad_parameters("parameters that are a number", "17", "object", "json", "dict"),
        loop.bad_parameters("a parameter of another server", '{"top_q": 3}', "top_q"),
        loop.Bad("a prompt that ends within a character", "Zürich".encode()[:2], "{}", ("utf",)),
        loop.Bad("a prompt without room for an answer", "list " * 300, "{}", ("long", "context")),
    )
    loop.require_refusals(server, model, bad)


@hidden(
    "a6.stream",
    help="Each token is sent as soon as it is drawn. What looks like the beginning of a stop "
    "text is held back.",
)
def secret_stream(server: Probe, me: str, model: str) -> None:
    """Answers to other prompts come piece by piece, with other stop texts."""
    prompts = facts.drawn_prompts(server.rng, 12)
    streaming.require_stream(server, me, model, prompts[:6])
    streaming.require_pace(server, model, prompts)
    streaming.require_refusal(server, model, loop.Bad("an empty prompt", "", "{}", ()))


@hidden(
    "a6.clients",
    help="What belongs to one request is kept in local variables, and the loop ends when its "
    "client has left.",
)
def secret_clients(server: Probe, model: str) -> None:
    """Several clients at once get each its own answer, and a client may leave."""
    streaming.require_clients(server, model, facts.drawn_prompts(server.rng, 12))


@hidden(
    "a6.vllm",
    help="Each question gets an answer of its own.",
)
def same_tokens(server: Probe, me: str, vllm: str, of_vllm: list[str]) -> None:
    """The answers are different texts: not one for all."""
    engine.require_texts(me, of_vllm)


@hidden(
    "a6.speed",
    help="Measure again, with nothing else running.",
)
def same_rates(server: Probe, vllm: str, rates: dict[str, list[float]]) -> None:
    """The rates are possible ones."""
    engine.require_rates(rates)


@hidden(
    "a6.knobs",
    help="The tokens are compared with your network's probabilities at that temperature.",
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
    wanted = {"temperature": temperature, "max_tokens": knobs_of.MOST}
    found = drawing.draw(server, model, prompt, draw_seeds(server, facts.ROWS), wanted)
    draws = knobs_of.Draws(prompt, [temperature], [[one.tokens for one in found]])
    knobs_of.require_drawn(me, draws, server.rng)
