"""The scores of pictures of digits. Each request reads the weights again: the task changes that."""

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        weights = np.load(__file__.replace("model.py", "weights.npy"))
        pb.Logger.log_info("weights read")
        pictures = [pb.get_input_tensor_by_name(r, "image").as_numpy() for r in requests]
        scores = [x.reshape(-1, 64) @ weights[:64] + weights[64] for x in pictures]
        return [pb.InferenceResponse([pb.Tensor("scores", y)]) for y in scores]
