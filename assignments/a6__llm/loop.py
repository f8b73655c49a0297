"""Words for a6__llm about the token loop: its batches, its cache, bad requests.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grader.vocabulary import require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Counts, Probe, Refusal
from workbook.zoo import small_llama

from . import answers as answers_of
from . import facts, network
from .answers import Written

#: A loop without a cache computes the whole text in every step. Of a step of `_LONG` tokens, one
#: with a single token takes about a tenth. So all steps of an answer together may take this share
#: of as many long ones; without a cache they take more than as many. A busy machine only makes
#: steps longer: of each kind the shortest measurement counts.
_SHARE, _TRIES, _ENOUGH = 0.6, 8, 2
#: A long step takes some milliseconds. Where the server has counted less, nothing is compared.
_MEASURABLE = 2e-4
#: Tokens of the long step; how often it is measured in a try; tokens of the answer. An answer may
#: end by itself: one of fewer than `_LEAST` steps is not counted.
_LONG, _OFTEN, STEPS, _LEAST = 200, 4, 20, 6
#: So many seconds `llama_step` may go on with what was asked before a check.
_IDLE = 3.0


def first_step(prompts: Sequence[str]) -> dict[str, Array]:
    """The inputs of llama_step for the first token after each prompt, padded on the left."""
    rows = [facts.tokenizer().encode(prompt).ids for prompt in prompts]
    width = max(map(len, rows))
    ids = np.zeros((len(rows), width), np.int64)
    mask = np.zeros((len(rows), width), np.int64)
    for number, row in enumerate(rows):
        ids[number, width - len(row) :] = row
        mask[number, width - len(row) :] = 1
    return {
        "input_ids": ids,
        "position_ids": np.maximum(mask.cumsum(axis=1) - 1, 0),
        "attention_mask": np.pad(mask, ((0, 0), (1, 0))),
        "past": np.zeros((len(rows), *facts.EMPTY), np.float32),
    }


def own_network(server: Probe, me: str, prompts: Sequence[str]) -> None:
    """Fail unless `llama_step` is the student's network, as the notebook wrote it."""
    require.backend(server, facts.STEP, "onnxruntime")
    answer = server.infer(facts.STEP, first_step(prompts), outputs=["logits"])["logits"]
    fresh = "fetch_network(me) writes it. Run that cell again, and deploy models/llama_step."
    size = (len(prompts), small_llama.VOCABULARY)
    require.shape(facts.STEP, answer, size, output="logits", help=fresh)
    right = [network.logits(me, facts.tokenizer().encode(one).ids)[-1] for one in prompts]
    require.close(
        answer,
        np.array(right),
        what=f"the scores of {facts.STEP}",
        tolerance=network.tolerance(),
        help=f"They are compared with those of your network. {fresh}",
    )


def is_meant(model: Any, name: str) -> None:
    """Fail where another of the assignment's models was handed over than the one meant."""
    others = {facts.STEP, facts.CHAT, facts.STREAM, facts.VLLM} - {name}
    if isinstance(model, str) and model in others:
        raise Failure(
            f"This check is about the model {name}; {model} was handed over.",
            help=f'Hand over what deploy("models/{name}").name returns.',
        )


def is_idle(server: Probe) -> None:
    """Fail where somebody else calls `llama_step`: then its counts say nothing.

    A model that was unloaded while its loop did not end goes on calling. An answer whose client has
    left may also go on for some seconds, so this looks for three seconds.
    """
    began = time.monotonic()
    before = first = server.counts(facts.STEP)
    while True:
        time.sleep(0.1)
        now = server.counts(facts.STEP)
        if now == before:
            return
        if time.monotonic() - began > _IDLE:
            break
        before = now
    raise Failure(
        f"{facts.STEP} took {(now - first).executions} steps while this check asked for nothing: "
        "another model or notebook calls it, so the check cannot count the steps of your model.",
        help="If no other notebook asks: an earlier version of your model still runs, because its "
        f"loop does not end, and a new deploy does not stop it. {answers_of.RESTART}",
        safe="llama_step is called while the check asks for nothing.",
    )


def same_scores(name: str, given: Array, right: Array, rows: Sequence[str]) -> None:
    """Fail unless the scores that a student handed over are the network's, row by row."""
    off = np.abs(given - right).max(axis=1) > network.tolerance().allowed
    if not off.any():
        return
    if np.abs(given[::-1] - right).max() <= network.tolerance().allowed:
        raise Failure(
            f"The two rows of `{name}` are exchanged.",
            help="Row 1 belongs to the first prompt of `pair`, row 2 to the second.",
        )
    if off.all():
        raise Failure(
            f"Neither row of `{name}` holds the scores of your network.",
            help="Is the cache's first column hidden by the mask? Is the output `logits`?"
            if name == "first"
            else "The second step gets the two chosen tokens alone, at the next positions, a mask "
            "that is one column wider, and `present` of the first step as `past`.",
        )
    raise Failure(
        f"In `{name}` the row of {rows[int(off.argmax())]} is not right; the other one is.",
        help="What tells the network that a column is padding is the mask: it is 0 there. The "
        "padding stands on the left. From one real token to the next the position grows by 1.",
    )


def alone(server: Probe, me: str, model: str, prompts: list[str], max_tokens: int) -> None:
    """Fail unless prompts that come alone get their likeliest tokens."""
    for prompt in prompts:
        wanted = [{"temperature": 0, "max_tokens": max_tokens}]
        (answer,) = answers_of.ask(server, model, [prompt], wanted)
        answers_of.greedy(me, prompt, answer, max_tokens, "the answer to a prompt that came alone")


def one_table(server: Probe, me: str, model: str, prompts: list[str], wanted: list[int]) -> None:
    """Fail unless prompts of different lengths in one request get their answers, each its own.

    What llama_step has counted shows whether a row that has ended leaves the batch.

    Args:
        server: the check's probe.
        me: the student's id.
        model: the name of the model.
        prompts: at most 8.
        wanted: max_tokens of each.
    """
    is_idle(server)
    before = server.counts(facts.STEP)
    parameters = [{"temperature": 0, "max_tokens": most} for most in wanted]
    answers = answers_of.ask(server, model, prompts, parameters)
    ran = server.counts(facts.STEP) - before
    for row, (prompt, answer, most) in enumerate(zip(prompts, answers, wanted, strict=True)):
        which = f"row {row + 1} of a request with {len(prompts)} prompts"
        others = _first_end(answers, row)
        answers_of.greedy(me, prompt, answer, most, which, others)
    counted(model, answers, ran, len(prompts))


def _first_end(answers: Sequence[Written], row: int) -> int:
    """After how many steps the first of the other rows ends."""
    return min(answers_of.steps_of(other) for k, other in enumerate(answers) if k != row)


def counted(model: str, answers: Sequence[Written], ran: Counts, rows: int) -> None:
    """Fail unless llama_step was asked as often as the answers to one request need."""
    steps = [answers_of.steps_of(answer) for answer in answers]
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
            help="All rows take each step together: one call of llama_step per step.",
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


def share_steps(server: Probe, me: str, model: str, prompts: list[str], max_tokens: int) -> None:
    """Fail unless requests that are sent at once get their own answers, and share steps."""
    before = server.counts(facts.STEP)
    wanted = [{"temperature": 0, "max_tokens": max_tokens}] * len(prompts)
    answers = answers_of.ask_each(server, model, prompts, wanted)
    ran = server.counts(facts.STEP) - before
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        which = f"one row of {len(prompts)} requests that were sent at once"
        answers_of.greedy(me, prompt, answer, max_tokens, which, _first_end(answers, row))
    steps = sum(map(answers_of.steps_of, answers))
    if ran.executions > 0.7 * steps:
        raise Failure(
            f"{len(prompts)} requests sent at once took {ran.executions} executions of "
            f"{facts.STEP} for {steps} steps in all: hardly two shared one.",
            help="execute gets a list of requests. Make the rows of all of them one batch.",
            credit=0.5,
        )


def fills_context(server: Probe, me: str, model: str, prompts: Sequence[str]) -> None:
    """Fail unless a prompt that nearly fills the context gets an answer, and a short one beside it.

    The answer to the long one ends where the context is full; that to the short one goes on. Its
    positions stay small, if they count its own tokens only.
    """
    room = 12
    ids = facts.tokenizer().encode(prompts[0] + 80 * " The list is a list.").ids
    long = facts.tokenizer().decode(ids[: small_llama.CONTEXT - room], skip_special_tokens=False)
    rows = [long, prompts[1]]
    request = facts.request(rows, temperature=0, max_tokens=40)
    (outcome,) = server.outcomes(model, [request], outputs=answers_of.OUTPUTS)
    if isinstance(outcome, Refusal):
        (by_itself,) = server.outcomes(
            model, [facts.request(rows[:1], temperature=0, max_tokens=40)]
        )
        if isinstance(by_itself, Refusal):
            raise Failure(
                f"{model} refuses a prompt of {small_llama.CONTEXT - room} tokens with max_tokens "
                f"40. The server's message: {by_itself.message[:300]}",
                help=f"Prompt and answer together have {small_llama.CONTEXT} tokens at most, so "
                f"this answer ends after {room} tokens (`most` in writing.py). A step beyond "
                f"that asks for position {small_llama.CONTEXT}, which the network does not have.",
                safe="Your model refuses a very long prompt.",
            )
        raise Failure(
            f"{model} answers a prompt of {small_llama.CONTEXT - room} tokens, but refuses a "
            f"request with this prompt and a short one. The server's message: "
            f"{outcome.message[:300]}",
            help="Positions count a row's own tokens only. If those of the short row count the "
            f"padding, too, they reach {small_llama.CONTEXT}, which the network does not have.",
            safe="Your model refuses a request with a very long prompt and a short one.",
        )
    found = answers_of.read(model, outcome, 2)
    for row, (prompt, answer) in enumerate(zip(rows, found, strict=True)):
        which = f"row {row + 1} of a request with a very long prompt and a short one"
        answers_of.greedy(me, prompt, answer, 40, which, _first_end(found, row))


def write(server: Probe, model: str, prompt: str) -> Written:
    """Ask `chat` for the likeliest tokens that follow on a long prompt."""
    wanted = [{"temperature": 0, "max_tokens": STEPS}]
    (answer,) = answers_of.ask(server, model, [prompt], wanted)
    return answer


def uses_cache(
    server: Probe, me: str, model: str, prompts: Sequence[str], answer: Callable[[str], Written]
) -> None:
    """Fail unless a step computes only the new token: seen from the time that llama_step takes.

    Time and number of steps come from the same record of the statistics. Long steps and answers
    are measured in turn, and the shortest of each are compared: a busy machine makes both longer.

    Args:
        server: the check's probe.
        me: the student's id.
        model: the model's name.
        prompts: of which long ones are made, one for each try: an answer may end by itself.
        answer: asks the model for an answer of `STEPS` tokens at most.
    """
    longs: list[float] = []
    shorts: list[float] = []
    for prompt in prompts[:_TRIES]:
        text = prompt
        while len(facts.tokenizer().encode(text).ids) < _LONG:
            text += " " + prompt
        inputs = first_step([text])

        def ask_whole(inputs: dict[str, Array] = inputs) -> int:
            server.infer(facts.STEP, inputs, outputs=["logits"])
            return 1

        def steps(text: str = text) -> int:
            written = answer(text)  # a wrong answer may be had without these steps
            answers_of.greedy(me, text, written, STEPS, "the answer to a long prompt")
            return answers_of.steps_of(written)

        for _ in range(_OFTEN):
            long = _mean_step(server, ask_whole)
            longs += [long] if long is not None and long > _MEASURABLE else []
        short = _mean_step(server, steps, _LEAST)
        shorts += [short] if short is not None else []
        if not longs or len(shorts) < _ENOUGH:
            continue
        share = min(shorts) / min(longs)
        if share <= _SHARE:
            return
    if longs and len(shorts) >= _ENOUGH:
        raise Failure(
            f"After a prompt of {_LONG} tokens or more, a step of {model} takes "
            f"{share:.0%} of the time of one with the whole prompt. With a cache it is about a "
            "tenth.",
            help="From the second step on llama_step gets the new token alone, and in `past` what "
            "`present` was.",
            credit=0.5,
        )


def _mean_step(server: Probe, work: Callable[[], int], least: int = 1) -> float | None:
    """The mean seconds of a step of llama_step during some work; None if there were too few.

    `work` returns how many steps it needs. Those that were computed beyond that add their time, and
    do not count: else short ones that nobody needs would make the mean smaller.
    """
    count, spent = _computed(server)
    needed = work()
    if needed < least:
        return None
    for _ in range(20):  # the server counts a request a moment after it has answered
        more, took = _computed(server)
        if more - count >= least:
            return (took - spent) / min(more - count, needed)
        time.sleep(0.05)
    return None


def _computed(server: Probe) -> tuple[int, float]:
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

_LONGER = "A list is a list. " * 80


def prompt_of(count: int) -> str:
    """A prompt of so many tokens."""
    return "list" + " list" * (count - 1)


#: What is wrong, prompt, parameters as text, and words of which the message must have one.
BAD: tuple[tuple[str, str | bytes, str | bytes, tuple[str, ...]], ...] = (
    ("an empty prompt", "", "{}", ("empty", "prompt")),
    ("a prompt that is longer than the context", _LONGER, "{}", ("long", "context")),
    (
        f"a prompt of {small_llama.CONTEXT} tokens, which fills the context",
        prompt_of(small_llama.CONTEXT),
        "{}",
        ("long", "context"),
    ),
    ("a prompt that is not UTF-8", "Zürich".encode("latin-1"), "{}", ("utf",)),
    ("parameters that are not JSON", "A list", "max_tokens=5", ("json",)),
    ("a JSON list in place of an object", "A list", "[5]", ("object", "json", "dict")),
    ("a parameter that does not exist", "A list", '{"max_token": 5}', ("max_token",)),
    ("a temperature of -1", "A list", '{"temperature": -1}', ("temperature",)),
    ("a temperature that is a text", "A list", '{"temperature": "hot"}', ("temperature",)),
    ("a temperature that is true", "A list", '{"temperature": true}', ("temperature",)),
    ("a top_p of 0", "A list", '{"top_p": 0}', ("top_p",)),
    ("a top_p that is NaN", "A list", '{"top_p": NaN}', ("top_p", "json")),
    ("max_tokens of 0", "A list", '{"max_tokens": 0}', ("max_tokens",)),
    ("max_tokens of 2.5", "A list", '{"max_tokens": 2.5}', ("max_tokens",)),
    ("max_tokens that is true", "A list", '{"max_tokens": true}', ("max_tokens",)),
    ("a seed that is a text", "A list", '{"seed": "one"}', ("seed",)),
    ("an empty stop text", "A list", '{"stop": [""]}', ("stop",)),
    ("a stop that is a number", "A list", '{"stop": 5}', ("stop",)),
    ("a top_p that is null", "A list", '{"top_p": null}', ("top_p",)),
    ("a seed that is null", "A list", '{"seed": null}', ("seed",)),
)
#: Parameters at the ends of their ranges: each must be answered.
LIMITS: tuple[dict[str, Any], ...] = (
    {"temperature": 2},
    {"temperature": 0},
    {"top_p": 0.001},
    {"top_p": 1},
    {"seed": 0},
    {"max_tokens": 1},
    {"max_tokens": 256, "stop": ["a", "e", "i", "o", " "]},
    {"stop": []},
)


def bad_request(prompt: str | bytes, parameters: str | bytes) -> dict[str, Array]:
    """The inputs of a request as they are, whether or not they can be answered."""
    return {
        "text_input": facts.as_text([prompt]),
        "sampling_parameters": facts.as_text([parameters]),
    }


def refuses_each(server: Probe, model: str, bad: Sequence[Any]) -> None:
    """Fail unless each bad request is refused by itself, with a message that says why."""
    good = facts.request(["A list"], max_tokens=3, temperature=0)
    for what, prompt, parameters, naming in bad:
        request = bad_request(prompt, parameters)
        refuses_alone(server, model, request, what, naming)
        require.refuses(server, model, request, what, good=good, naming=naming)
    _takes_limits(server, model)
    nearly = facts.request([prompt_of(small_llama.CONTEXT - 1)], max_tokens=3, temperature=0)
    (outcome,) = server.outcomes(model, [nearly], outputs=answers_of.OUTPUTS)
    if isinstance(outcome, Refusal):
        raise Failure(
            f"{model} refuses a prompt of {small_llama.CONTEXT - 1} tokens. The server's message: "
            f"{outcome.message[:300]}",
            help=f"The context has {small_llama.CONTEXT} tokens, so there is room for one more.",
            safe="Your model refuses a prompt that leaves room for one token.",
        )


def _takes_limits(server: Probe, model: str) -> None:
    """Fail unless values at the ends of their ranges are answered."""
    for wanted in LIMITS:
        request = facts.request(["A list"], **{"max_tokens": 3, **wanted})
        (outcome,) = server.outcomes(model, [request], outputs=answers_of.OUTPUTS)
        if isinstance(outcome, Refusal):
            raise Failure(
                f"{model} refuses the parameters {json.dumps(wanted)}. The server's message: "
                f"{outcome.message[:300]}",
                help="The table of parameters in the task has the ranges; both ends belong to "
                "them. max_tokens is no promise: where the context has less room, the answer is "
                "shorter.",
                safe="Your model refuses parameters that are in their ranges.",
            )


def refuses_alone(
    server: Probe, model: str, request: dict[str, Array], what: str, naming: Sequence[str]
) -> None:
    """Fail unless a bad request that comes alone is refused, with a message that says why.

    A value that nobody has tested can raise an exception later, in the loop. Then the requests
    beside it fail, too, and the fault is not how `execute` treats them.
    """
    (outcome,) = server.outcomes(model, [request])
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
    if not any(word.lower() in words.lower() for word in naming):
        raise Failure(
            f"{model} refuses {what}, but the message does not say why: {words!r}.",
            help="A client reads this. It should contain the word "
            f"{' or '.join(map(repr, naming))}. If it is the message of an exception from the "
            "loop, the value was not tested when the request was read.",
            safe="Your model refuses a bad request, but the message does not say why.",
        )


def refuses_row(server: Probe, model: str) -> None:
    """Fail unless a request is refused as a whole where one of its rows is bad."""
    wanted = [json.dumps({"max_tokens": 3}), '{"top_p": 7}', "{}"]
    request = {
        "text_input": facts.as_text(["A list", "A class", "A name"]),
        "sampling_parameters": facts.as_text(wanted),
    }
    good = facts.request(["A list", "A class"], max_tokens=3, temperature=0)
    require.refuses(
        server, model, request, "a bad row among good ones", good=good, naming=("top_p",)
    )
