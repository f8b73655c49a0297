"""Triton's schema of config.pbtxt (model_config.proto): the parts that explanations need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .rules import near

#: Names that people know from other tools and write by mistake → the field that they mean.
_FIELD_WORDS = {
    "type": "data_type",
    "dtype": "data_type",
    "shape": "dims",
    "shapes": "dims",
    "size": "dims",
    "dim": "dims",
    "batch_size": "max_batch_size",
    "batch": "max_batch_size",
    "model_name": "name",
    "framework": "backend",
    "instances": "instance_group",
    "instance": "instance_group",
    "device": "kind",
    "filename": "default_model_filename",
    "file": "default_model_filename",
    "model_file": "default_model_filename",
    "queue_delay": "max_queue_delay_microseconds",
    "delay": "max_queue_delay_microseconds",
    "value": "string_value",
    "labels": "label_filename",
    "steps": "step",
    "versions": "version_policy",
    "decoupled": "model_transaction_policy",
}
_ENUM_WORDS = {
    "FLOAT": "TYPE_FP32",
    "FLOAT32": "TYPE_FP32",
    "SINGLE": "TYPE_FP32",
    "DOUBLE": "TYPE_FP64",
    "FLOAT64": "TYPE_FP64",
    "FLOAT16": "TYPE_FP16",
    "HALF": "TYPE_FP16",
    "BFLOAT16": "TYPE_BF16",
    "INT": "TYPE_INT32",
    "LONG": "TYPE_INT64",
    "BYTE": "TYPE_UINT8",
    "BYTES": "TYPE_STRING",
    "STR": "TYPE_STRING",
    "TEXT": "TYPE_STRING",
    "OBJECT": "TYPE_STRING",
    "BOOLEAN": "TYPE_BOOL",
}


def field_near(message_type: str, name: str) -> str:
    """The field of a message type that was most likely meant; "" where none is similar.

    field_near("ModelInput", "dtype")  # data_type
    """
    fields = field_names(message_type)
    known = _FIELD_WORDS.get(name.lower(), "")
    return known if known in fields else near(name, fields)


def is_habit(name: str) -> bool:
    """Whether this is a name from other tools that people write in place of a field's name.

    is_habit("shape")  # True: Triton's name for it is dims
    """
    return name.lower() in _FIELD_WORDS


def field_names(message_type: str) -> list[str]:
    """The names of a message type's fields; empty if only a newer server has this type."""
    message = _message(message_type)
    return list(message.fields_by_name) if message else []


def owners(name: str) -> list[str]:
    """The sections that have a field of this name, as paths (`input`, `dynamic_batching`)."""
    return [
        path or "the top of the file, outside all braces"
        for path, message in _sections()
        if name in message.fields_by_name
    ]


def enum_values(path: str) -> list[str]:
    """The values that the field at a path (`input[0].data_type`) may have."""
    enum = getattr(_descriptor(path), "enum_type", None)
    return [v for v in enum.values_by_name if not v.endswith("INVALID")] if enum else []


def enum_near(path: str, value: str) -> str:
    """The value that was most likely meant."""
    values = enum_values(path)
    known = _ENUM_WORDS.get(value.upper().removeprefix("TYPE_"), "")
    if known in values:
        return known
    ends = [v for v in values if v.upper().endswith(f"_{value.upper()}")]
    return ends[0] if ends else near(value, values)


def section_names(path: str) -> list[str]:
    """The fields of the section at a path."""
    message = getattr(_descriptor(path), "message_type", None)
    return list(message.fields_by_name) if message else []


def is_list(path: str) -> bool:
    """Whether a field may have several values: `is_list("input[0].dims")` is True."""
    descriptor = _descriptor(path)
    return descriptor is not None and descriptor.is_repeated


def _message(message_type: str) -> Any:
    """The descriptor of a message type; None if the installed tritonclient has none."""
    from tritonclient.grpc import model_config_pb2

    try:
        return model_config_pb2.DESCRIPTOR.pool.FindMessageTypeByName(f"inference.{message_type}")
    except KeyError:
        return None


def _descriptor(path: str) -> Any:
    """The descriptor of the field at a path; None if the schema has no such field."""
    message: Any = _message("ModelConfig")
    field: Any = None
    for step in path.split("."):
        field = message.fields_by_name.get(step.partition("[")[0]) if message else None
        message = field.message_type if field else None
    return field


def _sections() -> Iterator[tuple[str, Any]]:
    stack = [("", _message("ModelConfig"))]
    seen = set()
    while stack:
        path, message = stack.pop(0)
        if message.full_name in seen:
            continue
        seen.add(message.full_name)
        yield path, message
        for field in message.fields:
            if field.message_type:
                stack.append((f"{path}.{field.name}".lstrip("."), field.message_type))
