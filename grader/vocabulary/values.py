"""Read what a student handed over: each function returns the value in one form, or a check fails.

A check's parameters can hold anything: the judge reads them from a file that the student's kernel
wrote. So a check passes each of them through one of these functions before it uses it::

    counts = values.array("missed", missed, (19,), because="one per threshold", whole=True)
    chosen = values.number("threshold", threshold)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .failure import Failure
from .probe import Array


def array(
    name: str,
    value: Any,
    shape: tuple[int, ...] | None = None,
    *,
    because: str = "",
    whole: bool = False,
    help: str = "",
) -> Array:
    """Finite numbers, as a float64 array.

    Example::

        table = values.array("library", library, (114, 2), because="a row for each patient")

    Args:
        name: the parameter's name, for the message.
        value: what was handed over.
        shape: the shape that it must have; by default any.
        because: why it is this shape, for the message.
        whole: the numbers must be whole, such as counts.
        help: what to look at.

    Returns:
        The numbers.

    Raises:
        Failure: it is something else.
    """
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Failure(f"`{name}` is not a number, or not made of numbers.", help=help) from None
    if shape is not None and numbers.size and numbers.shape != shape:
        reason = f": {because}" if because else ""
        raise Failure(
            f"`{name}` has the shape {list(numbers.shape)}; expected is {list(shape)}{reason}.",
            help=help,
        )
    if not numbers.size:
        raise Failure(f"`{name}` is empty.", help=help)
    if strange := int((~np.isfinite(numbers)).sum()):
        raise Failure(
            f"`{name}` holds NaN, None or infinity in {strange} of {numbers.size} places; numbers "
            "are wanted.",
            help=help,
        )
    if whole and (numbers % 1 != 0).any():
        raise Failure(f"`{name}` holds fractions; whole numbers are wanted.", help=help)
    return numbers


def number(name: str, value: Any, *, help: str = "") -> float:
    """One finite number. An array or a list that holds one number counts as that number.

    Example::

        chosen = values.number("threshold", threshold)

    Args:
        name: the parameter's name, for the message.
        value: what was handed over.
        help: what to look at.

    Returns:
        The number.

    Raises:
        Failure: it is something else, such as True or two numbers.
    """
    numbers = array(name, value, help=help)
    if numbers.size != 1 or np.asarray(value).dtype.kind == "b":
        what = "True or False" if numbers.size == 1 else f"{numbers.size} values"
        raise Failure(f"`{name}` holds {what}; one number is wanted.", help=help)
    return float(numbers.reshape(-1)[0])


def whole(
    name: str, value: Any, *, least: int | None = None, most: int | None = None, help: str = ""
) -> int:
    """One whole number, such as a count or the number of a row.

    Example::

        row = values.whole("patient", patient, least=0, most=113)

    Args:
        name: the parameter's name, for the message.
        value: what was handed over.
        least: the smallest number that it may be.
        most: the largest number that it may be.
        help: what to look at.

    Returns:
        The number.

    Raises:
        Failure: it is something else.
    """
    found = number(name, value, help=help)
    if found % 1:
        raise Failure(f"`{name}` is {found:g}; a whole number is wanted.", help=help)
    if (least is not None and found < least) or (most is not None and found > most):
        limits = f"from {least} to {most}"
        if least is None or most is None:
            limits = f"of at most {most}" if least is None else f"of at least {least}"
        raise Failure(f"`{name}` is {found:g}; a whole number {limits} is wanted.", help=help)
    return int(found)


def choice(name: str, value: Any, options: Sequence[float], *, of: str, help: str = "") -> int:
    """The place of the option that was handed over.

    Example::

        place = values.choice("threshold", threshold, GRID, of="the thresholds in GRID")

    Args:
        name: the parameter's name, for the message.
        value: what was handed over.
        options: the numbers to choose from.
        of: what they are, for the message.
        help: what to look at.

    Returns:
        The option's index.

    Raises:
        Failure: it is no number, or none of the options.
    """
    found = number(name, value, help=help)
    place = int(np.abs(np.asarray(options) - found).argmin())
    if abs(options[place] - found) > 1e-6:
        help = help or "Take one of them."
        if found in range(1, len(options)):
            help = f"If {found:g} is a place in the list, take the number at this place. {help}"
        raise Failure(f"`{name}` is {found:g}, which is not one of {of}.", help=help)
    return place


def texts(name: str, value: Any, *, help: str = "") -> list[str]:
    """A list of texts. Bytes count as text, and a column of a table as a list.

    Example::

        given = values.texts("answers", answers)

    Args:
        name: the parameter's name, for the message.
        value: what was handed over.
        help: what to look at.

    Returns:
        The texts; empty where the list is.

    Raises:
        Failure: it holds something else.
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    items = value if isinstance(value, list | tuple) else [value]
    items = [
        item[0] if isinstance(item, list | tuple) and len(item) == 1 else item for item in items
    ]
    found = [item.decode(errors="replace") if isinstance(item, bytes) else item for item in items]
    for item in found:
        if not isinstance(item, str):
            number = isinstance(item, int | float | np.number) and not isinstance(item, bool)
            what = "numbers" if number else f"a {type(item).__name__}"
            raise Failure(f"`{name}` holds {what}; texts are wanted.", help=help)
    return found


def content(name: str, value: Any, most: int, *, help: str = "") -> bytes:
    """The bytes of a file, which a notebook hands over as a uint8 array.

    Example::

        data = values.content("fp16", fp16, 1 << 20, help='Hand over content("fp16.onnx").')

    Args:
        name: the parameter's name, for the message.
        value: what was handed over.
        most: the most bytes.
        help: what to look at.

    Raises:
        Failure: it is no content of a file, or is too large.
    """
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 1:
        raise Failure(f"`{name}` is not the content of a file.", help=help)
    if value.size > most:
        raise Failure(
            f"`{name}` has {value.size / 1e6:.1f} MB; at most {most / 1e6:.1f} are read.",
            help=help,
        )
    return value.tobytes()
