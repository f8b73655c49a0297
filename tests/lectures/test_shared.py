"""What the notebooks of the framework backends share: printed configs, and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.lectures.course import parse_config
from workbook.common.errors import LoadError, WorkbookError
from workbook.lessons.shared import documented, sleeper, variants

PRINTED = """\
name: "m"
platform: "onnxruntime_onnx"
input [
   name: "x"
   data_type: TYPE_FP32
   dims: [5]
instance_group [
    kind: KIND_GPU
"""


class Server:
    """A server that loads a model if `accepts` returns true."""

    def __init__(self, repository: Path, accepts: Any) -> None:
        self.repository, self.accepts = repository, accepts

    def load(self, model: str) -> None:
        text = (self.repository / model / "config.pbtxt").read_text()
        if not self.accepts(text):
            raise LoadError("It did not load.", model=model, message="no such thing", todo="Mend.")


def test_braces_make_a_printed_config_whole() -> None:
    config = parse_config(documented.braces(PRINTED))
    assert list(config.input[0].dims) == [5]
    assert "KIND_GPU" in str(config.instance_group[0])
    assert documented.braces(documented.braces(PRINTED)) == documented.braces(PRINTED)


def test_each_step_is_tried_on_top_of_the_one_before(tmp_path: Path) -> None:
    server: Any = Server(tmp_path, lambda text: "KIND_CPU" in text)
    steps = {"with braces": documented.braces, "on the CPU": documented.on_cpu}
    printed = tmp_path / "config.as_printed.pbtxt"
    printed.write_text(PRINTED)
    corrected = documented.correct(server, "m", printed, steps)
    assert corrected.refused == [documented.PRINTED, "with braces"]
    assert (corrected.words("with braces"), corrected.words("on the CPU")) == ("no such thing", "")
    assert "✓ on the CPU: The server loads it." in str(corrected)
    assert "✗ with braces: It did not load." in str(corrected)
    assert "KIND_CPU\n} ]" in (tmp_path / "m/config.pbtxt").read_text()


def test_on_the_cpu_there_is_no_list_of_gpus() -> None:
    assert documented.on_cpu("count: 1 kind: KIND_GPU gpus: [ 0 ]") == "count: 1 kind: KIND_CPU"
    with pytest.raises(WorkbookError, match="does not have 'KIND_GPU'"):
        documented.on_cpu("kind: KIND_CPU")


def test_a_variant_has_the_files_and_one_more_line(tmp_path: Path) -> None:
    (tmp_path / "m/1").mkdir(parents=True)
    (tmp_path / "m/1/model.onnx").write_bytes(b"weights")
    line = 'parameters {{ key: "threads" value: {{ string_value: "{}" }} }}'
    (tmp_path / "m/config.pbtxt").write_text(f"{line.format(1)}\n")
    names = variants.add(tmp_path, "m", {"as it is": "", "two": line.format(2)})
    assert names == {"as it is": "m_0", "two": "m_1"}
    assert (tmp_path / "m_1/1/model.onnx").read_bytes() == b"weights"
    config = parse_config((tmp_path / "m_1/config.pbtxt").read_text())
    assert config.parameters["threads"].string_value == "2"


def test_turns_that_differ_are_no_result() -> None:
    table = pd.DataFrame({"ms": [1.0, 2.0], "spread": [1.1, 1.7]}, index=["a", "b"])
    assert not variants.repeated(table)
    assert variants.repeated(table.loc[["a"]])


def test_settings_are_told_apart_by_more_than_their_own_spread() -> None:
    table = pd.DataFrame({"ms": [1.3, 1.0, 9.0], "spread": [1.1, 1.05, 1.4]}, index=list("abc"))
    assert variants.apart(table, "a", "b", 1.1)
    assert not variants.apart(table, "a", "b", 1.2)
    assert variants.apart(table, "b", "a", 1.1)
    table.loc["b", "spread"] = 1.5
    assert not variants.apart(table, "a", "b", 1.1)


def test_executions_that_take_long_are_no_sleep() -> None:
    places = pd.DataFrame({"start_ms": [0.0, 21.0], "end_ms": [21.0, 43.0]})
    assert sleeper.slept(places)
    places["end_ms"] += 15
    assert not sleeper.slept(places)
