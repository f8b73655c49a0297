"""Compute the logits of an ONNX file of a4__production with real fp16.

On most CPUs ONNX Runtime turns fp16 back into fp32 when it loads a file: it rounds the constants,
and not the numbers between the operators. A GPU rounds those, too. ONNX's own reference computes
each operator in the type that the file states, so here both are rounded, without a GPU.

serving.py compares what a served fp16 model answers (`answers_in_half`). How far it may be from the
reference is measured: `Network.rounding` in network.py.

A file is a student's. Only operators of `_KNOWN` are computed: they run no part of the file in a
loop, and the shapes of what they compute do not depend on numbers in the pictures. A process of its
own computes them, with limits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.vocabulary import onnx_file, untrusted
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array

from . import facts

#: The operators that are computed here.
_NAMES = (
    "Abs Add AveragePool BatchNormalization Cast Clip Concat Constant Conv Div Dropout Exp Flatten "
    "Gather Gemm GlobalAveragePool Identity InstanceNormalization LayerNormalization LeakyRelu Log "
    "MatMul Max MaxPool Mean Min Mul Neg Pow Reciprocal ReduceMax ReduceMean ReduceMin ReduceSum "
    "Relu Reshape Shape Sigmoid Slice Softmax Split Sqrt Squeeze Sub Sum Tanh Transpose "
    "Unsqueeze"
)
_KNOWN = frozenset(_NAMES.split())
#: Types into which a `Cast` may turn numbers: whole numbers could become shapes.
_TYPES = ("FLOAT", "FLOAT16", "DOUBLE")
#: The most operators of a file. The network has seven.
_MOST = 100
_ALONE = (
    "Export the network and your own step alone, convert the file again, and deploy the folder. "
    "onnx.checker.check_model(path) finds what does not fit in a file."
)


def logits(model: str, file: bytes, pictures: Array) -> Array:
    """The logits of some pictures, each operator computed in the type that the file states.

    Args:
        model: the model's name, for messages.
        file: the content of the model's ONNX file.
        pictures: counts, (n, 1, 8, 8); the server has answered to just these.

    Returns:
        float64, (n, 2).

    Raises:
        Failure: the file holds an operator that is not computed here, or cannot be computed.
    """
    import onnx.reference  # noqa: F401  # before the fork

    where = f"{model}/1/model.onnx"
    found: Array = untrusted.read(
        where, lambda: {"logits": _compute(model, onnx_file.graph(file, where), pictures)}
    )["logits"]
    if found.shape != (len(pictures), len(facts.LABELS)):
        raise Failure(
            f"{model}/1/model.onnx gives logits of the shape {list(found.shape)} for "
            f"{len(pictures)} pictures if it is computed in fp16; two for each are wanted.",
            help=_ALONE,
        )
    return found.astype(np.float64)


def _compute(model: str, file: Any, pictures: Array) -> Array:
    """The same from an `onnx.ModelProto`, as the file has it. Called in the limited process."""
    from onnx import TensorProto
    from onnx.reference import ReferenceEvaluator

    _keep_what_is_needed(file.graph)
    for node in file.graph.node:
        to = next((a.i for a in node.attribute if a.name == "to"), TensorProto.FLOAT)
        is_cast = TensorProto.DataType.Name(to) in _TYPES
        if node.domain or node.op_type not in _KNOWN or not is_cast:
            raise Failure(
                f"{model}/1/model.onnx holds the operator {node.op_type[:40]}, which this check "
                "cannot compute in fp16.",
                help="The task needs arithmetic only, such as a sum, a product or a convolution.",
            )
    if len(file.graph.node) > _MOST:
        raise Failure(
            f"{model}/1/model.onnx holds {len(file.graph.node)} operators; at most {_MOST} are "
            "computed here.",
            help=_ALONE,
        )
    try:
        with np.errstate(all="ignore"):  # what leaves fp16's range becomes infinite
            (found,) = ReferenceEvaluator(file).run([facts.OUTPUT], {facts.INPUT: pictures})
    except MemoryError:
        raise
    except Exception as error:  # whatever a file of a student's makes the reference raise
        what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise Failure(
            f"{model}/1/model.onnx cannot be computed in fp16: {what}.", help=_ALONE
        ) from None
    return np.asarray(found)


def _keep_what_is_needed(graph: Any) -> None:
    """Take out of a graph what its logits do not depend on: ONNX Runtime does not compute it."""
    needed, kept = {facts.OUTPUT}, []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    outputs = [one for one in graph.output if one.name == facts.OUTPUT]
    del graph.output[:]
    graph.output.extend(outputs)
