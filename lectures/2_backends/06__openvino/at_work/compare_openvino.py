"""What does OpenVINO change? An ONNX file in ONNX Runtime, in OpenVINO, and a served model.

    python compare_openvino.py FILE.onnx EXAMPLES.npy MODEL

The model has one input and one output: a classifier's scores.
"""

import os
import sys

import numpy as np
import onnxruntime as ort
import openvino as ov
import tritonclient.grpc as grpc


def report(way, scores, expected):
    apart, changed = np.abs(scores - expected).max(), (scores.argmax(1) != expected.argmax(1)).sum()
    print(f"{way:25} differs by {apart:.0e} at most, {changed} of {len(scores)} verdicts changed")


def main(file, examples, model, rows=8):
    x, session = np.load(examples), ort.InferenceSession(file)
    image, scores = session.get_inputs()[0].name, session.get_outputs()[0].name
    expected = session.run(None, {image: x})[0]
    core = ov.Core()
    for precision in ("f32", "default"):
        options = {} if precision == "default" else {"INFERENCE_PRECISION_HINT": precision}
        compiled = core.compile_model(core.read_model(file), "CPU", options)
        report(f"OpenVINO, {precision}", compiled(x)[0], expected)
    client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
    served = []
    for batch in np.split(x, range(rows, len(x), rows)):
        tensor = grpc.InferInput(image, batch.shape, "FP32")
        tensor.set_data_from_numpy(batch)
        served.append(client.infer(model, [tensor]).as_numpy(scores))
    report(f"Triton, {model}", np.concatenate(served), expected)


if __name__ == "__main__":
    main(*sys.argv[1:])
