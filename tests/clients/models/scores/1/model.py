"""Softmax over three labelled classes."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            e = np.exp(pb_utils.get_input_tensor_by_name(request, "logits").as_numpy())
            scores = e / e.sum(axis=1, keepdims=True)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("scores", scores)]))
        return responses
