"""What does a model's queue policy do with a burst? Who is served, who is refused, and how soon?

    python burst.py MODEL REQUESTS PER_SECOND

Each request has one row of zeros. Try the burst that you fear before your users send it.
"""

import os
import queue
import sys
import time
from functools import partial

import numpy as np
import pandas as pd
import tritonclient.grpc as grpc
from tritonclient.utils import triton_to_np_dtype

model, count, per_second = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
inputs, answers = [], queue.Queue()
for each in client.get_model_metadata(model).inputs:
    zeros = np.zeros([max(size, 1) for size in each.shape], triton_to_np_dtype(each.datatype))
    inputs.append(grpc.InferInput(each.name, zeros.shape, each.datatype))
    inputs[-1].set_data_from_numpy(zeros)


def keep(sent, result, error):
    outcome = error.message().split("] ")[-1] if error else "served"
    answers.put((outcome, 1000 * (time.perf_counter() - sent)))


for _ in range(count):
    client.async_infer(model, inputs, partial(keep, time.perf_counter()))
    time.sleep(1 / per_second)
table = pd.DataFrame([answers.get() for _ in range(count)], columns=["outcome", "ms"])
print(table.groupby("outcome")["ms"].agg(["count", "median", "max"]).round().rename_axis(model))
