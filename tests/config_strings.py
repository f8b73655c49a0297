"""Every string that a model's config can have, and texts that mean more in a shell or a path.

The strings are found in protobuf's own description of the config, so that strings of later releases
are included.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritonclient.grpc import model_config_pb2

#: What the texts would do if a shell read them: `touch` makes a file of this name.
MARKER = "planted"
#: Texts that run a program in a shell, end a word or lead to another folder.
ODD = (
    f"x$(touch {MARKER}).json",
    f"x`touch {MARKER}`.json",
    f"x;touch {MARKER};",
    f"x\ntouch {MARKER}\n",
    f"x&touch {MARKER}&",
    f"x|touch {MARKER}",
    f'x"$(touch {MARKER})".json',
    f"x''$(touch {MARKER}).json",
    f"x touch {MARKER}",
    f"$(touch${{IFS}}{MARKER})",
    "../x.json",
    "..",
    "x\\y.json",
    "*.json",
    "xé.json",
)
#: The path of fields to a string; the last one is the string's own field. For an entry of a map,
#: `key` or `value` comes after the map's name.
Place = tuple[str, ...]


def config() -> Any:
    """An empty config."""
    return model_config_pb2.ModelConfig()


def places(descriptor: Any = model_config_pb2.ModelConfig.DESCRIPTOR) -> Iterator[Place]:
    """Yield all places where a config can have a string."""
    for field in descriptor.fields:
        if field.message_type is not None:
            yield from ((field.name, *rest) for rest in places(field.message_type))
        elif field.cpp_type == field.CPPTYPE_STRING:  # bytes, too
            yield (field.name,)


def put(message: Any, place: Place, text: str) -> None:
    """Write a text in a place. Messages on the way that are not there are added."""
    name, *rest = place
    field = message.DESCRIPTOR.fields_by_name[name]
    value = getattr(message, name)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        holds_messages = entry.fields_by_name["value"].message_type is not None
        key = text if rest == ["key"] else "x"
        if not holds_messages:
            value[key] = text
        elif rest == ["key"]:
            value[key].SetInParent()
        else:
            put(value[key], tuple(rest[1:]), text)
    elif rest:
        inner = value
        if hasattr(value, "add"):
            inner = value[0] if len(value) else value.add()
        put(inner, tuple(rest), text)
    elif isinstance(value, str):
        setattr(message, name, text)
    else:
        value.append(text)
