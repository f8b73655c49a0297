"""What the notebooks on Python models, their environments and the map of backends stand on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from workbook.common import paths
from workbook.lessons.setups import environments, python_models

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
    assert python_models.rewrite("torch", "troch")(tmp_path) == "In place of `torch`: `troch`"
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


def test_another_python_is_not_this_one() -> None:
    other = environments.other_python()
    if other is None:
        pytest.skip("this machine has one Python only")
    assert other.version != f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert other.library.is_file()
