"""Compare one answer with what it should be: texts, bytes, numbers or arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .requests import Array
from .tolerance import Tolerance


def same(value: Array, right: Any, tolerance: Tolerance | None) -> bool:
    """Whether an answer holds what it should, whatever the shape around it.

    Args:
        value: the answer.
        right: what it should hold. Texts and bytes are the same.
        tolerance: how far numbers may be apart; None: not at all.
    """
    if value.dtype.kind not in "fiub":
        return items(value) == items(right)
    right = np.asarray(right)
    if right.dtype.kind not in "fiub" or value.size != right.size:
        return False
    off = np.abs(value.astype(np.float64).ravel() - right.astype(np.float64).ravel())
    return bool((off <= (tolerance.allowed if tolerance else 0.0)).all())


def items(value: Any) -> tuple[Any, ...]:
    """The items of a value, which can be compared and counted; texts and bytes are the same."""
    found = np.asarray(value, dtype=object).ravel().tolist()
    return tuple(item.encode() if isinstance(item, str) else item for item in found)
