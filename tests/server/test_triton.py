"""Starting and stopping: a real server, alone and among others, ended in every way there is."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

from workbook.common import paths
from workbook.common.errors import LoadError, ServerError
from workbook.server import Server, Triton, assemble, connect, run_folders, server_log
from workbook.server.connection import Control
from workbook.server.native import build

pytestmark = pytest.mark.server

SQUARE = """
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            time.sleep(float(x.ravel()[0] < 0) * 30)  # a negative number makes it slow
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", x**2)]))
        return responses
"""
CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


def make_square(repository: Path, name: str = "square") -> Path:
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(CONFIG)
    (folder / "1" / "model.py").write_text(SQUARE)
    return folder


def square(server: Server, name: str = "square", value: float = 3.0) -> float:
    body = {
        "inputs": [
            {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [[value, value]]},
        ]
    }
    answer = server.request("POST", f"/v2/models/{name}/infer", json=body)
    return float(np.ravel(answer["outputs"][0]["data"])[0])


def shared_memory(server: Triton) -> list[Path]:
    """The server's own regions, recognized by the prefix in its command line."""
    assert server.pid is not None
    words = " ".join(psutil.Process(server.pid).cmdline())
    prefix = words.split("shm-region-prefix-name=")[1].split()[0]
    return list(Path("/dev/shm").glob(f"{prefix}*"))


def wait_until(condition: object, seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


@pytest.mark.quick
def test_start_serve_stop_leaves_nothing(tmp_path: Path) -> None:
    make_square(tmp_path)
    with Triton(tmp_path, models=["square"]) as server:
        assert server.ready("square")
        assert square(server) == 9.0
        assert server.metadata()["name"] == "triton"
        assert "nv_inference_request_success" in server.metrics()
        pid, regions, log = server.pid, shared_memory(server), server.log
        assert pid is not None
        assert regions
        assert log is not None
        family = [pid, *(p.pid for p in psutil.Process(pid).children(recursive=True))]
    assert not [p for p in family if psutil.pid_exists(p)]
    assert not [r for r in regions if r.exists()]
    assert not log.exists()
    server.stop()  # a second time does no harm


def test_several_at_once_on_free_ports(tmp_path: Path) -> None:
    make_square(tmp_path)
    with Triton(tmp_path) as one, Triton(tmp_path) as two:
        assert one.url != two.url
        one.load("square")
        assert one.ready("square")
        assert not two.ready("square")


def free_ports() -> dict[str, int]:
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        numbers = [probe.getsockname()[1] for probe in probes]
        return dict(zip(("http", "grpc", "metrics"), numbers, strict=True))


def test_a_second_server_on_the_same_ports_leaves_the_first_alone(tmp_path: Path) -> None:
    make_square(tmp_path)
    same = free_ports()
    second = Triton(tmp_path, **same)  # the ports are taken after it was made, before it is started
    with Triton(tmp_path, models=["square"], **same) as first:
        with pytest.raises(ServerError, match="is in use already"):
            second.start()
        assert square(first) == 9.0
        second.stop()
        second.unload_all()
        for call in (second.load, second.unload):
            with pytest.raises(ServerError, match="is not running"):
                call("square")
        assert not second.live()
        assert first.ready("square")
        assert "successfully unloaded" not in first.log_text()


def test_a_server_whose_ports_another_one_has_now(tmp_path: Path) -> None:
    make_square(tmp_path)
    same = free_ports()
    lost = Triton(tmp_path, models=["square"], **same).start()
    assert lost.pid is not None
    os.kill(lost.pid, signal.SIGKILL)
    lost.wait()
    with Triton(tmp_path, models=["square"], **same) as other:
        assert not lost.ready("square")
        with pytest.raises(ServerError, match="is not running"):
            lost.unload("square")
        lost.stop()
        assert square(other) == 9.0


def test_before_the_start_and_after_the_end_nothing_is_asked(tmp_path: Path) -> None:
    server = Triton(tmp_path)
    for _ in range(2):
        assert not server.live()
        for call in (server.index, server.metrics, server.grpc_client, server.http_client):
            with pytest.raises(ServerError, match="is not running"):
                call()
        if server.log is None:
            server.start()
            assert server.live()
            server.stop()
    with server:  # it can be started again
        assert server.live()


def test_a_request_that_goes_on_is_named_while_the_model_unloads(tmp_path: Path) -> None:
    """The model answers a negative number after 30 seconds; the server waits for it."""
    make_square(tmp_path)
    with Triton(tmp_path, models=["square"]) as server, ThreadPoolExecutor() as clients:
        for _ in range(2):
            clients.submit(square, server, value=-1.0)
        assert wait_until(lambda: 'pending_request_count{model="square",version="1"} 1'
                          in server.metrics())  # fmt: skip
        report: list[str] = []
        with pytest.raises(ServerError, match="did not unload within 5 s") as caught:
            server.unload("square", timeout=5.0, report=report.append)
        (sentence,) = report
        assert "square takes no new requests." in sentence
        assert "0 have ended, 1 wait in its queue" in sentence
        assert sentence in caught.value.what
        assert "workbook stop" in caught.value.todo
        assert "`workbook undeploy square --now`" in caught.value.todo


@pytest.mark.quick
def test_control_modes(tmp_path: Path) -> None:
    make_square(tmp_path)
    with Triton(tmp_path, control="none") as server:
        assert server.ready("square")
    with Triton(tmp_path, control="poll") as server:
        assert server.ready("square")
        make_square(tmp_path, "second")
        assert wait_until(lambda: server.ready("second"))


@pytest.mark.parametrize("control", ["none", "poll"])
def test_a_model_without_its_file_does_not_stop_the_others(
    tmp_path: Path, control: Control
) -> None:
    make_square(tmp_path)
    (make_square(tmp_path, "lost") / "1" / "model.py").unlink()
    with Triton(tmp_path, control=control) as server:
        assert square(server) == 9.0
        assert not server.ready("lost")
        assert "model file not found" in server.log_text()


def test_a_model_that_would_end_the_server_is_named_before_the_start(tmp_path: Path) -> None:
    make_square(tmp_path)
    (tmp_path / "odd" / "config.pbtxt").mkdir(parents=True)
    with pytest.raises(LoadError, match="would end the server"):
        Triton(tmp_path, control="none").start()
    with Triton(tmp_path, control="explicit") as server:
        with pytest.raises(LoadError, match="would end the server"):
            server.load("odd")
        server.load("square")
        assert square(server) == 9.0


def test_a_repository_path_with_spaces_and_quotes(tmp_path: Path) -> None:
    home = tmp_path / "my 'models' & (co)"
    make_square(home)
    with Triton(home, models=["square"]) as server:
        assert square(server) == 9.0


def test_a_stray_model_py_in_the_working_directory_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text("raise SystemExit('the wrong file')")
    make_square(tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    with Triton(tmp_path / "models", models=["square"]) as server:
        assert square(server) == 9.0


def test_python_models_are_not_reloaded_by_their_own_bytecode(tmp_path: Path) -> None:
    from workbook.server import deploy

    source = make_square(tmp_path / "mine")
    home = tmp_path / "models"
    home.mkdir()
    with Triton(home, control="poll") as server:
        deploy(source, server=server)
        mark = len(server.log_text())
        time.sleep(3)
        assert "loading: square" not in server.log_text()[mark:]


def test_a_taken_port_is_named_with_its_holder(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(ServerError) as caught:
            Triton(tmp_path, grpc=port)
    assert f"Port {port} for gRPC is taken by" in str(caught.value)
    assert f"process {os.getpid()}" in str(caught.value)
    assert "--grpc-port" in caught.value.todo


@pytest.mark.parametrize("port", [-1, 70000])
def test_a_number_that_is_no_port(tmp_path: Path, port: int) -> None:
    with pytest.raises(ServerError, match="is not a port"):
        Triton(tmp_path, http=port)


def test_one_port_for_two_endpoints(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(ServerError, match="asked for twice"):
        Triton(tmp_path, http=port, grpc=port)


def test_a_missing_repository(tmp_path: Path) -> None:
    with pytest.raises(ServerError) as caught:
        Triton(tmp_path / "nowhere")
    assert "nowhere" in caught.value.where


def test_an_option_that_the_server_refuses(tmp_path: Path) -> None:
    server = Triton(tmp_path, options=["--no-such-option"])
    with pytest.raises(ServerError) as caught:
        server.start()
    assert "no-such-option" in str(caught.value)
    assert server.pid is None


def test_the_server_killed_in_mid_request_leaves_nothing(tmp_path: Path) -> None:
    make_square(tmp_path)
    with Triton(tmp_path, models=["square"]) as server:
        assert server.pid is not None
        regions = shared_memory(server)
        stubs = [p.pid for p in psutil.Process(server.pid).children(recursive=True)]
        client = server.grpc_client()
        from tritonclient.grpc import InferInput

        x = InferInput("x", [1, 2], "FP32").set_data_from_numpy(np.full((1, 2), -1, np.float32))
        failed: list[object] = []
        client.async_infer("square", [x], lambda result, error: failed.append(error))
        time.sleep(0.5)
        os.kill(server.pid, signal.SIGKILL)
        assert wait_until(lambda: not any(psutil.pid_exists(p) for p in stubs))
        assert wait_until(lambda: not any(r.exists() for r in regions))
        assert wait_until(lambda: bool(failed))
        client.close()
        with pytest.raises(ServerError, match=r"ended: signal 9 \(SIGKILL\), at [\d:]+\. Its log"):
            server.index()
    with Triton(tmp_path, models=["square"]) as again:
        assert square(again) == 9.0


@pytest.mark.quick
def test_the_owner_killed_takes_the_server_along(tmp_path: Path) -> None:
    make_square(tmp_path)
    program = textwrap.dedent(
        f"""
        import time
        from workbook.server import Triton
        server = Triton({str(tmp_path)!r}, models=["square"]).start()
        print(server.pid, flush=True)
        time.sleep(600)
        """
    )
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner:
        pid = int(owner.stdout.readline())
        owner.kill()
    assert wait_until(lambda: not psutil.pid_exists(pid))


def test_guard_and_server_killed_together_are_cleared_by_the_next_start(tmp_path: Path) -> None:
    make_square(tmp_path)
    server = Triton(tmp_path, models=["square"]).start()
    assert server._guard is not None
    assert server.pid is not None
    regions = shared_memory(server)
    os.kill(server._guard.pid, signal.SIGSTOP)  # so that it cannot clean up in between
    os.kill(server.pid, signal.SIGKILL)
    os.kill(server._guard.pid, signal.SIGKILL)
    server._guard.wait()
    assert regions
    with Triton(tmp_path, models=["square"]) as again:
        assert square(again) == 9.0
        assert not any(r.exists() for r in regions)
    server.stop()


def test_a_remembered_server_is_found_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TRITON_URL", raising=False)
    (tmp_path / "home").mkdir()
    make_square(tmp_path / "models")
    server = Triton(tmp_path / "models").start(detach=True, remember=True)
    try:
        found = connect()
        assert found.url == server.url
        assert found.repository == tmp_path / "models"
        found.load("square")
        assert square(found) == 9.0
    finally:
        record = run_folders.current()
        assert record is not None
        run_folders.end(record)
    assert run_folders.current() is None
    assert not list(paths.state("run").iterdir())


def test_a_server_that_has_ended_is_not_found_while_its_guard_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard runs a moment longer, to remove what the server has left."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    make_square(tmp_path / "models")
    with Triton(tmp_path / "models").start(remember=True) as server:
        record = run_folders.current()
        assert record is not None
        assert record.is_listening()
        assert server._guard is not None
        pidfile = Path(record.run) / run_folders.PIDFILE
        assert pidfile.is_file()
        os.kill(record.pid, signal.SIGTERM)  # nobody starts it again
        assert wait_until(lambda: not pidfile.exists())
        assert run_folders.current() is None
        assert not record.is_listening()


def test_a_remembered_server_that_is_killed_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restarted server has the same models and address; three restarts in a minute work."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    make_square(tmp_path / "models")
    make_square(tmp_path / "models", "at_start")
    make_square(tmp_path / "models", "gone")
    server = Triton(tmp_path / "models", models=["at_start", "gone"]).start(remember=True)
    with server:
        server.load("square")
        server.unload("gone")
        record = run_folders.current()
        assert record is not None
        for turn in range(3):
            before = record.process()
            os.kill(before, signal.SIGKILL)
            assert wait_until(lambda: record.process() != before and record.is_listening())  # noqa: B023
            assert wait_until(lambda: server.ready("square") and server.ready("at_start"))
            assert square(server) == 9.0
            assert not server.ready("gone")
            assert run_folders.current() == record
            assert server.pid == record.process()
            line = ". It is started again with its models.\n"
            assert server.log_text().count(line) == turn + 1
        (sentence,) = server_log.sentences(server.log_text())
        assert re.fullmatch(
            r"The server has ended \(signal 9 \(SIGKILL\), 3 times, last at \d\d:\d\d:\d\d\), "
            r"and was started again\.",
            sentence,
        )
        os.kill(record.process(), signal.SIGKILL)
        assert wait_until(lambda: not (Path(record.run) / run_folders.PIDFILE).exists())
        with pytest.raises(ServerError, match=r"signal 9 \(SIGKILL\), at [\d:]+\. Its log"):
            server.index()


def test_two_that_look_for_servers_at_once_see_no_server_in_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    folder, lock = run_folders.new("dead")
    assert run_folders._is_guarded(folder)
    os.close(lock)
    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(lambda _: run_folders._is_guarded(folder), range(4000)))


def test_a_newer_servers_record_outlives_the_end_of_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    make_square(tmp_path / "models")
    Triton(tmp_path / "models").start(detach=True, remember=True)
    old = run_folders.current()
    assert old is not None
    with Triton(tmp_path / "models").start(remember=True) as newer:
        run_folders.end(old)
        found = run_folders.current()
        assert found is not None
        assert found.url == newer.url


def test_triton_url_is_used_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    with Triton(tmp_path) as server:
        monkeypatch.setenv("TRITON_URL", server.url)
        monkeypatch.setenv("TRITON_GRPC_URL", server.grpc_url)
        monkeypatch.setenv("TRITON_REPOSITORY", str(tmp_path))
        found = connect()
        assert (found.url, found.grpc_url, found.repository) == (
            server.url,
            server.grpc_url,
            tmp_path,
        )
    with pytest.raises(ServerError) as caught:
        connect()
    assert caught.value.where == "TRITON_URL"
    monkeypatch.setenv("TRITON_URL", "not an address")
    with pytest.raises(ServerError, match="not the address"):
        connect()


def test_ipv6_addresses_are_written_as_such() -> None:
    server = Server("http://[::1]:9000")
    assert server.url == "http://[::1]:9000"
    assert server.grpc_url == "[::1]:9001"


def test_the_assembled_backends_are_real_files_and_include_every_stand_in() -> None:
    place = assemble.find()
    assert (place.backends / "python" / "triton_python_backend_stub").is_file()
    assert not [p for p in place.backends.rglob("*") if p.is_symlink()]
    for model in assemble.STAND_INS.glob("*/model.py"):
        assert (place.backends / model.parent.name / "model.py").is_file()
    assert assemble.find().backends == place.backends


def test_the_thrifty_settings_give_way_to_the_readers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENT_NOEPOLL", raising=False)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=50")
    with Triton(tmp_path) as server:
        environment = psutil.Process(server.pid).environ()
    assert environment["EVENT_NOEPOLL"] == "1"
    assert environment["GLIBC_TUNABLES"] == "glibc.malloc.tcache_count=50"


LIVES = """
import os
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.diary = Path(args["model_repository"]).parent / "diary"
        with self.diary.open("a") as file:
            file.write(f"{args['model_instance_name']} {os.environ.get('LD_PRELOAD')}\\n")

    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("y", pb_utils.get_input_tensor_by_name(r, "x").as_numpy())]
            )
            for r in requests
        ]

    def finalize(self):
        with self.diary.open("a") as file:
            file.write("finalize\\n")
"""


def mapped(server: Triton) -> set[str]:
    """The names of the files that are mapped into the server's memory."""
    return {Path(m.path).name for m in psutil.Process(server.pid).memory_maps()}


@pytest.mark.parametrize("others", [None, "libm.so.6"])
def test_loads_are_hastened_and_models_end_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: str | None
) -> None:
    """The preloaded library reaches the server, no model, and no instance's end.

    The model's name is that of another's instance, which the library could take for a model.
    """
    if others:
        monkeypatch.setenv("LD_PRELOAD", others)
    else:
        monkeypatch.delenv("LD_PRELOAD", raising=False)
    for name in ("lives", "lives_0_0"):
        folder = make_square(tmp_path, name)
        (folder / "1" / "model.py").write_text(LIVES)
    diary = tmp_path / "diary"
    with Triton(tmp_path) as server:
        assert "preload.so" in mapped(server)
        for _ in range(3):
            for name in ("lives", "lives_0_0"):
                (tmp_path / name / "1" / "model.py").write_text(LIVES)  # else it is not reloaded
                server.load(name)
                assert square(server, name) == 3.0
        for name in ("lives", "lives_0_0"):
            server.unload(name)
        assert wait_until(lambda: diary.read_text().count("finalize") == 6)
    begun = [line for line in diary.read_text().splitlines() if line != "finalize"]
    assert sorted(begun) == sorted(
        [f"{name}_0_0 {others}" for name in ("lives", "lives_0_0") for _ in range(3)]
    )


@pytest.mark.parametrize("compiler", [None, "/bin/false"])
def test_without_a_compiler_the_server_does_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str | None
) -> None:
    with_one = assemble.find()
    assert with_one.preload == with_one.backends / "preload.so"
    assert (with_one.backends / "python" / "libtriton_python_backend.so").exists()
    monkeypatch.setattr(build.shutil, "which", lambda name: compiler)
    without = assemble.find()
    assert without.preload is None
    libraries = {p.name for p in without.backends.rglob("*.so")}
    assert libraries == {"libtriton_python.so"}
    make_square(tmp_path)
    with Triton(tmp_path) as server:
        server.load("square")
        assert square(server) == 9.0
