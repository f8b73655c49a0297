"""Inference as Triton's clients do it: JSON, binary, gRPC, one at a time and many."""

from __future__ import annotations

import gzip
import json
import queue
import shutil
import subprocess
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from client_waits import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc

from workbook.measure import Tap
from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]

A = np.arange(8, dtype=np.int32).reshape(2, 4)
B = np.full((2, 4), 10, dtype=np.int32)


@pytest.fixture(scope="module", autouse=True)
def _models(serve: Any) -> None:
    serve(
        *("add_sub", "square", "countdown", "echo", "greet", "scores", "about", "line"),
        *("bls", "bls_async", "pipeline"),
    )


def json_request() -> dict[str, Any]:
    return {
        "id": "7",
        "inputs": [
            {"name": "a", "shape": [2, 4], "datatype": "INT32", "data": A.tolist()},
            {"name": "b", "shape": [2, 4], "datatype": "INT32", "data": B.ravel().tolist()},
        ],
    }


# -- the same sum, every way in ------------------------------------------------------------------


def test_sum_and_difference(protocol: Any) -> None:
    inputs = [protocol.tensor("a", A), protocol.tensor("b", B)]
    result = protocol.client.infer("add_sub", inputs)
    np.testing.assert_array_equal(result.as_numpy("sum"), A + B)
    np.testing.assert_array_equal(result.as_numpy("difference"), A - B)
    assert result.as_numpy("no_such_output") is None


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_http_tensors_as_json_and_as_bytes(http: Any, binary_in: bool, binary_out: bool) -> None:
    inputs = [
        http.tensor("a", A, binary_data=binary_in),
        http.tensor("b", B, binary_data=binary_in),
    ]
    outputs = [
        httpclient.InferRequestedOutput("sum", binary_data=binary_out),
        httpclient.InferRequestedOutput("difference", binary_data=not binary_out),
    ]
    result = http.client.infer("add_sub", inputs, outputs=outputs)
    np.testing.assert_array_equal(result.as_numpy("sum"), A + B)
    np.testing.assert_array_equal(result.as_numpy("difference"), A - B)
    assert ("data" in result.get_output("sum")) is not binary_out


def test_raw_json_over_http(server: Triton) -> None:
    answer = httpx.post(f"{server.url}/v2/models/add_sub/infer", json=json_request()).json()
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("7", "add_sub", "1")
    outputs = {o["name"]: o for o in answer["outputs"]}
    assert outputs["sum"]["data"] == (A + B).ravel().tolist()
    assert outputs["sum"]["shape"] == [2, 4]
    assert outputs["sum"]["datatype"] == "INT32"


def test_raw_binary_over_http(server: Triton) -> None:
    header = json.dumps(
        {
            "inputs": [
                {"name": name, "shape": [2, 4], "datatype": "INT32",
                 "parameters": {"binary_data_size": 32}}
                for name in ("a", "b")
            ],
            "outputs": [{"name": "sum", "parameters": {"binary_data": True}}],
        }
    ).encode()  # fmt: skip
    answer = httpx.post(
        f"{server.url}/v2/models/add_sub/versions/1/infer",
        content=header + A.tobytes() + B.tobytes(),
        headers={"Inference-Header-Content-Length": str(len(header))},
    )
    size = int(answer.headers["Inference-Header-Content-Length"])
    (described,) = json.loads(answer.content[:size])["outputs"]
    assert described["parameters"] == {"binary_data_size": 32}
    np.testing.assert_array_equal(np.frombuffer(answer.content[size:], np.int32), (A + B).ravel())


def test_request_body_made_and_answer_read_without_the_client(server: Triton, http: Any) -> None:
    body, size = httpclient.InferenceServerClient.generate_request_body(
        [http.tensor("a", A), http.tensor("b", B)]
    )
    answer = httpx.post(
        f"{server.url}/v2/models/add_sub/infer",
        content=body,
        headers={"Inference-Header-Content-Length": str(size)} if size else {},
    )
    length = answer.headers.get("Inference-Header-Content-Length")
    result = httpclient.InferenceServerClient.parse_response_body(
        answer.content, header_length=int(length) if length else None
    )
    np.testing.assert_array_equal(result.as_numpy("sum"), A + B)


def test_the_grpc_stub_that_protoc_makes(server: Triton) -> None:
    import grpc

    request = service_pb2.ModelInferRequest(model_name="add_sub", id="raw")
    for name, array in (("a", A), ("b", B)):
        request.inputs.add(name=name, datatype="INT32", shape=[2, 4])
        request.raw_input_contents.append(array.tobytes())
    typed = service_pb2.ModelInferRequest(model_name="add_sub")
    for name, array in (("a", A), ("b", B)):
        tensor = typed.inputs.add(name=name, datatype="INT32", shape=[2, 4])
        tensor.contents.int_contents.extend(array.ravel().tolist())
    with grpc.insecure_channel(server.grpc_url) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
        for one in (request, typed):
            answer = stub.ModelInfer(one)
            place = [o.name for o in answer.outputs].index("sum")
            got = np.frombuffer(answer.raw_output_contents[place], np.int32)
            np.testing.assert_array_equal(got, (A + B).ravel())
            assert answer.id == one.id


@pytest.mark.skipif(shutil.which("curl") is None, reason="the same is sent by httpx above")
def test_curl(server: Triton) -> None:
    def curl(*words: str) -> bytes:
        return subprocess.run(["curl", "-sS", *words], capture_output=True, check=True).stdout

    status = curl("-o", "/dev/null", "-w", "%{http_code}", f"{server.url}/v2/health/ready")
    assert status == b"200"
    url = f"{server.url}/v2/models/add_sub/infer"
    answer = json.loads(curl("-X", "POST", url, "-d", json.dumps(json_request())))
    assert {o["name"]: o["data"] for o in answer["outputs"]}["sum"] == (A + B).ravel().tolist()


# -- many at a time ------------------------------------------------------------------------------


def test_http_async_infer(http: Any) -> None:
    handles = [
        http.client.async_infer("square", [http.tensor("x", np.full((1, 4), i, np.int32))])
        for i in range(40)
    ]
    for i, handle in enumerate(handles):
        np.testing.assert_array_equal(handle.get_result().as_numpy("y"), [[i * i] * 4])


def test_http_async_infer_raises_at_get_result(http: Any) -> None:
    handle = http.client.async_infer("square", [http.tensor("x", np.zeros((1, 3), np.int32))])
    with pytest.raises(httpclient.InferenceServerException, match="unexpected shape for input 'x'"):
        handle.get_result()


def test_grpc_async_infer_calls_back(grpc: Any) -> None:
    done: queue.Queue[tuple[Any, Any]] = queue.Queue()
    for i in range(40):
        grpc.client.async_infer(
            "square",
            [grpc.tensor("x", np.full((1, 4), i, np.int32))],
            callback=lambda result, error: done.put((result, error)),
            request_id=str(i),
        )
    for _ in range(40):
        result, error = done.get(timeout=30)
        assert error is None
        i = int(result.get_response().id)
        np.testing.assert_array_equal(result.as_numpy("y"), [[i * i] * 4])


def test_grpc_async_infer_hands_the_error_to_the_callback(grpc: Any) -> None:
    done: queue.Queue[tuple[Any, Any]] = queue.Queue()
    wrong = [grpc.tensor("x", np.zeros((1, 3), np.int32))]
    grpc.client.async_infer("square", wrong, lambda result, error: done.put((result, error)))
    result, error = done.get(timeout=30)
    assert result is None
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert "unexpected shape for input 'x'" in error.message()


def test_64_threads_each_with_its_own_client(server: Triton) -> None:
    before = server.statistics("square")[0]["inference_stats"]["success"]["count"]
    start = threading.Barrier(64)

    def work(number: int) -> None:
        x = np.full((1, 4), number, np.int32)
        api = httpclient if number % 2 else grpcclient
        address = server.url.removeprefix("http://") if number % 2 else server.grpc_url
        with api.InferenceServerClient(address) as client:
            start.wait(timeout=60)
            for i in range(10):
                tensor = api.InferInput("x", [1, 4], "INT32").set_data_from_numpy(x + i)
                y = client.infer("square", [tensor]).as_numpy("y")
                np.testing.assert_array_equal(y, (x + i) ** 2)

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(work, range(64)))
    wait_until(
        lambda: (
            server.statistics("square")[0]["inference_stats"]["success"]["count"] == before + 640
        )
    )


def test_64_threads_on_one_grpc_client(grpc: Any) -> None:
    def work(number: int) -> None:
        x = np.full((1, 4), number, np.int32)
        result = grpc.client.infer("square", [grpc.tensor("x", x)], client_timeout=60)
        np.testing.assert_array_equal(result.as_numpy("y"), x**2)

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(work, range(64)))


def test_the_dynamic_batcher_joins_eight_requests_on_the_onnx_model(
    server: Triton, protocol: Any
) -> None:
    before = server.statistics("line")[0]
    start = threading.Barrier(8)

    def work(number: int) -> None:
        api, client = protocol.api, protocol.client
        if protocol.name == "http":  # its clients are for one thread each
            client = api.InferenceServerClient(server.url.removeprefix("http://"))
        x = np.full((1, 4), number, np.float32)
        start.wait(timeout=60)
        y = client.infer("line", [protocol.tensor("x", x)]).as_numpy("y")
        np.testing.assert_array_equal(y, 2 * x + 1)
        if protocol.name == "http":
            client.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))

    def change(count: str) -> int:
        return int(server.statistics("line")[0][count]) - int(before[count])

    # The server counts the execution after its requests.
    wait_until(lambda: change("inference_count") == 8 and change("execution_count"))
    assert change("execution_count") == 1


# -- what tensors may be -------------------------------------------------------------------------

VALUES = {
    "bool": np.array([True, False, True]),
    "uint8": np.array([0, 255], np.uint8),
    "uint16": np.array([0, 65535], np.uint16),
    "uint32": np.array([0, 2**32 - 1], np.uint32),
    "uint64": np.array([0, 2**64 - 1], np.uint64),
    "int8": np.array([-128, 127], np.int8),
    "int16": np.array([-(2**15), 2**15 - 1], np.int16),
    "int32": np.array([-(2**31), 2**31 - 1], np.int32),
    "int64": np.array([-(2**63), 2**63 - 1], np.int64),
    "fp16": np.array([0.5, -65504], np.float16),
    "fp32": np.array([np.pi, -np.inf], np.float32),
    "fp64": np.array([np.e, 1e300]),
    "bytes": np.array([b"", "Grüße".encode(), b"\x00\xff"], dtype=np.object_),
}


@pytest.mark.parametrize("name", VALUES)
def test_every_datatype_comes_back_unchanged(protocol: Any, name: str) -> None:
    result = protocol.client.infer("echo", [protocol.tensor(name, VALUES[name])])
    back = result.as_numpy(f"{name}_out")
    assert back.dtype == VALUES[name].dtype
    np.testing.assert_array_equal(back, VALUES[name])


def test_all_datatypes_in_one_request(protocol: Any) -> None:
    inputs = [protocol.tensor(name, array) for name, array in VALUES.items()]
    result = protocol.client.infer("echo", inputs)
    for name, array in VALUES.items():
        np.testing.assert_array_equal(result.as_numpy(f"{name}_out"), array)


def test_empty_tensors(protocol: Any) -> None:
    result = protocol.client.infer("echo", [protocol.tensor("fp32", np.zeros(0, np.float32))])
    assert result.as_numpy("fp32_out").shape == (0,)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("bool", VALUES["bool"]),
        ("int32", VALUES["int32"]),
        ("uint64", VALUES["uint64"]),
        ("fp32", np.array([0.25, -3.5], np.float32)),
        ("bytes", np.array(["one", "zwölf"], np.object_)),  # str in JSON, else bytes
    ],
)
def test_json_data_of_each_kind(http: Any, name: str, array: Any) -> None:
    outputs = [httpclient.InferRequestedOutput(f"{name}_out", binary_data=False)]
    inputs = [http.tensor(name, array, binary_data=False)]
    result = http.client.infer("echo", inputs, outputs=outputs)
    np.testing.assert_array_equal(result.as_numpy(f"{name}_out"), array)


def test_strings_with_and_without_the_optional_input(protocol: Any) -> None:
    names = np.array([["Ada"], ["Grace"]], dtype=np.object_)
    inputs = [protocol.tensor("name", names)]
    texts = protocol.client.infer("greet", inputs).as_numpy("text")
    assert texts.tolist() == [[b"Hello, Ada!"], [b"Hello, Grace!"]]
    greetings = np.array([["Hi"], ["Grüezi"]], dtype=np.object_)
    inputs.append(protocol.tensor("greeting", greetings))
    texts = protocol.client.infer("greet", inputs).as_numpy("text")
    assert [t.decode() for t in texts.ravel()] == ["Hi, Ada!", "Grüezi, Grace!"]


# -- what a request may ask for ------------------------------------------------------------------


def test_only_the_requested_outputs_come(protocol: Any) -> None:
    inputs = [protocol.tensor("a", A), protocol.tensor("b", B)]
    outputs = [protocol.api.InferRequestedOutput("difference")]
    result = protocol.client.infer("add_sub", inputs, outputs=outputs)
    np.testing.assert_array_equal(result.as_numpy("difference"), A - B)
    assert result.as_numpy("sum") is None


def test_classification_with_labels(protocol: Any) -> None:
    logits = np.array([[0, 3, 1], [5, 0, 0]], np.float32)
    outputs = [protocol.api.InferRequestedOutput("scores", class_count=2)]
    result = protocol.client.infer("scores", [protocol.tensor("logits", logits)], outputs=outputs)
    classes = result.as_numpy("scores")
    assert classes.shape == (2, 2)
    rows = [[c.decode().split(":") for c in row] for row in classes]
    assert [[(i, label) for _, i, label in row] for row in rows] == [
        [("1", "dog"), ("2", "horse")],
        [("0", "cat"), ("1", "dog")],
    ]
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    top = [[float(value) for value, _, _ in row] for row in rows]
    np.testing.assert_allclose(top, [[expected[0, 1], expected[0, 2]], expected[1, :2]], atol=1e-6)


def ask_about(protocol: Any, **options: Any) -> Any:
    x = protocol.tensor("x", np.zeros(1, np.int32))
    result = protocol.client.infer("about", [x], **options)
    return json.loads(result.as_numpy("json")[0]), result


def test_request_id_timeout_and_parameters_reach_the_model(protocol: Any) -> None:
    facts, result = ask_about(
        protocol,
        request_id="order-66",
        timeout=5_000_000,
        parameters={"colour": "red", "count": 3, "strict": True},
    )
    assert facts["id"] == "order-66"
    assert facts["timeout"] == 5_000_000
    assert facts["parameters"] == {"colour": "red", "count": 3, "strict": True}
    answer = result.get_response()
    assert (answer["id"] if protocol.name == "http" else answer.id) == "order-66"


def test_fractions_as_request_parameters(protocol: Any) -> None:
    facts, _ = ask_about(protocol, parameters={"share": 0.25})
    assert facts["parameters"] == {"share": 0.25}


def test_reserved_parameters_are_refused_by_the_client(protocol: Any) -> None:
    with pytest.raises(protocol.api.InferenceServerException, match="reserved parameter"):
        ask_about(protocol, parameters={"sequence_id": 1})


def test_headers_and_query_parameters_reach_the_server_and_not_the_model(
    server: Triton, http: Any, grpc: Any
) -> None:
    with Tap(server.url) as tap, httpclient.InferenceServerClient(tap.address) as client:
        x = http.tensor("x", np.zeros(1, np.int32))
        options = {"headers": {"X-Team": "a"}, "query_params": {"trace": "no"}}
        result = client.infer("about", [x], request_id="one", **options)
    assert b"/v2/models/about/infer?trace=no " in tap.traffic
    assert b"x-team: a\r\n" in tap.traffic.lower()
    facts = json.loads(result.as_numpy("json")[0])
    assert (facts["id"], facts["parameters"]) == ("one", {})
    facts, _ = ask_about(grpc, request_id="two", headers={"x-team": "a"})
    assert (facts["id"], facts["parameters"]) == ("two", {})


# -- compression ---------------------------------------------------------------------------------


@pytest.mark.parametrize("request_with", [None, "gzip", "deflate"])
@pytest.mark.parametrize("response_with", [None, "gzip", "deflate"])
def test_http_compression_in_both_directions(
    server: Triton, http: Any, request_with: str | None, response_with: str | None
) -> None:
    x = np.zeros(20_000, np.float32)
    with Tap(server.url) as tap, httpclient.InferenceServerClient(tap.address) as client:
        result = client.infer(
            "echo",
            [http.tensor("fp32", x)],
            request_compression_algorithm=request_with,
            response_compression_algorithm=response_with,
        )
    np.testing.assert_array_equal(result.as_numpy("fp32_out"), x)
    assert (tap.sent < x.nbytes / 10) == (request_with is not None)
    assert (tap.received < x.nbytes / 10) == (response_with is not None)


@pytest.mark.parametrize(("name", "unpack"), [("gzip", gzip.decompress), ("deflate", None)])
def test_compressed_answers_really_are(server: Triton, name: str, unpack: Any) -> None:
    zeros = {"name": "int32", "shape": [5000], "datatype": "INT32", "data": [0] * 5000}
    with httpx.stream(
        "POST",
        f"{server.url}/v2/models/echo/infer",
        json={"inputs": [zeros]},
        headers={"Accept-Encoding": name},
    ) as answer:
        raw = b"".join(answer.iter_raw())
        assert answer.headers["Content-Encoding"] == name
    assert len(raw) < 1000
    text = (unpack or zlib.decompress)(raw)
    assert json.loads(text)["outputs"][0]["data"] == [0] * 5000


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_grpc_compression(server: Triton, grpc: Any, name: str) -> None:
    x = np.zeros(20_000, np.float32)
    with Tap(server.grpc_url) as tap, grpcclient.InferenceServerClient(tap.address) as client:
        result = client.infer("echo", [grpc.tensor("fp32", x)], compression_algorithm=name)
    np.testing.assert_array_equal(result.as_numpy("fp32_out"), x)
    assert tap.sent < x.nbytes / 10


def test_large_tensors_over_grpc(grpc: Any) -> None:
    x = np.random.default_rng(0).standard_normal(4_000_000).astype(np.float32)  # 16 MB
    result = grpc.client.infer("echo", [grpc.tensor("fp32", x)])
    np.testing.assert_array_equal(result.as_numpy("fp32_out"), x)


def test_a_grpc_client_with_keep_alive(server: Triton) -> None:
    options = grpcclient.KeepAliveOptions(
        keepalive_time_ms=10_000,
        keepalive_timeout_ms=5_000,
        keepalive_permit_without_calls=True,
        http2_max_pings_without_data=2,
    )
    with grpcclient.InferenceServerClient(server.grpc_url, keepalive_options=options) as client:
        x = grpcclient.InferInput("x", [2, 4], "INT32").set_data_from_numpy(A)
        np.testing.assert_array_equal(client.infer("square", [x]).as_numpy("y"), A**2)


# -- models made of models -----------------------------------------------------------------------


def test_an_ensemble(protocol: Any) -> None:
    inputs = [protocol.tensor("left", A), protocol.tensor("right", B)]
    result = protocol.client.infer("pipeline", inputs)
    np.testing.assert_array_equal(result.as_numpy("squared_sum"), (A + B) ** 2)
    np.testing.assert_array_equal(result.as_numpy("plain_difference"), A - B)


def test_an_error_within_an_ensemble_names_the_words_of_the_part(protocol: Any) -> None:
    six = np.full((1, 4), 333, np.int32)
    inputs = [protocol.tensor("left", six), protocol.tensor("right", six)]
    with pytest.raises(protocol.api.InferenceServerException, match="666 is not a sum"):
        protocol.client.infer("pipeline", inputs)


def test_business_logic_calls_models_and_reads_a_stream(protocol: Any) -> None:
    x = np.array([[3, 1, 4, 1]], np.int32)
    result = protocol.client.infer("bls", [protocol.tensor("x", x)])
    np.testing.assert_array_equal(result.as_numpy("squared"), (2 * x) ** 2)
    np.testing.assert_array_equal(result.as_numpy("counted"), [3, 2, 1])


def test_business_logic_passes_an_error_on(protocol: Any) -> None:
    x = np.full((1, 4), 333, np.int32)
    with pytest.raises(protocol.api.InferenceServerException, match="666 is not a sum"):
        protocol.client.infer("bls", [protocol.tensor("x", x)])


def test_business_logic_with_asyncio(protocol: Any) -> None:
    x = np.arange(40, dtype=np.int32).reshape(10, 4)
    result = protocol.client.infer("bls_async", [protocol.tensor("x", x)])
    np.testing.assert_array_equal(result.as_numpy("squared"), x**2)
