"""For 02__python: models beside those that the reader writes, and measurements of their cost.

setup.repository(models)                            # its models, and models that they call
setup.instances(lab, "focus_python", (1, 2, 4))     # a table: processes, memory, seconds
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import measure, zoo
from workbook.common import paths
from workbook.common.errors import RequestError, WorkbookError
from workbook.lessons import mistakes, place
from workbook.lessons.premises import Premise
from workbook.lessons.runs import Run, infer, record
from workbook.lessons.shared import sleeper
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
    """Copy the models beside the notebook, and add others that they call, and weights."""
    place(models, *HERE.glob("[a-z]*"), paths.root() / "model_repository/countdown")
    for name in ("first", "second"):
        sleeper.add(models, name, "", ms=SLEEP_MS)
    shutil.copy(zoo.checkpoint("focus_cnn"), models / "focus_python/1/weights.pth")


def change(server: Triton, file: Path, old: str, new: str) -> str:
    """Replace a text in a model's code once, and load the model; returns the refusal, or "".

    Args:
        file: MODEL/VERSION/model.py in the server's repository.
    """
    file.write_text(file.read_text("utf-8").replace(old, new, 1), "utf-8")
    return mistakes.refusal(server, file.parent.parent.name)


def loaded(server: Triton, model: str) -> dict[str, Any]:
    """Load a model, and return its config as the server completed it."""
    server.load(model)
    return server.config(model)


def without_config(models: Path, model: str, target: str) -> Path:
    """Copy a model's version 1 without its config, and return the copy's folder."""
    shutil.rmtree(models / target, ignore_errors=True)
    shutil.copytree(models / model / "1", models / target / "1")
    return models / target


def completed(config: Mapping[str, Any]) -> Premise:
    """Premise: a model without a config file was loaded, and has the config of its code."""
    return Premise(config.get("max_batch_size") == 32, "the model did not load without a config")


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


def handed_over(server: Triton, requests: int = 8) -> tuple[list[str], Array]:
    """Load `handover` anew, and send it requests of 4 MB, filled with 0, with 1, with 2, …

    Returns:
        The memory in which numpy's array lies, and the memory of DLPack's array; and the first
        numbers of all arrays after the last answer, as an array (requests, 2).
    """
    server.unload("handover")
    server.load("handover")
    for number in range(requests):
        found = infer(server, "handover", x=np.full(1_000_000, number, np.float32))
    return [word.decode() for word in found["memory"]], found["kept"]


def chat(server: Triton) -> tuple[dict[str, str], int]:
    """Run the production guide's loop in four cases.

    Args:
        server: from `laboratory`, with `ibuddha_chitchat_bls` loaded. The model that it asks is
            missing first. Then it gives logits as the guide's config says, then as its text says.

    Returns:
        The answer's shape or the model's message, by case; and how many cases failed.
    """
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


def seconds(server: Server, model: str, **tensors: Array) -> float:
    """Time one request, in seconds."""
    began = time.perf_counter()
    infer(server, model, **tensors)
    return time.perf_counter() - began


def at_once(server: Triton, model: str, places: Sequence[int]) -> Run:
    """Send one request per number at the same time, to the model `checked`.

    Args:
        server: from `laboratory`.
        places: the number that each request carries.
    """
    plan = [
        measure.Request(f"r{i}", inputs={"place": np.array([[place]], np.int32)})
        for i, place in enumerate(places)
    ]
    return record(server, model, plan)


def in_one(*runs: Run) -> Premise:
    """Premise: the requests of each run shared one execution."""
    sizes = [run.sizes for run in runs]
    return Premise(
        all(size == [TOGETHER] for size in sizes),
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


def unload(server: Triton, model: str, words: str) -> list[str]:
    """Unload a model, and return the log's new lines that contain `words`."""
    begin = server.log_size()
    server.unload(model)
    return log_lines(server, words, begin)


def metric(server: Server, name: str) -> float:
    """Return the value of a metric that has one line; 0.0 if the metric is missing."""
    found = re.findall(rf"(?m)^{re.escape(name)}\{{[^}}]*\}} (\S+)$", server.metrics())
    return float(found[0]) if found else 0.0


def instances(server: Triton, model: str, counts: Iterable[int]) -> pd.DataFrame:
    """Load a model anew with each instance count, and measure its cost.

    Args:
        server: from `laboratory`.
        model: a Python model whose config says `count: 1`.
        counts: the instance counts.

    Returns:
        One row per count: `processes` of the model; `memory_mb`, their memory that no other
        process shares; `load_s`, the seconds until the model was ready.
    """
    file = server.repository / model / "config.pbtxt"
    text = file.read_text("utf-8")
    rows = {}
    for count in counts:
        server.unload(model)
        file.write_text(re.sub(r"count: \d+", f"count: {count}", text), "utf-8")
        began = time.perf_counter()
        server.load(model)
        took = time.perf_counter() - began
        stubs = measure.processes(server).query("process == 'stub' and model == @model")
        rows[count] = {
            "processes": len(stubs),
            "memory_mb": stubs["memory_mb"].sum(),
            "load_s": took,
        }
    file.write_text(text, "utf-8")
    return pd.DataFrame(rows).T.rename_axis("instances")
