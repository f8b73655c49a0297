"""The token loop as a stream: each token is sent as soon as it is there.

Each request is a coroutine: while one waits for the network, the others go on.
"""

import asyncio
import json
import traceback
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer

from .writing import Answer, BadRequest

STEP = "llama_step"
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """One text in, many pieces out."""

    def initialize(self, args):
        place = Path(args["model_repository"], args["model_version"])
        self.tokenizer = Tokenizer.from_str((place / "tokenizer.json").read_text("utf-8"))
        self.settings = json.loads((place / "config.json").read_text("utf-8"))

    async def execute(self, requests):
        """Answer all requests side by side."""
        await asyncio.gather(
            *(self.attend(request, request.get_response_sender()) for request in requests)
        )

    async def attend(self, request, sender):
        """Answer one request. Whatever happens, its stream is ended."""
        try:
            await self.write(request, sender)
        except BadRequest as error:
            sender.send(failure(str(error), pb_utils.TritonError.INVALID_ARG))
        except Exception as error:
            traceback.print_exc()  # into the server's log
            sender.send(failure(describe(error), pb_utils.TritonError.INTERNAL))
        finally:
            sender.send(flags=FINAL)  # after it nothing can be sent

    async def write(self, request, sender):
        """Send the answer, token by token; stop when its reader has left."""
        try:
            prompt, wanted = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0].decode()
                for name in ("text_input", "sampling_parameters")
            )
        except UnicodeDecodeError as error:
            raise BadRequest(f"the request is not UTF-8: {error}") from None
        answer = Answer(prompt, wanted, self.tokenizer, self.settings)
        ids = np.array([answer.prompt], np.int64)
        positions = np.arange(ids.size)[None]
        mask = np.array([[0] + [1] * ids.size], np.int64)  # the empty cache is one column
        cache = np.zeros((1, *cache_shape(self.settings)), np.float32)
        while not answer.reason and not sender.is_cancelled():
            scores, cache = await ask(ids, positions, mask, cache)
            token, logprob = answer.choose(scores[0])
            before = len(answer.tokens)
            text = answer.add(token, logprob)
            sender.send(piece(text, answer, before))
            ids, positions = np.array([[token]], np.int64), positions[:, -1:] + 1
            mask = np.pad(mask, ((0, 0), (0, 1)), constant_values=1)


def cache_shape(settings):
    """The shape of an empty cache, without the rows: it has one column, which the mask hides."""
    heads = settings["num_attention_heads"]
    size = settings["hidden_size"] // heads
    return 2 * settings["num_hidden_layers"], heads, 1, size


async def ask(ids, positions, mask, cache):
    """One step of the network; see the model `chat`."""
    inputs = {"input_ids": ids, "position_ids": positions, "attention_mask": mask, "past": cache}
    request = pb_utils.InferenceRequest(
        model_name=STEP,
        inputs=[pb_utils.Tensor(name, array) for name, array in inputs.items()],
        requested_output_names=["logits", "present"],
    )
    answer = await request.async_exec()
    if answer.has_error():
        raise pb_utils.TritonModelException(answer.error().message())
    logits, present = (
        pb_utils.get_output_tensor_by_name(answer, name).as_numpy()
        for name in ("logits", "present")
    )
    return logits, present


def piece(text, answer, before):
    """The response with one token; the last one says why the answer has ended."""
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("text_output", np.array([text.encode()], object)),
            pb_utils.Tensor("token_ids", np.array(answer.tokens[before:], np.int32)),
            pb_utils.Tensor("logprobs", np.array(answer.logprobs[before:], np.float32)),
            pb_utils.Tensor("finish_reason", np.array([answer.reason.encode()], object)),
        ]
    )


def describe(error):
    """The text of an exception, and which lines it came through, the innermost first."""
    steps = reversed(traceback.extract_tb(error.__traceback__))
    lines = [f"  {step.filename}({step.lineno}): {step.name}" for step in steps]
    return "\n".join([f"{type(error).__name__}: {error}", "", "At:", *lines])


def failure(message, code):
    """The response to a request that cannot be answered."""
    return pb_utils.InferenceResponse([], pb_utils.TritonError(message, code))
