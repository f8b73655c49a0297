"""Texts → the numbers of their letters. execute() and numbers() are yours to write."""

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
        # TODO
        raise NotImplementedError("execute of letters is not written yet")

    def numbers(self, text):
        """A text (str) → its numbers, by the rule of task 3; an empty list where nothing is left.

        self.alphabet maps a letter to its number.
        """
        # TODO
        raise NotImplementedError("numbers of letters is not written yet")

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
