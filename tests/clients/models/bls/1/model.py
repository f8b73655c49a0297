"""Business logic: (x + x)² through add_sub and square, then a count down from the first of x."""

import numpy as np
import triton_python_backend_utils as pb_utils


def call(model, inputs, outputs):
    response = pb_utils.InferenceRequest(
        model_name=model, inputs=inputs, requested_output_names=outputs
    ).exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return [pb_utils.get_output_tensor_by_name(response, name) for name in outputs]


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            (total,) = call("add_sub", [pb_utils.Tensor("a", x), pb_utils.Tensor("b", x)], ["sum"])
            (square,) = call("square", [pb_utils.Tensor("x", total.as_numpy())], ["y"])
            stream = pb_utils.InferenceRequest(
                model_name="countdown",
                inputs=[pb_utils.Tensor("from", x[0, :1])],
                requested_output_names=["number"],
            ).exec(decoupled=True)
            numbers = [
                pb_utils.get_output_tensor_by_name(part, "number").as_numpy()
                for part in stream
                if part.output_tensors()
            ]
            counted = np.concatenate(numbers) if numbers else np.zeros(0, np.int32)
            responses.append(
                pb_utils.InferenceResponse(
                    [
                        pb_utils.Tensor("squared", square.as_numpy()),
                        pb_utils.Tensor("counted", counted),
                    ]
                )
            )
        return responses
