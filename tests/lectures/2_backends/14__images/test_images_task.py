"""What the task of 14__images reads: a command of compose.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbook.lessons import units
from workbook.lessons.tasks import NotYet

task = units.load(units.find("14__images"), "task")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--enable-gpu", "does not know the option --enable-gpu"),
        ("now", "would not take the word now"),
        ("--backend", "would not take the command: argument --backend"),
    ],
)
def test_an_option_of_compose_that_is_not_known(tmp_path: Path, more: str, said: str) -> None:
    (tmp_path / "compose.sh").write_text(f"python3 compose.py --cache local {more}")
    with pytest.raises(NotYet, match=said):
        task._parsed(tmp_path / "compose.sh")
