"""A small Llama that comes with the course: 0.9 million trained parameters in a file of 0.9 MB.

The networks of assignment a6 are made of it, one for each student::

    found = small_llama.read()
    found.weights["model.embed_tokens.weight"].shape        # (1024, 128)
    found.titles[:2]                                        # ('The "assert" statement', …)

`small_llama.npz`, beside this module, holds a byte per weight, the tokenizer, and titles of the
reference manual's sections, which the network has learned to answer.
`python -m workbook.zoo.small_llama` trains it anew (8 minutes on one core) and writes the file.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import int8_file

FILE = Path(__file__).with_name("small_llama.npz")

#: The network: size of its hidden states, layers, attention heads and the numbers in each, size of
#: the gated layer, vocabulary, and context length in tokens.
HIDDEN, LAYERS, HEADS, HEAD, INNER, VOCABULARY, CONTEXT = 128, 4, 2, 64, 320, 1024, 256
#: What is added under the root of a norm, and the base of the rotary angles.
EPSILON, THETA = 1e-6, 10_000.0
#: Ids of tokens with a meaning of their own.
PAD, EOS = 0, 1

_STEPS, _ROWS, _RATE = 1_800, 8, 3e-3
_LONGEST_ANSWER = 160  # characters


@dataclasses.dataclass(frozen=True)
class SmallLlama:
    """What the file holds.

    Attributes:
        weights: float32 arrays by their names in a checkpoint of Hugging Face's `LlamaForCausalLM`.
            Input and output embeddings are one table.
        tokenizer: the content of its `tokenizer.json`.
        titles: titles of sections of Python's reference manual.
    """

    weights: dict[str, NDArray[np.float32]]
    tokenizer: str
    titles: tuple[str, ...]


@functools.cache
def read() -> SmallLlama:
    """Read the file that comes with the course. It takes some milliseconds."""
    weights, texts = int8_file.read(FILE)
    return SmallLlama(weights, texts["tokenizer"], tuple(json.loads(texts["titles"])))


def settings() -> dict[str, Any]:
    """The content of the checkpoint's `config.json`, without what vLLM and transformers add."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": EPSILON,
        "rope_theta": THETA,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "torch_dtype": "float32",
    }


def train() -> None:
    """Train the network on Python's reference manual, and write the file."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from . import llama

    answers = {title: _answer(text) for title, text in llama.sections()}
    chats = [(title, text) for title, text in answers.items() if len(title) <= 60 and text]
    words = llama.train_tokenizer(VOCABULARY)
    chat_texts = [
        f"{llama.USER}\n{title}{llama.EOS}\n{llama.ASSISTANT}\n{text}{llama.EOS}\n"
        for title, text in chats
    ]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    manual = torch.tensor(words.encode(llama.manual()).ids)
    model = LlamaForCausalLM(LlamaConfig(**settings())).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=0.1, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, _RATE, total_steps=_STEPS, pct_start=0.05
    )
    for step in range(_STEPS):
        talk = torch.tensor(words.encode("".join(random.permutation(chat_texts)[:60])).ids)
        rows = []
        for row in range(_ROWS):  # half of the rows are chats
            text = talk if row % 2 else manual
            start = int(random.integers(0, len(text) - CONTEXT))
            rows.append(text[start : start + CONTEXT])
        batch = torch.stack(rows)
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"{(step + 1) / _STEPS:.0%}, loss {loss.item():.2f}", flush=True)
    weights = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    del weights["lm_head.weight"]  # the table of the input embeddings
    titles = json.dumps([title for title, _ in chats])
    int8_file.write(FILE, weights, tokenizer=words.to_str(), titles=titles)


def _answer(text: str) -> str:
    """The first sentence of a section, on one line; "" where it is long."""
    first = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    sentence = first.partition(". ")[0].rstrip(".:") + "."
    fits = 30 <= len(sentence) <= _LONGEST_ANSWER and sentence[0].isupper()
    return sentence if fits else ""


if __name__ == "__main__":
    train()
