"""Send requests of every kind to all demonstration models at once, and compare the answers.

The requests use HTTP and gRPC, binary tensors and JSON, one row and eight rows. They go to an
ensemble, to a model that calls others, to sequences, and to a model that streams many answers. Each
answer is compared with the first answer to the same request.
"""

from __future__ import annotations

import itertools
import queue
import random
import threading
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from tritonclient import grpc as grpc_client
from tritonclient import http as http_client
from tritonclient.utils import np_to_triton_dtype

from workbook.server import Server
from workbook.zoo import data

Tensors = dict[str, npt.NDArray[Any]]

#: Threads that send; each waits for an answer before it sends again.
CLIENTS = 4
#: Seconds that a request may take. On a crowded machine, and while a model is loaded, some requests
#: take long.
PATIENCE_S = 120.0
#: The greatest allowed difference between an answer and the first one: a batch of another size is
#: computed in another order. Texts must be equal.
TOLERANCE = 1e-3
_KINDS = ("grpc", "http", "json")


class Ask(NamedTuple):
    """A request to a model (`version` "" is its newest), and the answer that it had at first."""

    model: str
    version: str
    inputs: Tensors
    expected: Tensors


def asks(server: Server) -> list[Ask]:
    """Make requests of one row and of eight to every model that answers once and keeps no state.

    Each request is sent once here, alone: later answers are compared with this answer.

    Args:
        server: it serves the models of `zoo.repository.MODELS`.
    """
    digits, rows = data.digits().x_test, data.digit_rows().x_test
    cells, texts = data.breast_cancer().x_test, data.languages().x_test
    wanted: list[tuple[str, str, Tensors]] = []
    for some in (slice(0, 1), slice(8, 16)):
        image, cell = digits[some], cells[some]
        text = _column([value.encode() for value in texts[::50][some]])
        choice = _column(list(itertools.islice(itertools.cycle((b"fp32", b"torch")), len(image))))
        wanted += [
            ("square", "", {"INPUT": rows[some]}),
            ("digits_onnx", "1", {"image": image}),
            ("digits_onnx", "2", {"image": image}),
            ("digits_cached", "", {"image": image}),
            ("digits_torch", "", {"INPUT__0": image}),
            ("digits_openvino", "", {"image": image}),
            ("digits_tf", "", {"image": image}),
            ("forest_xgboost", "", {"input__0": cell}),
            ("forest_lightgbm", "", {"input__0": cell}),
            ("forest_sklearn", "", {"input__0": rows[some]}),
            ("image_classifier", "", {"image": _column([data.encode(one) for one in image])}),
            ("text_classifier", "", {"text": text}),
            ("language", "", {"text": text}),
            ("chooser", "", {"image": image, "choice": choice}),
        ]
    for crop in data.photo_crops().x_test[:2]:
        jpeg = np.frombuffer(data.encode(crop, "JPEG"), np.uint8)
        wanted.append(("jpeg_dali", "", {"jpeg": jpeg[None]}))
    with Clients(server) as clients:
        found = []
        for model, version, inputs in wanted:
            outputs = [str(output["name"]) for output in server.config(model)["output"]]
            nothing: Tensors = dict.fromkeys(outputs, np.empty(0))
            first = clients.answer(Ask(model, version, inputs, nothing), "grpc")
            found.append(Ask(model, version, inputs, first))
    return found


class MixedLoad:
    """Sends requests from `CLIENTS` threads while the block runs.

        with MixedLoad(server, asks(server)) as load:
            time.sleep(60)
        print(load.answered, load.failed, load.wrong)

    Attributes:
        answered: the number of requests with an answer, right or wrong.
        failed: model and error of each request without an answer.
        wrong: the model of each answer that differs from the first one.
    """

    def __init__(self, server: Server, requests: list[Ask]) -> None:
        self.answered = 0
        self.failed: list[str] = []
        self.wrong: list[str] = []
        self._server, self._requests = server, requests
        self._stop, self._counting = threading.Event(), threading.Lock()
        self._threads = [
            threading.Thread(target=self._send, args=(number,)) for number in range(CLIENTS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self, number: int) -> None:
        draw = random.Random(number)
        sequences = itertools.count(1 + 1_000_000 * number)
        with Clients(self._server) as clients:
            while not self._stop.is_set():
                chosen = draw.randrange(len(self._requests) + 2)
                kind = draw.choice(_KINDS)
                if chosen == len(self._requests):
                    self._count("running_sum", 3, clients.sequence, next(sequences), kind)
                elif chosen > len(self._requests):
                    self._count("countdown", 1, clients.stream, draw.randint(1, 5))
                else:
                    ask = self._requests[chosen]
                    self._count(ask.model, 1, clients.compare, ask, kind)

    def _count(self, model: str, requests: int, send: Any, *words: Any) -> None:
        """Send, and count the result. An exception of any kind counts as a failure."""
        try:
            right = send(*words)
        except Exception as error:
            with self._counting:
                self.failed.append(f"{model}: {error}")
            return
        with self._counting:
            self.answered += requests
            if not right:
                self.wrong.append(model)


class Clients:
    """The official clients of one thread, one for HTTP and one for gRPC."""

    def __init__(self, server: Server) -> None:
        self._http = server.http_client(
            connection_timeout=PATIENCE_S, network_timeout=PATIENCE_S, concurrency=1
        )
        self._grpc = server.grpc_client()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()
        self._grpc.close()

    def answer(self, ask: Ask, kind: str, **options: Any) -> Tensors:
        """Send a request by gRPC, HTTP, or HTTP with JSON; return the outputs in `ask.expected`."""
        of: Any = grpc_client if kind == "grpc" else http_client
        form = {} if kind == "grpc" else {"binary_data": kind == "http"}
        tensors = []
        for name, array in ask.inputs.items():
            tensor = of.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
            # JSON cannot carry the bytes of a file.
            sent = {"binary_data": True} if form and array.dtype == object else form
            tensors.append(tensor.set_data_from_numpy(array, **sent))
        wanted = [of.InferRequestedOutput(name, **form) for name in ask.expected]
        if kind == "grpc":
            options["client_timeout"] = PATIENCE_S
        client = self._grpc if kind == "grpc" else self._http
        result = client.infer(
            ask.model, tensors, outputs=wanted, model_version=ask.version, **options
        )
        return {name: result.as_numpy(name) for name in ask.expected}

    def compare(self, ask: Ask, kind: str) -> bool:
        """Whether a request gets the same answer as at first."""
        answer = self.answer(ask, kind)
        return all(_same(answer[name], first) for name, first in ask.expected.items())

    def sequence(self, number: int, kind: str) -> bool:
        """Whether the sums of a sequence of three values are right."""
        right = True
        for step, total in enumerate((1.0, 3.0, 6.0)):
            inputs = {"value": np.full((1, 1), step + 1, np.float32)}
            ask = Ask("running_sum", "", inputs, {"sum": np.full((1, 1), total, np.float32)})
            marks = {"sequence_start": step == 0, "sequence_end": step == 2}
            answer = self.answer(ask, kind, sequence_id=number, **marks)
            right = right and _same(answer["sum"], ask.expected["sum"])
        return right

    def stream(self, start: int) -> bool:
        """Whether one request to the decoupled model gets its answers, in order."""
        answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        tensor = grpc_client.InferInput("start", [1], "INT32")
        tensor.set_data_from_numpy(np.array([start], np.int32))
        self._grpc.start_stream(lambda result, error: answers.put((result, error)))
        try:
            self._grpc.async_stream_infer("countdown", [tensor])
            came = []
            for _ in range(start):
                result, error = answers.get(timeout=PATIENCE_S)
                if error is not None:
                    raise error
                came.append(int(result.as_numpy("count")[0]))
        finally:
            self._grpc.stop_stream()
        return came == list(range(start, 0, -1))


def _same(answer: npt.NDArray[Any], first: npt.NDArray[Any]) -> bool:
    if object in (first.dtype, answer.dtype):
        return _texts(answer) == _texts(first)
    return answer.shape == first.shape and bool(
        np.allclose(answer, first, rtol=TOLERANCE, atol=TOLERANCE)
    )


def _texts(array: npt.NDArray[Any]) -> list[bytes]:
    """The texts as bytes: JSON gives str, binary tensors give bytes."""
    return [x.encode() if isinstance(x, str) else bytes(x) for x in array.ravel()]


def _column(values: list[bytes]) -> npt.NDArray[Any]:
    return np.array([[value] for value in values], dtype=object)
