"""Does a model answer? Sends it zeros of the right shapes, over HTTP and over gRPC.

    python smoke.py MODEL

Run it after each deployment: it ends with an error if the model does not answer.
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


def zeros(api, tensor):
    """An input of zeros. A dimension of any size, -1 in the metadata, becomes 1."""
    shape = [max(1, size) for size in tensor["shape"]]
    data = np.zeros(shape, triton_to_np_dtype(tensor["datatype"]))
    return api.InferInput(tensor["name"], shape, tensor["datatype"]).set_data_from_numpy(data)


def main(model):
    about = http.InferenceServerClient(HTTP).get_model_metadata(model)
    for api, address in ((http, HTTP), (grpc, GRPC)):
        client = api.InferenceServerClient(address)
        began = time.perf_counter()
        answer = client.infer(model, [zeros(api, tensor) for tensor in about["inputs"]])
        ms = 1000 * (time.perf_counter() - began)
        shapes = {out["name"]: answer.as_numpy(out["name"]).shape for out in about["outputs"]}
        print(f"{api.__name__}: {shapes} after {ms:.1f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
