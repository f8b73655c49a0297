"""How the model of a1__classifier answers bad input."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from grader.vocabulary import require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe, Refusal

from . import facts
from .answers import ask, column, message_of, read, tolerance, with_line

#: An example of a text for each fault. The messages must have one of the words in `NAMING`.
BAD = {
    "an empty text": b"",
    "a blank text (with wide and no-break spaces, too)": " \n\u3000\t\u00a0".encode(),
    "a text that is not UTF-8": "Zürich, Genève".encode("latin-1"),
    "a text that is too long": ("Zürich, Genève. " * 80).encode(),
}
#: For each fault, words of which the message must have at least one.
NAMING = {
    "an empty text": ("empty", "blank"),
    "a blank text (with wide and no-break spaces, too)": ("empty", "blank"),
    "a text that is not UTF-8": ("utf-8", "utf8"),
    "a text that is too long": ("long", "character"),
}
#: For each fault, a pattern of a message that names it. A message names its own fault only.
_NAMED = {
    "an empty text": r"\b(?:empty|blank)\b",
    "a blank text (with wide and no-break spaces, too)": r"\b(?:empty|blank)\b",
    "a text that is not UTF-8": r"\butf-?8\b",
    "a text that is too long": r"\btoo long\b",
}
#: How gRPC names TritonError.INVALID_ARG.
_INVALID = "INVALID_ARGUMENT"


def refuses_each(
    server: Probe, model: str, bad: Mapping[str, bytes], *, good: Sequence[str]
) -> dict[str, str]:
    """Fail unless each bad text is refused with a message that says why, and names no other fault.

    Each is sent alone, and among good texts in one request: this is refused as a whole.

    Args:
        server: the check's probe.
        model: the model's name.
        bad: a text by what is wrong with it, a key of `NAMING`.
        good: texts that must be answered beside it: the first one in other requests, the others in
            the request that holds the bad one.

    Returns:
        The status of each refusal, by what is wrong, as gRPC names it.
    """
    first, second, *rest = good
    statuses = {}
    for what, text in bad.items():
        among = f"a request of {len(good)} texts, one of them {what}"
        sent: list[tuple[str, list[str | bytes]]] = [
            (what, [text]),
            (among, [second, text, *rest]),
        ]
        for name, rows in sent:
            refused = require.refuses(
                server, model, column(rows), name, good=column([first]), naming=NAMING[what]
            )
            _names_no_other(model, what, refused)
            statuses[what] = refused.status
    return statuses


def _names_no_other(model: str, what: str, refused: Refusal) -> None:
    """Fail if a message names another fault beside its own."""
    message = message_of(refused)
    for pattern in _NAMED.values():
        found = re.search(pattern, message, re.IGNORECASE)
        if found and pattern != _NAMED[what]:
            raise Failure(
                f"{model} refuses {what} with a message that names another fault too, "
                f"{found[0]!r}: {message!r}.",
                help="Each of the faults in the task's table has a message of its own.",
                safe="Your model refuses a bad text with a message that names another fault too.",
            )


def same_status(model: str, statuses: Mapping[str, str]) -> None:
    """Fail unless bad input is refused as the client's fault.

    Args:
        model: the model's name.
        statuses: gRPC's name of each refusal's status, by what was wrong.
    """
    for what, status in statuses.items():
        if status != _INVALID:
            raise Failure(
                f"{model} refuses {what} with the status {status}; it should be {_INVALID}.",
                help="The second argument of TritonError decides it. The client sees whose fault "
                "it is: its own, or the server's.",
                credit=0.5,
            )


def allowed_lengths(server: Probe, model: str, classes: Sequence[str]) -> None:
    """Fail unless the longest texts that are allowed are answered: characters count, not bytes.

    Args:
        server: the check's probe.
        model: the model's name.
        classes: the labels of the checkpoint.
    """
    most = f"{facts.LONGEST:,}"
    for text, help in (
        (
            ("Zurich, Geneva. " * facts.LONGEST)[: facts.LONGEST],
            f"A text of exactly {most} characters is not too long yet.",
        ),
        ("Ελλάδα, " * (facts.LONGEST * 3 // 40), "Count the characters of the str, not the bytes."),
    ):
        (outcome,) = server.outcomes(model, [column([text])], outputs=[*facts.OUTPUTS])
        if isinstance(outcome, Refusal):
            raise Failure(
                f"A text of {len(text):,} characters ({len(text.encode()):,} bytes) is refused; it "
                f"is allowed. The server's message: {with_line(outcome)}",
                help=help,
            )
        read(model, outcome, 1, classes)


def crowd(
    server: Probe,
    model: str,
    texts: Sequence[str],
    bad: Mapping[str, bytes],
    classes: Sequence[str],
) -> None:
    """Send good and bad requests at once; fail unless each is answered as if it were alone.

    Then only bad ones are sent: no text is left for the network.

    Args:
        server: the check's probe.
        model: the model's name.
        texts: the good requests, a text each, at most `ROWS`.
        bad: a text by what is wrong with it, a key of `NAMING`.
        classes: the labels of the checkpoint.
    """
    whole = ask(server, model, texts, classes)
    kinds = list(bad)
    mixed: list[tuple[int | str, bytes | str]] = []
    for place, text in enumerate(texts):
        mixed += [(place, text), (kinds[place % len(kinds)], bad[kinds[place % len(kinds)]])]
    outcomes = server.outcomes(
        model, [column([text]) for _, text in mixed], outputs=[*facts.OUTPUTS]
    )
    _in_order(model, [(isinstance(who, str), outcome) for (who, _), outcome in
                      zip(mixed, outcomes, strict=True)])  # fmt: skip
    for (who, _), outcome in zip(mixed, outcomes, strict=True):
        if isinstance(who, str):
            _is_refused(model, who, outcome)
        elif isinstance(outcome, Refusal):
            raise Failure(
                f"{len(texts)} good requests and {len(texts)} bad ones were sent at once, and a "
                f"good one was refused. The server's message: {with_line(outcome)}",
                help="The bad one alone gets an error.",
                safe="Beside bad requests a good one was refused.",
            )
        else:
            got = read(model, outcome, 1, classes)
            if not np.abs(got.table[0] - whole.table[who]).max() <= tolerance().allowed:
                raise Failure(
                    "Beside bad requests a good one got another answer than alone.",
                    help="Which answer belongs to which request, when some have none? Count the "
                    "texts of the good ones only.",
                )
    only = [(what, text) for what, text in bad.items() for _ in range(2)]
    for (what, _), outcome in zip(
        only, server.outcomes(model, [column([text]) for _, text in only]), strict=True
    ):
        _is_refused(model, what, outcome)


def _in_order(model: str, outcomes: Sequence[tuple[bool, dict[str, Array] | Refusal]]) -> None:
    """Fail if errors went to good requests, and answers to bad ones.

    Args:
        model: the model's name.
        outcomes: for each request whether it is a bad one, and what came back.
    """
    answers = sum(is_bad and not isinstance(outcome, Refusal) for is_bad, outcome in outcomes)
    errors = sum(not is_bad and isinstance(outcome, Refusal) for is_bad, outcome in outcomes)
    if answers and errors:
        raise Failure(
            f"{len(outcomes)} requests were sent at once, every second one bad. {model} answers "
            f"{answers} of the bad ones, and refuses {errors} of the good ones.",
            help="Are the responses in the order of the requests? The first response goes to the "
            "first request, and so on.",
        )


def _is_refused(model: str, what: str, outcome: object) -> None:
    if not isinstance(outcome, Refusal):
        raise Failure(
            f"{model} answers {what} when it comes together with others.",
            help="Look at each request by itself, and answer the bad one with an error.",
        )
    if not any(word in outcome.message.lower() for word in NAMING[what]):
        raise Failure(
            f"Among other requests, {model} refuses {what} with a message that does not say why: "
            f"{with_line(outcome)}",
            help="Each bad request gets its own message. Is the network called when no good text "
            "is left?",
            safe="Among other requests, your model refuses a bad text without saying why.",
        )
