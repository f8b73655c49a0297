"""Requirements on texts that a model answers."""

from __future__ import annotations

from collections.abc import Sequence

from .failure import Failure
from .probe import Inputs, Probe


def texts(
    server: Probe,
    model: str,
    inputs: Inputs,
    output: str,
    *,
    among: Sequence[str] = (),
    expected: Sequence[str] | None = None,
    help: str = "",
) -> list[str]:
    """The texts that a model answers, one per row; fails where these are none, or wrong ones.

    The output's data type is STRING. (Where a model answers numbers, and a file of labels names
    their classes, take `labels`.)

    Example::

        named = require.texts(server, model, {"ROWS": rows}, "NAME", among=("cat", "dog"))

    Args:
        server: the check's probe.
        model: the model's name.
        inputs: the rows.
        output: the output's name.
        among: the texts that it may answer; by default any.
        expected: the right text for each row; by default any. The message says how many are wrong,
            and no right one.
        help: what to look at.

    Returns:
        The texts.

    Raises:
        Failure: there is not one text per row, or one is none of `among`, or not the expected one.
    """
    rows = len(next(iter(inputs.values())))
    answer = server.infer(model, inputs, outputs=[output])[output]
    if answer.dtype.kind not in "OSU":
        raise Failure(f"{model} answers {output} with numbers; texts are wanted.", help=help)
    if answer.size != rows:
        raise Failure(
            f"{model} answers {rows} row{'s' * (rows != 1)} with {answer.size} "
            f"text{'s' * (answer.size != 1)} in {output}; one per row is wanted.",
            help=help,
        )
    found = [
        text.decode("utf-8", errors="replace") if isinstance(text, bytes) else str(text)
        for text in answer.ravel()
    ]
    strange = next((text for text in found if among and text not in among), None)
    if strange is not None:
        raise Failure(
            f"{model} answers with {strange[:60]!r}, which is none of {', '.join(among)}.",
            help=help,
            safe="The model answers with a text that is none of the wanted ones.",
        )
    if expected is not None:
        wrong = sum(one != other for one, other in zip(found, expected, strict=True))
        if wrong:
            raise Failure(
                f"{wrong} of {rows} texts that {model} answers are not the right ones."
                if rows > 1
                else f"The text that {model} answers is not the right one.",
                help=help,
            )
    return found
