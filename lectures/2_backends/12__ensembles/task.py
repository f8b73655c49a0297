"""The task of 12__ensembles: a program that calls models and does not check for their errors."""

from __future__ import annotations

from pathlib import Path

import setup
from workbook import measure
from workbook.lessons import place
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server
from workbook.server.explain import explain

_TEXTS, _BLANK = 8, 3


@define(
    "ensembles.blank",
    hints=(
        "Ask language_bls for a blank text, and look at what comes back. What does a step's answer "
        "hold when the step has failed?",
        "An InferenceResponse of a step that failed has no output tensors. `has_error()` says so, "
        "and `error()` says why.",
        "In `steps`, keep what exec() returns as `answer`. If it has an error, return "
        "`pb.InferenceResponse([], answer.error())`, else go on with its output tensors. Then load "
        "the model again.",
    ),
)
def blank(server: Server) -> None:
    """Eight texts come to language_bls; the fourth is blank. Seven get their language, and the
    fourth an error with the tokenizer's words."""
    if not server.ready("language_bls"):
        raise NotYet("language_bls is not loaded.")
    good = setup.texts(_TEXTS)
    expected = setup.label_of(server, "language", good)
    texts = [*good[:_BLANK], " ", *good[_BLANK + 1 :]]
    answers = measure.send(server, "language_bls", setup.plan(texts))
    for number, (error, outputs) in enumerate(
        zip(answers["error"], answers["outputs"], strict=True)
    ):
        if number == _BLANK:
            if not error:
                raise NotYet("The blank text got an answer, and no error.")
            if "blank" not in error:
                raise NotYet(
                    f"The blank text got an error with other words: {_words(server, error)}"
                )
        elif error:
            raise NotYet(f"Text {number + 1} is fine, and got an error.\n{_words(server, error)}")
        elif "label" not in outputs or outputs["label"].item().decode() != expected[number]:
            raise NotYet(f"Text {number + 1} got another language than from the ensemble.")


def _words(server: Server, error: str) -> str:
    """Return an error's message, and the place in the program that raised it."""
    found = explain(error, server, "language_bls")
    return "\n".join(filter(None, [found.what, found.where]))


def start(folder: Path) -> Server:
    """Start a server with the program as the notebook has it."""
    setup.copy_shared(folder)
    place(folder, setup.HERE / "language_bls")
    return laboratory(folder)
