"""A small Llama in Hugging Face's format, trained on Python's own reference manual.

The text is `pydoc_data.topics`, what `help("with")` shows: 465,000 characters that are part of
every Python. The model learns it as running text, and as answers to questions that name a section,
so that it can be used with a chat template. So little training gives no knowledge; it gives
sentences that are recognisably about Python.

`llama.npz`, beside this module, holds the trained weights, a byte each, and the tokenizer.
`python -m workbook.zoo.llama` trains it anew (4 minutes on two cores) and writes the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .recipe import Recipe

FILE = Path(__file__).with_name("llama.npz")

#: The context length: tokens of a prompt and its answer together.
CONTEXT = 512
#: The size of the vocabulary.
VOCABULARY = 2048
PAD, EOS, USER, ASSISTANT = "<pad>", "</s>", "<|user|>", "<|assistant|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}<|assistant|>\n{{ message['content'] }}</s>\n"
    "{% else %}<|user|>\n{{ message['content'] }}</s>\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)

_HIDDEN, _LAYERS = 256, 6
_STEPS, _ROWS, _COLUMNS, _RATE = 600, 4, 256, 3e-3
#: How many characters of a section are the answer to its title.
_ANSWER = 700


def manual() -> str:
    """The text of all topics of the reference manual."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name].strip() for name in sorted(topics))


def sections() -> list[tuple[str, str]]:
    """Title and first paragraphs of each section of the manual."""
    parts = re.split(r"^(\S.*)\n[*=~^-]{4,}\n", manual(), flags=re.MULTILINE)
    found = []
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        paragraphs, text = body.strip().split("\n\n"), ""
        for paragraph in paragraphs:
            if text and len(text) + len(paragraph) > _ANSWER:
                break
            text = f"{text}\n\n{paragraph}" if text else paragraph
        if text:
            found.append((title.strip(), text))
    return found


def tokenizer() -> Any:
    """The tokenizer of the trained network: a byte-level BPE, which can encode any text."""
    from tokenizers import Tokenizer

    from . import int8_file

    _, texts = int8_file.read(FILE)
    return _in_transformers(Tokenizer.from_str(texts["tokenizer"]))


def network(hidden: int, layers: int) -> Any:
    """A Llama with random weights.

    Args:
        hidden: the size of the hidden states; attention heads have 64 numbers each.
        layers: how many layers.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            intermediate_size=hidden * 8 // 3 // 32 * 32,
            num_hidden_layers=layers,
            num_attention_heads=hidden // 64,
            num_key_value_heads=hidden // 64,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=None,
            pad_token_id=0,
            eos_token_id=1,
        )
    ).eval()


def llama(target: Path) -> None:
    """Save the trained Llama of 5 million parameters."""
    import torch

    from . import int8_file

    weights, _ = int8_file.read(FILE)
    model = network(hidden=_HIDDEN, layers=_LAYERS)
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]  # one table for both
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    save(model, tokenizer(), target)


def train() -> None:
    """Train the network on the manual, and write its file."""
    import torch

    from . import int8_file

    torch.set_num_threads(2)
    bpe = train_tokenizer(VOCABULARY)
    words = _in_transformers(bpe)
    chats = [
        words.apply_chat_template(
            [{"role": "user", "content": title}, {"role": "assistant", "content": text}],
            tokenize=False,
        )
        for title, text in sections()
    ]
    text = "".join([manual(), EOS, "\n", *chats])
    ids = torch.tensor(bpe.encode(text).ids)
    model = network(hidden=_HIDDEN, layers=_LAYERS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=0.1, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, _RATE, total_steps=_STEPS, pct_start=0.1
    )
    model.train()
    for step in range(_STEPS):
        starts = torch.randint(0, len(ids) - _COLUMNS, (_ROWS,)).tolist()
        rows = torch.stack([ids[start : start + _COLUMNS] for start in starts])
        loss = model(input_ids=rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 10 == 9:
            print(f"{(step + 1) / _STEPS:.0%}, loss {loss.item():.2f}", flush=True)
    weights = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    del weights["lm_head.weight"]  # the table of the input embeddings
    int8_file.write(FILE, weights, tokenizer=bpe.to_str())


def save(model: Any, words: Any, target: Path) -> None:
    """Write weights, config, tokenizer and chat template, as `save_pretrained` does."""
    model.save_pretrained(target)
    words.save_pretrained(target)


def train_tokenizer(vocabulary: int) -> Any:
    """Train a byte-level BPE on the manual; `vocabulary` is the number of its tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        [manual()],
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[PAD, EOS, USER, ASSISTANT],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    return bpe


def _in_transformers(bpe: Any) -> Any:
    """A trained tokenizer as transformers and vLLM take it, with the chat template."""
    from transformers import PreTrainedTokenizerFast

    made = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=PAD,
        eos_token=EOS,
        padding_side="left",  # the next token follows the last one
        model_max_length=CONTEXT,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )
    made.chat_template = CHAT_TEMPLATE
    return made


PACKAGES = ("torch", "transformers", "tokenizers")

RECIPES = (
    Recipe(
        "llama",
        "a Llama of 5 million parameters, trained on Python's manual",
        llama,
        "llama",
        uses=("int8_file", FILE.name),
        packages=PACKAGES,
        on_request=True,
    ),
)

if __name__ == "__main__":
    train()
