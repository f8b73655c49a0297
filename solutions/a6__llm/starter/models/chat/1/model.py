"""The token loop: it asks `llama_step` for the scores of the next tokens until all answers end.

All prompts of one `execute` are rows of one batch, whichever requests they come from.
"""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer

from .writing import Answer, BadRequest

STEP = "llama_step"


class TritonPythonModel:
    """Text in, text out."""

    def initialize(self, args):
        place = Path(args["model_repository"], args["model_version"])
        self.tokenizer = Tokenizer.from_str((place / "tokenizer.json").read_text("utf-8"))
        self.settings = json.loads((place / "config.json").read_text("utf-8"))

    def execute(self, requests):
        """Answer each request; one that cannot be answered gets an error of its own."""
        groups = []
        for request in requests:
            # TODO (bad requests): self.read raises BadRequest, and then all requests fail. Append
            # str(error) in place of the answers: the last lines send it as an error.
            groups.append(self.read(request))
        self.write([answer for group in groups if isinstance(group, list) for answer in group])
        return [
            response(group)
            if isinstance(group, list)
            else failure(group, pb_utils.TritonError.INVALID_ARG)
            for group in groups
        ]

    def read(self, request):
        """The answers to begin for one request: one per row.

        Raises:
            BadRequest: a row is bad. The message says which one.
        """
        texts, parameters = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()
            for name in ("text_input", "sampling_parameters")
        )
        answers = []
        for row, pair in enumerate(zip(texts, parameters, strict=True), start=1):
            try:
                prompt, wanted = (text.decode("utf-8") for text in pair)
                answers.append(Answer(prompt, wanted, self.tokenizer, self.settings))
            except UnicodeDecodeError as error:
                raise BadRequest(f"row {row} is not UTF-8: {error}") from None
            except BadRequest as error:
                raise BadRequest(f"row {row}: {error}") from None
        return answers

    def write(self, answers):
        """Let all answers grow, one token per step, until each has ended."""
        if not answers:
            return
        # The first step: all prompts, padded on the left.
        width = max(len(answer.prompt) for answer in answers)
        ids = np.zeros((len(answers), width), np.int64)
        mask = np.zeros_like(ids)
        for row, answer in enumerate(answers):
            ids[row, width - len(answer.prompt) :] = answer.prompt
            mask[row, width - len(answer.prompt) :] = 1
        positions = np.maximum(mask.cumsum(axis=1) - 1, 0)
        mask = np.pad(mask, ((0, 0), (1, 0)))  # the empty cache is one column
        cache = np.zeros((len(answers), *cache_shape(self.settings)), np.float32)
        # TODO (likeliest tokens): the loop. ask(…) for scores and the longer cache; let each answer
        # choose from its row of the scores, and add the token; take out the rows that have ended
        # (of answers, mask, positions and cache); make ids, positions and mask of the next step.
        shapes = [array.shape for array in (ids, positions, mask, cache)]
        raise NotImplementedError(f"write in model.py has no loop yet. First step: {shapes}")


def cache_shape(settings):
    """The shape of an empty cache, without the rows: it has one column, which the mask hides."""
    heads = settings["num_attention_heads"]
    size = settings["hidden_size"] // heads
    return 2 * settings["num_hidden_layers"], heads, 1, size


def ask(ids, positions, mask, cache):
    """One step of the network.

    Args:
        ids: the new tokens, int64 (rows, new). positions: of each, the same shape.
        mask: int64 (rows, before + new), 0 for padding. cache: float32, keys and values so far.

    Returns:
        The scores of the next token, float32 (rows, vocabulary), and the longer cache.

    Raises:
        pb_utils.TritonModelException: the network refuses.
    """
    # TODO (likeliest tokens): a pb_utils.InferenceRequest to STEP. Look at has_error() first.
    raise NotImplementedError("ask in model.py is not written yet")


def response(answers):
    """The response to one request. Shorter rows are padded: tokens with -1, logprobs with 0."""
    most = max(len(answer.tokens) for answer in answers)
    tokens = np.full((len(answers), most), -1, np.int32)
    logprobs = np.zeros((len(answers), most), np.float32)
    for row, answer in enumerate(answers):
        tokens[row, : len(answer.tokens)] = answer.tokens
        logprobs[row, : len(answer.tokens)] = answer.logprobs
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("text_output", texts([answer.text for answer in answers])),
            pb_utils.Tensor("token_ids", tokens),
            pb_utils.Tensor("logprobs", logprobs),
            pb_utils.Tensor("finish_reason", texts([answer.reason for answer in answers])),
        ]
    )


def texts(list_of_str):
    """Texts as Triton takes them: a column of bytes."""
    return np.array([[text.encode()] for text in list_of_str], object)


def failure(message, code):
    """The response to a request that cannot be answered."""
    return pb_utils.InferenceResponse([], pb_utils.TritonError(message, code))
