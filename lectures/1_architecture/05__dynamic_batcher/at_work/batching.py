"""Does batching pay for a model? Throughput, latency and batch size, as the load grows.

    python batching.py MODEL

The model's config has `dynamic_batching { }`. perf_analyzer is in NVIDIA's SDK container.
"""

import csv
import os
import subprocess
import sys
import time
from pathlib import Path

import tritonclient.grpc as grpc

ADDRESS = os.environ.get("TRITON_GRPC", "localhost:8001")


def counts(client, model):
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics(model).model_stats[0]
    return stats.inference_count, stats.execution_count


def main(model, report="/dev/shm/batching.csv"):
    client = grpc.InferenceServerClient(ADDRESS)
    for waiting in (1, 4, 16, 64):
        rows, executions = counts(client, model)
        command = f"perf_analyzer -m {model} -i grpc -u {ADDRESS} -p 500 -s 100 -r 20 -f {report}"
        arguments = [*command.split(), "--concurrency-range", str(waiting)]
        subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
        later, more = counts(client, model)
        row = next(csv.DictReader(Path(report).read_text().splitlines()))
        print(
            f"{waiting:3} under way: {float(row['Inferences/Second']):6.0f} per second,"
            f" p99 {float(row['p99 latency']) / 1000:6.1f} ms,"
            f" {(later - rows) / (more - executions):.1f} rows per execution"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
