"""The checks of a6__llm: a token loop by BLS, as a stream, and on vLLM.

Students get this file, so it holds no expected answer. The network is given: what it says to given
tokens is computed with numpy (`a6_network.logits`).
"""

from __future__ import annotations

import numpy as np

from grader.vocabulary import require, values
from grader.vocabulary.define import define
from grader.vocabulary.probe import Array, Probe

from . import answers, drawing, engine, facts, loop, network, stopping, streaming
from . import knobs as knobs_of

#: The judge loads models of these backends only.
BACKENDS = ("onnxruntime", "python", "vllm")
#: Tasks without hints, the written answers: for each, what to read in place of them.
NO_HINTS = {
    "a6.words": "Look at your curves. Read on: lecture 2, notebook 11, `Eight clients`; lecture 3, "
    "notebook 10, `Your own loop`.",
}

_COMPLETE = "The config was complete: take it from a fresh copy."


@define(
    "a6.step",
    hints=(
        "Begin with one prompt alone: no padding, a mask of ones behind one 0 for the empty cache, "
        "positions 0, 1, 2, …. Then two of different lengths.",
        "First step: input_ids is prompt_ids, position_ids is prompt_positions. "
        "np.pad(prompt_mask, ((0, 0), (1, 0))) adds the cache's column on the left.",
        "Second step: input_ids is first.argmax(axis=1)[:, None], position_ids the last column of "
        "prompt_positions plus 1, past is `present`, and the mask of the first step gets a column "
        "of ones on the right.",
    ),
    read="Read on: model_repository/llama_tokenizer/1/model.py pads rows.",
)
def step(server: Probe, me: str, model: str, first: Array, second: Array) -> None:
    """You have the network's scores for two prompts, and those after the first token of each."""
    loop.require_named(model, facts.STEP)
    require.backend(server, model, "onnxruntime")
    loop.require_network(server, me, facts.own_prompts(me)[:4])
    texts = [facts.tokenizer().encode(prompt).ids for prompt in facts.own_pair(me)]
    right = []
    for _ in ("first", "second"):
        right.append(np.array([network.logits(me, text)[-1] for text in texts]))
        texts = [[*text, int(row.argmax())] for text, row in zip(texts, right[-1], strict=True)]
    for name, value, scores, other in (
        ("first", first, right[0], right[1]),
        ("second", second, right[1], right[0]),
    ):
        given = values.array(
            name,
            value,
            (2, 1024),
            because="a score for each token, for two rows",
            help="It is the output logits.",
        )
        loop.require_scores(name, given, scores, other)


@define(
    "a6.greedy",
    hints=(
        "Take your cell of task 1: the second step is the same for all later steps. What must "
        "become a loop? Begin with one prompt; then a request with two.",
        "`ask` makes pb_utils.InferenceRequest(model_name=…, inputs=[pb_utils.Tensor(name, array), "
        "…], requested_output_names=[…]).exec(); look at has_error() first. In `write`, after each "
        "step: keep the rows that go on, in answers, mask, positions and cache alike.",
        "The loop: scores, cache = ask(ids, positions, mask, cache); for each row "
        "answer.add(*answer.choose(scores_of_row)); on = [row for row, answer in "
        "enumerate(answers) if not answer.reason]; index everything with on; ids = the last token "
        "of each, positions = positions[:, -1:] + 1, mask one column of ones wider.",
    ),
    read="Read on: model_repository/chat_bls/1/model.py has such a loop, for another network.",
)
def greedy(server: Probe, me: str, model: str) -> None:
    """At temperature 0 each row gets the network's likeliest tokens, and ends by itself."""
    loop.require_named(model, facts.CHAT)
    config = require.backend(server, model, "python")
    with require.all_of(help=_COMPLETE):
        require.tensors(config, inputs=facts.TEXT_INPUT, outputs=facts.ANSWER)
        require.batch_size(config, facts.ROWS, because="a request may have 8 rows")
        require.setting(config, "dynamic_batching")
    prompts = facts.own_prompts(me)
    loop.require_network(server, me, prompts[:2])
    loop.require_alone(server, me, model, prompts[:3], 12)
    loop.require_rows(server, me, model, prompts[:8], [24, 4, 40, 12, 5, 30, 8, 20])
    loop.require_full_context(server, me, model, prompts[:2])
    loop.require_shared_steps(server, me, model, prompts[8:], 16)

    def ask(prompt: str) -> answers.Answer:
        wanted = {"temperature": 0, "max_tokens": loop.STEPS}
        (answer,) = answers.ask(server, model, [prompt], wanted)
        answers.require_greedy(me, prompt, answer, loop.STEPS, "the answer to a long prompt")
        return answer

    loop.require_cache(server, model, prompts, ask)


@define(
    "a6.sampling",
    after=("a6.greedy",),
    hints=(
        "Compute it on paper: four tokens have the probabilities 0.5, 0.3, 0.15 and 0.05, and "
        "top_p is 0.7. Which tokens are in the nucleus, and with which probabilities are they "
        "drawn?",
        "The scores are divided by the temperature first; softmax in float64, after the largest "
        "score is subtracted. np.argsort(-chances) sorts; np.cumsum says how many are needed: the "
        "token with which the sum reaches top_p belongs to the nucleus.",
        "count = np.searchsorted(np.cumsum(chances[order]), top_p) + 1; nucleus = order[:count]; "
        "token = self.random.choice(nucleus, p=chances[nucleus] / chances[nucleus].sum()). "
        "self.random = np.random.default_rng(seed) is made once per answer. The logprob comes from "
        "the scores as they were.",
    ),
    read="Read on: Holtzman et al., The Curious Case of Neural Text Degeneration (2020), "
    "section 3.1.",
)
def sampling(server: Probe, me: str, model: str) -> None:
    """Each token is drawn from the nucleus with its probability; a seed repeats a draw."""
    loop.require_named(model, facts.CHAT)
    prompts = facts.own_prompts(me)
    drawing.require_seeds(server, me, model, prompts, 11)
    drawing.require_frequencies(server, me, model, prompts, range(100, 100 + drawing.DRAWS))
    drawing.require_cold(server, me, model, prompts[:4])
    drawing.require_second_tokens(server, me, model, prompts, range(1000, 1000 + drawing.PAIRS))


@define(
    "a6.stops",
    after=("a6.greedy",),
    hints=(
        "Print the tokens of an answer as texts. Where does your stop text begin and end? A look "
        "at the newest token alone does not find it.",
        "Decode all tokens of the answer after each new one, and look for each stop text in the "
        "whole: str.find. The smallest place of all wins.",
        "whole = self.tokenizer.decode(self.tokens); places = [whole.find(stop) for stop in stops "
        "if stop in whole]; if places: cut whole at min(places), and the reason is stop. Only an "
        "answer that goes on is cut by self.settled(whole).",
    ),
    read="Read on: class Answer in workbook/llm/sampling.py.",
)
def stops(server: Probe, me: str, model: str) -> None:
    """An answer ends before the first stop text, and finish_reason says why it ended."""
    loop.require_named(model, facts.CHAT)
    stopping.require_stops(server, model, facts.own_prompts(me)[:8])


@define(
    "a6.refusals",
    after=("a6.greedy",),
    hints=(
        "What happens to the other requests of an execute when one row raises? Catch the error "
        "where one request is read.",
        "self.read raises BadRequest with a message. execute has a group for each request: a list "
        "of answers, or the message as a text. Its last lines turn each of them into a response.",
        "In execute: try: groups.append(self.read(request)); except BadRequest as error: "
        "groups.append(str(error)).",
    ),
    read="Read on: lecture 2, notebook 02, on errors.",
)
def refusals(server: Probe, model: str) -> None:
    """A bad request is refused by itself, and its sender reads why."""
    loop.require_named(model, facts.CHAT)
    loop.require_refusals(server, model, loop.BAD)


@define(
    "a6.stream",
    after=("a6.greedy",),
    hints=(
        "Take the loop of `chat` for a single row, and send a response in each step. Which text "
        "and which tokens are new since the last response?",
        "text_output of a response is what `add` returns, token_ids are the tokens that are new "
        "since the last response, finish_reason is answer.reason: `piece` does that. Which arrays "
        "does llama_step get in each step, with one row?",
        "`attend` is complete. write: token, logprob = answer.choose(scores[0]); before = "
        "len(answer.tokens); text = answer.add(token, logprob); sender.send(piece(text, answer, "
        "before)); then the inputs of the next step, the mask one column wider in each. `add` must "
        "return only what no later token can change.",
    ),
    read="Read on: lecture 1, notebook 11; model_repository/llama_stream/1/model.py.",
)
def stream(server: Probe, me: str, model: str) -> None:
    """Tokens come one by one, in order, with an end; no part of a stop text is ever sent."""
    loop.require_named(model, facts.STREAM)
    config = require.backend(server, model, "python")
    with require.all_of(help=_COMPLETE):
        require.tensors(config, inputs=facts.TEXT_INPUT, outputs=facts.ANSWER)
    prompts = facts.own_prompts(me)

    def ask(prompt: str) -> answers.Answer:
        return streaming.ask_greedy(server, me, model, prompt, loop.STEPS)

    with streaming.compared_writing(server):
        streaming.require_stream(server, me, model, prompts[:4])
        streaming.require_pace(server, model, prompts)
        streaming.require_refusal(
            server, model, loop.bad_parameters("a top_p of 7", '{"top_p": 7}')
        )
        loop.require_cache(server, model, prompts, ask)


@define(
    "a6.clients",
    after=("a6.greedy", "a6.stream"),
    hints=(
        "Ask twice at once, from two notebooks or with `stream` in two threads. Does the second "
        "one wait? And what does your model do when you interrupt the first one?",
        "Other coroutines run only where one awaits something. exec() stops all of them until the "
        "answer is there; await async_exec() stops its own coroutine only. Keep what belongs to "
        "one answer in local variables, not in self. Before each step ask sender.is_cancelled().",
        "`execute` is complete: it starts one `attend` per request. write: `while not "
        "answer.reason and not sender.is_cancelled():` around the steps, each with `await ask(…)`; "
        "in `ask`, `answer = await request.async_exec()` in place of `request.exec()`.",
    ),
    read="Read on: Python's documentation of asyncio, `Coroutines and tasks`; lecture 2, notebook "
    "02, on BLS.",
)
def clients(server: Probe, me: str, model: str) -> None:
    """Several clients get their own answers at once; for one that has left, the work ends."""
    loop.require_named(model, facts.STREAM)
    streaming.require_clients(server, model, facts.own_prompts(me))


@define(
    "a6.vllm",
    hints=(
        "Two files: config.pbtxt says which backend, 1/model.json what the engine is started with. "
        "Which of the two knows about tensors and batches?",
        "config.pbtxt needs a backend and an instance_group of KIND_MODEL; everything else is "
        "filled in. model.json is one JSON object; `model` is the path of the checkpoint's folder, "
        "from the model repository.",
        'backend: "vllm", instance_group { count: 1 kind: KIND_MODEL }; model.json: "model": '
        '"chat_vllm/1/checkpoint", "dtype": "float32", "enforce_eager": true, "max_num_seqs": 8.',
    ),
    read="Read on: lecture 2, notebook 11; model_repository/llama_vllm.",
)
def vllm(server: Probe, me: str, vllm: str, of_vllm: list[str]) -> None:
    """vLLM serves the same network with two small files, and answers the same likeliest tokens."""
    engine.require_installed(vllm)
    engine.require_checkpoint(server, me)
    engine.require_arguments(server)
    engine.require_config(server)
    engine.require_texts(me, of_vllm)


@define(
    "a6.speed",
    after=("a6.vllm",),
    server=False,
    hints=(
        "tokens_per_second(model, prompts, clients) measures one model once. A single figure says "
        "little: how much do two of them differ?",
        "in_rounds takes a dict with the four names; each has a pair: the variable that holds the "
        "model's name, and how many clients ask it.",
        'rates = in_rounds({"chat": (chat, 8), …, "chat_vllm, one client": (chat_vllm, 1)}).',
    ),
    read="Read on: lecture 2, notebook 11, `Eight clients`.",
)
def speed(server: Probe, vllm: str, rates: dict[str, list[float]]) -> None:
    """You have measured the speed of vLLM and of your own loops."""
    engine.require_installed(vllm)
    engine.require_rates(rates)


@define(
    "a6.knobs",
    after=("a6.greedy", "a6.sampling"),
    hints=(
        "One temperature first: some, how_odd, how_many = measure(0.7). Read some answers: "
        "tokenizer.decode(some[0]).",
        "Which temperatures? The smallest is above 0 and at most 0.5, the largest from 1.4 to 2, "
        "and there are at least four. Call `measure` for each, without top_p.",
        "measured = [measure(temperature) for temperature in temperatures] has three things for "
        "each temperature. `drawn` takes the first of each, `surprise` the second, `variety` the "
        "third: zip(*measured) makes three columns of them.",
    ),
    read="Read on: the checks in assignments/a6__llm/knobs.py; how a token is drawn is in task 2.",
)
def knobs(
    server: Probe,
    me: str,
    model: str,
    temperatures: list[float],
    drawn: list[list[list[int]]],
    surprise: list[float],
    variety: list[float],
) -> None:
    """You have measured what the temperature does to the answers, with answers that show it."""
    loop.require_named(model, facts.CHAT)
    found = knobs_of.read(me, temperatures, drawn)
    knobs_of.require_figures(me, found, surprise, variety)
    knobs_of.require_drawn(me, found, server.rng)
    require.backend(server, model, "python")
    (one,) = answers.ask(server, model, [found.prompt], {"max_tokens": 2})
    answers.require_logprobs(me, found.prompt, one, "an answer")
