"""A student's own server starts the processes of models without a shell, and as before."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from compiled import needs_compiler

from workbook.common.errors import LoadError
from workbook.server import Triton
from workbook.server.assemble import find

CONFIG = """\
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
"""
CODE = """\
import os
from pathlib import Path

Path(__file__).with_name("set").write_text(os.environ.get("SET_BY_ACTIVATE", ""))


class TritonPythonModel:
    def execute(self, requests):
        return []
"""
pytestmark = [pytest.mark.server, needs_compiler]


def add(home: Path, name: str, line: str = "", file: str = "model.py") -> Path:
    folder = home / "models" / name
    (folder / "1").mkdir(parents=True)
    (folder / "1" / file).write_text(CODE)
    (folder / "config.pbtxt").write_text(CONFIG + line)
    return folder


def environment(folder: Path) -> str:
    """Put an environment into a folder, and return the line of the config that names it."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "bin" / "activate").write_text("export SET_BY_ACTIVATE=yes\n")
    return f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{folder}" }} }}\n'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    trap = home / "trap"
    trap.mkdir()
    (trap / "bash").write_text(f'#!/bin/sh\necho "$@" >> {home}/shells\nexec /bin/bash "$@"\n')
    (trap / "bash").chmod(0o755)
    return home


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Triton]:
    (home / "models").mkdir()
    path = f"{home / 'trap'}{os.pathsep}{os.environ['PATH']}"
    with Triton(home / "models", environment={"PATH": path}) as server:
        yield server


def shells(home: Path) -> str:
    """The commands that bash was called with since the last call."""
    file = home / "shells"
    text = file.read_text() if file.exists() else ""
    file.unlink(missing_ok=True)
    return text


def test_a_model_starts_without_a_shell(server: Triton, home: Path) -> None:
    add(home, "plain")
    server.load("plain")
    assert shells(home) == ""


def test_names_that_a_shell_would_read_are_refused(server: Triton, home: Path) -> None:
    name = "x$(touch planted).py"
    add(home, "odd", f'default_model_filename: "{name}"\n', name)
    with pytest.raises(LoadError) as caught:
        server.load("odd", timeout=30)
    assert caught.value.rule == "unsafe-name"
    assert server.log is not None
    assert [*(server.log.parent / "cwd").iterdir()] == []
    assert shells(home) == ""


def test_an_environment_still_needs_bash(server: Triton, home: Path) -> None:
    folder = add(home, "with_env", environment(home / "env"))
    server.load("with_env")
    assert (folder / "1" / "set").read_text() == "yes"
    assert shells(home).startswith("-c source ")


def test_an_environment_with_an_odd_path_reaches_no_shell(server: Triton, home: Path) -> None:
    add(home, "odd_env", environment(home / "env;touch planted;"))
    with pytest.raises(LoadError) as caught:
        server.load("odd_env", timeout=30)
    assert caught.value.rule == "unsafe-name"
    assert shells(home) == ""


def test_a_stub_of_the_models_own_is_started(server: Triton, home: Path) -> None:
    """NVIDIA's way to another version of Python; lecture 2, notebook 03."""
    folder = add(home, "own")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stubs = find().binary.parent.parent / "python_backend_stubs" / version
    shutil.copy(stubs / "triton_python_backend_stub", folder)
    server.load("own")
    assert server.ready("own")
    assert shells(home) == ""
