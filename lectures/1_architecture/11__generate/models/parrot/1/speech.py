"""What the parrot sends. It ignores the sampling parameters: the task changes that."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


def speak(prompt, sampling, sender):
    """Send the prompt back, one response per word."""
    for word in prompt.split():
        if word == "cat":
            raise ValueError("no word about that animal")
        time.sleep(0.1)
        text = pb_utils.Tensor("text_output", np.array([f"{word} ".encode()], object))
        sender.send(pb_utils.InferenceResponse([text]))
