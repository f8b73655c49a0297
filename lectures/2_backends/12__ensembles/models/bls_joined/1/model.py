"""The steps of the ensemble `language`, each called once for the rows of all requests."""

import numpy as np
import triton_python_backend_utils as pb

STEPS = {"language_tokenizer": ["input_ids", "attention_mask"], "language_onnx": ["logits"]}
STEPS |= {"language_labels": ["label", "probability"]}


class TritonPythonModel:
    def execute(self, requests):
        texts = [pb.get_input_tensor_by_name(r, "text").as_numpy() for r in requests]
        tensors = [pb.Tensor("text", np.concatenate(texts))]
        for name, outputs in STEPS.items():
            given = {"requested_output_names": outputs, "inputs": tensors}
            answer = pb.InferenceRequest(model_name=name, **given).exec()
            if answer.has_error():
                return [pb.InferenceResponse([], answer.error()) for _ in requests]
            tensors = answer.output_tensors()
        ends = np.cumsum([len(rows) for rows in texts])[:-1]
        names = [each.name() for each in tensors]
        parts = zip(*(np.split(each.as_numpy(), ends) for each in tensors), strict=True)
        return [pb.InferenceResponse(list(map(pb.Tensor, names, rows))) for rows in parts]
