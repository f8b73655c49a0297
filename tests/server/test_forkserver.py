"""Stubs that are copies of the fork server: what they share, how they end, which are no copies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from workbook.common.errors import WorkbookError
from workbook.server import Triton
from workbook.server.native import forkserver

pytestmark = pytest.mark.server

TELLS = """\
import json
import os
import random
import sys
{imports}

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.pid = os.getpid()

    def execute(self, requests):
        files = []
        for number in os.listdir("/proc/self/fd"):
            try:
                files.append(os.readlink(f"/proc/self/fd/{{number}}"))
            except OSError:
                pass
        told = {{
            "pid": os.getpid(),
            "parent": os.getppid(),
            "folder": os.getcwd(),
            "files": files,
            "modules": sorted(sys.modules),
            "random": [random.random(), float(np.random.random())],
            "path": sys.path,
            "argv": sys.argv,
        }}
        answer = np.array([json.dumps(told).encode()], dtype=object)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("told", answer)]) for _ in requests]
"""
CONFIG = """\
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "told" data_type: TYPE_STRING dims: [ 1 ] }
instance_group { count: %d kind: KIND_CPU }
"""


SERVER = "triton_python_backend_forkserver"


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    until = time.monotonic() + seconds
    while not (fulfilled := condition()) and time.monotonic() < until:
        time.sleep(0.05)
    return fulfilled


def make(repository: Path, name: str, imports: str = "", count: int = 1) -> None:
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(TELLS.format(imports=imports))
    (folder.parent / "config.pbtxt").write_text(CONFIG % count)


def tell(server: Triton, name: str) -> dict[str, Any]:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
    answer = httpx.post(f"{server.url}/v2/models/{name}/infer", json=body, timeout=60)
    answer.raise_for_status()
    facts: dict[str, Any] = json.loads(answer.json()["outputs"][0]["data"][0])
    return facts


def program(pid: int) -> str:
    return Path(psutil.Process(pid).cmdline()[0]).name


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    repository = tmp_path_factory.mktemp("models")
    make(repository, "simple")
    make(repository, "many", count=4)
    make(repository, "torches", imports="import torch")
    make(
        repository,
        "hugging",
        imports="    \nfrom transformers import AutoModelForSequenceClassification, AutoTokenizer",
    )
    make(repository, "setter", imports="os.environ['ANY'] = 'thing'")
    with Triton(repository) as server:
        for name in ("simple", "many", "torches", "hugging", "setter"):
            server.load(name, timeout=240)
        yield server


@pytest.mark.quick
def test_a_stub_is_a_copy_of_the_fork_server(server: Triton) -> None:
    facts = tell(server, "simple")
    assert program(facts["parent"]) == SERVER
    command = psutil.Process(facts["pid"]).cmdline()
    assert Path(command[0]).name == "triton_python_backend_stub"
    assert command[1].endswith("simple/1/model.py")
    assert command[-2:] == ["simple_0_0", "DEFAULT"]
    assert psutil.Process(facts["pid"]).name() == "triton_python_backend_stub"
    assert not {"torch", "transformers", "onnxruntime"} & set(facts["modules"])


LEAVES = """import atexit
import ctypes
atexit.register(print, "left by Python")
ctypes.CDLL(None).printf(b"left by C\\n")"""


@pytest.mark.parametrize("package", ["numpy", "torch"])
def test_a_copy_that_ends_leaves_nothing_unwritten(server: Triton, package: str) -> None:
    """It ends without the destructors of its libraries, but Python's exit functions run."""
    name = f"leaves_{package}"
    make(server.repository, name, imports=f"import {package}\n{LEAVES}")
    server.load(name)
    copy = psutil.Process(tell(server, name)["pid"])
    assert program(copy.ppid()) == SERVER
    mark = server.log_size()  # the copy that was asked for the config has ended
    server.unload(name)
    assert wait_until(lambda: not copy.is_running())
    assert server.log_text(mark).count("left by Python") >= 1
    assert server.log_text(mark).count("left by C") >= 1


def test_a_shell_that_exports_its_prompt_changes_nothing(tmp_path: Path) -> None:
    """As after `source .venv/bin/activate`: the stub's shell drops PS1."""
    make(tmp_path, "simple")
    prompts = {"PS1": "(.venv) $ ", "PS2": "> ", "BASHOPTS": "checkwinsize", "SHELLOPTS": "hashall"}
    with Triton(tmp_path, environment=prompts) as server:
        server.load("simple")
        facts = tell(server, "simple")
        assert program(facts["parent"]) == SERVER


def test_a_plain_stub_sees_the_same(server: Triton) -> None:
    with Triton(server.repository, plain=True) as plain:
        plain.load("simple")
        ours, theirs = tell(server, "simple"), tell(plain, "simple")
        assert program(theirs["parent"]) == "tritonserver"
    assert ours["argv"] == theirs["argv"]
    same = [path for path in theirs["path"] if "/backends" not in path and "/server/" not in path]
    assert [path for path in ours["path"] if "/server/" not in path] == same
    assert len(ours["path"]) == len(theirs["path"])
    assert Path(ours["folder"]).name == Path(theirs["folder"]).name
    assert set(theirs["modules"]) <= set(ours["modules"])


def test_a_stub_has_no_connection_and_no_listening_socket(server: Triton) -> None:
    """A stub does not inherit the server's connections and ports."""
    for name in ("simple", "torches", "setter"):
        files = tell(server, name)["files"]
        assert not [file for file in files if file.startswith("socket:")], name


def test_packages_are_imported_once_for_all_stubs(server: Triton) -> None:
    torch, hugging = tell(server, "torches"), tell(server, "hugging")
    assert {"torch"} <= set(torch["modules"])
    assert "transformers" not in torch["modules"]
    assert {"torch", "transformers"} <= set(hugging["modules"])
    line = [psutil.Process(hugging["pid"]), *psutil.Process(hugging["pid"]).parents()]
    servers = [process.pid for process in line if program_or_none(process) == SERVER]
    assert len(servers) == 3  # transformers, forked from torch, forked from the first
    assert torch["parent"] == servers[1]
    assert tell(server, "simple")["parent"] == servers[2]


def program_or_none(process: psutil.Process) -> str | None:
    command = process.cmdline()
    return Path(command[0]).name if command else None


def test_what_transformers_was_kept_from_can_be_imported(server: Triton) -> None:
    modules = tell(server, "hugging")["modules"]
    assert not set(forkserver.LEFT_OUT["transformers"]) & set(modules)


def test_a_model_that_sets_variables_starts_for_itself(server: Triton) -> None:
    facts = tell(server, "setter")
    parents = [program_or_none(process) for process in psutil.Process(facts["pid"]).parents()]
    assert SERVER not in parents
    assert parents[0] == "tritonserver"


def test_copies_draw_different_random_numbers(server: Triton) -> None:
    facts = {facts["pid"]: facts["random"] for facts in (tell(server, "many") for _ in range(80))}
    assert len(facts) == 4
    assert len({value for pair in facts.values() for value in pair}) == 8


@pytest.mark.quick
def test_a_stub_that_dies_does_not_take_the_others(tmp_path: Path) -> None:
    for name in ("one", "other"):
        make(tmp_path, name)
    with Triton(tmp_path) as server:
        server.load("one")
        server.load("other")
        before = tell(server, "one")
        os.kill(before["pid"], signal.SIGKILL)
        assert wait_until(lambda: has_ended(before["pid"]))
        assert tell(server, "other")["parent"] == before["parent"]
        # (Triton 24.10 unloads such a model only if nobody has sent it a request since.)
        server.unload("one")
        server.load("one")
        assert tell(server, "one")["parent"] == before["parent"]


def has_ended(pid: int) -> bool:
    """Whether a process has ended, even if its parent has not waited for it yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_when_the_fork_server_dies_stubs_start_for_themselves(tmp_path: Path) -> None:
    make(tmp_path, "simple")
    with Triton(tmp_path) as server:
        server.load("simple")
        facts = tell(server, "simple")
        os.kill(facts["parent"], signal.SIGKILL)
        assert wait_until(lambda: has_ended(facts["pid"]))  # its copies end with it
        with contextlib.suppress(WorkbookError):
            server.unload("simple")
        (tmp_path / "simple" / "1" / "model.py").touch()
        server.load("simple")
        assert program(tell(server, "simple")["parent"]) == "tritonserver"


def test_the_end_of_the_server_is_the_end_of_the_fork_servers(tmp_path: Path) -> None:
    make(tmp_path, "torches", imports="import torch")
    with Triton(tmp_path) as server:
        server.load("torches")
        facts = tell(server, "torches")
        line = [process.pid for process in psutil.Process(facts["pid"]).parents()[:2]]
    for pid in (facts["pid"], *line):
        assert wait_until(lambda: has_ended(pid))  # noqa: B023


# -- which fork server a stub comes from ----------------------------------------------------------


def way(tmp_path: Path, source: str) -> tuple[str, ...]:
    model = tmp_path / "model.py"
    model.write_text(source)
    return forkserver.route([b"stub", os.fsencode(model), b"region", b"x_0_0", b"DEFAULT"])


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("import numpy", ("stub",)),
        ("# import torch", ("stub",)),
        ("import torchvision", ("stub",)),
        ("import torch", ("stub", "torch")),
        ("def f():\n    from torch import nn", ("stub", "torch")),
        ("from transformers import x\nimport torch", ("stub", "torch", "transformers")),
        ("import torch.nn as nn", ("stub", "torch")),
        ("import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch", ()),
        ("from os import putenv", ()),
    ],
)
def test_the_models_imports_decide(tmp_path: Path, source: str, wanted: tuple[str, ...]) -> None:
    assert way(tmp_path, source) == wanted


@pytest.mark.parametrize(
    ("last", "wanted"),
    [
        (b"/backends/onnxruntime", ("stub", "stand_in")),
        (b"/backends/pytorch", ("stub", "torch")),
        (b"/backends/fil", ("stub", "stand_in", "fil")),
        (b"/backends/dali", ("stub", "stand_in")),
        (b"/backends/vllm", ()),
    ],
)
def test_the_stand_in_decides(last: bytes, wanted: tuple[str, ...]) -> None:
    assert forkserver.route([b"stub", b"/m/1/model.onnx", b"m_0_0", last]) == wanted


def test_a_short_command_and_a_missing_file_start_plainly(tmp_path: Path) -> None:
    assert forkserver.route([b"stub"]) == ()
    missing = os.fsencode(tmp_path / "model.py")
    assert forkserver.route([b"stub", missing, b"x_0_0", b"DEFAULT"]) == ()
