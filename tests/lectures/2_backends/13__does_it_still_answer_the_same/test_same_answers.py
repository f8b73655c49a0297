"""What 13__does_it_still_answer_the_same computes: thresholds, differences, missing formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from workbook.common.errors import WorkbookError
from workbook.lessons import formats, units

setup = units.load(units.find("13__does_it_still_answer_the_same"), "setup")


EXACT = np.array([-2, -0.1, 0.1, 0.3, 2], np.float32)


def test_a_shift_is_undone_by_a_threshold() -> None:
    shifted = np.array([-2.5, -0.6, -0.4, -0.2, 1.5], np.float32)
    threshold, left = setup.best_threshold(shifted, EXACT)
    assert (pytest.approx(threshold), left) == (-0.5, 0)
    assert setup.changes_by_threshold(shifted, EXACT, np.array([threshold, 0.0])).tolist() == [0, 2]


def test_another_order_is_not() -> None:
    swapped = np.array([-2, 0.2, -0.2, 0.3, 2], np.float32)
    assert setup.best_threshold(swapped, EXACT)[1] == 1
    assert setup.changes_by_threshold(swapped, EXACT, np.array([-3.0, 0.0])).tolist() == [2, 2]


def test_no_threshold_is_better_than_that_of_the_original() -> None:
    assert setup.best_threshold(EXACT, EXACT) == (0.0, 0)


def test_figures_say_how_many_verdicts_changed() -> None:
    found = {"focus_static": np.array([-2, 0.2, 0.1, 0.3, 2.5], np.float32)}
    assert "focus_static: 1 changed" in setup.plot_differences(found, EXACT).description
    assert "focus_static 1" in setup.plot_thresholds(found, EXACT).description


def test_missing_formats_are_named_with_their_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(name: str, backend: str) -> formats.Row:
        return formats.Row(name, backend, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1)

    measured = [row("ONNX fp16", "onnxruntime"), row("TorchScript", "pytorch")]
    monkeypatch.setattr(formats, "rows", lambda: measured)
    assert setup.missing() == (
        "Not measured here yet: 02__python, 05__onnxruntime, 06__openvino, 07__tensorflow."
    )
    measured += [row(name, name) for name in setup.ELSEWHERE]
    assert setup.missing() == "All formats were measured."


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkbookError, match=r"focus\.onnx is not there"):
        formats.in_process(tmp_path / "focus.onnx")


def test_bf16_is_written_into_a_copy() -> None:
    weight = numpy_helper.from_array(np.float32([[1.001]]), "w")
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1]) for name in "xy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "one", tensors[:1], tensors[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made = setup.onnx_in_bf16(model)
    assert made.graph.initializer[0].data_type == TensorProto.BFLOAT16
    assert made.graph.input[0].type.tensor_type.elem_type == TensorProto.BFLOAT16
    onnx.checker.check_model(made)
    assert model.graph.initializer[0].data_type == TensorProto.FLOAT
