"""The requirement on bad input: it is refused with an error of its own."""

from __future__ import annotations

from collections.abc import Iterable

from .failure import Failure
from .probe import Inputs, Probe, Refusal


def refuses(
    server: Probe,
    model: str,
    bad: Inputs,
    what: str,
    *,
    good: Inputs,
    naming: Iterable[str] = (),
    help: str = "",
    timeout: float = 20.0,
) -> Refusal:
    """Fail unless bad input is answered with a clear error, and other requests are answered.

    The bad request is sent between two good ones, at the same time. Each of the good ones must be
    answered, and one more afterwards.

    Where the queue refuses a request that has waited too long, they are sent again
    (`Probe.outcomes_in_time`): on a busy machine that says nothing about bad input.

    The three are one batch only where the server forms batches. Without that an exception in
    `execute` is the answer to its own request, and passes. So a check that wants an error for each
    request asks for `max_batch_size` and `dynamic_batching` first, and the task's config has a
    `max_queue_delay_microseconds` of about 200 ms.

    Example::

        require.refuses(
            server, model, {"TEXT": np.array([[b""]], object)}, "an empty text",
            good={"TEXT": np.array([[b"fine"]], object)}, naming=("empty", "TEXT"),
        )

    Args:
        server: the check's probe.
        model: the model's name.
        bad: the inputs of a request that must be refused.
        what: what is wrong with it, for the message: "an empty text".
        good: the inputs of a request that must be answered.
        naming: the error's message must have at least one of these words, in upper or lower case.
            Without them any message is clear enough.
        help: what to look at.
        timeout: seconds to wait for each answer.

    Returns:
        How the bad request was refused.

    Raises:
        Failure: the bad request is answered, its message is not clear, a good request is not
            answered, or an answer is late.
    """
    before, answer, after = server.outcomes_in_time(model, [good, bad, good], timeout=timeout)
    if not isinstance(answer, Refusal):
        if isinstance(before, Refusal) or isinstance(after, Refusal):
            raise Failure(
                f"{what[:1].upper()}{what[1:]} and two right requests were sent at once. {model} "
                "answers the first, and refuses a right one.",
                help="Are the responses in the order of the requests? The first response goes to "
                "the first request, and so on.",
            )
        raise Failure(
            f"{model} answers {what}; it should refuse it with an error that says what is wrong.",
            help=help,
        )
    for beside in (before, after):
        if isinstance(beside, Refusal):
            raise Failure(
                f"Beside {what}, {model} refuses a right request too. The server's message: "
                f"{_words(beside)}",
                help="Requests of several clients share an execution. Answer each one by itself: "
                'the bad one with InferenceResponse([], TritonError("…")), an empty list first.',
                safe="Beside a bad request, the model refuses a right one too.",
            )
    words = list(naming)
    if words and not any(word.lower() in answer.message.lower() for word in words):
        raise Failure(
            f"{model} refuses {what}, but the message does not say why: {_words(answer)!r}.",
            help=help or f"A client reads this. It should name {' or '.join(words)}.",
            safe="The model refuses a bad request, but the message does not say why.",
        )
    (again,) = server.outcomes_in_time(model, [good], timeout=timeout)
    if isinstance(again, Refusal):
        raise Failure(
            f"After {what}, {model} refuses right requests as well. The server's message: "
            f"{_words(again)}",
            help="A bad request must leave nothing behind, neither a changed state nor a process "
            "that has ended.",
            safe="After a bad request, the model refuses right ones as well.",
        )
    return answer


def _words(refusal: Refusal) -> str:
    """The server's message without an exception's traceback, which names files of the judge."""
    return refusal.message.partition("\n\nAt:\n")[0][:300]
