"""Modules in the notebooks' folders have the same names, and are not mixed up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from workbook.lessons import units, write


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two folders whose `task.py` imports their own `setup.py`."""
    for name in ("01__a", "02__b"):
        write(tmp_path / name / "setup.py", f"NAME = {name!r}")
        write(tmp_path / name / "task.py", "import setup\nNAME = setup.NAME")
    return [tmp_path / "01__a", tmp_path / "02__b"]


def test_each_folder_has_its_own_modules(folders: list[Path]) -> None:
    for folder in [*folders, *folders]:
        task, setup = units.load(folder, "task"), units.load(folder, "setup")
        assert task.NAME == setup.NAME == folder.name
        assert task.setup is setup
    assert {"setup", "task"}.isdisjoint(sys.modules)
    assert not {str(folder) for folder in folders} & set(sys.path)


def test_in_its_own_folder_a_module_is_imported_once(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a kernel: the notebook and its task have the same `setup`."""
    monkeypatch.chdir(folders[0])
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    import setup  # type: ignore[import-not-found]

    try:
        assert units.load(folders[0], "task").setup is setup
        assert units.load(folders[1], "task").NAME == "02__b"
        assert sys.modules["setup"] is setup
    finally:
        for name in ("setup", "task"):
            sys.modules.pop(name, None)


def test_every_folder_s_modules_can_be_imported() -> None:
    for folder in units.folders():
        assert folder == units.find(folder.name)
        for file in folder.glob("*.py"):
            if file.name not in ("lesson.py", "solution.py"):
                assert Path(str(units.load(folder, file.stem).__file__)) == file
