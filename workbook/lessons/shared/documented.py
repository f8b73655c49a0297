"""Load a config as a source document prints it, then correct it step by step.

printed = models / "onnx_model/config.as_printed.pbtxt"
documented.correct(lab, "onnx_model", printed, {
    "with braces": documented.braces,
    "on the CPU": documented.put("KIND_GPU", "KIND_CPU"),
})                                  # in a notebook: one card per step, with the server's message
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...common.errors import LoadError, WorkbookError
from ...server import Triton
from .. import cards
from ..cards import FAILS, HOLDS, Card
from ..mistakes import shown, words

#: From the text of a config to the text of the next one.
Edit = Callable[[str], str]
#: The name of the first step.
PRINTED = "as printed"
_LIST = re.compile(r"(?m)^(input|output|instance_group) \[\n((?:[ \t]+[^{}\n]+(?:\n|\Z))+)")


@dataclass(frozen=True)
class Correction:
    """The server's reply to each step.

    Attributes:
        errors: step → the refusal; None where the model was loaded.
    """

    errors: Mapping[str, LoadError | None]

    @property
    def refused(self) -> list[str]:
        """The steps that the server refused, in their order."""
        return [step for step, error in self.errors.items() if error is not None]

    def words(self, step: str) -> str:
        """The server's message about a step; "" where it loaded the model."""
        error = self.errors[step]
        return "" if error is None else words(error)

    def _ipython_display_(self) -> None:
        for step in self.errors:
            cards.show(self._card(step))

    def _card(self, step: str) -> Card:
        error = self.errors[step]
        if error is None:
            return Card(HOLDS, step, "The server loads it.")
        lines = [f"to do: {error.todo}"] if error.todo else []
        return Card(
            FAILS, step, shown(error.what), lines, folds={"Triton's own words": words(error)}
        )

    def __str__(self) -> str:
        return "\n".join(str(self._card(step)) for step in self.errors)


def correct(server: Triton, model: str, printed: Path, steps: Mapping[str, Edit]) -> Correction:
    """Load a model with a printed config, then apply one change after the other and load again.

    The last config stays in the model's folder, and the model stays loaded if it was not refused.

    Args:
        server: from `laboratory`, in mode explicit.
        model: its folder is in the server's repository.
        printed: the file with the printed config.
        steps: a step's name → the change of the config's text.

    Raises:
        WorkbookError: a change does not find its text.
    """
    file = server.repository / model / "config.pbtxt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(printed.read_text("utf-8"), "utf-8")
    errors = {PRINTED: _load(server, model)}
    for step, change in steps.items():
        file.write_text(change(file.read_text("utf-8")), "utf-8")
        errors[step] = _load(server, model)
    return Correction(errors)


def braces(text: str) -> str:
    """Add the braces that a printout lost around each tensor and each instance group.

    >>> print(braces('input [\\n  name: "x"\\noutput [\\n  name: "y"'))
    input [ {
      name: "x"
    } ]
    output [ {
      name: "y"
    } ]
    """
    return _LIST.sub(lambda found: f"{found[1]} [ {{\n{found[2].rstrip()}\n}} ]\n", text).rstrip()


def put(old: str, new: str) -> Edit:
    """Return a change that replaces one text by another.

    Raises:
        WorkbookError: when the change is applied: the config does not have the old text.
    """

    def change(text: str) -> str:
        if old not in text:
            raise WorkbookError(f"The config does not have {old!r}.")
        return text.replace(old, new)

    return change


def on_cpu(text: str) -> str:
    """Move instances to the CPU, and remove the list of GPUs.

    >>> on_cpu("kind: KIND_GPU\\n gpus: [ 0 ]")
    'kind: KIND_CPU'
    """
    return re.sub(r"\s*gpus: \[[^\]]*\]", "", put("KIND_GPU", "KIND_CPU")(text))


#: The steps that a printed config for a GPU needs on this server.
BRACES_AND_CPU: Mapping[str, Edit] = {"with braces": braces, "on the CPU": on_cpu}


def _load(server: Triton, model: str) -> LoadError | None:
    try:
        server.load(model)
    except LoadError as error:
        return error
    return None
