"""Read the inputs and outputs of a serialized DALI pipeline from its file, without running it.

DALI's Python interface does not list a pipeline's external sources. Without a GPU it cannot build a
pipeline with GPU operators, not even to get their names. The file is a protocol buffer (message
PipelineDef of DALI's dali.proto). This module reads only the few fields that are needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

#: DALI's numbers for its types (dali_data_type_t) → Triton's names.
TYPES = (
    *("TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64"),
    *("TYPE_INT8", "TYPE_INT16", "TYPE_INT32", "TYPE_INT64"),
    *("TYPE_FP16", "TYPE_FP32", "TYPE_FP64", "TYPE_BOOL"),
)

# Field numbers.
_PIPELINE_BATCH_SIZE, _PIPELINE_OPERATOR, _PIPELINE_OUTPUT, _PIPELINE_DEVICE = 2, 5, 7, 8
_OPERATOR_KIND, _OPERATOR_ARGUMENT, _OPERATOR_NAME = 1, 4, 5
_ARGUMENT_NAME, _ARGUMENT_INTEGER, _ARGUMENT_STRING = 1, 4, 5
_OUTPUT_NAME, _OUTPUT_TYPE, _OUTPUT_DIMENSIONS = 1, 5, 6

Value = int | bytes


class NotAPipeline(Exception):
    """The bytes are not a serialized pipeline."""


@dataclasses.dataclass(frozen=True)
class Port:
    """An external source or an output.

    Attributes:
        name: its name in the pipeline.
        data_type: Triton's name of its type; None where the pipeline does not declare one.
        dimensions: how many it declares, without the batch; None where undeclared.
    """

    name: str
    data_type: str | None
    dimensions: int | None


@dataclasses.dataclass(frozen=True)
class Description:
    """The inputs, outputs and other properties of a pipeline.

    Attributes:
        inputs: its external sources, by name, as the real backend lists them.
        outputs: its outputs in the pipeline's order.
        batch_size: its maximum batch size.
        gpu_operators: the operators that run on a GPU, as `kind (name)`.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    batch_size: int
    gpu_operators: tuple[str, ...]


def describe(serialized: bytes) -> Description:
    """Read a serialized pipeline.

    Raises:
        NotAPipeline: the bytes are something else.
    """
    inputs, outputs, gpu, batch_size = [], [], [], 0
    for number, value, _ in _fields(serialized):
        if number == _PIPELINE_BATCH_SIZE and isinstance(value, int):
            batch_size = value
        elif number == _PIPELINE_OUTPUT and isinstance(value, bytes):
            entry = _latest(value)
            outputs.append(
                Port(
                    _text(entry.get(_OUTPUT_NAME)),
                    _type(entry.get(_OUTPUT_TYPE)),
                    _count(entry.get(_OUTPUT_DIMENSIONS)),
                )
            )
        elif number == _PIPELINE_OPERATOR and isinstance(value, bytes):
            operator = _latest(value)
            kind, name = _text(operator.get(_OPERATOR_KIND)), _text(operator.get(_OPERATOR_NAME))
            arguments = {
                _text(a.get(_ARGUMENT_NAME)): a
                for a in (
                    _latest(v)
                    for n, v, _ in _fields(value)
                    if n == _OPERATOR_ARGUMENT and isinstance(v, bytes)
                )
            }
            device = _text(arguments.get("device", {}).get(_ARGUMENT_STRING))
            if device in ("gpu", "mixed"):
                gpu.append(f"{kind} ({device})")
            if kind == "ExternalSource":
                layout = _text(arguments.get("layout", {}).get(_ARGUMENT_STRING))
                declared = _count(arguments.get("ndim", {}).get(_ARGUMENT_INTEGER))
                dimensions = declared if declared is not None else len(layout) or None
                data_type = _type(arguments.get("dtype", {}).get(_ARGUMENT_INTEGER))
                inputs.append(Port(name, data_type, dimensions))
    if not outputs:
        raise NotAPipeline("it defines no outputs")
    inputs.sort(key=lambda port: port.name)
    return Description(tuple(inputs), tuple(outputs), batch_size, tuple(gpu))


def without_device(serialized: bytes) -> bytes:
    """The same pipeline with `device_id` unset, so that it can be built without a GPU."""
    return b"".join(raw for number, _, raw in _fields(serialized) if number != _PIPELINE_DEVICE)


def _fields(message: bytes) -> Iterator[tuple[int, Value, bytes]]:
    """The fields of a protocol buffer: number, value, and the bytes that encode both."""
    position = 0
    while position < len(message):
        start = position
        key, position = _varint(message, position)
        number, wire = key >> 3, key & 7
        value: Value
        if wire == 0:
            value, position = _varint(message, position)
        else:
            if wire == 2:
                size, position = _varint(message, position)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
            else:
                raise NotAPipeline(f"wire type {wire} at byte {start}")
            value = message[position : position + size]
            if len(value) != size:
                raise NotAPipeline(f"it ends inside a field at byte {start}")
            position += size
        yield number, value, message[start:position]


def _latest(message: bytes) -> dict[int, Value]:
    return {number: value for number, value, _ in _fields(message)}


def _varint(message: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while position < len(message) and shift < 70:
        byte = message[position]
        position += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return result, position
    raise NotAPipeline(f"a broken number at byte {position}")


def _text(value: Value | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _type(value: Value | None) -> str | None:
    return TYPES[value] if isinstance(value, int) and value < len(TYPES) else None


def _count(value: Value | None) -> int | None:
    """A small number; None for -1 (encoded in ten bytes), which means undeclared."""
    return value if isinstance(value, int) and value < 1 << 31 else None
