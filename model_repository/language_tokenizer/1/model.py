"""Text → token ids and attention mask, with the tokenizers library (not transformers)."""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class BadInput(Exception):
    """A request that cannot be answered; its sender gets the message."""


class TritonPythonModel:
    def initialize(self, args):
        output = pb_utils.get_output_config_by_name(json.loads(args["model_config"]), "input_ids")
        length = int(output["dims"][0])
        place = Path(args["model_repository"], args["model_version"], "tokenizer.json")
        self.tokenizer = Tokenizer.from_str(place.read_text(encoding="utf-8"))
        self.tokenizer.enable_truncation(length)
        self.tokenizer.enable_padding(length=length)

    def execute(self, requests):
        responses = []
        for request in requests:
            rows = pb_utils.get_input_tensor_by_name(request, "text").as_numpy().ravel()
            try:
                texts = [decode(text, row) for row, text in enumerate(rows)]
            except BadInput as error:
                failure = pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse([], failure))
                continue
            tokens = self.tokenizer.encode_batch_fast(texts)
            ids = np.array([one.ids for one in tokens], np.int64)
            mask = np.array([one.attention_mask for one in tokens], np.int64)
            responses.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("input_ids", ids), pb_utils.Tensor("attention_mask", mask)]
                )
            )
        return responses


def decode(text, row):
    """Bytes as str; a blank text is refused."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"text {row} of the request is not UTF-8: {error}") from None
    if not decoded.strip():
        raise BadInput(f"text {row} of the request is blank: send at least one word")
    return decoded
