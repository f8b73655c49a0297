from pathlib import Path

import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        torch.set_num_threads(1)
        self.network = torch.jit.load(Path(__file__).with_name("model.pt")).eval()

    def execute(self, requests):
        answers = []
        for request in requests:  # one after the other
            image = pb_utils.get_input_tensor_by_name(request, "image").as_numpy()
            with torch.inference_mode():
                logits = self.network(torch.from_numpy(image)).numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("logits", logits)]))
        return answers
