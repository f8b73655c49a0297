"""Does Triton answer as an ONNX file does, with 1, 2 and 8 rows?

    python check_onnx.py MODEL REPOSITORY

The first dimension of each tensor is the batch; other free dimensions become 16.
"""

import os
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import tritonclient.grpc as grpc
from tritonclient.utils import np_to_triton_dtype

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def inputs(session, rows):
    """Random numbers from 1 to 2 for each input; whole numbers are 1."""
    for tensor in session.get_inputs():
        shape = [rows, *(size if isinstance(size, int) else 16 for size in tensor.shape[1:])]
        yield tensor.name, (1 + np.random.random(shape)).astype(TYPES[tensor.type])


def main(model, repository):
    client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
    file = sorted(Path(repository, model).glob("*/model.onnx"))[-1]
    session = ort.InferenceSession(file)
    for rows in (1, 2, 8):
        given, sent = dict(inputs(session, rows)), []
        for name, array in given.items():
            sent.append(grpc.InferInput(name, array.shape, np_to_triton_dtype(array.dtype)))
            sent[-1].set_data_from_numpy(array)
        answer = client.infer(model, sent)
        for output, own in zip(session.get_outputs(), session.run(None, given)):
            apart = np.abs(answer.as_numpy(output.name) - own).max()
            print(f"{rows} rows: {output.name} {list(own.shape)} differs by {apart:.0e} at most")


if __name__ == "__main__":
    main(*sys.argv[1:])
