"""Keeps the arrays of its inputs, and says whose memory they lie in."""

import addresses  # addresses.py, beside this file
import triton_python_backend_utils as pb
from torch.utils.dlpack import from_dlpack


class TritonPythonModel:
    def initialize(self, args):
        self.kept = []  # the arrays of all requests

    def execute(self, requests):
        x = pb.get_input_tensor_by_name(requests[0], "x")
        self.kept.append((x.as_numpy(), from_dlpack(x.to_dlpack())))
        memory, first = addresses.memory(*self.kept[-1]), addresses.first_numbers(self.kept)
        return [pb.InferenceResponse([pb.Tensor("memory", memory), pb.Tensor("kept", first)])]
