"""A student's checkpoint, computed beside the student's model: what its answers are compared with.

A checkpoint is loaded as data: no code of its own, no pickles, no network; and in a process of its
own, with a clock, since a library may crash on it, or never end.

Students get this file. How a text becomes probabilities is in the hints of task 3, too.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grader.vocabulary import untrusted
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe

from . import answers as answers_of

#: What a served checkpoint is, beside the sizes that its config states.
_FAMILIES = (
    "albert", "bert", "camembert", "deberta-v2", "distilbert", "electra", "mobilebert",
    "mpnet", "roberta", "squeezebert", "xlm-roberta",
)  # fmt: skip


_COMES = (
    "The grader loads it as data, with local_files_only=True, use_safetensors=True and "
    "trust_remote_code=False. Fetch it anew."
)
#: The largest number that a checkpoint's config may hold, and the most layers.
_LARGEST, _LAYERS = 1_000_000, 64


#: The most seconds for a checkpoint to answer all texts of a check, the most seconds for its
#: tokenizer alone, and the most bytes of memory. The course's checkpoint takes a hundredth of the
#: seconds, and a tenth of the memory.
_SECONDS, _TOKENIZER_SECONDS, _MEMORY = 25, 10, 2 << 30


class Reference:
    """A student's checkpoint, loaded anew in a process of its own each time that it is asked.

    Args:
        folder: the checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        # Here, before the fork.
        from tokenizers import Tokenizer  # noqa: F401
        from transformers.models.auto.modeling_auto import (  # noqa: F401
            AutoModelForSequenceClassification,
        )
        from transformers.models.bert import modeling_bert  # noqa: F401

        self._folder = folder
        self._known: dict[str, Array] = {}

    def __call__(self, texts: Sequence[str]) -> Array:
        """The probability of each class, each text asked alone: float64, shape (texts, classes).

        Raises:
            Failure: the checkpoint cannot be loaded, or gives no answer within the limits.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            table = self._ask(lambda network: {"table": network.table(new)}, new)["table"]
            self._known |= zip(new, table, strict=True)
        return np.stack([self._known[text] for text in texts])

    def seconds(self, texts: Sequence[str]) -> float:
        """The seconds of a call of the network for each of some texts, one after the other."""

        def timed(network: _Loaded) -> dict[str, Any]:
            network.table(texts[:2])  # the first calls are slow
            began = time.perf_counter()
            network.table(texts)
            return {"seconds": time.perf_counter() - began}

        return float(self._ask(timed, texts)["seconds"])

    def _ask(
        self, ask: Callable[[_Loaded], Mapping[str, Any]], texts: Sequence[str]
    ) -> dict[str, Any]:
        """Load the checkpoint in another process, and ask it there."""

        try:
            return untrusted.read(
                "The checkpoint",
                lambda: ask(_Loaded(self._folder)),
                help=_COMES,
                seconds=_SECONDS,
                memory=_MEMORY,
            )
        except Failure:
            self._tokenize(texts)  # is it to blame?
            raise

    def _tokenize(self, texts: Sequence[str]) -> None:
        """Fail if the tokenizer alone cannot be loaded, or gives no answer within the limits."""

        def tokenized() -> dict[str, int]:
            tokenizer = _tokenizer(self._folder)
            return {"tokens": sum(len(tokenizer.encode(text).ids) for text in texts)}

        try:
            untrusted.read(
                "The checkpoint's tokenizer.json",
                tokenized,
                help=_COMES,
                seconds=_TOKENIZER_SECONDS,
            )
        except Failure as failure:
            raise Failure(
                failure.rationale,
                help=failure.help,
                safe="The checkpoint's tokenizer.json cannot be read within the limits.",
            ) from None


def _tokenizer(folder: Path) -> Any:
    """The tokenizer of a checkpoint. To be called within `untrusted.read`."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


class _Loaded:
    """The network and the tokenizer of a student's checkpoint, asked one text at a time.

    To be used within `untrusted.read`.
    """

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers.models.auto.modeling_auto import AutoModelForSequenceClassification

        torch.set_num_threads(1)
        self._torch = torch
        self._tokenizer = _tokenizer(folder)
        network, found = AutoModelForSequenceClassification.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
        if found["missing_keys"]:  # they would be drawn at random
            raise ValueError("the file lacks weights that the config names")
        self._network = network.eval()
        stated = answers_of.settings(folder / "tokenizer_config.json").get("model_max_length")
        config = self._network.config
        limits = [limit for limit in (stated, getattr(config, "max_position_embeddings", None))
                  if isinstance(limit, int)]  # fmt: skip
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(min([*limits, 512]))

    def table(self, texts: Sequence[str]) -> Array:
        """The probability of each class: float64, shape (texts, classes)."""
        rows = []
        with self._torch.inference_mode():
            for text in texts:
                ids = self._torch.tensor([self._tokenizer.encode(text).ids])
                logits = self._network(input_ids=ids, attention_mask=ids * 0 + 1).logits
                rows.append(logits.double().softmax(-1)[0].numpy())
        return np.stack(rows)


def reference(server: Probe, model: str) -> Reference:
    """The student's checkpoint, loaded as data; fails where it is no classifier.

    Raises:
        Failure: it cannot be loaded, or is of a family that is not admitted.
    """
    folder = answers_of.checkpoint(server, model)
    settings = answers_of.settings(folder / "config.json")
    family = settings.get("model_type")
    if family not in _FAMILIES:
        raise Failure(
            f"The checkpoint's model_type is {str(family)[:40]!r}.",
            help=f"The grader loads text classifiers of these families: {', '.join(_FAMILIES)}.",
        )
    for name, number in settings.items():
        most = _LAYERS if "layers" in name or "groups" in name else _LARGEST
        if isinstance(number, int) and number > most:
            raise Failure(
                f"The checkpoint cannot be loaded as data: its config says {name[:40]} = {number}.",
                help=f"At most {most} is loaded here.",
            )
    module = str(family).replace("-", "_")
    importlib.import_module(f"transformers.models.{module}.modeling_{module}")  # before the fork
    return _load(folder, answers_of.digest(folder))


@functools.lru_cache(maxsize=2)
def _load(folder: Path, digest: str) -> Reference:
    network = Reference(folder)
    network(["Is it a classifier?"])
    return network
