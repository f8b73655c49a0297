"""What the checks of a6__llm require of the token loop: its network, batches, cache, refusals.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from grader.vocabulary import require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Counts, Probe, Refusal
from workbook.zoo import small_llama

from . import answers, facts, network
from .answers import Answer

#: A loop without a cache computes the whole text in every step. A step with a single token takes
#: about a tenth of a step with `_LONG` tokens. So a step of an answer may take this share of a long
#: step; without a cache it takes as long. A busy machine only makes steps longer, so the shortest
#: measurement of each kind counts.
_SHARE, _TRIES = 0.6, 8
#: A long step takes some milliseconds. Where the server has counted less, nothing is compared.
_MEASURABLE = 2e-4
#: The tokens of the long step; how often it is measured in a try; the most tokens of the answer. An
#: answer of fewer than `_LEAST` steps is not counted.
_LONG, _OFTEN, STEPS, _LEAST = 200, 4, 20, 6
#: How many seconds `llama_step` may go on with requests from before a check.
_IDLE = 3.0


def require_named(model: Any, name: str) -> None:
    """Fail if another model of the assignment was handed over than the one with this name."""
    others = {facts.STEP, facts.CHAT, facts.STREAM, facts.VLLM} - {name}
    if isinstance(model, str) and model in others:
        raise Failure(
            f"This check is about the model {name}; {model} was handed over.",
            help=f'Hand over what deploy("models/{name}").name returns.',
        )


# -- the network -----------------------------------------------------------------------------------


def first_step(prompts: Sequence[str]) -> dict[str, Array]:
    """The inputs of llama_step for the first token after each prompt, padded on the left."""
    rows = [facts.tokenizer().encode(prompt).ids for prompt in prompts]
    width = max(map(len, rows))
    ids = np.array([[0] * (width - len(row)) + row for row in rows], np.int64)
    mask = np.array([[0] * (width - len(row)) + [1] * len(row) for row in rows], np.int64)
    return {
        "input_ids": ids,
        "position_ids": np.maximum(mask.cumsum(axis=1) - 1, 0),
        "attention_mask": np.pad(mask, ((0, 0), (1, 0))),
        "past": np.zeros((len(rows), *facts.EMPTY), np.float32),
    }


def require_network(server: Probe, me: str, prompts: Sequence[str]) -> None:
    """Fail unless `llama_step` is the student's network, as the notebook wrote it."""
    require.backend(server, facts.STEP, "onnxruntime")
    scores = server.infer(facts.STEP, first_step(prompts), outputs=["logits"])["logits"]
    require.close(
        scores,
        np.array([network.logits(me, facts.tokenizer().encode(one).ids)[-1] for one in prompts]),
        what=f"the scores of {facts.STEP}",
        tolerance=network.tolerance(),
        help="They are compared with those of your network. fetch_network(me) writes it. Run that "
        "cell again, and deploy models/llama_step.",
    )


def require_scores(name: str, given: Array, right: Array, other: Array) -> None:
    """Fail unless the scores that a student handed over are the network's, row by row.

    Args:
        name: `first` or `second`.
        given: what was handed over under this name.
        right: what is right.
        other: what is right under the other name.
    """
    allowed = network.tolerance().allowed
    off = np.abs(given - right).max(axis=1) > allowed
    if not off.any():
        return
    which = f"In `{name}` the row of the {'shorter' if off[0] else 'longer'} prompt"
    what, help = (
        f"{which} is not right; the other one is.",
        "The mask tells the network which columns are padding: it is 0 there. The padding is on "
        "the left. From one real token to the next the position grows by 1.",
    )
    if off.all():
        what = f"Neither row of `{name}` holds the scores of your network."
        help = (
            "Is the cache's first column hidden by the mask? Is the output `logits`?"
            if name == "first"
            else "The second step gets the two chosen tokens alone, at the next positions, a mask "
            "that is one column wider, and `present` of the first step as `past`."
        )
    if np.abs(given[::-1] - right).max() <= allowed:
        what = f"The two rows of `{name}` are exchanged."
        help = "Row 1 belongs to the first prompt of `pair`, row 2 to the second."
    if np.abs(given - other).max() <= allowed:
        what = "`first` holds the scores of the second step, or `second` those of the first."
        help = "`first` is the `logits` of the first request, `second` that of the second one."
    raise Failure(what, help=help)


# -- rows and requests -----------------------------------------------------------------------------


def require_idle(server: Probe) -> None:
    """Fail if another program calls `llama_step`: then its counts say nothing.

    A model that was unloaded while its loop did not end still calls it. So may the work on an
    answer whose client has left, for some seconds: this waits for three seconds.
    """
    first = now = server.counts(facts.STEP)
    for _ in range(round(_IDLE / 0.1)):
        before = now
        time.sleep(0.1)
        now = server.counts(facts.STEP)
        if now == before:
            return
    raise Failure(
        f"{facts.STEP} took {(now - first).executions} steps while this check asked for nothing: "
        "another model or notebook calls it, so the check cannot count the steps of your model.",
        help="If no other notebook asks: an earlier version of your model still runs, because its "
        f"loop does not end, and a new deploy does not stop it. {answers.RESTART}",
        safe="llama_step is called while the check asks for nothing.",
    )


def require_alone(server: Probe, me: str, model: str, prompts: Sequence[str], most: int) -> None:
    """Fail unless prompts that come alone get their likeliest tokens."""
    for prompt in prompts:
        (answer,) = answers.ask(server, model, [prompt], {"temperature": 0, "max_tokens": most})
        answers.require_greedy(me, prompt, answer, most, "the answer to a prompt that came alone")


def _require_rows(
    me: str, prompts: Sequence[str], found: Sequence[Answer], wanted: Sequence[int], of: str
) -> None:
    """Fail unless each of several answers, which were one batch, is right."""
    for row, (prompt, answer, most) in enumerate(zip(prompts, found, wanted, strict=True)):
        first_end = min(other.steps for k, other in enumerate(found) if k != row)
        answers.require_greedy(me, prompt, answer, most, f"row {row + 1} of {of}", first_end)


def require_rows(
    server: Probe, me: str, model: str, prompts: Sequence[str], wanted: Sequence[int]
) -> None:
    """Fail unless prompts in one request, each with its max_tokens, get their answers.

    What llama_step has counted shows whether a row that has ended leaves the batch.
    """
    require_idle(server)
    before = server.counts(facts.STEP)
    rows = [{"temperature": 0, "max_tokens": most} for most in wanted]
    found = answers.ask(server, model, prompts, rows)
    ran = server.counts(facts.STEP) - before
    _require_rows(me, prompts, found, wanted, f"a request with {len(prompts)} prompts")
    _require_steps(model, [answer.steps for answer in found], ran)


def _require_steps(model: str, steps: Sequence[int], ran: Counts) -> None:
    """Fail unless llama_step was asked as often as the answers to one request need."""
    rows = len(steps)
    if ran.inferences < sum(steps):
        raise Failure(
            f"The answers of {model} need {sum(steps)} rows of {facts.STEP}, and {ran.inferences} "
            "were asked for.",
            help=f"Each token comes from {facts.STEP}, by BLS.",
        )
    if ran.executions > max(steps) + 1:
        raise Failure(
            f"{rows} prompts in one request took {ran.executions} executions of {facts.STEP}; the "
            f"longest answer needs {max(steps)}.",
            help="Call llama_step once per step, with all rows.",
            credit=0.5,
        )
    if ran.inferences > sum(steps) + rows:
        raise Failure(
            f"{rows} answers with {sum(steps)} steps in all made {facts.STEP} compute "
            f"{ran.inferences} rows.",
            help="A row whose answer has ended still goes on. Take it out of ids, mask, positions "
            "and cache.",
            credit=0.7,
        )


def require_shared_steps(
    server: Probe, me: str, model: str, prompts: Sequence[str], most: int
) -> None:
    """Fail unless requests that are sent at once get their own answers, and share steps."""
    before = server.counts(facts.STEP)
    requests = [facts.request([one], temperature=0, max_tokens=most) for one in prompts]
    found = [answer for (answer,) in answers.ask_together(server, model, requests)]
    ran = server.counts(facts.STEP) - before
    of = f"{len(prompts)} requests that were sent at once"
    _require_rows(me, prompts, found, [most] * len(prompts), of)
    steps = sum(answer.steps for answer in found)
    if ran.executions > 0.7 * steps:
        raise Failure(
            f"{len(prompts)} requests sent at once took {ran.executions} executions of "
            f"{facts.STEP} for {steps} steps in all: hardly any were shared.",
            help="execute gets a list of requests. Make the rows of all of them one batch.",
            credit=0.5,
        )


def require_full_context(server: Probe, me: str, model: str, prompts: Sequence[str]) -> None:
    """Fail unless a prompt that nearly fills the context gets an answer, and a short one beside it.

    The answer to the long prompt ends where the context is full. The answer to the short one goes
    on: its positions stay small, if they count its own tokens only.
    """
    room, most = 12, 40
    size = small_llama.CONTEXT - room
    ids = facts.tokenizer().encode(prompts[0] + 80 * " The list is a list.").ids[:size]
    rows = [facts.tokenizer().decode(ids, skip_special_tokens=False), prompts[1]]
    for given, what, help in (
        (
            rows[:1],
            f"a prompt of {size} tokens with max_tokens {most}",
            f"Prompt and answer together have {small_llama.CONTEXT} tokens at most, so this answer "
            f"ends after {room} tokens (`most` in writing.py).",
        ),
        (
            rows,
            f"a request with a prompt of {size} tokens and a short one; it answers the long one "
            "alone",
            "Positions count a row's own tokens only. If those of the short row count the padding, "
            f"too, they reach {small_llama.CONTEXT}, which the network does not have.",
        ),
    ):
        request = facts.request(given, temperature=0, max_tokens=most)
        outputs = _require_taken(server, model, request, what, help)
    found = answers.read(model, outputs, 2)
    _require_rows(me, rows, found, [most] * 2, "a request with a very long prompt and a short one")


def _require_taken(
    server: Probe, model: str, request: dict[str, Array], what: str, help: str
) -> dict[str, Array]:
    """The outputs for a request that the model must answer; fails where it refuses it."""
    (outcome,) = server.outcomes(model, [request], outputs=answers.OUTPUTS)
    if isinstance(outcome, Refusal):
        raise Failure(
            f"{model} refuses {what}. The server's message: {outcome.message[:300]}",
            help=help,
            safe="Your model refuses a right request.",
        )
    return outcome


# -- the cache -------------------------------------------------------------------------------------


def require_cache(
    server: Probe, model: str, prompts: Sequence[str], ask: Callable[[str], Answer]
) -> None:
    """Fail unless a step computes only the new token, judged by the time that llama_step takes.

    Counts do not show it: a step is one execution of one row, whether it computes one token or all.
    Time and number of steps come from the same record of the statistics.

    Args:
        server: the check's probe.
        model: the model's name.
        prompts: a long prompt is made of each, for one try: an answer may end by itself.
        ask: asks the model for an answer of `STEPS` tokens at most, at temperature 0, and fails if
            it is wrong.
    """
    longs, shorts = [], []
    for prompt in prompts[:_TRIES]:
        text = prompt
        while len(facts.tokenizer().encode(text).ids) < _LONG:
            text += f" {prompt}"
        inputs = first_step([text])
        for _ in range(_OFTEN):
            count, spent = _compute_stats(server)
            server.infer(facts.STEP, inputs, outputs=["logits"])
            more, took = _compute_stats(server)
            longs += [took - spent] if more == count + 1 and took - spent > _MEASURABLE else []
        count, spent = _compute_stats(server)
        answer = ask(text)
        more, took = _compute_stats(server)
        # Steps that the answer does not need add their time, but are not counted: otherwise short
        # steps that nobody needs would make the mean smaller.
        if answer.steps >= _LEAST and more > count:
            shorts.append((took - spent) / min(more - count, answer.steps))
        if longs and shorts and min(shorts) <= _SHARE * min(longs):
            return
    if longs and shorts:
        raise Failure(
            f"After a prompt of {_LONG} tokens or more, a step of {model} takes "
            f"{min(shorts) / min(longs):.0%} of the time of one with the whole prompt. With a "
            "cache it is about a tenth.",
            help="From the second step on llama_step gets the new token alone, and in `past` what "
            "`present` was.",
            credit=0.5,
        )


def _compute_stats(server: Probe) -> tuple[int, float]:
    """How many requests llama_step has computed in all, and for how many seconds."""
    server.counts(facts.STEP)  # when it returns, all that was sent before is counted
    records = [
        record["inference_stats"]["compute_infer"]
        for record in server.server.statistics(facts.STEP)
    ]
    return (
        sum(int(record.get("count", 0)) for record in records),
        sum(int(record.get("ns", 0)) for record in records) / 1e9,
    )


# -- bad requests ----------------------------------------------------------------------------------


def prompt_of(count: int) -> str:
    """A prompt of `count` tokens."""
    return "list" + " list" * (count - 1)


class Bad(NamedTuple):
    """A bad request: what is wrong with it, and words of which the message must have one."""

    what: str
    prompt: str | bytes
    parameters: str
    naming: tuple[str, ...]


def bad_parameters(what: str, parameters: str, *naming: str) -> Bad:
    """A bad request whose prompt is right."""
    return Bad(what, "A list", parameters, naming)


BAD: tuple[Bad, ...] = (
    Bad("an empty prompt", "", "{}", ("empty", "prompt")),
    Bad(
        f"a prompt of {small_llama.CONTEXT} tokens, which fills the context",
        prompt_of(small_llama.CONTEXT),
        "{}",
        ("long", "context"),
    ),
    Bad("a prompt that is not UTF-8", "Zürich".encode("latin-1"), "{}", ("utf",)),
    bad_parameters("parameters that are not JSON", "max_tokens=5", "json"),
    bad_parameters("a JSON list in place of an object", "[5]", "object", "json", "dict"),
    bad_parameters("a parameter that does not exist", '{"max_token": 5}', "max_token"),
    bad_parameters("a temperature of -1", '{"temperature": -1}', "temperature"),
    bad_parameters("a temperature that is a text", '{"temperature": "hot"}', "temperature"),
    bad_parameters("a temperature that is true", '{"temperature": true}', "temperature"),
    bad_parameters("a top_p of 0", '{"top_p": 0}', "top_p"),
    bad_parameters("a top_p that is NaN", '{"top_p": NaN}', "top_p", "json"),
    bad_parameters("max_tokens of 0", '{"max_tokens": 0}', "max_tokens"),
    bad_parameters("max_tokens of 2.5", '{"max_tokens": 2.5}', "max_tokens"),
    bad_parameters("a seed that is a text", '{"seed": "one"}', "seed"),
    bad_parameters("a seed that is null", '{"seed": null}', "seed"),
    bad_parameters("an empty stop text", '{"stop": [""]}', "stop"),
    bad_parameters("a stop that is a number", '{"stop": 5}', "stop"),
)
#: Parameters at the ends of their ranges: each must be answered. The temperature is not among
#: them: a6.greedy asks for 0, and a6.stream for 2.
LIMITS: tuple[dict[str, Any], ...] = (
    {"top_p": 0.001},
    {"top_p": 1},
    {"seed": 0},
    {"max_tokens": 1},
    {"max_tokens": 256, "stop": ["a", "e", "i", "o", " "]},
    {"stop": []},
)


def bad_request(*rows: Bad) -> dict[str, Array]:
    """The inputs of a request with these rows."""
    return {
        "text_input": facts.as_text([row.prompt for row in rows]),
        "sampling_parameters": facts.as_text([row.parameters for row in rows]),
    }


def require_refusals(server: Probe, model: str, bad: Sequence[Bad]) -> None:
    """Fail unless each bad request is refused by itself, with a message that says why."""
    wanted: dict[str, Any] = {"max_tokens": 3, "temperature": 0}
    good = facts.request(["A list"], **wanted)
    if isinstance(server.outcomes(model, [good])[0], Refusal):  # a fault of the likeliest token
        wanted["temperature"] = 1
        good = facts.request(["A list"], **wanted)
    for number, one in enumerate(bad):
        _require_refusal(server, model, one)
        if number % 6 == 0:  # for some: whether others are answered does not depend on the fault
            request = bad_request(one)
            require.refuses(server, model, request, one.what, good=good, naming=one.naming)
    for limit in LIMITS:
        _require_taken(
            server,
            model,
            facts.request(["A list"], **{**wanted, **limit}),
            f"the parameters {json.dumps(limit)}",
            "The table of parameters in the task has the ranges; both ends belong to them. "
            "max_tokens is no promise: where the context has less room, the answer is shorter.",
        )
    _require_taken(
        server,
        model,
        facts.request([prompt_of(small_llama.CONTEXT - 1)], **wanted),
        f"a prompt of {small_llama.CONTEXT - 1} tokens",
        f"The context has {small_llama.CONTEXT} tokens, so there is room for one more.",
    )
    first, last = bad_parameters("", '{"max_tokens": 3}'), bad_parameters("", "{}")
    bad_row = bad_parameters("a bad row among good ones", '{"top_p": 7}', "top_p")
    rows = bad_request(first, bad_row, last)
    require.refuses(server, model, rows, bad_row.what, good=good, naming=bad_row.naming)


def _require_refusal(server: Probe, model: str, bad: Bad) -> None:
    """Fail unless a bad request that comes alone is refused, with a message that says why.

    A value that was not tested can raise an exception later, in the loop. Then the requests beside
    it fail, too, although `execute` is right. So this is tested first, with one request alone.
    """
    what = bad.what
    (outcome,) = server.outcomes(model, [bad_request(bad)])
    if not isinstance(outcome, Refusal):
        raise Failure(
            f"{model} answers {what}; it should refuse it with an error that says what is wrong.",
            help="read_parameters tests the parameters, Answer the prompt, and read the bytes: "
            "each raises BadRequest where something does not fit.",
        )
    words = outcome.message.partition("\n\nAt:\n")[0][:300]
    if "incompatible constructor arguments" in words and "TritonError" in words:
        raise Failure(
            f"{model} cannot refuse {what}: pb_utils.TritonError gets something that is no text.",
            help="Append str(error) to `groups`, not the exception itself.",
            safe="Your model does not refuse a bad request with an error of its own.",
        )
    if not any(word.lower() in words.lower() for word in bad.naming):
        raise Failure(
            f"{model} refuses {what}, but the message does not say why: {words!r}.",
            help="A client reads this. It should contain the word "
            f"{' or '.join(map(repr, bad.naming))}. If it is the message of an exception from the "
            "loop, the value was not tested when the request was read.",
            safe="Your model refuses a bad request, but the message does not say why.",
        )
