"""What 04__pytorch relies on: modules in files, a table of times."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch

from workbook.lessons import units

UNIT = units.find("04__pytorch")
setup = units.load(UNIT, "setup")


def test_the_modules_beside_the_notebook_can_be_scripted() -> None:
    gpt = runpy.run_path(str(UNIT / "models/ibuddha_chitchat/tiny_gpt.py"))["TinyGPT"]().eval()
    ids = torch.randint(2, 13088, (2, 5))
    given = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    with torch.inference_mode():
        assert torch.allclose(torch.jit.script(gpt)(*given), gpt(*given), atol=1e-5)
        net = runpy.run_path(str(UNIT / "models/focus_compiled/1/model.py"))["Photo"]().eval()
        assert torch.jit.script(net)(torch.zeros(2, 3, 64, 64)).shape == (2, 2)


def test_the_printed_program_makes_a_module_that_cannot_compute(tmp_path: Path) -> None:
    file = UNIT / "models/pytorch_model/simple_model.as_printed.py"
    made = runpy.run_path(str(file), run_name="simple_model")
    made["scripted_model"].save(tmp_path / "model.pt")
    with pytest.raises(Exception, match="forward"):
        torch.jit.load(tmp_path / "model.pt")(torch.zeros(2, 5))


def test_the_table_has_the_fastest_request_of_all_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    def processes(_server: Any) -> pd.DataFrame:
        return pd.DataFrame({"model": ["a", "a", ""], "memory_mb": [3.0, 4.0, 50.0]})

    monkeypatch.setattr(setup, "measure", SimpleNamespace(processes=processes))
    table = setup.table(None, {"a": 90.0}, {"a": [5.0, 4.0, 6.0, 4.4]})
    assert table.loc["a"].to_dict() == {
        "ms": 4.0,
        "first_ms": 90.0,
        "memory_mb": 7.0,
        "spread": 1.1,
    }
