"""Business logic scripting: the steps of the ensemble `language`, called one after the other."""

import triton_python_backend_utils as pb

STEPS = {"language_tokenizer": ["input_ids", "attention_mask"], "language_onnx": ["logits"]}
STEPS |= {"language_labels": ["label", "probability"]}


class TritonPythonModel:
    def execute(self, requests):
        return [self.steps([pb.get_input_tensor_by_name(r, "text")]) for r in requests]

    def steps(self, tensors):
        for name, outputs in STEPS.items():
            given = {"requested_output_names": outputs, "inputs": tensors}
            tensors = pb.InferenceRequest(model_name=name, **given).exec().output_tensors()
        return pb.InferenceResponse(tensors)
