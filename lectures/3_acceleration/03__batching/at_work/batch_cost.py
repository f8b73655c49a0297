"""Does batching pay for a model? python batch_cost.py MODEL

Sends batches of 1, 2, 4 … rows, and prints what the server computed. The last column is the most
that batches of this size can gain in compute time. Replace `sample` for real data.
"""

import os
import sys
import time

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import triton_to_np_dtype

model = sys.argv[1]
client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
most = client.get_model_config(model).config.max_batch_size
about = client.get_model_metadata(model).inputs


def sample(tensor, rows):
    shape = [rows] + [1 if size < 0 else size for size in tensor.shape[1:]]
    array = np.ones(shape, triton_to_np_dtype(tensor.datatype))
    return grpc.InferInput(tensor.name, shape, tensor.datatype).set_data_from_numpy(array)


def computed(rows):
    """Milliseconds and executions of batches with this many rows, since the model was loaded."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered
    stats = client.get_inference_statistics(model).model_stats[0].batch_stats
    found = [each.compute_infer for each in stats if each.batch_size == rows]
    return sum(each.ns for each in found) / 1e6, sum(each.count for each in found)


print("rows   ms per execution   ms per row   gain")
first = None
for rows in [2**power for power in range(16) if 2**power <= most]:
    inputs = [sample(tensor, rows) for tensor in about]
    client.infer(model, inputs)  # warm-up
    before = computed(rows)
    for _ in range(20):
        client.infer(model, inputs)
    ms, executions = np.subtract(computed(rows), before)
    each = ms / executions / rows
    first = first or each
    print(f"{rows:4} {each * rows:18.2f} {each:12.2f} {first / each:6.1f}")
