"""Read what TensorRT's builder says in its log of the engine that it has built.

    layers(log)         # [Layer("node_conv2d_myl0_2", "correlation", ("node_conv2d", "node_relu"))]
    memory(log)         # {"Activation": 8978432, "Weights": 40128}

With `profiling_verbosity` DETAILED one message of the severity VERBOSE lists the layers, one per
line, each with the ONNX nodes that were fused into it:

    Layers:
    Name: node_conv2d_myl0_2, LayerType: correlation, Inputs: […], …, StreamId: 0, Metadata:
    [ONNX Layer: node_conv2d][ONNX Layer: node_relu]

Between two nodes stands a control character. TensorRT for RTX writes the list while it builds. Its
layers of the type `shape_call` compute shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..backends.tensorrt.record import Layer

_LAYER = re.compile(r"^Name: (.*?), LayerType: (.*?), .*Metadata: ?(.*)$", re.MULTILINE)
_NODE = re.compile(r"\[ONNX Layer: (.*?)\](?=[\x1e\x1f]|$)")
_MEMORY = re.compile(r"^INFO: Total (Activation|Weights) Memory: (\d+) bytes$")


def layers(log: Iterable[str]) -> tuple[Layer, ...]:
    """The layers of the engine in their order; none where the log does not list them."""
    block = next((line for line in log if line.startswith("VERBOSE: Layers:\n")), "")
    found = _LAYER.findall(block.partition("\n\n")[0])
    return tuple(Layer(name, kind, tuple(_NODE.findall(nodes))) for name, kind, nodes in found)


def memory(log: Iterable[str]) -> dict[str, int]:
    """Bytes on the GPU for activations and for weights, where the log names them."""
    return {kind: int(size) for kind, size in (m.groups() for m in map(_MEMORY.match, log) if m)}
