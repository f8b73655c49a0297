"""Compute an ONNX file in the types that it states: fp16 where it says fp16, as a GPU does.

    from grader.assignments.a5__engine.half import in_half
    logits = in_half("fp16.onnx", camera.pictures[:8])

On most CPUs ONNX Runtime turns fp16 back into fp32 when it loads a file. So what is too large for
fp16 is not seen there. ONNX's own reference computes each operator in its type. It is slow: 0.1 to
0.3 s for each picture, and after 30 s it is stopped. A mean is the exception: here its sum is taken
in fp32, so only what lies between two operators has to fit into fp16. Not verified on a GPU.

A file is a student's. Only operators of `_KNOWN` are computed: none of them runs a part of the file
in a loop.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from grader.vocabulary import onnx_file, untrusted
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array

from . import facts

#: The operators that are computed here.
_NAMES = (
    "Abs Add AveragePool Cast Clip Concat Constant Conv Div Dropout Exp Flatten Gemm "
    "GlobalAveragePool Identity InstanceNormalization LayerNormalization Log MatMul Max MaxPool "
    "Min Mish Mul Neg Pow Reciprocal ReduceMean ReduceSum ReduceSumSquare Reshape Shape Slice "
    "Softplus Sqrt Squeeze Sub Sum Tanh Transpose Unsqueeze"
)
_KNOWN = frozenset(_NAMES.split())
#: Types into which a `Cast` may turn numbers: whole numbers could become shapes.
_TYPES = ("FLOAT", "FLOAT16", "DOUBLE")
#: The most operators of a file. The network has 31, and some Casts.
_MOST = 200
#: For more pictures than these the time may not be enough.
_MANY = 32
_SLOW = "Each picture takes 0.1 to 0.3 s here: give in_half four of them."
_AGAIN = "Convert network.onnx again. onnx.checker.check_model(path) finds what does not fit."


def in_half(path: str | Path, pictures: Array) -> Array:
    """The logits of some pictures, each operator computed in the type that the file states.

    Args:
        path: of the ONNX file.
        pictures: counts, (n, 1, 32, 32). Few: each takes 0.1 to 0.3 s.

    Returns:
        float64, (n, 10). Numbers that are too large for their type are infinite, and `nan` is what
        comes of computing with these.

    Raises:
        Failure: the file cannot be computed.
    """
    return logits(Path(path).read_bytes(), str(path), pictures)


def logits(file: bytes, where: str, pictures: Array) -> Array:
    """The same from the content of a file.

    Args:
        file: the content.
        where: its name, for messages.
        pictures: counts, (n, 1, 32, 32).

    Raises:
        Failure: it holds an operator that is not computed here, or cannot be computed.
    """
    import onnx.reference  # noqa: F401  # before the fork

    found: Array = untrusted.read(
        where,
        lambda: {"logits": _compute(onnx_file.graph(file, where), where, pictures)},
        help=_AGAIN if len(pictures) <= _MANY else _SLOW,
    )["logits"]
    if found.shape != (len(pictures), facts.CLASSES):
        raise Failure(
            f"{where} gives logits of the shape {list(found.shape)} for {len(pictures)} pictures; "
            f"{facts.CLASSES} for each are wanted.",
            help=_AGAIN,
        )
    return found.astype(np.float64)


def _compute(file: Any, where: str, pictures: Array) -> Array:
    """The same from an `onnx.ModelProto`. Called in the limited process."""
    from onnx import TensorProto
    from onnx.reference import ReferenceEvaluator

    for node in file.graph.node:
        to = next((a.i for a in node.attribute if a.name == "to"), TensorProto.FLOAT)
        is_cast = TensorProto.DataType.Name(to) in _TYPES
        if node.domain or node.op_type not in _KNOWN or not is_cast:
            raise Failure(
                f"{where} holds the operator {node.op_type[:40]}, which this check cannot compute "
                "in fp16.",
                help="The converter adds Cast, and no other operator.",
            )
    if len(file.graph.node) > _MOST:
        raise Failure(f"{where} holds {len(file.graph.node)} operators.", help=_AGAIN)
    try:
        with np.errstate(all="ignore"):  # what leaves fp16's range becomes infinite
            reference = ReferenceEvaluator(file, new_ops=[_reduce_mean()])
            (found,) = reference.run([facts.OUTPUT], {facts.INPUT: pictures})
    except MemoryError:
        raise
    except Exception as error:  # whatever a file of a student's makes the reference raise
        what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise Failure(f"{where} cannot be computed in fp16: {what}.", help=_AGAIN) from None
    return np.asarray(found)


def _reduce_mean() -> Any:
    """ReduceMean for ONNX's reference, which would add numbers of fp16 in fp16."""
    from onnx.reference.op_run import OpRun

    class ReduceMean(OpRun):  # type: ignore[misc]
        op_domain = ""

        def _run(self, data: Array, axes: Any = None, keepdims: int = 1, **_: Any) -> Any:
            over = None if axes is None else tuple(int(axis) for axis in np.ravel(axes))
            found = np.mean(data.astype(np.float32), axis=over, keepdims=bool(keepdims))
            return (np.asarray(found, dtype=data.dtype),)

    return ReduceMean
