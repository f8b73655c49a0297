"""Llamas with random weights and the trained Llama's tokenizer, for tests and benchmarks.

Their answers mean nothing. Input and output embeddings are different tables (not tied): with tied
ones, random weights would repeat the last token for ever, and two ways of serving would agree on
that even if one of them lost the tokens before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import llama
from .recipe import Recipe


def network(hidden: int, layers: int) -> Any:
    """A Llama with random weights whose output embeddings are not tied to the input embeddings."""
    import torch

    model = llama.network(hidden, layers)
    model.config.tie_word_embeddings = False
    table = model.model.embed_tokens.weight
    model.lm_head.weight = torch.nn.Parameter(torch.empty_like(table).normal_(std=0.02))
    return model


def tiny(target: Path) -> None:
    """0.9 million parameters, for tests. After the end-of-text token it gives that token again."""
    import torch

    model = network(hidden=128, layers=2)
    end = model.config.eos_token_id
    with torch.no_grad():
        model.lm_head.weight[end] = model.model.embed_tokens.weight[end]
    llama.save(model, llama.tokenizer(), target)


def large(target: Path) -> None:
    """40 million parameters, for benchmarks: most of a step's time is arithmetic, not overhead."""
    llama.save(network(hidden=640, layers=8), llama.tokenizer(), target)


RECIPES = (
    Recipe(
        "llama_tiny",
        "a Llama of random weights, for tests",
        tiny,
        "llama_tiny",
        uses=("llama", "int8_file", llama.FILE.name),
        packages=llama.PACKAGES,
        on_request=True,
    ),
    Recipe(
        "llama_large",
        "a Llama of 40 million random weights, for benchmarks",
        large,
        "llama_large",
        uses=("llama", "int8_file", llama.FILE.name),
        packages=llama.PACKAGES,
        on_request=True,
    ),
)
