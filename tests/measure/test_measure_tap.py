"""Taps count and pass on every byte; the table of processes and the bars show their data."""

from __future__ import annotations

import socket
import threading

import httpx
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbook import measure
from workbook.common.errors import WorkbookError
from workbook.server import Triton

MODEL = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for _ in requests]
"""
CONFIG = """
backend: "python"
input {{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] }}
output {{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }}
instance_group {{ count: {count} kind: KIND_CPU }}
"""


@settings(max_examples=25)
@given(message=st.binary(min_size=1, max_size=300_000))
def test_a_tap_passes_on_and_counts_every_byte(message: bytes) -> None:
    """A server that gives everything back, behind a tap."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def echo() -> None:
            connection, _ = listening.accept()
            with connection:
                while chunk := connection.recv(1 << 16):
                    connection.sendall(chunk)

        server = threading.Thread(target=echo)
        server.start()
        with measure.Tap(f"127.0.0.1:{listening.getsockname()[1]}") as tap:
            host, port = tap.address.split(":")
            with socket.create_connection((host, int(port))) as client:
                writer = threading.Thread(target=client.sendall, args=(message,))
                writer.start()
                got = b""
                while len(got) < len(message):
                    got += client.recv(1 << 16)
                writer.join()
            server.join(10)
            assert got == message
            assert (tap.sent, tap.received, tap.connections) == (len(message), len(message), 1)
            assert len(tap.traffic) == min(2 * len(message), 1 << 20)
            tap.reset()
            assert (tap.sent, tap.received, tap.connections, tap.traffic) == (0, 0, 0, b"")


@pytest.mark.server
def test_a_tap_counts_connections(server: Triton) -> None:
    with measure.Tap(server.url) as tap, httpx.Client() as client:
        for _ in range(3):
            assert client.get(f"http://{tap.address}/v2/health/live").status_code == 200
        assert tap.connections == 1
        httpx.get(f"http://{tap.address}/v2/health/live")
        assert tap.connections == 2
        assert b"/v2/health/live" in tap.traffic


@pytest.mark.server
def test_a_closed_tap_takes_no_connections(server: Triton) -> None:
    with measure.Tap(server.url) as tap:
        pass
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{tap.address}/v2/health/live")


@pytest.mark.server
def test_processes_are_the_server_its_fork_server_and_one_stub_per_instance(server: Triton) -> None:
    folder = server.repository / "some_model_2"
    (folder / "1").mkdir(parents=True)
    (folder / "1/model.py").write_text(MODEL)
    (folder / "config.pbtxt").write_text(CONFIG.format(count=2))
    server.load("some_model_2")
    table = measure.processes(server)
    assert list(table.process) == ["tritonserver", "fork server", "stub", "stub"]
    assert list(table.model) == ["", "", "some_model_2", "some_model_2"]
    assert table.pid[0] == server.pid
    assert (table.threads > 0).all()
    assert (table.memory_mb > 1).all()


@pytest.mark.server
def test_a_server_that_does_not_run_has_no_processes() -> None:
    with pytest.raises(WorkbookError, match="does not run"):
        measure.processes(Triton())


def test_bars_have_a_place_for_every_row() -> None:
    table = pd.DataFrame({"queue": [1.0, 2.0], "infer": [3.0, 400.0]}, index=["a", "b"])
    figure = measure.plot_bars(table, title="Time", below="ms")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert len(axes.patches) == 4
    assert [text.get_text().strip() for text in axes.texts] == ["4", "402"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["queue", "infer"]


def test_bars_of_nothing() -> None:
    with pytest.raises(WorkbookError, match="nothing to draw"):
        measure.plot_bars(pd.DataFrame(), title="Time")
