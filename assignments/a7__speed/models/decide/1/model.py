"""Third step of the service: logits become scores."""

import math

import numpy as np
import triton_python_backend_utils as pb_utils


def softmax(logits):
    """Ten logits to ten scores: exp(logit) divided by the sum of all ten."""
    largest = logits[0]
    for logit in logits:
        largest = max(largest, logit)
    powers = []
    total = 0.0
    for logit in logits:
        power = math.exp(logit - largest)
        powers.append(power)
        total += power
    return [power / total for power in powers]


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            rows = pb_utils.get_input_tensor_by_name(request, "logits").as_numpy()
            answers = []
            for row in rows:
                answers.append(softmax([float(logit) for logit in row]))
            scores = pb_utils.Tensor("scores", np.array(answers, dtype=np.float32))
            responses.append(pb_utils.InferenceResponse([scores]))
        return responses
