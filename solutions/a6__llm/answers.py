"""How the checks of a6__llm ask `chat`, and what is wrong with an answer.

Are the tokens the likeliest ones? A check goes along the answer: after each token, the network's
scores, computed here from the weights, must name the next token. So nothing has to be generated
here, and two tokens with nearly equal scores are both right.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from grader.vocabulary import require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe
from workbook.server.catalogue.failed_requests import NOT_AWAITED
from workbook.zoo import small_llama

from . import facts, network

OUTPUTS = tuple(facts.ANSWER)
_PADDING = (
    "Shorter prompts are padded on the left. Look at three things: the mask is 0 at the padding, "
    "the positions count a row's own tokens only, and the mask is 0 for the cache's first column."
)
_NO_END = "The end of text ends an answer. It is no part of it."
_AFTER_AN_END = (
    "The fault comes after another row has ended. When rows leave, index answers, mask, positions "
    "and cache with the same numbers: those of the rows that go on."
)


@dataclasses.dataclass(frozen=True)
class Answer:
    """One answer: its text, the ids of its tokens, their logprobs, and why it ended.

    `holds_end`: its tokens ended with the end of text, which belongs to no answer. It is left out
    here, and `require_greedy` fails.
    """

    text: str
    tokens: list[int]
    logprobs: list[float]
    reason: str
    holds_end: bool = False

    @property
    def steps(self) -> int:
        """How many steps of the network an answer without stop texts takes."""
        return len(self.drawn)

    @property
    def drawn(self) -> list[int]:
        """The tokens that were chosen: those of the answer, and the end of text if it ended so."""
        return [*self.tokens, *[small_llama.EOS] * (self.reason == "stop")]


# -- requests --------------------------------------------------------------------------------------


def ask(
    server: Probe,
    model: str,
    prompts: Sequence[str],
    wanted: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> list[Answer]:
    """The answers to one request with a row for each prompt.

    Args:
        server: the check's probe.
        model: the name of the model.
        prompts: at most 8.
        wanted: the parameters of all rows, or of each row.
    """
    rows = [wanted] * len(prompts) if isinstance(wanted, Mapping) else wanted
    request = facts.requests_of(prompts, [dict(one) for one in rows])
    return ask_together(server, model, [request])[0]


def ask_together(
    server: Probe, model: str, requests: Sequence[dict[str, Array]]
) -> list[list[Answer]]:
    """The answers to requests that are sent at once, for each of them those of its rows."""
    try:
        found = server.together(model, requests, outputs=OUTPUTS)
    except Failure as failure:
        raise explain_failure(model, failure) from None
    return [
        read(model, answer, len(request["text_input"]))
        for answer, request in zip(found, requests, strict=True)
    ]


def read(model: str, answer: Mapping[str, Array], rows: int) -> list[Answer]:
    """The answers in the outputs of one response; fails where these do not fit together."""
    tokens, logprobs = answer["token_ids"], answer["logprobs"]
    width = tokens.shape[-1:]
    for name in OUTPUTS:
        require.shape(
            model,
            answer[name],
            (rows, *width) if name in ("token_ids", "logprobs") else (rows, 1),
            output=name,
            help="Texts have one column. token_ids and logprobs have a row for each prompt, and as "
            "many columns as the longest answer has tokens.",
        )
    found_answers = []
    for row in range(rows):
        count = int((np.append(tokens[row], facts.FILLED) == facts.FILLED).argmax())
        if (tokens[row, count:] != facts.FILLED).any():
            raise Failure(
                f"In row {row + 1} of token_ids of {model}, tokens stand after {facts.FILLED}.",
                help=f"{facts.FILLED} pads a row after its last token.",
            )
        text, reason = answer["text_output"][row, 0], answer["finish_reason"][row, 0]
        found_answers.append(
            make_answer(model, text, tokens[row, :count], logprobs[row, :count], reason)
        )
    return found_answers


def make_answer(model: str, text: Any, tokens: Array, logprobs: Array, reason: Any) -> Answer:
    """One answer from the values of its outputs; fails where they cannot be an answer's."""
    text, reason = (
        one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one)
        for one in (text, reason)
    )
    ids = [int(token) for token in tokens]
    if holds_end := ids[-1:] == [small_llama.EOS]:
        ids.pop()
    require_tokens(f"token_ids of {model}", ids)
    if not np.isfinite(logprobs).all():
        raise Failure(f"{model} answers logprobs that are not finite numbers.")
    if not ids and reason != "stop":
        raise Failure(
            f"An answer of {model} has no token, and finish_reason is "
            f"{repr(reason[:20]) if reason else 'empty'}.",
            help="The loop must go on until finish_reason of each answer is set: the network gives "
            "scores, `choose` a token, `add` puts it into the answer. Only an answer that ends "
            'with "stop" can have no token.',
            safe="An answer has no token.",
        )
    return Answer(text, ids, [float(one) for one in logprobs[: len(ids)]], reason, holds_end)


def require_tokens(what: str, tokens: Sequence[int]) -> None:
    """Fail unless numbers are tokens that an answer can hold."""
    if any(not 0 <= token < small_llama.VOCABULARY for token in tokens):
        raise Failure(f"{what} holds numbers that are no tokens: they go from 0 to 1023.")
    if small_llama.EOS in tokens:
        raise Failure(f"{what} holds the end of text.", help=_NO_END)


def retry(times: int, requirement: Callable[[int], None]) -> None:
    """Fail only if a requirement fails this many times. It gets the number of the attempt."""
    for attempt in range(times):
        try:
            requirement(attempt)
            return
        except Failure:
            if attempt == times - 1:
                raise
            time.sleep(0.3 * (attempt + 1))


# -- requests that failed --------------------------------------------------------------------------

#: The words with which a probe says that no answer came.
LATE = "did not answer within"
#: How a student stops a loop that never ends.
RESTART = (
    "In a terminal, `workbook stop` and then `workbook serve --detach` end it; then run the cells "
    "that deploy again."
)
#: What to do where a model may have such a loop; {} is its name.
LOOPS = (
    "The loop of {} may never end: which line sets `reason`, and is it reached? A new deploy does "
    f"not stop such a loop. {RESTART}"
)
#: A message of ONNX Runtime is one long line: this many characters at its end say what is wrong.
_ONNX, _END = "onnx runtime error", 90
_ARRAYS = "position_ids|input_ids|attention_mask|past|shape"
#: Patterns in the message of a failed request, and what to look at; the first that fits counts.
_ADVICE = (
    (
        f"idx={small_llama.CONTEXT}",
        f"A step asked for position {small_llama.CONTEXT}, which the network does not have. Does "
        "`add` set `reason` at the end of text and after `most` tokens, and does the loop take "
        "such an answer out? Do positions grow by 1 in each step?",
    ),
    (
        "sends no data for",
        "The arrays of a step have no rows: the loop must end when no answer is left.",
    ),
    (
        "batch size does not match",
        f"The four inputs of one step of {facts.STEP} have different numbers of rows: print the "
        "shapes of ids, positions, mask and cache before the call. When rows leave, all four keep "
        "the same rows, `past` too.",
    ),
    (
        f"{_ONNX}|{facts.STEP}.*({_ARRAYS})|({_ARRAYS}).*{facts.STEP}",
        f"{facts.STEP} got other arrays than it takes. Before the call print name, dtype and shape "
        "of each: input_ids (rows, new), position_ids (rows, new), attention_mask (rows, columns "
        "of past + new), past (rows, 8, 2, columns, 64). Is the mask one column longer in each "
        "step, and is `past` what `present` was?",
    ),
    (  # numpy's `choice` is compiled, so Triton names no line of the model's own
        r"numpy\.random\.\S+\.choice",
        "`choose` in writing.py calls numpy's `choice`, which raises it. Print the nucleus and its "
        "probabilities before the call: the nucleus holds one token at least, and its "
        "probabilities are divided by their sum. None of them may be NaN.",
    ),
)
#: A line of the traceback in an exception's message: a file of the model, the line, the function.
_FRAME = re.compile(r"/\d+/(\w+\.py)\((\d+)\): (\w+)")


def explain_failure(model: str, failure: Failure) -> Failure:
    """A failed request, with help that fits these models: what a step was given, and which line."""
    message = failure.rationale
    found = (help for pattern, help in _ADVICE if re.search(pattern, message, re.DOTALL))
    help = next(found, "") or _explain_line(message)
    if LATE in message:
        help = (
            "Perhaps the machine was busy: run this cell again. If the answer is late again: "
            f"{LOOPS.format(model)}"
        )
    elif help:
        help += f" Then deploy {model} again."
    if _ONNX in message:
        end = message.rpartition(_ONNX)[2].partition("\n")[0].strip()[-_END:]
        message = f"{facts.STEP}, which {model} calls, refuses a step. Its message ends in: …{end}"
    return Failure(message, help=help or failure.help, credit=failure.credit, safe=failure.safe)


def _explain_line(message: str) -> str:
    """Which line of the student's files raised an exception; "" where none did."""
    frames = _FRAME.findall(message)
    if not frames:
        return ""
    file, line, function = frames[0]  # the innermost one comes first
    place = f"{file}, line {line}, in `{function}`"
    if "NotImplementedError" in message:
        return f"Write this part: {place}."
    if re.search(NOT_AWAITED, message):
        return (
            f"`await` is missing: look at {place}. async_exec() and coroutines give their result "
            "to await alone."
        )
    caller = next((f"; {name}, line {at}, calls it" for name, at, _ in frames if name != file), "")
    return f"Look at {place}: there your files raise it{caller}."


# -- answers at temperature 0 ----------------------------------------------------------------------


def scores_along(me: str, prompt: str, tokens: Sequence[int]) -> Array:
    """The network's scores before each token of an answer, and after its last one.

    Returns:
        float64 of the shape (tokens + 1, 1024).
    """
    ids = facts.tokenizer().encode(prompt).ids
    if len(ids) + len(tokens) > small_llama.CONTEXT:
        raise Failure(
            f"An answer has {len(tokens)} tokens after a prompt of {len(ids)}; together they may "
            f"have {small_llama.CONTEXT}.",
            help="The context length stands in config.json.",
        )
    return network.logits(me, [*ids, *tokens])[len(ids) - 1 :]


def require_logprobs(
    me: str, prompt: str, answer: Answer, which: str, others: int | None = None
) -> None:
    """Fail unless each logprob is that of its token among all tokens, at temperature 1."""
    if not answer.tokens:
        return
    logs = network.log_chances(scores_along(me, prompt, answer.tokens)[:-1])
    apart = np.abs(np.array(answer.logprobs) - logs[np.arange(len(logs)), answer.tokens])
    tolerance = network.tolerance()
    if (wrong := apart > 2 * tolerance.allowed).any():
        first = int(wrong.argmax())
        raise Failure(
            f"In {which}, logprobs differ from the network's by up to {apart.max():.2g}, the first "
            f"of them at token {first + 1}. Allowed is {2 * tolerance.allowed:.2g}: "
            f"{tolerance.because}.",
            help=_explain_token(
                first,
                others,
                "A logprob is the natural logarithm of the token's probability among all 1024 "
                "tokens, before temperature and top_p change anything.",
                f"The first {first} are right, so the logarithm is. From there on the scores are "
                "those of another text: what does that step get as mask, positions and cache?",
            ),
        )


def _explain_token(place: int, others: int | None, first: str, later: str) -> str:
    """What to look at where a token is wrong: in an answer alone the first or a later one, in a row
    among others one before or after the end of another row."""
    if others is not None:
        return _AFTER_AN_END if place >= others else _PADDING
    return later if place else first


def require_greedy(
    me: str,
    prompt: str,
    answer: Answer,
    max_tokens: int,
    which: str,
    others: int | None = None,
) -> None:
    """Fail unless an answer at temperature 0, without stop texts, is right in every respect.

    Args:
        me: the student's id.
        prompt: what was asked.
        answer: the answer.
        max_tokens: what was asked for.
        which: the answer that the message is about: "the answer to a prompt that came alone".
        others: where it is one of several rows, after how many steps the first of the others ends.
    """
    if answer.holds_end:
        raise Failure(f"In {which}, token_ids holds the end of text.", help=_NO_END)
    scores = scores_along(me, prompt, answer.tokens)
    short = scores.max(axis=1) - scores[np.arange(len(scores)), [*answer.tokens, small_llama.EOS]]
    wrong = short > network.tolerance().allowed
    if wrong[:-1].any():
        place = int(wrong.argmax())
        raise Failure(
            f"In {which}, token {place + 1} of {len(answer.tokens)} is not the likeliest one "
            "after those before it.",
            help=_explain_token(
                place,
                others,
                "The first token comes from the whole prompt. What does llama_step get? And does "
                "`choose` take the token with the highest score?",
                "The first token is right. What does the next step get: the new token, its "
                "position, a mask that is one longer, and the cache of the step before? And does "
                "the mask hide the cache's first column, which is empty, from the first step on?",
            ),
        )
    _require_end(prompt, answer, max_tokens, which.capitalize())
    if answer.reason == "stop" and wrong[-1]:
        after = "" if others is None or len(answer.tokens) < others else f" {_AFTER_AN_END}"
        raise Failure(
            f"{which.capitalize()} ends after {len(answer.tokens)} tokens, but the end of text is "
            "not the likeliest token there.",
            help=f"Each row ends at its own end of text, not at that of another row.{after}",
        )
    require_text(answer, which)
    require_logprobs(me, prompt, answer, which, others)


def require_text(answer: Answer, which: str) -> None:
    """Fail unless the text of an answer without stop texts is that of its tokens."""
    if answer.text != facts.tokenizer().decode(answer.tokens):
        raise Failure(
            f"text_output of {which} is not the text of its token_ids.",
            help="tokenizer.decode(tokens) makes the text, of all tokens together, not of each by "
            "itself; the end of text is no part of it.",
        )


def require_different(model: str, found: Sequence[Answer]) -> None:
    """Fail if answers to several prompts are all the same: then they are not made from these."""
    if len({tuple(one.tokens) for one in found}) < 2 <= len(found):
        raise Failure(
            f"{model} answers the same to {len(found)} prompts.",
            help="The first step gets the tokens of the whole prompt.",
        )


def _require_end(prompt: str, answer: Answer, max_tokens: int, which: str) -> None:
    """Fail unless finish_reason and the number of tokens fit together."""
    room = small_llama.CONTEXT - len(facts.tokenizer().encode(prompt).ids)
    most, count = min(max_tokens, room), len(answer.tokens)
    tokens = f"{count} token{'s' * (count != 1)}"
    if count > most:
        raise Failure(
            f"{which} has {tokens}, and {most} are the most.",
            help="Look at two places. In `add` an answer ends with the token that makes "
            "len(self.tokens) equal to self.most: then set self.reason. In the loop an answer that "
            "has ended gets no more tokens: its row leaves answers, mask, positions and cache.",
        )
    right = "length" if count == most else "stop"
    if not answer.reason:
        raise Failure(
            f"{which} ends after {tokens}, and finish_reason is empty; {right!r} belongs there.",
            help="An answer goes on until `add` sets its own reason: at the end of text, or when "
            "it has as many tokens as it may have."
            + (" The end of another row must not end this one." if "row" in which.lower() else ""),
            safe="finish_reason of an answer is empty.",
        )
    if answer.reason != right:
        allows = "max_tokens allows" if most == max_tokens else "the context has room for"
        raise Failure(
            f"{which} has the finish_reason {answer.reason[:20]!r} after {tokens}; {allows} "
            f"{most}, so {right!r} belongs there.",
            help='"length" belongs to the token that makes len(self.tokens) equal to self.most, '
            'not to one before it; "stop" to the end of text, and to a stop text.',
            safe="finish_reason of an answer is wrong.",
        )
