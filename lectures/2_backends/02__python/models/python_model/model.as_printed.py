"""The backend slides' example, shortened, with the mistakes that are printed in initialize."""

import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.model_config = json.loads(args["model_config"])
        output0_config = pb.get_output_config_by_name(model_config, "OUTPUT_0")
        self.output0_dtype = pb.triton_string_to_numpy(output0_config["data_type"])

    def execute(self, requests):
        responses = []
        for request in requests:
            a, b = (tensor.as_numpy() for tensor in request.inputs())
            outputs = [
                pb.Tensor("OUTPUT_0", (a + b).astype(self.output0_dtype)),
                pb.Tensor("OUTPUT_1", a - b),
            ]
            responses.append(pb.InferenceResponse(outputs))
        return responses

    def finalize(self):
        print("model unloaded, goodbye")
