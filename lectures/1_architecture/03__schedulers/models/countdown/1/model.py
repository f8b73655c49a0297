"""A decoupled model: it sends its responses itself, and then a flag that says "no more"."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            start = pb_utils.get_input_tensor_by_name(request, "start").as_numpy()[0]
            for left in range(start, 0, -1):
                count = pb_utils.Tensor("count", np.array([left], np.int32))
                sender.send(pb_utils.InferenceResponse([count]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
