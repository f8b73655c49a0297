"""What the checks of a6__llm require of the stream: its pieces, its end, clients that leave.

Each function asks once and looks at the recorded streams. Only if a busy machine may be the reason
of a delay, it asks again: the model is wrong if it is late each time.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from grader.vocabulary import requests as form
from grader.vocabulary import require
from grader.vocabulary.collect import note
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe, Stream

from . import answers, facts, loop, network, stopping
from .answers import OUTPUTS, Answer

#: The fewest tokens of a stream whose pace is looked at, and the most; the most streams that are
#: tried, and their parameters. At temperature 2 two of three answers are long enough: the
#: probability that a right model has none in 48 tries is below 1e-22.
_LONG, _MOST, _TRIES, _HOT = 100, 120, 48, {"temperature": 2, "top_p": 0.95}
#: How many clients ask at once, and the most tokens of their answers. When the last client gets its
#: first piece, the others may have this share of their pieces. If clients wait for each other, the
#: others have nearly all of them; if their steps take turns, hardly any.
_CLIENTS, _TOKENS, _BESIDE = 4, 48, 0.5
#: Seconds until a stream must have ended; and until it must end after its error.
_TIMEOUT, _PATIENCE = 20.0, 5.0
_FINAL = (
    "Every request needs TRITONSERVER_RESPONSE_COMPLETE_FINAL at its end, after an error too: "
    "`attend` sends it in `finally`."
)


# -- one stream ------------------------------------------------------------------------------------


def ask(
    server: Probe, model: str, requests: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[tuple[Answer, Stream]]:
    """The answers to prompts, each asked by a client of its own, all at once, and their streams.

    Raises:
        Failure: a stream is refused or does not end, a response is not in form, or only another
            response than the last says why the answer has ended.
    """
    inputs = [facts.single(prompt, **wanted) for prompt, wanted in requests]
    streams = server.streams(model, inputs, outputs=OUTPUTS, timeout=_TIMEOUT)
    return [
        (_join(model, stream, int(wanted["max_tokens"])), stream)
        for stream, (_, wanted) in zip(streams, requests, strict=True)
    ]


def ask_alone(server: Probe, model: str, prompt: str, **wanted: Any) -> Answer:
    """The answer to one prompt, joined from its pieces."""
    return ask(server, model, [(prompt, wanted)])[0][0]


def ask_greedy(server: Probe, me: str, model: str, prompt: str, most: int) -> Answer:
    """The answer to one prompt at temperature 0; fails unless it is right.

    Right is also what the student's `chat` answers: both write with the same writing.py, and a
    mistake in it is a matter of a6.greedy.
    """
    wanted = {"temperature": 0, "max_tokens": most}
    answer = ask_alone(server, model, prompt, **wanted)
    try:
        which = "the answer that the responses make together"
        answers.require_greedy(me, prompt, answer, most, which)
    except Failure:
        if not _is_of_chat(server, prompt, answer, wanted):
            raise
    return answer


def _is_of_chat(server: Probe, prompt: str, answer: Answer, wanted: Mapping[str, Any]) -> bool:
    """Whether the student's `chat` gives the same answer, but for rounding."""
    try:
        (other,) = answers.ask(server, facts.CHAT, [prompt], wanted)
    except Failure:
        return False
    return dataclasses.replace(other, logprobs=answer.logprobs) == answer and np.allclose(
        other.logprobs, answer.logprobs, rtol=0, atol=4 * network.tolerance().allowed
    )


def _join(model: str, stream: Stream, most: int) -> Answer:
    """The answer that the responses of a stream make together; fails unless they make one."""
    _require_ended(model, stream, most)
    count, shown, tokens, logprobs = len(stream.parts), list[bytes](), [], []
    for number, part in enumerate(stream.parts, start=1):
        text, ids, logs, reason = (part[name].ravel() for name in OUTPUTS)
        if text.size != 1 or reason.size != 1 or ids.size != logs.size:
            raise Failure(
                f"Response {number} of {model} holds {ids.size} token_ids and {logs.size} "
                f"logprobs, {text.size} text and {reason.size} finish_reason.",
                help="A response holds one text, one finish_reason, and one logprob for each of "
                "its tokens: `piece` cuts both lists at the same place.",
            )
        if reason[0] not in (b"", "") and number < count:
            raise Failure(
                f"Response {number} of {count} of {model} has a finish_reason already.",
                help='finish_reason is "" until the last response of an answer.',
            )
        if not 1 <= ids.size <= 4 and number < count:
            raise Failure(
                f"Response {number} of {model} holds {ids.size} tokens; each one but the last "
                "holds the token that is new in its step.",
                help="Send each token as soon as it is there. `piece` cuts the tokens: `before` is "
                "how many tokens the answer had before this step, so count them before `add`.",
            )
        shown.append(text[0] if isinstance(text[0], bytes) else str(text[0]).encode())
        tokens.append(ids)
        logprobs.append(logs)
    if reason[0] in (b"", ""):
        raise Failure(
            f"The last of {count} responses of {model} has no finish_reason.",
            help="Each step sends a response, also where there is no text to show: otherwise its "
            "token or the finish_reason is missing. The loop goes on until answer.reason is set.",
        )
    answer = answers.make_answer(
        model, b"".join(shown), np.concatenate(tokens), np.concatenate(logprobs), reason[0]
    )
    pieces = [one.decode("utf-8", "replace") for one in shown if one]
    if len(pieces) > 1 and pieces[-1] == facts.tokenizer().decode(answer.tokens):
        raise Failure(
            f"Each response of {model} holds the whole text so far.",
            help="A response of the stream holds only what is new. `add` returns the text that can "
            "be shown now and could not be shown before, and `piece` gets what it returns.",
        )
    return answer


def _require_ended(model: str, stream: Stream, most: int) -> None:
    """Fail unless a stream was answered, and has ended after as many responses as it may have."""
    count = len(stream.parts)
    if count > most + 1:
        goes_on = stream.ended is None and stream.refused is None
        raise Failure(
            f"The stream of {model} does not end where it should: {count} responses came, and "
            f"max_tokens was {most}.",
            help="The loop in `write` must stop when the answer has a finish_reason."
            + f" This version goes on even if you deploy another. {answers.RESTART}" * goes_on,
        )
    if stream.refused is not None:
        raise answers.explain_failure(model, stream.refused.failure(model))
    if stream.ended is None:
        raise Failure(
            f"The stream of {model} does not end: {count} responses came within {_TIMEOUT:.0f} s, "
            "and none said that it was the last one.",
            help=f"{_FINAL} If it does so: {answers.LOOPS.format(model)} Or the machine was busy: "
            "run this cell again.",
        )
    if not count:
        raise Failure(f"The stream of {model} is empty.", help="Send each piece as a response.")


@contextlib.contextmanager
def compared_writing(server: Probe) -> Iterator[None]:
    """Add to a failure's help, or to the notes, that the two copies of writing.py differ."""
    folder, sentence = server.server.repository, ""
    files = [folder / model / "1" / "writing.py" for model in (facts.CHAT, facts.STREAM)]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        one, other = (facts.without_note(file.read_text("utf-8")) for file in files)
        if one != other:
            sentence = (
                f"Note: {facts.CHAT} and {facts.STREAM} are deployed with different files "
                "writing.py, so one of them is not deployed anew yet. Edit "
                f"models/{facts.CHAT}/1/writing.py only. Then run the cell that deploys "
                f"{facts.STREAM}, which copies it, and a cell that deploys {facts.CHAT}, too."
            )
    try:
        yield
    except Failure as failure:
        failure.help = f"{failure.help} {sentence}".strip()
        raise
    if sentence:
        note(sentence)


def require_stream(server: Probe, me: str, model: str, prompts: Sequence[str]) -> None:
    """Fail unless answers at temperature 0 come as they should, and no part of a stop text is sent.

    Each prompt is sent once. Those with a long enough answer are then sent with stop texts.
    """
    wanted: dict[str, Any] = {"temperature": 0, "max_tokens": stopping.MOST}
    found = [ask_greedy(server, me, model, prompt, stopping.MOST) for prompt in prompts]
    answers.require_different(model, found)
    pairs = zip(prompts, found, strict=True)
    whole = [pair for pair in pairs if len(pair[1].text) >= stopping.LEAST]
    for number, (prompt, answer) in enumerate(itertools.islice(itertools.cycle(whole), 4)):
        stop = stopping.stream_stops(server.rng, answer)[number]
        stopped = ask_alone(server, model, prompt, **wanted, stop=stop.stop)
        stopping.require_stopped(stopped, answer, stop)


def require_pace(server: Probe, model: str, prompts: Sequence[str]) -> None:
    """Fail unless a long answer comes piece by piece."""
    for seed, prompt in enumerate(itertools.islice(itertools.cycle(prompts), _TRIES)):
        wanted = {**_HOT, "seed": seed, "max_tokens": _MOST}
        ((answer, stream),) = ask(server, model, [(prompt, wanted)])
        if len(answer.tokens) < _LONG:
            continue
        if stream.times[0] > stream.times[-1] / 2:  # `require.streams` asks again if it is late
            inputs = facts.single(prompt, **wanted)
            require.streams(server, model, inputs, "token_ids", at_least=_LONG // 4)
        return
    raise Failure(
        f"{_TRIES} answers of {model} at temperature 2 all have fewer than {_LONG} tokens.",
        help=f"max_tokens was {_MOST}. Only the end of text, a stop text or a full context ends an "
        "answer sooner.",
    )


def require_refusal(server: Probe, model: str, bad: loop.Bad) -> None:
    """Fail unless a bad request is refused, its stream ends, and the next one is answered."""
    what = bad.what
    inputs = {name: rows[0] for name, rows in loop.bad_request(bad).items()}
    good = facts.single("A list", max_tokens=3)
    refused, answered = server.streams(model, [inputs, good], outputs=OUTPUTS, timeout=_TIMEOUT)
    if refused.refused is None:
        ended = "is answered" if refused.ended is not None else "gets no answer and no end"
        raise Failure(
            f"{what.capitalize()} {ended} by {model}; it should be refused with an error.",
            help="sender.send(pb_utils.InferenceResponse([], error)), and then the final flag.",
        )
    if answered.refused is not None or answered.ended is None:
        raise Failure(f"Beside {what}, {model} does not answer a right request.", help=_FINAL)
    if not _ends(server, model, inputs):
        raise Failure(
            f"The stream of {what} does not end: {model} sends an error, and then nothing says "
            "that it was the last response.",
            help=_FINAL,
        )


def _ends(server: Probe, model: str, inputs: Mapping[str, Any]) -> bool:
    """Whether the server ends a stream some seconds after its client has sent all it wants.

    The streams of a probe end with the error, so they do not show it.
    """
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


# -- several clients -------------------------------------------------------------------------------


def require_clients(server: Probe, model: str, prompts: Sequence[str]) -> None:
    """Fail unless clients at once get their own answers side by side, and one may leave.

    An answer is compared with the one that the same client gets alone.
    """
    one = {**_HOT, "max_tokens": _TOKENS}
    requests = [(prompt, {**one, "seed": k}) for k, prompt in enumerate(prompts[:_CLIENTS])]
    alone = [ask_alone(server, model, prompt, **wanted) for prompt, wanted in requests]
    answers.require_different(model, alone)
    try:
        beside = ask(server, model, requests)
    except Failure as failure:
        raise Failure(
            f"{_CLIENTS} clients ask {model} at once, and one is not answered as when it is "
            f"alone. {failure.rationale}",
            help="With one client it works, with several it does not: what do you keep in self? "
            "Answer, ids, positions, mask and cache belong to one request: keep them in local "
            "variables of `write`.",
            safe="Several clients ask your model at once, and one is not answered.",
        ) from None
    for (answer, _), right in zip(beside, alone, strict=True):
        if answer.tokens != right.tokens or answer.text != right.text:
            raise Failure(
                f"{_CLIENTS} clients ask {model} at once. One gets another answer than alone, "
                "with the same seed.",
                help="Each request has an answer, a cache and a generator of random numbers of its "
                "own: keep none of them in self.",
            )
    longest = max(range(_CLIENTS), key=lambda k: len(alone[k].tokens))
    prompt, wanted = requests[longest][0], {**requests[longest][1], "max_tokens": _MOST}

    def require_beside(attempt: int) -> None:
        again = ask(server, model, [(prompt, wanted)] * _CLIENTS) if attempt else beside
        _require_side_by_side(model, [stream for _, stream in again])

    answers.retry(5, require_beside)
    loop.require_idle(server)
    inputs = facts.single(prompt, **wanted)
    answers.retry(4, lambda _: _require_early_end(server, model, inputs))
    try:
        ask_alone(server, model, "A list", **one)
    except Failure as failure:
        raise Failure(
            f"After a client has left: {failure.rationale}",
            help=f"{failure.help} Where is_cancelled() is true, end this stream alone.",
            safe="After a client has left, your model does not answer the next one.",
        ) from None


def _require_side_by_side(model: str, streams: Sequence[Stream]) -> None:
    """Fail if the other streams have most of their pieces when the last one gets its first."""
    *others, late = sorted(stream.times for stream in streams)
    times = [time for other in others for time in other]
    before = sum(time < late[0] for time in times)
    if before > _BESIDE * len(times):
        raise Failure(
            f"{len(streams)} clients ask {model} at once. When the first piece for the last of "
            f"them comes, the others have {before} of their {len(times)} pieces.",
            help="execute must not answer one request after the other. While a coroutine awaits "
            "async_exec(), the others go on; while it calls exec(), they wait.",
        )


def _require_early_end(server: Probe, model: str, inputs: Mapping[str, Any]) -> None:
    """Fail unless the model stops working on an answer whose client has left.

    It is seen from what llama_step counts: threads of the model cannot hide their work from it.
    """
    before = server.counts(facts.STEP)
    (whole,) = server.streams(model, [inputs], timeout=_TIMEOUT)
    all_steps = (server.counts(facts.STEP) - before).inferences
    if all_steps < len(whole.parts):
        raise Failure(
            f"An answer of {model} has {len(whole.parts)} responses, and {facts.STEP} was asked "
            f"for {all_steps} steps.",
            help=f"Each token comes from {facts.STEP}, by BLS.",
        )
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
