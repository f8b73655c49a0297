"""How checks of a1__classifier look at the student's checkpoint, and ask the student's model.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grader.vocabulary import require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Inputs, Probe, Refusal
from grader.vocabulary.tolerance import Tolerance, float_sum, logistic
from workbook.common import bounded_json
from workbook.server.explain import explain
from workbook.zoo import data

from . import facts

_MOST_BYTES = 100 << 20
_MOST_CODE = 64 << 10
#: A place in the student's code in the traceback of an error.
_OWN = re.compile(r"/1/model\.py\((\d+)\): (\w+)")
#: The characters of a text that has more tokens than the zoo's network reads.
_LONG = 400
#: Two texts are told apart if a probability differs by more than this many times the tolerance. At
#: least this share of all pairs of texts must be told apart.
_APART, _SHARE_APART = 10, 0.2


# -- the checkpoint --------------------------------------------------------------------------------


def checkpoint(server: Probe, model: str) -> Path:
    """The folder of a deployed model's checkpoint; fails unless it holds data and no code.

    From here on the judge lets the model take `ROWS` texts in a request: a max_batch_size that is
    too small costs the points of a1.config, and no others.

    Raises:
        Failure: a file is missing or too large, or one is there that is code, or may be.
    """
    server.allow_batches(model, facts.ROWS)
    folder = server.server.repository / model / facts.CHECKPOINT
    name = f"The checkpoint of {model}"
    bring = 'fetch_checkpoint(me, "models/classifier/1/checkpoint"), then deploy again.'
    if not folder.is_dir():
        raise Failure(f"{name} is missing: there is no folder {facts.CHECKPOINT}.", help=bring)
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "__pycache__":  # of the code beside it
            continue
        if path.name not in (*facts.DATA, facts.ORIGIN) or path.is_symlink() or not path.is_file():
            raise Failure(
                f"{name} holds {path.name[:60]!r}.",
                help="A checkpoint is data: configs, a tokenizer and safetensors. Take out what is "
                f"neither, or fetch it anew: {bring}",
            )
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (folder / file).is_file():
            raise Failure(f"{name} has no {file}.", help=bring)
    if sum(path.stat().st_size for path in folder.iterdir()) > _MOST_BYTES:
        raise Failure(
            f"{name} is larger than {_MOST_BYTES >> 20} MB.", help="Take a smaller model."
        )
    for file in ("config.json", "tokenizer_config.json"):
        if "auto_map" in settings(folder / file):
            raise Failure(
                f"{name} names code of its own: {file} has an auto_map.",
                help="Take a classifier that transformers knows without trust_remote_code.",
            )
    return folder


def digest(folder: Path) -> str:
    """The hash of a checkpoint's files."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def labels(folder: Path) -> list[str]:
    """The labels of a checkpoint, in the order of its classes, as its config.json has them.

    Raises:
        Failure: it has none.
    """
    named = settings(folder / "config.json").get("id2label")
    by_key: dict[str, Any] = named if isinstance(named, dict) else {}
    found = [by_key.get(str(place)) for place in range(len(by_key))]
    if len(found) < 2 or not all(isinstance(text, str) for text in found):
        raise Failure(
            "The checkpoint's config.json names no classes: its id2label is to have two or more.",
            help="Take a checkpoint of a classifier.",
        )
    return [str(text) for text in found]


def settings(path: Path) -> dict[str, Any]:
    """A checkpoint's JSON file; empty where there is none."""
    if not path.is_file():
        return {}
    try:
        content = bounded_json.loads(path.read_bytes())
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Failure(
            f"The checkpoint's {path.name} cannot be read.", help="Fetch the checkpoint anew."
        )
    return content


# -- asking the model ------------------------------------------------------------------------------


def column(texts: Sequence[str | bytes]) -> Inputs:
    """Texts as the input of a request: an object array of bytes, one row per text."""
    rows = [text.encode() if isinstance(text, str) else text for text in texts]
    return {facts.INPUT: np.array(rows, dtype=object).reshape(-1, 1)}


class Answers:
    """What the model answers to texts, one row per text. `fit_together` tests all but the table.

    Attributes:
        labels: the label of each row.
        scores: float32, shape (rows,).
        table: the probability of each class; float32, shape (rows, classes).
        outputs: the outputs as they came, by name.
    """

    def __init__(self, outputs: Mapping[str, Array]) -> None:
        self.outputs = outputs
        self.labels = [
            value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            for value in outputs[facts.LABEL].ravel()
        ]
        self.scores, self.table = outputs[facts.SCORE].ravel(), outputs[facts.TABLE]


def ask(server: Probe, model: str, texts: Sequence[str], classes: Sequence[str]) -> Answers:
    """Send texts as one request; fails unless each gets a number for each class.

    Args:
        server: the check's probe.
        model: the model's name.
        texts: the rows.
        classes: the labels of the classes, in their order.
    """
    (outcome,) = server.outcomes(model, [column(texts)], outputs=[*facts.OUTPUTS])
    return read(model, require_answer(model, outcome), len(texts), classes)


def require_answer(model: str, outcome: dict[str, Array] | Refusal) -> dict[str, Array]:
    """The answer to a request; fails where it was refused.

    Args:
        model: the model's name.
        outcome: what came back.
    """
    if not isinstance(outcome, Refusal):
        return outcome
    known = explain(outcome.message, model=model)
    is_known = bool(getattr(known, "rule", ""))
    what = f"A request to {model} failed. "
    raise Failure(
        f"{what}{f'{known.what} ' * is_known}The server's message: {with_line(outcome)}",
        help=known.todo if is_known else "Correct model.py, and deploy the folder again.",
        safe="A request to your model failed.",
    )


def message_of(refusal: Refusal) -> str:
    """The message of a refusal, without the traceback: most of it is code of libraries."""
    return refusal.message.partition("\n\nAt:\n")[0].strip()[:300]


def with_line(refusal: Refusal) -> str:
    """The message of a refusal, and in which line of model.py the exception was raised."""
    found = _OWN.search(refusal.message.partition("\n\nAt:\n")[2])
    line = f"\nIt was raised in line {found[1]} of model.py, in {found[2]}." if found else ""
    return message_of(refusal) + line


def cuts(server: Probe, model: str, texts: Sequence[str], classes: Sequence[str]) -> None:
    """Fail unless a text is answered that has more tokens than the network reads.

    Args:
        server: the check's probe.
        model: the model's name.
        texts: the long text is made of these.
        classes: the labels of the checkpoint.
    """
    long = " ".join(texts)[:_LONG]
    (outcome,) = server.outcomes(model, [column([long])], outputs=[*facts.OUTPUTS])
    if isinstance(outcome, Refusal):
        folder = server.server.repository / model / facts.CHECKPOINT
        limit = settings(folder / "config.json").get("max_position_embeddings")
        has = "has" if of_the_zoo(classes) else "may have"
        raise Failure(
            f"A text of {len(long)} characters is allowed, and {has} more tokens than the network "
            f"can read ({limit}). {model} does not answer it: {with_line(outcome)}",
            help="Does the tokenizer cut a text that is too long for the network?",
        )
    read(model, outcome, 1, classes)


def read(model: str, answer: dict[str, Array], rows: int, classes: Sequence[str]) -> Answers:
    """An answer of the model; fails unless it has a label, a score and a row of numbers per text.

    Whether label, score and probabilities are right is for `fit_together`. Checks of batches and of
    refusals compare answers with each other: so they judge a model that answers wrongly, too.
    """
    shape = answer[facts.TABLE].shape
    if shape != (rows, len(classes)):
        raise _wrong_shape(
            model, facts.TABLE, shape, (rows, len(classes)), "It holds a number for each class."
        )
    for name in (facts.LABEL, facts.SCORE):
        if answer[name].size != rows:
            raise _wrong_shape(model, name, answer[name].shape, (rows, 1), "One value per row.")
    return Answers(answer)


def fit_together(model: str, answers: Answers, classes: Sequence[str]) -> None:
    """Fail unless label, score and probabilities of an answer belong together."""
    answer, rows = answers.outputs, len(answers.table)
    one = "One row per text, one number per row: np.expand_dims or keepdims=True keep the column."
    for name, help in ((facts.LABEL, "One label per row, as a column."), (facts.SCORE, one)):
        if answer[name].shape != (rows, 1):
            raise _wrong_shape(model, name, answer[name].shape, (rows, 1), help)
    scores, table = answers.scores, answers.table
    allowed = tolerance().allowed
    if not (np.isfinite(table).all() and (table >= 0).all()):
        raise Failure(
            f"{facts.TABLE} of {model} holds values that are no probabilities.", help=_SOFTMAX
        )
    if not (np.abs(table.sum(axis=1) - 1) < allowed).all():
        raise Failure(f"The rows of {facts.TABLE} of {model} do not add up to 1.", help=_SOFTMAX)
    if not (np.abs(scores - table.max(axis=1)) < allowed).all():
        raise Failure(
            f"{facts.SCORE} of {model} is not the largest of the row's {facts.TABLE}.",
            help="The score is the probability of the class that the label names.",
        )
    best = [classes[place] for place in table.argmax(1)]
    wrong = sum(name != right for name, right in zip(answers.labels, best, strict=True))
    if wrong:
        raise Failure(
            f"{wrong} of {rows} labels of {model} are not those of the class with the largest "
            "probability.",
            help="id2label in the checkpoint's config.json names the classes, in their order.",
        )


def _wrong_shape(
    model: str, name: str, shape: tuple[int, ...], wanted: tuple[int, int], help: str
) -> Failure:
    rows = f"{wanted[0]} text{'s' * (wanted[0] != 1)}"
    return Failure(
        f"{name} of {model} has the shape {list(shape)}, for {rows}; expected is {[*wanted]}.",
        help=help,
    )


_SOFTMAX = "The network answers logits; softmax over the classes makes probabilities of them."


def tolerance() -> Tolerance:
    """How far two probabilities of one text may be apart, computed in batches of other sizes.

    A logit of the zoo's network comes from six matrix products, one after the other, of at most 128
    terms each, and is below 20.
    """
    return logistic(float_sum(6 * 128, 20.0, over="six products of 128 terms"))


def tells_apart(table: Array, what: str) -> None:
    """Fail if most texts get the same probabilities: then nothing has read them.

    It does not matter which classes there are, nor whether they are right. Of the pairs of texts,
    a fair share must get probabilities that differ by more than rounding. It is small enough for a
    weak classifier, which is nearly sure of one of two classes for 85 % of the texts.

    Args:
        table: the probabilities of different texts, one row per text.
        what: whose they are, for the message.
    """
    rows = len(table)
    differ = np.abs(table[:, None] - table[None]).max(axis=-1) > _APART * tolerance().allowed
    if differ.sum() < _SHARE_APART * rows * (rows - 1):
        raise Failure(
            f"{what} gives nearly the same probabilities to most of {rows} different texts: it "
            "does not tell texts apart.",
            help="A classifier must read its texts. Fetch the checkpoint anew, and do not change "
            "its weights; another one from the hub must answer differently to different texts.",
            safe="The checkpoint gives nearly the same probabilities to most texts.",
        )


def same_alone(
    server: Probe, model: str, texts: Sequence[str], whole: Answers, classes: Sequence[str]
) -> None:
    """Fail unless the shortest and the longest text get alone what they got in a batch.

    Args:
        server: the check's probe.
        model: the model's name.
        texts: what was asked in one request.
        whole: the answers to it.
        classes: the labels of the checkpoint.
    """
    by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    allowed = tolerance()
    for place in (by_length[0], by_length[-1]):
        alone = ask(server, model, [texts[place]], classes)
        off = float(np.abs(alone.table[0] - whole.table[place]).max())
        if not off <= allowed.allowed:
            raise Failure(
                f"Alone, the {'shortest' if place == by_length[0] else 'longest'} of {len(texts)} "
                f"texts gets probabilities that differ by {off:.2g} from those it gets beside the "
                f"others. Allowed is {allowed.allowed:.1g}: {allowed.because}.",
                help="In a batch short texts are padded. The attention mask says which tokens are "
                "padding; does the network get it? And is the network in evaluation mode?",
            )


def as_the_checkpoint(
    server: Probe,
    model: str,
    texts: Sequence[str],
    served: Answers,
    classes: Sequence[str],
    network: Callable[[Sequence[str]], Array],
) -> None:
    """Fail unless the checkpoint itself gives the same probabilities, to a long text as well.

    Args:
        server: the check's probe.
        model: the model's name.
        texts: what was asked in one request.
        served: the answers to it.
        classes: the labels of the checkpoint.
        network: gives the probabilities of texts by the checkpoint, each text asked alone.
    """
    long = " ".join(texts)[:_LONG]
    for table, rows, whose in (
        (served.table, list(texts), f"your {len(texts)} texts"),
        (ask(server, model, [long], classes).table, [long], f"a text of {len(long)} characters"),
    ):
        require.close(
            table,
            network(rows),
            what=f"the probabilities of {whose}",
            tolerance=tolerance(),
            help="They are compared with those of the checkpoint in float32. Does the network get "
            "the whole text, and only the tokenizer cuts it? A network in bfloat16 or float16 "
            "rounds more than is allowed.",
        )


def of_the_zoo(classes: Sequence[str]) -> bool:
    """Whether a checkpoint's labels are those of the zoo's languages."""
    return set(classes) <= set(data.LANGUAGES)


def is_own(classes: Sequence[str], me: str) -> None:
    """Fail if the checkpoint is the zoo's, but another student's."""
    if of_the_zoo(classes) and tuple(classes) != facts.own_languages(me):
        raise Failure(
            "The checkpoint's classes are not those that are drawn for your id.",
            help='Run fetch_checkpoint(me, "models/classifier/1/checkpoint") with your id as `me`, '
            "and deploy the folder again.",
        )


def source(server: Probe, model: str) -> str:
    """The deployed model.py; fails where it is missing, too large, or not the only code."""
    server.require(model)
    folder = server.server.repository / model
    path = folder / "1" / "model.py"
    others = sorted(
        str(other.relative_to(folder))
        for other in folder.rglob("*.py")
        if other != path and "__pycache__" not in other.parts
    )
    if others:
        raise Failure(
            f"{model} holds other code beside 1/model.py: {others[0][:80]!r}.",
            help="All of the model's code is to be in 1/model.py, where a person reads it.",
        )
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_CODE + 1)
    except OSError:
        raise Failure(f"{model} has no 1/model.py.", help="Deploy the folder again.") from None
    if len(text) > _MOST_CODE:
        raise Failure(
            f"1/model.py of {model} is larger than {_MOST_CODE >> 10} KiB.",
            help="It holds code, and no data.",
        )
    return text.decode("utf-8", "replace")
