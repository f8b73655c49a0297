"""One lecture's server at a time: kernels of notebooks pause and start each other's servers."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client import KernelManager
from typer.testing import CliRunner

from tests.server.test_triton import make_square
from workbook import cli, lessons
from workbook.server import server_status

pytestmark = pytest.mark.server

#: In the notebook: start a server, as a lecture does.
START = """
import json
from pathlib import Path
from workbook.lessons import laboratory, one_server
one_server.IDLE = {idle}
lab = laboratory(Path({models!r}), {options})
print(json.dumps([lab.url, lab.grpc_url, lab.metrics_url]))
"""
#: In the notebook: send a request as any other project would, to an address that is text.
ASK = """
import numpy as np, tritonclient.http as client
tensor = client.InferInput("x", [1, 2], "FP32")
tensor.set_data_from_numpy(np.full((1, 2), 3, np.float32))
with client.InferenceServerClient({address!r}) as triton:
    print(triton.infer({model!r}, [tensor]).as_numpy("y")[0, 0])
"""

#: In the notebook: for the course, its kernel has another parent. (A kernel without one ends.)
OTHER_PARENT = """
import os, types
from workbook.lessons import one_server
one_server.os = types.SimpleNamespace(**{**vars(os), "getppid": lambda: 1})
"""


class Notebook:
    """A kernel of this process, as JupyterLab starts one for a notebook."""

    def __init__(self, name: str, models: Path) -> None:
        self.name, self.models = name, models
        self.manager = KernelManager()
        self.manager.start_kernel(env={**os.environ, "JPY_SESSION_NAME": f"x/{name}.ipynb"})
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(60)

    def run(self, code: str) -> str:
        """Run a cell; returns what it printed."""
        printed: list[str] = []

        def collect(message: dict[str, Any]) -> None:
            printed.append(message["content"].get("text", ""))

        reply = self.client.execute_interactive(code, timeout=120, output_hook=collect)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed)

    def start(self, *, idle: float = 600.0, options: str = "") -> list[str]:
        code = START.format(idle=idle, models=str(self.models), options=options)
        addresses: list[str] = json.loads(self.run(code).splitlines()[-1])
        return addresses

    def server(self) -> server_status.LectureServer:
        (found,) = [each for each in server_status.lectures() if each.notebook == self.name]
        return found

    def pid(self) -> int:
        return int(self.run("print(lab.pid)").splitlines()[-1])


MakeNotebook = Callable[..., Notebook]


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[MakeNotebook]:
    """`notebook("first")` is a notebook whose model repository has the models `a` and `b`."""
    opened: list[Notebook] = []

    def make(name: str) -> Notebook:
        models = tmp_path / name
        for model in ("a", "b"):
            make_square(models, model)
        opened.append(Notebook(f"{name}-{tmp_path.name}-{os.getpid()}", models))
        return opened[-1]

    yield make
    for each in opened:
        each.client.stop_channels()
        each.manager.shutdown_kernel(now=True)


def until(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def address(url: str) -> str:
    return url.removeprefix("http://")


@pytest.mark.quick
def test_the_next_lecture_ends_the_server_and_a_cell_brings_it_back(
    notebook: MakeNotebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = notebook("first"), notebook("second")
    places = first.start()
    first.run("lab.unload('b')")
    first.run('lab.load("a", config=lab.config("a") | {"max_batch_size": 5})')
    before = first.pid()
    here = lessons.laboratory(tmp_path / "first")  # as a test does: it is no notebook
    second.start()
    until(lambda: first.server().state == "paused", "the first server is paused")
    assert not psutil.pid_exists(before)
    assert first.server().memory_mib == 0
    assert second.server().state == "running"
    assert second.server().memory_mib > 20
    assert here.ready("a")
    monkeypatch.setattr(cli.out, "width", 200)  # so that no name is cut
    shown = CliRunner().invoke(cli.app, ["status"]).output
    line = "".join(line for line in shown.splitlines() if line.startswith(first.name))
    assert "paused" in line, shown
    assert str(first.server().ports["http"]) in line
    # Nothing answers at its ports, and no other program gets them.
    port = first.server().ports["http"]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))
    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind(("127.0.0.1", port))

    printed = first.run(ASK.format(address=address(places[0]), model="a"))
    line, answer = printed.splitlines()
    assert line.startswith("The server of this lecture had ended (another lecture has started its")
    assert line.endswith("It is started again with its models. Its counts begin at 0.")
    assert answer == "9.0"
    assert first.run("print(lab.ready('b'), lab.config('a')['max_batch_size'])") == "False 5\n"
    assert first.run("print([lab.url, lab.grpc_url, lab.metrics_url])") == f"{places}\n"
    assert first.pid() != before
    until(lambda: second.server().state == "paused", "the second server is paused")
    assert here.ready("a")
    here.stop()


@pytest.mark.parametrize("options", ["", "control='poll'", "plain=True"])
def test_a_server_that_nobody_uses_ends(notebook: MakeNotebook, options: str) -> None:
    own = notebook("own")
    places = own.start(idle=3, options=options)
    ask = ASK.format(address=address(places[0]), model="b")
    # A cell runs longer than that, and then another program sends requests.
    own.run("import time; time.sleep(6)")
    begin = time.monotonic()
    while time.monotonic() - begin < 6:
        exec(ask, {})
        time.sleep(0.5)
    assert own.server().state == "running"
    until(lambda: own.server().state == "paused", "the server is paused")
    printed = own.run(ask)
    assert printed.startswith("The server of this lecture had ended (nobody has used it for some")
    assert printed.endswith("\n9.0\n")
    assert own.run("print(lab.ready('a'), lab.ready('b'))") == "True True\n"


def test_a_crash_is_not_a_pause(notebook: MakeNotebook) -> None:
    own = notebook("own")
    own.start()
    psutil.Process(own.pid()).kill()
    code = "try:\n    lab.index()\nexcept Exception as error:\n    print(error)"
    until(lambda: "ended: signal 9 (SIGKILL)" in own.run(code), "the error says how it ended")


def test_while_a_cell_runs_its_server_stays(notebook: MakeNotebook) -> None:
    first, second = notebook("first"), notebook("second")
    first.start()
    first.client.execute("import time; time.sleep(8); print(lab.ready('a'))")
    second.start()
    time.sleep(2)
    assert first.server().state == "running"
    until(lambda: first.server().state == "paused", "it is paused after the cell")


def test_what_cannot_be_loaded_again_is_named(notebook: MakeNotebook) -> None:
    first, second = notebook("first"), notebook("second")
    first.start()
    second.start()
    until(lambda: first.server().state == "paused", "the first server is paused")
    (first.models / "b/config.pbtxt").write_text("no config")
    printed = first.run("print(lab.ready('a'))").splitlines()
    assert printed[1].startswith("Not loaded again: b. The server's log: ")
    assert printed[2] == "True"


def test_the_end_of_the_kernel_ends_a_paused_server(notebook: MakeNotebook) -> None:
    first, second = notebook("first"), notebook("second")
    first.start()
    second.start()
    until(lambda: first.server().state == "paused", "the first server is paused")
    first.manager.shutdown_kernel(now=True)
    names = lambda: [each.notebook for each in server_status.lectures()]  # noqa: E731
    until(lambda: first.name not in names(), "its guard has ended")
    assert second.name in names()


def test_other_programs_that_run_notebooks_are_left_alone(notebook: MakeNotebook) -> None:
    """Two test processes in one checkout: their kernels have different parents."""
    first, other = notebook("first"), notebook("other")
    first.start()
    other.run(OTHER_PARENT)
    other.start()
    time.sleep(3)
    assert (first.server().state, other.server().state) == ("running", "running")
