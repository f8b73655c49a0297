from pathlib import Path

import numpy as np
import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        torch.set_num_threads(1)
        self.network = torch.jit.load(Path(__file__).with_name("model.pt")).eval()

    def execute(self, requests):
        images = [pb_utils.get_input_tensor_by_name(r, "image").as_numpy() for r in requests]
        with torch.inference_mode():  # one call for all rows
            logits = self.network(torch.from_numpy(np.concatenate(images))).numpy()
        ends = np.cumsum([len(rows) for rows in images])[:-1]  # where each request's rows end
        parts = np.split(logits, ends)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("logits", y)]) for y in parts]
