"""Words for a6__llm about the stream: its pieces, its end, clients who leave, clients at once.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from grader.vocabulary import requests as form
from grader.vocabulary import require
from grader.vocabulary.collect import note
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe, Stream

from . import answers as answers_of
from . import facts, loop, sampling
from .answers import OUTPUTS, Written

#: So many tokens a stream has at least where its pace is looked at. About a third of the answers at
#: temperature 1 are that long, so a right model has none in so many tries once in 10^8 times. More
#: than `_MOST` tokens are not asked for: the check is to answer in two seconds.
_LONG, _MOST, _TRIES = 100, 120, 48
_TIMEOUT = 20.0
#: So many clients ask at once. The others may have this share of their pieces before the last one
#: has its first. Where clients wait for each other they have nearly all, also if some pieces are
#: late on their way; where all share the steps they have hardly any.
_CLIENTS, _BESIDE = 4, 0.5
#: So many seconds a stream may take to end after its error.
_PATIENCE = 5.0
_FINAL = (
    "Every request needs TRITONSERVER_RESPONSE_COMPLETE_FINAL at its end, after an error too: "
    "`attend` sends it in `finally`."
)


def pieces(
    server: Probe, model: str, requests: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[tuple[Written, Stream]]:
    """The answers to prompts, each asked by a client of its own, all at once, and their streams.

    Raises:
        Failure: a stream is refused or does not end, a response is not in form, or only another
            response than the last says why the answer has ended.
    """
    inputs = [facts.single(prompt, **wanted) for prompt, wanted in requests]
    streams = server.streams(model, inputs, outputs=OUTPUTS, timeout=_TIMEOUT)
    return [
        (_joined(model, stream, int(wanted["max_tokens"])), stream)
        for stream, (_, wanted) in zip(streams, requests, strict=True)
    ]


def _joined(model: str, stream: Stream, most: int) -> Written:
    if len(stream.parts) > most + 1:
        runs = (
            " This version of the model goes on even if you deploy another one: in a terminal, "
            "`workbook stop` and then `workbook serve --detach` end it. Then run the cells that "
            "deploy again."
        )
        raise Failure(
            f"The stream of {model} does not end where it should: {len(stream.parts)} responses "
            f"came, and max_tokens was {most}.",
            help="The loop in `write` must stop when the answer has a finish_reason."
            + (runs if stream.ended is None and stream.refused is None else ""),
        )
    if stream.refused is not None:
        raise answers_of.explained(model, stream.refused.failure(model))
    if stream.ended is None:
        if stream.times and stream.times[-1] > 0.8 * _TIMEOUT:
            raise Failure(
                f"The stream of {model} is slow: after {_TIMEOUT:.0f} s it is still going, and "
                f"{len(stream.parts)} responses have come.",
                help="Is there more in the loop than a step of the network? If not, the machine "
                "may be busy: run this cell again.",
            )
        raise Failure(
            f"The stream of {model} does not end: {len(stream.parts)} responses came within "
            f"{_TIMEOUT:.0f} s, and none said that it was the last one.",
            help=f"{_FINAL} If it does so: {answers_of.LOOPS.format(model)} Or the machine was "
            "busy: run this cell again.",
        )
    if not stream.parts:
        raise Failure(f"The stream of {model} is empty.", help="Send each piece as a response.")
    _nothing_twice(model, stream)
    texts, tokens, logprobs, reasons = [], [], [], []
    for part in stream.parts:
        if part["text_output"].size != 1 or part["finish_reason"].size != 1:
            raise Failure(
                f"A response of {model} has text_output of the shape "
                f"{list(part['text_output'].shape)} and finish_reason of the shape "
                f"{list(part['finish_reason'].shape)}; [1] is wanted.",
                help="There is no batch here: a response holds one text.",
            )
        if part["token_ids"].size != part["logprobs"].size:
            raise Failure(
                f"A response of {model} holds {part['token_ids'].size} token_ids and "
                f"{part['logprobs'].size} logprobs.",
                help="Each response holds one logprob for each of its tokens: `piece` cuts both "
                "lists at the same place.",
            )
        texts.append(part["text_output"].ravel()[0])
        tokens.append(part["token_ids"].ravel())
        logprobs.append(part["logprobs"].ravel())
        reasons.append(part["finish_reason"].ravel()[0])
    early = [place for place, reason in enumerate(reasons[:-1]) if reason not in (b"", "")]
    if early:
        raise Failure(
            f"Response {early[0] + 1} of {len(reasons)} of {model} has a finish_reason already.",
            help='finish_reason is "" until the last response of an answer.',
        )
    if reasons[-1] in (b"", ""):
        raise Failure(
            f"The last of {len(reasons)} responses of {model} has no finish_reason.",
            help="Each step sends a response, also where there is no text to show: otherwise its "
            "token or the finish_reason is missing. The loop goes on until answer.reason is set.",
        )
    shown = [one if isinstance(one, bytes) else str(one).encode() for one in texts]
    answer = answers_of.written(
        model, b"".join(shown), np.concatenate(tokens), np.concatenate(logprobs), reasons[-1]
    )
    _only_what_is_new(model, answer, [one.decode("utf-8", "replace") for one in shown if one])
    return answer


def _only_what_is_new(model: str, answer: Written, shown: Sequence[str]) -> None:
    """Fail where there is text and no token, or where each response holds the whole text so far."""
    if shown and not answer.tokens:
        raise Failure(
            f"The responses of {model} hold text, but no tokens.",
            help="`piece` cuts the tokens: `before` is how many tokens the answer had before this "
            "step, so count them before `add`.",
        )
    if len(shown) > 1 and shown[-1] == facts.tokenizer().decode(answer.tokens):
        raise Failure(
            f"Each response of {model} holds the whole text so far.",
            help="A response of the stream holds only what is new. `add` returns the text that can "
            "be shown now and could not be shown before, and `piece` gets what it returns.",
        )


def _nothing_twice(model: str, stream: Stream) -> None:
    """Fail where each response repeats the tokens of the one before it."""
    rows = [part["token_ids"].ravel().tolist() for part in stream.parts]
    longer = [
        place
        for place in range(1, len(rows))
        if rows[place - 1] and len(rows[place]) > 1 and rows[place][:-1] == rows[place - 1]
    ]
    if len(longer) > 1:
        raise Failure(
            f"Response {longer[0] + 1} of {model} holds the tokens of response {longer[0]} again.",
            help="token_ids of a response holds only the tokens that are new in this step. `piece` "
            "cuts them: `before` is how many tokens the answer had before it.",
        )


@contextlib.contextmanager
def same_writing(server: Probe) -> Iterator[None]:
    """Say, beside what is wrong, that the two copies of writing.py differ."""
    sentence = ""
    files = [
        server.server.repository / model / "1" / "writing.py"
        for model in (facts.CHAT, facts.STREAM)
    ]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        chat, stream = (facts.without_note(file.read_text("utf-8")) for file in files)
        if chat != stream:
            sentence = (
                f"Note: {facts.CHAT} and {facts.STREAM} are deployed with different files "
                f"writing.py, so one of them is not deployed anew yet. Edit "
                f"models/{facts.CHAT}/1/writing.py only. Then run the cell that deploys "
                f"{facts.STREAM}, which copies it, and a cell that deploys {facts.CHAT}, too."
            )
    try:
        yield
    except Failure as failure:
        if not sentence:
            raise
        raise Failure(
            failure.rationale,
            help=f"{failure.help} {sentence}".strip(),
            credit=failure.credit,
            safe=failure.safe,
        ) from None
    if sentence:
        note(sentence)


def streams_greedy(server: Probe, me: str, model: str, prompts: Sequence[str]) -> None:
    """Fail unless the pieces of answers at temperature 0, joined, are the likeliest tokens."""
    for prompt in prompts:
        ((answer, stream),) = pieces(
            server, model, [(prompt, {"temperature": 0, "max_tokens": 24})]
        )
        answers_of.greedy(me, prompt, answer, 24, "the answer that the responses make together")
        most = max(len(part["token_ids"].ravel()) for part in stream.parts)
        if most > 4:
            raise Failure(
                f"A response of {model} holds {most} tokens at once.",
                help="Send each token as soon as it is there.",
            )


def comes_at_once(server: Probe, me: str, model: str, prompts: Sequence[str]) -> tuple[str, int]:
    """Fail unless a long answer comes piece by piece; returns its prompt and its seed."""
    for seed, prompt in enumerate(itertools.islice(itertools.cycle(prompts), _TRIES)):
        wanted = {"temperature": 1.0, "top_p": 0.95, "seed": seed, "max_tokens": _MOST}
        ((answer, _),) = pieces(server, model, [(prompt, wanted)])
        which = "an answer of the stream"
        sampling.in_nucleus(me, prompt, answer, 1.0, 0.95, which)
        answers_of.true_logprobs(me, prompt, answer, which)
        if len(answer.tokens) >= _LONG:
            long, least = facts.single(prompt, **wanted), _LONG // 4
            _in_time(partial(require.streams, server, model, long, "token_ids", at_least=least))
            return prompt, seed
    raise Failure(
        f"{_TRIES} answers of {model} at temperature 1 all have fewer than {_LONG} tokens.",
        help=f"max_tokens was {_MOST}. Only the end of text, a stop text or a full context ends an "
        "answer sooner.",
    )


def _in_time(look: Callable[[], object]) -> None:
    """Look at something that a busy machine can delay: it is wrong if it is so four times."""
    for pause in (0.2, 0.5, 1.0, None):
        try:
            look()
            return
        except Failure:
            if pause is None:
                raise
            time.sleep(pause)


def stops(server: Probe, me: str, model: str, prompts: Sequence[str]) -> None:
    """Fail unless no part of a stop text is ever sent, and what only looked like one is."""
    most = 40
    for number, prompt in enumerate(prompts):
        wanted: dict[str, Any] = {"temperature": 0, "max_tokens": most}
        ((whole, _),) = pieces(server, model, [(prompt, wanted)])
        answers_of.likeliest(me, prompt, whole, "an answer of the stream at temperature 0")
        if len(whole.text) < 24:
            continue
        stop = sampling.stop_between(server.rng, whole.text)
        for what, ends in (
            ("a stop text", [stop]),
            ("a stop text of which only the beginning stands in the answer", [stop + "§"]),
            ("a stop text that only begins at the end of the answer", [whole.text[-3:] + "§"]),
            ("two stop texts of which both may have begun", _begun(whole, number)),
        )[number % 2 :: 2]:
            ((answer, _),) = pieces(server, model, [(prompt, {**wanted, "stop": ends})])
            right = sampling.cut(whole, ends)
            sampling.same_end(answer, right, f"{what}, in a stream", ends)


def _begun(whole: Written, number: int) -> list[str]:
    """Two stop texts: where one token ends, three characters may begin one, and one the other.

    Only the longer one is completed. Who keeps back the shorter beginning sends two characters of
    the stop text.
    """
    decode = facts.tokenizer().decode
    for count in range(3, len(whole.tokens)):
        text = decode(whole.tokens[:count])
        place = len(text) - 3
        stop = whole.text[place : place + 6]
        if place > 0 and len(stop) == 6 and whole.text.find(stop) == place:
            other = stop[2] + "§"
            if stop[:2] != 2 * stop[2]:
                return [other, stop] if number % 4 < 2 else [stop, other]
    return [whole.text[-3:] + "§"]


def write(server: Probe, model: str, prompt: str) -> Written:
    """Ask for the likeliest tokens that follow on a long prompt."""
    wanted = {"temperature": 0, "max_tokens": loop.STEPS}
    ((answer, _),) = pieces(server, model, [(prompt, wanted)])
    return answer


def refuses(server: Probe, model: str, bad: Mapping[str, Any], what: str) -> None:
    """Fail unless a bad request is refused, its stream ends, and the next one is answered."""
    stream, good = server.streams(
        model, [bad, facts.single("A list", max_tokens=3)], outputs=OUTPUTS, timeout=_TIMEOUT
    )
    if stream.refused is None:
        ended = "is answered" if stream.ended is not None else "gets no answer and no end"
        raise Failure(
            f"{what.capitalize()} {ended} by {model}; it should be refused with an error.",
            help="sender.send(pb_utils.InferenceResponse([], error)), and then the final flag.",
        )
    if good.refused is not None or good.ended is None:
        raise Failure(f"Beside {what}, {model} does not answer a right request.", help=_FINAL)
    if not _ends(server, model, bad):
        raise Failure(
            f"The stream of {what} does not end: {model} sends an error, and then nothing says "
            "that it was the last response.",
            help=f"{_FINAL} `finally:` in `attend` is the place for it.",
        )


def _ends(server: Probe, model: str, inputs: Mapping[str, Any]) -> bool:
    """Whether the server ends a stream some seconds after its client has sent all it wants."""
    came = threading.Event()
    client = server.server.grpc_client()
    try:
        client.start_stream(lambda result, error: came.set())
        client.async_stream_infer(model, form.tensors(inputs), enable_empty_final_response=True)
        came.wait(_TIMEOUT)
        waiting = threading.Thread(target=client.stop_stream, daemon=True)  # until the server ends
        waiting.start()
        waiting.join(_PATIENCE)
        return not waiting.is_alive()
    finally:
        with contextlib.suppress(Exception):
            client.stop_stream(cancel_requests=True)
        with contextlib.suppress(Exception):
            client.close()


def together(
    server: Probe, me: str, model: str, prompts: Sequence[str], long: tuple[str, int]
) -> None:
    """Fail unless clients at once get their own answers, and none waits until another is done.

    Args:
        server: the check's probe.
        me: the student's id.
        model: the name of the model.
        prompts: one for each client.
        long: a prompt and a seed with a long answer.
    """
    one = {"temperature": 1.0, "top_p": 0.95, "max_tokens": 60}
    asked = [(prompt, {**one, "seed": place}) for place, prompt in enumerate(prompts)]
    alone = [pieces(server, model, [each])[0][0] for each in asked]
    try:
        beside = pieces(server, model, asked)
    except Failure as failure:
        raise Failure(
            f"{len(prompts)} clients ask {model} at once, and one is not answered as when it is "
            f"alone. {failure.rationale}",
            help="With one client it works, with several it does not: what do you keep in self? "
            "Answer, ids, positions, mask and cache belong to one request: keep them in local "
            "variables of `write`.",
            safe="Several clients ask your model at once, and one is not answered.",
        ) from None
    for (answer, _), right in zip(beside, alone, strict=True):
        if answer.tokens != right.tokens or answer.text != right.text:
            raise Failure(
                f"{len(prompts)} clients ask {model} at once. One gets another answer than alone, "
                "with the same seed.",
                help="Each request has an answer, a cache and a generator of random numbers of its "
                "own: nothing of it belongs into self.",
            )
    _in_time(lambda: _side_by_side(server, model, long))


def _side_by_side(server: Probe, model: str, long: tuple[str, int]) -> None:
    wanted = {"temperature": 1.0, "top_p": 0.95, "seed": long[1], "max_tokens": _LONG}
    answers = pieces(server, model, [(long[0], wanted)] * _CLIENTS)
    *others, late = sorted(stream.times for _, stream in answers)
    of_others = [time for times in others for time in times]
    before = sum(time < late[0] for time in of_others)
    if before > _BESIDE * len(of_others):
        raise Failure(
            f"{_CLIENTS} clients ask {model} at once. When the first piece for the last of them "
            f"comes, the others have {before} of their {len(of_others)} pieces.",
            help="execute must not answer one request after the other: a coroutine that awaits "
            "async_exec() lets the others go on, one that calls exec() does not.",
        )


def leaves(server: Probe, model: str, long: tuple[str, int]) -> None:
    """Fail unless the model stops working on an answer whose client has left.

    It is seen from what llama_step counts: threads of the model cannot hide their work from it.
    """
    loop.is_idle(server)
    prompt, seed = long
    inputs = facts.single(prompt, temperature=1.0, top_p=0.95, seed=seed, max_tokens=_MOST)
    _in_time(lambda: _ends_early(server, model, inputs))
    ((again, _),) = pieces(server, model, [("A list", {"max_tokens": 3})])
    if not again.tokens:
        raise Failure(
            f"After a client has left, {model} does not answer the next one.",
            help="Where is_cancelled() is true, end this stream alone: with the final flag, and "
            "with nothing about it kept in self.",
        )


def _ends_early(server: Probe, model: str, inputs: Mapping[str, Any]) -> None:
    before = server.counts(facts.STEP)
    (whole,) = server.streams(model, [inputs], timeout=_TIMEOUT)
    all_steps = (server.counts(facts.STEP) - before).inferences
    before = server.counts(facts.STEP)
    (left,) = server.streams(model, [inputs], leave_after=3, timeout=_TIMEOUT)
    if whole.ended is None or len(left.parts) < 3:
        raise Failure(f"The stream of {model} does not end, or is empty.", help=_FINAL)
    steps, deadline = -1, time.monotonic() + 2 * whole.ended + 1
    while time.monotonic() < deadline:
        now = (server.counts(facts.STEP) - before).inferences
        if now == steps:
            break
        steps = now
        time.sleep(0.15)
    if steps > 0.7 * all_steps:
        raise Failure(
            f"The client left after 3 responses. {facts.STEP} still made {steps} of {all_steps} "
            "steps for this answer.",
            help="Ask is_cancelled() before each step, and end the stream.",
        )
