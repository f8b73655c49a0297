"""For 02__python: models beside those that the reader writes, and what their instances cost.

setup.repository(models)                  # its models, models that they call, and 200 pictures
setup.as_printed(lab)                     # the server's messages about the slides' program
setup.costs(models, lab)                  # processes and memory of one instance and of four
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
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
from workbook.common.errors import Refusal, RequestError, WorkbookError
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
#: A model whose code completes its config.
_COMPLETES = """\
import triton_python_backend_utils as pb


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(8)
        config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "double", "data_type": "TYPE_FP32", "dims": [-1]})
        return config

    def execute(self, requests):
        x = [pb.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb.InferenceResponse([pb.Tensor("double", 2 * each)]) for each in x]
"""
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


def apart(logits: Array) -> float:
    """The largest difference of logits from those that the network gives in this process."""
    return float(np.abs(logits - formats.reference()).max())


def in_process(home: Path) -> Callable[[Array], Array]:
    """Return the network in this process, called as `focus_python` calls it."""
    space: dict[str, Any] = {}
    exec(compile((home / "1/network.py").read_text("utf-8"), "network.py", "exec"), space)
    net, torch = space["load"](home / "1/weights.pth"), space["torch"]
    return lambda images: net(torch.from_numpy(images)).numpy()


@functools.cache  # a claim's condition and its text measure once
def others(server: Triton) -> Others:
    """Read the counter of `tally`, and ask `panel` and `collected`."""
    (total,) = re.findall(r"(?m)^sharp_total\{.*\} (\S+)$", server.metrics())
    for name in ("panel", "collected"):
        server.load(name)
    began = time.perf_counter()
    added = infer(server, "panel", X=np.ones((1, 1), np.float32))["Y"].item()
    took = time.perf_counter() - began
    counts = infer(server, "collected", start=np.array([4], np.int32))["counts"].tolist()
    return Others(int(float(total)), added, took, counts)


@dataclasses.dataclass(frozen=True)
class Others:
    """What models have answered that ask others.

    Attributes:
        counter: the metric of `tally`.
        added, took: the answer of `panel`, and the seconds that it took.
        counts: the answers of `countdown` that `collected` has joined.
    """

    counter: int
    added: float
    took: float
    counts: list[int]

    @property
    def right(self) -> bool:
        """Whether the models have answered what their code says."""
        return self.counter > 0 and self.added == 4 and self.counts == [4, 3, 2, 1]

    def __str__(self) -> str:
        return (
            f"tally's counter grows by this number each time that the cell runs. panel had both "
            f"answers after {1000 * self.took:.0f} ms; one after the other, they need "
            f"{2 * SLEEP_MS}. collected has joined {self.counts}."
        )


@dataclasses.dataclass(frozen=True)
class Replies:
    """The shape of the loop's answer, or the model's message, by case."""

    by_case: dict[str, str]

    @property
    def failed(self) -> dict[str, str]:
        """The messages of the cases without an answer."""
        items = self.by_case.items()
        return {case: reply for case, reply in items if not reply.startswith(_ANSWERED)}

    @property
    def lost(self) -> int:
        """How many cases had no answer."""
        return len(self.failed)

    def __str__(self) -> str:
        reasons = (f"{case} ({reply.partition(':')[0]})" for case, reply in self.failed.items())
        answered = ", ".join(case for case in self.by_case if case not in self.failed)
        return f"It answers in this case: {answered}. It fails in these: {'; '.join(reasons)}."


@functools.cache
def chat(server: Triton) -> Replies:
    """Run the production guide's loop in four cases.

    Args:
        server: from `laboratory`. The model that is asked is missing first. Then it gives logits
            as the guide's config says, then as its text says.
    """
    server.load("ibuddha_chitchat_bls")
    replies = {"no GPT is loaded": _reply(server)}
    _load_gpt(server, "[ 13088 ]")
    replies["one row of tokens, logits for the last one"] = _reply(server)
    replies["two rows of tokens"] = _reply(server, rows=2)
    _load_gpt(server, "[ -1, 13088 ]")
    replies["one row, logits for each token"] = _reply(server)
    server.unload("ibuddha_chitchat")
    return Replies(replies)


def handover(server: Triton) -> bool:
    """Send eight long inputs to `handover`, which keeps the arrays of all of them.

    Returns:
        Whether numpy's arrays lie in the model's own memory, DLPack's in the memory that it shares
        with the server, and all still hold what was sent.
    """
    server.unload("handover", report=lambda _: None)  # so that it has kept nothing
    server.load("handover")
    for number in range(8):
        answer = infer(server, "handover", x=np.full(1_000_000, number, np.float32))
    unchanged = answer["kept"].T.tolist() == [[*range(8)]] * 2
    return bool(answer["memory"].tolist() == [b"own", b"shared"] and unchanged)


@functools.cache
def without_config(server: Triton) -> dict[str, str]:
    """Load a model whose code completes its config: without a config, and with another one.

    Returns:
        The input that the server has, or why it refuses: by model.
    """
    other = 'backend: "python"\ninput { name: "x" data_type: TYPE_FP32 dims: [ 3 ] }\n'
    for name in ("filled", "conflict"):
        home = server.repository / name
        (home / "1").mkdir(parents=True, exist_ok=True)
        (home / "1/model.py").write_text(_COMPLETES, "utf-8")
    (server.repository / "conflict/config.pbtxt").write_text(other, "utf-8")
    server.load("filled")
    (tensor,) = server.config("filled")["input"]
    found = {"filled": f"{tensor['name']}, {tensor['data_type']}, dims {tensor['dims']}"}
    try:
        server.load("conflict")
    except Refusal as error:
        found["conflict"] = error.message.splitlines()[0].rpartition("Internal: ")[2]
    return {"conflict": "", **found}


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
    with contextlib.redirect_stdout(io.StringIO()):  # of an unload that takes long
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
        The table of `instances`: processes, and megabytes on both servers.
    """
    shared = instances(lab, "focus_python", (1, 4))
    try:
        with laboratory(models, only=[], plain=True) as plain:
            other = instances(plain, "focus_python", (1, 4))
    finally:
        set_addresses(lab)
    return pd.DataFrame({
        "processes": shared["processes"],
        "MB, this course's server": shared["memory_mb"],
        "MB, each imports for itself": other["memory_mb"],
    }).round().astype(int)  # fmt: skip


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
