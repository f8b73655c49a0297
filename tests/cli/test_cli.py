"""The command line as users and scripts call it: real processes and servers, in its own home.

Another server on this machine may use port 8000. So other ports replace the default ones, in the
tests' own process and in every command.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.server.compiled import needs_compiler, share
from workbook.server import Server, loading

pytestmark = pytest.mark.server

MODEL = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x * 2)]) for x in inputs]
"""
SLOW_START = """
    def initialize(self, args):
        import time
        time.sleep(8)

"""
CONFIG = """
backend: "python"
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
#: The output in a sloppy model's config, and a warm-up, which runs when it is loaded.
SLOPPY = '"y" data_type: TYPE_FP64'
WARMUP = """
model_warmup [ { name: "once" batch_size: 1
  inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } } ]
"""
WORKBOOK = """
import os
import sys
from workbook.server import connection
connection.DEFAULT_HTTP = int(sys.argv.pop(1))
connection.DEFAULT_GRPC = connection.DEFAULT_HTTP + 1
connection.DEFAULT_METRICS = connection.DEFAULT_HTTP + 2
from workbook.cli import main
from workbook.server import loading
loading.LOAD_TIMEOUT = float(os.environ.get("TEST_LOAD_TIMEOUT", 300))
main()
"""
NOT_RUNNING = {"version": 1, "running": False, "lectures": []}
FREE_PORTS = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "subprocess.Popen[str]"]


def make_model(folder: Path, config: str = CONFIG) -> Path:
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    (folder / "1" / "model.py").write_text(MODEL)
    return folder


def environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    return {**kept, "WORKBOOK_HOME": str(home), "COLUMNS": "200"}


@pytest.fixture(scope="session")
def default_port() -> int:
    """The first of three free ports in a row, below those that the system gives out by itself."""
    while True:
        first = random.randrange(20000, 30000)
        try:
            for port in range(first, first + 3):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first


class Started(subprocess.Popen[str]):
    """A command that does not outlive its block, so that a failed test ends."""

    def __exit__(self, *error: object) -> None:
        if self.poll() is None:
            self.kill()
        super().__exit__(*error)  # type: ignore[arg-type]


@pytest.fixture
def start(home: Path, default_port: int) -> Start:
    """`start(*words)`: a command that goes on; `at=` is another checkout."""

    def call(*words: str, at: Path = home) -> subprocess.Popen[str]:
        return Started(
            [sys.executable, "-c", WORKBOOK, str(default_port), *words],
            env=environment(at),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return call


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A checkout with one model."""
    home = share(tmp_path / "home")
    make_model(home / "model_repository" / "double")
    return home


@pytest.fixture
def run(home: Path, default_port: int) -> Iterator[Run]:
    """`run(*words)`: a command, and what came of it; `at=` is another checkout."""
    homes = {home}

    def call(*words: str, at: Path = home, **variables: str) -> subprocess.CompletedProcess[str]:
        homes.add(at)
        return subprocess.run(
            [sys.executable, "-c", WORKBOOK, str(default_port), *words],
            env={**environment(at), **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    yield call
    for each in homes:
        call("stop", at=each)


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


@pytest.mark.quick
def test_serve_status_deploy_undeploy_stop(run: Run, home: Path) -> None:
    nothing = run("status")
    assert nothing.returncode == 3
    assert "No Triton server is running" in nothing.stderr
    assert json.loads(run("status", "--json").stdout) == NOT_RUNNING

    served = run("serve", "--detach", *FREE_PORTS)
    assert served.returncode == 0, served.stderr
    assert "1 of 1 models are ready" in served.stdout

    state = json.loads(run("status", "--json").stdout)
    assert state["running"]
    assert state["control"] == "explicit"
    assert state["repository"] == str(home / "model_repository")
    assert psutil.Process(state["pid"]).name().startswith("tritonserver")
    assert Path(state["log"]).is_file()
    assert state["url"].endswith(f":{state['ports']['http']}")
    (model,) = state["models"]
    assert model == {
        "name": "double",
        "state": "READY",
        "versions": {"1": "READY"},
        "backend": "python",
        "stand_in": False,
        "reason": "",
        "warnings": [],
    }

    again = run("serve", "--detach", *FREE_PORTS)
    assert "is running already" in again.stdout
    other = run("serve", "--control", "poll", *FREE_PORTS)
    assert other.returncode == 1
    assert "workbook stop" in other.stderr

    source = make_model(home / "mine")
    deployed = run("deploy", str(source))
    assert "mine 1 is ready on python" in deployed.stdout
    assert "double" in run("status").stdout
    assert run("undeploy", "mine").returncode == 0
    second = run("undeploy", "mine")
    assert second.returncode == 1
    assert "to do:" in second.stderr

    sloppy = make_model(
        home / "sloppy", CONFIG.replace('"y" data_type: TYPE_FP32', SLOPPY) + WARMUP
    )
    where = '1/model.py, line 8: return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x * 2)])'
    for words in (["deploy", str(sloppy)], ["status"]):
        shown = run(*words).stdout
        assert '! sloppy: The output "y" is float32, and the config says TYPE_FP64.' in shown
        assert f"where: {where}" in shown
        assert "to do: Write array.astype(np.float64) there" in shown
    models = {m["name"]: m for m in json.loads(run("status", "--json").stdout)["models"]}
    (warning,) = models["sloppy"]["warnings"]
    assert warning["where"].startswith(where)
    assert models["double"]["warnings"] == []
    assert run("undeploy", "sloppy").returncode == 0

    (source / "config.pbtxt").write_text(CONFIG + "\nmax_batchsize: 4\n")
    refused = run("deploy", str(source))
    assert refused.returncode == 1
    assert "max_batchsize" in refused.stderr
    assert "Traceback" not in refused.stderr

    stopped = run("stop")
    assert "Stopped" in stopped.stdout
    assert not psutil.pid_exists(state["pid"])
    assert run("stop").returncode == 0


def test_serve_on_a_running_server_loads_what_is_missing(run: Run, home: Path) -> None:
    make_model(home / "model_repository" / "triple")
    empty = run("serve", "--detach", "--models", "none", *FREE_PORTS)
    assert "models are ready" not in empty.stdout
    one = run("serve", "--detach", "--models", "double")
    assert "is running already" in one.stdout
    assert "1 of 1 models are ready" in one.stdout
    rest = run("serve", "--detach")
    assert "Models that are not loaded yet: triple." in rest.stdout
    assert "1 of 1 models are ready" in rest.stdout
    assert "All models are ready" in run("serve", "--detach").stdout
    states = {m["name"]: m["state"] for m in json.loads(run("status", "--json").stdout)["models"]}
    assert states == {"double": "READY", "triple": "READY"}


def test_the_server_of_another_checkout_is_neither_used_nor_changed(
    run: Run, home: Path, tmp_path: Path
) -> None:
    """It listens on the default ports, and has a model of the same name as this checkout."""
    other = share(tmp_path / "other")
    make_model(other / "model_repository" / "double")
    assert run("serve", "--detach", at=other).returncode == 0
    state = json.loads(run("status", "--json", at=other).stdout)
    source = make_model(tmp_path / "mine")

    def untouched() -> bool:
        with Server(state["url"]) as theirs:
            held = [[p.name for p in (each / "model_repository").iterdir()] for each in
                    (home, other)]  # fmt: skip
            return theirs.ready("double") and held == [["double"], ["double"]]

    for words in (["status"], ["deploy", str(source)], ["undeploy", "double"],
                  ["lab", "--no-browser"]):  # fmt: skip
        answer = run(*words)
        assert answer.returncode in (1, 3)
        for named in (state["url"], home / "model_repository", other / "model_repository"):
            assert str(named) in answer.stderr.replace("\n", "")
        assert "--http-port 0" in answer.stderr
        assert untouched()
    assert json.loads(run("status", "--json").stdout) == NOT_RUNNING
    assert "No server of this checkout" in run("stop").stdout
    taken = run("serve", "--detach")
    assert taken.returncode == 1
    assert f"which serves {other / 'model_repository'}" in taken.stderr.replace("\n", "")
    assert untouched()

    by_name = {"TRITON_URL": state["url"]}  # the user names that server
    assert json.loads(run("status", "--json", **by_name).stdout)["repository"] == str(
        other / "model_repository"
    )
    for words in (["deploy", str(source)], ["undeploy", "double"]):
        answer = run(*words, **by_name)
        assert answer.returncode == 1
        assert "Nothing was changed" in answer.stderr
        assert untouched()
    its_own = {**by_name, "TRITON_REPOSITORY": str(other / "model_repository")}
    assert run("deploy", str(source), **its_own).returncode == 0
    assert run("undeploy", "mine", **its_own).returncode == 0

    assert run("serve", "--detach", *FREE_PORTS).returncode == 0  # both at the same time
    assert run("undeploy", "double").returncode == 0
    assert not (home / "model_repository" / "double").exists()
    with Server(state["url"]) as theirs:
        assert theirs.ready("double")


def test_undeploy_says_which_requests_it_waits_for(run: Run, start: Start, home: Path) -> None:
    gate = home / "gate"
    waiting = f"import os, time\n        while not os.path.exists({str(gate)!r}): time.sleep(0.1)"
    model = home / "model_repository" / "double" / "1" / "model.py"
    model.write_text(MODEL.replace("inputs =", f"{waiting}\n        inputs ="))
    run("serve", "--detach", *FREE_PORTS)
    state = json.loads(run("status", "--json").stdout)
    with (
        Server(state["url"], metrics=state["metrics"]) as server,
        ThreadPoolExecutor() as clients,
        contextlib.ExitStack() as at_the_end,
    ):
        at_the_end.callback(gate.touch)
        body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}
        path = "/v2/models/double/infer"
        for _ in range(2):
            clients.submit(server.request, "POST", path, json=body, timeout=300)
        wait_for(lambda: 'pending_request_count{model="double",version="1"} 1' in server.metrics())
        with start("undeploy", "double") as command:
            assert command.stdout is not None
            first = command.stdout.readline()
            gate.touch()
            rest = command.stdout.read()
    assert "double takes no new requests." in first + rest
    assert "double is gone" in rest
    assert command.returncode == 0
    assert not (home / "model_repository" / "double").exists()


def test_one_bad_model_does_not_stop_the_others(run: Run, home: Path) -> None:
    make_model(home / "model_repository" / "broken", CONFIG.replace("TYPE_FP32", "FP32"))
    served = run("serve", "--detach", *FREE_PORTS)
    assert served.returncode == 0
    assert "1 of 2 models are ready" in served.stdout
    assert "broken did not load" in served.stderr
    states = {m["name"]: m["state"] for m in json.loads(run("status", "--json").stdout)["models"]}
    assert states["double"] == "READY"
    assert states["broken"] != "READY"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_foreground_server_ends_with_its_command(
    run: Run, start: Start, home: Path, number: signal.Signals
) -> None:
    with start("serve", *FREE_PORTS) as command:
        pids: list[int] = []

        def is_up() -> bool:
            state = json.loads(run("status", "--json").stdout)
            pids[:] = [state["pid"]] if state["running"] else []
            return bool(pids) and any(m["state"] == "READY" for m in state["models"])

        wait_for(is_up)
        command.send_signal(number)
        command.wait(timeout=30)
        wait_for(lambda: not psutil.pid_exists(pids[0]))
    assert run("status").returncode == 3
    assert not list((home / ".workbook" / "run").iterdir())


def test_ctrl_c_while_starting_leaves_nothing(start: Start, home: Path) -> None:
    with start("serve", *FREE_PORTS) as command:
        runs = home / ".workbook" / "run"
        wait_for(lambda: runs.is_dir() and any(runs.glob("*/pid")))
        command.send_signal(signal.SIGINT)
        output, _ = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "Traceback" not in output
    assert not list(runs.iterdir())


def make_slow_models(home: Path, count: int) -> Path:
    """Models whose `initialize` takes long; each writes an x into the file that is returned."""
    diary = home / "diary"
    noted = SLOW_START.replace("time.sleep", f"open({str(diary)!r}, 'a').write('x'); time.sleep")
    for number in range(count):
        folder = make_model(home / "model_repository" / f"slow{number}")
        text = MODEL.replace("    def execute", noted + "    def execute")
        (folder / "1" / "model.py").write_text(text)
    return diary


def test_ctrl_c_while_loading_begins_no_further_model(start: Start, home: Path) -> None:
    diary = make_slow_models(home, 2 * loading.AT_ONCE)
    with start("serve", "--detach", *FREE_PORTS) as command:
        wait_for(diary.exists)
        command.send_signal(signal.SIGINT)
        output, _ = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "Traceback" not in output
    assert not list((home / ".workbook" / "run").iterdir())
    assert len(diary.read_text()) <= loading.AT_ONCE


def test_a_server_that_is_killed_while_loading_is_one_error(
    run: Run, start: Start, home: Path
) -> None:
    diary = make_slow_models(home, 2)
    with start("serve", "--detach", *FREE_PORTS) as command:
        wait_for(diary.exists)
        os.kill(json.loads(run("status", "--json").stdout)["pid"], signal.SIGKILL)
        output, _ = command.communicate(timeout=60)
    assert command.returncode == 1
    assert "The server ended while it was loading models" in output
    assert output.count("✗") == 1
    assert not list((home / ".workbook" / "run").iterdir())
    assert run("serve", "--detach", "--models", "double", *FREE_PORTS).returncode == 0


def test_serve_says_that_a_model_is_still_loading(run: Run, home: Path) -> None:
    make_slow_models(home, 1)
    served = run("serve", "--detach", *FREE_PORTS, TEST_LOAD_TIMEOUT="2")
    assert served.returncode == 4
    assert "slow0 is still loading after 2 s. The server goes on loading it." in served.stderr
    assert "✗" not in served.stderr
    # On a busy machine the other model may be still loading as well.
    assert re.search(r"[01] of 2 models are ready; still loading: slow0[,.]", served.stdout)
    wait_for(lambda: "All models are ready" in run("serve", "--detach").stdout)


@needs_compiler
def test_while_the_server_is_started_again_every_command_says_so(
    run: Run, start: Start, home: Path
) -> None:
    """In control mode none, whose server answers when all models are loaded."""
    gate = home / "gate"
    waits = f"while os.path.exists({str(gate)!r}): time.sleep(0.1)"
    model = make_model(home / "model_repository" / "slow") / "1" / "model.py"
    initialize = f"    def initialize(self, args):\n        import os, time\n        {waits}\n\n"
    model.write_text(MODEL.replace("    def execute", initialize + "    def execute"))
    serve = ("serve", "--detach", "--control", "none", *FREE_PORTS)
    assert run(*serve).returncode == 0
    gate.touch()
    pid = json.loads(run("status", "--json").stdout)["pid"]
    os.kill(pid, signal.SIGKILL)
    words = "is being started again: 1 of 2 models are loaded."
    wait_for(lambda: words in run("status").stderr)
    source = str(make_model(home / "mine"))
    for command in (("status",), ("deploy", source), ("undeploy", "double")):
        answer = run(*command)
        assert answer.returncode == (3 if command == ("status",) else 1)
        assert "The server has ended (signal 9 (SIGKILL), at " in answer.stderr
        assert words in answer.stderr
        assert "serve --detach" not in answer.stderr
    state = json.loads(run("status", "--json").stdout)
    assert not state["running"]
    assert (state["restart"]["loaded"], state["restart"]["waiting"]) == (1, ["slow"])
    with start(*serve) as again:
        assert again.stdout is not None
        assert words in again.stdout.readline()  # it waits
        gate.unlink()
        output, _ = again.communicate(timeout=60)
    assert again.returncode == 0, output
    assert "is running already" in output
    state = json.loads(run("status", "--json").stdout)
    assert state["running"]
    assert state["restart"] is None
    assert state["ended"][0].startswith("The server has ended (signal 9 (SIGKILL), at ")


@needs_compiler
def test_undeploy_now(run: Run, home: Path) -> None:
    model = home / "model_repository" / "double" / "1" / "model.py"
    model.write_text(MODEL.replace("inputs =", "\n        while True: pass\n        inputs ="))
    run("serve", "--detach", *FREE_PORTS)
    state = json.loads(run("status", "--json").stdout)
    body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}
    with Server(state["url"]) as server, ThreadPoolExecutor() as clients:
        request = clients.submit(server.request, "POST", "/v2/models/double/infer", json=body)
        time.sleep(1)
        server.begin_unload("double")
        (process,) = json.loads(run("status", "--json").stdout)["older_copies"]
        assert f"double is unloading: process {process['pid']}." in run("status").stdout
        ended = run("undeploy", "double", "--now")
        assert ended.returncode == 0, ended.stderr
        assert f"Ended the processes of double: {process['pid']}." in ended.stderr
        assert request.exception(timeout=60) is not None
    assert not (home / "model_repository" / "double").exists()


def test_ctrl_c_while_deploying_changes_nothing(run: Run, start: Start, home: Path) -> None:
    run("serve", "--detach", *FREE_PORTS)
    source = make_model(home / "slow")
    text = MODEL.replace("    def execute", SLOW_START + "    def execute")
    (source / "1" / "model.py").write_text(text)
    target = home / "model_repository" / "slow"
    with start("deploy", str(source)) as command:
        wait_for(target.exists)
        command.send_signal(signal.SIGINT)
        output, _ = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "Traceback" not in output
    assert not target.exists()
    assert "double" in run("status").stdout


def test_a_deploy_killed_in_the_middle_leaves_no_half_model(
    run: Run, start: Start, home: Path
) -> None:
    run("serve", "--detach", *FREE_PORTS)
    source = make_model(home / "large")
    with (source / "1" / "weights.bin").open("wb") as file:
        for _ in range(100):
            file.write(os.urandom(1 << 20) * 4)
    staging = home / ".model_repository.staging"
    with start("deploy", str(source)) as command:
        wait_for(lambda: any(staging.glob("large@*/1/weights.bin")))
        command.kill()
    assert not (home / "model_repository" / "large").exists()
    (source / "1" / "weights.bin").unlink()
    assert run("deploy", str(source)).returncode == 0
    assert not list(staging.glob("large@*"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["serve", "--http-port", "70000"], "--http-port"),
        (["serve", "--control", "sometimes"], "sometimes"),
        (["serve", "--repository", "/no/such/folder"], "/no/such/folder"),
        (["deploy", "/no/such/folder"], "No Triton server is running"),
        (["lab", "--port", "0", "--no-browser"], "0"),
        (["dance"], "dance"),
    ],
)
def test_bad_words_get_a_sentence(run: Run, words: list[str], expected: str) -> None:
    answer = run(*words)
    assert answer.returncode in (1, 2)
    assert expected in answer.stderr
    assert "Traceback" not in answer.stdout + answer.stderr


def page(address: str) -> str:
    """The page that a browser would get; "" while nothing listens yet."""
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return str(answer.read().decode())
    except urllib.error.URLError:
        return ""


@pytest.mark.quick
def test_lab_brings_up_server_models_and_jupyterlab_and_takes_them_down(
    run: Run, start: Start, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser gets JupyterLab's own address, not that of a file, which it may not read."""
    (home / "lectures").mkdir()
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    with start("lab", "--port", "18888", *FREE_PORTS) as lab:
        threading.Thread(target=lab.communicate, daemon=True).start()  # so that no pipe fills
        try:
            wait_for(opened.is_file)
            address = opened.read_text().strip()
            assert address.startswith("http://localhost:18888/lab?token=")
            wait_for(lambda: "JupyterLab" in page(address))
            state = json.loads(run("status", "--json").stdout)
            assert state["models"][0]["state"] == "READY"
            family = [p.pid for p in psutil.Process(lab.pid).children(recursive=True)]
        finally:
            lab.terminate()
            lab.wait(timeout=60)
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in [*family, state["pid"]]))
