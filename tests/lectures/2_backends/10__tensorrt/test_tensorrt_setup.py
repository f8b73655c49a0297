"""What 10__tensorrt knows without a GPU: options, shapes, command lines, int8 files, profiles."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from workbook.common import paths
from workbook.lessons import units
from workbook.zoo import engines

setup = units.load(units.find("10__tensorrt"), "setup")

LINE = """\
trtexec --onnx=m.onnx --saveEngine=m.plan \\
  --minShapes=image:1x3x8x8 --optShapes=image:4x3x8x8 --maxShapes=image:16x3x8x8
"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with one convolution: image (n, 3, 8, 8) → logits."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 8, 8])
    out = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 2, 6, 6])
    weight = np.random.default_rng(0).normal(size=(2, 3, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["image", "w"], ["logits"], name="conv")
    graph = helper.make_graph([node], "one", [image], [out], [numpy_helper.from_array(weight, "w")])
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), tmp_path / "m.onnx")
    return tmp_path


def test_every_option_of_the_document_and_of_ours_is_explained() -> None:
    profile = engines.profile_of({"x": (1, 2)})
    line = " ".join(engines.trtexec_command(Path("a.onnx"), Path("a.plan"), profile))
    for command in (setup.COMMAND, line):
        table = setup.explain(command)
        assert "?" not in set(table["for"])
    assert setup.explain(setup.COMMAND).loc["--percentile", "value"] == "95"
    assert set(setup.GONE) <= set(setup.OPTIONS)
    assert setup.explain("trtexec --made-up=1").loc["--made-up", "in TensorRT 11"] == "?"


def test_a_right_command_line(models: Path) -> None:
    assert setup.inputs(models / "m.onnx") == {"image": (-1, 3, 8, 8)}
    assert setup.check(LINE, models) == ""
    assert setup.takes(LINE, "image", (16, 3, 8, 8))
    assert not setup.takes(LINE, "image", (17, 3, 8, 8))
    assert not setup.takes(LINE, "image", (3, 8, 8))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("--onnx", "--int8 --onnx", "TensorRT 11 has no --int8"),
        ("--onnx", "--onxn", "no option --onxn"),
        ("--saveEngine=m.plan", "", "--saveEngine is missing"),
        ("m.onnx", "n.onnx", "no file n.onnx"),
        ("image:4", "pixels:4", "has no shape in one of the three"),
        ("4x3x8x8", "4x3x8", "has 4 dimensions"),
        ("4x3x8x8", "4x3x9x8", "Dimension 2 of image is 8"),
        ("4x3x8x8", "32x3x8x8", "1, 32, 16 are not in order"),
        ("image:4x3x8x8", "4x3x8x8", "cannot be read"),
        ("4x3x8x8", "4xthreex8x8", "cannot be read"),
    ],
)
def test_a_wrong_command_line(models: Path, old: str, new: str, said: str) -> None:
    assert said in setup.check(LINE.replace(old, new, 1), models)


def test_comments_of_a_script_are_no_options(models: Path) -> None:
    assert setup.check(f"# NVIDIA's container, not --int8\n{LINE}", models) == ""


def test_only_the_last_correction_fits(models: Path) -> None:
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 64, 64])
    graph = helper.make_graph([], "empty", [image], [])
    onnx.save(helper.make_model(graph), models / "focus.onnx")
    wrong = [setup.check(line, models) for line in setup.commands().values()]
    assert [part in found for part, found in zip(("--int8", "image", "224"), wrong, strict=False)]
    assert wrong[-1] == ""
    assert all(wrong[:-1])


def test_a_profile_is_read_and_drawn(tmp_path: Path) -> None:
    assert str(setup.plot_profile(tmp_path)).startswith("No run is recorded")
    layers = [
        {"name": "conv1", "timeMs": 4.0, "averageMs": 0.04, "percentage": 20.0},
        {"name": "conv2", "timeMs": 16.0, "averageMs": 0.16, "percentage": 80.0},
    ]
    (tmp_path / "profile.json").write_text(json.dumps([{"count": 100}, *layers]))
    assert list(setup.profile(tmp_path / "profile.json").index) == ["conv2", "conv1"]
    assert "conv2" in setup.plot_profile(tmp_path).description  # type: ignore[union-attr]


def test_the_notebooks_program_has_the_names_of_ours() -> None:
    """tests/zoo/test_zoo_engines.py looks the names of our builder up in NVIDIA's bindings."""
    notebook = (paths.root() / "lectures/2_backends/10__tensorrt/lesson.py").read_text("utf-8")
    today = notebook.split("## The builder in Python")[1].split("```")[1]
    ours = (paths.root() / "workbook/zoo/engine_builder.py").read_text("utf-8")
    names = set(re.findall(r"(?:trt|builder|parser|profile|config)\.[\w.]+", today))
    assert len(names) > 8
    assert not [name for name in names if name not in ours]
