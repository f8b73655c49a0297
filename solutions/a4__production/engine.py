"""The TensorRT engine of a4__production, which the check builds itself: no GPU is needed for that.

A student hands over the ONNX file, as its bytes, and the profile. Plans and records that the
student has built are not looked at. TensorRT for RTX parses the file and builds in a process with a
clock and limited memory (grader/vocabulary/untrusted.py), and only what its builder says comes
back: the plan is thrown away. Which answers an engine gives is known only where a GPU runs it.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from grader.vocabulary import untrusted
from grader.vocabulary.failure import Failure
from workbook.backends.tensorrt.record import PRODUCTS, TYPES
from workbook.zoo import engine_builder

from . import facts

#: The most bytes of the file: it has 12 kB.
LARGEST = 1 << 20
#: How a build is limited: it takes a second, and less than 1 GiB of memory.
SECONDS, MEMORY = 15, 2 << 30
#: For which GPUs the engine is built: one target is enough to see whether it can be.
_TARGETS = ["8.6"]
_WORKSPACE_MIB = 256
_PRODUCT = "tensorrt_rtx"
#: The most of TensorRT's own words in a message.
_WORDS = 400
#: More than any batch; TensorRT takes dimensions of 31 bits.
_MOST = 1 << 31

_FORM = (
    'It is a dict: {"image": (smallest, optimum, largest)}, each a shape with the batch in front, '
    'as engines.profile_of({"image": (1, 8, 8)}, (…, …, …)) makes it.'
)


def can_build() -> bool:
    """Whether TensorRT for RTX is installed here."""
    return importlib.util.find_spec(_PRODUCT) is not None


def content(value: Any) -> bytes:
    """The file in what was handed over; fails where that is no file, or too large."""
    help = 'Hand over content("models/eights_fp16/1/model.onnx").'
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 1:
        raise Failure("`typed` is not the content of a file.", help=help)
    if value.size > LARGEST:
        raise Failure(
            f"`typed` has {value.size / 1e6:.1f} MB; at most {LARGEST / 1e6:.1f} are read.",
            help=help,
        )
    return value.tobytes()


def profile(value: Any) -> dict[str, list[list[int]]]:
    """The profile that was handed over; fails unless it gives three shapes for `image` alone."""
    if not isinstance(value, Mapping) or list(value) != [facts.INPUT]:
        names = ", ".join(map(str, value))[:200] if isinstance(value, Mapping) else ""
        raise Failure(
            f"`profile` should have one entry, {facts.INPUT}"
            + (f"; it has {names}." if names else "."),
            help=_FORM,
        )
    shapes = value[facts.INPUT]
    if not _is_list(shapes) or len(shapes) != 3 or not all(map(_is_list, shapes)):
        raise Failure(f"`profile[{facts.INPUT!r}]` does not hold three shapes.", help=_FORM)
    found = [list(shape) for shape in shapes]
    for shape in found:
        if not all(type(size) is int and 0 <= size < _MOST for size in shape) or len(shape) > 8:
            raise Failure(
                f"A shape in `profile[{facts.INPUT!r}]` holds something else than sizes.",
                help=_FORM,
            )
    return {facts.INPUT: found}


def takes_all_requests(profile: Mapping[str, Sequence[Sequence[int]]]) -> None:
    """Fail unless batches from one picture to a whole request lie within a profile."""
    smallest, _, largest = profile[facts.INPUT]
    if smallest[:1] != [1] or not largest or largest[0] < facts.REQUEST:
        raise Failure(
            f"The profile takes {_pictures(smallest)} to {_pictures(largest)} in a request.",
            help="models/eights_tensorrt/config.pbtxt says how many a client may send; and it may "
            "send one alone. The server refuses to load an engine whose profile takes fewer.",
        )


def build(data: bytes, profile: Mapping[str, Any]) -> None:
    """Build an engine; fails where TensorRT refuses, or where the engine does not fit the config.

    Args:
        data: the ONNX file.
        profile: as the function `profile` returns it.

    Raises:
        Failure: there is no engine; the text has TensorRT's words. Or the parser or the builder
            crashed or met a limit.
    """
    importlib.import_module(_PRODUCT)  # before the fork
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(data)
        file.flush()
        request = {
            "product": _PRODUCT,
            "onnx": file.name,
            "plan": "/dev/null",
            "profile": profile,
            "compute_capabilities": _TARGETS,
            "workspace_mib": _WORKSPACE_MIB,
        }
        found = untrusted.read(
            "The engine of `typed`",
            lambda: _build(request),
            help="TensorRT's parser or builder got no further with this file. Is it the one of "
            "task 3?",
            seconds=SECONDS,
            memory=MEMORY,
        )
    if found.get("problem"):
        words = " ".join(str(found["problem"]).replace(file.name, "the file").split())[:_WORDS]
        raise Failure(
            f"{PRODUCTS[_PRODUCT]} builds no engine from `typed` with this profile: {words}",
            help="The profile's shapes have the dimensions of the file's input, with the batch in "
            "front, and smallest ≤ optimum ≤ largest.",
        )
    for wanted, key in ((facts.INPUTS, "inputs"), (facts.OUTPUTS, "outputs")):
        expected = {name: (f"TYPE_{kind}", [-1, *dims]) for name, (kind, dims) in wanted.items()}
        if _ports(found.get(key)) != expected:
            raise Failure(
                f"The engine of `typed` has other {key} than models/eights_tensorrt/config.pbtxt.",
                help="There the types are TYPE_FP32, and the batch is free. keep_io_types=True "
                "keeps fp32 outside.",
            )


def _build(request: dict[str, Any]) -> dict[str, Any]:
    """In the process of its own: what the builder says, without its log."""
    answer = engine_builder.main(request)
    return {name: answer.get(name) for name in ("problem", "inputs", "outputs")}


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


def _pictures(shape: Sequence[int]) -> str:
    return f"{shape[0]:,} picture{'s' * (shape[0] != 1)}" if shape else "no batch"
