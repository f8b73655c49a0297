"""How busy a program keeps a model's instances: the server's statistics before and after."""

import os
import time
from contextlib import contextmanager

import numpy as np
import tritonclient.grpc as grpc

rows = []  # of a table


def counted(model):
    """Rows of requests, executions, seconds in the queue, and seconds that instances computed."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    with grpc.InferenceServerClient(os.environ["TRITON_GRPC"]) as client:
        stats = client.get_inference_statistics(model).model_stats[0]
    # batch_stats counts an execution once; inference_stats counts it for each of its requests
    computed = sum(batch.compute_infer.ns for batch in stats.batch_stats) / 1e9
    queued = stats.inference_stats.queue.ns / 1e9
    return np.array([stats.inference_count, stats.execution_count, queued, computed])


@contextmanager
def measured(name, model="batched"):
    """Add a row for a block of code; the statistics count since the model was loaded."""
    before, began = counted(model), time.perf_counter()
    yield
    s = time.perf_counter() - began
    n, executions, queued, computing = counted(model) - before
    row = {"per s": n / s, "busy instances": computing / s, "ms per picture": 1000 * computing / n}
    rows.append({"client": name, **row, "queue ms": 1000 * queued / n, "batch": n / executions})
