"""TODO: say in a sentence or two what this model takes and what it answers."""

from pathlib import Path

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from transformers import AutoModelForSequenceClassification, AutoTokenizer


class TritonPythonModel:
    """What Triton calls: once initialize, execute for each batch, once finalize."""

    def initialize(self, args):
        """Load tokenizer and network, once for all requests."""
        folder = Path(args["model_repository"], args["model_version"], "checkpoint")
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        # TODO: load the network in the same way, and keep its labels

    def execute(self, requests):
        """Answer a list of requests; return one response per request, in the same order."""
        # TODO
        return []

    def finalize(self):
        """TODO: what is left to do when the model is unloaded?"""
