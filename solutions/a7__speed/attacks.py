"""Hostile submissions of a7__speed, beside those of everywhere.py.

The service is a program of the student's, which answers what it likes and when it likes. The ratio
would rise with a service that answers without computing, and with anything that slows down the
deployment as it was found.
"""

from __future__ import annotations

from pathlib import Path

import nbformat

from tests.attacks import submissions as s
from tests.attacks.attack import RAN, Attacks

ATTACKS = Attacks()

_HERE = Path(__file__).parent
_WRONG = "off by more than 0.005"


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

    def deploy(notebook: nbformat.NotebookNode) -> None:
        notebook.cells[s.place(notebook, "a7.build")].source = (
            'facts.write_network(me, "models/service/1/model.onnx")\n'
            'service = deploy("models/service").name'
        )

    s.edit(folder, deploy)


@ATTACKS.add("solution", lost="all", says=RAN, message="×16 is asked for all points")
def slows_the_other_one_down_and_keeps_its_answers(folder: Path) -> None:
    """A service that sleeps, but keeps its answers: a picture that comes again is answered at once.
    It leaves processes behind that burn the processors, also after it is unloaded; and a deployment
    "as found" in the repository that sleeps much longer. Nobody is refused."""
    burn = (
        "import os, threading, time\n"
        "def burn():\n"
        "    end = time.monotonic() + 20\n"
        "    while time.monotonic() < end: pass\n"
        "    os._exit(0)\n"
        "for _ in range(2):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        burn()\n"
    )
    _serve(
        folder,
        ("from pathlib import Path\n", f"from pathlib import Path\n{burn}"),
        (
            "    def scores(self, pictures):\n",
            "    def scores(self, pictures):\n"
            "        self.kept = getattr(self, 'kept', {})\n"
            "        for one in pictures:\n"
            "            if one.tobytes() not in self.kept:\n"
            "                time.sleep(0.02)\n"
            "                self.kept[one.tobytes()] = self.computed(one[None])[0]\n"
            "        return np.array([self.kept[one.tobytes()] for one in pictures])\n\n"
            "    def computed(self, pictures):\n",
        ),
    )
    config = folder / "models/service/config.pbtxt"
    config.write_text(config.read_text("utf-8").replace("REJECT", "DELAY"), "utf-8")
    s.last(
        folder,
        """
        import os, pathlib

        home = pathlib.Path(os.environ["TRITON_REPOSITORY"], "before_prepare/1")
        home.mkdir(parents=True, exist_ok=True)
        path = home / "model.py"
        text = path.read_text() if path.exists() else ""
        path.write_text(text + "\\nimport time\\nto_grey = lambda picture: time.sleep(9)\\n")
        print("the attack ran")
        """,
    )


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
