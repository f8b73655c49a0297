"""Build a student's TensorRT engine anew. No GPU is needed for that.

A student hands over an ONNX file, as its bytes, and a profile. Plans and records that the student
has built are not looked at. TensorRT for RTX parses the file and builds in a process with a clock
and limited memory (untrusted.py), and only what its builder says comes back: the plan is thrown
away. Which answers an engine gives is known only where a GPU runs it.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from workbook.backends.tensorrt.record import PRODUCTS, TYPES
from workbook.zoo import engine_builder, engine_log

from . import untrusted
from .failure import Failure

#: How a build is limited: it takes a second, and less than 1 GiB of memory.
SECONDS, MEMORY = 15, 2 << 30
#: For which GPUs an engine is built: one target is enough to see whether it can be.
_TARGETS = ["8.6"]
_PRODUCT = "tensorrt_rtx"
#: The most of TensorRT's own words in a message.
_WORDS = 400
#: More than any batch; TensorRT takes dimensions of 31 bits.
_TOO_MANY = 1 << 31

#: By the name of the input: the smallest shape, the optimum and the largest.
Profile = Mapping[str, Sequence[Sequence[int]]]


def can_build() -> bool:
    """Whether TensorRT for RTX is installed here."""
    return importlib.util.find_spec(_PRODUCT) is not None


def profile(value: Any, port: str, *, help: str) -> dict[str, list[list[int]]]:
    """The profile that was handed over; fails unless it gives three shapes for one input alone.

    Args:
        value: what was handed over as `profile`.
        port: the name of the file's input.
        help: what a profile looks like.
    """
    if not isinstance(value, Mapping) or list(value) != [port]:
        names = ", ".join(map(str, value))[:200] if isinstance(value, Mapping) else ""
        has = f"; it has {names}" if names else ""
        raise Failure(f"`profile` should have one entry, {port}{has}.", help=help)
    shapes = value[port]
    if not _is_list(shapes) or len(shapes) != 3 or not all(map(_is_list, shapes)):
        raise Failure(f"`profile[{port!r}]` does not hold three shapes.", help=help)
    found = [list(shape) for shape in shapes]
    for shape in found:
        if not all(type(size) is int and 0 <= size < _TOO_MANY for size in shape) or len(shape) > 8:
            raise Failure(
                f"A shape in `profile[{port!r}]` holds something else than sizes.", help=help
            )
    return {port: found}


def build(
    name: str,
    file: bytes,
    profile: Profile,
    *,
    model: str,
    inputs: Mapping[str, tuple[str, Sequence[int]]],
    outputs: Mapping[str, tuple[str, Sequence[int]]],
    workspace_mib: int,
    crashed: str = "",
    refused: str = "",
) -> int:
    """Build an engine; fails where TensorRT refuses, or where it does not fit the config.

    Args:
        name: of the file, for messages: "`fp16`".
        file: the content of the ONNX file.
        profile: as the function `profile` returns it.
        model: the folder in `models/` whose config the engine is to fit.
        inputs: by the name of a tensor its type and its dimensions without the batch, as that
            config has them.
        outputs: the same.
        workspace_mib: the memory on the GPU that its programs may use, in MiB.
        crashed: what else to look at where TensorRT crashes or meets a limit.
        refused: what else to look at where TensorRT refuses.

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
            "workspace_mib": workspace_mib,
        }
        found = untrusted.read(
            f"The engine of {name}",
            lambda: _build(request),
            help=f"TensorRT's parser or builder got no further with this file. {crashed}".strip(),
            seconds=SECONDS,
            memory=MEMORY,
        )
    if found.get("problem"):
        words = " ".join(str(found["problem"]).replace(target.name, "the file").split())[:_WORDS]
        shapes = (
            "The profile's shapes have the dimensions of the file's input, with the batch in "
            f"front, and smallest ≤ optimum ≤ largest. {refused}"
        )
        raise Failure(
            f"{PRODUCTS[_PRODUCT]} builds no engine from {name} with this profile: {words}",
            help=shapes.strip(),
        )
    for wanted, key in ((inputs, "inputs"), (outputs, "outputs")):
        expected = {port: (f"TYPE_{kind}", [-1, *dims]) for port, (kind, dims) in wanted.items()}
        if _ports(found.get(key)) != expected:
            raise Failure(
                f"The engine of {name} has other {key} than models/{model}/config.pbtxt.",
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
