"""Which step of an ensemble is slow, and does it batch?   python steps.py ENSEMBLE SECONDS

It compares what the server has counted before and after these seconds, under your clients' load.
"""

import os
import sys
import time

import numpy as np
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
config = client.get_model_config(sys.argv[1], as_json=True)["config"]
steps = [step["model_name"] for step in config["ensemble_scheduling"]["step"]]


def counted(model):
    """Rows, executions, requests; nanoseconds in the queue, and of computation, of all requests."""
    stats = client.get_inference_statistics(model, as_json=True)["model_stats"][-1]
    times = stats["inference_stats"]
    found = [stats.get("inference_count", 0), stats.get("execution_count", 0)]
    found += [times["success"].get("count", 0)]
    found += [times[part].get("ns", 0) for part in ("queue", "compute_infer")]
    return np.array([float(number) for number in found])


before = [counted(model) for model in steps]
time.sleep(float(sys.argv[2]))
for model, start in zip(steps, before, strict=True):
    rows, executions, requests, waited, computed = counted(model) - start
    per_request = np.array([waited, computed]) / max(requests, 1) / 1e6
    print(f"{model:20} {rows:.0f} rows, {rows / max(executions, 1):.1f} per execution;", end=" ")
    print("a request waited {:.1f} ms, and was computed in {:.1f} ms".format(*per_request))
