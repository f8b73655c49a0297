"""Business logic scripting: the steps of the ensemble `language`, all requests at the same time."""

import asyncio

import triton_python_backend_utils as pb

STEPS = {"language_tokenizer": ["input_ids", "attention_mask"], "language_onnx": ["logits"]}
STEPS |= {"language_labels": ["label", "probability"]}


class TritonPythonModel:
    async def execute(self, requests):
        texts = [pb.get_input_tensor_by_name(r, "text") for r in requests]
        return await asyncio.gather(*[self.steps([text]) for text in texts])

    async def steps(self, tensors):
        for name, outputs in STEPS.items():
            given = {"requested_output_names": outputs, "inputs": tensors}
            answer = await pb.InferenceRequest(model_name=name, **given).async_exec()
            tensors = answer.output_tensors()
        return pb.InferenceResponse(tensors)
