"""Do two served models give the same verdicts?   python same_verdicts.py ONE OTHER INPUTS.npy

INPUTS.npy has one input per row. Both models have one output: two or more logits per input.
"""

import os
import sys

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import np_to_triton_dtype

client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))


def logits(model, inputs):
    about, found = client.get_model_metadata(model), []
    for start in range(0, len(inputs), 8):
        batch = inputs[start : start + 8]
        tensor = grpc.InferInput(about.inputs[0].name, batch.shape, np_to_triton_dtype(batch.dtype))
        tensor.set_data_from_numpy(batch)
        found.append(client.infer(model, [tensor]).as_numpy(about.outputs[0].name))
    return np.concatenate(found)


one, other = (logits(model, np.load(sys.argv[3])) for model in sys.argv[1:3])
changed = one.argmax(1) != other.argmax(1)
lead = np.diff(np.sort(one, axis=1)[:, -2:]).ravel()  # of the best logit over the second best
print(f"logits differ by up to {abs(one - other).max():.2g}")
print(f"{changed.sum()} of {len(one)} verdicts changed: {np.flatnonzero(changed)[:20].tolist()}")
print(f"their lead was at most {lead[changed].max(initial=0):.2g}")
print(f"{(lead < 2 * abs(one - other).max()).sum()} inputs are near enough to change")
