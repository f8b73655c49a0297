"""What ONNX Runtime makes of your model: python compiled.py MODEL.onnx

Prints the operators before and after each level of optimization, and the time of a call. Inputs
with free dimensions get the size 1; give your own inputs instead if your model needs others.
"""

import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

file = Path(sys.argv[1])
kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
print(f"{'as exported':12}", dict(Counter(node.op_type for node in onnx.load(file).graph.node)))
for level in ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL"):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.optimized_model_filepath = str(file.with_suffix(f".{level}.onnx"))
    began = time.perf_counter()
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    load = time.perf_counter() - began
    inputs = {}
    for given in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in given.shape]
        inputs[given.name] = np.ones(shape, kinds[given.type])
    times = []
    for _ in range(50):
        began = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - began)
    nodes = Counter(node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node)
    print(
        f"{level:15} load {load:.2f} s, fastest of 50 calls {1000 * min(times):.2f} ms", dict(nodes)
    )
