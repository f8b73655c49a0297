"""Hostile submissions of a7__speed, beside those of everywhere.py.

The service is a program of the student's, which answers what it likes and when it likes. The ratio
would rise with a service that answers without computing, and with one that slows the other down.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat

from tests.attacks import submissions as s
from tests.attacks.attack import Attacks

ATTACKS = Attacks()

_HERE = Path(__file__).parent
_WRONG = "off by more than 0.005"
#: Two processes in sessions of their own, which compute for a minute.
_BURN = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass
        os._exit(0)
"""


def _serve(folder: Path, *changes: tuple[str, str]) -> None:
    """Make the service one Python model, with changes of its program."""
    program = (_HERE / "other/models/service/1/model.py").read_text("utf-8")
    for old, new in changes:
        assert old in program, old
        program = program.replace(old, new)
    config = (_HERE / "other/models/service/config.pbtxt").read_text("utf-8")
    home = folder / "models/service"
    (home / "1").mkdir(parents=True, exist_ok=True)
    (home / "config.pbtxt").write_text(config, "utf-8")
    (home / "1/model.py").write_text(program, "utf-8")
    _build(
        folder,
        'facts.write_network(me, "models/service/1/model.onnx")\n'
        'service = deploy("models/service").name',
    )


def _build(folder: Path, code: str) -> None:
    """Write the cell that deploys the service."""

    def change(notebook: nbformat.NotebookNode) -> None:
        notebook.cells[s.place(notebook, "a7.build")].source = code

    s.edit(folder, change)


@ATTACKS.add("solution", lost="all", message=_WRONG)
def computes_every_second_picture(folder: Path) -> None:
    """In a batch, every second picture gets the scores of the one before it."""
    _serve(
        folder,
        (
            "self.scores(np.concatenate(given))",
            "np.repeat(self.scores(np.concatenate(given)[::2]), 2, 0)"
            "[: sum(len(pictures) for pictures in given)]",
        ),
    )


@ATTACKS.add("solution", lost="all", message=_WRONG)
def answers_constants_under_load(folder: Path) -> None:
    """It computes for pictures that come alone; where several come at once, it takes this for the
    judge's load, and answers what it has answered last."""
    _serve(
        folder,
        (
            "        scores = self.scores(np.concatenate(given))\n",
            "        if len(given) == 1:\n"
            "            self.last = self.scores(given[0])\n"
            "        count = sum(len(pictures) for pictures in given)\n"
            "        last = getattr(self, 'last', np.full((1, 10), 0.1, np.float32))\n"
            "        scores = self.last if len(given) == 1 else np.resize(last[:1], (count, 10))\n",
        ),
    )


@ATTACKS.add("solution", lost="all", message="×16 is asked for all points")
def burns_while_the_other_one_is_measured(folder: Path) -> None:
    """The deployment as it was found. Its first step leaves processes behind that keep two cores
    busy: they shall slow down the other deployment, for which this one is unloaded."""
    shutil.copytree(_HERE / "starter/models", folder / "models", dirs_exist_ok=True)
    program = folder / "models/prepare/1/model.py"
    text = program.read_text("utf-8")
    program.write_text(f"{_BURN}\n{text}", "utf-8")
    _build(
        folder,
        "for step in facts.STEPS:\n"
        '    deploy(f"models/{step}")\n'
        'service = deploy("models/service").name',
    )
