"""The files of networks that come with the course."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workbook.zoo import int8_file, llama, small_llama


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    written = {
        "table": random.normal(size=(50, 40)).astype(np.float32),
        "norm": random.normal(size=40).astype(np.float32),
    }
    int8_file.write(tmp_path / "net.npz", written, tokenizer="a tokenizer: ü", empty="")
    weights, texts = int8_file.read(tmp_path / "net.npz")
    assert texts == {"tokenizer": "a tokenizer: ü", "empty": ""}
    assert list(weights) == ["table", "norm"]
    assert {each.dtype for each in weights.values()} == {np.dtype(np.float32)}
    assert (weights["norm"] == written["norm"]).all()
    largest = np.abs(written["table"]).max(axis=1, keepdims=True)
    assert (np.abs(weights["table"] - written["table"]) <= largest / 253).all()


def test_a_row_of_zeros_stays_zero(tmp_path: Path) -> None:
    int8_file.write(tmp_path / "net.npz", {"table": np.zeros((2, 3), np.float32)})
    weights, _ = int8_file.read(tmp_path / "net.npz")
    assert (weights["table"] == 0).all()


@pytest.mark.parametrize(("module", "millions"), [(llama, 5.2), (small_llama, 0.9)])
def test_the_files_of_the_course(module: object, millions: float) -> None:
    weights, texts = int8_file.read(module.FILE)  # type: ignore[attr-defined]
    assert sum(each.size for each in weights.values()) == pytest.approx(millions * 1e6, rel=0.03)
    assert "tokenizer" in texts
