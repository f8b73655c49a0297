"""Returns what the model knows about a request, as JSON."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.tell(request) for request in requests]

    def tell(self, request):
        told = {
            "id": request.request_id(),
            "parameters": json.loads(request.parameters()),
            "timeout": request.timeout(),
            "sequence": request.correlation_id(),
            "outputs": list(request.requested_output_names()),
        }
        text = np.array([json.dumps(told).encode()], dtype=object)
        return pb_utils.InferenceResponse([pb_utils.Tensor("json", text)])
