"""For 02__python: models beside those that the reader writes, and measurements of their cost.

setup.classifier(models)                            # focus_python without its model.py
setup.instances(lab, "focus_python", (1, 2, 4))     # a table: processes, memory, seconds
"""

from __future__ import annotations

import inspect
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
from workbook.lessons import mistakes
from workbook.lessons.premises import Premise
from workbook.lessons.runs import Run, infer, record
from workbook.lessons.shared import sleeper
from workbook.server import Server, Triton

Array = npt.NDArray[Any]

#: The backend slides' config of a Python model, with the braces and tensor names that the
#: printout lost.
BACKEND_SLIDES = """\
name: "python_model"
backend: "python"
max_batch_size: 1
input [
  { name: "INPUT_0" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "INPUT_1" data_type: TYPE_FP32 dims: [ -1 ] }
]
output [
  { name: "OUTPUT_0" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "OUTPUT_1" data_type: TYPE_FP32 dims: [ -1 ] }
]
"""
#: The production guide's config of the model that writes a chat, one tensor per line.
PRODUCTION_GUIDE = """\
name: "ibuddha_chitchat_bls"
backend: "python"
max_batch_size: 64
input [ { name: "INPUT__0" data_type: TYPE_INT64 dims: [ -1 ] } ]
input [ { name: "INPUT__1" data_type: TYPE_INT64 dims: [ -1 ] } ]
input [ { name: "INPUT__2" data_type: TYPE_INT64 dims: [ -1 ] } ]
output [ { name: "OUTPUT__0" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUTPUT__1" data_type: TYPE_FP32 dims: [ -1 ] } ]
instance_group [{ kind: KIND_CPU }]
dynamic_batching {
}
"""
#: Its program: the guide's loop, written shorter. One token per question to the GPT,
#: drawn from the likeliest 70 %, until a special token or 64 tokens.
_CHITCHAT = """\
import json

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from torch.utils.dlpack import from_dlpack

SPECIAL, MOST, TEMPERATURE, TOP_P = (0, 1, 2, 13086, 13087), 64, 0.7, 0.7


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        outputs = [pb_utils.get_output_config_by_name(config, f"OUTPUT__{i}") for i in (0, 1)]
        self.types = [pb_utils.triton_string_to_numpy(each["data_type"]) for each in outputs]

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        inputs = [pb_utils.get_input_tensor_by_name(request, f"INPUT__{i}") for i in range(3)]
        ids, likely = [], []
        while len(ids) < MOST:
            chances = self.chances(inputs)
            token = torch.multinomial(chances, 1).item()
            while not ids and token in SPECIAL:  # the first one has to be a word
                token = torch.multinomial(chances, 1).item()
            if token in SPECIAL:
                break
            ids.append(token)
            likely.append(chances[token].item())
            inputs = [longer(x, n) for x, n in zip(inputs, (token, 1, token))]
        tensors = [np.array(x, kind) for x, kind in zip((ids, likely), self.types)]
        made = [pb_utils.Tensor(f"OUTPUT__{i}", tensor) for i, tensor in enumerate(tensors)]
        return pb_utils.InferenceResponse(made)

    def chances(self, inputs):
        given = {"model_name": "ibuddha_chitchat", "requested_output_names": ["OUTPUT__0"]}
        answer = pb_utils.InferenceRequest(inputs=inputs, **given).exec()
        if answer.has_error():
            raise pb_utils.TritonModelException(answer.error().message())
        output = pb_utils.get_output_tensor_by_name(answer, "OUTPUT__0")
        logits = from_dlpack(output.to_dlpack())[0, :] / TEMPERATURE
        ordered, places = torch.sort(logits, descending=True)
        beyond = torch.cumsum(torch.softmax(ordered, -1), -1) > TOP_P
        beyond[..., 1:] = beyond[..., :-1].clone()
        beyond[..., 0] = False
        logits[places[beyond]] = -float("inf")
        return torch.softmax(logits, -1)


def longer(tensor, number):
    ids = torch.from_numpy(tensor.as_numpy())
    joined = torch.cat((ids, torch.LongTensor([[number]])), 1)
    return pb_utils.Tensor(tensor.name(), joined.numpy())
"""
#: The beginning of a case's text if the loop answered.
_ANSWERED = "an answer of shape "
#: A model in the GPT's place: random logits, for each token or for the last token only.
_GPT = """\
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        output = json.loads(args["model_config"])["output"][0]
        self.every = len(output["dims"]) == 2

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        rows, places = pb_utils.get_input_tensor_by_name(request, "INPUT__0").as_numpy().shape
        shape = (rows, places, 13088) if self.every else (rows, 13088)
        logits = np.random.default_rng(places).normal(size=shape).astype("f4")
        logits[..., 2] += 5 * (places > 8)  # the end becomes likelier
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT__0", logits)])
"""
_GPT_CONFIG = """\
backend: "python"
max_batch_size: 64
input [ {{ name: "INPUT__0" data_type: TYPE_INT64 dims: [ -1 ] }} ]
input [ {{ name: "INPUT__1" data_type: TYPE_INT64 dims: [ -1 ] }} ]
input [ {{ name: "INPUT__2" data_type: TYPE_INT64 dims: [ -1 ] }} ]
output [ {{ name: "OUTPUT__0" data_type: TYPE_FP32 dims: {dims} }} ]
instance_group [ {{ kind: KIND_CPU }} ]
"""
CONFIG = """\
backend: "python"
max_batch_size: 32
input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] } ]
output [ { name: "logits" data_type: TYPE_FP32 dims: [ 2 ] } ]
dynamic_batching { }
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
#: The method `auto_complete_config` that the notebook shows.
AUTO = """\
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "image", "data_type": "TYPE_FP32", "dims": [3, 64, 64]})
        config.add_output({"name": "logits", "data_type": "TYPE_FP32", "dims": [2]})
        config.set_max_batch_size(32)
        return config
"""
_NETWORK = '''\
"""The network of focus_python, and how it is called from numpy."""

import torch
from torch import nn


{network}

def load(path):
    """The network with its weights: (n, 3, 64, 64) to logits (n, 2)."""
    torch.set_num_threads(1)
    net = PhotoCNN().eval().requires_grad_(False)
    net.load_state_dict(torch.load(path, weights_only=True))
    return net
'''
_CHECKED = """\
backend: "python"
max_batch_size: 8
input [ { name: "place" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "weight" data_type: TYPE_FP32 dims: [ 1 ] } ]
dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 400000 }
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
_HANDOVER = """\
backend: "python"
max_batch_size: 0
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [
  { name: "memory" data_type: TYPE_STRING dims: [ 2 ] },
  { name: "kept" data_type: TYPE_FP32 dims: [ -1, 2 ] }
]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
_ADDRESSES = '''\
"""Whose memory an address belongs to, by this process's table of mapped memory."""

import numpy as np


def memory(array, tensor):
    """"shared" where the first number is in a file of /dev/shm, else "own": texts (2,).

    Args:
        array: of numpy.
        tensor: of torch.
    """
    addresses = (array.ctypes.data, tensor.data_ptr())
    return np.array([_memory(address) for address in addresses], np.object_)


def first_numbers(kept):
    """What arrays begin with now: pairs of them to float32 (pairs, 2)."""
    return np.array([[float(array[0]) for array in pair] for pair in kept], np.float32)


def _memory(address):
    with open("/proc/self/maps") as table:
        for line in table:
            first, last = (int(number, 16) for number in line.split()[0].split("-"))
            if first <= address < last:
                return "shared" if "/dev/shm/" in line else "own"
    return "not mapped"
'''
_ONE = 'input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]'
_PANEL = f"""\
backend: "python"
max_batch_size: 8
{_ONE}
output [ {{ name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
_IN_TURN = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.ask(request) for request in requests]

    def ask(self, request):
        given = {"inputs": request.inputs(), "requested_output_names": ["Y"]}
        asks = [pb_utils.InferenceRequest(model_name=m, **given) for m in ("first", "second")]
        answers = [ask.exec() for ask in asks]
        return pb_utils.InferenceResponse(answers[0].output_tensors())
"""
_AT_ONCE = """\
import asyncio

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        return [await self.ask(request) for request in requests]

    async def ask(self, request):
        given = {"inputs": request.inputs(), "requested_output_names": ["Y"]}
        asks = [pb_utils.InferenceRequest(model_name=m, **given) for m in ("first", "second")]
        answers = await asyncio.gather(*[ask.async_exec() for ask in asks])
        return pb_utils.InferenceResponse(answers[0].output_tensors())
"""
_STREAMED = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.collect(request) for request in requests]

    def collect(self, request):
        given = {"inputs": request.inputs(), "requested_output_names": ["count"]}
        ask = pb_utils.InferenceRequest(model_name="countdown", **given)
        parts = [answer.output_tensors() for answer in ask.exec(decoupled=True)]
        counts = np.concatenate([part[0].as_numpy() for part in parts if part])
        return pb_utils.InferenceResponse([pb_utils.Tensor("counts", counts)])
"""
_STREAMED_CONFIG = """\
backend: "python"
max_batch_size: 0
input [ { name: "start" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "counts" data_type: TYPE_INT32 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
#: Milliseconds that each of the two models takes that `panel` calls.
SLEEP_MS = 150
#: The number of requests that the experiment on errors sends at once.
TOGETHER = 4


def repository(models: Path) -> None:
    """Write what the reader's models need besides code: configs, and models that they call."""
    _put(models, "python_model", BACKEND_SLIDES)
    classifier(models)
    _put(models, "checked", _CHECKED)
    _put(models, "tally", CONFIG)
    for name in ("first", "second"):
        sleeper.add(models, name, "", ms=SLEEP_MS)
    _put(models, "panel", _PANEL, _AT_ONCE)
    _put(models, "in_turn", _PANEL, _IN_TURN)
    _put(models, "collected", _STREAMED_CONFIG, _STREAMED)
    home = paths.root() / "model_repository" / "countdown"
    shutil.copytree(home, models / "countdown", dirs_exist_ok=True)
    _put(models, "handover", _HANDOVER)
    (models / "handover/1/addresses.py").write_text(_ADDRESSES, "utf-8")
    _put(models, "ibuddha_chitchat_bls", PRODUCTION_GUIDE, _CHITCHAT)


def classifier(models: Path, name: str = "focus_python") -> Path:
    """Write lecture 2's network into a model folder: weights, its class, labels and a config.

    Args:
        models: the repository.
        name: the model's name.

    Returns:
        The model's folder, which lacks its model.py.
    """
    from workbook.zoo import nets

    home = models / name
    _put(models, name, CONFIG)
    shutil.copy(zoo.checkpoint("focus_cnn"), home / "1/weights.pth")
    source = inspect.getsource(nets.PhotoCNN)
    source = re.sub(r"\s*# type: ignore\S*", "", source)
    (home / "1/network.py").write_text(_NETWORK.format(network=source), "utf-8")
    (home / "labels.txt").write_text("blurred\nsharp\n", "utf-8")
    return home


def _put(models: Path, name: str, config: str, code: str = "") -> None:
    (models / name / "1").mkdir(parents=True, exist_ok=True)
    (models / name / "config.pbtxt").write_text(config, "utf-8")
    if code:
        (models / name / "1/model.py").write_text(code, "utf-8")


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


def add_method(home: Path) -> None:
    """Add the function `auto_complete_config` that the notebook shows to a model's code."""
    file = home / "1/model.py"
    file.write_text(f"{file.read_text('utf-8')}\n{AUTO}", "utf-8")


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
    """Return the network in this process, called as the model of `classifier` calls it."""
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
    said = {"no GPT": _chatted(server)}
    _gpt(server, "[ 13088 ]")
    said["logits of the last place"] = _chatted(server)
    said["the same, two rows"] = _chatted(server, rows=2)
    _gpt(server, "[ -1, 13088 ]")
    said["logits of all places"] = _chatted(server)
    server.unload("ibuddha_chitchat")
    return said, sum(not words.startswith(_ANSWERED) for words in said.values())


def _gpt(server: Triton, dims: str) -> None:
    """Load a model in the GPT's place, whose output has these dims."""
    _put(server.repository, "ibuddha_chitchat", _GPT_CONFIG.format(dims=dims), _GPT)
    server.load("ibuddha_chitchat")


def _chatted(server: Server, rows: int = 1) -> str:
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
        f"the requests did not share one execution: {sizes}",
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
