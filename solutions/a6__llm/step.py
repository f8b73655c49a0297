"""One step of a student's Llama as an ONNX file: tokens in, scores of the next token out.

It has the tensors of the course's `llama_onnx`, and one more: the positions of the tokens. The
graph is written here node by node, since an export with torch takes twenty seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from grader.vocabulary import own
from grader.vocabulary.probe import Array
from workbook.zoo import small_llama as llama

from . import network

_OPSET, _IR = 18, 10
#: Added to the scores of what a token must not see. With -inf, the softmax of a padding row, which
#: sees nothing, would be NaN.
_NEVER = -1e30


class _Graph:
    """Collects nodes and constants; each method returns the name of what it adds."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}

    def do(self, kind: str, *inputs: str, outputs: int = 1, name: str = "", **more: Any) -> Any:
        """A node; returns its output's name, or a list of several."""
        from onnx import helper

        base = name or f"{kind.lower()}_{len(self.nodes)}"
        names = [base] if outputs == 1 else [f"{base}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **more))
        return names[0] if outputs == 1 else names

    def keep(self, value: Any, name: str = "") -> str:
        """A constant; int64 unless it is an array of another type."""
        array = np.asarray(value)
        array = array.astype(np.int64) if array.dtype.kind == "i" else array
        name = name or f"constant_{len(self.constants)}"
        self.constants[name] = array
        return name

    def number(self, value: float) -> str:
        return self.keep(np.float32(value))


def write(me: str, path: Path) -> None:
    """Write the step of a student's network.

    Inputs: `input_ids` (n, new) int64; `position_ids` (n, new) int64; `attention_mask`
    (n, before + new) int64, 0 for padding; `past` (n, 8, 2, before, 64) float32: keys and values of
    the four layers. Outputs: `logits` (n, 1024) of the last token; `present`, the cache with the
    new tokens in it.

    Args:
        me: the student's id.
        path: the file.

    Raises:
        Failure: `me` is no id.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = _Graph()
    _build(graph, network.weights(own.name(me)))
    cache = ["n", 2 * llama.LAYERS, llama.HEADS]

    def tensor(name: str, kind: int, shape: list[Any]) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    whole, real = TensorProto.INT64, TensorProto.FLOAT
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "llama_step",
            [
                tensor("input_ids", whole, ["n", "new"]),
                tensor("position_ids", whole, ["n", "new"]),
                tensor("attention_mask", whole, ["n", "total"]),
                tensor("past", real, [*cache, "before", llama.HEAD]),
            ],
            [
                tensor("logits", real, ["n", llama.VOCABULARY]),
                tensor("present", real, [*cache, "total", llama.HEAD]),
            ],
            [numpy_helper.from_array(value, name) for name, value in graph.constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR,
    )
    onnx.save(model, path)


def _build(graph: _Graph, weights: dict[str, Array]) -> None:
    """The graph's nodes, from its inputs to its outputs."""
    do, keep = graph.do, graph.keep
    cos, sin = (
        do("Unsqueeze", do("Gather", keep(table), "position_ids"), keep([1]))
        for table in network.angles()
    )
    bias = _bias(graph)
    past = do("Split", "past", outputs=2 * llama.LAYERS, axis=1, num_outputs=2 * llama.LAYERS)
    table = keep(weights["model.embed_tokens.weight"])
    x = do("Gather", table, "input_ids")
    present = []
    for layer in range(llama.LAYERS):
        at = f"model.layers.{layer}."
        linear = {name: value for name, value in weights.items() if name.startswith(at)}
        y = _norm(graph, x, linear[f"{at}input_layernorm.weight"])
        q, k, v = (
            do("Transpose", do("Reshape", _times(graph, y, linear[name]), apart), perm=[0, 2, 1, 3])
            for apart in [keep([0, 0, llama.HEADS, llama.HEAD])]
            for name in (f"{at}self_attn.{letter}_proj.weight" for letter in "qkv")
        )
        q, k = _rotate(graph, q, cos, sin), _rotate(graph, k, cos, sin)
        both = []
        for old, new in ((past[2 * layer], k), (past[2 * layer + 1], v)):
            joined = do("Concat", do("Squeeze", old, keep([1])), new, axis=2)
            present.append(do("Unsqueeze", joined, keep([1])))
            both.append(joined)
        k, v = both
        scores = do("MatMul", q, do("Transpose", k, perm=[0, 1, 3, 2]))
        scores = do("Add", do("Mul", scores, graph.number(llama.HEAD**-0.5)), bias)
        y = do("MatMul", do("Softmax", scores, axis=-1), v)
        y = do("Reshape", do("Transpose", y, perm=[0, 2, 1, 3]), keep([0, 0, llama.HIDDEN]))
        x = do("Add", x, _times(graph, y, linear[f"{at}self_attn.o_proj.weight"]))
        y = _norm(graph, x, linear[f"{at}post_attention_layernorm.weight"])
        gate = _times(graph, y, linear[f"{at}mlp.gate_proj.weight"])
        gate = do("Mul", gate, do("Sigmoid", gate))
        y = do("Mul", gate, _times(graph, y, linear[f"{at}mlp.up_proj.weight"]))
        x = do("Add", x, _times(graph, y, linear[f"{at}mlp.down_proj.weight"]))
    last = do("Gather", x, keep(np.int64(-1)), axis=1)
    last = _norm(graph, last, weights["model.norm.weight"])
    do("MatMul", last, do("Transpose", table, perm=[1, 0]), name="logits")
    do("Concat", *present, axis=1, name="present")


def _bias(graph: _Graph) -> str:
    """0 where a token may look, else a very small number; shape (n, 1, new, total)."""
    do, keep = graph.do, graph.keep
    new = do("Shape", "input_ids", start=1, end=2)
    total = do("Shape", "attention_mask", start=1, end=2)
    number = do("Squeeze", total, keep([0]))
    order = do("Range", keep(np.int64(0)), number, keep(np.int64(1)))
    mine = do("Unsqueeze", do("Slice", order, do("Sub", total, new), total), keep([1]))
    seen = do("LessOrEqual", do("Unsqueeze", order, keep([0])), mine)
    real = do("Greater", do("Unsqueeze", "attention_mask", keep([1, 2])), keep(np.int64(0)))
    allowed = do("And", do("Unsqueeze", seen, keep([0, 1])), real)
    return str(do("Where", allowed, graph.number(0.0), graph.number(_NEVER)))


def _norm(graph: _Graph, x: str, weight: Array) -> str:
    do = graph.do
    mean = do("ReduceMean", do("Mul", x, x), graph.keep([-1]), keepdims=1)
    root = do("Sqrt", do("Add", mean, graph.number(llama.EPSILON)))
    return str(do("Mul", do("Div", x, root), graph.keep(weight)))


def _times(graph: _Graph, x: str, weight: Array) -> str:
    """A linear layer; torch stores its weights as (out, in)."""
    return str(graph.do("MatMul", x, graph.keep(np.ascontiguousarray(weight.T))))


def _rotate(graph: _Graph, x: str, cos: str, sin: str) -> str:
    do = graph.do
    first, second = do("Split", x, outputs=2, axis=-1, num_outputs=2)
    other = do("Concat", do("Neg", second), first, axis=-1)
    return str(do("Add", do("Mul", x, cos), do("Mul", other, sin)))
