"""Sleeps for the milliseconds that a request's first number says, and returns the request."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        if np.isnan(x[0, 0]):
            return pb_utils.InferenceResponse([], pb_utils.TritonError("not a number"))
        if x[0, 0] < 0:
            raise ValueError("a bug in the model")
        time.sleep(x[0, 0] / 1000)
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", x)])
