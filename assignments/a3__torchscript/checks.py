"""The checks of a3__torchscript: a TorchScript network behind a preprocessing step.

Students get this file, so it holds no expected answer of a task. The network itself is given: what
it answers to given rows is computed with numpy (`a3_facts.scores`).
"""

from __future__ import annotations

import itertools
import unicodedata
from typing import Any

import numpy as np

from grader.vocabulary import own, require, values
from grader.vocabulary.define import define
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe

from . import facts, serving

#: The judge loads models of these backends only.
BACKENDS = ("pytorch", "python", "ensemble")
#: Tasks without hints, the written answers: for each, what to read in place of them.
NO_HINTS = {
    "a3.width": "Look at your curves. Read on: lecture 2, notebook 12, `Texts of different "
    "lengths`.",
    "a3.why": "Look at your figures of tasks 5 and 6. Read on: lecture 2, notebook 12, `The same "
    "steps as a program` and `A step fails`.",
}
#: The shape of the answer to all practice rows, or all test texts.
ANSWERS = (facts.TEXTS, facts.LANGUAGES)
#: Values of a parameter that switch something on, in any case.
ON = ("true", "on", "1")
#: If the width changes for less than this share of the texts, some of them must share a batch.
SHARED = 0.7


@define(
    "a3.trace",
    hints=(
        "Take one short row and one long row. What does the trace say to each, and what does the "
        "network itself say?",
        "facts.table([row]) makes ids and mask of one row; torch.from_numpy makes tensors of them. "
        "A refusal is an exception: try … except RuntimeError.",
        "For each row: try: found = trace(ids, mask).argmax().item(), except RuntimeError: "
        "refused.append(number). Else compare with large(ids, mask).argmax().item(), and append to "
        "changed where the two differ.",
    ),
    read="Read on: lecture 2, notebook 04, `Script and trace`.",
)
def trace(server: Probe, me: str, refused: list[int], changed: list[int]) -> None:
    """You know which texts the colleague's trace refuses, and which it answers wrongly."""
    refuses, other = _rows("refused", refused), _rows("changed", changed)
    facts.own_texts(me)  # fails if `me` is no id
    try:
        _fit(me, refuses, other)
    except Failure:
        if own.name(me) != own.DEFAULT and _fits(own.DEFAULT, refuses, other):
            raise Failure(
                f'Both lists are those of the id "{own.DEFAULT}", and `me` is now another one.',
                help="Run all cells again, from the top.",
            ) from None
        with serving.made_for(server, me):
            raise


def _fits(me: str, refuses: list[int], other: list[int]) -> bool:
    """Whether both lists can be right for this id."""
    try:
        _fit(me, refuses, other)
    except Failure:
        return False
    return True


def _fit(me: str, refuses: list[int], other: list[int]) -> None:
    """Fail unless both lists can be right for this id."""
    texts = facts.own_texts(me)
    sizes = np.array([len(row) for row in texts.rows])
    if both := sorted({*refuses} & {*other}):
        raise Failure(
            f"Row {both[0]} is in both lists.",
            help="A row that the trace refuses has no answer, so it cannot have another language.",
        )
    if not refuses:
        raise Failure(
            "`refused` is empty.",
            help="Send each row alone, in a table of its own. In a table with longer rows, a short "
            "one is filled up.",
        )
    kept = np.setdiff1d(np.arange(len(sizes)), refuses)
    if not kept.size:
        raise Failure("`refused` holds all rows.", help="Read the error's text: is it the trace's?")
    if sizes[refuses].max() >= sizes[kept].min():
        raise Failure(
            f"By your list the trace refuses a row of {sizes[refuses].max()} letters, and answers "
            f"one of {sizes[kept].min()}.",
            help="What decides is how many letters a row has. Did you send each row alone?",
        )
    short = {*np.flatnonzero(sizes < texts.example).tolist()}
    if odd := sorted(short ^ {*refuses}):
        fault = "lacks rows" if odd[0] in short else "has rows that do not belong there"
        raise Failure(
            f"`refused` {fault}, such as row {odd[0]}.",
            help="Send this row alone to `trace`. Does it raise an error?",
        )
    if not other:
        raise Failure(
            "`changed` is empty.", help="Compare the languages: the places of the highest scores."
        )
    weights = facts.network(me)
    for row in map(int, kept):
        differs = serving.other_language(weights, texts.rows[row], texts.example)
        if differs is None or differs == (row in other):
            continue
        fault = "lacks rows" if differs else "has rows that do not belong there"
        raise Failure(
            f"`changed` {fault}, such as row {row}.",
            help="Ask `trace` and `large` for this row alone. `changed` holds each row to which "
            "the two give different languages, and no other row. Which language is right does not "
            "matter.",
        )


def _rows(name: str, value: Any) -> list[int]:
    """A list of different numbers of practice rows; it may be empty."""
    if isinstance(value, int | float) or getattr(value, "shape", None) == ():
        raise Failure(
            f"`{name}` is one number. A list of row numbers is wanted.",
            help="Which rows are they? Append the number of each to the list.",
        )
    if value == [] if isinstance(value, list) else isinstance(value, np.ndarray) and not value.size:
        return []
    numbers = values.array(name, value, whole=True, help="It is a list of row numbers.").ravel()
    if numbers.min() < 0 or numbers.max() >= facts.TEXTS:
        raise Failure(f"`{name}` holds numbers that are no rows; they go from 0 to 119.")
    rows = sorted({int(number) for number in numbers})
    if len(rows) < numbers.size:
        raise Failure(f"`{name}` holds a row twice.", help="Name each row once.")
    return rows


@define(
    "a3.reader",
    hints=(
        "Two files are needed, models/reader/2/model.pt and models/reader/3/model.pt, and a config "
        "in which nothing is left of TODO. What does forward take, and what does it return?",
        "forward(ids, mask) has two arguments, which the config calls INPUT__0 and INPUT__1: whole "
        "numbers, one per letter, as many as a text has (-1). The answer has one score per "
        "language. max_batch_size says how many texts one request may hold: 120 are asked for.",
        "torch.jit.script(Reader(facts.network(me, size)).eval()).save(path). In the config: "
        "TYPE_INT64 and dims [ -1 ] for both inputs, TYPE_FP32 and dims [ 5 ] for OUTPUT__0, "
        'parameters { key: "INFERENCE_MODE" value: { string_value: "true" } }, KIND_CPU.',
    ),
    read="Read on: lecture 2, notebook 04, `Served` and `Which names?`.",
)
def reader(server: Probe, me: str, model: str, served: Array) -> None:
    """Triton serves your script: any number of letters in, five scores out, 120 texts at once."""
    config = require.backend(server, model, "pytorch")
    with require.all_of(help="Correct models/reader/config.pbtxt, and deploy the folder again."):
        require.tensors(config, inputs=facts.READER_INPUTS, outputs=facts.READER_OUTPUTS)
        require.batch_size(config, facts.TEXTS, because="the 120 practice rows are one request")
    again = "Ask for facts.table(texts.rows), all 120 rows in one request, after the last deploy."
    table = facts.table(facts.own_texts(me).rows)
    values.array("served", served, ANSWERS, because="scores of 120 rows", help=again)
    with serving.made_for(server, me):
        serving.reads(server, me, model)
    answer = serving.ask_reader(server, model, *table)
    allowed = facts.tolerance(facts.network(me))
    require.same_answer("served", served, answer, tolerance=allowed, help=again)
    mode = server.parameter(model, "INFERENCE_MODE")
    if mode is None:
        raise Failure(
            f"The config of {model} has no parameter INFERENCE_MODE.",
            help="The task wants it written down. Add it to models/reader/config.pbtxt, and deploy "
            "the folder again.",
            credit=0.7,
        )
    if mode.lower() not in ON:
        raise Failure(
            f"The parameter INFERENCE_MODE of {model} is {mode!r}, which switches it off.",
            help="Switch it on in models/reader/config.pbtxt, and deploy the folder again.",
            credit=0.7,
        )


@define(
    "a3.versions",
    after=("a3.reader",),
    hints=(
        "Three folders, two of them served. Which of Triton's three policies fit?",
        "`all` serves the trace, too. `latest` counts from the newest, `specific` names versions.",
        "version_policy { latest { num_versions: 2 } } at the top level of "
        "models/reader/config.pbtxt, or specific { versions: [ 2, 3 ] }; then deploy.",
    ),
    read="Read on: lecture 1, notebook 07.",
)
def versions(
    server: Probe, me: str, model: str, small: Array, large: Array, plain: Array, gone: str
) -> None:
    """Versions 2 and 3 answer, version 1 does not; without a version, the newest one answers."""
    require.backend(server, model, "pytorch")
    wanted = "Versions 2 and 3 are to answer. Look at version_policy."
    require.versions(server, model, (2, 3), help=wanted)
    ids, mask = facts.table(facts.own_texts(me).rows)
    named = ((2, "small", small), (3, "large", large), (None, "plain", plain))
    for _, name, value in named:
        values.array(name, value, ANSWERS, because="scores of 120 rows")
    message = " ".join(values.texts("gone", gone, help="It is the server's message, as a text."))
    if not ("version 1" in message and model in message):
        raise Failure(
            "`gone` is not what the server says to a request for version 1.",
            help="Ask for version 1 within try … except Exception as error, and keep str(error).",
        )
    serving.reads(server, me, model, 2)  # a3.reader has asked the newest
    allowed = facts.tolerance(facts.network(me))
    for version, name, value in named:
        answer = serving.ask_reader(server, model, ids, mask, version)
        which = f"version {version}" if version else "no version"
        again = f"Ask for the 120 rows and {which}, after the last deploy."
        require.same_answer(name, value, answer, tolerance=allowed, help=again)


@define(
    "a3.letters",
    hints=(
        "Two places in models/letters/1/model.py say TODO. numbers(text) works on one text, and "
        "execute on a list of requests, of which each has a table of texts.",
        "The rule's steps in numbers: unicodedata.normalize, casefold, strip, a slice, and "
        "alphabet.get. In execute: one response per request, also for a request with an empty "
        "text; as_numpy() of TEXT holds bytes, which decode().",
        "numbers: text = unicodedata.normalize('NFC', text).casefold().strip()[:128], then "
        "[self.alphabet.get(letter, 1) for letter in text]. execute: for a request with an empty "
        "list, append pb_utils.InferenceResponse(error=pb_utils.TritonError('text is empty')); "
        "for others the two arrays of self.table(rows).",
    ),
    read="Read on: lecture 2, notebook 02, on execute and on errors.",
)
def letters(server: Probe, me: str, model: str) -> None:
    """letters turns each text into numbers and a mask, and refuses an empty one by itself."""
    config = require.backend(server, model, "python")
    complete = "models/letters/config.pbtxt was complete: take it from a fresh copy."
    require.tensors(config, inputs=facts.TEXT_INPUT, outputs=facts.TABLES, help=complete)
    require.batch_size(config, facts.TEXTS, because="the 120 test texts are one request")
    require.setting(config, "dynamic_batching", help=complete)
    wide = f"A whole number from 1 to {facts.MOST}: write it with pad_to(…), and deploy letters."
    require.number_parameter(config, "PAD_TO", above=0.5, below=facts.MOST + 0.5, help=wide)
    with serving.made_for(server, me):
        _rule(server, me, model)
    serving.each_its_own(server, model, facts.own_texts(me).test[: facts.CROWD])
    serving.refuses_empty(server, model)


def _rule(server: Probe, me: str, model: str) -> None:
    """Fail unless letters follows each step of the rule."""
    texts = facts.own_texts(me)
    word = next(iter(sorted(texts.alphabet.keys() & {*"abcdefghijklmnopqrstuvwxyz"})))
    plain = word * 7 + " " + word
    row = [texts.alphabet[letter] for letter in plain]
    accent = next((c for c in texts.alphabet if unicodedata.normalize("NFD", c) != c), word)
    apart = unicodedata.normalize("NFD", accent)
    for text, expected, what in (
        (plain, row, "lower-case letters of the alphabet"),
        (plain.upper(), row, "upper-case letters, which get the numbers of lower-case ones"),
        (f"  {plain}\n", row, "spaces around the text, which do not belong to it"),
        (f"☃{plain}", [facts.UNKNOWN, *row], "a letter that is not in the alphabet"),
        (
            f"ß{plain}",
            [*2 * [texts.alphabet.get("s", facts.UNKNOWN)], *row],
            "a ß, of which casefold makes two letters",
        ),
        (
            apart + plain,
            [texts.alphabet[accent], *row],
            "an accent that comes as a character of its own",
        ),
        (
            f"½{plain}",
            [texts.alphabet.get("½", facts.UNKNOWN), *row],
            "a ½, which is one character and stays one (NFC)",
        ),
        (
            " " * 200 + word * 200,
            [texts.alphabet[word]] * facts.MOST,
            "200 spaces and then 200 letters, of which 128 are read",
        ),
    ):
        serving.same_numbers(server, model, [text], [expected], what)
    serving.same_numbers(server, model, [word, plain], [row[:1], row], "two texts in one request")


@define(
    "a3.ensemble",
    after=("a3.reader", "a3.letters"),
    hints=(
        "An ensemble's config is its whole program: which tensor of a step is which tensor of the "
        "ensemble? Draw the two steps as boxes, and name the arrows.",
        "In each map `key` is the name of a tensor in the step's model, `value` its name in the "
        "ensemble. TEXT and SCORES are names of the ensemble; the two arrows in between get any "
        "name, the same where they leave and where they arrive.",
        'The second step: model_name: "reader" model_version: -1, input_map { key: "INPUT__0" '
        'value: "ids" } input_map { key: "INPUT__1" value: "mask" } output_map { key: "OUTPUT__0" '
        'value: "SCORES" }. The first gives IDS as "ids" and MASK as "mask".',
    ),
    read="Read on: lecture 2, notebook 12. In a cell of its own, "
    "`!cat {server.repository}/language/config.pbtxt` shows the config of another ensemble.",
)
def ensemble(server: Probe, me: str, model: str, scores: Array, by_hand: Array) -> None:
    """The ensemble answers texts with scores: those of its parts, asked one after the other."""
    config = server.config(model)
    with require.all_of(help="Correct models/detect/config.pbtxt, and deploy the folder again."):
        require.tensors(config, inputs=facts.TEXT_INPUT, outputs=facts.SCORES)
        require.batch_size(config, facts.TEXTS, because="the 120 test texts are one request")
    serving.require_steps(config)
    for name, value in (("scores", scores), ("by_hand", by_hand)):
        values.array(name, value, ANSWERS, because="scores of 120 texts")
    texts, allowed = facts.own_texts(me), facts.tolerance(facts.network(me))
    parts = serving.by_hand(server, texts.test, allowed)
    ask = "Send the 120 test texts as one request, after the last deploy."
    again = "Ask letters for the 120 test texts in one request, and reader for what it answers."
    require.close(by_hand, parts, what="the values in `by_hand`", tolerance=allowed, help=again)
    answer = serving.ask_text(server, model, texts.test)
    where = "They are compared with what letters and reader answer, asked one after the other."
    require.close(answer, parts, what=f"the scores of {model}", tolerance=allowed, help=where)
    require.close(scores, answer, what="the values in `scores`", tolerance=allowed, help=ask)
    serving.equals_parts(server, model, texts.test[:12], allowed)


@define(
    "a3.bls",
    after=("a3.reader", "a3.letters"),
    hints=(
        "Begin with one request: what would a client do who asks letters, and then reader? `ask` "
        "calls one model. Then: how do the texts of all requests get into one call?",
        "pb_utils.InferenceRequest(model_name=…, requested_output_names=[…], inputs=[…]).exec() "
        "gives a response; look at has_error() before its outputs. np.concatenate joins the texts "
        "of all requests, np.split divides the scores among them.",
        "execute: texts = [… .as_numpy() for request in requests]; try to answer "
        "np.concatenate(texts) with one call of each step, and split at "
        "np.cumsum([len(part) for part in texts])[:-1]. If letters refuses: answer each request by "
        "itself, and give those that fail InferenceResponse(error=pb_utils.TritonError(message)).",
    ),
    read="Read on: lecture 2, notebook 12, `The same steps as a program`.",
)
def bls(server: Probe, me: str, model: str, ensemble_runs: int, bls_runs: int) -> None:
    """The program answers as the ensemble does, passes errors on, and lets texts share a batch."""
    config = server.config(model)
    if "ensemble_scheduling" in config:
        raise Failure(
            f"{model} is an ensemble. This check is about {facts.BLS}, which is a Python model.",
            help='Hand over the name that deploy("models/detect_bls") returns.',
        )
    config = require.backend(server, model, "python")
    complete = "models/detect_bls/config.pbtxt was complete: take it from a fresh copy."
    require.tensors(config, inputs=facts.TEXT_INPUT, outputs=facts.SCORES, help=complete)
    require.batch_size(config, facts.TEXTS, because="the 120 test texts are one request")
    require.setting(config, "dynamic_batching", help=complete)
    texts, allowed = facts.own_texts(me), facts.tolerance(facts.network(me))
    crowd = texts.test[: facts.CROWD]
    sent, kinds = facts.CROWD, len({*facts.lengths(crowd)})
    read = "Read executions(READER) before and after `ask_together`, and subtract."
    alone = values.whole("ensemble_runs", ensemble_runs, least=1, most=sent, help=read)
    together = values.whole("bls_runs", bls_runs, least=1, most=sent, help=read)
    parts = serving.by_hand(server, texts.test, allowed)
    answer = serving.ask_text(server, model, texts.test)
    where = "They are compared with what letters and reader answer, asked one after the other."
    require.close(answer, parts, what=f"the scores of {model}", tolerance=allowed, help=where)
    serving.own_rows(server, model, crowd, allowed)
    serving.refuses_empty(server, model)
    serving.calls_the_steps(server, model, crowd, allowed)
    if alone < kinds:
        raise Failure(
            f"`ensemble_runs` is {alone}; the {sent} texts have {kinds} different lengths. With "
            "PAD_TO 1 a batch of reader ends where the next text in the queue has another length.",
            help=f"Measure with PAD_TO 1, and detect. {read}",
        )
    if 2 * together > sent:
        raise Failure(
            f"`bls_runs` is {together}: hardly any of {sent} texts shared an execution.",
            help="Measure again, with the program that this check has found right.",
        )


@define(
    "a3.pads",
    after=("a3.ensemble",),
    hints=(
        "Do it once by hand: pad_to(8), deploy letters, count the executions of reader for the "
        "crowd, and take the time. Then put it into a loop.",
        "milliseconds(detect, crowd) sends the crowd once. The first try after a deploy is slower; "
        "the least of five more is a steady time. pad_to(…) writes a file only: deploy letters "
        "each time.",
        'for width in widths: pad_to(width); deploy("models/letters"); '
        "milliseconds(detect, crowd); before = executions(READER); ask_together(detect, crowd); "
        "runs.append(executions(READER) - before); then the times. At the end pad_to(…) with your "
        "choice, and deploy once more.",
    ),
    read="Read on: lecture 2, notebook 12, `Texts of different lengths`.",
)
def pads(
    server: Probe, me: str, model: str, widths: list[int], runs: list[int], took: list[float]
) -> None:
    """You have measured what it brings to fill texts up to common widths, and what it costs."""
    config = require.backend(server, model, "python")
    crowd = facts.own_texts(me).test[: facts.CROWD]
    sent = len(crowd)
    for name, value in (("widths", widths), ("runs", runs), ("took", took)):
        if any(isinstance(item, str | bytes) for item in np.ravel(np.asarray(value, object))):
            raise Failure(f"`{name}` holds texts.", help="Hand over numbers: 8, and not '8'.")
    wide = values.array("widths", widths, whole=True, help="One number of letters per try.").ravel()
    each = "one value per width"
    ran = values.array("runs", runs, (wide.size,), because=each, whole=True)
    ms = values.array("took", took, (wide.size,), because=each, help="Milliseconds of the crowd.")
    if len(np.unique(wide)) < 4 or wide.min() != 1 or not 32 <= wide.max() <= facts.MOST:
        raise Failure(
            f"`widths` has {len(np.unique(wide))} different values, from {wide.min():g} to "
            f"{wide.max():g}.",
            help=f"At least four: from 1 to at least 32, and at most {facts.MOST}.",
        )
    if ran.max() > sent:
        raise Failure(
            f"You counted {ran.max():g} executions; {sent} texts cannot take more than {sent}.",
            help="Read executions(READER) just before one crowd and after it, and subtract.",
        )
    for width, count in zip(wide, ran, strict=True):
        filled = facts.lengths(crowd, int(width))
        kinds, changes = len({*filled}), sum(a != b for a, b in itertools.pairwise(filled))
        if count < kinds:
            raise Failure(
                f"With PAD_TO {width:g} you counted {count:g} executions; the {sent} texts have "
                f"{kinds} different widths then, and a batch ends where the width changes.",
                help="Read executions(READER) before and after the crowd, and subtract. Was "
                "letters deployed with this width?",
            )
        # Each change of the width ends a batch. On a busy machine more batches end: the limit is
        # the middle between this number of batches and one batch per text.
        if changes < SHARED * sent and 2 * count > sent + changes + 1:
            raise Failure(
                f"With PAD_TO {width:g} you counted {count:g} executions. But in the order in "
                f"which the {sent} texts are sent, their width changes only {changes} times then.",
                help='Was letters deployed with this width, by deploy("models/letters") after '
                "pad_to(…), before you measured? If it was, measure again: on a busy machine "
                "the texts may come too far apart.",
            )
    if ms.min() < 1:
        raise Failure(
            f"`took` holds {ms.min():g}: {sent} texts take longer than a millisecond.",
            help="Hand over the milliseconds of a crowd. Are these seconds?",
        )
    parsed = require.number_parameter(config, "PAD_TO", above=0, below=facts.MOST + 1)
    if parsed not in wide:
        raise Failure(
            f"The server parsed a PAD_TO of {parsed:g}, which is none of `widths`.",
            help="Deploy letters with the one that you choose.",
        )
    serving.pads(server, model, crowd, int(parsed))
