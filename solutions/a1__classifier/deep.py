"""A network of many narrow layers, with which a check of a1__classifier sees calls of the network.

A call of it costs much, and a text in the call costs little: 32 calls for one text each take many
times as long as one call for 32 texts, also on a busy machine. With the course's own network the
two are too near to each other.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array

from .answers import labels, settings

#: How many layers, and how wide they are. On one core of a laptop a call takes 4 ms with a text of
#: 20 tokens, 8 ms with 32 such texts, and 18 ms with 32 texts padded to 64 tokens. 32 calls with
#: one text each take 130 ms.
LAYERS, WIDTH = 24, 8
#: The longest text in tokens: padding to 512 tokens would take longer than the calls.
TOKENS = 64
#: The most tokens and positions of a checkpoint.
_MOST = 300_000


def files(folder: Path) -> dict[str, bytes]:
    """The files that give a checkpoint another network: deep, narrow, with weights at random.

    It is a BERT with the checkpoint's own tokens and classes, whatever its network was. The same
    checkpoint gives the same files.

    Args:
        folder: the checkpoint.

    Returns:
        By name the contents of config.json, model.safetensors and tokenizer_config.json.

    Raises:
        Failure: the checkpoint's config.json does not say how many tokens it knows.
    """
    from safetensors.numpy import save

    stated, tokenizer = (settings(folder / f"{name}config.json") for name in ("", "tokenizer_"))
    sizes = {"vocab_size": 0, "max_position_embeddings": 512, "pad_token_id": 0}
    for name, usual in sizes.items():
        size = stated.get(name, usual)
        least = 0 if name == "pad_token_id" else 1
        if not isinstance(size, int) or not least <= size <= _MOST:
            raise Failure(
                f"The checkpoint's config.json says {name} = {str(size)[:40]}.",
                help="Fetch the checkpoint anew.",
            )
        sizes[name] = size
    named = labels(folder)
    config = {
        **sizes,
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        "id2label": {str(place): name for place, name in enumerate(named)},
        "label2id": {name: place for place, name in enumerate(named)},
        "hidden_size": WIDTH,
        "intermediate_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 1,
        "hidden_act": "relu",
        "type_vocab_size": 2,
    }
    weights = _weights(sizes["vocab_size"], sizes["max_position_embeddings"], len(named))
    longest = tokenizer.get("model_max_length")
    tokenizer["model_max_length"] = min(longest, TOKENS) if isinstance(longest, int) else TOKENS
    return {
        "config.json": json.dumps(config).encode(),
        "model.safetensors": save(weights, metadata={"format": "pt"}),
        "tokenizer_config.json": json.dumps(tokenizer).encode(),
    }


def _weights(tokens: int, positions: int, classes: int) -> dict[str, Array]:
    """The weights of the network, by their names in transformers.

    A layer adds a little to what it gets. So after all layers the first token still says which text
    it stands before, and the classes' probabilities differ from text to text.
    """
    random = np.random.default_rng(0)
    made: dict[str, Array] = {}

    def table(name: str, rows: int, columns: int = WIDTH, scale: float = 1.0) -> None:
        made[f"{name}.weight"] = (scale * random.standard_normal((rows, columns))).astype("f4")

    def linear(name: str, rows: int, scale: float = 1.0) -> None:
        table(name, rows, scale=scale / np.sqrt(WIDTH))
        made[f"{name}.bias"] = np.zeros(rows, "f4")

    def norm(name: str) -> None:
        made[f"{name}.weight"], made[f"{name}.bias"] = np.ones(WIDTH, "f4"), np.zeros(WIDTH, "f4")

    for name, rows in (("word", tokens), ("position", positions), ("token_type", 2)):
        table(f"bert.embeddings.{name}_embeddings", rows)
    norm("bert.embeddings.LayerNorm")
    for number in range(LAYERS):
        layer = f"bert.encoder.layer.{number}"
        for name in ("query", "key", "value"):
            linear(f"{layer}.attention.self.{name}", WIDTH)
        linear(f"{layer}.intermediate.dense", WIDTH)
        for part in (f"{layer}.attention.output", f"{layer}.output"):
            linear(f"{part}.dense", WIDTH, scale=0.2)
            norm(f"{part}.LayerNorm")
    linear("bert.pooler.dense", WIDTH)
    linear("classifier", classes, scale=3.0)
    return made
