"""What does the network cost? One request over HTTP, over gRPC, and inside this process.

    python ways.py MODEL [REPOSITORY]

For the last way, run it in NVIDIA's container, which has the package `tritonserver`.
"""

import importlib.util
import os
import sys
import time

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.utils import triton_to_np_dtype

HTTP = os.environ.get("TRITON_HTTP", "localhost:8000")
GRPC = os.environ.get("TRITON_GRPC", "localhost:8001")


def over(kind, address, model, arrays):
    client, inputs = kind.InferenceServerClient(address), []
    for name, (array, datatype) in arrays.items():
        inputs.append(kind.InferInput(name, array.shape, datatype).set_data_from_numpy(array))
    return lambda: client.infer(model, inputs)


def inside(model, repository, arrays):
    import tritonserver

    server = tritonserver.Server(model_repository=repository).start(wait_until_ready=True)
    inputs = {name: array for name, (array, _) in arrays.items()}
    return lambda: list(server.model(model).infer(inputs=inputs))


def main(model, repository="/models"):
    arrays = {}
    for entry in http.InferenceServerClient(HTTP).get_model_metadata(model)["inputs"]:
        shape, kind = [max(1, size) for size in entry["shape"]], entry["datatype"]
        arrays[entry["name"]] = np.zeros(shape, triton_to_np_dtype(kind)), kind
    ways = {"HTTP": over(http, HTTP, model, arrays), "gRPC": over(grpc, GRPC, model, arrays)}
    if importlib.util.find_spec("tritonserver"):
        ways["in this process"] = inside(model, repository, arrays)
    for name, ask in ways.items():
        took = [time.perf_counter()]
        took += [ask() and time.perf_counter() for _ in range(300)]
        print(f"{name:15} {1000 * np.quantile(np.diff(took), 0.05):.2f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
