"""The TensorRT engines of a5__engine, which the check builds itself.

grader/vocabulary/tensorrt_engine.py says how. Students get this file: it holds nothing that a task
asks for.
"""

from __future__ import annotations

from typing import Any

from grader.vocabulary import tensorrt_engine
from grader.vocabulary.failure import Failure
from grader.vocabulary.tensorrt_engine import Profile
from workbook.zoo import engines

from . import facts

_FORM = (
    'It is a dict: {"image": (smallest, optimum, largest)}, each a shape with the batch in front, '
    'as engines.profile_of({"image": (1, 32, 32)}, (…, …, …)) makes it.'
)


def profile(value: Any) -> Profile:
    """The profile that was handed over; fails unless it gives three shapes for `image` alone."""
    found = tensorrt_engine.profile(value, facts.INPUT, help=_FORM)
    if not all(found[facts.INPUT]):
        raise Failure(
            f"A shape in `profile[{facts.INPUT!r}]` holds something else than sizes.", help=_FORM
        )
    return found


def fits_requests(profile: Profile) -> None:
    """Fail unless a profile is for 1 to 32 pictures, and for 8 in the first place."""
    batches = tuple(shape[0] for shape in profile[facts.INPUT])
    wanted = (1, facts.USUAL, facts.MOST)
    if batches[0] != wanted[0] or batches[2] < wanted[2]:
        raise Failure(
            f"The profile takes {batches[0]:,} to {batches[2]:,} pictures in a request.",
            help="models/own_engine/config.pbtxt says how many a client may send; and it may send "
            "one alone. The server refuses to load an engine whose profile takes fewer.",
        )
    if batches != wanted:
        raise Failure(
            f"The profile is ({', '.join(f'{batch:,}' for batch in batches)}). It loads, but its "
            "memory is reserved for requests that never come, or its programs are chosen for "
            "another batch than the usual one.",
            help="models/own_engine/config.pbtxt says which batch is the usual one, and which is "
            "the largest. A larger one belongs to `largest`, and not to `profile`.",
            credit=0.5,
        )


def widened(batch: int) -> Profile:
    """The profile for 1 to `batch` pictures, with the usual optimum."""
    return engines.profile_of({facts.INPUT: facts.PICTURE}, (1, min(facts.USUAL, batch), batch))


def build(name: str, file: bytes, profile: Profile) -> int:
    """Build an engine; fails where there is none, or where it does not fit the config.

    Args:
        name: of the file, for messages: "`fp16`".
        file: the content of the ONNX file.
        profile: as the function `profile` returns it.

    Returns:
        The bytes on the GPU that the engine takes for activations.
    """
    return tensorrt_engine.build(
        name,
        file,
        profile,
        model="own_engine",
        inputs=facts.INPUTS,
        outputs=facts.OUTPUTS,
        workspace_mib=engines.WORKSPACE_MIB,
        refused="In int8, TensorRT takes zero points of 0 only, and no biases in int32; leave the "
        "normalization in fp32 (op_types_to_quantize).",
    )
