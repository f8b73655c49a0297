"""Deploy many small models at once, for the tests of stand-ins.

A test module loads everything it needs once, side by side, and its tests check the results.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from loading import load_all
from tritonclient import http

from workbook.server import Triton

_TYPES = {
    "bool": "BOOL",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "int32": "INT32",
    "int64": "INT64",
    "object": "BYTES",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A model: the text of its config ("" for none), and its files by path."""

    config: str
    files: Mapping[str, str | bytes]


def deployed(server: Triton, cases: Mapping[str, Case]) -> dict[str, str]:
    """Write the cases into the repository and load them; returns each refusal ("" if it loaded)."""
    for name, case in cases.items():
        for path, content in {**case.files, "config.pbtxt": case.config}.items():
            target = server.repository / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if content or path != "config.pbtxt":
                target.write_bytes(content.encode() if isinstance(content, str) else content)

    return load_all(server, cases)


def infer(
    server: Triton, model: str, inputs: Mapping[str, np.ndarray], **options: Any
) -> dict[str, np.ndarray]:
    """Send a request over HTTP; returns the outputs by name."""
    tensors = []
    for name, array in inputs.items():
        tensor = http.InferInput(name, list(array.shape), _TYPES[str(array.dtype)])
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    with server.http_client() as client:
        result = client.infer(model, tensors, **options)
    return {o["name"]: result.as_numpy(o["name"]) for o in result.get_response()["outputs"]}


def together(
    server: Triton, model: str, requests: list[Mapping[str, np.ndarray]]
) -> list[dict[str, np.ndarray] | str]:
    """Send requests at the same time; returns each request's outputs, or its error's text."""

    def one(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | str:
        try:
            return infer(server, model, inputs)
        except Exception as error:
            return str(error)

    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(one, requests))


def io(inputs: str, outputs: str) -> str:
    """The config's tensors: `a FP32 -1,4; b STRING 1 r` (r: the model sees no dimension)."""

    def entries(kind: str, text: str) -> str:
        lines = []
        for one in filter(None, text.split(";")):
            name, data_type, dims, *reshape = one.split()
            extra = " reshape { shape: [] }" if reshape else ""
            lines.append(f'{{ name: "{name}" data_type: TYPE_{data_type} dims: [{dims}]{extra} }}')
        return f"{kind} [{', '.join(lines)}]\n" if lines else ""

    return entries("input", inputs) + entries("output", outputs)


def parameters(**values: str) -> str:
    """The config's parameters."""
    quoted = {key: value.replace('"', '\\"') for key, value in values.items()}
    return "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
        for key, value in quoted.items()
    )
