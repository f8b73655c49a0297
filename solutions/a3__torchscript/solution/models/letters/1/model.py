"""Texts → the numbers of their letters."""

import json
import unicodedata
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

PADDING, UNKNOWN = 0, 1
MOST = 128


class TritonPythonModel:
    def initialize(self, args):
        """Read the alphabet, which lies beside this file, and PAD_TO of config.pbtxt."""
        folder = Path(args["model_repository"], args["model_version"])
        self.alphabet = json.loads((folder / "alphabet.json").read_text("utf-8"))
        parameters = json.loads(args["model_config"])["parameters"]
        self.pad_to = int(parameters["PAD_TO"]["string_value"])

    def execute(self, requests):
        """Answer each request with IDS and MASK, or with an error that says what is wrong.

        Args:
            requests: pb_utils.InferenceRequest. Each has a TEXT of shape (texts, 1): bytes.

        Returns:
            A pb_utils.InferenceResponse for each request, in the same order. A request with an
            empty text gets one whose error says that it is empty.
        """
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
            rows = [self.numbers(text.decode("utf-8", "replace")) for text in texts.ravel()]
            if not all(rows):
                error = pb_utils.TritonError("TEXT holds an empty text: send at least one letter")
                responses.append(pb_utils.InferenceResponse(error=error))
                continue
            ids, mask = self.table(rows)
            tensors = [pb_utils.Tensor("IDS", ids), pb_utils.Tensor("MASK", mask)]
            responses.append(pb_utils.InferenceResponse(tensors))
        return responses

    def numbers(self, text):
        """A text (str) → its numbers, by the rule of task 3; an empty list where nothing is left.

        self.alphabet maps a letter to its number.
        """
        text = unicodedata.normalize("NFC", text)
        text = text.casefold()
        text = text.strip()
        text = text[:MOST]
        return [self.alphabet.get(letter, UNKNOWN) for letter in text]

    def table(self, rows):
        """Lists of numbers as one table, and a mask: 1 for each letter, 0 where a row has ended.

        Args:
            rows: lists of int, none of them empty.

        Returns:
            ids and mask, both int64 of shape (rows, width). The width is the length of the longest
            list, filled up to a multiple of PAD_TO.
        """
        width = -(-max(len(row) for row in rows) // self.pad_to) * self.pad_to
        ids = np.full((len(rows), width), PADDING, np.int64)
        mask = np.zeros((len(rows), width), np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        return ids, mask
