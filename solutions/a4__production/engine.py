"""The TensorRT engine of a4__production, which the check builds itself.

grader/vocabulary/tensorrt_engine.py says how. Students get this file: it holds nothing that a task
asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.vocabulary import tensorrt_engine, values
from grader.vocabulary.failure import Failure
from grader.vocabulary.tensorrt_engine import Profile

from . import facts

#: The most bytes of the file: it has 12 kB.
LARGEST = 1 << 20
_WORKSPACE_MIB = 256
_FORM = (
    'It is a dict: {"image": (smallest, optimum, largest)}, each a shape with the batch in front, '
    'as engines.profile_of({"image": (1, 8, 8)}, (…, …, …)) makes it.'
)


def content(value: Any) -> bytes:
    """The file in what was handed over; fails where that is no file, or too large."""
    help = 'Hand over content("models/eights_fp16/1/model.onnx").'
    return values.content("typed", value, LARGEST, help=help)


def profile(value: Any) -> dict[str, list[list[int]]]:
    """The profile that was handed over; fails unless it gives three shapes for `image` alone."""
    return tensorrt_engine.profile(value, facts.INPUT, help=_FORM)


def takes_all_requests(profile: Profile) -> None:
    """Fail unless batches from one picture to a whole request lie within a profile."""
    smallest, _, largest = profile[facts.INPUT]
    if smallest[:1] != [1] or not largest or largest[0] < facts.REQUEST:
        raise Failure(
            f"The profile takes {_pictures(smallest)} to {_pictures(largest)} in a request.",
            help="models/eights_tensorrt/config.pbtxt says how many a client may send; and it may "
            "send one alone. The server refuses to load an engine whose profile takes fewer.",
        )


def build(data: bytes, profile: Profile) -> None:
    """Build an engine of an ONNX file; fails where there is none, or where it does not fit."""
    tensorrt_engine.build(
        "`typed`",
        data,
        profile,
        model="eights_tensorrt",
        inputs=facts.INPUTS,
        outputs=facts.OUTPUTS,
        workspace_mib=_WORKSPACE_MIB,
        crashed="Is it the one of task 3?",
    )


def _pictures(shape: Sequence[int]) -> str:
    return f"{shape[0]:,} picture{'s' * (shape[0] != 1)}" if shape else "no batch"
