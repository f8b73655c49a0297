"""The task of `08__fil`: a scikit-learn forest that lies in the repository as a pickle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import setup
from workbook import zoo
from workbook.lessons.runs import infer
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_NEAR = 1e-5  # sums of 60 probabilities in float32 instead of float64


@define(
    "fil.pickled",
    hints=(
        "Ask the server to load it, with lab.load, and read what it says. Which five formats does "
        "FIL read? Is a pickle among them?",
        "The package treelite turns a fitted scikit-learn forest into a checkpoint. The config has "
        "to name that format, and the file needs the name that the table above gives.",
        "joblib.load reads the pickle; treelite.sklearn.import_model(…) takes the forest, and its "
        "serialize(…) writes checkpoint.tl. In config.pbtxt, model_type is treelite_checkpoint.",
    ),
)
def pickled(server: Server) -> None:
    """The model pickled answers with the probabilities that its scikit-learn forest gives, for
    each of the 360 test digits."""
    if not server.ready("pickled"):
        raise NotYet("The model pickled is not loaded.")
    rows = zoo.data.digit_rows().x_test
    served = infer(server, "pickled", input__0=rows)["output__0"]
    own = setup.forest().predict_proba(rows)
    if served.shape != own.shape:
        raise NotYet(f"An answer has the shape {list(served.shape)}, not {list(own.shape)}.")
    apart = float(np.abs(served - own).max())
    if apart > _NEAR:
        raise NotYet(f"A probability differs from scikit-learn's by {apart:.2g}.")


def start(folder: Path) -> Server:
    """Put the pickle into a repository, and start a server that has not loaded it."""
    setup.pickled(folder)
    return laboratory(folder, only=[])
