"""How the checks of a6__llm ask `chat`, and what is wrong with an answer.

Whether tokens are the likeliest ones is seen by going along an answer: after each token the
network's scores, computed here from the weights, must name the next one. So nothing has to be
generated here, and two tokens with nearly equal scores are both right.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
_AFTER_AN_END = (
    "What comes before is right, so it goes wrong after another row has ended. When rows leave, "
    "are answers, mask, positions and cache all indexed with the numbers of the same rows, those "
    "that go on?"
)


@dataclasses.dataclass(frozen=True)
class Written:
    """One answer.

    Attributes:
        text: its text.
        tokens: ids of its tokens.
        logprobs: the logarithm of the probability of each.
        reason: why it ended.
    """

    text: str
    tokens: list[int]
    logprobs: list[float]
    reason: str


def ask(
    server: Probe, model: str, prompts: Sequence[str], wanted: Sequence[Mapping[str, Any]]
) -> list[Written]:
    """The answers to one request with a row for each prompt."""
    request = facts.requests_of(prompts, [dict(one) for one in wanted])
    try:
        return read(model, server.infer(model, request, outputs=OUTPUTS), len(prompts))
    except Failure as failure:
        raise explained(model, failure) from None


#: The words with which a probe says that no answer came.
LATE = "did not answer within"
#: What ends a loop without an end.
RESTART = (
    "In a terminal, `workbook stop` and then `workbook serve --detach` end it; then run the cells "
    "that deploy again."
)
#: What to do where a model may have such a loop; {} is its name.
LOOPS = (
    "The loop of {} may never end: which line sets `reason`, and is it reached? A new deploy does "
    f"not stop such a loop. {RESTART}"
)
#: In the message of a step that failed: it is about its arrays.
_OF_ARRAYS = re.compile("position_ids|input_ids|attention_mask|past|shape")
#: How a message of ONNX Runtime begins: one long line, of which so many characters at the end say
#: what is wrong.
_ONNX, _END = "onnx runtime error", 90
#: Of a traceback in an exception's message: a file of the model, the line, and the function.
_FRAME = re.compile(r"/\d+/(\w+\.py)\((\d+)\): (\w+)")
#: The same of numpy's `choice`: it is compiled, so Triton names no line of the model's own.
_CHOICE = re.compile(r"numpy\.random\.\S+\.choice")
_CHOICE_TAKES = (
    "`choose` in writing.py calls numpy's `choice`, which raises it. Print the nucleus and its "
    "probabilities before the call: the nucleus holds one token at least, and its probabilities "
    "are divided by their sum. None of them may be NaN."
)


def explained(model: str, failure: Failure) -> Failure:
    """A failed request, with help that fits these models: what a step was given, and which line."""
    said = failure.rationale
    frames = _FRAME.findall(said)
    if _ONNX in said:
        end = said.rpartition(_ONNX)[2].partition("\n")[0].strip()[-_END:]
        said = f"{facts.STEP}, which {model} calls, refuses a step. Its message ends in: …{end}"
    if f"idx={small_llama.CONTEXT}" in said:
        help = (
            f"A step asked for position {small_llama.CONTEXT}, which the network does not have. "
            "Does `add` set `reason` at the end of text and after `most` tokens, and does the loop "
            "take such an answer out? Do positions grow by 1 in each step?"
        )
    elif "sends no data for" in said:
        help = (
            f"The arrays of a step have no rows: the loop must end when no answer is left. Correct "
            f"it, and deploy {model} again."
        )
    elif "batch size does not match" in said:
        help = (
            f"The four inputs of one step of {facts.STEP} have different numbers of rows. The "
            "message names one that differs from another, and either can be the wrong one: print "
            "the shapes of ids, positions, mask and cache before the call. When rows leave, all "
            "four keep the same rows, `past` too."
        )
    elif _ONNX in failure.rationale or (facts.STEP in said and _OF_ARRAYS.search(said)):
        help = (
            f"{facts.STEP} got other arrays than it takes. Before the call print name, dtype and "
            "shape of each: input_ids (rows, new), position_ids (rows, new), attention_mask "
            "(rows, columns of past + new), past (rows, 8, 2, columns, 64). Is the mask one column "
            "longer in each step, and is `past` what `present` was?"
        )
    elif LATE in said:
        help = (
            "Perhaps the machine was busy: run this cell again. If the answer is late again: "
            f"{LOOPS.format(model)}"
        )
    elif _CHOICE.search(said):
        help = f"{_CHOICE_TAKES} Then deploy {model} again."
    elif frames:
        file, line, function = frames[0]  # the innermost one comes first
        calling, place, _ = next((frame for frame in frames if frame[0] != file), frames[0])
        help = (
            f"Write this part: {file}, line {line}, in `{function}`. Then deploy {model} again."
            if "NotImplementedError" in said
            else f"`await` is missing: look at {file}, line {line}, in `{function}`. async_exec() "
            f"and coroutines give their result to await alone. Then deploy {model} again."
            if re.search(NOT_AWAITED, said)
            else f"Look at {file}, line {line}, in `{function}`: there your files raise it"
            + ("" if file == calling else f"; {calling}, line {place}, calls it")
            + f". Correct it, and deploy {model} again."
        )
    else:
        return failure
    return Failure(said, help=help, credit=failure.credit, safe=failure.safe)


def ask_each(
    server: Probe, model: str, prompts: Sequence[str], wanted: Sequence[Mapping[str, Any]]
) -> list[Written]:
    """The answers to many requests of one row each, all sent at once."""
    requests = [facts.request([prompt], **one) for prompt, one in zip(prompts, wanted, strict=True)]
    try:
        answers = server.together(model, requests, outputs=OUTPUTS)
    except Failure as failure:
        raise explained(model, failure) from None
    return [read(model, answer, 1)[0] for answer in answers]


def read(model: str, answer: Mapping[str, Array], rows: int) -> list[Written]:
    """The answers in the outputs of one response; fails where these do not fit together."""
    tokens, logprobs = answer["token_ids"], answer["logprobs"]
    for name in ("text_output", "finish_reason"):
        if answer[name].shape != (rows, 1):
            raise Failure(
                f"{model} answers {rows} prompt{'s' * (rows != 1)} with {name} of the shape "
                f"{list(answer[name].shape)}; [{rows}, 1] is wanted.",
                help="Each output has a row for each row of the request.",
            )
    if tokens.ndim != 2 or len(tokens) != rows or logprobs.shape != tokens.shape:
        raise Failure(
            f"{model} answers {rows} prompt{'s' * (rows != 1)} with token_ids of the shape "
            f"{list(tokens.shape)} and logprobs of the shape {list(logprobs.shape)}.",
            help="Both have a row for each prompt, and as many columns as the longest answer has "
            "tokens.",
        )
    found = []
    for row in range(rows):
        filled = np.flatnonzero(tokens[row] == facts.FILLED)
        count = int(filled[0]) if filled.size else tokens.shape[1]
        if (tokens[row, count:] != facts.FILLED).any():
            raise Failure(
                f"In row {row + 1} of token_ids of {model}, tokens stand after {facts.FILLED}.",
                help=f"{facts.FILLED} pads a row after its last token.",
            )
        found.append(
            written(
                model,
                answer["text_output"][row, 0],
                tokens[row, :count],
                logprobs[row, :count],
                answer["finish_reason"][row, 0],
            )
        )
    return found


def written(model: str, text: Any, tokens: Array, logprobs: Array, reason: Any) -> Written:
    """One answer from the values of its outputs; fails where they cannot be an answer's."""
    text, reason = (
        one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one)
        for one in (text, reason)
    )
    ids = [int(token) for token in tokens]
    if any(not 0 <= token < small_llama.VOCABULARY for token in ids):
        raise Failure(f"{model} answers token_ids that are no tokens: they go from 0 to 1023.")
    if small_llama.EOS in ids:
        raise Failure(
            f"token_ids of {model} hold the end of text.",
            help="The end of text ends an answer. It is no part of it.",
        )
    if not np.isfinite(logprobs).all():
        raise Failure(f"{model} answers logprobs that are not finite numbers.")
    return Written(text, ids, [float(one) for one in logprobs], reason)


def scores_along(me: str, prompt: str, answer: Written) -> tuple[Array, Array]:
    """The network's scores before each token of an answer, and those after its last one.

    Returns:
        float64 of the shape (tokens, 1024), and (1024,).
    """
    ids = facts.tokenizer().encode(prompt).ids
    if len(ids) + len(answer.tokens) > small_llama.CONTEXT:
        raise Failure(
            f"An answer has {len(answer.tokens)} tokens after a prompt of {len(ids)}; together "
            f"they may have {small_llama.CONTEXT}.",
            help="The context length stands in config.json.",
        )
    scores = network.logits(me, [*ids, *answer.tokens])[len(ids) - 1 :]
    return scores[:-1], scores[-1]


def most_tokens(prompt: str, max_tokens: int) -> int:
    """How many tokens an answer may have: max_tokens, or what the context has room for."""
    return min(max_tokens, small_llama.CONTEXT - len(facts.tokenizer().encode(prompt).ids))


def likeliest(me: str, prompt: str, answer: Written, which: str, others: int | None = None) -> None:
    """Fail unless each token is the likeliest after those before it.

    Args:
        me: the student's id.
        prompt: what was asked.
        answer: the answer at temperature 0.
        which: of which answer the message speaks: "the answer to a prompt that came alone".
        others: after so many steps the first of the other rows ends.
    """
    scores, _ = scores_along(me, prompt, answer)
    for place, token in enumerate(answer.tokens):
        short = scores[place].max() - scores[place][token]
        if short > network.tolerance().allowed:
            raise Failure(
                f"In {which}, token {place + 1} of {len(answer.tokens)} is not the likeliest one "
                "after those before it.",
                help=_help_for(place, others),
            )


def _help_for(place: int, others: int | None) -> str:
    if others is not None:
        return _AFTER_AN_END if place >= others else _PADDING
    if place == 0:
        return (
            "The first token follows on the whole prompt. What does llama_step get? And does "
            "`choose` take the token with the highest score?"
        )
    return (
        "The first token is right. What does the next step get: the new token, its position, a "
        "mask that is one longer, and the cache of the step before? And does the mask hide the "
        "cache's first column, which is empty, from the first step on?"
    )


def true_logprobs(
    me: str, prompt: str, answer: Written, which: str, others: int | None = None
) -> None:
    """Fail unless each logprob is that of its token among all tokens, at temperature 1."""
    scores, _ = scores_along(me, prompt, answer)
    if not answer.tokens:
        return
    right = network.log_chances(scores)[np.arange(len(scores)), answer.tokens]
    apart = np.abs(np.array(answer.logprobs) - right)
    allowed = network.tolerance()
    if apart.max() > 2 * allowed.allowed:
        first = int((apart > 2 * allowed.allowed).argmax())
        help = (
            "The natural logarithm of the token's probability among all 1024 tokens, before "
            "temperature and top_p change anything."
        )
        if first and others is not None:
            help = _AFTER_AN_END if first >= others else _PADDING
        elif first:
            help = (
                f"The first {first} are right, so the logarithm is. From there on the scores are "
                "those of another text: what does that step get as mask, positions and cache?"
            )
        raise Failure(
            f"In {which}, logprobs differ from the network's by up to {apart.max():.2g}, the first "
            f"of them at token {first + 1}. Allowed is {2 * allowed.allowed:.2g}: "
            f"{allowed.because}.",
            help=help,
        )


def right_end(
    me: str,
    prompt: str,
    answer: Written,
    max_tokens: int,
    which: str,
    others: int | None = None,
) -> None:
    """Fail unless an answer without stop texts, at temperature 0, ends where it should."""
    most = most_tokens(prompt, max_tokens)
    count = len(answer.tokens)
    if count > most:
        raise Failure(
            f"{which.capitalize()} has {count} tokens, and {most} are the most.",
            help="There are two places to look at. In `add` an answer ends with the token that "
            "makes len(self.tokens) equal to self.most, and self.reason says so. In the loop an "
            "answer that has ended gets no more tokens: its row leaves answers, mask, positions "
            "and cache.",
        )
    wanted = "length" if count == most else "stop"
    if not answer.reason and not count:
        raise Failure(
            f"{which.capitalize()} has no token, and finish_reason is empty: nothing was written.",
            help="The loop must go on until finish_reason of each answer is set: the network gives "
            "scores, `choose` a token, `add` puts it into the answer.",
        )
    if not answer.reason:
        raise Failure(
            f"{which.capitalize()} ends after {count} token{'s' * (count != 1)}, and finish_reason "
            f"is empty; {wanted!r} belongs there.",
            help="An answer goes on until `add` sets its own reason: at the end of text, or when "
            "it has as many tokens as it may have."
            + (" The end of another row must not end this one." if "row" in which else ""),
            safe="finish_reason of an answer is empty.",
        )
    if answer.reason == "length" and count < most:
        _too_early(which, count, most, max_tokens)
    if answer.reason != wanted:
        raise Failure(
            f"finish_reason of {which} is {answer.reason[:20]!r}; it has {count} tokens, where "
            f"{most} are the most, so {wanted!r} belongs there.",
            help='"length": as many tokens as there may be. "stop": the end of text, or a stop '
            "text.",
            safe="finish_reason of an answer is wrong.",
        )
    _, after = scores_along(me, prompt, answer)
    if wanted == "stop" and after.max() - after[small_llama.EOS] > network.tolerance().allowed:
        raise Failure(
            f"{which.capitalize()} ends after {count} tokens, but the end of text is not the "
            "likeliest token there.",
            help="Each row ends by itself: at its own end of text, not at that of another row."
            + ("" if others is None or count < others else f" {_AFTER_AN_END}"),
        )
    if answer.text != facts.tokenizer().decode(answer.tokens):
        raise Failure(
            f"text_output of {which} is not the text of its token_ids.",
            help="tokenizer.decode(tokens) makes the text, of all tokens together, not of each by "
            "itself; the end of text is no part of it.",
        )


def _too_early(which: str, count: int, most: int, max_tokens: int) -> None:
    """Say of an answer that ended with "length" that it could have had more tokens."""
    allows = "max_tokens allows" if most == max_tokens else "the context has room for"
    missing = "one token" if most - count == 1 else f"{most - count} tokens"
    raise Failure(
        f"{which.capitalize()} ended with 'length' after {count} token{'s' * (count != 1)}; "
        f"{allows} {most}: it ended {missing} too early.",
        help="An answer has ended with the token that makes len(self.tokens) equal to self.most.",
        safe="An answer ended with 'length' too early.",
    )


def greedy(
    me: str,
    prompt: str,
    answer: Written,
    max_tokens: int,
    which: str,
    others: int | None = None,
) -> None:
    """Fail unless an answer at temperature 0 is right in every respect.

    Args:
        me: the student's id.
        prompt: what was asked.
        answer: the answer.
        max_tokens: what was asked for.
        which: of which answer the message speaks.
        others: where it is one of several rows, after how many steps the first of the others ends.
    """
    likeliest(me, prompt, answer, which, others)
    right_end(me, prompt, answer, max_tokens, which, others)
    true_logprobs(me, prompt, answer, which, others)


def steps_of(answer: Written) -> int:
    """How many steps of the network an answer without stop texts takes."""
    return len(answer.tokens) + (answer.reason == "stop")
