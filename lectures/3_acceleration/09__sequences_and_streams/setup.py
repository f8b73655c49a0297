"""For 09__sequences_and_streams: a network with a state, and premises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from workbook.lessons import files
from workbook.lessons.premises import Premise, halves_agree
from workbook.server import Triton

#: Numbers in the state of `carried` and `kept`.
SIZE = 1_000_000
HERE = Path(__file__).parent / "models"


def prepare(models: Path) -> None:
    """Write the network of `carried` and `kept`; make `small`, which carries one number."""
    for name in ("carried", "kept"):
        _network(models / name, SIZE)
    config = (models / "carried/config.pbtxt").read_text("utf-8")
    _network(models / "small", 1)
    (models / "small/config.pbtxt").write_text(config.replace(str(SIZE), "1"), "utf-8")


def yours(models: Path) -> None:
    """Make the task's model: a network with a state of one number, and the reader's config."""
    files.place(models, HERE / "yours")
    _network(models / "yours", 1)


def _network(folder: Path, size: int) -> None:
    """Write version 1: after = 0.9 × before + 0.1 × frame; brightness, the mean of after."""
    from onnx import TensorProto, helper, numpy_helper, save

    def value(name: str, width: int) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])

    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["before", "keep"], ["old"]),
            helper.make_node("Mul", ["frame", "take"], ["new"]),
            helper.make_node("Add", ["old", "new"], ["after"]),
            helper.make_node("ReduceMean", ["after", "axes"], ["brightness"], keepdims=1),
        ],
        "smooth",
        [value("frame", 1), value("before", size)],
        [value("brightness", 1), value("after", size)],
        [
            numpy_helper.from_array(np.array(0.9, np.float32), "keep"),
            numpy_helper.from_array(np.array(0.1, np.float32), "take"),
            numpy_helper.from_array(np.array([1], np.int64), "axes"),
        ],
    )
    (folder / "1").mkdir(parents=True, exist_ok=True)
    opset = [helper.make_opsetid("", 18)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "1/model.onnx")


def calm(times: Mapping[str, Sequence[float]]) -> Premise:
    """Premise: in both halves of the requests, the medians are about the same."""
    return halves_agree(times["carried"]) & halves_agree(times["kept"])


def loaded(server: Triton) -> Premise:
    """Premise: the model is there again after the load."""
    return Premise(server.ready("kept"), "the model kept was not loaded again")


def forty(came: Mapping[str, Sequence[float]]) -> Premise:
    """Premise: the work took about its 40 × 5 ms in both models."""
    longest = max(each[-1] for each in came.values())
    return Premise(longest < 500, f"40 parts of 5 ms took {longest:.0f} ms")
