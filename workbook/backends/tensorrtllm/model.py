"""The stand-in for Triton's TensorRT-LLM backend: every load fails and says what is needed."""

from __future__ import annotations

from typing import ClassVar

from workbook.backends.base import BadModel, Config, Signature, StandIn


class TritonPythonModel(StandIn):
    """Refuses every model: TensorRT-LLM engines run on NVIDIA GPUs only."""

    backend: ClassVar[str] = "tensorrtllm"

    @classmethod
    def describe(cls, config: Config) -> Signature:
        """Refuse a config that leaves its tensors out, as `load` refuses any other."""
        raise _needed(config)

    def load(self) -> None:
        """Refuse the model."""
        raise _needed(self.config)


def _needed(config: Config) -> BadModel:
    return BadModel(
        f"unable to load model '{config.name}', TensorRT-LLM runs on NVIDIA GPUs only, in the "
        "container tritonserver:<version>-trtllm-python-py3, with engines built there by "
        "trtllm-build for that GPU model (parameter gpt_model_path). On this server serve a "
        "language model with the vllm or python backend"
    )
