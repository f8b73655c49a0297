"""The Llama of a6__llm, computed with numpy: the reference that served models are compared with.

Students get this file. It says what the network answers to given tokens; it makes no texts.

Each student has a network of their own: that of `workbook.zoo.small_llama`, whose norms are
multiplied by numbers that are drawn by the id.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from grader.vocabulary import own
from grader.vocabulary.probe import Array
from grader.vocabulary.tolerance import Tolerance
from workbook.zoo import small_llama

#: How far the factors on the norms may lie from 1.
_SPREAD = 0.15


@functools.lru_cache(maxsize=8)
def _draw_weights(me: str) -> dict[str, Array]:
    random = own.generator(me, "a6.network")
    found: dict[str, Array] = {}
    for name, value in sorted(small_llama.read().weights.items()):
        factor = random.uniform(1 - _SPREAD, 1 + _SPREAD, value.shape) if value.ndim == 1 else 1
        found[name] = (value * factor).astype(np.float32)
    return found


def weights(me: str = own.DEFAULT) -> dict[str, Array]:
    """The weights of a student's network, float32, by the names of a Hugging Face checkpoint.

    Raises:
        Failure: `me` is no id.
    """
    return _draw_weights(own.name(me))


def logits(me: str, tokens: Sequence[int]) -> Array:
    """The scores that a student's network gives to each next token, after each token of a text.

    It computes in float64, and all places at once: there is nothing to pad and nothing to cache.

    Example::

        logits(me, [17, 302]).shape     # (2, 1024); the last row is for what follows on 302

    Args:
        me: the student's id.
        tokens: ids of tokens, one at least and at most as many as the context holds.

    Returns:
        float64, shape (tokens, vocabulary).

    Raises:
        Failure: `me` is no id.
    """
    return _logits(own.name(me), tuple(tokens))


@functools.lru_cache(maxsize=4)
def _exact(me: str) -> dict[str, Array]:
    return {name: value.astype(np.float64) for name, value in _draw_weights(me).items()}


@functools.lru_cache(maxsize=512)
def _logits(me: str, tokens: tuple[int, ...]) -> Array:
    w = _exact(me)
    count, heads, size = len(tokens), small_llama.HEADS, small_llama.HEAD
    cos, sin = (table[:count].astype(np.float64) for table in angles())
    later = np.triu(np.full((count, count), -np.inf), 1)

    def rotate(x: Array) -> Array:
        half = size // 2
        found: Array = x * cos + np.concatenate([-x[..., half:], x[..., :half]], -1) * sin
        return found

    def apart(x: Array) -> Array:
        return x.reshape(count, heads, size).transpose(1, 0, 2)

    x = w["model.embed_tokens.weight"][list(tokens)]
    for layer in range(small_llama.LAYERS):
        at = f"model.layers.{layer}."
        y = _normalize(x, w[f"{at}input_layernorm.weight"])
        q, k, v = (apart(y @ w[f"{at}self_attn.{name}_proj.weight"].T) for name in "qkv")
        scores = rotate(q) @ rotate(k).transpose(0, 2, 1) / np.sqrt(size) + later
        share = np.exp(scores - scores.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        y = (share @ v).transpose(1, 0, 2).reshape(count, heads * size)
        x = x + y @ w[f"{at}self_attn.o_proj.weight"].T
        y = _normalize(x, w[f"{at}post_attention_layernorm.weight"])
        gate = y @ w[f"{at}mlp.gate_proj.weight"].T
        y = gate / (1 + np.exp(-gate)) * (y @ w[f"{at}mlp.up_proj.weight"].T)
        x = x + y @ w[f"{at}mlp.down_proj.weight"].T
    answer: Array = _normalize(x, w["model.norm.weight"]) @ w["model.embed_tokens.weight"].T
    answer.setflags(write=False)
    return answer


def _normalize(x: Array, weight: Array) -> Array:
    normed: Array = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + small_llama.EPSILON) * weight
    return normed


@functools.cache
def angles() -> tuple[Array, Array]:
    """Cosine and sine of the rotary angles; float32, each of shape (context, head size)."""
    half = np.arange(0, small_llama.HEAD, 2) / small_llama.HEAD
    turns = np.outer(np.arange(small_llama.CONTEXT), small_llama.THETA**-half)
    both = np.concatenate([turns, turns], 1)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


def log_chances(scores: Array, temperature: float = 1.0) -> Array:
    """Logarithms of the probabilities that scores mean at a temperature; the same shape."""
    scaled = scores / temperature
    scaled = scaled - scaled.max(axis=-1, keepdims=True)
    chances: Array = scaled - np.log(np.exp(scaled).sum(axis=-1, keepdims=True))
    return chances


def tolerance() -> Tolerance:
    """How far a score, or the logarithm of a probability, may be from the reference.

    A bound for float32 that holds whatever the weights are would be far too wide for nine layers of
    products. So it is measured: over 12 ids and 96 texts of up to 250 tokens the largest difference
    between float32 in ONNX Runtime and float64 here was 2.2e-5. 45 times that is allowed. Half
    precision, or one token of padding that is seen, changes scores by far more
    (tests/grader/test_a6.py).
    """
    return Tolerance(1e-3, "one program adds in float32, the other in float64")
