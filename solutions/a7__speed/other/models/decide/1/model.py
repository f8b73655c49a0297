"""Third step of the service: logits become scores."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            logits = pb_utils.get_input_tensor_by_name(request, "logits").as_numpy()
            powers = np.exp(logits - logits.max(1, keepdims=True))
            scores = pb_utils.Tensor("scores", powers / powers.sum(1, keepdims=True))
            responses.append(pb_utils.InferenceResponse([scores]))
        return responses
