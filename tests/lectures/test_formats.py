"""Lecture 2's classifier, its table, and mistakes that are made on purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from workbook.common.errors import WorkbookError
from workbook.lessons import formats, laboratory, mistakes
from workbook.server import Triton

CONFIG = """\
platform: "pytorch_libtorch"
max_batch_size: 16
input [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] } ]
output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU } ]
parameters { key: "INTRA_OP_THREAD_COUNT" value: { string_value: "1" } }
"""
ROW = formats.Row("ONNX", "onnxruntime", 1.0, 0.2, 30.0, 100.0, 300.0, 400.0, 2.5, 1e-6, 0, 1.1)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server with the network as TorchScript."""
    models = tmp_path_factory.mktemp("formats")
    (models / "focus_torch/1").mkdir(parents=True)
    formats.save_torchscript(models / "focus_torch/1/model.pt")
    (models / "focus_torch/config.pbtxt").write_text(CONFIG)
    server = laboratory(models)
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of the table, in a folder of the test's own."""
    file = tmp_path / "formats.json"
    monkeypatch.setattr(formats, "_file", lambda: file)
    return file


@pytest.mark.server
def test_a_format_is_measured_and_kept(lab: Triton) -> None:
    network = formats.network()

    def in_process(batch: formats.Array) -> formats.Array:
        with torch.inference_mode():
            found: formats.Array = network(torch.from_numpy(batch)).numpy()
        return found

    row = formats.add(lab, "focus_torch", "TorchScript", in_process)
    assert formats.rows() == [row]
    assert row.backend == "pytorch"
    assert 0.7 < row.size_mb < 0.9  # 190,000 weights of 4 bytes
    assert row.memory_mb > 20
    assert row.load_s > 0
    assert (row.difference, row.changed) == (pytest.approx(0, abs=1e-4), 0)
    assert min(row.at_1, row.at_8, row.in_process, row.ratio) > 0
    assert 0.2 < row.busy < 1.1
    (line,) = formats.table().reset_index().to_dict("records")
    assert line["format"] == "TorchScript"
    assert line["verdicts changed"] == 0


@pytest.mark.server
def test_another_networks_answers_are_not_measured(lab: Triton) -> None:
    with pytest.raises(WorkbookError, match="differ by"):
        formats.add(lab, "focus_torch", "wrong", lambda batch: np.full((len(batch), 2), 9.0))
    assert formats.rows() == []


def test_rows_keep_their_place_when_they_are_measured_anew() -> None:
    other = dataclasses.replace(ROW, format="OpenVINO")
    for row in (ROW, other, dataclasses.replace(ROW, changed=3)):
        formats._keep(row)
    assert [(row.format, row.changed) for row in formats.rows()] == [("ONNX", 3), ("OpenVINO", 0)]
    assert list(formats.table().index) == ["ONNX", "OpenVINO"]


def test_rows_of_another_version_are_left_out(kept: Path) -> None:
    kept.write_text('[{"format": "ONNX", "speed": 3}]')
    assert formats.rows() == []
    assert formats.table().empty


@pytest.mark.server
def test_one_measurement_is_not_enough(lab: Triton) -> None:
    with pytest.raises(ValueError, match="spread"):
        formats.add(lab, "focus_torch", "TorchScript", formats.network(), rounds=1)


def test_formats_are_compared_where_two_measurements_agree() -> None:
    assert formats.explained() == ""
    formats._keep(dataclasses.replace(ROW, format="fast", at_8=390.0))
    assert formats.explained() == (
        "The server reaches at least 80% of the in-process speed with: fast."
    )
    formats._keep(dataclasses.replace(ROW, format="disturbed", spread=2.3))
    said = formats.explained()
    assert "with: fast." in said
    assert "This run does not show it" in said
    assert "disturbed (2.3)" in said
    formats._keep(dataclasses.replace(ROW, format="slow"))
    assert "slow: 75% ≈ 75% × 2.50 / 2.50" in formats.explained()
    formats._keep(dataclasses.replace(ROW, format="fast", at_8=1200.0))
    assert "other programs must have disturbed it: fast." in formats.explained()
    assert "at least 80%" not in formats.explained()


def test_a_row_says_how_fast_it_is_beside_the_framework_in_process() -> None:
    assert ROW.ratio == 0.75
    assert ROW.busy == 0.75
    assert ROW.served.startswith("The server reaches 75% of the in-process speed.")
    slow = dataclasses.replace(ROW, infer_ms=3.0)
    assert "computed in 90% of the time" in slow.served
    assert "3.00 ms per picture, and in-process 2.50 ms" in slow.served
    assert dataclasses.replace(ROW, infer_ms=4.0).busy == 1
    assert "Do not compare" in dataclasses.replace(ROW, in_process=200.0).served


def test_a_row_that_was_not_repeated_replaces_none_that_was() -> None:
    disturbed = dataclasses.replace(ROW, at_8=100.0, spread=2.0)
    formats._keep(disturbed)
    assert list(formats.table()["repeated"]) == ["no"]
    for row in (ROW, disturbed):
        formats._keep(row)
    assert formats.rows() == [ROW]
    assert list(formats.table()["repeated"]) == ["yes"]


@pytest.mark.server  # builds the network where it is not there
def test_verdicts_that_change() -> None:
    reference = formats.reference()
    assert formats.changed(reference) == 0
    assert formats.changed(reference[:, ::-1]) == len(reference)
    shift = np.zeros_like(reference)
    shift[:, 1] = 0.3
    assert formats.changed(reference + shift) > 0
    assert formats.changed(reference + shift, threshold=0.3) <= 1  # rounding, at the very edge


@pytest.mark.server
def test_mistakes_are_made_in_a_copy_and_explained(lab: Triton) -> None:
    made = mistakes.provoke(
        lab,
        "focus_torch",
        {
            "a field": mistakes.config("max_batch_size", "max_batchsize"),
            "no weights": lambda home: (home / "1/model.pt").unlink(),
            "none": lambda home: None,
        },
    )
    assert set(made.refused) == {"a field", "no weights"}
    assert made.loaded == ("none",)
    shown = str(made)
    assert "`max_batch_size` → `max_batchsize`" in shown
    assert "1/model.pt is missing" in shown
    assert not (lab.repository / mistakes.NAME).exists()
    assert lab.ready("focus_torch")


@pytest.mark.server
def test_a_mistake_that_cannot_be_made_is_an_error(lab: Triton) -> None:
    with pytest.raises(WorkbookError, match="does not have 'nonesuch'"):
        mistakes.provoke(lab, "focus_torch", {"x": mistakes.config("nonesuch", "y")})
    assert not (lab.repository / mistakes.NAME).exists()


@pytest.mark.server
def test_what_cells_above_write_or_load_is_named(lab: Triton) -> None:
    with pytest.raises(WorkbookError, match="nonesuch is not there") as caught:
        mistakes.provoke(lab, "nonesuch", {"x": lambda home: None})
    assert caught.value.todo == mistakes.ABOVE
    with pytest.raises(WorkbookError, match="nonesuch is not loaded") as caught:
        formats.served_logits(lab, "nonesuch")
    assert caught.value.todo == mistakes.ABOVE


@pytest.mark.server
def test_a_refused_request_is_explained(lab: Triton) -> None:
    ones = np.ones((1, 3, 64, 64), np.float32)
    assert 'no input "X"' in mistakes.explain_refusal(lab, "focus_torch", X=ones)
    assert mistakes.explain_refusal(lab, "focus_torch", INPUT__0=ones) == ""
