"""Every demonstration model, called by an official client and compared with its framework.

The client side uses tritonclient and numpy alone. Each model is asked over gRPC, over HTTP with
binary tensors and over HTTP with JSON, with one row and with eight.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import queue
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import references
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from workbook import zoo
from workbook.common import paths
from workbook.server import Triton, all_models
from workbook.zoo import data
from workbook.zoo.repository import ENGINES, LLAMAS, MODELS

pytestmark = pytest.mark.server

Tensors = dict[str, Any]


@pytest.fixture(scope="module")
def demo() -> Iterator[Triton]:
    """A server with every demonstration model."""
    zoo.repository.build()
    options = ["--model-load-thread-count=4"]
    with Triton(paths.repository(), options=options) as server:
        assert not all_models.load_all(server, MODELS)
        yield server


# -- the clients -----------------------------------------------------------------------------------


def over_grpc(
    server: Triton, model: str, inputs: Tensors, outputs: list[str], version: str = "", **more: Any
) -> Tensors:
    """Send one request over gRPC."""
    with server.grpc_client() as client:
        result = client.infer(
            model,
            [grpc_input(name, array) for name, array in inputs.items()],
            outputs=[grpcclient.InferRequestedOutput(name) for name in outputs],
            model_version=version,
            **more,
        )
    return {name: result.as_numpy(name) for name in outputs}


def grpc_input(name: str, array: Any) -> Any:
    tensor = grpcclient.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(array)
    return tensor


def over_http(
    server: Triton,
    model: str,
    inputs: Tensors,
    outputs: list[str],
    version: str = "",
    *,
    binary: bool,
    **more: Any,
) -> Tensors:
    """Send one request over HTTP, with tensors in binary form or in JSON, in both directions."""
    tensors = []
    for name, array in inputs.items():
        tensor = httpclient.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array, binary_data=binary)
        tensors.append(tensor)
    with server.http_client() as client:
        result = client.infer(
            model,
            tensors,
            outputs=[httpclient.InferRequestedOutput(n, binary_data=binary) for n in outputs],
            model_version=version,
            **more,
        )
        return {name: result.as_numpy(name) for name in outputs}


ROADS: dict[str, Callable[..., Tensors]] = {
    "grpc": over_grpc,
    "http-binary": functools.partial(over_http, binary=True),
    "http-json": functools.partial(over_http, binary=False),
}


# -- what is asked ---------------------------------------------------------------------------------


def column(values: list[bytes]) -> Any:
    return np.array([[value] for value in values], dtype=object)


def numbers(rows: int) -> Tensors:
    return {"INPUT": np.linspace(-3, 3, 5 * rows, dtype=np.float32).reshape(rows, 5)}


def images(name: str) -> Callable[[int], Tensors]:
    return lambda rows: {name: data.digits().x_test[:rows]}


def measurements(rows: int) -> Tensors:
    return {"input__0": data.breast_cancer().x_test[:rows]}


def pixels(rows: int) -> Tensors:
    return {"input__0": data.digit_rows().x_test[:rows]}


def jpegs(rows: int) -> Tensors:
    """JPEG files of one length: zeros after the end of a file do not matter."""
    crops = data.photo_crops().x_test[:rows]
    files = [np.frombuffer(data.encode(crop, "JPEG"), np.uint8) for crop in crops]
    longest = max(map(len, files))
    return {"jpeg": np.stack([np.pad(file, (0, longest - len(file))) for file in files])}


def pictures(rows: int) -> Tensors:
    """Digits as PNG files in base64, since JSON carries no bytes."""
    files = [data.encode(image) for image in data.digits().x_test[:rows]]
    return {"image": column([base64.b64encode(file) for file in files])}


def texts(rows: int) -> Tensors:
    """Texts in several languages, of several lengths."""
    return {"text": column([text.encode() for text in data.languages().x_test[:: 1600 // rows]])}


def tokens(rows: int) -> Tensors:
    return references.language_tokenizer(texts(rows))


def scores(rows: int) -> Tensors:
    return {"logits": np.random.default_rng(0).normal(0, 3, (rows, 16)).astype(np.float32)}


def choices(rows: int) -> Tensors:
    wanted = [(b"fp16", b"torch", b"fp32")[row % 3] for row in range(rows)]
    return {"image": data.digits().x_test[:rows], "choice": column(wanted)}


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, what it is asked, and what its framework says.

    `bound` is the greatest absolute difference: 1e-4 for float32 logits of order 20, which is
    some fifty roundings; 1e-5 for probabilities; 0 for whole numbers and text.
    """

    model: str
    ask: Callable[[int], Tensors]
    expect: Callable[[Tensors], Tensors]
    bound: float
    version: str = ""

    @property
    def name(self) -> str:
        return f"{self.model}-{self.version}" if self.version else self.model


CASES = [
    Case("square", numbers, references.square, 0),
    Case("digits_onnx", images("image"), references.onnx("digits_onnx/1/model.onnx"), 1e-4, "1"),
    Case("digits_onnx", images("image"), references.onnx("digits_onnx/2/model.onnx"), 1e-4, "2"),
    Case("digits_torch", images("INPUT__0"), references.digits_torch, 1e-4),
    Case("digits_openvino", images("image"), references.digits_openvino, 1e-4),
    Case("digits_tf", images("image"), references.digits_tf, 1e-4),
    Case("digits_cached", images("image"), references.onnx("digits_cached/1/model.onnx"), 1e-4),
    Case("forest_xgboost", measurements, references.forest_xgboost, 1e-5),
    Case("forest_lightgbm", measurements, references.forest_lightgbm, 0),
    Case("forest_sklearn", pixels, references.forest_sklearn, 1e-5),
    Case("jpeg_dali", jpegs, references.jpeg_dali, 1e-5),
    Case("image_classifier", pictures, references.image_classifier, 1e-5),
    Case("text_classifier", texts, references.text_classifier, 1e-5),
    Case("language_tokenizer", texts, references.language_tokenizer, 0),
    Case("language_onnx", tokens, references.onnx("language_onnx/1/model.onnx"), 1e-4),
    Case("language_labels", scores, references.language_labels, 1e-6),
    Case("language", texts, references.language, 1e-5),
    Case("chooser", choices, references.chooser, 1e-4),
]


@functools.cache
def asked_and_expected(number: int, rows: int) -> tuple[Tensors, Tensors]:
    inputs = CASES[number].ask(rows)
    return inputs, CASES[number].expect(inputs)


def test_every_model_is_tested_here() -> None:
    folders = {p.parent.name for p in (paths.root() / "model_repository").glob("*/config.pbtxt")}
    assert folders == {*MODELS, *LLAMAS, *ENGINES}  # tests/llm, tests/zoo have the last two
    missing = set(MODELS) - {case.model for case in CASES} - {"running_sum", "countdown"}
    assert not missing, "Add a Case, or a test of its own: docs/adding_a_model.md"


@pytest.mark.quick
def test_every_model_is_ready(demo: Triton) -> None:
    loaded = [m for m in demo.index() if m["name"] not in {*LLAMAS, *ENGINES}]
    states = {(m["name"], m["version"]): m["state"] for m in loaded}
    assert set(states.values()) == {"READY"}
    assert {name for name, _ in states} == set(MODELS)
    assert ("digits_onnx", "2") in states


@pytest.mark.quick
@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_answers_are_the_framework_s(demo: Triton, number: int, road: str, rows: int) -> None:
    case = CASES[number]
    inputs, expected = asked_and_expected(number, rows)
    assert all(len(array) == rows for array in inputs.values())
    answers = ROADS[road](demo, case.model, inputs, list(expected), case.version)
    for name, wanted in expected.items():
        answer = answers[name]
        assert len(answer) == rows
        if wanted.dtype == object:
            # JSON gives str, binary tensors give bytes.
            got = [x.encode() if isinstance(x, str) else x for x in answer.ravel()]
            assert got == wanted.ravel().tolist()
        else:
            np.testing.assert_allclose(
                answer.reshape(wanted.shape), wanted, rtol=0, atol=case.bound
            )


# -- what is special to one of them ----------------------------------------------------------------


def test_labels_come_with_the_classification_extension(demo: Triton) -> None:
    split = data.digits()
    for model, takes, gives in (
        ("digits_onnx", "image", "logits"),
        ("digits_torch", "INPUT__0", "OUTPUT__0"),
    ):
        with demo.grpc_client() as client:
            answer = client.infer(
                model,
                [grpc_input(takes, split.x_test[:8])],
                outputs=[grpcclient.InferRequestedOutput(gives, class_count=1)],
            ).as_numpy(gives)
        labels = [entry.decode().split(":")[2] for entry in answer.ravel()]
        assert labels == [str(y) for y in split.y_test[:8]]


def test_version_2_is_fp16_and_differs_a_little(demo: Triton) -> None:
    image = {"image": data.digits().x_test[:8]}
    full, half = (over_grpc(demo, "digits_onnx", image, ["logits"], v)["logits"] for v in "12")
    difference = np.abs(full - half).max()
    assert 0 < difference < 5e-2
    newest = over_grpc(demo, "digits_onnx", image, ["logits"])["logits"]
    np.testing.assert_array_equal(newest, half)


def test_auto_completion_fills_in_what_the_config_leaves_out(demo: Triton) -> None:
    written = (paths.root() / "model_repository/digits_cached/config.pbtxt").read_text()
    assert "input {" not in written
    config = demo.config("digits_cached")
    assert [(t["name"], t["dims"]) for t in config["input"]] == [("image", [1, 8, 8])]
    assert [(t["name"], t["dims"]) for t in config["output"]] == [("logits", [10])]


def test_the_cache_answers_the_second_time(demo: Triton) -> None:
    def hits() -> int:
        record = demo.statistics("digits_cached")[0]["inference_stats"]
        return int(record["cache_hit"]["count"])

    image = {"image": data.digits().x_test[100:101]}
    first = over_grpc(demo, "digits_cached", image, ["logits"])["logits"]
    before = hits()
    second = over_grpc(demo, "digits_cached", image, ["logits"])["logits"]
    assert hits() == before + 1
    np.testing.assert_array_equal(first, second)


def test_dali_takes_jpegs_of_different_lengths_in_one_batch(demo: Triton) -> None:
    files = [np.fromfile(file, np.uint8)[None] for file in data.photo_files()] * 4
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda f: over_grpc(demo, "jpeg_dali", {"jpeg": f}, ["pixels"]), files)
        )
    for file, answer in zip(files, answers, strict=True):
        expected = references.jpeg_dali({"jpeg": file})["pixels"]
        np.testing.assert_allclose(answer["pixels"], expected, atol=1e-5)


def test_the_image_classifier_takes_the_bytes_of_a_file(demo: Triton) -> None:
    split = data.digits()
    for format in ("PNG", "JPEG", "BMP"):
        files = {"image": column([data.encode(image, format) for image in split.x_test[:8]])}
        labels = over_grpc(demo, "image_classifier", files, ["label"])["label"]
        right = [int(label) == y for label, y in zip(labels.ravel(), split.y_test, strict=False)]
        assert sum(right) >= 7


@pytest.mark.quick
@pytest.mark.parametrize(
    ("model", "good", "bad", "words"),
    [
        ("text_classifier", texts, b"\xff\xfe", "text 0 of the request is not UTF-8"),
        ("text_classifier", texts, b"  ", "text 0 of the request is blank"),
        ("language", texts, b"\xff", "text 0 of the request is not UTF-8"),
        (
            "image_classifier",
            pictures,
            b"GIF89a nonsense",
            "image 0 of the request is not an image",
        ),
        ("image_classifier", pictures, b"", "image 0 of the request is not an image"),
    ],
)
def test_bad_input_fails_alone(
    demo: Triton, model: str, good: Callable[[int], Tensors], bad: bytes, words: str
) -> None:
    """Sixteen requests at once, one of them bad: it says why, its batch mates are answered."""
    (name, rows), *_ = good(8).items()
    requests = [rows[i % 8 : i % 8 + 1] for i in range(16)]
    requests[9] = column([bad])
    answers: queue.Queue[tuple[int, Any, Any]] = queue.Queue()
    with demo.grpc_client() as client:
        for i, request in enumerate(requests):
            client.async_infer(
                model,
                [grpc_input(name, request)],
                lambda result, error, i=i: answers.put((i, result, error)),
            )
        got = {i: (result, error) for i, result, error in (answers.get() for _ in requests)}
    expected = over_grpc(demo, model, {name: rows}, ["label"])["label"].ravel().tolist()
    for i, (result, error) in got.items():
        if i == 9:
            assert words in error.message()
        else:
            assert error is None
            assert result.as_numpy("label").ravel()[0] == expected[i % 8]


def test_requests_to_the_classifiers_share_batches(demo: Triton) -> None:
    """On a busy machine the requests of one burst may arrive one by one: several bursts then."""
    for model, rows_of in (("text_classifier", texts), ("image_classifier", pictures)):
        (name, rows), *_ = rows_of(8).items()
        for _ in range(20):
            done: queue.Queue[Any] = queue.Queue()
            with demo.grpc_client() as client:
                for i in range(64):
                    client.async_infer(
                        model,
                        [grpc_input(name, rows[i % 8 : i % 8 + 1])],
                        lambda result, error, done=done: done.put(error),
                    )
                assert [done.get() for _ in range(64)] == [None] * 64
            sizes = {int(entry["batch_size"]) for entry in demo.statistics(model)[0]["batch_stats"]}
            if max(sizes - {8}, default=0) > 1:
                break
        else:
            pytest.fail(f"{model} computed each of 1,280 requests by itself.")


def test_long_texts_are_cut_and_still_answered(demo: Triton) -> None:
    text = {"text": column([b"Schweden und Mittwoch " * 200])}
    labels = [over_grpc(demo, m, text, ["label"])["label"] for m in ("text_classifier", "language")]
    assert labels[0] == labels[1]


# -- chooser ---------------------------------------------------------------------------------------


def test_chooser_without_a_choice_takes_fp32(demo: Triton) -> None:
    image = {"image": data.digits().x_test[:2]}
    answer = over_grpc(demo, "chooser", image, ["answered_by"])["answered_by"]
    assert answer.ravel().tolist() == [b"digits_onnx/1"] * 2


def test_chooser_refuses_an_unknown_choice_and_names_the_known(demo: Triton) -> None:
    inputs = {"image": data.digits().x_test[:1], "choice": column([b"fp8"])}
    with pytest.raises(InferenceServerException, match=r"no choice 'fp8'.*fp32, fp16, torch"):
        over_grpc(demo, "chooser", inputs, ["logits"])


def test_chooser_falls_back_and_passes_errors_on(demo: Triton) -> None:
    inputs = {"image": data.digits().x_test[:1], "choice": column([b"torch"])}
    demo.unload("digits_torch")
    try:
        answer = over_grpc(demo, "chooser", inputs, ["logits", "answered_by"])
        assert answer["answered_by"].ravel().tolist() == [b"digits_onnx/1"]
        expected = references.onnx("digits_onnx/1/model.onnx")({"image": inputs["image"]})
        np.testing.assert_allclose(answer["logits"], expected["logits"], atol=1e-4)
        demo.unload("digits_onnx")
        with pytest.raises(InferenceServerException) as caught:
            over_grpc(demo, "chooser", inputs, ["logits"])
        assert "no model answered" in str(caught.value)
        assert "digits_torch/1:" in str(caught.value)
        assert "digits_onnx/1:" in str(caught.value)
    finally:
        demo.load("digits_onnx")
        demo.load("digits_torch")


# -- running_sum -----------------------------------------------------------------------------------


@pytest.mark.parametrize("road", ROADS)
def test_running_sum_keeps_eight_sequences_apart(demo: Triton, road: str) -> None:
    """Eight sequences, their requests interleaved and concurrent within a step."""
    base = 1000 * (1 + list(ROADS).index(road))
    values = np.arange(24, dtype=np.float32).reshape(3, 8)

    def step(number: int, sequence: int) -> float:
        value = {"value": values[number, sequence].reshape(1, 1)}
        answer = ROADS[road](
            demo,
            "running_sum",
            value,
            ["sum"],
            sequence_id=base + sequence,
            sequence_start=number == 0,
            sequence_end=number == 2,
        )
        return float(answer["sum"][0, 0])

    with ThreadPoolExecutor(8) as pool:
        for number in range(3):
            sums = list(pool.map(functools.partial(step, number), range(8)))
            assert sums == values[: number + 1].sum(0).tolist()


def test_running_sum_begins_anew_and_refuses_what_never_began(demo: Triton) -> None:
    value = {"value": np.full((1, 1), 5, np.float32)}

    def send(**flags: Any) -> float:
        answer = over_grpc(demo, "running_sum", value, ["sum"], sequence_id=77, **flags)
        return float(answer["sum"][0, 0])

    assert send(sequence_start=True) == 5
    assert send() == 10
    assert send(sequence_start=True) == 5
    assert send(sequence_end=True) == 10
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        send()


# -- countdown -------------------------------------------------------------------------------------


def count(demo: Triton, **inputs: int) -> list[Any]:
    """The counts of a stream, and its errors unchanged; it ends with the final flag."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    tensors = [grpc_input(name, np.array([value], np.int32)) for name, value in inputs.items()]
    counts: list[Any] = []
    with demo.grpc_client() as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("countdown", tensors, enable_empty_final_response=True)
        while True:
            result, error = answers.get(timeout=30)
            if error is not None:
                counts.append(error.message())
                break
            if result.as_numpy("count") is not None:
                counts.append(int(result.as_numpy("count")[0]))
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
        client.stop_stream()
    return counts


def test_countdown_streams_every_number_and_says_when_it_is_done(demo: Triton) -> None:
    assert count(demo, start=5) == [5, 4, 3, 2, 1]
    assert count(demo, start=2, delay_ms=5) == [2, 1]
    assert count(demo, start=0) == []


def test_countdown_refuses_what_makes_no_sense(demo: Triton) -> None:
    assert count(demo, start=-1) == ["start is -1; it must lie between 0 and 10000"]


def test_a_slow_countdown_holds_up_nobody(demo: Triton) -> None:
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(count, demo, start=3, delay_ms=1000)
        for _ in range(3):
            assert count(demo, start=2) == [2, 1]
        assert not slow.done()
        assert slow.result() == [3, 2, 1]


def test_countdown_over_http_is_a_stream_of_events(demo: Triton) -> None:
    request = urllib.request.Request(
        f"{demo.url}/v2/models/countdown/generate_stream", data=json.dumps({"start": 3}).encode()
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        events = [line for line in response.read().decode().splitlines() if line]
    assert [json.loads(e.removeprefix("data: "))["count"] for e in events] == [3, 2, 1]


def test_generate_endpoint_takes_text_and_pictures_in_json(demo: Triton) -> None:
    text = {"text": "Schweden, Kupfer und Mittwoch"}
    digit = {"image": base64.b64encode(data.encode(data.digits().x_test[0])).decode()}
    expected = {"text_classifier": "de", "image_classifier": str(data.digits().y_test[0])}
    for model, body in (("text_classifier", text), ("image_classifier", digit)):
        request = urllib.request.Request(
            f"{demo.url}/v2/models/{model}/generate", data=json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            assert json.load(response)["label"] == expected[model]
