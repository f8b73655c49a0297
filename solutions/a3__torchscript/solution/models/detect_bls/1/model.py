"""What the ensemble does, as a program."""

import numpy as np
import triton_python_backend_utils as pb_utils


class Refused(Exception):
    """A model has refused what it was asked; str(…) is its message."""


class TritonPythonModel:
    def execute(self, requests):
        """Answer each request with SCORES, or with the message of the model that refused its text.

        The texts of all requests go through letters and reader together: one call of each. Only
        where letters refuses them, because one of them is empty, each request is answered alone.

        Args:
            requests: pb_utils.InferenceRequest. Each has a TEXT of shape (texts, 1): bytes.

        Returns:
            A pb_utils.InferenceResponse for each request, in the same order.
        """
        texts = [pb_utils.get_input_tensor_by_name(one, "TEXT").as_numpy() for one in requests]
        try:
            scores = self.scores(np.concatenate(texts))
        except Refused:
            return [self.alone(part) for part in texts]
        ends = np.cumsum([len(part) for part in texts])[:-1]
        return [response(part) for part in np.split(scores, ends)]

    def alone(self, texts):
        """The response to the texts of one request."""
        try:
            return response(self.scores(texts))
        except Refused as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))

    def scores(self, texts):
        """Scores of texts, an array of bytes of shape (texts, 1); raises Refused."""
        ids, mask = ask("letters", {"TEXT": texts}, ["IDS", "MASK"])
        return ask("reader", {"INPUT__0": ids, "INPUT__1": mask}, ["OUTPUT__0"])[0]


def response(scores):
    """A response with SCORES."""
    return pb_utils.InferenceResponse([pb_utils.Tensor("SCORES", scores)])


def ask(model, inputs, outputs):
    """Ask another model of this server.

    Args:
        model: its name.
        inputs: arrays by the names of its inputs.
        outputs: the names of the outputs that are wanted.

    Returns:
        The outputs as arrays, in the order of `outputs`.

    Raises:
        Refused: the model answers with an error.
    """
    answer = pb_utils.InferenceRequest(
        model_name=model,
        requested_output_names=outputs,
        inputs=[pb_utils.Tensor(name, array) for name, array in inputs.items()],
    ).exec()
    if answer.has_error():
        raise Refused(answer.error().message())
    return [pb_utils.get_output_tensor_by_name(answer, name).as_numpy() for name in outputs]
