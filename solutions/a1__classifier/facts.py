"""What notebook, checks and hidden checks of a1__classifier share: facts, texts and a checkpoint.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from grader.vocabulary import own
from workbook import zoo
from workbook.common.errors import WorkbookError
from workbook.zoo import data

INPUT, LABEL, SCORE, TABLE = "TEXT", "LABEL", "SCORE", "PROBABILITIES"
INPUTS = {INPUT: ("STRING", [1])}
#: The last one holds a number per class: dims -1, or the number of classes.
OUTPUTS = {LABEL: ("STRING", [1]), SCORE: ("FP32", [1]), TABLE: ("FP32", None)}

#: The most texts of one request, and at least the server's max_batch_size.
ROWS = 32
#: The most characters of a text. A longer one is refused.
LONGEST = 1_000
#: How many of the sixteen languages a student's model tells apart, and how many texts of each
#: language there are.
CLASSES, TEXTS = 8, 4
#: The least share of the own texts whose language a right model names.
RIGHT = 0.9
#: max_queue_delay_microseconds: 20000 is asked for. A longer one makes every check slow; with a
#: much shorter one requests that are sent together may not meet.
DELAY = (5_000, 100_000)
#: Task 4: how many texts each of the requests holds that are sent together.
SIZES = (1, 5, 2, 8, 3, 1, 4, 8)
#: Task 6: the least number of example requests, and the most texts of one.
EXAMPLES = (5, 20)
#: Task 7: up to this number of findings, half of the points are left.
FEW_FAULTS = 3
#: Task 8: how many thresholds are compared at least, and how many different pairs of counts they
#: give at least.
THRESHOLDS, DIFFERENT = 5, 3

#: Where the checkpoint lies in the model's folder.
CHECKPOINT = Path("1", "checkpoint")
#: What `fetch_checkpoint` copies, and what a served checkpoint may hold: data, and no code.
DATA = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
)
#: A file beside them: where the checkpoint is from.
ORIGIN = "origin.txt"


# -- what is drawn for a student -------------------------------------------------------------------


def own_languages(me: str = own.DEFAULT) -> tuple[str, ...]:
    """The languages that the model of a student tells apart, in the order of its classes.

    Example::

        own_languages("anna")       # ("fi", "uk", …), eight codes

    Args:
        me: the student's id.

    Raises:
        Failure: `me` is no id.
    """
    drawn = own.generator(me, "a1.languages").permutation(len(data.LANGUAGES))[:CLASSES]
    return tuple(data.LANGUAGES[place] for place in drawn)


def own_texts(me: str = own.DEFAULT) -> tuple[list[str], list[str]]:
    """32 texts for a student, four in each of the own languages; and the language of each.

    No name in them is in a text that the model was trained on.

    Args:
        me: the student's id.

    Raises:
        Failure: `me` is no id.
    """
    return _texts(me, "a1.texts", own_languages(me))


def foreign_texts(me: str = own.DEFAULT) -> tuple[list[str], list[str]]:
    """32 texts in the eight languages that the model of a student does not know.

    Args:
        me: the student's id.

    Returns:
        The texts, and the language of each.

    Raises:
        Failure: `me` is no id.
    """
    known = own_languages(me)
    return _texts(me, "a1.foreign", [name for name in data.LANGUAGES if name not in known])


def _texts(me: str, purpose: str, languages: Sequence[str]) -> tuple[list[str], list[str]]:
    random, by_language = own.generator(me, purpose), unseen_texts()
    found = [
        (by_language[name][place], name)
        for name in languages
        for place in random.permutation(len(by_language[name]))[:TEXTS]
    ]
    order = random.permutation(len(found))
    return [found[place][0] for place in order], [found[place][1] for place in order]


@functools.cache
def unseen_texts() -> dict[str, list[str]]:
    """The texts that the zoo's model was not trained on, by language; 100 of each."""
    split = data.languages()
    by_language: dict[str, list[str]] = {name: [] for name in split.labels}
    for text, number in zip(split.x_test, split.y_test, strict=True):
        by_language[split.labels[number]].append(text)
    return by_language


# -- the checkpoint --------------------------------------------------------------------------------


def fetch_checkpoint(me: str, folder: Path | str, *, hub: str = "") -> Path:
    """Put a checkpoint of Hugging Face's form into the folder `1/checkpoint` of a model.

    Where this checkpoint is there already, nothing is done. Another one is replaced.

    By default it is the zoo's text classifier, with eight of its sixteen classes: those drawn for
    the student, in the order of `own_languages(me)`. It tells in which language a text is written.

    Example::

        fetch_checkpoint(me, "models/classifier/1/checkpoint")
        fetch_checkpoint(me, "models/classifier/1/checkpoint", hub="owner/name")    # by network

    Args:
        me: the student's id.
        folder: where to put it: `models/…/1/checkpoint`.
        hub: the name of a text classifier on the Hugging Face hub, to take instead as it is. What
            is handed in may weigh 100 MB: take a small one.

    Returns:
        The folder: config.json, model.safetensors and the tokenizer's files.

    Raises:
        WorkbookError: the folder is another one; or the checkpoint could not be built or
            downloaded.
        Failure: `me` is no id.
    """
    target, languages = Path(folder), own_languages(me)
    parts = target.resolve().parts
    if parts[-2:] != CHECKPOINT.parts or parts[-4:-3] != ("models",):
        raise WorkbookError(
            "The model would not find a checkpoint there.",
            where=str(folder),
            todo='It belongs beside model.py: "models/classifier/1/checkpoint".',
        )
    origin = hub or f"text_classifier: {' '.join(languages)}"
    try:
        if (target / ORIGIN).read_text("utf-8") == origin:
            return target
    except (OSError, ValueError):  # there is none yet, or another program has written the file
        pass
    source = zoo.checkpoint("text_classifier", hub=hub)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in DATA:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    if not hub:
        _keep_classes(target, languages)
    (target / ORIGIN).write_text(origin, "utf-8")
    return target


def fetch_all(folder: Path, me: str = own.DEFAULT) -> None:
    """Put into a solution's folder what its notebook fetches from the zoo.

    A student hands it in with the model's folder; in a sandbox there is no zoo.
    """
    fetch_checkpoint(me, folder / "models" / "classifier" / CHECKPOINT)


def _keep_classes(folder: Path, languages: Sequence[str]) -> None:
    """Take the other classes out of the last layer of a checkpoint: a row of it is a class."""
    from safetensors.numpy import load_file, save

    config = json.loads((folder / "config.json").read_text("utf-8"))
    places = [config["label2id"][name] for name in languages]
    weights = load_file(folder / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        weights[name] = np.ascontiguousarray(weights[name][places])
    # Not by save_file, which makes a file that nobody else may read.
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    config["id2label"] = {str(place): name for place, name in enumerate(languages)}
    config["label2id"] = {name: place for place, name in enumerate(languages)}
    (folder / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
