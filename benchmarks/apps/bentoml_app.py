"""The BentoML peer: a service with a batchable endpoint, as its documentation describes one.

Started by peers.py, with `MODEL` the path of the ONNX file and `WORKERS` the number of processes.
"""

# mypy: ignore-errors
# It runs in an environment of its own, whose packages are not installed here.

# No `from __future__ import annotations`: BentoML reads the annotations when the class is made.
import os

import bentoml
import numpy as np
import onnxruntime


# Metrics and the access log are off: they take a tenth to a third of a request's processor time.
@bentoml.service(
    workers=int(os.environ["WORKERS"]),
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
class OneLayer:
    """Scores of the rows."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            os.environ["MODEL"], options, providers=["CPUExecutionProvider"]
        )

    # It answers 503 to requests that it expects to take longer, so this limit is high.
    @bentoml.api(batchable=True, max_batch_size=64, max_latency_ms=10_000)
    def infer(self, x: np.ndarray) -> np.ndarray:
        """Answer one batch."""
        (scores,) = self.session.run(["y"], {"x": np.asarray(x, dtype=np.float32)})
        return scores
