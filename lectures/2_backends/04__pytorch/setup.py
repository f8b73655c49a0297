"""For 04__pytorch: a small GPT with the production guide's tensors, and files for models."""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from workbook.lessons import formats, place
from workbook.lessons.workspace import folder

#: The models that the reader opens.
HERE = Path(__file__).parent / "models"
#: The size of the production guide's vocabulary.
WORDS = 13088
_WIDTH = 32


def models() -> Path:
    """Make a fresh repository with the models beside the notebook; each has an empty version 1."""
    home = folder("pytorch")
    place(home, *(model for model in HERE.glob("[a-z]*") if model.name != "scaled"))
    (home / "focus_pytorch/1").mkdir(parents=True)
    return home


def with_nvfuser(text: str) -> str:
    """Activate the parameter that the production guide's config has in comments."""
    block = r"(?ms)^#parameters: \{.*?^#\}"
    return re.sub(block, lambda found: found[0].replace("#", ""), text)


class TinyGPT(torch.nn.Module):  # type: ignore[misc]
    """A GPT of one layer with random weights, and with the production guide's inputs and output.

    input_ids, attention_mask, token_type_ids: int64 (n, tokens) → float32 (n, tokens, 13088).
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(WORDS, _WIDTH)
        self.types = torch.nn.Embedding(WORDS, _WIDTH)
        self.mix = torch.nn.Linear(_WIDTH, 3 * _WIDTH)
        self.head = torch.nn.Linear(_WIDTH, WORDS)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor,
    ) -> torch.Tensor:
        """Return the logits of the next word at each place."""
        x = self.words(input_ids) + self.types(token_type_ids)
        query, key, value = self.mix(x).chunk(3, dim=-1)
        scores = query @ key.transpose(1, 2)
        seen = torch.ones_like(scores).tril() * attention_mask[:, None, :]
        weights = torch.softmax(scores.masked_fill(seen == 0, -1e9), dim=-1)
        return self.head(x + weights @ value)


class Scaled(torch.nn.Module):  # type: ignore[misc]
    """The task's network: its pixels lie between any values of black and white.

    image float32 (n, 3, 64, 64), black and white float32 (n, 1) → logits float32 (n, 2).
    """

    def __init__(self) -> None:
        super().__init__()
        self.net = formats.network()

    def forward(
        self, image: torch.Tensor, black: torch.Tensor, white: torch.Tensor
    ) -> torch.Tensor:
        """Return the logits of "blurred" and "sharp"."""
        low, high = black[:, :, None, None], white[:, :, None, None]
        return self.net(2 * (image - low) / (high - low) - 1)


#: A parameter that is neither true nor false, to put before the others.
NO_BOOLEAN = 'parameters { key: "INFERENCE_MODE" value: { string_value: "yes" } }\nparameters'


def scaled(models: Path) -> None:
    """Put the task's model into a repository; its config's names do not fit forward().

    An existing folder stays as it is, because it may hold the reader's work.
    """
    home = models / "scaled"
    if home.exists():
        return
    place(models, HERE / "scaled")
    torch.jit.script(Scaled().eval()).save(home / "1/model.pt")


def traced(module: torch.nn.Module, example: torch.Tensor) -> tuple[Any, str]:
    """Trace a module; returns the trace, and torch's warnings.

    Args:
        example: the input whose operations are recorded.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = torch.jit.trace(module, example)
    words = [str(w.message) for w in caught if issubclass(w.category, torch.jit.TracerWarning)]
    return trace, "\n".join(dict.fromkeys(words))


def channels_last(models: Path) -> str:
    """Copy `focus_pytorch` with weights in the layout channels-last; returns the copy's name.

    The convolutions then compute in this layout, and convert the pictures themselves.
    """
    home = models / "focus_last"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(models / "focus_pytorch", home)
    network = formats.network().to(memory_format=torch.channels_last)
    torch.jit.script(network).save(home / "1/model.pt")
    return home.name


def sentence(tokens: int) -> list[npt.NDArray[np.int64]]:
    """Make a sentence for `TinyGPT`: ids, mask and types, each int64 (1, tokens)."""
    ids = np.random.default_rng(tokens).integers(2, WORDS, (1, tokens))
    mask, types = np.ones_like(ids), np.zeros_like(ids)
    mask[0, -1] = 0
    return [ids, mask, types]
