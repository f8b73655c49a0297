"""What 08__fil prints and compares."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd
import pytest

from workbook.lessons import units

setup = units.load(units.find("08__fil"), "setup")


def test_what_xgboost_warns_of_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(file: Path) -> None:
        warnings.warn("[06:24:18] WARNING: /x/c_api.cc:1573: Saving as UBJSON.", stacklevel=1)
        file.write_bytes(b"{L")

    setup.print_warnings(save, tmp_path / "model")
    assert capsys.readouterr().out == "Saving as UBJSON.\n"


def test_a_premise_says_what_differed() -> None:
    table = pd.DataFrame({"spread": [1.0, 60.3]})
    assert "60.3 times larger in one round than in the other" in setup.agreed(table).differs
