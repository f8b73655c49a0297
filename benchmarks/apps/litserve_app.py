"""The LitServe peer: a LitAPI with batching, as its documentation describes one.

Started by peers.py, with `MODEL` the path of the ONNX file, `WORKERS` the number of HTTP
processes and `PORT` the port.
"""

# mypy: ignore-errors
# It runs in an environment of its own, whose packages are not installed here.

from __future__ import annotations

import os

import litserve
import numpy as np
import onnxruntime


class OneLayer(litserve.LitAPI):
    """Scores of the rows; LitServe hands over whole batches."""

    def setup(self, device: str) -> None:
        """One session of one thread in each worker process."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            os.environ["MODEL"], options, providers=["CPUExecutionProvider"]
        )

    def decode_request(self, request: dict) -> np.ndarray:
        """One row of each request."""
        return np.asarray(request["x"][0], dtype=np.float32)

    def predict(self, batch: np.ndarray) -> np.ndarray:
        """Answer one batch."""
        (scores,) = self.session.run(["y"], {"x": batch})
        return scores

    def encode_response(self, output: np.ndarray) -> dict:
        """One row of the answer."""
        return {"y": [output.tolist()]}


if __name__ == "__main__":
    # One process for the model and WORKERS for HTTP: with two for the model, the batches are
    # smaller and the cores more crowded (8 % more processor time a request, measured).
    server = litserve.LitServer(
        OneLayer(max_batch_size=64, batch_timeout=0.001),
        accelerator="cpu",
        workers_per_device=1,
        fast_queue=True,
    )
    server.run(
        host="127.0.0.1",
        port=int(os.environ["PORT"]),
        num_api_servers=int(os.environ["WORKERS"]),
        log_level="warning",
        access_log=False,
        generate_client_file=False,
    )
