"""Text → the inputs of llama_onnx for its first step: token ids, attention mask, empty cache.

Rows of one request are padded on the left, so that the next token follows the last one. The mask
is one column longer than the token ids: the empty cache is one column, which the mask excludes.
"""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class BadRequest(Exception):
    """A request that cannot be answered; its sender gets the message."""


class TritonPythonModel:
    def initialize(self, args):
        place = Path(args["model_repository"], args["model_version"])
        self.tokenizer = Tokenizer.from_str((place / "tokenizer.json").read_text("utf-8"))
        config = json.loads((place / "config.json").read_text("utf-8"))
        self.context = config["max_position_embeddings"]
        self.tokenizer.no_truncation()
        self.tokenizer.enable_padding(direction="left", pad_id=config.get("pad_token_id") or 0)
        heads = config["num_attention_heads"]
        self.cache = (
            2 * config["num_hidden_layers"],
            config.get("num_key_value_heads", heads),
            1,
            config["hidden_size"] // heads,
        )

    def execute(self, requests):
        responses = []
        for request in requests:
            rows = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().ravel()
            try:
                responses.append(self.answer([decode(text, row) for row, text in enumerate(rows)]))
            except BadRequest as error:
                failure = pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse([], failure))
        return responses

    def answer(self, texts):
        tokens = self.tokenizer.encode_batch_fast(texts)
        ids = np.array([one.ids for one in tokens], np.int64)
        if ids.shape[1] >= self.context:
            raise BadRequest(
                f"a text has {ids.shape[1]} tokens; the model's context length is {self.context}, "
                "the next token included: send a shorter one"
            )
        mask = np.array([[0, *one.attention_mask] for one in tokens], np.int64)
        past = np.zeros((len(texts), *self.cache), np.float32)
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("input_ids", ids),
                pb_utils.Tensor("attention_mask", mask),
                pb_utils.Tensor("past", past),
            ]
        )


def decode(text, row):
    """Bytes as str; an empty text is refused."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"text {row} of the request is not UTF-8: {error}") from None
    if not decoded:
        raise BadRequest(f"text {row} of the request is empty: send at least one word")
    return decoded
