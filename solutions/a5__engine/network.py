"""The network of a student of a5__engine: it reads a digit from a picture of 12 bits.

Each picture is normalized first: its mean becomes 0, its standard deviation 1. Four convolutions
follow, with Mish(x) = x * tanh(ln(1 + e^x)) as activation, and a linear layer. The weights of the
convolutions are drawn by the id. The linear layer is fitted to pictures of digits (ridge
regression), so the network reads 96 of 100 right, and nothing has to be trained.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from grader.vocabulary import own
from grader.vocabulary.probe import Array
from workbook.zoo import data

from . import facts

#: For each convolution: channels in, channels out, and the side of the pooling after it (1: none).
LAYERS = ((1, 16, 1), (16, 32, 2), (32, 64, 2), (64, 64, 4))
#: How many numbers leave the last pooling.
FEATURES = 64 * 2 * 2
#: The operators in a row, from the picture to the logits: each rounds once.
DEPTH = 25
#: The most products in a sum: 64 channels of 3 x 3 pixels.
TERMS = 576
#: The pictures that the linear layer is fitted to, the logit of the right digit, and the ridge, as
#: a share of the mean variance of a feature.
_FITTED, _RIGHT, _RIDGE = 800, 10.0, 0.1
#: Pictures computed at once.
_AT_ONCE = 32


@dataclasses.dataclass(frozen=True)
class Network:
    """A network: its weights by name, and its ONNX file in fp32.

    Attributes:
        weights: float32 arrays, `conv0.weight`, `conv0.bias` and so on, `head.weight`, `head.bias`.
        file: the content of the ONNX file: image (n, 1, 32, 32) → logits (n, 10), opset 18.
    """

    weights: dict[str, Array]
    file: bytes

    def logits(self, pictures: Array) -> Array:
        """What the network answers in fp32: float64, (n, 10)."""
        return _run(self.file, pictures)


def own_network(me: str = own.DEFAULT) -> Network:
    """The network of one student; the same id gives the same network.

    Raises:
        Failure: `me` is no id.
    """
    return _network(own.name(me))


@functools.lru_cache(maxsize=4)
def _network(me: str) -> Network:
    random = own.generator(me, "a5.network")
    weights: dict[str, Array] = {}
    for place, (before, after, _) in enumerate(LAYERS):
        drawn = random.normal(0.0, np.sqrt(2 / (9 * before)), (after, before, 3, 3))
        weights[f"conv{place}.weight"] = drawn.astype(np.float32)
        weights[f"conv{place}.bias"] = random.normal(0.0, 0.1, after).astype(np.float32)
    clean = data.digits()
    chosen = random.permutation(len(clean.x_train))[:_FITTED]
    features = _run(_model(weights), facts.expose(clean.x_train[chosen], random))
    weights["head.weight"], weights["head.bias"] = _fit(features, clean.y_train[chosen])
    return Network(weights, _model(weights))


def _fit(features: Array, digits: Array) -> tuple[Array, Array]:
    """Ridge regression from features (n, 256) to ten logits: weight (10, 256) and bias (10,)."""
    wanted = _RIGHT * np.eye(facts.CLASSES)[digits]
    middle, mean = features.mean(0), wanted.mean(0)
    centred = features - middle
    covariance = centred.T @ centred / len(centred)
    ridge = _RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    slope = np.linalg.solve(covariance + ridge, centred.T @ (wanted - mean) / len(centred))
    return slope.T.astype(np.float32), (mean - middle @ slope).astype(np.float32)


def _model(weights: dict[str, Array]) -> bytes:
    """The ONNX file of a network; without the weights of `head` it answers the features."""
    from onnx import TensorProto, helper, numpy_helper

    is_whole = "head.weight" in weights
    constants = {"axes": np.array([1, 2, 3], np.int64), "epsilon": np.float32(1), **weights}
    nodes = _normalization(helper)
    last = "normal"
    for place, (_, _, side) in enumerate(LAYERS):
        names = [last, f"conv{place}.weight", f"conv{place}.bias"]
        made = [f"conv{place}", f"soft{place}", f"tanh{place}", f"mish{place}"]
        nodes += [
            helper.make_node("Conv", names, made[:1], name=made[0], pads=[1] * 4),
            helper.make_node("Softplus", made[:1], made[1:2], name=f"mish{place}.softplus"),
            helper.make_node("Tanh", made[1:2], made[2:3], name=f"mish{place}.tanh"),
            helper.make_node("Mul", [made[0], made[2]], made[3:], name=f"mish{place}.mul"),
        ]
        last = made[3]
        if side > 1:
            kind = "MaxPool" if place < len(LAYERS) - 1 else "AveragePool"
            size = {"kernel_shape": [side, side], "strides": [side, side]}
            pool = f"pool{place}"
            nodes.append(helper.make_node(kind, [last], [pool], name=pool, **size))
            last = pool
    nodes.append(helper.make_node("Flatten", [last], ["features"], name="flatten"))
    out, count = "features", FEATURES
    if is_whole:
        out, count = facts.OUTPUT, facts.CLASSES
        head = ["features", "head.weight", "head.bias"]
        nodes.append(helper.make_node("Gemm", head, [out], name="head", transB=1))
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info(facts.INPUT, kind, ["batch", *facts.PICTURE])],
        [helper.make_tensor_value_info(out, kind, ["batch", count])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(model.SerializeToString(deterministic=True))


def _normalization(helper: Any) -> list[Any]:
    """The operators that take a picture's mean away and divide by its standard deviation."""
    steps = (
        ("mean", "ReduceMean", [facts.INPUT, "axes"], "mean"),
        ("sub", "Sub", [facts.INPUT, "mean"], "centred"),
        ("square", "Mul", ["centred", "centred"], "squared"),
        ("variance", "ReduceMean", ["squared", "axes"], "variance"),
        ("add", "Add", ["variance", "epsilon"], "above_zero"),
        ("sqrt", "Sqrt", ["above_zero"], "deviation"),
        ("div", "Div", ["centred", "deviation"], "normal"),
    )
    return [
        helper.make_node(kind, inputs, [output], name=f"normalize.{name}")
        for name, kind, inputs, output in steps
    ]


def _run(file: bytes, pictures: Array) -> Array:
    """The answers of a trusted file, computed with one thread: float64."""
    session = _session(file)
    parts = [
        session.run(None, {facts.INPUT: pictures[start : start + _AT_ONCE]})[0]
        for start in range(0, len(pictures), _AT_ONCE)
    ]
    joined: Array = np.concatenate(parts).astype(np.float64)
    return joined


@functools.lru_cache(maxsize=4)
def _session(file: bytes) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
