"""Sum and difference of two integers; a sum of 666 is answered with an error, one of 998 raises."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        a = pb_utils.get_input_tensor_by_name(request, "a").as_numpy()
        b = pb_utils.get_input_tensor_by_name(request, "b").as_numpy()
        if (a + b == 666).any():
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("666 is not a sum"))
        if (a + b == 998).any():
            raise ValueError("998 is too much")
        results = {"sum": a + b, "difference": a - b}
        wanted = request.requested_output_names()
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, value) for name, value in results.items() if name in wanted]
        )
