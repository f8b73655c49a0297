"""Sampling parameters: the JSON of a request → vLLM's `SamplingParams`."""

from __future__ import annotations

import json
from typing import Any

from workbook.backends.base import BadRequest

#: Names that are not sampling parameters of vLLM, but that a client may send: other inputs of the
#: model, which the generate endpoint turns into parameters, and NVIDIA's name of an adapter.
_OTHERS = frozenset({"triton_final_response", "triton_enable_empty_final_response"})


def read(text: str) -> Any:
    """Read sampling parameters; numbers may come as strings, as NVIDIA's own client sends them.

    Raises:
        BadRequest: the text is not a JSON object, or it has a name that vLLM does not know, or a
            value of another type.
        ValueError: vLLM refuses a value.
    """
    # The import is here, since this module is also imported if vLLM is not installed.
    from msgspec import structs
    from vllm import SamplingParams

    try:
        given = json.loads(text) if text else {}
    except ValueError as error:
        raise BadRequest(f"sampling_parameters is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise BadRequest('sampling_parameters must be a JSON object, e.g. {"max_tokens": 64}')
    if given.pop("lora_name", None) is not None:
        raise BadRequest("LoRA feature is not enabled.")
    fields = {field.name: field.type for field in structs.fields(SamplingParams)}
    found = {}
    for name, value in given.items():
        if name in _OTHERS:
            continue
        if name not in fields or name.startswith("_"):
            raise BadRequest(f"sampling parameter {name!r} is not one of vLLM's")
        found[name] = _converted(name, value, fields[name])
    return SamplingParams(**found)


def _converted(name: str, value: Any, kind: Any) -> Any:
    """Convert a value to its type; a string is read where a number or a boolean is expected.

    The engine's process decodes the parameters by these types. It drops a request that it cannot
    decode, without an answer. So wrong types are refused here.
    """
    import msgspec

    if name == "structured_outputs" and isinstance(value, str):
        try:
            value = json.loads(value)  # upstream, too, takes JSON as a string within JSON
        except ValueError as error:
            raise BadRequest(f"sampling parameter {name} is not JSON: {error}") from None
    try:
        read = msgspec.convert(value, kind, strict=False, str_keys=True)
        msgspec.msgpack.encode(read)  # the form in which it is sent to the engine
    except (msgspec.ValidationError, TypeError, OverflowError) as error:
        raise BadRequest(f"sampling parameter {name} is {value!r}: {error}") from None
    return read
