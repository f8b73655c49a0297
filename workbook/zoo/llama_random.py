"""Llamas with random weights and the trained one's tokenizer: what they say means nothing."""

from __future__ import annotations

from pathlib import Path

from . import llama
from .recipe import Recipe


def tiny(target: Path) -> None:
    """0.6 million parameters, for tests."""
    llama.save(llama.network(hidden=128, layers=2), llama.tokenizer(), target)


def large(target: Path) -> None:
    """40 million parameters, for benchmarks: its arithmetic outweighs what is around it."""
    llama.save(llama.network(hidden=640, layers=8), llama.tokenizer(), target)


RECIPES = (
    Recipe(
        "llama_tiny",
        "a Llama of random weights, for tests",
        tiny,
        "llama_tiny",
        uses=("llama",),
        packages=llama.PACKAGES,
        on_request=True,
    ),
    Recipe(
        "llama_large",
        "a Llama of 40 million random weights, for benchmarks",
        large,
        "llama_large",
        uses=("llama",),
        packages=llama.PACKAGES,
        on_request=True,
    ),
)
