"""The backend slides' example, shortened: the sum and the difference of two lists of numbers."""

import json

import triton_python_backend_utils as pb  # a module that exists inside Triton only


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        output = pb.get_output_config_by_name(config, "OUTPUT_0")
        self.dtype = pb.triton_string_to_numpy(output["data_type"])  # TYPE_FP32: np.float32

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        a = pb.get_input_tensor_by_name(request, "INPUT_0").as_numpy()
        b = pb.get_input_tensor_by_name(request, "INPUT_1").as_numpy()
        tensors = {"OUTPUT_0": a + b, "OUTPUT_1": a - b}
        outputs = [pb.Tensor(name, x.astype(self.dtype)) for name, x in tensors.items()]
        return pb.InferenceResponse(outputs)

    def finalize(self):
        print("model unloaded, goodbye")
