"""Answers of Python models that nobody can use: refused with the line, on a real server."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from workbook.common.errors import LoadError, RequestError
from workbook.server import Triton
from workbook.server.explain import explain

HEAD = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
"""  # the body begins in line 6
CONFIG = """\
backend: "python"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ]
input [ { name: "maybe" data_type: TYPE_FP32 dims: [ 2 ] optional: true } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
DECOUPLED = CONFIG + "model_transaction_policy { decoupled: true }\n"
BATCHES = CONFIG + "dynamic_batching { max_queue_delay_microseconds: 100000 }\n"

ANSWERS = """\
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            y = pb_utils.Tensor("y", x * 2)
            responses.append(pb_utils.InferenceResponse([y]))
"""
RETURN = "        return responses\n"
SENDS_ONE = """\
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            sender, FINAL = request.get_response_sender(), 1
            y = pb_utils.Tensor("y", x * 2)
            sender.send(pb_utils.InferenceResponse([y]), FINAL)
"""

#: Models that go wrong: the config, the class's body, and the error's what, where and to do.
WRONG: dict[str, tuple[str, str, str, str, str]] = {
    "forgotten_return": (
        CONFIG,
        ANSWERS,
        "execute returned None, so 1 request would wait for ever",
        "1/model.py, line 6: def execute(self, requests):",
        "End execute with `return responses`",
    ),
    "bare_return": (
        CONFIG,
        ANSWERS + "        return\n",
        "execute returned None",
        "1/model.py, line 12: return",
        "`return responses`",
    ),
    "returns_a_none": (
        CONFIG,
        ANSWERS + "        responses = responses.reverse()\n" + RETURN,
        "execute returned None",
        "1/model.py, line 13: return responses",
        "`return responses`",
    ),
    "async_none": (
        CONFIG,
        ANSWERS.replace("def execute", "async def execute"),
        "execute returned None",
        "1/model.py, line 6: async def execute(self, requests):",
        "`return responses`",
    ),
    "none_among_responses": (
        CONFIG,
        ANSWERS + "        return [None for _ in responses]\n",
        "execute returned None in place of a response",
        "1/model.py, line 12: return [None for _ in responses]",
        "one pb_utils.InferenceResponse for each request",
    ),
    "one_response": (
        CONFIG,
        ANSWERS + "        return responses[0]\n",
        "execute returned an object of type InferenceResponse, not a list",
        "1/model.py, line 12: return responses[0]",
        "Return a list",
    ),
    "too_many": (
        CONFIG,
        ANSWERS + "        return responses * 2\n",
        "execute got 1 request and returned 2 responses",
        "1/model.py, line 12: return responses * 2",
        "one pb_utils.InferenceResponse for each request",
    ),
    "two_returns": (
        CONFIG,
        "    def execute(self, requests):\n        if len(requests) > 100:\n            return []\n"
        "        return [1, 2, 3]\n",
        "execute got 1 request and returned 3 responses",
        "1/model.py, line 6: def execute(self, requests):",
        "one pb_utils.InferenceResponse for each request",
    ),
    "array": (
        CONFIG,
        "    def execute(self, requests):\n        return [np.zeros(2) for _ in requests]\n",
        "execute returned an object of type ndarray in place of a response",
        "1/model.py, line 7: return [np.zeros(2) for _ in requests]",
        "Return [pb_utils.InferenceResponse([pb_utils.Tensor(name, array)]), …]",
    ),
    "wrong_type": (
        CONFIG,
        ANSWERS.replace("x * 2", "x.astype(np.float64)") + RETURN,
        'The output "y" is float64, and the config says TYPE_FP32',
        '1/model.py, line 10: y = pb_utils.Tensor("y", x.astype(np.float64))',
        "Write array.astype(np.float32) there, or data_type: TYPE_FP64 in config.pbtxt",
    ),
    "wrong_type_of_text": (
        CONFIG,
        ANSWERS.replace("x * 2", "np.array([[b'a', b'b']], np.object_)") + RETURN,
        'The output "y" is object, and the config says TYPE_FP32',
        "1/model.py, line 10: y = ",
        "data_type: TYPE_STRING in config.pbtxt",
    ),
    "unknown_output": (
        CONFIG,
        ANSWERS.replace('Tensor("y"', 'Tensor("Y"') + RETURN,
        'an output "Y", which its config does not have',
        '1/model.py, line 10: y = pb_utils.Tensor("Y", x * 2)',
        "The config's outputs are y",
    ),
    "unknown_input": (
        CONFIG,
        ANSWERS.replace('request, "x"', 'request, "X"') + RETURN,
        'asks for an input "X", which its config does not have',
        '1/model.py, line 9: x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()',
        "The config's inputs are maybe, x",
    ),
    "sends_wrong_type": (
        CONFIG,
        SENDS_ONE.replace("x * 2", "x.astype(np.int32)"),
        'The output "y" is int32, and the config says TYPE_FP32',
        '1/model.py, line 10: y = pb_utils.Tensor("y", x.astype(np.int32))',
        "data_type: TYPE_INT32 in config.pbtxt",
    ),
    "sends_unknown_output": (
        CONFIG,
        SENDS_ONE.replace('"y"', "'y' * 2"),
        'an output "yy", which its config does not have',
        "1/model.py, line 11: sender.send(pb_utils.InferenceResponse([y]), FINAL)",
        "The config's outputs are y",
    ),
}

#: Models that are right, each in its own way.
RIGHT: dict[str, tuple[str, str]] = {
    "right": (CONFIG, ANSWERS + RETURN),
    "awaits": (CONFIG, ANSWERS.replace("def execute", "async def execute") + RETURN),
    "sends": (CONFIG, SENDS_ONE),
    "sends_beside_none": (CONFIG, SENDS_ONE + "        return [None for _ in requests]\n"),
    "inherits": (
        CONFIG,
        f"    pass\n\n\nclass Base:\n{ANSWERS}{RETURN}\n\nclass TritonPythonModel(Base):\n"
        "    def __init__(self):\n        super(TritonPythonModel, self).__init__()\n",
    ),
    "static": (
        CONFIG,
        ANSWERS.replace("    def execute(self, ", "    @staticmethod\n    def execute(") + RETURN,
    ),
    "slots": (
        CONFIG,
        "    __slots__ = ('config',)\n\n    def initialize(self, args):\n"
        "        self.config = args['model_config']\n\n" + ANSWERS + RETURN,
    ),
    "optional": (
        CONFIG,
        ANSWERS
        + "            maybe = pb_utils.get_input_tensor_by_name(request, 'maybe')\n"
        + "            assert maybe is None\n"
        + RETURN,
    ),
    "asks_for_what_it_may_have": (
        CONFIG,
        ANSWERS
        + "            corrid = pb_utils.get_input_tensor_by_name(request, 'CORRID')\n"
        + "            assert corrid is None\n"
        + RETURN,
    ),
    "asks_its_own_request": (
        CONFIG,
        ANSWERS + "            own = pb_utils.InferenceRequest(model_name='right', "
        "requested_output_names=['y'], inputs=[pb_utils.Tensor('z', x)])\n"
        "            assert pb_utils.get_input_tensor_by_name(own, 'w') is None\n" + RETURN,
    ),
    "text": (
        CONFIG.replace('"y" data_type: TYPE_FP32', '"y" data_type: TYPE_STRING'),
        ANSWERS.replace("x * 2", "(x * 2).astype(np.int32).astype(np.bytes_)") + RETURN,
    ),
}


def write(repository: Path, name: str, config: str, body: str) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)
    (repository / name / "1" / "model.py").write_text(HEAD + body)


def ask(
    server: Triton, protocol: str, model: str, inputs: tuple[str, ...] = ("x",), seconds: float = 60
) -> Any:
    """The array y for inputs of [[1, 2]]."""
    if protocol == "http":
        import tritonclient.http as client

        place = server.url.removeprefix("http://")
        connection = client.InferenceServerClient(place, network_timeout=seconds)
        options: dict[str, Any] = {}
    else:
        import tritonclient.grpc as client

        connection = client.InferenceServerClient(server.grpc_url)
        options = {"client_timeout": seconds}
    given = []
    for name in inputs:
        given.append(client.InferInput(name, [1, 2], "FP32"))
        given[-1].set_data_from_numpy(np.array([[1, 2]], np.float32))
    with connection:
        return connection.infer(model, given, **options).as_numpy("y")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server with the models of WRONG and RIGHT."""
    repository = tmp_path_factory.mktemp("models")
    for name, (config, body, *_) in {**WRONG, **RIGHT}.items():
        write(repository, name, config, body)
    with Triton(repository, models=[*WRONG, *RIGHT], start_timeout=300) as server:
        yield server


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_an_error_with_its_line(
    checked: Triton, name: str, protocol: str
) -> None:
    _, _, what, where, todo = WRONG[name]
    with pytest.raises(InferenceServerException) as caught:
        ask(checked, protocol, name)
    said = str(caught.value)
    assert what in said
    error = explain(caught.value, checked, name)
    assert isinstance(error, RequestError)
    assert error.rule == "model-mistake"
    assert what in error.what
    assert error.where.startswith(where)
    assert todo in error.todo
    assert "triton_workbook_checks" not in str(error)
    assert ask(checked, protocol, "right").tolist() == [[2, 4]]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_passes(checked: Triton, name: str, protocol: str) -> None:
    wanted = [[b"2", b"4"]] if name == "text" else [[2, 4]]
    assert ask(checked, protocol, name).tolist() == wanted


def test_each_of_several_waiting_requests_gets_the_error(tmp_path: Path) -> None:
    """A `return` inside the loop answers one request and forgets its batch mates."""
    write(tmp_path, "first_only", BATCHES, ANSWERS + "            return responses\n")
    with Triton(tmp_path, models=["first_only"]) as server, ThreadPoolExecutor(4) as pool:

        def request(_: int) -> str:
            try:
                return str(ask(server, "grpc", "first_only").tolist())
            except InferenceServerException as error:
                return str(explain(error, server, "first_only"))

        answers = list(pool.map(request, range(4)))
        batched = [a for a in answers if a != "[[2.0, 4.0]]"]
        assert batched, answers  # alone, a request is answered
        for answer in batched:
            assert "requests and returned 1 response." in answer
            assert "1/model.py, line 12: return responses" in answer
            assert "Move `return` out of the loop over the requests" in answer
        server.unload("first_only", timeout=20)


def test_a_model_that_went_wrong_unloads_at_once(tmp_path: Path) -> None:
    write(tmp_path, "silent", CONFIG, ANSWERS)
    with Triton(tmp_path, models=["silent"]) as server:
        with pytest.raises(InferenceServerException, match="execute returned None"):
            ask(server, "http", "silent")
        server.unload("silent", timeout=20)  # it waited for its requests, for ever


@pytest.mark.parametrize("name", ["forgotten_return", "wrong_type"])
def test_a_wrong_answer_to_a_warm_up_is_logged(tmp_path: Path, name: str) -> None:
    """Triton 24.10 crashes now and then where a warm-up fails, so the model is loaded."""
    warmup = (
        'model_warmup [ { name: "twice" batch_size: 3 count: 2 inputs { key: "x" value '
        "{ data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } } ]\n"
    )
    write(tmp_path, name, CONFIG + warmup, WRONG[name][1])
    with Triton(tmp_path) as server:
        for _ in range(4):
            start = server.log_size()
            server.load(name)
            until = time.monotonic() + 10  # the stub's words reach the log a little later
            while "ModelMistake: " not in server.log_text(start) and time.monotonic() < until:
                time.sleep(0.02)
            assert "ModelMistake: " in server.log_text(start)
            with pytest.raises(InferenceServerException) as caught:
                ask(server, "grpc", name)
            error = explain(caught.value, server, name)
            assert error.where.startswith(WRONG[name][3])
            server.unload(name, timeout=20)


def test_a_decoupled_model_streams_an_error_in_place_of_a_wrong_response(tmp_path: Path) -> None:
    import tritonclient.grpc as client

    body = SENDS_ONE.replace("INAL)\n", "INAL * 0)\n") + (
        "            y = pb_utils.Tensor('z', x)\n"
        "            sender.send(pb_utils.InferenceResponse([y]))\n"
        "            sender.send(flags=FINAL)\n"
    )
    write(tmp_path, "stream", DECOUPLED, body)
    with (
        Triton(tmp_path, models=["stream"]) as server,
        client.InferenceServerClient(server.grpc_url) as connection,
    ):
        answers: queue.Queue[Any] = queue.Queue()
        connection.start_stream(lambda result, error: answers.put(error or result))
        x = client.InferInput("x", [1, 2], "FP32")
        x.set_data_from_numpy(np.array([[1, 2]], np.float32))
        connection.async_stream_infer("stream", [x])
        assert answers.get(timeout=30).as_numpy("y").tolist() == [[2, 4]]
        error = explain(answers.get(timeout=30), server, "stream")
        connection.stop_stream()
        assert 'an output "z", which its config does not have' in error.what
        assert error.where.startswith("1/model.py, line 12: y = ")


def test_sequence_controls_and_states_are_inputs_too(tmp_path: Path) -> None:
    config = CONFIG + (
        'sequence_batching { control_input [ { name: "START" control [ { kind: '
        "CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ] }\n"
    )
    body = ANSWERS.replace(
        'x = pb_utils.get_input_tensor_by_name(request, "x")',
        'pb_utils.get_input_tensor_by_name(request, "START").as_numpy()\n'
        '            x = pb_utils.get_input_tensor_by_name(request, "x")',
    )
    write(tmp_path, "sequence", config, body + RETURN)
    with Triton(tmp_path, models=["sequence"]) as server, server.http_client() as client:
        from tritonclient import http

        x = http.InferInput("x", [1, 2], "FP32")
        x.set_data_from_numpy(np.array([[1, 2]], np.float32))
        answer = client.infer("sequence", [x], sequence_id=7, sequence_start=True)
        assert answer.as_numpy("y").tolist() == [[2, 4]]


def test_other_errors_of_a_model_keep_their_words(tmp_path: Path) -> None:
    write(tmp_path, "raises", CONFIG, "    def execute(self, requests):\n        1 / 0\n")
    # Its None has nothing to do with an input.
    body = ANSWERS.replace("x * 2", "None.nothing")
    write(tmp_path, "none", CONFIG, body)
    write(tmp_path, "lazy", CONFIG, "    pass\n")
    broken = "    def initialize(self, args):\n        args['nothing']\n"
    write(tmp_path, "broken", CONFIG, broken)
    (tmp_path / "nameless" / "1").mkdir(parents=True)
    (tmp_path / "nameless" / "1" / "model.py").write_text("import numpy\n")
    (tmp_path / "nameless" / "config.pbtxt").write_text(CONFIG)
    with Triton(tmp_path, models=["raises", "none", "lazy"]) as server:
        with pytest.raises(InferenceServerException, match="ZeroDivisionError: ") as caught:
            ask(server, "http", "raises")
        error = explain(caught.value, server, "raises")
        assert "1/model.py, line 7, in execute: 1 / 0" in error.where
        assert "triton_workbook_checks" not in str(error)
        with pytest.raises(InferenceServerException, match="has no attribute 'nothing'") as caught:
            ask(server, "http", "none")
        error = explain(caught.value, server, "none")
        assert "1/model.py, line 10, in execute: " in error.where
        with pytest.raises(InferenceServerException, match="does not implement `execute` method"):
            ask(server, "http", "lazy")
        with pytest.raises(LoadError) as refused:
            server.load("broken")
        assert refused.value.where == "1/model.py, line 7, in initialize: args['nothing']"
        assert "triton_workbook_checks" not in str(refused.value)
        with pytest.raises(LoadError, match="has no class TritonPythonModel"):
            server.load("nameless")


def test_finalize_runs_and_the_model_is_freed(tmp_path: Path) -> None:
    body = ANSWERS + RETURN + (
        "\n    def finalize(self):\n        print('finalize ran', flush=True)\n"
        "\n    def __del__(self):\n        print('freed', flush=True)\n"
    )  # fmt: skip
    write(tmp_path, "last", CONFIG, body)
    with Triton(tmp_path, models=["last"]) as server:
        assert ask(server, "http", "last").tolist() == [[2, 4]]
        server.unload("last", timeout=20)
        assert "finalize ran" in server.log_text()
        assert "freed" in server.log_text()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server without the checks, and the models of WRONG."""
    repository = tmp_path_factory.mktemp("models")
    for name, (config, body, *_) in WRONG.items():
        write(repository, name, config, body)
    with Triton(repository, models=[*WRONG], plain=True, start_timeout=300) as server:
        yield server


#: What Triton itself says of those models, where it says anything.
UPSTREAM = {
    "one_response": ("not-a-list", "Return a list"),
    "too_many": ("number-of-responses", "one InferenceResponse for each"),
    "array": ("not-a-response", "Return [pb_utils.InferenceResponse("),
    "unknown_input": ("tensor-is-none", "The inputs of unknown_input are x and maybe"),
}


@pytest.mark.parametrize("name", UPSTREAM)
def test_what_triton_says_by_itself_is_explained(plain: Triton, name: str) -> None:
    rule, todo = UPSTREAM[name]
    with pytest.raises(InferenceServerException) as caught:
        ask(plain, "http", name)
    error = explain(caught.value, plain, name)
    assert isinstance(error, RequestError)
    assert error.rule == rule
    assert todo in error.todo


def test_what_triton_passes_by_itself(plain: Triton) -> None:
    """The reasons for the checks. If these change upstream, the checks may go."""
    assert ask(plain, "grpc", "wrong_type").dtype == np.float64
    assert ask(plain, "grpc", "unknown_output") is None
    with pytest.raises(InferenceServerException, match="Deadline Exceeded"):
        ask(plain, "grpc", "forgotten_return", seconds=3)


def test_a_decoupled_model_that_returns_something(plain: Triton, tmp_path: Path) -> None:
    write(plain.repository, "returns", DECOUPLED, ANSWERS + RETURN)
    plain.load("returns")
    answers: queue.Queue[Any] = queue.Queue()
    import tritonclient.grpc as client

    with plain.grpc_client() as connection:
        connection.start_stream(lambda result, error: answers.put(error or result))
        x = client.InferInput("x", [1, 2], "FP32")
        x.set_data_from_numpy(np.array([[1, 2]], np.float32))
        connection.async_stream_infer("returns", [x])
        error = explain(answers.get(timeout=30), plain, "returns")
        connection.stop_stream()
    assert isinstance(error, RequestError)
    assert error.rule == "decoupled-returns"
