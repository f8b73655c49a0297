"""The task of 02__python: the three methods of a model, written by the reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

import setup
from workbook import measure
from workbook.lessons import place
from workbook.lessons.tasks import CannotTell, NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

#: Logits of the four requests; the third is not finite. `_COUNT` rows get an answer.
_ROWS = (
    [[1.0, 0.0], [0.0, 2.0]],
    [[0.0, 0.5]],  # exactly the threshold, so not more than it
    [[float("nan"), 0.0]],
    [[0.0, 0.6], [0.0, 0.1]],
)
_COUNT = 5
_TRIES = 3  # to send the four requests at the same time


@define(
    "python.verdict",
    hints=(
        'initialize(self, args) is called once: args["model_config"] is JSON text, with the '
        "config's parameters in it. A file beside model.py is Path(__file__).with_name(…).",
        "execute returns one response per request, in their order. A request with a number that "
        "is not finite gets pb_utils.InferenceResponse(error=pb_utils.TritonError(…)).",
        "Texts are an array of type np.object_, here of shape (rows, 1). Add the rows that you "
        "answer to a count.",
        'In finalize(self), write the count with pb_utils.Logger.log_info(f"verdicts: {…}").',
    ),
)
def verdict(server: Server) -> None:
    """The model verdict says sharp where the second logit is more than the threshold above the
    first, and blurred elsewhere. A request that is not finite gets an error, and the others get
    their answers. When it is unloaded, it logs how many rows it has answered."""
    for _ in range(_TRIES):
        begin = server.log_size()
        server.unload("verdict")
        server.load("verdict")
        first, together = _answers(server, 0.5)
        server.unload("verdict")
        lines = setup.log_lines(server, "verdicts", begin)  # type: ignore[arg-type]
        if first or together:
            break
    server.load("verdict", config=_with_threshold(server, "0.05"))
    second, _ = _answers(server, 0.05)
    server.load("verdict")
    if first or second:
        raise NotYet(first or second)
    if not together:
        raise CannotTell("The four requests did not come at the same time.")
    counts = re.findall(r"verdicts: (\d+)", "\n".join(lines))
    if not counts:
        raise NotYet('The model was unloaded, and the log has no line "verdicts: …".')
    if int(counts[-1]) != _COUNT:
        raise NotYet(f"The log says verdicts: {counts[-1]}; {_COUNT} rows were answered.")


def _with_threshold(server: Server, value: str) -> dict[str, object]:
    """Return the model's config with another threshold, to see whether the code reads it."""
    server.load("verdict")
    config = server.config("verdict")
    return {**config, "parameters": {"threshold": {"string_value": value}}}


def _answers(server: Server, threshold: float) -> tuple[str, bool]:
    """Return what is wrong with the answers to four requests at once, "" if nothing is, and
    whether the one that is not finite shared its execution with others: four rows make a batch,
    and two are left. Only then does an exception spoil the others' answers, too."""
    before = measure.statistics(server, "verdict")
    plan = [
        measure.Request(f"r{i}", inputs={"logits": np.array(rows, np.float32)})
        for i, rows in enumerate(_ROWS)
    ]
    answers = measure.send(server, "verdict", plan)
    change = measure.counted(server, "verdict", before, len(_ROWS))
    faults = (
        _fault(rows, answer, threshold)
        for rows, answer in zip(_ROWS, answers.itertuples(), strict=True)
    )
    return next(filter(None, faults), ""), change["batches"].item() in ({4: 1, 2: 1}, {6: 1})


def _fault(rows: list[list[float]], answer: Any, threshold: float) -> str:
    """Return what is wrong with the answer to one request; "" if nothing is."""
    finite = bool(np.isfinite(rows).all())
    if not finite:
        return "" if answer.error else f"The request {rows} got an answer and no error."
    if answer.error:
        return f"The request {rows} got the error: {answer.error.splitlines()[0]}"
    verdicts = answer.outputs["verdict"]
    if verdicts.shape != (len(rows), 1):
        shape = list(verdicts.shape)
        return f"The request {rows} got an answer of the shape {shape}, not {[len(rows), 1]}."
    found = [word.decode() for word in verdicts.ravel()]
    wanted = ["sharp" if b - a > threshold else "blurred" for a, b in rows]
    if found != wanted:
        return f"With the threshold {threshold}, {rows} got {found}, not {wanted}."
    return ""


def start(folder: Path) -> Server:
    """Start a server with the model's folder, whose code answers nothing."""
    place(folder, setup.HERE / "verdict")
    return laboratory(folder)
