"""Scores → the best label and its probability. The labels are in labels.txt, one per line."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        lines = Path(args["model_repository"], "labels.txt").read_bytes().split()
        self.labels = np.array(lines, dtype=object)

    def execute(self, requests):
        responses = []
        for request in requests:
            logits = pb_utils.get_input_tensor_by_name(request, "logits").as_numpy()
            best = logits.argmax(1, keepdims=True)
            # Softmax of the greatest score: exp(greatest - greatest) = 1, divided by the sum.
            probability = 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)
            responses.append(
                pb_utils.InferenceResponse(
                    [
                        pb_utils.Tensor("label", self.labels[best]),
                        pb_utils.Tensor("probability", probability),
                    ]
                )
            )
        return responses
