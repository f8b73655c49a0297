"""What the notebooks on Python models, their environments and the map of backends stand on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from workbook.common import paths
from workbook.lessons.setups import (
    environments,
    map_of_backends,
    onnxruntime,
    openvino,
    python_models,
    pytorch,
    tensorflow,
)
from workbook.lessons.tasks import python as own

LECTURE = paths.root() / "lectures/2_backends/02__python.py"


def test_the_notebook_shows_the_function_that_is_added() -> None:
    text = LECTURE.read_text("utf-8")
    shown = text.partition("```python\n")[2].partition("# ```")[0]
    lines = [line.removeprefix("#").removeprefix(" ") for line in shown.splitlines()]
    assert "\n".join(lines).strip() == python_models.AUTO.strip()


def test_a_function_is_added_to_a_model(tmp_path: Path) -> None:
    (tmp_path / "a/1").mkdir(parents=True)
    (tmp_path / "a/1/model.py").write_text("class TritonPythonModel:\n    pass\n")
    home = python_models.without_config(tmp_path, "a", "b")
    python_models.add_method(home)
    names: dict[str, object] = {}
    exec((home / "1/model.py").read_text(), names)
    assert "auto_complete_config" in vars(names["TritonPythonModel"])


def test_a_mistake_in_the_code_names_what_was_changed(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1/model.py").write_text("import torch\n")
    assert python_models.rewrite("torch", "troch")(tmp_path) == "`torch` → `troch`"
    assert (tmp_path / "1/model.py").read_text() == "import troch\n"
    with pytest.raises(Exception, match="has no 'torch'"):
        python_models.rewrite("torch", "x")(tmp_path)


def test_each_stub_is_linked_with_its_python() -> None:
    stubs = environments.stubs()
    assert environments.OWN in stubs
    for version, stub in stubs.items():
        assert environments.libpython(stub).startswith(f"libpython{version}.so")


def test_the_documents_script_removes_its_archive(tmp_path: Path) -> None:
    assert environments.run_script(tmp_path / "models") == []


@pytest.mark.server
def test_another_python_is_not_this_one() -> None:
    other = environments.other_python()
    if other is None:
        pytest.skip("this machine has one Python only")
    assert other.version != f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert other.library.is_file()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("verdict", own.add),
        ("strict", environments.strict),
        ("scaled", pytorch.scaled),
        ("frozen", onnxruntime.frozen),
        ("lone", lambda models: openvino.lone(models, "focus_openvino")),
        ("unsure", lambda models: tensorflow.two_signatures(models, lambda image: image)),
        ("ir", map_of_backends.borrowed),
    ],
)
def test_a_task_that_is_begun_anew_keeps_the_readers_work(
    name: str, make: Callable[[Path], Any], tmp_path: Path
) -> None:
    for folder in (name, "trees"):  # the map's task has two models
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.pbtxt").write_text("mine")
    make(tmp_path)
    assert [path.name for path in (tmp_path / name).iterdir()] == ["config.pbtxt"]
    assert (tmp_path / name / "config.pbtxt").read_text() == "mine"


@pytest.mark.server
def test_shared_memory_is_known_by_its_address() -> None:
    names: dict[str, Any] = {}
    exec(python_models._ADDRESSES, names)
    own_array = np.zeros(8, np.float32)
    shared = SharedMemory(create=True, size=4096)
    try:
        tensor = torch.frombuffer(shared.buf, dtype=torch.float32)
        assert names["memory"](own_array, tensor).tolist() == ["own", "shared"]
        assert names["first_numbers"]([(own_array, tensor)]).tolist() == [[0, 0]]
        del tensor
    finally:
        shared.close()
        shared.unlink()


def test_what_was_not_tried_is_not_said_to_hold(shown: list[Any]) -> None:
    lacking = environments.Second("3.12", "", None, "pip did not install what it needs")
    assert not lacking.as_expected
    lacking.show("environments.other")
    assert str(shown[-1]).startswith("○ Not tried: pip did not install what it needs. The commands")


def test_a_trace_comes_with_its_warning() -> None:
    class Branch(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if bool(x.max() > 1) else x

    trace, warning = pytorch.traced(Branch(), torch.zeros(2))
    assert trace(torch.full((2,), 5.0)).tolist() == [5, 5]
    assert "might not generalize" in warning
