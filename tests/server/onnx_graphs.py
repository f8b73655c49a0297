"""Small ONNX models, as bytes."""

from __future__ import annotations

from typing import Any

from onnx import helper


def graph(nodes: list[Any], inputs: Any, outputs: Any, constants: Any = ()) -> bytes:
    """An ONNX model; inputs and outputs are (name, element type, shape)."""
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*entry) for entry in inputs],
        [helper.make_tensor_value_info(*entry) for entry in outputs],
        list(constants),
    )
    opset = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(made, ir_version=9, opset_imports=opset).SerializeToString())
