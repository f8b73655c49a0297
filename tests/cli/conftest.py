"""These tests say what happens where no server runs, so none may answer on the default port."""

from __future__ import annotations

import pytest

from workbook.server import Server


@pytest.fixture(autouse=True, scope="session")
def nothing_on_the_default_port() -> None:
    """Say what is in the way, in place of a dozen puzzling failures."""
    if Server().live():
        pytest.fail("A server answers on port 8000: stop it (`workbook stop`), then test again.")
