"""Requirements on answers: of the served model, and those that a student handed over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import values
from .failure import Failure
from .probe import Array
from .tolerance import Tolerance, rounding


def close(got: Any, expected: Any, *, what: str, tolerance: Tolerance, help: str = "") -> None:
    """Fail unless two arrays agree.

    Example::

        require.close(
            shares,
            reference.predict(rows),
            what="the SHAP values",
            tolerance=tolerance.float_sum(terms=481, magnitude=24.0, over="60 trees"),
            help="Is it the same model?",
        )

    Args:
        got: the student's array, any shape and dtype.
        expected: the array that it should equal.
        what: what the arrays hold, for the message: "the probabilities".
        tolerance: the largest difference that is allowed.
        help: what to look at.

    Raises:
        Failure: the shapes differ, a value is not a finite number, or a difference is too large.
            The message tells how many rows differ and by how much, never the expected values.
    """
    expected = np.asarray(expected)
    try:
        table = np.asarray(got)
        if table.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        raise Failure(f"{_upper(what)} are not numbers.", help=help) from None
    if table.shape != expected.shape:
        raise Failure(
            f"{_upper(what)} have the shape {list(table.shape)}; "
            f"expected is {list(expected.shape)}.",
            help=help,
        )
    if not table.size:
        return
    if not np.isfinite(table).all():
        raise Failure(f"{_upper(what)} hold values that are not finite numbers.", help=help)
    off = np.abs(table.astype(np.float64) - expected.astype(np.float64))
    wrong = (off > tolerance.allowed).reshape(len(off) if off.ndim else 1, -1).any(axis=1)
    if wrong.any():
        why = f" Allowed is {tolerance.allowed:.1g}: {tolerance.because}."
        raise Failure(
            f"{_upper(what)} differ in {int(wrong.sum())} of {len(wrong)} rows, by up to "
            f"{float(off.max()):.3g}.{why * bool(off.max() <= tolerance.far * tolerance.allowed)}",
            help=help,
        )


def shape(
    model: str, answer: Array, expected: tuple[int, ...], *, output: str = "", help: str = ""
) -> None:
    """Fail unless what a model answers has this shape.

    Example::

        answer = server.infer(model, {"input__0": rows}, outputs=["output__0"])["output__0"]
        where = "Look at its dims in the config."
        require.shape(model, answer, (len(rows), 2), output="output__0", help=where)

    Args:
        model: the model's name, for the message.
        answer: what one of its outputs holds.
        expected: the shape, the number of rows first.
        output: the output's name, for the message.
        help: what to look at.

    Raises:
        Failure: it has another shape.
    """
    if answer.shape != expected:
        rows = f"{expected[0]} row{'s' * (expected[0] != 1)} " if expected else ""
        what = f"{output} of the shape" if output else "the shape"
        raise Failure(
            f"{model} answers {rows}with {what} {list(answer.shape)}; expected is "
            f"{list(expected)}.",
            help=help,
        )


def probabilities(
    name: str,
    value: Any,
    rows: int,
    classes: Sequence[str],
    *,
    column: int | None = None,
    help: str = "",
) -> Array:
    """The probabilities that a student handed over; fails unless they are such.

    Example::

        library = require.probabilities("library", library, 114, ("malignant", "benign"))

    Args:
        name: the parameter's name, for the message.
        value: what was handed over.
        rows: the number of rows.
        classes: the names of the classes, one per column.
        column: the probability of this class alone is wanted, one number per row.
        help: what to look at.

    Returns:
        float64; of shape (rows, classes), or (rows,) where a column is wanted.

    Raises:
        Failure: it has another shape, or the numbers are no probabilities.
    """
    table = values.array(name, value, help=help)
    expected = (rows, len(classes)) if column is None else (rows,)
    because = "a row for each row of data, a column for each class"
    if column is not None:
        because = f"the probability of {classes[column]} for each row of data"
    values.array(name, table, expected, because=because, help=help)
    if outside := int(((table < 0) | (table > 1)).sum()):
        raise Failure(
            f"{outside} of {table.size} values in `{name}` lie outside 0 to 1, so they are no "
            "probabilities.",
            help=help,
        )
    if column is None and not (np.abs(table.sum(axis=1) - 1) < 1e-5).all():
        raise Failure(
            f"The columns of `{name}` do not add up to 1.",
            help=help or f"They should be the probabilities of {_list(classes)}.",
        )
    return table


def agreement(
    what: str,
    got: Array,
    expected: Any,
    whose: str,
    *,
    tolerance: Tolerance,
    classes: Sequence[str] = (),
    help: str = "",
) -> None:
    """Fail unless two tables of probabilities agree.

    Columns in another order, and classes in place of probabilities, get messages of their own.

    Example::

        require.agreement(
            "the server's probabilities", answer, library, "the library's",
            tolerance=facts.probability(60), classes=("malignant", "benign"),
        )

    Args:
        what: what the first table holds, for the message.
        got: the first table.
        expected: the second table.
        whose: what the second table is, for the message.
        tolerance: the largest difference that is allowed.
        classes: the names of the classes, one per column.
        help: what to look at, after the sentence that says what was compared.

    Raises:
        Failure: they differ.
    """
    expected = np.asarray(expected)
    if _in_other_order(got, expected, tolerance):
        order = "the two columns exchanged" if got.shape[1] == 2 else "columns in another order"
        raise Failure(f"Of {what} and {whose}, one has {order}.", help=_columns(classes))
    comparable = got.shape == expected.shape and got.size and np.isfinite(got).all()
    if comparable and set(np.unique(got)) <= {0, 1} and not _near(got, expected, tolerance):
        raise Failure(
            f"{_upper(what)} are all 0 or 1: these are classes.",
            help="Look at what the config says about the output, and at its dims.",
        )
    close(
        got,
        expected,
        what=what,
        tolerance=tolerance,
        help=f"They are compared with {whose}. {help}".strip(),
    )


def same_answer(
    name: str,
    value: Any,
    served: Array | list[str],
    *,
    tolerance: Tolerance | None = None,
    help: str = "",
) -> None:
    """Fail unless a student handed over what the server answers, as the check asked it just now.

    Example::

        answer = server.infer(model, {"input__0": rows})["output__0"]
        require.same_answer("served", served, answer, help="Ask again after the last deploy.")

    Args:
        name: the parameter's name, for the message.
        value: what was handed over.
        served: the server's answer to the same question: numbers, or a list of texts; for one text
            a list that holds it.
        tolerance: how far numbers may be apart; by default by a few roundings. A model that does
            not always compute in the same way needs more: TorchScript compiles anew after its
            first calls.
        help: what to look at.

    Raises:
        Failure: it is something else.
    """
    if isinstance(served, list):
        _same_texts(name, value, served, help)
        return
    allowed = tolerance or rounding(float(np.abs(served).max(initial=0)))
    table = values.array(name, value, help=help)
    if _in_other_order(table, served, allowed):
        raise Failure(
            f"The two columns of `{name}` are exchanged."
            if table.shape[1] == 2
            else f"The columns of `{name}` are in another order than the server's.",
            help="Hand over the server's answer as it is.",
        )
    close(table, served, what=f"the values in `{name}`", tolerance=allowed, help=help)


def _same_texts(name: str, value: Any, served: list[str], help: str) -> None:
    given = values.texts(name, value, help=help)
    same = sum(one == other for one, other in zip(given, served, strict=False))
    if not same and len(given) == len(served) == 1:
        raise Failure(f"`{name}` is another text than the server answers.", help=help)
    if not same == len(given) == len(served):
        raise Failure(
            f"`{name}` holds {len(given)} value{'s' * (len(given) != 1)}; {same} of the "
            f"{len(served)} texts that the server answers {'is' if same == 1 else 'are'} at the "
            "right place there.",
            help=help,
        )


def _near(one: Array, other: Array, tolerance: Tolerance) -> bool:
    same = one.shape == other.shape and one.size and np.isfinite(one).all()
    return bool(same and np.abs(one - other).max() <= tolerance.allowed)


def _in_other_order(one: Array, other: Array, tolerance: Tolerance) -> bool:
    """Whether two tables differ, and become the same when the columns of one are exchanged."""
    if one.shape != other.shape or one.ndim != 2 or _near(one, other, tolerance):
        return False
    columns = list(range(one.shape[1]))
    order = [
        next((k for k in columns if _near(one[:, k], other[:, place], tolerance)), None)
        for place in columns
    ]
    return sorted(k for k in order if k is not None) == columns


def _columns(classes: Sequence[str]) -> str:
    named = [f"column {number} is {name}" for number, name in enumerate(classes)]
    return f"{_upper(', '.join(named))}." if named else "Which column belongs to which class?"


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
