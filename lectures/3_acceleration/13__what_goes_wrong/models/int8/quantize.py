"""Makes 1/model.onnx of this folder, in int8, from the network of compiled."""

import logging
from pathlib import Path

import numpy as np
import onnx
from onnxruntime import quantization

HERE = Path(__file__).parent
SOURCE = HERE.parent / "compiled/1/model.onnx"
PICTURES = np.load(HERE.parent / "training.npy")  # uint8 (80, 3, 64, 64), pixels in 0..255


class Calibration(quantization.CalibrationDataReader):
    """The pictures from which the ranges of all numbers are measured."""

    def __init__(self):
        self.batches = iter(np.split(PICTURES.astype(np.float32), 10))

    def get_next(self):
        batch = next(self.batches, None)
        return None if batch is None else {"image": batch}


logging.disable(logging.WARNING)  # the advice to pre-process
last = onnx.load(SOURCE).graph.node[-1].name  # this layer stays in fp32
quantization.quantize_static(
    SOURCE,
    HERE / "1/model.onnx",
    Calibration(),
    per_channel=True,
    reduce_range=True,  # weights in 7 bits: sums fit on processors without VNNI, too
    nodes_to_exclude=[last],
)
