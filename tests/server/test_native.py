"""A server with the compiled helpers and one without (`plain`) give the same answers, errors,
configs and statistics."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from onnx import TensorProto, helper
from onnx_graphs import graph
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from workbook.server import Triton, assemble, run_folders
from workbook.server.tritonserver_command import SPEED_VARIABLES

pytestmark = pytest.mark.server

ONE = "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
ONNX = 'platform: "onnxruntime_onnx"\n' + ONE
#: Three requests make a batch; fewer wait for two seconds.
BATCHER = """\
max_batch_size: 6
dynamic_batching { preferred_batch_size: [ 3 ] max_queue_delay_microseconds: 2000000 }
"""
ECHO = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        x = [pb_utils.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", part)]) for part in x]
"""
Inputs = dict[str, np.ndarray[Any, Any]]


def matrix_product() -> bytes:
    """y = softmax(x W), with float32 numbers whose sums depend on their order."""
    weights = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32)
    return graph(
        [
            helper.make_node("MatMul", ["x", "W"], ["h"]),
            helper.make_node("Softmax", ["h"], ["y"]),
        ],
        [("x", TensorProto.FLOAT, ["n", 4])],
        [("y", TensorProto.FLOAT, ["n", 16])],
        [onnx.numpy_helper.from_array(weights, "W")],
    )


def two_of_each() -> bytes:
    """Inputs and outputs of two types, without a batch dimension."""
    return graph(
        [
            helper.make_node("Exp", ["a"], ["e"]),
            helper.make_node("Add", ["b", "b"], ["twice"]),
        ],
        [("a", TensorProto.DOUBLE, ["n", 2]), ("b", TensorProto.INT64, [3])],
        [("e", TensorProto.DOUBLE, ["n", 2]), ("twice", TensorProto.INT64, [3])],
    )


def table_of_three() -> bytes:
    """Fails at an index above 2."""
    return graph(
        [helper.make_node("Gather", ["t", "i"], ["o"])],
        [("i", TensorProto.INT64, ["n", 1])],
        [("o", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor("t", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])],
    )


def one_row() -> bytes:
    """Gives one row, whatever the batch."""
    return graph(
        [helper.make_node("Slice", ["x", "zero", "one", "zero"], ["y"])],
        [("x", TensorProto.FLOAT, ["n", 4])],
        [("y", TensorProto.FLOAT, ["m", 4])],
        [
            helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
            helper.make_tensor("one", TensorProto.INT64, [1], [1]),
        ],
    )


def write_models(repository: Path) -> None:
    from sklearn.ensemble import RandomForestClassifier
    from treelite import sklearn

    def io(kind: str, name: str, data_type: str, *dims: int) -> str:
        return f'{kind} [ {{ name: "{name}" data_type: {data_type} dims: {list(dims)} }} ]\n'

    x = io("input", "x", "TYPE_FP32", 4)
    rows = x + io("output", "y", "TYPE_FP32", 16)
    indices = io("input", "i", "TYPE_INT64", 1) + io("output", "o", "TYPE_FP32", 1)
    models: dict[str, tuple[str, str, bytes]] = {
        "product": (ONNX + "max_batch_size: 8\n" + rows, "model.onnx", matrix_product()),
        "completed": (ONNX, "model.onnx", matrix_product()),
        "batched": (ONNX + BATCHER + rows, "model.onnx", matrix_product()),
        "two": (ONNX, "model.onnx", two_of_each()),
        "table": (ONNX + "max_batch_size: 6\n" + indices, "model.onnx", table_of_three()),
        "tables": (ONNX + BATCHER + indices, "model.onnx", table_of_three()),
        "one_row": (
            ONNX + "max_batch_size: 8\n" + x + io("output", "y", "TYPE_FP32", 4),
            "model.onnx",
            one_row(),
        ),
        "echo": (
            f'backend: "python"\nmax_batch_size: 8\n{ONE}{x}' + io("output", "y", "TYPE_FP32", 4),
            "model.py",
            ECHO.encode(),
        ),
        "forest": (
            f'backend: "fil"\nmax_batch_size: 8\n{ONE}'
            + io("input", "input__0", "TYPE_FP32", 4)
            + io("output", "output__0", "TYPE_FP32", 2)
            + "".join(
                f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
                for key, value in (
                    ("model_type", "treelite_checkpoint"),
                    ("output_class", "true"),
                    ("predict_proba", "true"),
                    ("threshold", "0.5"),
                )
            ),
            "",
            b"",
        ),
    }
    for name, (config, file, content) in models.items():
        folder = repository / name / "1"
        folder.mkdir(parents=True)
        (folder.parent / "config.pbtxt").write_text(config)
        if file:
            (folder / file).write_bytes(content)
    trees = RandomForestClassifier(5, max_depth=3, random_state=0)
    trees.fit(np.random.default_rng(0).random((60, 4)), np.arange(60) % 2)
    sklearn.import_model(trees).serialize(repository / "forest" / "1" / "checkpoint.tl")


@dataclasses.dataclass
class Pair:
    """Two servers on the same repository: `native` with the compiled helpers, `plain` without."""

    native: Triton
    plain: Triton

    def both(self, do: Callable[[Triton], Any]) -> tuple[Any, Any]:
        with ThreadPoolExecutor(2) as pool:
            native, plain = pool.map(do, (self.native, self.plain))
        return native, plain


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    repository = tmp_path_factory.mktemp("models")
    write_models(repository)
    names = [folder.name for folder in repository.iterdir()]
    with (
        Triton(repository, models=names, start_timeout=300) as native,
        Triton(repository, models=names, plain=True, start_timeout=300) as plain,
    ):
        yield Pair(native, plain)


Answer = dict[str, tuple[str, tuple[int, ...], bytes]] | tuple[str, str]


def ask(
    server: Triton, protocol: str, model: str, inputs: Inputs, outputs: tuple[str, ...] = ()
) -> Answer:
    """Each output's type, shape and bytes; or an error's status and message."""
    client = {"http": httpclient, "grpc": grpcclient}[protocol]
    given = []
    for name, array in inputs.items():
        given.append(client.InferInput(name, array.shape, np_to_triton_dtype(array.dtype)))
        given[-1].set_data_from_numpy(array)
    wanted = [client.InferRequestedOutput(name) for name in outputs] or None
    connection = server.http_client() if protocol == "http" else server.grpc_client()
    with connection:
        try:
            result = connection.infer(model, given, outputs=wanted)
        except InferenceServerException as error:
            return str(error.status()), error.message()
    response = result.get_response()
    listed = response["outputs"] if protocol == "http" else response.outputs
    names = [entry["name"] if protocol == "http" else entry.name for entry in listed]
    arrays = {name: result.as_numpy(name) for name in names}
    return {n: (str(a.dtype), a.shape, a.tobytes()) for n, a in arrays.items()}


def counts(server: Triton, model: str) -> dict[str, Any]:
    """The counts of the statistics, without times, as soon as they stay the same for 0.3 s.

    The server counts an execution a moment after it has answered.
    """
    found = _counts(server, model)
    while True:
        time.sleep(0.3)
        before, found = found, _counts(server, model)
        if found == before:
            return found


def _counts(server: Triton, model: str) -> dict[str, Any]:
    (entry,) = server.request("GET", f"/v2/models/{model}/stats")["model_stats"]
    return {
        "inference_count": entry["inference_count"],
        "execution_count": entry["execution_count"],
        **{name: entry["inference_stats"][name]["count"] for name in ("success", "fail", "queue")},
        "batches": {
            batch["batch_size"]: batch["compute_infer"]["count"] for batch in entry["batch_stats"]
        },
    }


def rows(count: int, width: int = 4, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def indices(*values: int) -> Inputs:
    return {"i": np.array(values, np.int64)[:, None]}


A, B = np.array([[0.1, 0.2], [3, -4]]), np.array([1, 2, 3], np.int64)
#: Requests that are answered: model, inputs, requested outputs (all if none is named).
GOOD: list[tuple[str, Inputs, tuple[str, ...]]] = [
    ("product", {"x": rows(1)}, ()),
    ("product", {"x": rows(8)}, ("y",)),
    ("completed", {"x": rows(4)}, ()),
    ("two", {"a": A, "b": B}, ()),
    ("two", {"a": A, "b": B}, ("twice",)),
    ("two", {"a": A, "b": B}, ("twice", "e")),
    ("two", {"a": A[:0], "b": B}, ("e",)),
    ("table", indices(2, 0), ()),
    ("one_row", {"x": rows(1)}, ()),
    ("echo", {"x": rows(3)}, ()),
    ("forest", {"input__0": rows(5)}, ()),
]
#: Requests that are refused, and a part of the message. The first ones never reach a model; the
#: others fail in the model.
REFUSED: list[tuple[str, Inputs, tuple[str, ...], str]] = [
    ("product", {"x": rows(1, 5)}, (), "unexpected shape for input 'x'"),
    ("product", {"x": rows(9)}, (), "batch-size must be <= 8"),
    ("product", {"X": rows(1)}, (), "unexpected inference input 'X'"),
    ("product", {"x": rows(1).astype(np.float64)}, (), "data-type is 'FP64'"),
    ("product", {"x": rows(1)}, ("z",), "unexpected inference output 'z'"),
    ("two", {"a": A}, (), "expected 2 inputs but got 1"),
    ("nobody", {"x": rows(1)}, (), "unknown model: 'nobody'"),
    ("echo", {"x": rows(1, 3)}, (), "unexpected shape for input 'x'"),
    ("forest", {"input__0": rows(1, 3)}, (), "unexpected shape for input 'input__0'"),
]
FAILED: list[tuple[str, Inputs, tuple[str, ...], str]] = [
    ("table", indices(0, 7), (), "onnx runtime error 2: "),
    ("one_row", {"x": rows(2)}, (), "expected batch size of at least 2 in model output, got 1"),
]


def test_which_model_runs_where(pair: Pair) -> None:
    """The premise: one server runs the ONNX models itself, the other one does not."""
    assert pair.native.log_text().count("requests inside the server") == 7
    assert "requests inside the server" not in pair.plain.log_text()
    assert pair.plain.log_text().count("requests in a process of their own") == 7


def test_a_plain_server_has_no_helper_no_variable_and_no_check(pair: Pair) -> None:
    for server, helped in ((pair.native, True), (pair.plain, False)):
        process = psutil.Process(server.pid)
        mapped = {Path(m.path).name for m in process.memory_maps()}
        assert ("preload.so" in mapped) == helped
        assert ("libtriton_python_backend.so" in mapped) == helped
        environment = process.environ()
        for name, value in SPEED_VARIABLES.items():
            wanted = value if helped else None
            assert environment.get(name) == os.environ.get(name, wanted)
    plain = assemble.find(plain=True).backends
    assert not (plain / "python" / "triton_workbook_checks.py").exists()
    wheel = assemble.find().binary.parents[1] / "backends" / "python"
    for name in ("libtriton_python.so", "triton_python_backend_utils.py"):
        assert (plain / "python" / name).read_bytes() == (wheel / name).read_bytes()


@pytest.mark.quick
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_same_answers_to_the_bit(pair: Pair, protocol: str) -> None:
    for model, inputs, outputs in GOOD:
        native, plain = pair.both(lambda s: ask(s, protocol, model, inputs, outputs))  # noqa: B023
        assert native == plain, (model, outputs)
        assert isinstance(native, dict), (model, native)


@pytest.mark.quick
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize(("model", "inputs", "outputs", "message"), REFUSED + FAILED)
def test_the_same_errors(
    pair: Pair, protocol: str, model: str, inputs: Inputs, outputs: tuple[str, ...], message: str
) -> None:
    native, plain = pair.both(lambda server: ask(server, protocol, model, inputs, outputs))
    assert isinstance(native, tuple), native
    assert native == plain
    assert message in native[1]


def test_the_same_configs(pair: Pair) -> None:
    for entry in pair.native.index():
        native, plain = pair.both(lambda s: s.config(entry["name"]))  # noqa: B023
        assert native == plain


def together(server: Triton, model: str, requests: list[Inputs]) -> list[Answer]:
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda inputs: ask(server, "grpc", model, inputs), requests))


def test_a_batch_of_several_requests(pair: Pair) -> None:
    before = pair.both(lambda server: counts(server, "batched"))
    requests = [{"x": rows(1, seed=seed)} for seed in range(3)]
    native, plain = pair.both(lambda server: together(server, "batched", requests))
    assert native == plain
    assert all(isinstance(answer, dict) for answer in native)
    after = pair.both(lambda server: counts(server, "batched"))
    for old, new in zip(before, after, strict=True):
        assert new["inference_count"] - old["inference_count"] == 3
        assert new["execution_count"] - old["execution_count"] == 1
        assert new["batches"].get(3, 0) - old["batches"].get(3, 0) == 1
    assert after[0] == after[1]


def test_one_bad_request_of_a_batch_fails_alone(pair: Pair) -> None:
    requests = [indices(0), indices(7), indices(2)]
    native, plain = pair.both(lambda server: together(server, "tables", requests))
    assert native == plain
    assert [type(answer) for answer in native] == [dict, tuple, dict]
    for server in (pair.native, pair.plain):
        counted = counts(server, "tables")
        assert (counted["execution_count"], counted["batches"]) == (1, {3: 1})


def test_the_same_statistics(pair: Pair) -> None:
    """A model's counts after a number of requests, one after the other."""
    models = sorted({model for model, *_ in GOOD})

    def run(server: Triton) -> dict[str, Any]:
        before = {model: counts(server, model) for model in models}
        for protocol, (model, inputs, outputs) in itertools.product(("http", "grpc"), GOOD):
            ask(server, protocol, model, inputs, outputs)
        for model, inputs, outputs, _ in REFUSED:
            ask(server, "http", model, inputs, outputs)
        after = {model: counts(server, model) for model in models}
        return {
            model: {
                key: value - before[model][key]
                for key, value in after[model].items()
                if key != "batches"
            }
            for model in models
        }

    native, plain = pair.both(run)
    assert native == plain
    assert native["product"]["inference_count"] == 18
    assert native["product"]["execution_count"] == native["product"]["success"] == 4
    assert all(entry["fail"] == 0 for entry in native.values())


def test_a_request_that_fails_in_the_model_is_counted_differently(pair: Pair) -> None:
    """The one difference between the two servers.

    A model inside the server counts it as failed, as NVIDIA's own backends do. A stand-in answers
    it with an error, which Triton's Python backend counts like any other answer.
    """

    def run(server: Triton) -> dict[str, int]:
        before = counts(server, "table")
        answer = ask(server, "http", "table", indices(7))
        assert isinstance(answer, tuple)
        after = counts(server, "table")
        assert after["batches"][1] - before["batches"].get(1, 0) == 1
        return {key: after[key] - before[key] for key in after if key != "batches"}

    native, plain = pair.both(run)
    assert native == {
        "inference_count": 0,
        "execution_count": 1,
        "success": 0,
        "fail": 1,
        "queue": 0,
    }
    assert plain == {
        "inference_count": 1,
        "execution_count": 1,
        "success": 1,
        "fail": 0,
        "queue": 1,
    }


def test_requests_that_wait_while_their_model_is_unloaded(pair: Pair) -> None:
    """They are answered, and the next request is refused."""

    def run(server: Triton) -> tuple[Any, ...]:
        waiting = [{"x": rows(1, seed=seed)} for seed in range(2)]  # one short of a batch
        with ThreadPoolExecutor(1) as pool:
            answers = pool.submit(together, server, "batched", waiting)
            deadline = time.monotonic() + 30
            while pending(server, "batched") < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            server.unload("batched")
            result = answers.result()
        refused = ask(server, "http", "batched", waiting[0])
        server.load("batched")
        return result, refused, ask(server, "http", "batched", waiting[0])

    native, plain = pair.both(run)
    assert native == plain
    assert all(isinstance(answer, dict) for answer in [*native[0], native[2]])
    assert "is not ready" in native[1][1] or "no available versions" in native[1][1]


def pending(server: Triton, model: str) -> int:
    """How many requests wait in a model's queue."""
    import httpx

    text = httpx.get(server.metrics_url).text
    lines = [
        line
        for line in text.splitlines()
        if line.startswith("nv_inference_pending_request_count") and f'model="{model}"' in line
    ]
    return int(float(lines[0].split()[-1])) if lines else 0


def test_a_caller_s_variable_wins(tmp_path: Path) -> None:
    with Triton(tmp_path, environment={"EVENT_NOEPOLL": ""}) as server:
        environment = psutil.Process(server.pid).environ()
    assert environment["EVENT_NOEPOLL"] == ""
    assert environment["OPENBLAS_THREAD_TIMEOUT"] == "18"


def test_unused_assembled_folders_are_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    day_ago = time.time() - 2 * 24 * 3600
    models = tmp_path / "model_repository"
    models.mkdir()
    used = assemble.find(plain=True).backends
    with Triton(models, plain=True):
        home = used.parent
        for name in ("0123456789abcdef", "fedcba9876543210"):
            (home / name / "python").mkdir(parents=True)
        for folder in (used, home / "0123456789abcdef"):
            os.utime(folder, (day_ago, day_ago))
        made = assemble.find().backends  # the first of its kind in this checkout
        assert {p.name for p in home.iterdir()} == {used.name, made.name, "fedcba9876543210"}
    assert not run_folders.orders()
