"""How the checks of a3__torchscript ask its models, and say what is wrong with their answers.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from grader.vocabulary import require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe, Refusal
from grader.vocabulary.tolerance import Tolerance
from workbook.common import bounded_json

from . import facts

#: The most bytes of alphabet.json. A student's file is far smaller.
_MOST_BYTES = 100_000
#: The scores of different texts are more than this many times the rounding apart.
_APART = 10
#: How often a count is taken until it fits: an earlier request may be counted late.
_TRIES = 3
#: How the laptop server says that an answer does not fit the config, and where it was made.
_MISTAKE = re.compile(r"ModelMistake: (.*?)\nwhere: (.*?)(?:\n|$)", re.DOTALL)
#: How the server quotes an exception of a Python model, and a line of its traceback.
_RAISED = re.compile(r"message: (.*?)\s*\n\nAt:\n(.*)", re.DOTALL)
_PLACE = r"/{model}/(\d+/\w+\.py)\((\d+)\): (\w+)"


@contextlib.contextmanager
def made_for(server: Probe, me: str) -> Iterator[None]:
    """If the block fails and the served alphabet is another student's, say so in the failure.

    This happens to a student who changes `me` and does not run all cells again.
    """
    try:
        yield
    except Failure as failure:
        found = _alphabet(server)
        if found is None or found == facts.own_texts(me).alphabet:
            raise
        raise Failure(
            "What is deployed was made for another id than `me` is now: the alphabet of "
            f"{facts.LETTERS} is not yours. {failure.rationale}",
            help="Run all cells again, from the top.",
            safe=failure.safe,
        ) from None


def _alphabet(server: Probe) -> Any:
    """What alphabet.json of the deployed `letters` holds; None if it cannot be read."""
    path = server.server.repository / facts.LETTERS / "1" / "alphabet.json"
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        return bounded_json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def steady(counted: Callable[[], Failure | None]) -> None:
    """Count again where a count does not fit, and fail if it never does.

    The server counts a request after it has answered it, on a busy machine much later. So a count
    may include an earlier request.

    Args:
        counted: sends requests, and returns what is wrong with the counts.
    """
    for attempt in itertools.count(1):
        failure = counted()
        if failure is None:
            return
        if attempt == _TRIES:
            raise failure


def other_language(weights: facts.Network, row: Sequence[int], steps: int) -> bool | None:
    """Whether a network that reads only some letters of a row names another language for it.

    Returns:
        None where the two best scores are so near that float32 may decide either way.
    """
    near = 2 * facts.tolerance(weights).allowed
    ids, mask = facts.table([row])
    whole = facts.scores(weights, ids, mask)[0]
    cut = facts.scores(weights, ids, mask, steps=steps)[0]
    one, other = ({*np.flatnonzero(s >= s.max() - near).tolist()} for s in (whole, cut))
    if not one & other:
        return True
    return None if len(one | other) > 1 else False


def ask_reader(
    server: Probe, model: str, ids: Array, mask: Array, version: int | None = None
) -> Array:
    """The scores of rows, float32 of shape (rows, 5); fails if they are something else."""
    tensors = {"INPUT__0": ids, "INPUT__1": mask}
    answer = server.infer(model, tensors, outputs=["OUTPUT__0"], version=version)["OUTPUT__0"]
    size, each = (len(ids), facts.LANGUAGES), "A row holds one score per language."
    require.shape(model, answer, size, output="OUTPUT__0", help=each)
    return answer


def ask_letters(server: Probe, model: str, texts: Sequence[str]) -> tuple[Array, Array]:
    """Numbers and mask of texts, sent as one request; fails if the two differ in their shape."""
    answer = server.infer(model, {"TEXT": facts.as_text(texts)}, outputs=["IDS", "MASK"])
    ids, mask = answer["IDS"], answer["MASK"]
    if ids.ndim != 2 or len(ids) != len(texts) or mask.shape != ids.shape:
        raise Failure(
            f"To {len(texts)} texts {model} answers IDS of the shape {list(ids.shape)} and MASK of "
            f"the shape {list(mask.shape)}.",
            help="Both are tables of one shape: a row per text, a column per letter.",
        )
    return ids, mask


def ask_text(server: Probe, model: str, texts: Sequence[str]) -> Array:
    """The scores of texts, sent as one request; float32 of shape (texts, 5)."""
    answer = server.infer(model, {"TEXT": facts.as_text(texts)}, outputs=["SCORES"])["SCORES"]
    size, each = (len(texts), facts.LANGUAGES), "A row holds one score per language."
    require.shape(model, answer, size, output="SCORES", help=each)
    return answer


def by_hand(server: Probe, texts: Sequence[str], allowed: Tolerance) -> Array:
    """What letters and reader answer, asked one after the other for one table of different texts.

    The ensemble and the program are compared with this. Whether it is right is for a3.letters and
    a3.reader: their faults cost nothing more here.

    Raises:
        Failure: a model refuses the texts, or all get the same scores. Then nothing has read them.
    """
    scores = ask_reader(server, facts.READER, *ask_letters(server, facts.LETTERS, texts))
    if not np.ptp(scores, axis=0).max() > _APART * allowed.allowed:
        raise Failure(
            f"{facts.LETTERS} and {facts.READER} give the same scores to {len(texts)} different "
            "texts.",
            help="A network reads its input. Which of the two does not?",
        )
    return scores


def reads(
    server: Probe,
    me: str,
    model: str,
    version: int | None = None,
    rows: Sequence[Sequence[int]] | None = None,
) -> None:
    """Fail unless a version of reader answers rows of any length as its network does.

    Each row is sent alone, so that tables of many widths are read; and all of them as one table.

    Args:
        server: the check's probe.
        me: the student's id.
        model: the name of the model.
        version: 2 or 3; None: none is named, so that the newest must answer.
        rows: by default practice rows.
    """
    size = facts.VERSIONS[version or max(facts.VERSIONS)]
    weights = facts.network(me, size)
    rows = facts.own_texts(me).rows[:8] if rows is None else rows
    tables = [facts.table([row]) for row in rows]
    requests = [{"INPUT__0": ids, "INPUT__1": mask} for ids, mask in tables]
    which = f"version {version} of {model}" if version else model
    outcomes = server.outcomes(model, requests, outputs=["OUTPUT__0"], version=version)
    refused = [place for place, one in enumerate(outcomes) if isinstance(one, Refusal)]
    if refused and len(refused) < len(rows):
        lost = max(len(rows[place]) for place in refused)
        raise Failure(
            f"Of {len(rows)} rows, each sent alone, {which} refuses {len(refused)}: those of up to "
            f"{lost} letters.",
            help="It should read a row of any length. How was the file made, from the code or from "
            "an example?",
        )
    alone = []
    for one in outcomes:
        if isinstance(one, Refusal):
            raise one.failure(model)
        row, one_each = one["OUTPUT__0"], (1, facts.LANGUAGES)
        forward = "Look at what forward returns."
        require.shape(which, row, one_each, output="OUTPUT__0", help=forward)
        alone.append(row)
    answers = np.concatenate(alone)
    ids, mask = facts.table(rows)
    again = np.stack([ask_reader(server, model, ids, mask, version) for _ in range(2)])
    allowed = facts.tolerance(weights)  # TorchScript compiles anew after its first calls
    if np.abs(again[0] - again[1]).max() > allowed.allowed:
        raise Failure(
            f"Asked the same twice, {which} gives other scores.",
            help="Something in the network is random. Dropout is, as long as a module is in "
            "training mode; a script keeps the mode in which it was made.",
        )
    right = np.concatenate([facts.scores(weights, *one) for one in tables])
    off = np.abs(answers - right).max(axis=1) > allowed.allowed
    sizes = np.array([len(row) for row in rows])
    if off.any() and not off.all() and sizes[off].min() > sizes[~off].max():
        raise Failure(
            f"The scores that {which} gives to rows of up to {sizes[~off].max()} letters are "
            "right; those of longer rows are not.",
            help="A trace repeats the steps of its example, and no more. Make the file from the "
            "code: torch.jit.script.",
        )
    network = f"They are compared with those of facts.network(me, {size!r})."
    for got, how in ((answers, "each sent alone"), (again[0], "sent as one table")):
        what = f"the scores of {which} for rows, {how},"
        require.close(got, right, what=what, tolerance=allowed, help=network)


def same_numbers(
    server: Probe, model: str, texts: Sequence[str], rows: Sequence[Sequence[int]], what: str
) -> None:
    """Fail unless letters turns texts into these numbers, filled up to any width."""
    (outcome,) = server.outcomes(model, [{"TEXT": facts.as_text(texts)}])
    if isinstance(outcome, Refusal):
        _raise_crash(model, what, outcome.message)
        raise Failure(
            f"{model} refuses {what}. Its message: {outcome.message[:300]}",
            help="Only a text of which nothing is left is refused. Go through the rule's steps, in "
            "their order.",
            safe="Your model refuses texts that the rule reads.",
        )
    ids, mask = ask_letters(server, model, texts)
    for got, row, ones in zip(ids, rows, mask, strict=True):
        size = len(row)
        if not set(np.unique(ones)) <= {0, 1} or (np.diff(ones) > 0).any():
            raise Failure(
                f"MASK is wrong for {what}.", help="It is 1 for each letter, and 0 after them."
            )
        if ones.sum() != size:
            raise Failure(
                f"For {what}, MASK counts {ones.sum()} letters, and not {size}.",
                help="Go through the rule step by step.",
            )
        if wrong := int((got[:size] != row).sum()):
            raise Failure(
                f"For {what}, {wrong} of {size} numbers in IDS are not those of the rule.",
                help="Go through the rule step by step, in its order.",
            )
        if (got[size:] != facts.PADDING).any():
            raise Failure(
                f"For {what}, IDS holds something else than 0 after the last letter.",
                help="table(rows) fills texts up.",
            )


def _raise_crash(model: str, what: str, message: str) -> None:
    """Fail if a message of the server holds an exception of the model's program; say where."""
    if mistake := _MISTAKE.search(message):
        raise Failure(
            f"{mistake[1][:300]} Look at {mistake[2][:300]}",
            help=f"The config of {model} is right. Correct the program, and deploy the folder "
            "again.",
            safe="What your model answers does not fit its config.",
        )
    quoted = _RAISED.search(message)
    if quoted is None:
        return
    place = re.search(_PLACE.format(model=re.escape(model)), quoted[2])
    where = (
        f" It comes from line {place[2]} of models/{model}/{place[1]}, in {place[3]}."
        if place
        else ""
    )
    raise Failure(
        f"Asked for {what}, {model} ends with an exception: {quoted[1][:300]}.{where}",
        help="Correct this line or its input, and deploy the folder again.",
        safe="Your model ends with an exception.",
    )


def each_its_own(server: Probe, model: str, texts: Sequence[str]) -> None:
    """Fail unless texts that are sent at once get the numbers that each gets alone in a table."""
    ids, mask = ask_letters(server, model, texts)
    requests = [{"TEXT": facts.as_text([text])} for text in texts]
    for place, answer in enumerate(server.together(model, requests, outputs=["IDS", "MASK"])):
        got, ones = answer["IDS"].ravel(), answer["MASK"].ravel()
        kept, right = got[ones == 1] if ones.shape == got.shape else None, ids[place]
        if kept is None or not np.array_equal(kept, right[mask[place] == 1]):
            raise Failure(
                f"Of {len(texts)} texts sent at once, text {place} gets other numbers than in one "
                "table.",
                help="Requests of several clients come to execute as one list. Each needs its own "
                "response, in the list's order.",
            )


def refuses_empty(server: Probe, model: str) -> None:
    """Fail unless a text without a letter is refused, and other requests are answered."""
    require.refuses(
        server,
        model,
        {"TEXT": facts.as_text(["  \n"])},
        "a text of nothing but spaces",
        good={"TEXT": facts.as_text(["abc"])},
        naming=("empty",),
    )


def require_steps(config: dict[str, Any]) -> None:
    """Fail unless an ensemble's config leads TEXT through letters and the newest reader."""
    steps = {
        str(step["model_name"]): step
        for step in config.get("ensemble_scheduling", {}).get("step", ())
    }
    name = config.get("name")
    if not steps:
        raise Failure(
            f"The config of {name} has no ensemble_scheduling with steps.",
            help='An ensemble has platform: "ensemble", and its steps in ensemble_scheduling.',
        )
    if {*steps} != {facts.LETTERS, facts.READER}:
        raise Failure(
            f"The steps of {name} are {', '.join(steps)}.",
            help=f"They should be {facts.LETTERS} and {facts.READER}.",
        )
    first, second = steps[facts.LETTERS], steps[facts.READER]
    version = int(second.get("model_version", -1))
    if version not in (-1, max(facts.VERSIONS)):
        raise Failure(
            f"The step of {facts.READER} asks for version {version}.",
            help="The ensemble is to answer as the newest version does.",
        )
    gives = {value: key for key, value in first["output_map"].items()}
    if second["output_map"].get("OUTPUT__0") != "SCORES":
        raise Failure(
            f"SCORES of {name} does not come from OUTPUT__0 of {facts.READER}.",
            help="The network's scores are to be the ensemble's answer.",
        )
    for tensor, wanted in (("INPUT__0", "IDS"), ("INPUT__1", "MASK")):
        found = gives.get(second["input_map"].get(tensor))
        if found != wanted:
            raise Failure(
                f"{tensor} of {facts.READER} gets {found or 'nothing'} of {facts.LETTERS}.",
                help="forward(ids, mask): which of the two is which?",
            )


def equals_parts(server: Probe, model: str, texts: Sequence[str], allowed: Tolerance) -> None:
    """Fail unless texts sent at once get the scores of the parts, and reader was asked for each."""
    requests = [{"TEXT": facts.as_text([text])} for text in texts]

    def counted() -> Failure | None:
        before = server.counts(facts.READER)
        require.ensemble_equals_parts(
            server, model, requests, uses=(facts.LETTERS, facts.READER), tolerance=allowed
        )
        sent_to_reader = (server.counts(facts.READER) - before).inferences
        if sent_to_reader == 2 * len(texts):
            return None
        return Failure(
            f"{facts.READER} was asked for {sent_to_reader} texts, where {len(texts)} were sent to "
            f"{model} and {len(texts)} to its parts.",
            help="The ensemble's scores are to be those of reader, and nobody else may ask it now.",
        )

    steady(counted)


def own_rows(server: Probe, model: str, texts: Sequence[str], allowed: Tolerance) -> None:
    """Fail unless each of several requests at once gets the scores of its own texts.

    They have one text and two texts in turn, so that a program that mixes them up is found.
    """
    ends = [place for place in range(1, len(texts)) if place % 3]
    parts = [texts[a:b] for a, b in itertools.pairwise([0, *ends, len(texts)])]
    alone = ask_text(server, model, texts)
    requests = [{"TEXT": facts.as_text(part)} for part in parts]
    answers = server.together(model, requests, outputs=["SCORES"])
    for place, (part, answer) in enumerate(zip(parts, answers, strict=True), 1):
        got = answer["SCORES"]
        if got.shape != (len(part), facts.LANGUAGES):
            raise Failure(
                f"Of {len(parts)} requests sent at once, request {place} has {len(part)} "
                f"text{'s' * (len(part) > 1)}, and gets SCORES of the shape {list(got.shape)}.",
                help="execute gets a list of requests. Ask for the texts of all of them, and give "
                "each request the rows of its own texts.",
            )
    what = f"the scores of {model} for requests sent at once"
    where = "They are compared with those of the same texts in one request. Each request gets the "
    where += "rows of its own texts, in the list's order."
    got = np.concatenate([answer["SCORES"] for answer in answers])
    require.close(got, alone, what=what, tolerance=allowed, help=where)


def calls_the_steps(server: Probe, model: str, texts: Sequence[str], allowed: Tolerance) -> None:
    """Fail unless texts sent to the program at once go to both steps, and share executions."""
    steady(lambda: _steps_called(server, model, texts, allowed))


def _steps_called(
    server: Probe, model: str, texts: Sequence[str], allowed: Tolerance
) -> Failure | None:
    """What is wrong with the counts of both steps; raises `Failure` if an answer is wrong."""
    names = (facts.LETTERS, facts.READER)
    with_ensemble = server.server.ready(facts.ENSEMBLE)
    before = [server.counts(name) for name in names]
    others = server.counts(facts.ENSEMBLE) if with_ensemble else None
    requests = [{"TEXT": facts.as_text([text])} for text in texts]
    alone = ask_text(server, model, texts)
    answers = server.together(model, requests, outputs=["SCORES"])
    by_letters, by_reader = (
        server.counts(name) - was for name, was in zip(names, before, strict=True)
    )
    for answer in answers:
        size, each = (1, facts.LANGUAGES), "Each text gets one row of scores."
        require.shape(model, answer["SCORES"], size, output="SCORES", help=each)
    got = np.concatenate([answer["SCORES"] for answer in answers])
    what = f"the scores of {model} for texts sent at once"
    where = "They are compared with those of the same texts in one request."
    require.close(got, alone, what=what, tolerance=allowed, help=where)
    sent = 2 * len(texts)
    for name, change in zip(names, (by_letters, by_reader), strict=True):
        if change.inferences < sent:
            return Failure(
                f"{sent} texts were sent to {model}, and {name} was asked for {change.inferences}.",
                help="The program is to ask letters, and then reader.",
            )
    if others is not None and (server.counts(facts.ENSEMBLE) - others).requests:
        return Failure(
            f"{model} asks {facts.ENSEMBLE}.", help="It is to ask letters, and then reader."
        )
    if 2 * (by_reader.executions - 1) > len(texts):
        return Failure(
            f"{len(texts)} texts sent at once to {model} took "
            f"{by_reader.executions - 1} executions of {facts.READER}.",
            help="One call of execute gets a list of requests. Put the texts of all of them into "
            "one call of each step.",
        )
    return None


def pads(server: Probe, model: str, texts: Sequence[str], width: int) -> None:
    """Fail unless letters fills each text up to a multiple of the width, also one sent alone."""
    requests = [{"TEXT": facts.as_text([text])} for text in texts]
    for text, answer in zip(texts, server.together(model, requests, outputs=["IDS"]), strict=True):
        (expected,) = facts.lengths([text], width)
        if answer["IDS"].shape != (1, expected):
            raise Failure(
                f"With PAD_TO {width}, a text of {len(text)} letters comes back from {model} with "
                f"the shape {list(answer['IDS'].shape)}.",
                help="table(rows) fills up to a multiple of self.pad_to.",
            )
