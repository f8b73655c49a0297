"""2/10: real engines of the small network, the picture of what was fused, trtexec's options."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from workbook.backends.tensorrt.record import Record
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons import units
from workbook.zoo import engines

setup = units.load(units.find("10__tensorrt"), "setup")
HOME = paths.root() / "lectures/2_backends/10__tensorrt"

LINE = """\
trtexec --onnx=m.onnx --saveEngine=m.plan \\
  --minShapes=image:1x3x8x8 --optShapes=image:4x3x8x8 --maxShapes=image:16x3x8x8
"""
PROFILE = {"image": ((1, 3, 8, 8), (4, 3, 8, 8), (16, 3, 8, 8))}


def network(file: Path, side: int = 8) -> Path:
    """Write a convolution with its ReLU: image (n, 3, side, side) → logits."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, side, side])
    out = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 2, side - 2, side - 2])
    weight = np.random.default_rng(0).normal(size=(2, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["logits"], name="relu"),
    ]
    graph = helper.make_graph(nodes, "one", [image], [out], [numpy_helper.from_array(weight, "w")])
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), file)
    return file


def test_every_option_of_the_document_and_of_ours_is_explained() -> None:
    profile = engines.profile_of({"x": (1, 2)})
    line = " ".join(engines.trtexec_command(Path("a.onnx"), Path("a.plan"), profile))
    for command in (setup.COMMAND, line):
        table = setup.explain(command)
        assert "?" not in set(table["for"])
    assert setup.explain(setup.COMMAND).loc["--percentile", "value"] == "95"
    assert set(setup.GONE) <= set(setup.OPTIONS)
    assert setup.explain("trtexec --made-up=1").loc["--made-up", "in TensorRT 11"] == "?"


def test_the_profile_of_a_command_line() -> None:
    assert setup.profile(LINE) == PROFILE
    assert setup.profile(f"# NVIDIA's container, not --int8\n{LINE}") == PROFILE


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("--minShapes=image:1x3x8x8", "", "--minShapes is missing"),
        ("image:4x3x8x8", "pixels:4x3x8x8", "different inputs"),
        ("image:4x3x8x8", "4x3x8x8", "has no colon"),
        ("4x3x8x8", "4xthreex8x8", "three"),
    ],
)
def test_a_wrong_command_line(old: str, new: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        setup.profile(LINE.replace(old, new, 1))


@pytest.mark.server  # it builds in a process of its own
def test_the_shapes_of_the_script_build_an_engine(tmp_path: Path) -> None:
    network(tmp_path / "focus.onnx", side=64)
    assert setup.builds(tmp_path)
    network(tmp_path / "focus.onnx", side=32)
    assert not setup.builds(tmp_path)


@pytest.mark.server  # it builds in a process of its own
def test_the_engine_that_triton_checks(tmp_path: Path) -> None:
    network(tmp_path / "focus.onnx", side=64)
    setup.engine(tmp_path)
    found = Record.beside(tmp_path / "focus_tensorrt/1/model.plan")
    assert found is not None
    assert found.largest_batch == setup.BATCHES[-1]


@pytest.mark.server  # it builds in a process of its own
def test_the_picture_shows_what_a_real_engine_fused(tmp_path: Path) -> None:
    file = network(tmp_path / "m.onnx")
    built = engines.build(file, tmp_path / "m.plan", PROFILE)
    assert built.record is not None
    layers = [(layer.kind, layer.onnx) for layer in built.record.layers]
    assert setup.kinds(file, layers) == [("Conv", "Relu")]
    picture = setup.draw(file, layers).data
    assert picture.count("<rect") == 3  # two nodes, one layer
    assert "conv, relu" in picture
    assert setup.draw(file, [("<b>", ["conv"])]).data.count("&lt;b&gt;") == 2


@pytest.mark.server  # it builds in a process of its own
def test_the_program_for_work_builds_a_plan_and_its_config(tmp_path: Path) -> None:
    file = network(tmp_path / "m.onnx")
    command = [sys.executable, HOME / "at_work/build_engine.py", file, tmp_path / "engine"]
    subprocess.run([*command, "1", "4", "16"], check=True)
    assert (tmp_path / "engine/1/model.plan").read_bytes()[:4] == b"vtrt"
    text = (tmp_path / "engine/config.pbtxt").read_text()
    assert "max_batch_size: 16" in text
    assert 'name: "image" data_type: TYPE_FP32 dims: [3, 8, 8]' in text
    wrong = subprocess.run([*command, "16", "4", "1"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "not in order" in wrong.stderr


def test_the_notebooks_program_has_the_names_of_ours() -> None:
    """tests/zoo/test_zoo_engines.py looks the names of our builder up in NVIDIA's bindings."""
    notebook = (HOME / "lesson.py").read_text("utf-8")
    today = notebook.split("## The builder")[1].split("## Fusion")[0]
    ours = (paths.root() / "workbook/zoo/engine_builder.py").read_text("utf-8")
    names = set(re.findall(r"(?:trt|builder|parser|profile|config)\.[A-Za-z_.]+", today))
    assert len(names) > 8
    assert not [name for name in names if name not in ours and name != "trt.Builder"]


def test_without_tensorrt_the_first_cell_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WorkbookError, match="not installed") as error:
        setup.prepare(tmp_path)
    assert "operators.md" in str(error.value)
