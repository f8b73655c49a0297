"""What the checks of a5__engine ask of a student's ONNX files: types, weights, scales.

Files are read as data, each in a process of its own. Students get this file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from grader.vocabulary import collect, onnx_file, untrusted, values
from grader.vocabulary.failure import Failure

from .network import LAYERS, Network

#: The most bytes of a file; the network in fp32 has 253,000.
LARGEST = 1 << 20
#: How many numbers may be fp32 in a file whose weights are fp16: the 1 below the root, and more.
_SINGLE = 8
#: How many numbers a file may hold beside the weights: axes, shapes.
_MORE = 40
#: A weight in fp16 is off by at most half a unit of its 11 bits.
_APART = 2.0**-11 * 1.01
#: The operators with weights.
_LAYERS = ("Conv", "Gemm", "MatMul")
_AGAIN = "Convert network.onnx again, and hand over the content of the new file."


def content(name: str, value: Any) -> bytes:
    """The file in what was handed over.

    Args:
        name: of the value, for messages: "fp16".
        value: a uint8 array, as `facts.content` returns it.

    Raises:
        Failure: it is no content of a file, or is too large.
    """
    return values.content(name, value, LARGEST, help=f'Hand over content("{name}.onnx").')


def converted(file: bytes) -> list[onnx_file.Numbers]:
    """The tensors that the file `fp16` holds; fails unless some are fp16."""
    held = onnx_file.numbers_in(file, "`fp16`", help=_AGAIN)
    if not onnx_file.count(held, "FLOAT16"):
        raise Failure("`fp16` holds no number as FLOAT16: it is not converted.", help=_AGAIN)
    return held


def in_fp16(file: bytes, network: Network) -> None:
    """Fail unless a file holds the network's weights as fp16, and hardly anything else.

    Raises:
        Failure: it is another file; the message names what it holds.
    """
    held = converted(file)
    ports = untrusted.read("`fp16`", lambda: _ports(onnx_file.graph(file, "`fp16`")))
    others = [f"{name} ({kind})" for name, kind in ports["ports"] if kind != "FLOAT"]
    if others:
        raise Failure(
            f"`fp16` has another type than fp32 outside: {_few(others)}.",
            help="keep_io_types=True keeps input and output as they are, unless an operator in a "
            "block list answers the output: here, head.",
        )
    if ports["single"]:
        raise Failure(
            f"`fp16` computes these operators in fp32: {_few(ports['single'])}.",
            help="A Cast turns what they take into fp32. Only the normalization has to compute so.",
        )
    single = [one for one in held if one.is_floating and one.type != "FLOAT16"]
    if (numbers := onnx_file.count(single)) > _SINGLE:
        named = ", ".join(one.name for one in single if one.values.size > 1)[:300]
        raise Failure(
            f"`fp16` holds {numbers:,} numbers in fp32; at most {_SINGLE} may be. They are in: "
            f"{named}.",
            help="Weights of operators that stay in fp32 stay so, too. Keep fewer operators there: "
            "node_block_list takes the names of single operators.",
        )
    for name, tensor in network.weights.items():
        if not onnx_file.holds(held, "FLOAT16", tensor, apart=_APART):
            raise Failure(
                f"`fp16` does not hold {name} of your network in fp16.",
                help=f"Is it the network of another id? {_AGAIN}",
            )
    own = sum(tensor.size for tensor in network.weights.values())
    if (numbers := onnx_file.count(held)) > own + _MORE:
        raise Failure(
            f"`fp16` holds {numbers:,} numbers; the network has {own:,}.",
            help="Convert the network alone.",
        )


def in_int8(file: bytes, where: str, network: Network) -> None:
    """Fail unless each convolution of a file takes int8 numbers, with symmetric scales.

    Args:
        file: its content.
        where: its name, for messages.
        network: the student's.

    Raises:
        Failure: all faults, in one message.
    """
    import onnx  # noqa: F401  # before the fork

    found = untrusted.read(where, lambda: _describe(onnx_file.graph(file, where)))
    if not found["pairs"]:
        raise Failure(
            f"{where} holds no QuantizeLinear and no DequantizeLinear: it is not quantized as QDQ.",
            help="quant_format=QuantFormat.QDQ writes them. Was the folder deployed afterwards?",
        )
    faults, helps = [], []
    if found["kinds"]:
        faults.append(f"quantizes to {_few(found['kinds'])}, where INT8 is wanted")
        helps.append("activation_type and weight_type are QuantType.QInt8.")
    if found["shifted"] and "UINT8" not in found["kinds"]:  # its symmetric zero point is 128
        faults.append(f"has zero points that are not 0, for {_few(found['shifted'])}")
        helps.append('Symmetric ranges: extra_options={"ActivationSymmetric": True, …}.')
    if found["biases"]:
        faults.append(f"quantizes biases: {_few(found['biases'])}")
        helps.append('TensorRT wants biases in fp32: "QuantizeBias": False.')
    if found["bare"]:
        faults.append(f"computes these convolutions in fp32: {_few(found['bare'])}")
        helps.append("A convolution in int8 gets its picture and its weight from DequantizeLinear.")
    if found["layers"] != len(LAYERS):
        faults.append(f"has {found['layers']} operators Conv; your network has {len(LAYERS)}")
        helps.append("QuantFormat.QDQ keeps them, QOperator replaces them.")
    if faults:
        raise Failure(f"{where} " + "; it ".join(faults) + ".", help=" ".join(helps))
    wanted = sum(t.size for name, t in network.weights.items() if name[:4] == "conv" and t.ndim > 1)
    if found["whole"] < wanted:
        raise Failure(
            f"{where} holds {found['whole']:,} numbers in int8; the convolutions of your network "
            f"have {wanted:,} weights.",
            help="Quantize network.onnx, with all its convolutions.",
        )
    if found["constants"]:
        collect.note(
            f"{where} also quantizes constants that are no weights: {_few(found['constants'])}. "
            "TensorRT refuses that: see task 3. By default quantize_static quantizes more "
            "operators than TensorRT takes: see op_types_to_quantize."
        )


def _ports(model: Any) -> dict[str, Any]:
    """In the limited process: what a file says of types.

    Returns:
        `ports`: the name and type of each input and output of the file; `single`: the layers with
        weights that take a number in fp32.
    """
    from onnx import TensorProto, shape_inference

    name = TensorProto.DataType.Name
    graph = shape_inference.infer_shapes(model).graph
    known = (*graph.input, *graph.output, *graph.value_info)
    types = {one.name: one.type.tensor_type.elem_type for one in known}
    types |= {one.name: one.data_type for one in graph.initializer}
    layers = [node for node in graph.node if node.op_type in _LAYERS]
    return {
        "ports": [(one.name, name(types[one.name])) for one in (*graph.input, *graph.output)],
        "single": [
            node.name or node.output[0]
            for node in layers
            if any(types.get(each) == TensorProto.FLOAT for each in node.input)
        ],
    }


def _few(names: Iterable[str]) -> str:
    found = [str(name)[:40] for name in names]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")


def _describe(model: Any) -> dict[str, Any]:
    """In the limited process: how a file is quantized.

    Returns:
        `pairs`: how many Q and DQ operators there are; `kinds`: types beside INT8 that they have;
        `shifted`: tensors with a zero point that is not 0; `biases`: biases that are quantized;
        `bare`: convolutions with an input that is not quantized; `layers`: how many convolutions
        there are; `whole`: numbers held in int8; `constants`: those that are quantized, and are
        no weights or biases.
    """
    from onnx import TensorProto, numpy_helper

    graph = model.graph
    held = {one.name: one for one in graph.initializer}
    maker = {output: node for node in graph.node for output in node.output}
    pairs = [n for n in graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    biases = _biases(graph, maker)
    kinds, shifted = set(), []
    for node in pairs:
        of_bias = any(output in biases for output in node.output)
        zero = held.get(node.input[2]) if len(node.input) > 2 else None
        if zero is not None:
            kind = zero.data_type
            if numpy_helper.to_array(zero).any():
                shifted.append(node.input[0])
        elif node.op_type == "DequantizeLinear":  # without a zero point: the type of what it takes
            source = held.get(node.input[0])
            kind = source.data_type if source is not None else TensorProto.INT8
        else:
            kind = TensorProto.UINT8
        if kind != TensorProto.INT8 and not of_bias:
            kinds.add(TensorProto.DataType.Name(kind))
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    bare = [
        node.name or node.output[0]
        for node in convolutions
        if not all(_is_dequantized(name, maker) for name in node.input[:2])
    ]
    weights = {name for node in graph.node if node.op_type in _LAYERS for name in node.input[1:]}
    constants = [
        node.input[0]
        for node in pairs
        if node.op_type == "DequantizeLinear"
        and node.input[0] in held
        and not weights.intersection(node.output)
    ]
    whole = sum(
        int(np.prod(one.dims)) for one in graph.initializer if one.data_type == TensorProto.INT8
    )
    return {
        "pairs": len(pairs),
        "kinds": sorted(kinds),
        "shifted": sorted(set(shifted)),
        "biases": sorted(biases),
        "bare": bare,
        "layers": len(convolutions),
        "whole": whole,
        "constants": sorted(constants),
    }


def _is_dequantized(name: str, maker: dict[str, Any]) -> bool:
    node = maker.get(name)
    return node is not None and node.op_type == "DequantizeLinear"


def _biases(graph: Any, maker: dict[str, Any]) -> set[str]:
    """The biases of layers that come out of a DequantizeLinear."""
    layers = (node for node in graph.node if node.op_type in ("Conv", "Gemm"))
    names = {node.input[2] for node in layers if len(node.input) > 2}
    return {name for name in names if _is_dequantized(name, maker)}
