"""The task of 01__map_of_backends: two models with names from the backend slides' table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import setup
from workbook import zoo
from workbook.lessons.runs import infer
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server


@define(
    "map.names",
    hints=(
        "Which file lies in the version folder of each model? Which row of the table of names is "
        "it, and which of its columns say yes?",
        "The field `platform` knows few names; `backend` knows every backend of the server.",
        'In place of the platform line, ir needs backend: "openvino", and trees needs '
        'backend: "fil". Load both again.',
    ),
)
def names(server: Server) -> None:
    """The models ir and trees are ready, and answer."""
    digits, cancer = zoo.data.digits(), zoo.data.breast_cancer()
    for name, rows in (("ir", digits.x_test[:4]), ("trees", cancer.x_test[:4])):
        if not server.ready(name):
            raise NotYet(f"{name} is not ready.")
        tensor = server.config(name)["input"][0]["name"]
        if not all(np.isfinite(x).all() for x in infer(server, name, **{tensor: rows}).values()):
            raise NotYet(f"{name} does not answer with numbers.")


def start(folder: Path) -> Server:
    """Write both models as the notebook has them, and start a server that has loaded neither."""
    setup.borrowed(folder)
    return laboratory(folder, only=[])
