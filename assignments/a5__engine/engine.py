"""The TensorRT engines of a5__engine, which the check builds itself: no GPU is needed for that.

A student hands over ONNX files, as their bytes, and a profile. TensorRT for RTX parses a file and
builds in a process with a clock and limited memory (grader/vocabulary/untrusted.py). Only what its
builder says comes back: the plan is thrown away. Which answers an engine gives is known only where
a GPU runs it.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from grader.vocabulary import untrusted
from grader.vocabulary.failure import Failure
from workbook.backends.tensorrt.record import PRODUCTS, TYPES
from workbook.zoo import engine_builder, engine_log, engines

from . import facts

#: How a build is limited: it takes half a second, and less than 1 GiB of memory.
_SECONDS, _MEMORY = 15, 2 << 30
#: For which GPUs an engine is built: one target is enough to see whether it can be.
_TARGETS = ["8.6"]
_PRODUCT = "tensorrt_rtx"
#: The most of TensorRT's own words in a message.
_WORDS = 400
#: More than any batch; TensorRT takes dimensions of 31 bits.
_TOO_MANY = 1 << 31

_FORM = (
    'It is a dict: {"image": (smallest, optimum, largest)}, each a shape with the batch in front, '
    'as engines.profile_of({"image": (1, 32, 32)}, (…, …, …)) makes it.'
)

Profile = Mapping[str, Sequence[Sequence[int]]]


def can_build() -> bool:
    """Whether TensorRT for RTX is installed here."""
    return importlib.util.find_spec(_PRODUCT) is not None


def profile(value: Any) -> Profile:
    """The profile that was handed over; fails unless it gives three shapes for `image` alone."""
    if not isinstance(value, Mapping) or list(value) != [facts.INPUT]:
        names = ", ".join(map(str, value))[:200] if isinstance(value, Mapping) else ""
        has = f"; it has {names}" if names else ""
        raise Failure(f"`profile` should have one entry, {facts.INPUT}{has}.", help=_FORM)
    shapes = value[facts.INPUT]
    if not _is_list(shapes) or len(shapes) != 3 or not all(map(_is_list, shapes)):
        raise Failure(f"`profile[{facts.INPUT!r}]` does not hold three shapes.", help=_FORM)
    found = [list(shape) for shape in shapes]
    for shape in found:
        if not all(type(size) is int and 0 <= size < _TOO_MANY for size in shape) or not (
            0 < len(shape) <= 8
        ):
            raise Failure(
                f"A shape in `profile[{facts.INPUT!r}]` holds something else than sizes.",
                help=_FORM,
            )
    return {facts.INPUT: found}


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
    """Build an engine; fails where TensorRT refuses, or where it does not fit the config.

    Args:
        name: of the file, for messages: "`fp16`".
        file: the content of the ONNX file.
        profile: as the function `profile` returns it.

    Returns:
        The bytes on the GPU that the engine takes for activations.

    Raises:
        Failure: there is no engine; the text has TensorRT's words. Or the parser or the builder
            crashed or met a limit.
    """
    importlib.import_module(_PRODUCT)  # before the fork
    with tempfile.NamedTemporaryFile(suffix=".onnx") as target:
        target.write(file)
        target.flush()
        request = {
            "product": _PRODUCT,
            "onnx": target.name,
            "plan": "/dev/null",
            "profile": profile,
            "compute_capabilities": _TARGETS,
            "workspace_mib": engines.WORKSPACE_MIB,
        }
        found = untrusted.read(
            f"The engine of {name}",
            lambda: _build(request),
            help="TensorRT's parser or builder got no further with this file.",
            seconds=_SECONDS,
            memory=_MEMORY,
        )
    if found.get("problem"):
        words = " ".join(str(found["problem"]).replace(target.name, "the file").split())[:_WORDS]
        raise Failure(
            f"{PRODUCTS[_PRODUCT]} builds no engine from {name} with this profile: {words}",
            help="The profile's shapes have the dimensions of the file's input, with the batch in "
            "front, and smallest ≤ optimum ≤ largest. In int8, TensorRT takes zero points of 0 "
            "only, and no biases in int32; leave the normalization in fp32 (op_types_to_quantize).",
        )
    for wanted, key in ((facts.INPUTS, "inputs"), (facts.OUTPUTS, "outputs")):
        expected = {port: (f"TYPE_{kind}", [-1, *dims]) for port, (kind, dims) in wanted.items()}
        if _ports(found.get(key)) != expected:
            raise Failure(
                f"The engine of {name} has other {key} than models/own_engine/config.pbtxt.",
                help="There the types are TYPE_FP32, and the batch is free. keep_io_types=True "
                "keeps fp32 outside.",
            )
    activations = found.get("activations")
    return activations if isinstance(activations, int) else 0


def _build(request: dict[str, Any]) -> dict[str, Any]:
    """In the process of its own: what the builder says, and of its log the memory alone."""
    answer = engine_builder.main(request)
    kept = {name: answer.get(name) for name in ("problem", "inputs", "outputs")}
    return {**kept, "activations": engine_log.memory(answer["log"]).get("Activation")}


def _ports(found: Any) -> dict[str, tuple[str, list[int]]]:
    """By the name of a tensor its type, as in a config, and its dimensions. Nothing is believed."""
    try:
        return {
            str(one["name"]): (TYPES.get(str(one["type"]), ""), list(one["dims"])) for one in found
        }
    except (TypeError, KeyError, ValueError):
        return {}


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
