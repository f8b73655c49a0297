"""Make typical mistakes on purpose: show the server's message for each, and explain it.

    from workbook.lessons import mistakes

    made = mistakes.provoke(lab, "focus_onnx", {
        "another name": mistakes.config('"image"', '"pixels"'),
        "another file name": mistakes.rename("1/model.onnx", "net.onnx"),
    })
    made                        # in a notebook: one card per mistake

A mistake is a change to a copy of a model folder; the model itself stays as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..common import paths
from ..common.errors import Refusal, WorkbookError
from ..server import Server, Triton
from ..server.explain import explain
from . import cards
from .cards import FAILS, HOLDS, Card

#: Changes a copy of a model folder. It may return a description of the change.
Change = Callable[[Path], str | None]
#: The name of a copied model while its mistake is tried.
NAME = "mistake"
#: The advice if a cell needs what cells above it write or load.
ABOVE = "Run the cells above this one, from the first one on."


@dataclass(frozen=True)
class Results:
    """The result of each mistake, by its name in the notebook.

    Attributes:
        refused: mistake → the refusal, of the load or of a request.
        loaded: the mistakes that were not refused.
    """

    refused: Mapping[str, Refusal]
    loaded: tuple[str, ...]
    changes: Mapping[str, str]

    def plus(self, name: str, change: str, refused: Refusal | None) -> Results:
        """These results and that of one more mistake; `refused` is None if nothing was refused."""
        return Results(
            {**self.refused, **({name: refused} if refused else {})},
            self.loaded + (() if refused else (name,)),
            {**self.changes, name: change},
        )

    def _ipython_display_(self) -> None:
        for name, change in self.changes.items():
            cards.show(self._card(name, change))

    def _card(self, name: str, change: str) -> Card:
        lines = [change] if change else []
        if name in self.loaded:
            return Card(HOLDS, name, "The server loads it.", lines)
        error = self.refused[name]
        where = [f"where: {error.where}"] if error.where else []
        todo = [f"to do: {error.todo}"] if error.todo else []
        return Card(FAILS, name, shown(error.what), [*lines, *where, *todo],
                    folds={"Triton's own words": words(error)})  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(str(self._card(name, change)) for name, change in self.changes.items())


def provoke(server: Triton, model: str, mistakes: Mapping[str, Change]) -> Results:
    """Make each mistake in a copy of the model's folder, load it, and keep the refusal.

    Args:
        server: of `laboratory`, in mode explicit. The copies are removed from it again.
        model: the model whose folder is copied, with its newest version only.
        mistakes: what the notebook calls a mistake → the change, e.g. of `config`.

    Returns:
        What the server refused, and what it loaded.

    Raises:
        WorkbookError: the model has no folder, so the cells that write it were not run.
    """
    home = server.repository / NAME
    if not (server.repository / model).is_dir():
        raise not_written(model)
    refused, loaded, changes = {}, [], {}
    for name, change in mistakes.items():
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(server.repository / model, home)
        try:
            changes[name] = change(home) or ""
            server.load(NAME)
            loaded.append(name)
            server.unload(NAME)
        except Refusal as error:
            refused[name] = error
        finally:
            shutil.rmtree(home, ignore_errors=True)
    return Results(refused, tuple(loaded), changes)


def not_written(what: str) -> WorkbookError:
    """The error for a cell that needs files of cells above it, e.g. after cell 1 was run again."""
    return WorkbookError(
        f"{what} is not there: the first cell empties the lecture's folder when it is run again.",
        todo=ABOVE,
    )


def words(error: Refusal) -> str:
    """The server's message, with paths relative to the checkout, because pages show it."""
    return shown(error.message)


def shown(text: str) -> str:
    """The text with paths relative to the checkout."""
    return text.replace(f"{paths.root()}/", "")


def config(old: str, new: str) -> Change:
    """A mistake in config.pbtxt: one text is replaced by another.

        config("dims: [ 3, 64, 64 ]", "dims: [ 64, 64, 3 ]")

    Raises:
        WorkbookError: (when it is made) the config does not have the old text.
    """

    def change(home: Path) -> str:
        file = home / "config.pbtxt"
        text = file.read_text("utf-8")
        if old not in text:
            raise WorkbookError(
                f"The config of {home.name} does not have {old!r}.",
                where=shown(str(file)),
                todo=f"It was changed since. {ABOVE}",
            )
        file.write_text(text.replace(old, new), "utf-8")
        if not old.strip():
            return f"Added: `{new}`"
        return f"`{old}` → `{new}`" if new.strip() else f"Without `{old}`"

    return change


def append(text: str, words: str = "") -> Change:
    """A mistake in config.pbtxt: a text is added at its end.

        append('optimization { graph { level: "all" } }')

    Args:
        text: the lines to add.
        words: how the card describes them; by default it shows the text.
    """

    def change(home: Path) -> str:
        file = home / "config.pbtxt"
        file.write_text(f"{file.read_text('utf-8')}{text}\n", "utf-8")
        return words or text

    return change


def rename(file: str, name: str) -> Change:
    """A mistake: a file of the model has another name.

        rename("1/model.onnx", "digits.onnx")

    Args:
        file: its path in the model's folder.
        name: the other name.
    """

    def change(home: Path) -> str:
        (home / file).rename((home / file).with_name(name))
        return f"`{Path(file).name}` is called `{name}`"

    return change


def refusal(server: Triton, model: str) -> str:
    """Load a model; returns what is wrong and where, "" if it was loaded.

    Where the course has no explanation, the server's own message follows.
    """
    try:
        server.load(model)
    except Refusal as error:
        where = f" ({error.where})" if error.where else ""
        message = "" if error.rule else f"\n{error.message}"
        return shown(f"{error.what}{where}{message}")
    return ""


def explain_refusal(server: Server, model: str, **tensors: npt.NDArray[np.generic]) -> str:
    """Send a request over gRPC; returns the explanation of its refusal, "" if it was answered.

        print(mistakes.explain_refusal(lab, "focus_onnx", pixels=np.ones((1, 3, 64, 64), "f4")))

    Args:
        tensors: arrays by the inputs' names; what these are for the model is the mistake.
    """
    from tritonclient import grpc
    from tritonclient.utils import InferenceServerException, np_to_triton_dtype

    inputs = []
    for name, array in tensors.items():
        tensor = grpc.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        inputs.append(tensor.set_data_from_numpy(array))
    try:
        with server.grpc_client() as client:
            client.infer(model, inputs)
    except InferenceServerException as error:
        return shown(str(explain(error, server, model)))
    return ""
