"""Print a vLLM model's answer as it comes.   python stream.py MODEL PROMPT [TOKENS]"""

import json
import os
import queue
import sys
import time

import numpy as np
import tritonclient.grpc as grpc


def text(name, value):
    return grpc.InferInput(name, [1], "BYTES").set_data_from_numpy(np.array([value], object))


def main(model, prompt, tokens=32):
    sampling = {"max_tokens": int(tokens), "temperature": 0}
    inputs = [text("text_input", prompt), text("sampling_parameters", json.dumps(sampling))]
    inputs += [grpc.InferInput("stream", [1], "BOOL").set_data_from_numpy(np.array([True]))]
    pieces, times, final = queue.Queue(), [time.perf_counter()], False
    with grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001")) as client:
        client.start_stream(lambda result, error: pieces.put(error or result))
        client.async_stream_infer(model, inputs)
        while not final:
            piece = pieces.get(timeout=300)
            if isinstance(piece, Exception):
                raise piece
            print(piece.as_numpy("text_output").item().decode(), end="", flush=True)
            times.append(time.perf_counter())
            final = piece.get_response().parameters["triton_final_response"].bool_param
    first, last = times[1] - times[0], times[-1] - times[0]
    print(f"\n\nfirst piece after {1000 * first:.0f} ms, the last of {len(times) - 1}", end=" ")
    print(f"after {1000 * last:.0f} ms")


main(*sys.argv[1:])
