"""A Hugging Face language model that answers a whole batch with one call of `generate`.

The folder `checkpoint` beside this file holds config, tokenizer and weights. A checkpoint of the
Hugging Face hub can take its place unchanged.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.append(str(Path(__file__).parent))
from sampling import Answer, BadRequest, Sampling, check_prompt, text_of


class TritonPythonModel:
    def initialize(self, args):
        # Waiting threads sleep, so that other programs can use their cores.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        # Imported here: Triton also imports this file for auto_complete_config, before any load,
        # and these imports take seconds.
        sys.modules["sklearn"] = None  # transformers would import it (70 MB) without need
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(threads(json.loads(args["model_config"])))
        on_gpu = args["model_instance_kind"] == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        place = Path(args["model_repository"], args["model_version"], "checkpoint")
        self.tokenizer = AutoTokenizer.from_pretrained(place, padding_side="left")
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.model = AutoModelForCausalLM.from_pretrained(place).eval().to(self.device)
        self.context = self.model.config.max_position_embeddings
        self.model.generation_config.eos_token_id = None  # class Answer decides when each ends
        self.torch = torch

    def execute(self, requests):
        """Requests with equal sampling parameters form a batch; each bad one gets its own error."""
        responses = [None] * len(requests)
        batches = {}
        for place, request in enumerate(requests):
            try:
                task = Task(place, request, self)
                batches.setdefault(task.settings, []).append(task)
            except BadRequest as error:
                responses[place] = failure(str(error), pb_utils.TritonError.INVALID_ARG)
        for batch in batches.values():
            self.generate(batch)
            for task in batch:
                responses[task.place] = task.response()
        return responses

    def generate(self, batch):
        """Answer a batch; it takes as many steps as its longest answer."""
        first = batch[0].answer.sampling
        if first.seed is not None:
            self.torch.manual_seed(first.seed)
        tokens = self.tokenizer.pad({"input_ids": [t.prompt for t in batch]}, return_tensors="pt")
        sample = {"do_sample": False}
        if first.temperature:
            sample = {
                "do_sample": True,
                "temperature": first.temperature,
                "top_p": first.top_p,
                "top_k": first.top_k,
            }
        with self.torch.inference_mode():
            self.model.generate(
                **tokens.to(self.device),
                **sample,
                max_new_tokens=max(task.answer.most for task in batch),
                pad_token_id=self.tokenizer.pad_token_id,
                stopping_criteria=[lambda ids, scores: self.listen(batch, ids)],
            )

    def listen(self, batch, ids):
        """Called after each step: add the new tokens; return which answers have ended."""
        for task, token in zip(batch, ids[:, -1].tolist(), strict=True):
            task.hear(token)
        return self.torch.tensor([task.done for task in batch], device=ids.device)


def threads(config):
    """The parameter `threads`; without it, an even share of the cores for each instance."""
    given = config.get("parameters", {}).get("threads")
    if given is not None:
        return int(given["string_value"])
    instances = sum(group.get("count", 1) for group in config.get("instance_group", []))
    return max(1, len(os.sched_getaffinity(0)) // max(1, instances))


class Task:
    """One request and its answer."""

    def __init__(self, place, request, model):
        self.place, self.request, self.cancelled = place, request, False
        sampling = Sampling(text_of(request, "sampling_parameters", pb_utils))
        # Within a batch max_tokens and stop texts may differ, the sampling parameters may not.
        self.settings = (sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed)
        self.prompt = model.tokenizer(text_of(request, "text_input", pb_utils)).input_ids
        check_prompt(self.prompt, model.context)
        room = model.context - len(self.prompt)
        decode = lambda tokens: model.tokenizer.decode(tokens, skip_special_tokens=True)  # noqa: E731
        self.answer = Answer(sampling, decode, model.tokenizer.eos_token_id, room)

    @property
    def done(self):
        return bool(self.answer.reason) or self.cancelled

    def hear(self, token):
        if not self.done:
            self.answer.add(token)
            self.cancelled = len(self.answer.tokens) % 8 == 0 and self.request.is_cancelled()

    def response(self):
        answer = self.answer
        if self.cancelled:
            pb_utils.Logger.log_info(f"cancelled after {len(answer.tokens)} tokens")
            return failure("the request was cancelled", pb_utils.TritonError.CANCELLED)
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("text_output", strings(answer.text)),
                pb_utils.Tensor("token_ids", np.array([answer.tokens], np.int32)),
                pb_utils.Tensor("finish_reason", strings(answer.reason)),
            ]
        )


def failure(message, code):
    return pb_utils.InferenceResponse([], pb_utils.TritonError(message, code))


def strings(text):
    return np.array([[text.encode()]], dtype=object)
