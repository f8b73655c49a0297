"""A server that its guard restarts answers at once; its models are loaded in the background."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from compiled import needs_compiler
from fault_models import until

from tests.server.test_triton import CONFIG, SQUARE, make_square, square
from workbook.common.errors import ServerError
from workbook.server import (
    Server,
    Triton,
    all_models,
    connect,
    restart_progress,
    run_folders,
    server_log,
)
from workbook.server.connection import Control

pytestmark = [pytest.mark.server, needs_compiler]

#: Before `execute`: waits while the file `gate` is there, and ends the server while `armed` is.
SLOW = """
    def initialize(self, args):
        import os, psutil
        home = {home!r}
        while os.path.exists(home + "/gate"):
            time.sleep(0.05)
        if os.path.exists(home + "/armed"):
            (server,) = [p for p in psutil.Process().parents() if p.name() == "tritonserver"]
            server.kill()

"""


def make_slow(home: Path, name: str) -> None:
    model = make_square(home / "models", name) / "1" / "model.py"
    model.write_text(
        SQUARE.replace("    def execute", SLOW.format(home=str(home)) + "    def execute")
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    monkeypatch.delenv("TRITON_URL", raising=False)
    yield tmp_path
    for name in ("gate", "armed"):
        (tmp_path / name).unlink(missing_ok=True)


def kill(server: Triton) -> int:
    """End the server as a crash does; returns its process id."""
    record = run_folders.current()
    assert record is not None
    pid = record.process()
    os.kill(pid, signal.SIGKILL)
    until(lambda: record.process() != pid, "its guard has started it again")
    return pid


def test_the_quick_models_answer_while_a_slow_one_is_loaded(home: Path) -> None:
    make_slow(home, "slow")
    for name in ("a", "by_hand", "gone", "gone_meanwhile"):
        make_square(home / "models", name)
    with Triton(home / "models").start(remember=True) as server:
        assert not all_models.load_all(server, ["slow", "a", "gone", "gone_meanwhile"])
        config = server.config("a") | {"name": "by_hand", "max_batch_size": 2}
        server.load("by_hand", config=config)
        server.unload("gone")
        assert restart_progress.progress(server) is None
        (home / "gate").touch()
        kill(server)
        until(lambda: server.ready("a"), "a is ready")
        assert square(server, "a") == 9.0
        assert not server.ready("slow")
        until(lambda: server.ready("by_hand"), "by_hand is ready")
        until(lambda: server.ready("gone_meanwhile"), "all but the slow one are ready")
        found = restart_progress.progress(server)
        assert found is not None
        assert (found.loaded, found.waiting) == (3, ("slow",))
        assert found.why.startswith("signal 9 (SIGKILL), at ")
        assert str(found).endswith("is being started again: 3 of 4 models are loaded.")
        assert server.config("by_hand")["max_batch_size"] == 8, "with the config of its folder"
        # What the reader does meanwhile stays: the restart neither loads nor unloads this model.
        server.unload("gone_meanwhile")
        (home / "gate").unlink()
        until(lambda: restart_progress.progress(server) is None, "all are loaded")
        assert server.ready("slow")
        assert not server.ready("gone")
        assert not server.ready("gone_meanwhile")
        assert server_log.sentences(server.log_text()) == [
            f"The server has ended ({found.why}), and was started again."
        ]


@pytest.mark.quick
def test_a_model_that_ends_the_server_while_it_is_loaded_is_left_out(home: Path) -> None:
    make_slow(home, "bad")
    for name in ("a", "b", "c"):
        make_square(home / "models", name)
    with Triton(home / "models").start(remember=True) as server:
        for name in ("a", "bad", "b", "c"):
            server.load(name)
        (home / "armed").touch()
        kill(server)
        words = "bad was not loaded again: the server ended while it was loaded."
        until(lambda: words in server_log.sentences(server.log_text()), "bad is left out")
        until(lambda: restart_progress.progress(server) is None, "the others are loaded")
        assert [name for name in ("a", "bad", "b", "c") if server.ready(name)] == ["a", "b", "c"]
        assert server.log_text().count("is started again") <= 3
        (home / "armed").unlink()
        server.load("bad")
        assert square(server, "bad") == 9.0


def test_a_server_that_has_crashed_and_does_not_end(home: Path) -> None:
    """The server has logged its crash and hangs, because its heap was damaged."""
    make_square(home / "models", "a")
    with Triton(home / "models").start(remember=True) as server:
        server.load("a")
        record = run_folders.current()
        assert record is not None
        assert server.log is not None
        before = record.process()
        os.kill(before, signal.SIGSTOP)
        with server.log.open("a") as log:
            log.write("malloc(): unaligned fastbin chunk detected\nSignal (6) received.\n")
        until(lambda: record.process() != before, "its guard has started it again")
        until(lambda: server.ready("a"), "a is ready")
        assert square(server, "a") == 9.0


@pytest.mark.parametrize("control", ["none", "poll"])
def test_without_explicit_control_it_says_how_far_it_is(home: Path, control: Control) -> None:
    """Triton itself loads all models then, before it opens its ports."""
    make_slow(home, "slow")
    make_square(home / "models", "a")
    with Triton(home / "models", control=control).start(remember=True) as server:
        (home / "gate").touch()
        kill(server)

        def message() -> str:
            with pytest.raises(ServerError) as caught:
                server.index()
            assert "serve --detach" not in str(caught.value)
            return caught.value.what

        words = "and is being started again: 1 of 2 models are loaded."
        until(lambda: message().endswith(words), "a is loaded")
        (home / "gate").unlink()
        until(lambda: server.ready("slow"), "it answers")
        assert restart_progress.progress(server) is None
        assert square(server, "a") == 9.0


def test_one_that_never_gets_there_is_given_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that ends the server at each start causes no endless loop of restarts.

    The log is kept, and the next command says where it is.
    """
    make_slow(home, "bad")
    with Triton(home / "models", control="none").start(remember=True):
        (home / "armed").touch()
        record = run_folders.current()
        assert record is not None
        assert run_folders.log_of_ended() is None
        os.kill(record.process(), signal.SIGKILL)
        until(lambda: run_folders.current() is None, "it is given up")
        log = home / ".workbook" / "last-server.log"
        assert log.read_text().count("is started again") == 3
        monkeypatch.setattr(Server, "live", lambda _: False)  # another one on the default port
        with pytest.raises(ServerError) as caught:
            connect()
        assert "The server has ended: signal 9 (SIGKILL), at " in caught.value.what
        assert f"Its log is kept: {log}. Its log ends with: " in caught.value.what
    run_folders.end(record)  # as `workbook stop` does for one that still runs
    with pytest.raises(ServerError, match=r"^No Triton server is running\.\n"):
        connect()


def test_the_models_of_a_server(tmp_path: Path) -> None:
    noted = tmp_path / "loaded"
    words = ["tritonserver", "--model-control-mode=explicit", "--load-model=a", "--load-model=b"]
    orders = {"argv": words, "loaded": str(noted)}
    assert restart_progress.models(orders) == ["a", "b"]  # nothing has been loaded since
    noted.write_text("+c\n-b\n+d\n-d\n-never\n+c\n")
    assert restart_progress.models(orders) == ["a", "c"]


def test_a_config_that_polling_refuses_and_a_version_that_is_gone(tmp_path: Path) -> None:
    folder = make_square(tmp_path, "m")
    (folder / "config.pbtxt").write_text(CONFIG + "version_policy: { all {} }")
    second = folder / "2" / "model.py"
    second.parent.mkdir()
    second.write_text("def broken(:\n")

    def status() -> all_models.ModelStatus:
        return all_models.status(server)[0]

    with Triton(tmp_path, control="poll") as server:
        until(lambda: "SyntaxError" in status().reason, "the broken version has its reason")
        second.unlink()
        second.parent.rmdir()
        until(lambda: status().versions == {1: "READY"}, "it is gone")
        assert status().reason == ""
        (folder / "config.pbtxt").write_text(CONFIG + "nonsense: 1\n")
        until(lambda: 'no field named "nonsense"' in status().reason, "the config is refused")
        assert status().state == "READY"
        assert status().reason.startswith("The changed config is not used: config.pbtxt, 7:9: ")
        (folder / "config.pbtxt").write_text(CONFIG)
        until(lambda: status().reason == "", "it is corrected")
