"""Join the arrays of requests to a batch, and split a batch into answers.

These functions follow the input collector and the output responder that Triton's own backends share
(triton-inference-server/backend, src/backend_input_collector.cc, src/backend_output_responder.cc).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

#: The kinds of `batch_input` in a model's configuration.
BATCH_INPUT_KINDS = frozenset(
    {
        "BATCH_ELEMENT_COUNT",
        "BATCH_ACCUMULATED_ELEMENT_COUNT",
        "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
        "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
        "BATCH_ITEM_SHAPE",
        "BATCH_ITEM_SHAPE_FLATTEN",
    }
)


def join(parts: Sequence[Array]) -> Array:
    """Concatenate the requests' arrays, each of shape (rows, *dims). A single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def flatten(parts: Sequence[Array]) -> Array:
    """Ragged batching: concatenate the elements of all requests in one dimension."""
    return join([part.reshape(-1) for part in parts])


def split(whole: Array, rows: Iterable[int]) -> list[Array | None]:
    """Split an output by rows, one view per request; None if the output has too few rows for it."""
    answers: list[Array | None] = []
    start = 0
    for count in rows:
        end = start + count
        answers.append(whole[start:end] if whole.ndim and end <= len(whole) else None)
        start = end
    return answers


def scatter(whole: Array, shapes: Iterable[Shape]) -> list[Array | None]:
    """BATCH_SCATTER_WITH_INPUT_SHAPE: cut a flat output into arrays of the given shapes.

    An entry is None if the output has too few elements for it.
    """
    flat = whole.reshape(-1)
    answers: list[Array | None] = []
    start = 0
    for shape in shapes:
        end = start + math.prod(shape)
        answers.append(flat[start:end].reshape(shape) if end <= flat.size else None)
        start = end
    return answers


def batch_input(kind: str, dtype: npt.DTypeLike, shapes: Sequence[Shape]) -> Array:
    """The tensor that Triton adds to a ragged batch, made from the source input's shapes.

    Args:
        kind: one of BATCH_INPUT_KINDS.
        dtype: the type of its elements: float32 or int32.
        shapes: the shape of the source input in each request, batch dimension included.
    """
    counts = [math.prod(shape) for shape in shapes]
    if kind == "BATCH_ELEMENT_COUNT":
        return np.array(counts, dtype)
    if kind == "BATCH_ACCUMULATED_ELEMENT_COUNT":
        return np.cumsum(counts).astype(dtype)
    if kind == "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO":
        return np.cumsum([0, *counts]).astype(dtype)
    if kind == "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE":
        return np.zeros(max(counts), dtype)  # only the shape has a meaning
    items = np.array([shape[1:] for shape in shapes for _ in range(shape[0])], dtype)
    if kind == "BATCH_ITEM_SHAPE":
        return items
    if kind == "BATCH_ITEM_SHAPE_FLATTEN":
        return items.reshape(-1)
    raise ValueError(f"unexpected batch input kind '{kind}'")
