"""Business logic with asyncio: one request to square for every row, all under way at once."""

import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        return [await self.answer(request) for request in requests]

    async def answer(self, request):
        rows = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        calls = [
            pb_utils.InferenceRequest(
                model_name="square",
                inputs=[pb_utils.Tensor("x", row[None])],
                requested_output_names=["y"],
            ).async_exec()
            for row in rows
        ]
        results = await asyncio.gather(*calls)
        for result in results:
            if result.has_error():
                raise pb_utils.TritonModelException(result.error().message())
        squared = [pb_utils.get_output_tensor_by_name(r, "y").as_numpy() for r in results]
        return pb_utils.InferenceResponse([pb_utils.Tensor("squared", np.concatenate(squared))])
