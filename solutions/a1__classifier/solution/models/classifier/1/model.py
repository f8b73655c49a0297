"""A Hugging Face text classifier behind Triton's Python backend.

One request holds one or more texts. Each text gets the label of its class, the probability of that
class, and the probabilities of all classes. The checkpoint lies in the folder beside this file.
"""

from pathlib import Path

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from transformers import AutoModelForSequenceClassification, AutoTokenizer

LONGEST = 1000  # characters of a text


class BadTextError(Exception):
    """A text that cannot be classified. The client gets the message."""


class TritonPythonModel:
    """What Triton calls: once initialize, execute for each batch, once finalize."""

    def initialize(self, args):
        """Load tokenizer and network, once for all requests.

        `args` holds where the model's folder is, and which version is loaded.
        """
        torch.set_num_threads(1)  # the server may run several instances side by side
        folder = Path(args["model_repository"], args["model_version"], "checkpoint")
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.network = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        names = self.network.config.id2label
        self.labels = np.array([names[place].encode() for place in range(len(names))], object)

    def execute(self, requests):
        """Answer a list of requests: the good ones by one call of the network.

        Returns one response per request, in the same order. A request with a bad text gets an
        error that says what is wrong.
        """
        readings = [read_texts(request) for request in requests]
        table = self.predict([text for reading in readings for text in reading.texts])
        responses, start = [], 0
        for reading in readings:
            if reading.error:
                responses.append(refusal(reading.error))
                continue
            end = start + len(reading.texts)
            responses.append(self.answer(table[start:end]))
            start = end
        return responses

    def finalize(self):
        """Give the network's memory back when the model is unloaded."""
        del self.network, self.tokenizer

    def predict(self, texts):
        """Probabilities for a list of str: float32, shape (texts, classes)."""
        if not texts:
            return np.empty((0, len(self.labels)), np.float32)
        tokens = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            return self.network(**tokens).logits.softmax(-1).numpy()

    def answer(self, table):
        """The response to one request, from the probabilities of its texts."""
        best = table.argmax(1, keepdims=True)
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("LABEL", self.labels[best]),
                pb_utils.Tensor("SCORE", np.take_along_axis(table, best, 1)),
                pb_utils.Tensor("PROBABILITIES", table),
            ]
        )


class Reading:
    """What was read from one request: its texts, or what is wrong with one of them."""

    def __init__(self, texts=(), error=""):
        """Take the texts as a list of str; a request with an error has none."""
        self.texts = texts
        self.error = error


def read_texts(request):
    """Read one request: bytes in, a `Reading` out."""
    rows = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().ravel()
    try:
        return Reading([decode(text, row) for row, text in enumerate(rows)])
    except BadTextError as error:
        return Reading(error=str(error))


def decode(text, row):
    """Bytes as str. Raises `BadTextError` for what is no text, or cannot be read as a whole."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadTextError(f"Text {row} is not UTF-8: {error.reason}.") from None
    if not decoded.strip():
        raise BadTextError(f"Text {row} is empty or blank; send at least one word.")
    if len(decoded) > LONGEST:
        raise BadTextError(f"Text {row} is too long: {LONGEST} characters are the most.")
    return decoded


def refusal(message):
    """Make the response that carries an error and no tensors."""
    error = pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG)
    return pb_utils.InferenceResponse([], error)
