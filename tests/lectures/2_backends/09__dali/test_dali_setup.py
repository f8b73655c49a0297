"""What 09__dali prepares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from workbook.lessons import formats, units
from workbook.zoo import nets

setup = units.load(units.find("09__dali"), "setup")


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> nets.PhotoCNN:
    """An untrained network in place of the lecture's, whose training takes minutes."""
    torch.manual_seed(0)
    made = nets.PhotoCNN().eval()
    monkeypatch.setattr(formats, "network", lambda: made)
    return made


def test_files_are_named_after_what_they_show(network: nets.PhotoCNN, tmp_path: Path) -> None:
    setup.prepare(tmp_path)
    files = sorted((tmp_path / "jpegs").iterdir())
    assert [file.read_bytes() for file in sorted(files, key=lambda f: f.stem[-3:])] == [
        *formats.files()
    ]
    assert {file.stem[:-4] for file in files} == {"sharp", "blurred"}
    assert len([*(tmp_path / "training").iterdir()]) == setup.EXAMPLES


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_only_the_last_layer_is_trained_anew(network: nets.PhotoCNN, tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    pixels = np.random.default_rng(0).random((8, 3, 64, 64), np.float32)
    for number in range(8):
        kind = "sharp" if number % 2 else "blurred"
        (tmp_path / "training" / f"{kind}_{number:03}.jpg").touch()
    setup.retrain(tmp_path, pixels)
    anew = torch.jit.load(str(tmp_path / "focus_anew/1/model.pt")).state_dict()
    same = {name: torch.equal(old, anew[name]) for name, old in network.state_dict().items()}
    assert [name for name in same if not same[name]] == ["head.weight", "head.bias"]
    assert (tmp_path / "focus_anew/config.pbtxt").is_file()
