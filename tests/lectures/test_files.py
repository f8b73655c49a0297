"""Files of a notebook's folder: shown with colours, and copied into a repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython import display

from workbook.lessons import place, show

CONFIG = 'backend: "python"  # <ours>\nmax_batch_size: 8'


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(display, "display", lambda bundle, raw: found.append(bundle))
    return found


def test_a_file_is_shown_below_its_path(tmp_path: Path, shown: list[dict[str, Any]]) -> None:
    file = tmp_path / "config.pbtxt"
    file.write_text(CONFIG + "\n")
    show(file)
    assert shown[0]["text/plain"] == f"{file}\n\n{CONFIG}"
    html = shown[0]["text/html"]
    assert "&lt;ours&gt;" in html
    assert '<span style="color:var(--jp-mirror-editor-number-color, #008800)">8</span>' in html


def test_a_file_of_an_unknown_kind_is_shown_as_it_is(
    tmp_path: Path, shown: list[dict[str, Any]]
) -> None:
    file = tmp_path / "labels.unknown"
    file.write_text("a<b\n")
    show(file)
    assert "a&lt;b</pre>" in shown[0]["text/html"]


def test_a_folder_is_copied_over_what_is_there(tmp_path: Path) -> None:
    source, models = tmp_path / "models/crowd", tmp_path / "repository"
    (source / "1/__pycache__").mkdir(parents=True)
    (source / "1/model.py").write_text("new")
    (models / "crowd/1").mkdir(parents=True)
    (models / "crowd/1/model.py").write_text("old")
    (models / "crowd/labels.txt").write_text("kept")
    place(models, source)
    assert (models / "crowd/1/model.py").read_text() == "new"
    assert (models / "crowd/labels.txt").exists()
    assert not (models / "crowd/1/__pycache__").exists()


def test_a_model_without_a_version_folder_gets_one(tmp_path: Path) -> None:
    """As an ensemble: its version folder is empty, and git keeps no empty folders."""
    source = tmp_path / "models/chain"
    source.mkdir(parents=True)
    (source / "config.pbtxt").write_text("")
    for _ in range(2):
        place(tmp_path, source)
    assert (tmp_path / "chain/1").is_dir()


def test_a_model_gets_another_name(tmp_path: Path) -> None:
    (tmp_path / "here/m/1").mkdir(parents=True)
    place(tmp_path, tmp_path / "here/m", name="calm")
    assert (tmp_path / "calm/1").is_dir()
    assert not (tmp_path / "m").exists()
