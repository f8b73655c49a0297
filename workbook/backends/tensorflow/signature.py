"""Read the signature of a SavedModel from its protobuf, without a session or weights.

The rules (which tag, which signature, which types) are those of
triton-inference-server/tensorflow_backend, `TRITONTF_ModelCreateFromSavedModel`.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

from workbook.backends.base import Config, Tensor
from workbook.backends.tensorflow.runtime import module

_NOT_FOR_SERVING = ("__saved_model_init_op", "__saved_model_train_op")

# tensorflow.DataType's numbers (types.proto) → Triton's names.
TYPES = {
    1: "TYPE_FP32",
    2: "TYPE_FP64",
    3: "TYPE_INT32",
    4: "TYPE_UINT8",
    5: "TYPE_INT16",
    6: "TYPE_INT8",
    7: "TYPE_STRING",
    9: "TYPE_INT64",
    10: "TYPE_BOOL",
    17: "TYPE_UINT16",
    19: "TYPE_FP16",
    22: "TYPE_UINT32",
    23: "TYPE_UINT64",
}


class Unreadable(Exception):
    """A SavedModel that the real backend would not load; the message is for `failed to load`."""


@dataclasses.dataclass(frozen=True)
class Endpoint(Tensor):
    """One input or output of a signature; its `dims` are () for a scalar or an unknown rank.

    Attributes:
        node: the tensor in the graph, e.g. `serving_default_x:0`.
    """

    dims: tuple[int, ...] = ()
    node: str = ""


@dataclasses.dataclass(frozen=True)
class ServingSignature:
    """The signature to serve: its inputs and outputs by name, sorted by name.

    Attributes:
        others: the names of the other signatures' tensors, by the signature.
    """

    inputs: Mapping[str, Endpoint]
    outputs: Mapping[str, Endpoint]
    others: Mapping[str, frozenset[str]]


def tag(config: Config) -> str:
    """The tag of the graph to load."""
    return config.parameters.get("TF_GRAPH_TAG") or "serve"


def read(config: Config, path: Path) -> ServingSignature:
    """The signature of the SavedModel at `path` that the config asks for.

    Raises:
        Unreadable: no SavedModel, no such tag, no signature, or a type that Triton lacks.
    """
    meta = _meta_graph(path, tag(config))
    name = _choose(config, meta.signature_def)
    definition = meta.signature_def[name]
    others = {n: s for n, s in meta.signature_def.items() if n not in (name, *_NOT_FOR_SERVING)}
    return ServingSignature(
        _endpoints(config, "input", definition.inputs),
        _endpoints(config, "output", definition.outputs),
        {n: frozenset((*s.inputs, *s.outputs)) for n, s in sorted(others.items())},
    )


def _meta_graph(path: Path, wanted: str) -> Any:
    saved_model = module("core.protobuf.saved_model_pb2").SavedModel()
    binary, text = path / "saved_model.pb", path / "saved_model.pbtxt"
    try:
        if binary.is_file():
            saved_model.ParseFromString(binary.read_bytes())
        elif text.is_file():
            _text_format().Parse(text.read_text(encoding="utf-8"), saved_model)
        else:
            raise Unreadable(
                f"Could not find SavedModel .pb or .pbtxt at supplied export directory path: {path}"
            )
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(f"Can't parse {path}: {error}") from None
    for meta in saved_model.meta_graphs:
        if list(meta.meta_info_def.tags) == [wanted]:
            return meta
    raise Unreadable(
        f"Could not find meta graph def matching supplied tags: {{ {wanted} }}. The SavedModel has "
        f"{[list(meta.meta_info_def.tags) for meta in saved_model.meta_graphs]}"
    )


def _text_format() -> Any:
    return importlib.import_module("google.protobuf.text_format")


def _choose(config: Config, signatures: Mapping[str, Any]) -> str:
    """The name of the signature to serve: the one that the config names, else `serving_default`.

    If a SavedModel has no `serving_default`, the real backend takes any other signature for
    serving, and logs both names. A signature that the config names must exist (since 23.04).
    """
    wanted = config.parameters.get("TF_SIGNATURE_DEF") or ""
    name = wanted or "serving_default"
    if name in signatures:
        return name
    usable = sorted(set(signatures) - set(_NOT_FOR_SERVING))
    if wanted or not usable:
        there = f"; the file has {', '.join(usable)}" if usable else ""
        raise Unreadable(
            f"unable to load model '{config.name}', expected '{name}' signature{there}"
        )
    pb_utils.Logger.log_warn(f"unable to find serving signature '{name}'")
    pb_utils.Logger.log_warn(f"using signature '{usable[0]}'")
    return usable[0]


def _endpoints(config: Config, kind: str, tensors: Mapping[str, Any]) -> dict[str, Endpoint]:
    endpoints = {}
    for name in sorted(tensors):
        info = tensors[name]
        if info.dtype not in TYPES:
            names = module("core.framework.types_pb2").DataType
            raise Unreadable(
                f"unable to process {kind} '{name}' for '{config.name}', "
                f"unsupported datatype '{names.Name(info.dtype)}'"
            )
        dims = tuple(int(d.size) for d in info.tensor_shape.dim)
        endpoints[name] = Endpoint(name, TYPES[info.dtype], dims, node=info.name)
    return endpoints
