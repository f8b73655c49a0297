"""Latencies of a model at a request rate: python open_loop.py MODEL RATE SECONDS

Requests are sent at random times, as users come, whether or not earlier ones are answered. A
latency counts from the planned time. For one input; replace `sample` for real data.
"""

import os
import queue
import random
import sys
import time

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import triton_to_np_dtype

model, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
about = client.get_model_metadata(model).inputs[0]
shape = [1 if size < 0 else size for size in about.shape]
sample = np.ones(shape, triton_to_np_dtype(about.datatype))
tensor = grpc.InferInput(about.name, shape, about.datatype).set_data_from_numpy(sample)
for _ in range(20):  # warm-up
    client.infer(model, [tensor])

latencies, failed = queue.Queue(), []
begin = planned = time.perf_counter()
sent = 0
while planned < begin + seconds:
    time.sleep(max(0, planned - time.perf_counter()))

    def keep(result, error, planned=planned):
        failed.extend([error] if error else [])
        latencies.put(1000 * (time.perf_counter() - planned))

    client.async_infer(model, [tensor], keep)
    sent += 1
    planned += random.expovariate(rate)
found = [latencies.get() for _ in range(sent)]
marks = ", ".join(f"p{p} {np.percentile(found, p):.1f} ms" for p in (50, 95, 99))
print(f"{sent} requests, {len(failed)} failed: {marks}")
