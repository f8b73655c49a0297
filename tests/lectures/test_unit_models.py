"""The configs that lie beside the notebooks, in `models/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lectures.course import HOME, parse_config

CONFIGS = sorted(HOME.glob("*/*/models/*/config.pbtxt"))


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: f"{file.parts[-4]}-{file.parent.name}")
def test_a_config_says_what_its_model_is_for_and_the_server_reads_it(file: Path) -> None:
    text = file.read_text("utf-8")
    assert text.startswith("# ")
    config = parse_config(text)
    assert config.name in ("", file.parent.name)
    assert config.backend or config.platform


def test_a_printed_config_says_where_it_is_from() -> None:
    for file in HOME.glob("*/*/models/*/config.as_printed.pbtxt"):
        first = file.read_text("utf-8").partition("\n")[0]
        assert first.startswith("# "), file
        assert "slides" in first or "guide" in first or "page" in first, file
