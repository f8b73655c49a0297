"""Measure a model in several settings: python sweep.py MODEL SETTINGS.csv OUT.csv

SETTINGS.csv has the columns instances, threads, batch, delay_ms, clients. The server loads each
setting as a config that is sent with the load command: no file changes. All are measured twice.
"""

import json
import os
import subprocess
import sys

import pandas as pd
import tritonclient.grpc as grpc

PERF = ["perf_analyzer", "-i", "grpc", "--input-data", "zero", "--verbose-csv"]
PERF += ["-p", "300", "-s", "1e6", "-r", "3"]  # three windows of 300 ms, whatever their spread


def load_setting(server, model, instances, threads, batch, delay_ms):
    config = server.get_model_config(model, as_json=True)["config"]
    config["max_batch_size"] = batch
    config["instance_group"] = [{"kind": "KIND_CPU", "count": instances}]
    config["dynamic_batching"] = {"max_queue_delay_microseconds": 1000 * delay_ms}
    config["parameters"]["intra_op_thread_count"] = {"string_value": str(threads)}
    server.load_model(model, config=json.dumps(config))


def executions(server, model):
    """For each size of a batch: how many executions there were, and their milliseconds."""
    stats = server.get_inference_statistics(model, as_json=True)["model_stats"][0]
    parts, rows = ("compute_input", "compute_infer", "compute_output"), {}
    for size in stats.get("batch_stats", []):
        ms = sum(int(size[part].get("ns", 0)) for part in parts) / 1e6
        rows[int(size["batch_size"])] = int(size["compute_infer"]["count"]), ms
    return pd.DataFrame.from_dict(rows, orient="index", columns=["count", "ms"])


def main(model, settings, out):
    address, table, rows = os.environ["TRITON_GRPC"], pd.read_csv(settings), []
    server = grpc.InferenceServerClient(address)
    for setting in [*table.itertuples(index=False)] * 2:
        load_setting(server, model, *map(int, setting[:4]))
        load = ["-m", model, "-u", address, "--concurrency-range", str(setting.clients), "-f", out]
        before = executions(server, model)
        subprocess.run(PERF + load, check=True, stdout=subprocess.DEVNULL, timeout=60)
        done = executions(server, model).sub(before, fill_value=0).query("count > 0")
        rows.append(setting._asdict() | dict(pd.read_csv(out).iloc[0]) | {"done": done.to_json()})
    pd.DataFrame(rows).to_csv(out, index=False)
    server.unload_model(model)  # a load alone keeps the last setting: no file has changed
    server.load_model(model)


if __name__ == "__main__":
    main(*sys.argv[1:])
