"""The MLServer peer: a custom runtime on ONNX Runtime, as its documentation describes one.

Its settings (adaptive batching, parallel workers) are written by peers.py.
"""

# mypy: ignore-errors
# It runs in an environment of its own, whose packages are not installed here.

from __future__ import annotations

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class OneLayer(MLModel):
    """Scores of the rows; MLServer hands over whole batches."""

    async def load(self) -> bool:
        """One session of one thread in each worker process."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            self.settings.parameters.uri, options, providers=["CPUExecutionProvider"]
        )
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answer one batch."""
        rows = NumpyCodec.decode_input(payload.inputs[0])
        (scores,) = self.session.run(["y"], {"x": rows})
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output("y", scores)]
        )
