"""The scores of the model digits, or those of careful where no score of digits is above 5."""

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [pb.InferenceResponse([self.ask(request, "digits")]) for request in requests]

    def ask(self, request, model):
        image = [pb.get_input_tensor_by_name(request, "image")]
        bls = pb.InferenceRequest(model_name=model, inputs=image, requested_output_names=["scores"])
        scores = pb.get_output_tensor_by_name(bls.exec(), "scores")
        sure = model == "careful" or scores.as_numpy().max() > 5
        return scores if sure else self.ask(request, "careful")
