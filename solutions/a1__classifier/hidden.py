"""The hidden checks of a1__classifier.

They load the student's checkpoint themselves, and compare its answers with those of the student's
model, on texts that no student has seen: pieces of two texts of the zoo's test data, put together
at random. A checkpoint is loaded as data: no code of its own, no pickles, no network; and in a
process of its own, with a clock, since a library may crash on it, or never end. The messages
contain no text and no expected value.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grader.vocabulary import require, untrusted
from grader.vocabulary.define import hidden
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe

from . import answers as answers_of
from . import facts
from .batches import mixed_sizes, one_call, times
from .examples import compare_examples, read_examples
from .refusals import crowd, refuses_each
from .unsure import compare_counts, read_counts

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


#: Of the texts in a batch that is timed, at least this share gets the class that the checkpoint
#: gives. What else is wrong with the answers is for a1.answers.
_SAME_CLASS = 0.5
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

    def seconds(self, texts: Sequence[str], calls: int) -> list[float]:
        """The seconds of each of several calls of the network, for one text each."""

        def timed(network: _Loaded) -> dict[str, Any]:
            return {"seconds": times(lambda text: network.table([text]), texts, calls)}

        return [float(second) for second in self._ask(timed, texts)["seconds"]]

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


def secret_texts(server: Probe, count: int, languages: Sequence[str]) -> list[str]:
    """New texts, each a piece of one test text and a piece of another of the same language.

    Args:
        server: the random numbers come from its `rng`.
        count: the number of texts.
        languages: those that they are in.
    """
    unseen, found = facts.unseen_texts(), []
    for number in range(count):
        mine = unseen[languages[number % len(languages)]]
        one, other = (mine[place] for place in server.rng.integers(len(mine), size=2))
        at = int(server.rng.integers(3, max(4, len(one))))
        found.append(f"{one[:at].strip()} {other[: int(server.rng.integers(4, 60))].strip()}")
    return [found[place] for place in server.rng.permutation(count)]


def known(server: Probe, model: str, me: str | None = None) -> tuple[list[str], tuple[str, ...]]:
    """The classes of the checkpoint, and the languages of the texts that it is asked for."""
    classes = answers_of.labels(answers_of.checkpoint(server, model))
    if answers_of.of_the_zoo(classes):
        return classes, tuple(classes)
    return classes, facts.own_languages(me) if me else facts.own_languages()


@hidden(
    "a1.config",
    help="Look at TEXT's type in config.pbtxt.",
)
def only_texts(server: Probe, model: str) -> None:
    """Numbers in place of texts are refused."""
    if not server.refusal(model, {facts.INPUT: np.zeros((2, 1), np.float32)}):
        raise Failure(f"{model} answers numbers in place of texts.", help="Look at TEXT's type.")


@hidden(
    "a1.answers",
    help="The answers are compared with those of your checkpoint. Does the network get the "
    "whole text as the client sent it, with the attention mask, and are the logits turned "
    "into probabilities by softmax? Is the checkpoint complete, and the one that you "
    "fetched?",
)
def secret_answers(server: Probe, me: str, model: str) -> None:
    """Other texts get the probabilities that the checkpoint gives, in batches of any size."""
    network = reference(server, model)
    classes, languages = known(server, model, me)
    for count in (1, 7, facts.ROWS):
        texts = secret_texts(server, count, languages)
        if count == facts.ROWS:
            answers_of.tells_apart(network(texts), "The checkpoint")
            texts[3] = " ".join(texts)[:300]  # more than the network reads
        require.close(
            answers_of.ask(server, model, texts, classes).table,
            network(texts),
            what=f"the probabilities of {count} other texts",
            tolerance=answers_of.tolerance(),
            help="They are compared with those of your checkpoint. Does the network get the whole "
            "text as the client sent it, with the attention mask, and are the logits turned into "
            "probabilities by softmax?",
        )


@hidden(
    "a1.batches",
    help="Each text must get the answer that it gets alone, whatever else is in its request "
    "and beside it. All texts of an execution go through the network in one call.",
)
def secret_batches(server: Probe, me: str, model: str) -> None:
    """Other texts, in requests of other sizes, get the answers that they get alone."""
    classes, languages = known(server, model, me)
    texts = secret_texts(server, facts.ROWS, languages)
    sizes = [*server.rng.permutation([1, 2, 3, 4, 6, 7, 9]).tolist()]
    mixed_sizes(server, model, texts, sizes, classes)
    network = reference(server, model)

    def alone(some: Sequence[str]) -> Array:
        """The model's own answers, each text asked alone; most have the network's best class."""
        tables = [answers_of.ask(server, model, [text], classes).table for text in some]
        found = np.concatenate(tables)
        if (found.argmax(1) == network(some).argmax(1)).mean() < _SAME_CLASS:
            raise Failure("Most short texts get another class than from the checkpoint.")
        return found

    one_call(server, model, texts, classes, alone=network.seconds, truth=alone)


@hidden(
    "a1.refusals",
    help="Only empty and blank texts, texts that are no UTF-8 and texts that are too long are "
    "refused, each with a message of its own. Texts with signs that no language has, with "
    "line ends, and of exactly the greatest length are good texts.",
)
def secret_refusals(server: Probe, me: str, model: str) -> None:
    """Other bad texts of the same four kinds; and good texts that look unusual are answered."""
    classes, languages = known(server, model, me)
    texts = secret_texts(server, 16, languages)
    spaces = ["\u00a0", " ", "\t", "\n", "\u2003", "\u3000"]
    blank = "".join(server.rng.choice(spaces, size=int(server.rng.integers(1, 9))))
    cut = texts[0].encode() + "ё".encode()[:1]
    longer = facts.LONGEST + int(server.rng.integers(1, 40))
    bad = {
        "an empty text": b"",
        "a blank text": blank.encode(),
        "a text that is not UTF-8": cut,
        "a text that is too long": ("ю" * longer).encode(),
    }
    refuses_each(server, model, bad, good=texts[1 : int(server.rng.integers(3, 7))])
    crowd(server, model, texts, bad, classes)
    unusual = [texts[2] + " 🙂", f"\n{texts[3]}\n", "ю " * (facts.LONGEST // 2)]
    are_good = (
        "Texts with signs that no language has, with line ends, and of exactly "
        f"{facts.LONGEST} characters are good texts."
    )
    if server.refusal(model, answers_of.column(unusual)):
        raise Failure(f"{model} refuses good texts that look unusual.", help=are_good)


@hidden(
    "a1.examples",
    help="Each label and score in `examples` is what your model answers to the text beside it.",
)
def true_examples(server: Probe, model: str, examples: list[dict[str, Any]]) -> None:
    """Asked once more, for one text at a time, the model gives the same answers."""
    classes = answers_of.labels(answers_of.checkpoint(server, model))
    given = read_examples(examples)
    alone = []
    for one in given:
        served = [answers_of.ask(server, model, [text], classes) for text in one.texts]
        scores = np.concatenate([answer.scores for answer in served])
        alone.append(([label for answer in served for label in answer.labels], scores))
    compare_examples(given, alone, "your model")


@hidden(
    "a1.code",
    help="What execute keeps in self is still there at the next batch.",
)
def no_state(server: Probe, model: str) -> None:
    """Requests leave nothing behind: the same texts get the same answers after others."""
    classes, languages = known(server, model)
    texts, others = (secret_texts(server, 8, languages) for _ in range(2))
    first = answers_of.ask(server, model, texts, classes)
    answers_of.ask(server, model, others, classes)
    server.outcomes(model, [answers_of.column([b"\xff"]), answers_of.column([""])])
    again = answers_of.ask(server, model, texts, classes)
    require.close(
        again.table,
        first.table,
        what="the probabilities of texts that were asked a second time",
        tolerance=answers_of.tolerance(),
    )


@hidden(
    "a1.unsure",
    help="`kept` and `caught` are counted with the scores of your checkpoint, for the texts "
    "that are drawn for your `me`.",
)
def true_counts(
    server: Probe, me: str, model: str, thresholds: Any, kept: Any, caught: Any, chosen: float
) -> None:
    """The counts are those of the checkpoint's scores."""
    network = reference(server, model)
    scores = [
        network(texts).max(axis=1) for texts, _ in (facts.own_texts(me), facts.foreign_texts(me))
    ]
    counts = read_counts(thresholds, kept, caught, chosen)
    compare_counts(counts, scores[0], scores[1], "your checkpoint")
