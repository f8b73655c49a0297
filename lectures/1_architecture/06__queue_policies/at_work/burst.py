"""What does a model's queue policy do with a burst? Who is served, who is refused, and how soon?

    python burst.py MODEL REQUESTS PER_SECOND

Each request has one row of zeros. Try the burst that you fear before your users send it.
"""

import os
import queue
import statistics
import sys
import time
from collections import Counter
from functools import partial

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import triton_to_np_dtype

ADDRESS = os.environ.get("TRITON_GRPC", "localhost:8001")


def main(model, count, per_second):
    client = grpc.InferenceServerClient(ADDRESS)
    inputs, answers = [], queue.Queue()
    for each in client.get_model_metadata(model).inputs:
        zeros = np.zeros([max(size, 1) for size in each.shape], triton_to_np_dtype(each.datatype))
        inputs.append(grpc.InferInput(each.name, zeros.shape, each.datatype))
        inputs[-1].set_data_from_numpy(zeros)

    def keep(sent, result, error):
        ms = 1000 * (time.perf_counter() - sent)
        answers.put((ms, error.message() if error else "served"))

    for _ in range(int(count)):
        client.async_infer(model, inputs, partial(keep, time.perf_counter()))
        time.sleep(1 / float(per_second))
    found = [answers.get() for _ in range(int(count))]
    for what, number in Counter(what for _, what in found).items():
        took = [ms for ms, other in found if other == what]
        print(
            f"{model}: {number} {what}; median {statistics.median(took):.0f} ms,"
            f" longest {max(took):.0f} ms"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
