import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            plan = pb_utils.get_input_tensor_by_name(request, "plan").as_numpy()
            count, ms = int(plan[0]), float(plan[1])
            for _ in range(count):
                time.sleep(ms / 1000)  # stands for the computing of one part
            parts = pb_utils.Tensor("part", np.arange(count, dtype=np.float32))
            answers.append(pb_utils.InferenceResponse([parts]))
        return answers
