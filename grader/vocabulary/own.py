"""The data of one student, drawn by the id that the notebook hands over as `me`.

Two students get different rows, so that numbers cannot be passed on. The judge draws the same rows
from the same id. The class report says where the id is not the one under which the work was handed
in::

    def cancer(me: str) -> Split:
        chosen = own.generator(me, "a2.rows").permutation(569)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .failure import Failure

#: What stands in the notebook until the student writes an id: everybody who leaves it gets the same
#: data.
DEFAULT = "self-study"
#: The name of the parameter by which checks take the id.
PARAMETER = "me"
_LONGEST = 200  # characters


def name(me: Any) -> str:
    """The id as it is compared: without spaces around it, in lower case.

    Example::

        own.name(" Anna ")      # "anna"

    Args:
        me: what the student handed over.

    Raises:
        Failure: it is no text, is empty, or is too long for an id.
    """
    id = me.strip().casefold() if isinstance(me, str) else ""
    if not 0 < len(id) <= _LONGEST:
        raise Failure(
            "`me` is no student's id.",
            help=f'Write your id in quotes, as your instructor writes it, or "{DEFAULT}".',
        )
    return id


def generator(me: Any, purpose: str) -> np.random.Generator:
    """Random numbers that depend on the student and on what they are for, and on nothing else.

    Example::

        chosen = own.generator(me, "a2.rows").permutation(569)

    Args:
        me: the student's id.
        purpose: what is drawn; begins with the assignment's name.

    Raises:
        Failure: `me` is no id.
    """
    digest = hashlib.sha256(f"{purpose}\0{name(me)}".encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def find_id(values: Mapping[str, Any]) -> str:
    """The id among the values that the notebook handed to a check; "" if there is none."""
    try:
        return name(values[PARAMETER])
    except (KeyError, Failure):
        return ""


def other_ids(ids: Iterable[str], student: str, *, alone: bool) -> list[str]:
    """The ids that are not the student's.

    Example::

        own.other_ids(["anna", "berta"], "berta", alone=False)      # ["anna"]

    Args:
        ids: those by which checks have drawn data.
        student: who has handed in.
        alone: whether nobody else has handed in: then the id that stands in the notebook at first
            is the student's, too. In a class, all who leave it have the same data and numbers.
    """
    own_ids = {student.strip().casefold()} | ({DEFAULT} if alone else set())
    return [id for id in ids if id not in own_ids]
