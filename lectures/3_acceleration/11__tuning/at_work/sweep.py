"""Measure a model in several settings: python sweep.py MODEL SETTINGS.csv OUT.csv

SETTINGS.csv has the columns instances, threads, batch, delay_ms, clients. The server loads each
setting as a config that is sent with the load command, so no file changes. There are two turns.
"""

import json
import os
import subprocess
import sys

import pandas as pd
import tritonclient.grpc as grpc

model, settings, out, report = (
    sys.argv[1],
    pd.read_csv(sys.argv[2]),
    sys.argv[3],
    sys.argv[3] + ".report",
)
client, rows = grpc.InferenceServerClient(os.environ["TRITON_GRPC"]), []
perf = ["perf_analyzer", "-m", model, "-i", "grpc", "-u", os.environ["TRITON_GRPC"]]
perf += ["--input-data", "zero", "-p", "300", "-s", "1e6", "-r", "3", "--verbose-csv", "-f", report]


def load(instances, threads, batch, delay_ms):
    config = client.get_model_config(model, as_json=True)["config"]
    config["max_batch_size"] = batch
    config["instance_group"] = [{"kind": "KIND_CPU", "count": instances}]
    config["dynamic_batching"] = {"max_queue_delay_microseconds": 1000 * delay_ms}
    config["parameters"]["intra_op_thread_count"] = {"string_value": str(threads)}
    given = config["input"][0]  # each instance computes one row of zeros before it is ready
    zeros = {"data_type": given["data_type"], "dims": given["dims"], "zero_data": True}
    warmup = {"name": "zeros", "batch_size": 1, "inputs": {given["name"]: zeros}}
    client.load_model(model, config=json.dumps(config | {"model_warmup": [warmup]}))


def measure(clients):
    load = ["--concurrency-range", str(clients)]
    subprocess.run(perf + load, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return pd.read_csv(report).iloc[0] / 1000  # times in ms


def executions():
    """By their pictures: how many executions there were, and their milliseconds."""
    sizes = client.get_inference_statistics(model, as_json=True)["model_stats"][0]["batch_stats"]
    parts = ("compute_input", "compute_infer", "compute_output")
    ms = [sum(int(size[part].get("ns", 0)) for part in parts) / 1e6 for size in sizes]
    counts = [int(size["compute_infer"]["count"]) for size in sizes]
    names = [int(size["batch_size"]) for size in sizes]
    return pd.DataFrame({"count": counts, "ms": ms}, index=names)


for _turn in (1, 2):
    for setting, loads in settings.groupby(list(settings.columns[:4]), sort=False):
        load(*map(int, setting))
        for clients in loads["clients"]:
            before = executions()
            found = measure(clients)
            done = executions().sub(before, fill_value=0).query("count > 0")
            rows.append(
                dict(zip(settings.columns, (*setting, clients)))
                | {
                    "per_s": 1000 * clients / found["Avg latency"],
                    "p99_ms": found["p99 latency"],
                    "queue_ms": found["Server Queue"],
                    "compute_ms": found["Server Compute Infer"],
                    "pictures": (done.index * done["count"]).sum() / done["count"].sum(),
                    "mean_ms": found["Avg latency"],
                    "server_ms": found.filter(like="Server ").drop("Server Queue").sum(),
                    "executions": done.to_json(),
                }
            )
pd.DataFrame(rows).to_csv(out, index=False)
