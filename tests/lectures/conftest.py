"""Shared by tests of lectures: a display that records what was shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workbook import lessons
from workbook.lessons import cards, words


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What is displayed; with a home of its own, and a reader in front of it."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    monkeypatch.delenv(lessons.UNATTENDED, raising=False)
    things: list[Any] = []

    class Handle:
        """A display: what replaces its content is displayed, too."""

        def update(self, what: Any) -> None:
            things.append(what)

    def show(what: Any, **about: str) -> Handle:
        things.append(what)
        return Handle()

    monkeypatch.setattr(cards, "show", show)
    monkeypatch.setattr(cards, "show_widget", lambda widget, lines, **about: things.append(widget))
    monkeypatch.setattr(words, "_questions", {})
    monkeypatch.setattr(words, "_read", {})
    return things
