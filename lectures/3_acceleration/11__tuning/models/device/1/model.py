import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        time.sleep(0.02 + 0.02 * len(np.concatenate(rows)))  # so that no core is busy
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", 2 * x)]) for x in rows]
