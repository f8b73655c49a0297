"""What each of the 16 clients does: one picture, one request; then it waits for the scores.

    python clients/client.py localhost:8000 service

The clients belong to other people. They stay as they are.
"""

import sys
import time

import numpy as np
from tritonclient import http

PICTURES = 50


def ask(client, model, picture):
    """The ten scores of one picture, uint8 (64, 64, 3)."""
    tensor = http.InferInput("picture", [1, 64, 64, 3], "UINT8")
    tensor.set_data_from_numpy(picture[None])
    wanted = http.InferRequestedOutput("scores")
    return client.infer(model, [tensor], outputs=[wanted]).as_numpy("scores")[0]


def main():
    address, model = sys.argv[1:]
    client = http.InferenceServerClient(address)
    random = np.random.default_rng()
    took = []
    for _ in range(PICTURES):
        picture = random.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        began = time.perf_counter()
        scores = ask(client, model, picture)
        took.append(time.perf_counter() - began)
        print(f"class {scores.argmax()}, score {scores.max():.2f}")
    print(f"{1000 * np.median(took):.1f} ms per picture (median of {PICTURES})")


if __name__ == "__main__":
    main()
