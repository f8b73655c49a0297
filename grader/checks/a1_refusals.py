"""How the model of a1__classifier answers bad input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from . import a1_facts as facts
from . import require
from .a1_answers import ask, column, read, tolerance
from .failure import Failure
from .probe import Probe, Refusal

#: What is wrong with a text → an example. The messages must name one of `NAMING`.
BAD = {
    "an empty text": b"",
    "a blank text": b" \n\t ",
    "a text that is not UTF-8": "Zürich, Genève".encode("latin-1"),
    "a text that is too long": ("Zürich, Genève. " * 80).encode(),
}
#: Words of which the message must have one.
NAMING = {
    "an empty text": ("empty", "blank"),
    "a blank text": ("empty", "blank"),
    "a text that is not UTF-8": ("utf-8", "utf8"),
    "a text that is too long": ("long", "character"),
}


def refuses_each(server: Probe, model: str, bad: Mapping[str, bytes], *, good: str) -> None:
    """Fail unless each bad text is refused with a message that says why.

    Args:
        server: the check's probe.
        model: the model's name.
        bad: a text by what is wrong with it, a key of `NAMING`.
        good: a text that must be answered beside it.
    """
    for what, text in bad.items():
        require.refuses(
            server, model, column([text]), what, good=column([good]), naming=NAMING[what]
        )


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
    for (who, _), outcome in zip(mixed, outcomes, strict=True):
        if isinstance(who, str):
            _is_refused(model, who, outcome)
        elif isinstance(outcome, Refusal):
            raise Failure(
                f"{len(texts)} good requests and {len(texts)} bad ones were sent at once, and a "
                f"good one was refused. The server's message: {outcome.message[:200]}",
                help="The bad one alone gets an error.",
                unquoted="Beside bad requests a good one was refused.",
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


def _is_refused(model: str, what: str, outcome: object) -> None:
    if not isinstance(outcome, Refusal):
        raise Failure(f"{model} answers {what} when it comes together with others.")
    if not any(word in outcome.message.lower() for word in NAMING[what]):
        message = outcome.message.partition("\n\nAt:\n")[0][:200]
        raise Failure(
            f"Among other requests, {model} refuses {what} with a message that does not say why: "
            f"{message!r}.",
            help="Each bad request gets its own message. Is the network called when no good text "
            "is left?",
            unquoted=f"Among other requests, {model} refuses {what} without saying why.",
        )
