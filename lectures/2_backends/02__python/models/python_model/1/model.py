"""The backend slides' example, shortened: it adds and subtracts. auto_complete_config is ours."""

import json

import triton_python_backend_utils as pb


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        for kind, add in (("INPUT", config.add_input), ("OUTPUT", config.add_output)):
            for number in (0, 1):
                add({"name": f"{kind}_{number}", "data_type": "TYPE_FP32", "dims": [-1]})
        return config

    def initialize(self, args):
        config = json.loads(args["model_config"])
        output = pb.get_output_config_by_name(config, "OUTPUT_0")
        self.dtype = pb.triton_string_to_numpy(output["data_type"])

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        a, b = (tensor.as_numpy().astype(self.dtype) for tensor in request.inputs())
        return pb.InferenceResponse([pb.Tensor("OUTPUT_0", a + b), pb.Tensor("OUTPUT_1", a - b)])

    def finalize(self):
        print("model unloaded, goodbye")
