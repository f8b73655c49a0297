"""What 12__ensembles prepares: padded and packed texts, requests, and reports of throughput."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from workbook import measure
from workbook.lessons import units

setup = units.load(units.find("12__ensembles"), "setup")

IDS = [np.array(own, np.int64) for own in ([2, 9, 3], [2, 3], [2, 7, 8, 3])]


def test_padded_and_packed_hold_the_same_tokens() -> None:
    padded, packed = setup.padded(IDS, 5), setup.packed(IDS)
    assert padded["input_ids"].tolist() == [[2, 9, 3, 0, 0], [2, 3, 0, 0, 0], [2, 7, 8, 3, 0]]
    kept = padded["input_ids"][padded["attention_mask"] == 1]
    assert kept.tolist() == packed["input_ids"].tolist()
    assert packed["ends"].tolist() == [3, 5, 9]
    assert packed["ends"].dtype == np.int32


def test_the_better_of_two_reports_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {"language": [300.0, 200.0], "language_bls": [100.0, 160.0]}

    def read(*files: Path) -> pd.DataFrame:
        return pd.DataFrame({"throughput": rates.get(files[0].name.split(".")[0], [150.0, 150.0])})

    monkeypatch.setattr(measure, "read_reports", read)
    speeds = setup.read_speeds(Path())
    assert speeds["texts per s"].tolist() == [300, 160, 150, 150]
    assert speeds["spread"].tolist() == [1.5, 1.6, 1, 1]
    assert speeds.loc["BLS, one by one"].tolist() == [160, 1.6, 3, 1.25]
    assert setup.repeated(speeds)
    rates["language_bls"] = [100.0, 199.0]
    assert not setup.repeated(setup.read_speeds(Path()))


def test_texts_are_of_all_languages_and_not_blank() -> None:
    texts = setup.texts(32)
    assert len(set(texts)) == 32
    assert all(text.strip() and "\n" not in text for text in texts)
    assert setup.as_text(texts).shape == (32, 1)
    assert [r.id for r in setup.plan(texts[:2], name="b")] == ["b1", "b2"]
