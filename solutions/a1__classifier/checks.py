"""The checks of a1__classifier: a Hugging Face classifier in the Python backend.

Students get this file, so it holds no expected answer. A public check asks whether the answers fit
together, and fit the texts' languages. The hidden checks compare them with those of the student's
own checkpoint, on texts that the notebook does not show.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from grader.vocabulary import python_style, require, untrusted, values
from grader.vocabulary.collect import fault, note
from grader.vocabulary.define import define
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe

from . import answers as answers_of
from . import facts
from .batches import mixed_sizes, one_call
from .examples import compare_examples, read_examples
from .reference import reference
from .refusals import BAD, allowed_lengths, crowd, refuses_each, same_status
from .unsure import compare_counts, read_counts

#: The judge loads models of this backend only.
BACKENDS = ("python",)
#: Modules that reference.py imports when it is first used. They take seconds in each process.
IMPORTED_LATE = {
    "checks": ("transformers.models.auto.modeling_auto", "transformers.models.bert.modeling_bert"),
}
#: Tasks without hints, the written answers: for each, what to read in place of them.
NO_HINTS = {
    "a1.review": "Read on: your model.py; lecture 2, notebook 02, `One bad request among four`.",
    "a1.doubt": "Look at your table. Read on: lecture 2, notebook 13, `Another threshold`.",
}


@define(
    "a1.config",
    hints=(
        "One section per tensor: input { … } or output { … }. Which four tensors does the table of "
        "task 2 name, and what does each hold for one text?",
        "dims describe one row, without the batch. TEXT, LABEL and SCORE hold one value per text; "
        "PROBABILITIES holds one for each class. A text is TYPE_STRING. Lists stand in square "
        "brackets.",
        'output { name: "LABEL" data_type: TYPE_STRING dims: [ 1 ] }, and likewise for the others; '
        "PROBABILITIES has dims: [ -1 ]. Then max_batch_size: 32 and "
        "dynamic_batching { max_queue_delay_microseconds: 20000 }.",
    ),
    read="Read on: lecture 1, notebook 01, on inputs, outputs and dims; notebook 05 on "
    "dynamic_batching.",
)
def config(server: Probe, model: str) -> None:
    """The Python backend serves your classifier: a text in; label, score, probabilities out."""
    parsed = require.backend(server, model, "python")
    classes = answers_of.labels(server.server.repository / model / facts.CHECKPOINT)
    with require.all_of(
        help="Correct models/classifier/config.pbtxt, and deploy the folder again."
    ):
        require.tensors(parsed, inputs=facts.INPUTS, outputs=facts.OUTPUTS)
        require.batch_size(parsed, facts.ROWS, because=f"{facts.ROWS} texts are to be one request")
        for table in (one for one in parsed.get("output", ()) if one["name"] == facts.TABLE):
            dims = [int(dim) for dim in table["dims"]]
            if dims not in ([-1], [len(classes)]):
                fault(
                    f"{facts.TABLE} has dims {dims}; the checkpoint has {len(classes)} classes. "
                    "-1 stands for any number.",
                    credit=0.5,
                )
        require.setting(parsed, "dynamic_batching")
        delay = parsed.get("dynamic_batching", {}).get("max_queue_delay_microseconds", 0)
        if "dynamic_batching" in parsed and not facts.DELAY[0] <= int(delay) <= facts.DELAY[1]:
            fault(
                f"The server parsed a max_queue_delay_microseconds of {delay}. The task asks for "
                f"20000, or another one from {facts.DELAY[0]} to {facts.DELAY[1]}; it stands "
                "inside dynamic_batching.",
                credit=0.5,
            )


@define(
    "a1.answers",
    after=("a1.config",),
    hints=(
        "Follow one text through your model.py: bytes, str, tokens, logits, probabilities, label. "
        "Print the shape and the dtype at each step; what a model prints stands in the server's "
        "log (`workbook status` says where it is). Take the prints out before task 7.",
        "The tokenizer pads with padding=True and cuts with truncation=True; give the network all "
        "that it returns, the attention mask too. logits.softmax(-1) makes probabilities. "
        "network.config.id2label names the classes.",
        'tokens = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt"); '
        "within torch.inference_mode(): table = self.network(**tokens).logits.softmax(-1).numpy(); "
        "best = table.argmax(1). LABEL is np.array([[names[i].encode()] for i in best], object), "
        "SCORE is table.max(1, keepdims=True).",
    ),
    read="Read on: lecture 2, notebook 02, is about the Python backend.",
)
def answers(server: Probe, me: str, model: str, labels: list[str], scores: Any) -> None:
    """Each of your 32 texts gets its label, its score, and a probability for each class."""
    texts, truth = facts.own_texts(me)
    given = values.texts("labels", labels, help="They are the labels, one text per row.")
    if len(given) != len(texts):
        raise Failure(
            f"`labels` holds {len(given)} texts; there are {len(texts)} to be labelled.",
            help="Ask for all of your texts in one request: labels, scores, table = ask(texts).",
        )
    one = "one score per text"
    numbers = values.array("scores", scores, help=f"Hand over {one}: ask(texts)[1].")
    values.array("scores", numbers.reshape(-1), (len(texts),), because=one)
    folder = answers_of.checkpoint(server, model)
    classes = answers_of.labels(folder)
    answers_of.is_own(classes, me)
    served = answers_of.ask(server, model, texts, classes)
    answers_of.fit_together(model, served, classes)
    answers_of.tells_apart(served.table, model)
    answers_of.same_alone(server, model, texts, served, classes)
    right = sum(one == other for one, other in zip(served.labels, truth, strict=True))
    if answers_of.of_the_zoo(classes) and right < facts.RIGHT * len(texts):
        raise Failure(
            f"{right} of your {len(texts)} texts get the label of their language; a right model "
            f"names at least {facts.RIGHT:.0%}.",
            help="Does the network see the whole text, as str and not as the text of bytes "
            "(\"b'…'\")?",
        )
    answers_of.cuts(server, model, texts, classes)
    answers_of.as_the_checkpoint(server, model, texts, served, classes, reference(server, model))
    again = "Ask for your 32 texts after the last deploy, in one request."
    try:
        require.same_answer("labels", given, served.labels, help=again)
        require.close(
            numbers.reshape(-1),
            served.scores,
            what="the values in `scores`",
            tolerance=answers_of.tolerance(),
            help=again,
        )
    except Failure as failure:  # the model is right: other checks can use it
        raise Failure(failure.rationale, help=failure.help, credit=0.5) from None


@define(
    "a1.batches",
    after=("a1.answers",),
    hints=(
        "execute gets a list of requests, and each holds one or more texts. Which loop calls the "
        "network, and how often does it run for 32 requests?",
        "Three steps: collect the texts of all requests in one list, and how many each request "
        "had; call the network once; cut the answers at the same places.",
        "start = 0; for count in counts: part = slice(start, start + count); start += count; the "
        "response to this request holds labels[part], scores[part] and table[part].",
    ),
    read="Read on: lecture 1, notebook 05, on what the server joins; lecture 2, notebook 02, on "
    "execute.",
)
def batches(server: Probe, me: str, model: str) -> None:
    """Requests of several sizes share one call of the network, and each gets its own answers."""
    texts, _ = facts.own_texts(me)
    classes = answers_of.labels(answers_of.checkpoint(server, model))
    answers_of.is_own(classes, me)
    answers_of.tells_apart(answers_of.ask(server, model, texts, classes).table, model)
    mixed_sizes(server, model, texts, facts.SIZES, classes)
    share = one_call(server, model, texts, classes)
    note(
        f"In a copy of your model with a deep network, {facts.ROWS} texts at once took {share:.0%} "
        "of the time that they take one after the other."
    )


@define(
    "a1.refusals",
    after=("a1.answers",),
    hints=(
        "A response can hold an error in place of tensors. The others in the batch are answered as "
        "usual. So look at each request by itself, before you join the texts.",
        "text.decode() raises UnicodeDecodeError. text.strip() is empty for a blank text. len() "
        "of a str counts characters, of bytes it counts bytes. Is there any text left for the "
        "network when all requests were bad?",
        "pb_utils.InferenceResponse([], pb_utils.TritonError(message, "
        "pb_utils.TritonError.INVALID_ARG)) answers one request with an error. An exception of "
        "your own, class BadTextError(Exception), carries the message from where the text is read. "
        "Catch it around the whole request: one bad text refuses all of its texts.",
    ),
    read="Read on: the Python backend's documentation, section Error Handling.",
)
def refusals(server: Probe, me: str, model: str) -> None:
    """Bad input gets a clear error of its own, and the requests beside it are answered."""
    texts, _ = facts.own_texts(me)
    classes = answers_of.labels(answers_of.checkpoint(server, model))
    answers_of.is_own(classes, me)
    answers_of.tells_apart(answers_of.ask(server, model, texts, classes).table, model)
    statuses = refuses_each(server, model, BAD, good=texts[:4])
    crowd(server, model, texts[:16], BAD, classes)
    allowed_lengths(server, model, classes)
    same_status(model, statuses)


@define(
    "a1.examples",
    after=("a1.answers",),
    hints=(
        "An example is a request that you find interesting, and what came back. Which texts would "
        "you show to somebody who is to use your model?",
        "examples is a list of dicts with the keys texts, labels and scores. One dict is one "
        "request; its three lists are equally long.",
        'examples = [example(["…"]), example(["…", "…"]), …]: one list of texts for each request. '
        "At least one list holds two or more texts.",
    ),
    read="Read on: tritonclient's documentation, `InferInput`.",
)
def examples(server: Probe, model: str, examples: list[dict[str, Any]]) -> None:
    """Five or more different requests to your model, with the answers that it gives."""
    given = read_examples(examples)
    classes = answers_of.labels(answers_of.checkpoint(server, model))
    served = [answers_of.ask(server, model, one.texts, classes) for one in given]
    compare_examples(given, [(one.labels, one.scores) for one in served], "the server")
    if len({label for one in served for label in one.labels}) < 2:
        raise Failure(
            "All of your examples get the same label.", help="Show what the model can tell apart."
        )


@define(
    "a1.code",
    after=("a1.answers",),
    hints=(
        "Read each finding with its line in model.py open beside it. The letters and digits in "
        "brackets are the rule's name: `ruff rule D102` in a terminal explains it. `ruff check "
        "--config style.toml models` in this folder finds the same.",
        "Each class, each public method and the file itself begin with a docstring: what it is "
        "for, and what comes in and goes out. What execute does in several steps are methods of "
        "their own. What is loaded once is loaded in initialize.",
        "ruff format --config style.toml models corrects the layout. Delete the comments "
        'with TODO, write """…""" below each def, and take imports out that nothing uses.',
    ),
    read="Read on: PEP 257 about docstrings, and ruff's page on each rule that it names.",
)
def code(server: Probe, model: str) -> None:
    """Tools find no fault in your model.py, and it loads the network once."""
    source = answers_of.source(server, model)
    labels = answers_of.labels(answers_of.checkpoint(server, model))
    found: list[str] = untrusted.read(
        "1/model.py",
        lambda: {"findings": _findings(source, labels)},
        help="Tools for Python have to read it.",
    )["findings"]
    if found:
        raise Failure(
            f"Tools find {len(found)} fault{'s' * (len(found) > 1)} in model.py:\n"
            + "\n".join(found[:12]),
            help="Each finding names its line. Correct it, and deploy the folder again.",
            credit=0.5 if len(found) <= facts.FEW_FAULTS else 0.0,
        )


def _findings(source: str, labels: Sequence[str]) -> list[str]:
    """What tools find in model.py; to be called within `untrusted.read`.

    Args:
        source: its text.
        labels: those of the checkpoint.
    """
    found = python_style.faults(source)
    tree = ast.parse(source)
    found = sorted([*found, *_todo_docstrings(tree), *_written_labels(tree, labels)], key=_line)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = {
        node.name: node
        for kind in classes
        if kind.name == "TritonPythonModel"
        for node in kind.body
        if isinstance(node, ast.FunctionDef)
    }
    for name in ("initialize", "execute", "finalize"):
        if name not in methods:
            found.append(f"TritonPythonModel has no method {name}")
    if "from_pretrained" in python_style.called_names(tree, "execute"):
        found.append("execute loads the checkpoint: call from_pretrained in initialize")
    return found


def _line(finding: str) -> int:
    """The line that a finding such as "line 7: …" names."""
    return int(finding.removeprefix("line ").partition(":")[0])


def _todo_docstrings(tree: ast.Module) -> list[str]:
    """Docstrings of the given model.py that still say TODO; ruff looks at comments only.

    Args:
        tree: of model.py.
    """
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [
        f"line {getattr(node, 'lineno', 1)}: the docstring still says TODO"
        for node in ast.walk(tree)
        if isinstance(node, kinds) and "TODO" in (ast.get_docstring(node) or "")
    ]


def _written_labels(tree: ast.Module, labels: Sequence[str]) -> list[str]:
    """A finding where half of the labels or more stand in the code: as texts, or as one text.

    Args:
        tree: of model.py.
        labels: those of the checkpoint.
    """
    written: dict[str, int] = {}
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else ""
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        words = [text] if text in labels else re.findall(r"[^\W\d][\w-]*", text)
        if words and set(words) <= set(labels):  # a sentence may hold some of them by chance
            written |= dict.fromkeys(words, getattr(node, "lineno", 1))
    if len(written) < max(2, len(labels) // 2):
        return []
    return [
        f"line {min(written.values())}: the labels stand in the code; id2label in the network's "
        "config has them"
    ]


@define(
    "a1.unsure",
    after=("a1.answers",),
    hints=(
        "own_scores and foreign_scores are two arrays of 32 numbers. Draw both as histograms: "
        "where would you put the border?",
        "For each threshold count two things: own texts whose score is at or above it, and "
        "foreign texts whose score is below it. One count falls with the threshold, the other one "
        "grows.",
        "kept = [int((own_scores >= t).sum()) for t in thresholds] and caught = "
        "[int((foreign_scores < t).sum()) for t in thresholds].",
    ),
    read="Read on: `print(*zip(thresholds, kept, caught), sep='\\n')` shows your table.",
)
def unsure(
    server: Probe,
    me: str,
    model: str,
    thresholds: Any,
    kept: Any,
    caught: Any,
    chosen: float,
) -> None:
    """You have measured what it costs to answer only when the model is sure."""
    counts = read_counts(thresholds, kept, caught, chosen)
    classes = answers_of.labels(answers_of.checkpoint(server, model))
    answers_of.is_own(classes, me)
    scores = []
    for texts, _ in (facts.own_texts(me), facts.foreign_texts(me)):
        served = answers_of.ask(server, model, texts, classes)
        answers_of.tells_apart(served.table, model)
        scores.append(served.scores)
    compare_counts(counts, scores[0], scores[1], "your server's scores")
