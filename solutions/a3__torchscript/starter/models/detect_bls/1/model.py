"""What the ensemble does, as a program. execute() and ask() are yours to write."""

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
        # TODO
        raise NotImplementedError("execute of detect_bls is not written yet")


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
    # TODO
    raise NotImplementedError("ask of detect_bls is not written yet")
