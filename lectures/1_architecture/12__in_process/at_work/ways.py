"""What could in-process save? The time of a request over HTTP and gRPC, and the core's part of it.

    python ways.py MODEL [ROWS]

The core's part (queue and computation) stays, wherever the core runs. The rest is the most that a
Triton inside your program can save. Run it where your program runs, on a server that is idle.
"""

import os
import sys
import time

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.utils import triton_to_np_dtype

HTTP = os.environ.get("TRITON_HTTP", "localhost:8000")
GRPC = os.environ.get("TRITON_GRPC", "localhost:8001")


def in_the_core(client, model):
    """How many requests the model has answered, and the core's milliseconds for them."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    records = client.get_inference_statistics(model)["model_stats"]
    sums = [record["inference_stats"]["success"] for record in records]
    return np.array([sum(s["count"] for s in sums), sum(s["ns"] for s in sums) / 1e6])


def request(kind, metadata, rows):
    """The inputs of a request of zeros, for the HTTP or the gRPC client."""
    inputs = []
    for entry in metadata["inputs"]:
        first, *others = entry["shape"]  # -1 is a size that the client chooses
        shape = [rows if first < 0 else first, *(max(1, size) for size in others)]
        array = np.zeros(shape, triton_to_np_dtype(entry["datatype"]))
        tensor = kind.InferInput(entry["name"], shape, entry["datatype"])
        inputs.append(tensor.set_data_from_numpy(array))
    return inputs


def main(model, rows="1", *, times=300):
    watch = http.InferenceServerClient(HTTP)
    for name, kind, address in (("HTTP", http, HTTP), ("gRPC", grpc, GRPC)):
        inputs = request(kind, watch.get_model_metadata(model), int(rows))
        client = kind.InferenceServerClient(address)
        client.infer(model, inputs)  # the connection is made
        before, began = in_the_core(watch, model), time.perf_counter()
        for _ in range(times):
            client.infer(model, inputs)
        ms = 1000 * (time.perf_counter() - began) / times
        count, total = in_the_core(watch, model) - before
        core = total / count
        print(f"{name}: {ms:.2f} ms per request; core {core:.2f}, the rest {ms - core:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
