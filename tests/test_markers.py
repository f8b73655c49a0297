"""A test without the marker `server` that starts a process fails, and says what to add."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_without_the_marker_nothing_is_started() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"Add @pytest\.mark\.server"):
        subprocess.run([sys.executable, "-c", ""], check=True)


@pytest.mark.server
@pytest.mark.quick
def test_with_the_marker_it_is() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)
