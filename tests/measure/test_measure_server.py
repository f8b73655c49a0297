"""perf, statistics, metrics and traces on a real server with the real perf_analyzer."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest

from workbook import measure
from workbook.common import paths
from workbook.common.errors import ServerError, WorkbookError
from workbook.measure import perf_install
from workbook.server import Triton

pytestmark = pytest.mark.server

CONFIG = """\
backend: "python"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
dynamic_batching { }
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
# It takes two milliseconds, so that requests queue up behind it and are batched.
MODEL = """\
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.002)
        inputs = [pb_utils.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * x)]) for x in inputs]
"""
STREAM_CONFIG = """\
backend: "python"
input [ { name: "n" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_INT32 dims: [ 1 ] } ]
model_transaction_policy { decoupled: true }
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
STREAM = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i in range(3):
                y = pb_utils.Tensor("y", np.array([i], np.int32))
                sender.send(pb_utils.InferenceResponse([y]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
#: Windows as short as perf_analyzer can use; any spread between them is accepted.
QUICK = {"interval_ms": 200, "stability": 1_000_000.0, "trials": 3}


def _place(repository: Path, name: str, config: str, model: str) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)
    (repository / name / "1" / "model.py").write_text(model)


@pytest.fixture(scope="module")
def loaded(server: Triton) -> Triton:
    """The module's server with `double` and the decoupled `stream`."""
    _place(server.repository, "double", CONFIG, MODEL)
    _place(server.repository, "stream", STREAM_CONFIG, STREAM)
    server.load("double")
    server.load("stream")
    return server


@pytest.mark.quick
def test_a_sweep_agrees_with_what_the_server_counted(loaded: Triton) -> None:
    before = measure.statistics(loaded, "double")
    table = measure.perf(
        loaded, "double", concurrency=[1, 8], input_data={"x": np.zeros(4, np.float32)}, **QUICK
    )
    between = measure.difference(before, measure.statistics(loaded, "double"))
    assert list(table["concurrency"]) == [1, 8]
    assert table["stable"].all()
    # Each execution sleeps 2 ms, whatever else the machine does.
    assert (table["compute_infer_ms"] >= 2.0).all()
    assert (table["p50_ms"] >= 2.0).all()
    assert (table["p99_ms"] >= table["p50_ms"]).all()
    assert table.loc[0, "throughput"] <= 500
    assert table.loc[0, "executions"] == table.loc[0, "inferences"]
    assert table.loc[1, "executions"] < table.loc[1, "inferences"]  # batched
    (row,) = between.to_dict("records")
    assert row["inferences"] >= table["inferences"].sum()  # the server also saw the warm-up
    assert row["batch_size"] > 1
    histogram = measure.batch_sizes(between)
    assert histogram["executions"].sum() == row["executions"]
    assert (histogram["executions"] * histogram["batch_size"]).sum() == row["inferences"]


def test_http_a_rate_and_client_batches(loaded: Triton) -> None:
    table = measure.perf(
        loaded.url, "double", rate=40, protocol="http", batch_size=4, input_data="zero", **QUICK
    )
    (row,) = table.to_dict("records")
    assert row["rate"] == 40
    assert row["inferences"] > 0
    assert row["inferences"] % 4 == 0
    assert 4 * row["executions"] <= row["inferences"] <= 8 * row["executions"]


def test_a_decoupled_model_streams(loaded: Triton) -> None:
    table = measure.perf(loaded, "stream", streaming=True, **QUICK)
    assert table.loc[0, "responses"] > 2 * table.loc[0, "throughput"]  # three for each request


def test_a_spread_too_wide_is_measured_and_marked(loaded: Triton) -> None:
    table = measure.perf(loaded, "double", interval_ms=150, stability=1e-9, trials=3)
    assert not table.loc[0, "stable"]
    assert table.loc[0, "throughput"] > 0


@pytest.mark.parametrize(
    ("arguments", "words", "todo"),
    [
        ({"model": "nope"}, "unknown model", "Load the model"),
        ({"model": "double", "version": 7}, "version 7 is not found", "Load the model"),
        ({"model": "double", "batch_size": 9}, "batch-size must be <= 8", "max_batch_size"),
        (
            {"model": "double", "input_data": {"z": np.zeros(4, np.float32)}},
            "missing tensor x",
            "input_data",
        ),
        (
            {"model": "double", "input_data": {"x": np.zeros(3, np.float32)}},
            "shape of .3.",
            "input_data",
        ),
        ({"model": "double", "input_data": "no/such/file"}, "not there", "existing file"),
        ({"model": "double", "options": ["--nonsense"]}, "unrecognized option", "options"),
        ({"model": "stream"}, "Decoupled models", "streaming=True"),
        ({"model": "double", "concurrency": 0}, "no level of load", "above zero"),
        ({"model": "double", "concurrency": []}, "no level of load", "above zero"),
    ],
)
def test_what_cannot_be_measured_says_what_to_do(
    loaded: Triton, arguments: dict[str, object], words: str, todo: str
) -> None:
    with pytest.raises(WorkbookError, match=words) as caught:
        measure.perf(loaded, **arguments)  # type: ignore[arg-type]
    assert todo in caught.value.todo


def test_no_server_says_how_to_start_one(loaded: Triton) -> None:
    for protocol in ("grpc", "http"):
        with pytest.raises(WorkbookError) as caught:
            measure.perf("http://localhost:9", "double", protocol=protocol)
        assert "workbook serve" in caught.value.todo
    with pytest.raises(ServerError):
        measure.statistics("http://localhost:9")


def test_metrics_count_the_requests(loaded: Triton) -> None:
    def successes() -> float:
        table = measure.metrics(loaded)
        own = (table["metric"] == "nv_inference_request_success") & (table["model"] == "double")
        return float(table.loc[own, "value"].iloc[0])

    before = successes()
    body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
    for _ in range(3):
        loaded.request("POST", "/v2/models/double/infer", json=body)
    assert successes() == before + 3


def test_a_trace_of_the_real_server(tmp_path: Path) -> None:
    models = tmp_path / "models"
    _place(models, "double", CONFIG, MODEL)
    file = tmp_path / "trace.json"
    trace = {"file": file, "rate": 1, "level": "TIMESTAMPS", "count": -1}
    with Triton(models, models=["double"], trace=trace) as server:
        body = {"id": "first", "inputs": [
            {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
        ]}  # fmt: skip
        server.request("POST", "/v2/models/double/infer", json=body)
        server.request("POST", "/v2/models/double/infer", json=body)
    table = measure.traces(file)
    spans = set(measure.trace_tables.SPANS)
    assert {trace: set(own["span"]) for trace, own in table.groupby("trace")} == {
        1: spans, 2: spans
    }  # fmt: skip
    assert set(table["model"]) == {"double"}
    infer = table[table["span"] == "compute_infer"]
    assert (infer["ms"] >= 2.0).all()
    parts = table[table["span"].isin(["queue", "compute_input", "compute_infer", "compute_output"])]
    whole = table[table["span"] == "request"].set_index("trace")["ms"]
    assert (parts.groupby("trace")["ms"].sum() <= whole).all()
    half = file.read_bytes()[: file.stat().st_size // 2]
    (tmp_path / "half.json").write_bytes(half)
    assert 0 < len(measure.traces(tmp_path / "half.json")) < len(table)


def test_the_log_frequency_begins_a_new_trace_file(tmp_path: Path) -> None:
    models = tmp_path / "models"
    _place(models, "double", CONFIG, MODEL)
    trace = {"file": tmp_path / "t", "log-frequency": 1, "rate": 1, "level": "TIMESTAMPS"}
    body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
    with Triton(models, models=["double"], trace=trace) as server:
        for _ in range(2):
            server.request("POST", "/v2/models/double/infer", json=body)
    assert {"t.0", "t.1"} <= {p.name for p in tmp_path.iterdir()}


def test_perf_analyzer_is_kept_and_its_links_are_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = perf_install.install()
    assert home.parent == paths.state("tools")
    assert sorted(p.name for p in home.iterdir()) == [
        "LICENSE.txt", "libb64.so.0d", "libcudart.so.12", "perf_analyzer"
    ]  # fmt: skip
    assert (home / "perf_analyzer").stat().st_mode & stat.S_IXUSR
    copy = tmp_path / ".workbook" / "tools" / home.name
    copy.mkdir(parents=True)
    (copy / "perf_analyzer").hardlink_to(home / "perf_analyzer")
    (copy / "libb64.so.0d").symlink_to("/nowhere/at/all")
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    monkeypatch.setattr(perf_install, "_fetch", pytest.fail)  # what is there is not fetched again
    assert perf_install.install() == copy
    assert (copy / "libb64.so.0d").is_file()
    assert (copy / "libcudart.so.12").is_file()


def test_without_a_network_the_fetch_says_what_to_do_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(WorkbookError, match="could not be fetched") as caught:
        perf_install.install()
    assert "network" in caught.value.todo
    assert list((tmp_path / ".workbook" / "tools").iterdir()) == []


def test_a_wheel_that_is_not_the_pinned_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "tritonclient-2.51.0-py3-none-any.whl"
    wheel.write_bytes(json.dumps("not a wheel").encode())
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(WorkbookError) as caught:
        perf_install.install()
    assert "HASH" in caught.value.where.upper()
