import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Sleeps as long as a request says, so that each server computes like a machine of its own."""

    def initialize(self, args):
        loading = json.loads(args["model_config"])["parameters"]["loading_seconds"]
        time.sleep(float(loading["string_value"]))

    def execute(self, requests):
        answers = []
        for request in requests:
            began = time.perf_counter()
            seconds = pb_utils.get_input_tensor_by_name(request, "seconds").as_numpy()
            time.sleep(float(seconds[0]))
            took = np.array([time.perf_counter() - began], np.float32)
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("took", took)]))
        return answers
