"""An ONNX model in int8: python to_int8.py MODEL.onnx INPUTS.npy OUT.onnx

INPUTS.npy has typical inputs, of which 100 are taken. Each layer with weights stays in fp32 once,
so that you see which one costs accuracy. In OUT.onnx, the one that costs most stays in fp32.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime import quantization

source, inputs, out = Path(sys.argv[1]), np.load(sys.argv[2])[:100], Path(sys.argv[3])
options = ort.SessionOptions()
options.log_severity_level = 3


def session(file):
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


name = session(source).get_inputs()[0].name
exact = session(source).run(None, {name: inputs})[0]


class Calibration(quantization.CalibrationDataReader):
    def __init__(self):
        self.batches = iter(np.array_split(inputs, 10))

    def get_next(self):
        batch = next(self.batches, None)
        return None if batch is None else {name: batch}


def drift(keep):
    """Quantize all layers except those in `keep`; return how far the outputs move on average."""
    quantization.quantize_static(
        source, out, Calibration(), per_channel=True, reduce_range=True, nodes_to_exclude=keep
    )
    return float(np.abs(session(out).run(None, {name: inputs})[0] - exact).mean())


layers = [n.name for n in onnx.load(source).graph.node if n.op_type in ("Conv", "Gemm", "MatMul")]
found = {layer: drift([layer]) for layer in layers}
print(f"all layers in int8: {drift([]):.3g}")
print(*(f"{layer} in fp32: {moved:.3g}" for layer, moved in found.items()), sep="\n")
best = min(found, key=found.get)
print(f"{out.name} has {best} in fp32: {drift([best]):.3g}")
