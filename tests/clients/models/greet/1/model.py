"""Greets every name of the batch; the greeting may be left out."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            names = pb_utils.get_input_tensor_by_name(request, "name").as_numpy()
            tensor = pb_utils.get_input_tensor_by_name(request, "greeting")
            greetings = np.full_like(names, b"Hello") if tensor is None else tensor.as_numpy()
            text = np.frompyfunc(lambda g, n: g + b", " + n + b"!", 2, 1)(greetings, names)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("text", text)]))
        return responses
