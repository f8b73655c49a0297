"""The tiny Llama's answers, computed by the framework itself in float32."""

from __future__ import annotations

import functools
from typing import Any

from workbook import zoo


@functools.cache
def reference(prompt: str, number: int) -> list[int]:
    """The likeliest tokens, each computed from the whole text before it."""
    import torch

    ids = tokenizer()(prompt, return_tensors="pt").input_ids
    for _ in range(number):
        with torch.inference_mode():
            best = _model()(ids).logits[0, -1].argmax()
        ids = torch.cat([ids, best.reshape(1, 1)], 1)
    return ids[0, -number:].tolist()  # type: ignore[no-any-return]


@functools.cache
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(zoo.checkpoint("llama_tiny"))


@functools.cache
def _model() -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)  # so small a model; threads that wait would spin beside the servers
    return AutoModelForCausalLM.from_pretrained(zoo.checkpoint("llama_tiny")).eval()
