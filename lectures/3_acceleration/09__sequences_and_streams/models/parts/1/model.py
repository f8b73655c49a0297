import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            plan = pb_utils.get_input_tensor_by_name(request, "plan").as_numpy()
            count, ms = int(plan[0]), float(plan[1])
            sender = request.get_response_sender()
            for number in range(count):
                time.sleep(ms / 1000)  # stands for the computing of one part
                part = pb_utils.Tensor("part", np.array([number], np.float32))
                sender.send(pb_utils.InferenceResponse([part]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
