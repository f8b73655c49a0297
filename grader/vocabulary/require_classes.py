"""Requirements on classes: their labels, and the threshold that decides between two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .failure import Failure
from .probe import Array, Inputs, Probe
from .require_answers import shape
from .tolerance import Tolerance


def classes(
    server: Probe, model: str, inputs: Inputs, output: str, *, count: int = 2, help: str = ""
) -> Array:
    """The classes that a model answers, one number per row; fails where these are no classes.

    Example::

        decided = require.classes(server, model, {"input__0": rows}, "output__0")

    Args:
        server: the check's probe.
        model: the model's name.
        inputs: the rows.
        output: the output's name.
        count: how many classes there are.
        help: what to look at.

    Returns:
        The numbers of the classes, from 0, of shape (rows,).

    Raises:
        Failure: there is not one number per row, or a number is no class.
    """
    rows = len(next(iter(inputs.values())))
    answer = server.infer(model, inputs, outputs=[output])[output]
    if answer.size != rows:
        raise Failure(
            f"{model} answers {answer.size / rows:g} numbers per row; a class is one.", help=help
        )
    decided = answer.reshape(-1)
    others = decided[~np.isin(decided, range(count))]
    if others.size:
        raise Failure(
            f"{model} answers numbers such as {float(others[0]):.3g}, which are no classes.",
            help=help,
        )
    return decided


def decided(
    given: Array,
    probability: Array,
    limit: float,
    whose: str,
    *,
    tolerance: Tolerance,
    names: Sequence[str],
    help: str = "",
) -> None:
    """Fail unless classes follow from probabilities: 1 where one is above a threshold.

    A row whose probability is as near to the threshold as the tolerance may have either class.

    Example::

        require.decided(
            decided, benign, 0.8, "`library`",
            tolerance=facts.probability(), names=("malignant", "benign"),
        )

    Args:
        given: the classes, per row.
        probability: the probability of class 1, per row.
        limit: the threshold, as the server parsed it.
        whose: where the probabilities come from, for the message.
        tolerance: of the probabilities.
        names: the names of the two classes.
        help: what to look at.

    Raises:
        Failure: some do not. Where all follow from the probability of class 0, the message says so.
    """

    def wrong(p: Array) -> int:
        clear = np.abs(p - limit) > tolerance.allowed
        return int(((p > limit) != (given == 1))[clear].sum())

    if not (count := wrong(probability)):
        return
    if not wrong(1 - probability):
        raise Failure(
            f"{count} of {len(given)} classes do not follow from {whose}, and all do from 1 minus "
            f"it: is it the probability of {names[0]}?",
            help=f"Class 1 is {names[1]}, and the threshold is about class 1.",
        )
    raise Failure(
        f"{count} of {len(given)} classes do not follow from {whose} and the threshold {limit:g} "
        "that the server parsed.",
        help=help,
    )


def labels(
    server: Probe, model: str, inputs: Inputs, output: str, names: Sequence[str]
) -> list[str]:
    """The labels of the top class, which the server gives; fails unless each row's is right.

    The model answers a number for each class. Asked for the top class, the server answers
    `value:index:label`, where the config's output names a file of labels.

    Example::

        named = require.labels(server, model, {"input__0": rows}, "output__0", ("cat", "dog"))

    Args:
        server: the check's probe.
        model: the model's name.
        inputs: the rows.
        output: the output's name.
        names: the label of each class.

    Returns:
        The labels, one per row.

    Raises:
        Failure: labels are missing, strange, or those of other classes.
    """
    rows = len(next(iter(inputs.values())))
    table = server.infer(model, inputs, outputs=[output])[output]
    look = f"Look at the dims of {output} in the config."
    shape(model, table, (rows, len(names)), output=output, help=look)
    answer = server.infer(model, inputs, outputs=[output], classes=1)[output]
    texts = [
        text.decode("utf-8", errors="replace") if isinstance(text, bytes) else str(text)
        for text in answer.ravel()
    ]
    parts = [text.split(":", maxsplit=2) for text in texts]
    if len(parts) != rows:
        raise Failure(f"{model} gives {len(parts)} top classes for {rows} rows.")
    stated: Mapping[str, Any] = next(
        (one for one in server.config(model).get("output", ()) if one["name"] == output), {}
    )
    unnamed = [place for place, part in enumerate(parts) if len(part) < 3 or not part[2]]
    if unnamed:
        first = texts[unnamed[0]]
        raise Failure(
            f"{len(unnamed)} of {len(parts)} answers of {model} have no label. The first of them "
            f"is that to row {unnamed[0]}: {first[:60]!r}.",
            help=_explain_no_label(stated, first),
            safe="Answers of the model have no label.",
        )
    file = stated.get("label_filename") or "the file of labels"
    strange = next((part[2] for part in parts if part[2] not in names), None)
    if strange is not None:
        raise Failure(
            f"{model} answers with the label {strange[:60]!r}.",
            help=f"Write one label per line into {file}, and nothing else: {', '.join(names)}.",
            safe="The model answers with a label that is none of the wanted ones.",
        )
    right = table.argmax(axis=1)
    wrong = sum(part[2] != names[place] for part, place in zip(parts, right, strict=True))
    if wrong:
        raise Failure(
            f"{wrong} of {len(parts)} labels are those of "
            f"{'the other' if len(names) == 2 else 'another'} class.",
            help=f"The first line of {file} is the label of class 0.",
        )
    return [part[2] for part in parts]


def _explain_no_label(output: Mapping[str, Any], answer: str) -> str:
    """What to look at when an answer, `value:index`, has no label."""
    if not (file := output.get("label_filename")):
        return "The config's output names a file of labels: label_filename."
    index = (*answer.split(":"), "?")[1]
    return (
        f"This answer is class {index}. Its label is line {index} of {file}, counted from 0: has "
        "the file a line for each class?"
    )
