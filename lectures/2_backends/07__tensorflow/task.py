"""The task of `07__tensorflow`: a SavedModel with two signatures; the wrong one is served."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import keras_copy
import setup
from workbook.lessons import formats
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server, Triton

_NEAR = 1e-3


@define(
    "tensorflow.chances",
    hints=(
        "A SavedModel may have several signatures. Which has this one, and what are their outputs "
        "called? tf.saved_model.load(…).signatures lists them.",
        "Without a parameter the backend serves serving_default. TF_SIGNATURE_DEF names another.",
        "Add parameters with the key TF_SIGNATURE_DEF and the string_value chances; the output of "
        "that signature is called probabilities, and the config has to name it.",
    ),
)
def chances(server: Triton) -> None:
    """The model unsure answers with the probabilities of both classes in place of logits, for
    each of the 200 pictures. The network's files stay as they are."""
    if not server.ready("unsure"):
        raise NotYet("The model unsure is not loaded.")
    found = formats.served_logits(server, "unsure")
    whole = np.exp(formats.reference() - formats.reference().max(axis=1, keepdims=True))
    wanted = whole / whole.sum(axis=1, keepdims=True)
    if np.abs(found.sum(axis=1) - 1).max() > _NEAR:
        raise NotYet("What it answers does not add up to 1.")
    if np.abs(found - wanted).max() > _NEAR:
        raise NotYet("Its probabilities are not those of the network.")


def start(folder: Path) -> Server:
    """Start a server with the SavedModel that has two signatures."""
    setup.quiet()
    setup.two_signatures(folder, keras_copy.network())
    return laboratory(folder)
