"""For 02__python: models beside those that the reader writes, and what their instances cost.

setup.repository(models)                  # its models, models that they call, and 200 pictures
setup.as_printed(lab)                     # the server's messages about the slides' program
setup.costs(models, lab)                  # processes and memory of one instance and of four
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import measure, zoo
from workbook.common import paths
from workbook.common.errors import RequestError, WorkbookError
from workbook.lessons import formats, laboratory, mistakes, place
from workbook.lessons.premises import Premise, attempt
from workbook.lessons.runs import infer
from workbook.lessons.shared import sleeper
from workbook.lessons.workspace import set_addresses
from workbook.server import Server, Triton

Array = npt.NDArray[Any]

#: The models that the reader opens; some get their model.py from the notebook.
HERE = Path(__file__).parent / "models"
#: The beginning of a case's text if the loop answered.
_ANSWERED = "an answer of shape "
#: Milliseconds that each of the two models takes that `panel` calls.
SLEEP_MS = 150
#: The number of requests that the experiment on errors sends at once.
TOGETHER = 4


def repository(models: Path) -> None:
    """Copy the models beside the notebook, and add models that they call, weights and pictures."""
    place(models, *HERE.glob("[a-z]*"), paths.root() / "model_repository/countdown")
    for name in ("first", "second"):
        sleeper.add(models, name, "", ms=SLEEP_MS)
    shutil.copy(zoo.checkpoint("focus_cnn"), models / "focus_python/1/weights.pth")
    np.save(models / "pictures.npy", formats.pictures())


def as_printed(server: Triton) -> list[str]:
    """Load the backend slides' program as printed, and then with its first mistake corrected.

    The corrected program is in the repository again afterwards.

    Returns:
        The two refusals.
    """
    file = server.repository / "python_model/1/model.py"
    right = file.read_text("utf-8")
    printed = (HERE / "python_model/model.as_printed.py").read_text("utf-8")
    refused = []
    for text in (printed, printed.replace("import triton", "import json\nimport triton", 1)):
        file.write_text(text, "utf-8")
        refused.append(mistakes.refusal(server, "python_model"))
    file.write_text(right, "utf-8")
    return refused


def rewrite(old: str, new: str) -> mistakes.Change:
    """A mistake in model.py: one text is replaced by another."""

    def made(home: Path) -> str:
        file = home / "1/model.py"
        text = file.read_text("utf-8")
        if old not in text:
            raise WorkbookError(f"The code has no {old!r}.", where=str(file))
        file.write_text(text.replace(old, new), "utf-8")
        return f"`{old}` → `{new}`" if new else f"Without `{old}`"

    return made


def in_process(home: Path) -> Callable[[Array], Array]:
    """Return the network in this process, called as `focus_python` calls it."""
    space: dict[str, Any] = {}
    exec(compile((home / "1/network.py").read_text("utf-8"), "network.py", "exec"), space)
    net, torch = space["load"](home / "1/weights.pth"), space["torch"]
    return lambda images: net(torch.from_numpy(images)).numpy()


def chat(server: Triton) -> tuple[dict[str, str], int]:
    """Run the production guide's loop in four cases.

    Args:
        server: from `laboratory`. The model that is asked is missing first. Then it gives logits
            as the guide's config says, then as its text says.

    Returns:
        The answer's shape or the model's message, by case; and how many cases failed.
    """
    server.load("ibuddha_chitchat_bls")
    replies = {"no GPT": _reply(server)}
    _load_gpt(server, "[ 13088 ]")
    replies["logits of the last place"] = _reply(server)
    replies["the same, two rows"] = _reply(server, rows=2)
    _load_gpt(server, "[ -1, 13088 ]")
    replies["logits of all places"] = _reply(server)
    server.unload("ibuddha_chitchat")
    return replies, sum(not reply.startswith(_ANSWERED) for reply in replies.values())


def _load_gpt(server: Triton, dims: str) -> None:
    """Load the model in the GPT's place, whose output gets these dims."""
    config = (HERE / "ibuddha_chitchat/config.pbtxt").read_text("utf-8")
    file = server.repository / "ibuddha_chitchat/config.pbtxt"
    file.write_text(config.replace("[ 13088 ]", dims), "utf-8")
    server.load("ibuddha_chitchat")


def _reply(server: Server, rows: int = 1) -> str:
    """Ask the chat with four tokens; returns the shape of its answer, or the model's message."""
    ids = {f"INPUT__{i}": np.ones((rows, 4), np.int64) for i in range(3)}
    try:
        shape = list(infer(server, "ibuddha_chitchat_bls", **ids)["OUTPUT__0"].shape)
    except RequestError as error:
        return error.message.splitlines()[0].partition("message: ")[2] or error.message
    return f"{_ANSWERED}{shape}"


def in_one(server: Triton) -> Premise:
    """Premise: the last two executions of `checked` had four requests each, by its log."""
    lines = log_lines(server, "requests in one execution")
    sizes = [int(n) for n in re.findall(r"(\d+) requests in one execution", "\n".join(lines))]
    return Premise(
        sizes[-2:] == [TOGETHER, TOGETHER],
        f"the requests did not share one execution; the executions had {sizes} requests",
    )


def log_lines(server: Triton, words: str, begin: int = 0, patience: float = 3.0) -> list[str]:
    """Wait for lines of a server's log that contain `words`, and return them.

    Args:
        begin: where in the log to begin, from `server.log_size()`.
        patience: seconds to wait for the first such line.
    """
    deadline = time.monotonic() + patience
    while True:
        found = [line for line in server.log_text(begin).splitlines() if words in line]
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def provoke(server: Triton) -> mistakes.Results:
    """Make five mistakes in `focus_python`."""
    return mistakes.provoke(server, "focus_python", {
        "a typo in an import": rewrite("import torch", "import troch"),
        "another class": rewrite("TritonPythonModel", "Model"),
        "a method without args": rewrite("(self, args)", "(self)"),
        "a path from the working directory": rewrite('version + "/', '"'),
        "an unknown key": mistakes.config("max_batch_size", "max_batchsize"),
    })  # fmt: skip


def add_row(server: Triton) -> formats.Row:
    """Measure `focus_python`, and add it to the table of formats."""
    net = in_process(server.repository / "focus_python")
    return attempt(
        lambda: formats.add(server, "focus_python", "Python", net), lambda row: row.repeated
    )


def costs(models: Path, lab: Triton) -> pd.DataFrame:
    """Measure `instances` of the classifier on two servers.

    On the second one, as in NVIDIA's container, no two processes share imports.

    Args:
        models: the repository.
        lab: the notebook's server. Its addresses are in the environment again afterwards.

    Returns:
        The table of `instances`, and `memory_mb, plain` of the second server.
    """
    shared = instances(lab, "focus_python", (1, 4))
    try:
        with laboratory(models, only=[], plain=True) as plain:
            other = instances(plain, "focus_python", (1, 4))
    finally:
        set_addresses(lab)
    return shared.assign(**{"memory_mb, plain": other["memory_mb"]}).round()


def instances(server: Triton, model: str, counts: Iterable[int]) -> pd.DataFrame:
    """Load a model anew with each instance count, and measure its cost.

    Args:
        server: from `laboratory`.
        model: a Python model whose config says `count: 1`.
        counts: the instance counts.

    Returns:
        One row per count: `processes` of the model; `memory_mb`, their memory that no other
        process shares.
    """
    file = server.repository / model / "config.pbtxt"
    text = file.read_text("utf-8")
    rows = {}
    for count in counts:
        server.unload(model, report=lambda _: None)
        file.write_text(re.sub(r"count: \d+", f"count: {count}", text), "utf-8")
        server.load(model)
        stubs = measure.processes(server).query("process == 'stub' and model == @model")
        rows[count] = {"processes": len(stubs), "memory_mb": stubs["memory_mb"].sum()}
    file.write_text(text, "utf-8")
    return pd.DataFrame(rows).T.rename_axis("instances")
