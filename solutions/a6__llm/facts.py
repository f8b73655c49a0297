"""What notebook, checks and hidden checks of a6__llm share: prompts, files, requests.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grader.vocabulary import own
from grader.vocabulary.probe import Array
from workbook.common.errors import WorkbookError
from workbook.zoo import small_llama

from . import network, step

STEP, CHAT, STREAM, VLLM = "llama_step", "chat", "chat_stream", "chat_vllm"
#: The value that is handed over if the task could not be begun, because a package is missing.
NOT_ATTEMPTED = "not attempted"

TEXT_INPUT = {"text_input": ("STRING", [1]), "sampling_parameters": ("STRING", [1])}
ANSWER = {
    "text_output": ("STRING", [1]),
    "token_ids": ("INT32", [-1]),
    "logprobs": ("FP32", [-1]),
    "finish_reason": ("STRING", [1]),
}
#: The most rows of a request to `chat`, and the most answers of `chat_stream` at one time.
ROWS = 8
#: How many questions, and how many openings, each student has.
QUESTIONS, OPENINGS = 8, 8
#: Beginnings of sentences as they stand in Python's reference manual.
_OPENINGS = (
    "The name of a", "If the class", "An object is", "When a function", "The following",
    "A list", "This is the", "Return the", "Each module", "For example, the", "It is an error",
    "The value of", "A generator", "Python does not", "In the current", "The expression",
    "Note that the", "All the methods", "The first argument", "Dictionaries",
)  # fmt: skip
#: What pads a row of `token_ids`.
FILLED = -1
#: An empty cache for one row: it has one column, which the mask hides.
EMPTY = (2 * small_llama.LAYERS, small_llama.HEADS, 1, small_llama.HEAD)


# -- what is drawn for a student -------------------------------------------------------------------


def question(title: str) -> str:
    """A question as the network has seen them in training: it goes on with the answer.

    Example::

        question("Lambdas")     # "<|user|>\\nLambdas</s>\\n<|assistant|>\\n"
    """
    return f"<|user|>\n{title}</s>\n<|assistant|>\n"


@functools.lru_cache(maxsize=8)
def _prompts(me: str, purpose: str) -> tuple[str, ...]:
    random = own.generator(me, purpose)
    titles = small_llama.read().titles
    chosen = random.choice(len(titles), QUESTIONS, replace=False)
    opened = random.choice(len(_OPENINGS), OPENINGS, replace=False)
    both = [*(question(titles[k]) for k in chosen), *(_OPENINGS[k] for k in opened)]
    return tuple(both[k] for k in random.permutation(len(both)))


def own_prompts(me: str = own.DEFAULT) -> list[str]:
    """16 prompts for a student: 8 questions, and 8 beginnings of sentences.

    Raises:
        Failure: `me` is no id.
    """
    return list(_prompts(own.name(me), "a6.prompts"))


def own_pair(me: str = own.DEFAULT) -> list[str]:
    """The shortest and the longest of a student's prompts, counted in tokens.

    Raises:
        Failure: `me` is no id.
    """
    by_length = sorted(own_prompts(me), key=lambda prompt: len(tokenizer().encode(prompt).ids))
    return [by_length[0], by_length[-1]]


def drawn_prompts(random: np.random.Generator, count: int) -> list[str]:
    """Other prompts of both kinds, of different lengths."""
    titles = small_llama.read().titles
    found = []
    for place in range(count):
        opening = str(random.choice(_OPENINGS))
        if place % 2:
            found.append(question(str(random.choice(titles))))
        elif place % 4:
            found.append(f"{random.choice(titles)}. {opening}")
        else:
            found.append(opening)
    return found


# -- the given files -------------------------------------------------------------------------------


@functools.cache
def tokenizer() -> Any:
    """The tokenizer, as the package tokenizers reads it.

    Example::

        ids = tokenizer().encode("A list").ids
        tokenizer().decode(ids)         # "A list"
    """
    from tokenizers import Tokenizer

    return Tokenizer.from_str(small_llama.read().tokenizer)


def fetch_network(me: str, folder: Path | str = "models") -> Path:
    """Write a student's network into the folders of the models: as a step, and as a checkpoint.

    Example::

        fetch_network(me)

    Args:
        me: the student's id.
        folder: the folder with `llama_step`, `chat`, `chat_stream` and `chat_vllm`. Into the first
            goes `1/model.onnx`; into `chat` and `chat_stream` config.json and tokenizer.json; into
            the last `1/checkpoint`. What is there is replaced.

    Returns:
        The folder.

    Raises:
        Failure: `me` is no id.
    """
    from safetensors.numpy import save

    home, stored = Path(folder), small_llama.read()
    config = json.dumps(small_llama.settings(), indent=1)
    model = home / STEP / "1" / "model.onnx"
    model.parent.mkdir(parents=True, exist_ok=True)
    step.write(me, model)
    checkpoint = home / VLLM / "1" / "checkpoint"
    for place in (home / CHAT / "1", home / STREAM / "1", checkpoint):
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.json").write_text(config, "utf-8")
        (place / "tokenizer.json").write_text(stored.tokenizer, "utf-8")
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "eos_token": "</s>",
    }
    settings |= {"model_max_length": small_llama.CONTEXT, "clean_up_tokenization_spaces": False}
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(settings, indent=1), "utf-8")
    weights = save(network.weights(me), metadata={"format": "pt"})
    (checkpoint / "model.safetensors").write_bytes(weights)
    return home


#: The last line of a copy of writing.py; it ends with the digest of what stands above it.
_NOTE = "# Copied from models/chat/1/writing.py: edit that one, this copy is replaced. Copy "


def without_note(text: str) -> str:
    """The text of a writing.py, without the line that says that it is a copy."""
    before, note, _ = text.rpartition(_NOTE)
    return before if note else text


def copy_writing(folder: Path | str = "models") -> Path:
    """Copy writing.py of `chat` to `chat_stream`. A copy that was edited is not replaced.

    Example::

        copy_writing()

    Args:
        folder: the folder with `chat` and `chat_stream`.

    Returns:
        The copy.

    Raises:
        WorkbookError: the copy was edited, and differs from the file of `chat`.
    """
    source, copy = (Path(folder, model, "1", "writing.py") for model in (CHAT, STREAM))
    text = source.read_text("utf-8")
    text += "" if text.endswith("\n") else "\n"
    with contextlib.suppress(FileNotFoundError):
        before = copy.read_text("utf-8")
        kept = without_note(before)
        if kept != text and before != f"{kept}{_NOTE}{_digest(kept)}\n":
            raise WorkbookError(
                f"{copy} was edited since it was copied. It was left as it is, and {STREAM} was "
                "not deployed.",
                where=str(copy),
                todo=f"Make the same change in {source}, delete {copy}, and run this cell again.",
            )
    copy.write_text(f"{text}{_NOTE}{_digest(text)}\n", "utf-8")
    return copy


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def lacking_vllm() -> str:
    """Why vLLM cannot serve here, and what to do; "" where it is installed."""
    if importlib.util.find_spec("vllm") is not None:
        return ""
    return "vLLM is not installed here: run `make vllm` in the course's folder, then this again."


# -- requests --------------------------------------------------------------------------------------


def as_text(texts: Sequence[str | bytes]) -> Array:
    """Texts as Triton takes them: a column of bytes, one text per row."""
    rows = [[text.encode() if isinstance(text, str) else text] for text in texts]
    return np.array(rows, object)


def request(prompts: Sequence[str], **wanted: Any) -> dict[str, Array]:
    """The inputs of one request to `chat`, in which all rows have the same parameters.

    Example::

        request(["A list"], max_tokens=8, temperature=0)
    """
    return requests_of(prompts, [wanted] * len(prompts))


def requests_of(prompts: Sequence[str], wanted: Sequence[dict[str, Any]]) -> dict[str, Array]:
    """The inputs of one request to `chat`, in which each row has parameters of its own.

    Example::

        requests_of(["A list"] * 2, [{"temperature": 1, "seed": 1}, {"temperature": 1, "seed": 2}])
    """
    parameters = [json.dumps(one) for one in wanted]
    return {"text_input": as_text(prompts), "sampling_parameters": as_text(parameters)}


def single(prompt: str, **wanted: Any) -> dict[str, Array]:
    """The inputs of one request to `chat_stream` or `chat_vllm`, which have no batch."""
    return {name: rows[0] for name, rows in request([prompt], **wanted).items()}
