"""Which step of an ensemble is slow, and does it batch?   python steps.py ENSEMBLE

It reads what the server has counted since the models were loaded.
"""

import os
import sys

import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
config = client.get_model_config(sys.argv[1], as_json=True)["config"]
for step in config["ensemble_scheduling"]["step"]:
    name = step["model_name"]
    stats = client.get_inference_statistics(name, as_json=True)["model_stats"][-1]
    rows, executions = (int(stats.get(f"{part}_count", 0)) for part in ("inference", "execution"))
    times = stats["inference_stats"]
    requests = int(times["success"].get("count", 0)) or 1
    waited, took = (int(times[p].get("ns", 0)) / requests / 1e6 for p in ("queue", "compute_infer"))
    print(
        f"{name:20} {rows:5} rows, {rows / (executions or 1):4.1f} per execution;"
        f" a request waited {waited:.2f} ms, and its batch was computed for {took:.2f} ms"
    )
