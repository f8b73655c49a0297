"""The stand-in for Triton's TensorRT-LLM backend: every load fails and says what is needed.

It stands in for the C++ backend that serves engines; TensorRT-LLM has it up to version 1.2. This
stand-in checks the parameters that the C++ backend requires (inflight_batcher_llm/src/
model_instance_state.cc in triton-inference-server/tensorrtllm_backend), so that a config can be
corrected without a GPU. Since version 1.3 there are no engines: NVIDIA's repository of models for
TensorRT-LLM then has `backend: "python"`.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from workbook.backends.base import BadModel, Config, Signature, StandIn

#: The values of gpt_model_type. "V1" means the same as "v1": no in-flight batching.
TYPES = ("v1", "inflight_batching", "inflight_fused_batching")


class TritonPythonModel(StandIn):
    """Refuses every model: TensorRT-LLM engines run on NVIDIA GPUs only."""

    backend: ClassVar[str] = "tensorrtllm"

    @classmethod
    def describe(cls, config: Config) -> Signature:
        """Refuse a config without tensors, as `load` refuses any other config."""
        raise _needed(config)

    def load(self) -> None:
        """Refuse the model."""
        raise _needed(self.config)


def _needed(config: Config) -> BadModel:
    fault = refused_on_a_gpu(config)
    also = f". There the backend would refuse this config: {fault}" if fault else ""
    return BadModel(
        f"unable to load model '{config.name}', TensorRT-LLM runs on NVIDIA GPUs only, in the "
        "container tritonserver:<version>-trtllm-python-py3; up to TensorRT-LLM 1.2 with engines "
        "built there by trtllm-build for that GPU model (parameter gpt_model_path), later with its "
        'LLM API and backend: "python". On this server serve a language model with the vllm or '
        f"python backend{also}"
    )


def refused_on_a_gpu(config: Config) -> str:
    """The error of NVIDIA's backend for a config that it refuses even on a GPU; else "".

    This function checks the parameters without a default: the kind of batching, and the engine's
    folder.
    """
    kind = config.parameters.get("gpt_model_type")
    if kind is None:
        return "Cannot find parameter with name: gpt_model_type"
    if kind not in (*TYPES, "V1"):
        return f"Invalid gpt_model_type. Must be {'/'.join(TYPES)}."
    engines = [config.parameters.get(key, "") for key in ("gpt_model_path", "encoder_model_path")]
    if not any(place and Path(place).exists() for place in engines):
        return "Both encoder and decoder model paths are empty"
    return ""
