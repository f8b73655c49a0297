"""BLS (business logic scripting): a model that calls other models of the same server."""

import numpy as np
import triton_python_backend_utils as pb_utils

#: choice → model, version, and the names of its input and output.
MODELS = {
    b"fp32": ("digits_onnx", 1, "image", "logits"),
    b"fp16": ("digits_onnx", 2, "image", "logits"),
    b"torch": ("digits_torch", 1, "INPUT__0", "OUTPUT__0"),
}
#: The choice for requests that make none, and the second choice when a model fails.
DEFAULT = b"fp32"


class Failed(Exception):
    """No model answered; the sender of the request gets the message."""


class TritonPythonModel:
    def execute(self, requests):
        """Send the rows of all requests with the same choice to that model as one batch."""
        images = [pb_utils.get_input_tensor_by_name(r, "image").as_numpy() for r in requests]
        choices = [choices_of(r, len(x)) for r, x in zip(requests, images, strict=True)]
        rows, wanted = np.concatenate(images), np.concatenate(choices)
        logits = np.zeros((len(rows), 10), np.float32)
        answered_by = np.full((len(rows), 1), b"", dtype=object)
        errors = {}
        for choice in dict.fromkeys(wanted):
            here = wanted == choice
            try:
                logits[here], answered_by[here] = ask(choice, rows[here])
            except Failed as error:
                errors[choice] = str(error)
        responses, start = [], 0
        for mine in choices:
            end = start + len(mine)
            failed = [errors[choice] for choice in mine if choice in errors]
            if failed:
                responses.append(pb_utils.InferenceResponse([], pb_utils.TritonError(failed[0])))
            else:
                outputs = [
                    pb_utils.Tensor("logits", logits[start:end]),
                    pb_utils.Tensor("answered_by", answered_by[start:end]),
                ]
                responses.append(pb_utils.InferenceResponse(outputs))
            start = end
        return responses


def choices_of(request, rows):
    """The choice for each row of a request."""
    tensor = pb_utils.get_input_tensor_by_name(request, "choice")
    if tensor is None:
        return np.full(rows, DEFAULT, dtype=object)
    return tensor.as_numpy().ravel()


def ask(choice, rows):
    """Logits from the chosen model, or else from the default one, and which model answered.

    Raises:
        Failed: there is no such choice, or neither model answered; with the models' messages.
    """
    if choice not in MODELS:
        known = ", ".join(name.decode() for name in MODELS)
        raise Failed(
            f"there is no choice {choice.decode(errors='replace')!r}; take one of: {known}"
        )
    errors = []
    for name in dict.fromkeys([choice, DEFAULT]):
        model, version, takes, gives = MODELS[name]
        response = pb_utils.InferenceRequest(
            model_name=model,
            model_version=version,
            inputs=[pb_utils.Tensor(takes, rows)],
            requested_output_names=[gives],
        ).exec()
        if not response.has_error():
            logits = pb_utils.get_output_tensor_by_name(response, gives).as_numpy()
            return logits, f"{model}/{version}".encode()
        errors.append(f"{model}/{version}: {response.error().message()}")
    raise Failed("no model answered. " + " | ".join(errors))
