"""Transformers in vLLM's place, for the lecture on LLM backends if vLLM is not installed.

The model's config has `backend: "python"`, so that everybody sees who answers; `1/model.json` is
the same as for vLLM. This class extends the class of the vLLM stand-in: names, types, streaming and
the form of errors are the same. It has no continuous batching, as vLLM has: requests take turns,
token by token, and no two share a step. So eight clients get no more tokens per second than one.

    from workbook.backends.vllm import without_vllm     # 1/model.py; 1/sampling.py is beside it

    class TritonPythonModel(without_vllm.TritonPythonModel):
        sampling = sampling                             # a copy of workbook/llm/sampling.py
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import triton_python_backend_utils as pb_utils

from workbook.backends.base import BadRequest
from workbook.backends.vllm import model, tensors

#: The engine arguments that have an effect here, and the ones that have none.
OBEYED = (
    "model", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "disable_log_stats",
)  # fmt: skip
IGNORED = (
    "dtype", "enforce_eager", "enable_prefix_caching", "block_size", "gpu_memory_utilization",
)  # fmt: skip


class TritonPythonModel(model.TritonPythonModel):
    """A language model that Transformers computes, with the vLLM backend's inputs and outputs."""

    backend: ClassVar[str] = "python"
    package: ClassVar[str] = "transformers"
    whose: ClassVar[str] = "Transformers'"
    #: A module with the classes Sampling and Answer, and check_prompt.
    sampling: ClassVar[Any]

    async def _start(self, arguments: dict[str, Any]) -> Any:
        self._refusals = (BadRequest, ValueError, TypeError, self.sampling.BadRequest)
        counts = None
        if self._metrics and not arguments.get("disable_log_stats"):
            counts = Counts({"model": self.config.name, "version": self.config.version})
            self._loggers.append(counts)
        return Engine(arguments, self.sampling, counts)

    def _parameters(self, inputs: tensors.Inputs) -> Any:
        return self.sampling.Sampling(inputs.parameters)


class Counts:
    """Three metrics as vLLM has them, with another prefix, since they do not come from vLLM."""

    def __init__(self, labels: dict[str, str]) -> None:
        kinds = pb_utils.MetricFamily
        families = {
            name: kinds(name=f"transformers:{name}", description=text, kind=kind)
            for name, text, kind in (
                ("prompt_tokens_total", "Tokens of prompts.", kinds.COUNTER),
                ("generation_tokens_total", "Tokens that were generated.", kinds.COUNTER),
                ("num_requests_running", "Requests that take turns.", kinds.GAUGE),
            )
        }
        self._families = families  # kept, since a metric ends with its family
        self._metrics = {name: family.Metric(labels=labels) for name, family in families.items()}

    def add(self, name: str, count: int) -> None:
        """Add to a metric; only the gauge takes a negative count."""
        self._metrics[name].increment(count)

    def close(self) -> None:
        """Remove the metrics from Triton; it must happen while the server still answers."""
        self._metrics.clear()
        self._families.clear()


@dataclasses.dataclass(frozen=True)
class Completion:
    """An answer so far, with the fields of vLLM's `CompletionOutput` that a response reads."""

    text: str
    token_ids: list[int]
    finish_reason: str | None
    cumulative_logprob: float
    logprobs: None = None


@dataclasses.dataclass(frozen=True)
class Output:
    """What `Engine.generate` gives, with the fields of vLLM's `RequestOutput`."""

    prompt: str
    prompt_token_ids: list[int]
    outputs: list[Completion]
    finished: bool


class Engine:
    """A Llama in this process, with the methods of vLLM's `AsyncLLM` that the stand-in calls.

    Args:
        arguments: the arguments of model.json; see OBEYED and IGNORED.
        sampling: the module with Sampling, Answer and check_prompt.
        counts: the metrics that count tokens and requests; None if the config asks for none.

    Raises:
        ValueError: an argument that is neither obeyed nor ignored, or a context longer than the
            model's.
    """

    errored = False

    def __init__(self, arguments: dict[str, Any], sampling: Any, counts: Counts | None) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        for name in arguments:
            if name not in (*OBEYED, *IGNORED):
                raise ValueError(f"there is no engine argument '{name}'")
        torch.set_num_threads(1)  # with such a small network, more threads wait for each other
        self._torch, self._sampling, self._counts = torch, sampling, counts
        place = arguments["model"]
        self._tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
        network = AutoModelForCausalLM.from_pretrained(place, local_files_only=True)
        self._model = network.eval()
        longest = int(self._model.config.max_position_embeddings)
        self._context = int(arguments.get("max_model_len") or longest)
        if self._context > longest:
            raise ValueError(
                f"max_model_len ({self._context}) is greater than the model's context ({longest})"
            )
        #: The most tokens of a prompt in one step; a longer prompt is read in several.
        self._most = int(arguments.get("max_num_batched_tokens") or self._context)
        self._places = asyncio.Semaphore(int(arguments.get("max_num_seqs") or 8))
        self._thread = ThreadPoolExecutor(1)  # one step at a time

    async def check_health(self) -> None:
        """Do nothing: vLLM raises an error here if its process has ended; this engine has none."""

    def shutdown(self) -> None:
        """End the thread that computes."""
        self._thread.shutdown()

    async def generate(
        self, prompt: dict[str, str], parameters: Any, name: str
    ) -> AsyncIterator[Output]:
        """Generate an answer; yields the answer so far after each token.

        Args:
            prompt: the text, as `prompt["prompt"]`.
            parameters: the sampling parameters.
            name: the request's name; not used.

        Raises:
            BadRequest: (of the sampling module) the prompt is empty, or leaves no room.
        """
        text = prompt["prompt"]
        ids = list(self._tokenizer(text).input_ids)
        self._sampling.check_prompt(ids, self._context)
        async with self._places:
            self._count("prompt_tokens_total", len(ids))
            self._count("num_requests_running", 1)
            try:
                async for completion in self._steps(ids, parameters):
                    self._count("generation_tokens_total", 1)
                    yield Output(text, ids, [completion], completion.finish_reason is not None)
            finally:
                self._count("num_requests_running", -1)

    async def _steps(self, ids: list[int], parameters: Any) -> AsyncIterator[Completion]:
        room = self._context - len(ids)
        answer = self._sampling.Answer(parameters, self._decode, self._tokenizer.eos_token_id, room)
        loop, past, total, new = asyncio.get_running_loop(), None, 0.0, ids
        while not answer.reason:
            for start in range(0, len(new), self._most):
                part = new[start : start + self._most]
                scores, past = await loop.run_in_executor(self._thread, self._forward, part, past)
            token, _ = parameters.choose(scores)
            total += float(scores[token] - np.logaddexp.reduce(scores))
            answer.add(token)
            new = [token]
            yield Completion(answer.text, list(answer.tokens), answer.reason or None, total)

    def _forward(self, ids: list[int], past: Any) -> tuple[Any, Any]:
        """One step: the scores of the next token, float32 (vocabulary,), and keys and values."""
        with self._torch.inference_mode():
            tokens = self._torch.tensor([ids])
            output = self._model(tokens, past_key_values=past, use_cache=True, logits_to_keep=1)
            return output.logits[0, -1].float().numpy(), output.past_key_values

    def _decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))

    def _count(self, name: str, count: int) -> None:
        if self._counts is not None:
            self._counts.add(name, count)
