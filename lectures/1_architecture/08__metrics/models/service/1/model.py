"""Sleeps for the `ms` of its config and those that a request's first number adds."""

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.ms = float(parameters["ms"]["string_value"])

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        if np.isnan(x[0, 0]):
            return pb_utils.InferenceResponse([], pb_utils.TritonError("not a number"))
        if x[0, 0] < 0:
            raise ValueError("a bug in the model")
        time.sleep((self.ms + x[0, 0]) / 1000)
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", x)])
