import locale
from pathlib import Path

import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        torch.set_num_threads(1)
        # Triton starts Python with ASCII as encoding; torch.compile reads files in UTF-8.
        locale.setlocale(locale.LC_ALL, "C.UTF-8")
        network = torch.load(Path(__file__).with_name("network.pt"), weights_only=False)
        self.network = torch.compile(network)  # returns at once: it compiles when it is called

    def execute(self, requests):
        answers = []
        for request in requests:
            image = pb_utils.get_input_tensor_by_name(request, "image").as_numpy()
            with torch.inference_mode():
                logits = self.network(torch.from_numpy(image)).numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("logits", logits)]))
        return answers
