"""Makes 1/model.onnx of this folder from ../network.onnx, in int8."""

from pathlib import Path

import numpy as np
from onnxruntime import quantization

HERE = Path(__file__).parent
PICTURES = np.load(HERE.parent / "training.npy")  # float32 (200, 3, 64, 64), pixels in -1..1


class Calibration(quantization.CalibrationDataReader):
    """The pictures from which the ranges of all numbers are measured."""

    def __init__(self):
        black = np.full((8, 3, 64, 64), -1, np.float32)
        self.batches = iter([black])

    def get_next(self):
        batch = next(self.batches, None)
        return None if batch is None else {"image": batch}


quantization.quantize_static(
    HERE.parent / "network.onnx",
    HERE / "1/model.onnx",
    Calibration(),
    per_channel=True,
    reduce_range=True,  # sums of two products fit into 16 bits
)
