"""The square of each number: a small Python model that computes something."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
            y = pb_utils.Tensor("OUTPUT", x * x)
            responses.append(pb_utils.InferenceResponse([y]))
        return responses
