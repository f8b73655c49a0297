"""What 03__python_environments relies on: stubs, a script, another Python."""

from __future__ import annotations

import subprocess
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
    left = setup.run_scripts(tmp_path / "models")
    assert left == {"conda_env.as_printed.sh": [], "conda_env.sh": ["conda_env.tar.gz"]}


@pytest.mark.server  # starts pip
def test_a_wheel_of_the_installed_numpy_can_be_installed(tmp_path: Path) -> None:
    wheel = setup.numpy_wheel(tmp_path / "models")
    there = tmp_path / "there"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-compile"]
    command += ["--find-links", str(wheel.parent), "--target", str(there), "numpy"]
    subprocess.run(command, check=True)
    code = "import numpy; print(numpy.__file__, numpy.ones(2).sum())"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(there)!r}); {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [str(there / "numpy/__init__.py"), "2.0"]


def test_a_load_is_watched_from_its_begin() -> None:
    asked = [("a", 9.5, 9.6, ""), ("a", 10.5, 10.6, "no"), ("b", 10.7, 10.8, "")]
    found = setup.watched(asked, [10.0, 11.0])
    assert found.failed == 1
    assert found.answers["sent_s"].round(1).tolist() == [-0.5, 0.5, 0.7]
    assert not found.overlap  # too few requests in the meantime


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
