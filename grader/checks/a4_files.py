"""What the checks of a4__production ask of the ONNX files that the models are served from."""

from __future__ import annotations

import numpy as np

from . import onnx_file
from .a4_network import SHAPES, Network
from .failure import Failure
from .probe import Probe

#: How many numbers a file may hold beside the weights: shapes, the camera's two numbers, a limit.
_MORE = 200
#: How many of them may be fp32 in a file whose weights are fp16.
_SINGLE = 8


def same(server: Probe, model: str, network: Network, type: str) -> None:
    """Fail unless a model's file holds the network's weights, and hardly anything else.

    Args:
        server: the check's probe.
        model: the model's name.
        network: with the student's weights.
        type: the type in which they are to be stored: "FLOAT" or "FLOAT16".
    """
    again = f"Make models/{model}/1/model.onnx from the network of eights.pth, and deploy again."
    held = onnx_file.numbers(server, model, help=again)
    others = [h for h in held if h.is_floating and h.type != type and h.values.size > _SINGLE]
    if others:
        raise Failure(
            f"{model}/1/model.onnx holds {sum(h.values.size for h in others):,} numbers as "
            f"{others[0].type}; its weights should be {type}.",
            help="Is it the file that the task asks for, and deployed after you made it?",
        )
    apart = 2.0**-11 * 1.01 if type == "FLOAT16" else 2.0**-22
    for name, tensor in network.weights.items():
        if not onnx_file.holds(held, type, tensor, apart=apart):
            raise Failure(
                f"{model}/1/model.onnx does not hold {name} of eights.pth.",
                help=f"It is another network, or from before you folded. {again}",
            )
    _no_more(model, held)


def _no_more(model: str, held: list[onnx_file.Numbers]) -> None:
    """Fail if a file holds much beside the network."""
    weights = sum(int(np.prod(shape)) for shape in SHAPES.values())
    if (numbers := onnx_file.count(held)) > weights + _MORE:
        raise Failure(
            f"{model}/1/model.onnx holds {numbers:,} numbers; the network has {weights:,}.",
            help="Export the network alone.",
        )


def all_in_half(server: Probe, model: str) -> None:
    """Fail unless a file's weights are all fp16, and are no more than the network has."""
    held = onnx_file.numbers(server, model, help=f"Save it as models/{model}/1/model.onnx.")
    single = [one for one in held if one.is_floating and one.type != "FLOAT16"]
    if (numbers := onnx_file.count(single)) > _SINGLE:
        raise Failure(
            f"{model}/1/model.onnx holds {numbers:,} numbers as {single[0].type}; at most "
            f"{_SINGLE} may be anything else than FLOAT16.",
            help="The weights of every layer are to be fp16. What else could keep the first layer "
            "from multiplying small weights by large counts?",
        )
    _no_more(model, held)
