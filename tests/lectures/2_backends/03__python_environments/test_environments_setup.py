"""What 03__python_environments relies on: stubs, a script, another Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from workbook.lessons import units

setup = units.load(units.find("03__python_environments"), "setup")


def test_each_stub_is_linked_with_its_python() -> None:
    stubs = setup.stubs()
    assert setup.OWN in stubs
    for version, stub in stubs.items():
        assert setup.libpython(stub).startswith(f"libpython{version}.so")


def test_the_documents_script_removes_its_archive(tmp_path: Path) -> None:
    assert setup.run_script(tmp_path / "models") == []


@pytest.mark.server
def test_another_python_is_not_this_one() -> None:
    other = setup.other_python()
    if other is None:
        pytest.skip("this machine has one Python only")
    assert other.version != f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert other.library.is_file()


def test_what_was_not_tried_is_not_said_to_hold(shown: list[Any]) -> None:
    lacking = setup.Second("3.12", "", None, "pip did not install what it needs")
    assert not lacking.as_expected
    lacking.show("environments.other")
    assert str(shown[-1]).startswith("○ Not tried: pip did not install what it needs. The commands")
