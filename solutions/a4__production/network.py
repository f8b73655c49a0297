"""What the network of a4__production answers, computed with numpy from the weights in its file.

The judge has no torch, and needs none: three layers are a page of numpy. In float64 this is the
reference that the answers of PyTorch and of the served models are compared with. With weights or
activations rounded to fp16 it says how far an fp16 model may be from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from grader.vocabulary import state_dict
from grader.vocabulary.probe import Array
from grader.vocabulary.tolerance import Tolerance

#: The tensors of `workbook.zoo.nets.EightsCNN`: for each its shape.
SHAPES: dict[str, tuple[int, ...]] = {
    "features.0.weight": (16, 1, 3, 3),
    "features.0.bias": (16,),
    "features.2.weight": (32, 16, 3, 3),
    "features.2.bias": (32,),
    "head.weight": (2, 32 * 3 * 3),
    "head.bias": (2,),
}
#: The converter to fp16 cuts larger numbers to this one, unless `max_finite_val` says otherwise.
CUT = 10_000.0
#: How many pictures are computed at once, and on how many the effect of rounding is measured.
_AT_ONCE, _TELLING = 500, 500
#: A difference of more than this many times the tolerance is not explained by rounding.
_FAR = 10.0
#: The tolerance is this many times the measured effect: on other pictures, or with sums in another
#: order, rounding may do more.
_MARGIN = 4

Rounding = Callable[[Array], Array]


class Network:
    """The network with the weights of one file.

    Example::

        network = Network.read("pth", pth)
        network.logits(pictures)        # float64, (n, 2)

    Args:
        weights: its tensors, with the names and shapes of `SHAPES`.
    """

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.weights = dict(weights)

    @classmethod
    def read(cls, name: str, value: object) -> Network:
        """The network of a file that a student handed over as its bytes.

        Raises:
            Failure: it is no state dict of this network.
        """
        where = 'Save net.state_dict() with torch.save, and hand over content("eights.pth").'
        return cls(state_dict.read(name, value, SHAPES, help=where))

    def logits(self, pictures: Array) -> Array:
        """The two logits of each picture, without rounding: float64, (n, 2)."""
        return self._compute(pictures, _exact, _exact)

    def in_half(self, pictures: Array, *, everything: bool = False) -> Array:
        """The logits where the weights are fp16: rounded, and cut as the converter does it.

        Args:
            pictures: counts, (n, 1, 8, 8).
            everything: round the counts and each layer's results, too. Hardware with fp16
                arithmetic computes in this way. On most CPUs ONNX Runtime computes in fp32.
        """
        other = _half if everything else _exact
        return self._compute(pictures, lambda held: _half(np.clip(held, -CUT, CUT)), other)

    def rounding(self, pictures: Array) -> Tolerance:
        """How far the logits of two float32 programs with these weights may be apart.

        It is measured: how far float32 is from float64 on some of the pictures, four times.
        """
        some = pictures[:_TELLING]
        off = np.abs(self._compute(some, _single, _single) - self.logits(some)).max(initial=0.0)
        return Tolerance(
            _MARGIN * float(off),
            f"computed in float32 in place of float64, these logits change by up to {off:.1g}, and "
            "sums may be added in another order",
            far=_FAR,
        )

    def _compute(self, pictures: Array, weight: Rounding, result: Rounding) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # fp16 ends at 65,504
            parts = [
                self._compute_some(pictures[start : start + _AT_ONCE], weight, result)
                for start in range(0, len(pictures), _AT_ONCE)
            ]
        return np.concatenate(parts) if parts else np.zeros((0, 2))

    def _compute_some(self, pictures: Array, weight: Rounding, result: Rounding) -> Array:
        held = {name: weight(tensor) for name, tensor in self.weights.items()}
        x = result(pictures)
        x = result(_convolution(x, held["features.0.weight"], held["features.0.bias"]))
        x = np.pad(np.maximum(x, 0), ((0, 0), (0, 0), (1, 1), (1, 1)))
        x = result(_convolution(x, held["features.2.weight"], held["features.2.bias"]))
        n, channels, height, width = x.shape
        x = x.reshape(n, channels, height // 2, 2, width // 2, 2).max(axis=(3, 5))
        x = np.maximum(x, 0).reshape(n, -1)
        return result(x @ held["head.weight"].T + held["head.bias"])


def _convolution(x: Array, weight: Array, bias: Array) -> Array:
    """A 3 x 3 convolution without padding: (n, in, h, w) → (n, out, h - 2, w - 2)."""
    view: Any = np.lib.stride_tricks.sliding_window_view
    windows: Array = view(x, (3, 3), axis=(2, 3))
    n, channels, height, width = windows.shape[:4]
    rows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * height * width, channels * 9)
    found: Array = rows @ weight.reshape(len(weight), -1).T + bias
    turned: Array = found.reshape(n, height, width, -1).transpose(0, 3, 1, 2)
    return turned


def _exact(values: Array) -> Array:
    return values.astype(np.float64)


def _single(values: Array) -> Array:
    return values.astype(np.float32)


def _half(values: Array) -> Array:
    return values.astype(np.float16).astype(np.float64)
