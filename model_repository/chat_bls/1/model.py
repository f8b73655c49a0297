"""The token loop of a language model in BLS (business logic scripting).

In each step it asks `llama_onnx` for the scores of the next token, and draws a token from them.
Requests that come together are rows of one batch, padded on the left. A row leaves the batch when
its answer ends; new requests wait for the next batch. The model returns the keys and values of the
tokens so far; they are sent again with the next token, so that no step computes them twice.
"""

import json
import sys
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer

sys.path.append(str(Path(__file__).parent))
from sampling import Answer, BadRequest, Sampling, check_prompt, text_of

MODEL = "llama_onnx"


class TritonPythonModel:
    def initialize(self, args):
        place = Path(args["model_repository"], args["model_version"])
        self.tokenizer = Tokenizer.from_str((place / "tokenizer.json").read_text("utf-8"))
        config = json.loads((place / "config.json").read_text("utf-8"))
        self.context, self.eos = config["max_position_embeddings"], config["eos_token_id"]
        heads = config["num_attention_heads"]
        self.cache = (
            2 * config["num_hidden_layers"],
            config.get("num_key_value_heads", heads),
            1,  # an empty cache is one column that the mask excludes
            config["hidden_size"] // heads,
        )

    def execute(self, requests):
        """Answer all good requests as one batch; each bad one gets its own error."""
        responses, tasks = [None] * len(requests), []
        for place, request in enumerate(requests):
            try:
                tasks.append(Task(place, request, self))
            except BadRequest as error:
                responses[place] = failure(str(error), pb_utils.TritonError.INVALID_ARG)
        self.run(tasks)
        for task in tasks:
            responses[task.place] = task.response()
        return responses

    def run(self, tasks):
        """Run steps until every answer has ended."""
        if not tasks:
            return
        longest = max(len(task.prompt) for task in tasks)
        ids, mask = np.zeros((2, len(tasks), longest), np.int64)
        for row, task in enumerate(tasks):
            ids[row, longest - len(task.prompt) :] = task.prompt
            mask[row, longest - len(task.prompt) :] = 1
        mask = np.pad(mask, ((0, 0), (1, 0)))
        past = np.zeros((len(tasks), *self.cache), np.float32)
        while tasks:
            logits, past, error = ask(ids, mask, past)
            for row, task in enumerate(tasks):
                task.hear(logits[row] if error is None else None, error)
            on = [row for row, task in enumerate(tasks) if not task.done]
            if len(on) < len(tasks):
                tasks, mask, past = [tasks[row] for row in on], mask[on], past[on]
            ids = np.array([task.answer.tokens[-1:] for task in tasks], np.int64)
            mask = np.pad(mask, ((0, 0), (0, 1)), constant_values=1)


def ask(ids, mask, past):
    """One step of the language model; returns scores, the new cache, and an error or None."""
    response = pb_utils.InferenceRequest(
        model_name=MODEL,
        inputs=[
            pb_utils.Tensor("input_ids", ids),
            pb_utils.Tensor("attention_mask", mask),
            pb_utils.Tensor("past", past),
        ],
        requested_output_names=["logits", "present"],
    ).exec()
    if response.has_error():
        return None, past, response.error().message()
    logits, present = (
        pb_utils.get_output_tensor_by_name(response, name).as_numpy()
        for name in ("logits", "present")
    )
    return logits, present, None


class Task:
    """One request and its answer."""

    def __init__(self, place, request, model):
        self.place, self.request = place, request
        self.confidences, self.error = [], None
        self.sampling = Sampling(text_of(request, "sampling_parameters", pb_utils))
        self.prompt = model.tokenizer.encode(text_of(request, "text_input", pb_utils)).ids
        check_prompt(self.prompt, model.context)
        room = model.context - len(self.prompt)
        self.answer = Answer(self.sampling, model.tokenizer.decode, model.eos, room)

    @property
    def done(self):
        return bool(self.answer.reason or self.error)

    def hear(self, logits, error):
        """Draw the next token from the scores; an error of the model ends the answer."""
        if error is not None:
            self.error = failure(f"{MODEL}: {error}", pb_utils.TritonError.INTERNAL)
        elif self.request.is_cancelled():
            pb_utils.Logger.log_info(f"cancelled after {len(self.answer.tokens)} tokens")
            self.error = failure("the request was cancelled", pb_utils.TritonError.CANCELLED)
        else:
            token, chance = self.sampling.choose(logits)
            self.answer.add(token)
            self.confidences.append(chance)

    def response(self):
        if self.error is not None:
            return self.error
        answer = self.answer
        confidences = np.array([self.confidences[: len(answer.tokens)]], np.float32)
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("text_output", strings(answer.text)),
                pb_utils.Tensor("token_ids", np.array([answer.tokens], np.int32)),
                pb_utils.Tensor("confidences", confidences),
                pb_utils.Tensor("finish_reason", strings(answer.reason)),
            ]
        )


def failure(message, code):
    return pb_utils.InferenceResponse([], pb_utils.TritonError(message, code))


def strings(text):
    return np.array([[text.encode()]], dtype=object)
