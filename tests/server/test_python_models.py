"""Answers of Python models that do not fit their config, on a real server.

The laptop server answers as NVIDIA's container does, and adds a warning. A plain server, which has
only the wheel's files, shows what the container does. In release 24.10 this code decides:

- types, shapes and numbers of rows are not checked. `InferResponse::Send` (python_backend,
  src/infer_response.cc) passes them on, and so does `InferenceResponse::AddOutput` (core,
  src/infer_response.cc), except for an output with `reshape`, where it reads dimensions that the
  tensor may lack;
- outputs that were not requested, and so also outputs that the config lacks:
  `InferResponse::PruneOutputTensors` removes them from returned and from sent responses;
- what `execute` returns: `Stub::ProcessReturnedResponses` (src/pb_stub.cc);
- an error after a final response of a model that is not decoupled:
  `ModelInstanceState::ProcessRequests` (src/python_be.cc) deletes the response factory again.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from workbook.common.errors import LoadError, RequestError
from workbook.server import Triton, all_models, deploy, model_warnings
from workbook.server.explain import explain

pytestmark = pytest.mark.server

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
TWO = CONFIG + 'output [ { name: "z" data_type: TYPE_FP32 dims: [ 2 ] } ]\n'
SHAPELESS = (
    CONFIG.replace("max_batch_size: 8\n", "")
    .replace(
        '"y" data_type: TYPE_FP32 dims: [ 2 ]',
        '"y" data_type: TYPE_FP32 dims: [ -1, 1 ] reshape { shape: [ -1 ] }',
    )
    .replace("dims: [ 2 ]", "dims: [ 1, 2 ]")
)
DECOUPLED = CONFIG + "model_transaction_policy { decoupled: true }\n"
BATCHES = CONFIG + "dynamic_batching { max_queue_delay_microseconds: 100000 }\n"

STRING_IDS = (
    'sequence_batching { control_input [ { name: "CORRID" control [ { kind: '
    "CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } ] } ] }\n"
)
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

#: Models with failing requests: config, body of the class, and the error's what, where and to do.
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
        "execute returned c_python_backend_utils.InferenceResponse, not a list",
        "1/model.py, line 12: return responses[0]",
        "Return a list",
    ),
    "too_many": (
        CONFIG,
        ANSWERS + "        return responses * 2\n",
        "execute got 1 request(s) and returned 2 response(s)",
        "1/model.py, line 12: return responses * 2",
        "one pb_utils.InferenceResponse for each request",
    ),
    "two_returns": (
        CONFIG,
        "    def execute(self, requests):\n        if len(requests) > 100:\n            return []\n"
        "        return [1, 2, 3]\n",
        "execute got 1 request(s) and returned 3 response(s)",
        "1/model.py, line 6: def execute(self, requests):",
        "one pb_utils.InferenceResponse for each request",
    ),
    "array": (
        CONFIG,
        "    def execute(self, requests):\n        return [np.zeros(2) for _ in requests]\n",
        "execute returned numpy.ndarray in place of a response",
        "1/model.py, line 7: return [np.zeros(2) for _ in requests]",
        "Return [pb_utils.InferenceResponse([pb_utils.Tensor(name, array)]), …]",
    ),
    "unknown_input": (
        CONFIG,
        ANSWERS.replace('request, "x"', 'request, "X"') + RETURN,
        'asks for an input "X", which its config does not have',
        '1/model.py, line 9: x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()',
        "The config's inputs are maybe, x",
    ),
    "sender_let_go": (
        CONFIG,
        "    def execute(self, requests):\n        for request in requests:\n"
        "            request.get_response_sender()\n",
        "given up before its final response was sent",
        "1/model.py, line 8: request.get_response_sender()",
        "flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    ),
    "fewer_dimensions_than_reshape": (
        SHAPELESS,
        ANSWERS.replace("x * 2", "np.array(3.0, np.float32)") + RETURN,
        'The output "y" has the shape [], and by reshape in the config it is [-1]',
        '1/model.py, line 10: y = pb_utils.Tensor("y", np.array(3.0, np.float32))',
        "Give the array that shape there",
    ),
}

#: The models in WRONG that give Triton's own error; the log has the line.
LEFT_TO_TRITON = {
    "one_response": "not-a-list",
    "too_many": "number-of-responses",
    "two_returns": "number-of-responses",
    "array": "not-a-response",
}
#: Models that are answered as the container answers them, with a warning: the config, the class's
#: body, the warning's what, where and to do, and what a client gets: type and shape by output.
SLOPPY: dict[str, tuple[str, str, str, str, str, dict[str, tuple[str, list[int]]]]] = {
    "wrong_type": (
        CONFIG,
        ANSWERS.replace("x * 2", "x.astype(np.float64)") + RETURN,
        'The output "y" is float64, and the config says TYPE_FP32',
        '1/model.py, line 10: y = pb_utils.Tensor("y", x.astype(np.float64))',
        "Write array.astype(np.float32) there, or data_type: TYPE_FP64 in config.pbtxt",
        {"y": ("FP64", [1, 2])},
    ),
    "wrong_type_of_text": (
        CONFIG,
        ANSWERS.replace("x * 2", "np.array([[b'a', b'b']], np.object_)") + RETURN,
        'The output "y" is object, and the config says TYPE_FP32',
        "1/model.py, line 10: y = ",
        "data_type: TYPE_STRING in config.pbtxt",
        {"y": ("BYTES", [1, 2])},
    ),
    "unknown_output": (
        CONFIG,
        ANSWERS.replace('Tensor("y"', 'Tensor("Y"') + RETURN,
        'an output "Y", which its config does not have',
        '1/model.py, line 10: y = pb_utils.Tensor("Y", x * 2)',
        "The config's outputs are y",
        {},
    ),
    "sends_wrong_type": (
        CONFIG,
        SENDS_ONE.replace("x * 2", "x.astype(np.int32)"),
        'The output "y" is int32, and the config says TYPE_FP32',
        '1/model.py, line 10: y = pb_utils.Tensor("y", x.astype(np.int32))',
        "data_type: TYPE_INT32 in config.pbtxt",
        {"y": ("INT32", [1, 2])},
    ),
    "sends_unknown_output": (
        CONFIG,
        SENDS_ONE.replace('"y"', "'y' * 2"),
        'an output "yy", which its config does not have',
        "1/model.py, line 11: sender.send(pb_utils.InferenceResponse([y]), FINAL)",
        "The config's outputs are y",
        {},
    ),
    "other_shape": (
        CONFIG,
        ANSWERS.replace("x * 2", "np.zeros((1, 5), np.float32)") + RETURN,
        'The output "y" has the shape [1, 5], and by dims in the config it is after the number of '
        "rows [2].",
        '1/model.py, line 10: y = pb_utils.Tensor("y", np.zeros((1, 5), np.float32))',
        "correct dims in config.pbtxt",
        {"y": ("FP32", [1, 5])},
    ),
    "no_dimensions": (
        CONFIG,
        ANSWERS.replace("x * 2", "np.array(x.sum())") + RETURN,
        'The output "y" has the shape []',
        '1/model.py, line 10: y = pb_utils.Tensor("y", np.array(x.sum()))',
        "array.reshape",
        {"y": ("FP32", [])},
    ),
    "other_rows": (
        CONFIG,
        ANSWERS.replace("x * 2", "np.zeros((3, 2), np.float32)") + RETURN,
        'The output "y" has 3 rows, and its request has 1.',
        '1/model.py, line 10: y = pb_utils.Tensor("y", np.zeros((3, 2), np.float32))',
        "write max_batch_size: 0",
        {"y": ("FP32", [3, 2])},
    ),
    "fewer_outputs": (
        TWO,
        ANSWERS + RETURN,
        'A response lacks the output "z", which its request asks for.',
        "1/model.py, line 12: return responses",
        "take it out of config.pbtxt",
        {"y": ("FP32", [1, 2])},
    ),
    "no_outputs": (
        CONFIG,
        ANSWERS.replace("InferenceResponse([y])", "InferenceResponse([])") + RETURN,
        'A response lacks the output "y"',
        '1/model.py, line 10: y = pb_utils.Tensor("y", x * 2)',
        "Put it into each InferenceResponse",
        {},
    ),
    "never_final": (
        CONFIG,
        SENDS_ONE.replace(", FINAL)", ")"),
        "A request is given up before its final response was sent",
        "1/model.py, line 9: sender, FINAL = request.get_response_sender(), 1",
        "flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL",
        {"y": ("FP32", [1, 2])},
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
    return answer(server, protocol, model, inputs, seconds).as_numpy("y")


def answer(
    server: Triton, protocol: str, model: str, inputs: tuple[str, ...] = ("x",), seconds: float = 60
) -> Any:
    """The client's result for inputs of [[1, 2]]."""
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
        return connection.infer(model, given, **options)


def outputs(server: Triton, protocol: str, model: str) -> dict[str, tuple[str, list[int]]]:
    """Type and shape of each output of an answer, by name."""
    response = answer(server, protocol, model).get_response()
    if protocol == "http":
        return {o["name"]: (o["datatype"], o["shape"]) for o in response["outputs"]}
    return {o.name: (o.datatype, list(o.shape)) for o in response.outputs}


def streamed(server: Triton, model: str) -> list[Any]:
    """A stream's results for one request of [[1, 2]], and the error if it ends with one."""
    import tritonclient.grpc as client

    x = client.InferInput("x", [1, 2], "FP32")
    x.set_data_from_numpy(np.array([[1, 2]], np.float32))
    came: queue.Queue[Any] = queue.Queue()
    with client.InferenceServerClient(server.grpc_url) as connection:
        connection.start_stream(lambda result, error: came.put(error or result))
        connection.async_stream_infer(model, [x], enable_empty_final_response=True)
        found = [came.get(timeout=30)]
        while not isinstance(found[-1], Exception) and not (
            found[-1].get_response().parameters["triton_final_response"].bool_param
        ):
            found.append(came.get(timeout=30))
        connection.stop_stream()
    return found


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server with the models of WRONG, SLOPPY and RIGHT."""
    models = {**WRONG, **SLOPPY, **RIGHT}
    repository = tmp_path_factory.mktemp("models")
    for name, (config, body, *_) in models.items():
        write(repository, name, config, body)
    with Triton(repository, models=[*models], start_timeout=300) as server:
        yield server


@pytest.mark.quick
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_an_error_with_its_line(
    checked: Triton, name: str, protocol: str
) -> None:
    _, _, what, where, todo = WRONG[name]
    with pytest.raises(InferenceServerException) as caught:
        ask(checked, protocol, name)
    error = explain(caught.value, checked, name)
    assert isinstance(error, RequestError)
    assert error.rule == LEFT_TO_TRITON.get(name, "model-mistake")
    assert what in error.what
    assert error.where.startswith(where)
    assert todo in error.todo
    assert "triton_workbook_checks" not in str(error)
    assert ask(checked, protocol, "right").tolist() == [[2, 4]]


@pytest.mark.parametrize("name", SLOPPY)
def test_a_sloppy_answer_is_the_containers_with_one_warning(checked: Triton, name: str) -> None:
    _, _, what, where, todo, wanted = SLOPPY[name]
    for protocol in ("http", "grpc", "http"):
        assert outputs(checked, protocol, name) == wanted
    (warning,) = model_warnings.of(checked, name)
    assert warning.what.startswith(what) or what in warning.what
    assert warning.where.startswith(where)
    assert todo in warning.todo
    assert checked.log_text().count(f"Warning about model '{name}'") == 1


@pytest.mark.quick
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_passes(checked: Triton, name: str, protocol: str) -> None:
    wanted = [[b"2", b"4"]] if name == "text" else [[2, 4]]
    assert ask(checked, protocol, name).tolist() == wanted
    assert model_warnings.of(checked, name) == []


@pytest.mark.quick
def test_a_strict_server_refuses_sloppy_answers(tmp_path: Path) -> None:
    names = ("wrong_type", "sends_unknown_output", "other_shape", "fewer_outputs")
    models = {name: {**WRONG, **SLOPPY}[name] for name in names}
    for name, (config, body, *_) in models.items():
        write(tmp_path, name, config, body)
    with Triton(tmp_path, models=names, strict=True) as server:
        for name, (_, _, what, where, *_) in models.items():
            with pytest.raises(InferenceServerException) as caught:
                ask(server, "grpc", name)
            error = explain(caught.value, server, name)
            assert error.rule == "model-mistake"
            assert what in error.what
            assert error.where.startswith(where)


def test_sums_of_streamed_answers_in_another_type(tmp_path: Path) -> None:
    """As upstream's examples bls_decoupled do: `np.array([0])` is int64, the config says INT32.

    An ensemble hands the type on, and the next model's request is checked against *its* config
    (`InferenceRequest::Normalize`, core, src/infer_request.cc).
    """
    number = 'input [ { name: "x" data_type: TYPE_FP32 dims: [ 1, 2 ] } ]\n'
    output = 'output [ { name: "y" data_type: TYPE_INT32 dims: [ 1 ] } ]\n'
    config = f'backend: "python"\n{number}{output}'
    parts = (
        "    def execute(self, requests):\n        for request in requests:\n"
        "            sender = request.get_response_sender()\n            for _ in range(3):\n"
        "                one = pb_utils.Tensor('y', np.array([1], np.int32))\n"
        "                sender.send(pb_utils.InferenceResponse([one]))\n"
        "            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)\n"
    )
    write(tmp_path, "parts", config + "model_transaction_policy { decoupled: true }\n", parts)
    for name, keyword, call in (
        ("summed", "", "ask.exec(decoupled=True)"),
        ("summed_async", "async ", "await ask.async_exec(decoupled=True)"),
    ):
        body = (
            f"    {keyword}def execute(self, requests):\n"
            "        given = {'inputs': requests[0].inputs(), 'requested_output_names': ['y']}\n"
            "        ask = pb_utils.InferenceRequest(model_name='parts', **given)\n"
            "        total = np.array([0])\n"
            f"        for part in {call}:\n            if part.output_tensors():\n"
            "                total += part.output_tensors()[0].as_numpy()\n"
            "        return [pb_utils.InferenceResponse([pb_utils.Tensor('y', total)])]\n"
        )
        write(tmp_path, name, config, body)
    reads = config.replace("FP32", "INT32").replace("[ 1, 2 ]", "[ 1 ]")
    body = ANSWERS + RETURN
    write(tmp_path, "reads", reads, body)
    (tmp_path / "chain/1").mkdir(parents=True)
    (tmp_path / "chain/config.pbtxt").write_text(
        f'platform: "ensemble"\n{number}{output}'
        "ensemble_scheduling { step ["
        '{ model_name: "summed" model_version: -1 input_map { key: "x" value: "x" } '
        'output_map { key: "y" value: "sum" } }, '
        '{ model_name: "reads" model_version: -1 input_map { key: "x" value: "sum" } '
        'output_map { key: "y" value: "y" } } ] }\n'
    )
    with Triton(tmp_path, models=["parts", "reads", "summed", "summed_async", "chain"]) as server:
        for name in ("summed", "summed_async"):
            for protocol in ("http", "grpc"):
                found = ask(server, protocol, name)
                assert (found.dtype, found.tolist()) == (np.int64, [3])
            (warning,) = model_warnings.of(server, name)
            assert 'The output "y" is int64, and the config says TYPE_INT32.' in warning.what
        with pytest.raises(InferenceServerException, match="INT64"):
            ask(server, "grpc", "chain")


def test_an_error_after_the_final_response_does_not_end_the_server(tmp_path: Path) -> None:
    """On a plain server each of these requests ends the server by SIGSEGV."""
    fails = SENDS_ONE + "        raise ValueError('too late')\n"
    write(tmp_path, "fails", CONFIG, fails)
    write(tmp_path, "no_list", CONFIG, SENDS_ONE + "        return 5\n")
    batched = SENDS_ONE.replace(
        "        for request in requests:\n",
        "        for request in requests:\n"
        "            if request is requests[-1] is not requests[0]:\n"
        "                raise ValueError('the last one')\n",
    )
    write(tmp_path, "last_fails", BATCHES, batched)
    with Triton(tmp_path, models=["fails", "no_list", "last_fails"]) as server:
        for protocol in ("http", "grpc"):
            assert ask(server, protocol, "fails").tolist() == [[2, 4]]
            assert ask(server, protocol, "no_list").tolist() == [[2, 4]]

        def request(_: int) -> str:
            try:
                return str(ask(server, "grpc", "last_fails").tolist())
            except InferenceServerException as error:
                return str(explain(error, server, "last_fails"))

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(request, range(4)))
        failed = [answer for answer in answers if answer != "[[2.0, 4.0]]"]
        assert failed, answers  # some requests shared an execution
        assert len(failed) < 4
        for answer in failed:
            assert "the last one" in answer
            assert "1/model.py, line 9, in execute" in answer
        for name in ("fails", "no_list", "last_fails"):
            server.unload(name, timeout=20)


def test_a_request_that_a_decoupled_model_gives_up_gets_an_error(tmp_path: Path) -> None:
    """In the container the stream waits for ever, and the model cannot be unloaded."""
    one = SENDS_ONE.replace(", FINAL)", ")")
    later = (
        "    def execute(self, requests):\n        import threading\n"
        "        threading.Timer(0.3, self.answer, [requests]).start()\n\n"
        + SENDS_ONE.replace("execute", "answer")
    )
    models = {
        "none": "    def execute(self, requests):\n        pass\n",
        "one": one,
        "one_async": one.replace("    def", "    async def"),
        "breaks": one.replace("    def", "    async def") + "            1 / 0\n",
        "later": later,
    }
    for name, body in models.items():
        write(tmp_path, name, DECOUPLED, body)
    with Triton(tmp_path, models=[*models]) as server:
        for name, good in (("none", 0), ("one", 1), ("one_async", 1), ("breaks", 1)):
            *answers, last = streamed(server, name)
            assert len(answers) == good
            error = explain(last, server, name)
            assert "given up before its final response was sent" in error.what
            assert error.where.startswith("1/model.py, line ")
        (answer,) = streamed(server, "later")
        assert answer.as_numpy("y").tolist() == [[2, 4]]
        for name in models:
            server.unload(name, timeout=20)


def test_a_request_that_is_scheduled_again_is_not_given_up(tmp_path: Path) -> None:
    body = "    rounds = 0\n\n" + SENDS_ONE.replace(
        "InferenceResponse([y]), FINAL)\n",
        "InferenceResponse([y]))\n"
        "            self.rounds += 1\n"
        "            if self.rounds < 3:\n"
        "                request.set_release_flags("
        "pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)\n"
        "            else:\n"
        "                sender.send(flags=FINAL)\n",
    )
    again = "sequence_batching { iterative_sequence: true }\n"
    write(tmp_path, "again", DECOUPLED + again, body)
    with Triton(tmp_path, models=["again"]) as server:
        *answers, last = streamed(server, "again")
        assert [answer.as_numpy("y").tolist() for answer in answers] == 3 * [[[2, 4]]]
        assert not list(last.get_response().outputs)
        assert model_warnings.of(server, "again") == []


def test_warnings_are_in_deploy_and_status_and_begin_anew(tmp_path: Path) -> None:
    warmup = (
        'model_warmup [ { name: "once" batch_size: 1 inputs { key: "x" value '
        "{ data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } } ]\n"
    )
    (tmp_path / "models").mkdir()
    mine = tmp_path / "mine"
    write(mine, "warm", CONFIG + warmup, SLOPPY["wrong_type"][1])
    write(mine, "ids", CONFIG + STRING_IDS, ANSWERS + RETURN)
    with Triton(tmp_path / "models") as server:
        done = deploy(mine / "warm", server=server)
        (warning,) = done.warnings
        assert 'The output "y" is float64, and the config says TYPE_FP32.' in warning.what
        assert warning.where == SLOPPY["wrong_type"][3]
        assert f"Warning: {warning}" in str(done)
        (ids,) = deploy(mine / "ids", server=server).warnings
        assert "of exactly 128 characters only" in ids.what
        assert ids.where == "config.pbtxt, control_input CORRID"
        by_name = {model.name: model.warnings for model in all_models.status(server)}
        assert by_name == {"warm": (warning,), "ids": (ids,)}
        (mine / "warm/1/model.py").write_text(HEAD + ANSWERS + RETURN)
        assert deploy(mine / "warm", server=server).warnings == ()
        server.unload("warm")
        assert model_warnings.of_log(server.log_text()) == []


@pytest.mark.parametrize("id", ["short", "n" * 128])
def test_ids_as_texts_need_128_characters_in_this_core(tmp_path: Path, id: str) -> None:
    """What model_warnings.of_config says. If this fails, the core has changed, and it may go."""
    write(tmp_path, "ids", CONFIG + STRING_IDS, ANSWERS + RETURN)
    with Triton(tmp_path, models=["ids"]) as server, server.grpc_client() as client:
        from tritonclient import grpc

        assert server.metadata()["version"] == "2.51.0"
        x = grpc.InferInput("x", [1, 2], "FP32")
        x.set_data_from_numpy(np.array([[1, 2]], np.float32))
        if len(id) == 128:
            answer = client.infer("ids", [x], sequence_id=id, sequence_start=True)
            assert answer.as_numpy("y").tolist() == [[2, 4]]
        else:
            with pytest.raises(InferenceServerException, match="number of string elements"):
                client.infer("ids", [x], sequence_id=id, sequence_start=True)


def test_a_notebook_shows_warnings_under_the_cell(tmp_path: Path) -> None:
    write(tmp_path / "models", "sloppy", *SLOPPY["wrong_type"][:2])
    write(tmp_path / "models", "fine", *RIGHT["right"])
    cells = [
        "import numpy as np\nfrom tritonclient import http\nfrom workbook.server import Triton\n"
        f"server = Triton({str(tmp_path / 'models')!r}, models=['sloppy', 'fine']).start()\n"
        "def ask(name):\n"
        "    x = http.InferInput('x', [1, 2], 'FP32')\n"
        "    x.set_data_from_numpy(np.zeros((1, 2), np.float32))\n"
        "    with server.http_client() as client:\n"
        "        client.infer(name, [x])",
        "ask('fine')",
        "ask('sloppy')",
        "ask('sloppy')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = ["".join(o.get("text", "") for o in cell.outputs) for cell in notebook.cells]
    assert shown[0] == shown[1] == shown[3] == ""
    assert 'Warning: sloppy: The output "y" is float64, and the config says' in shown[2]
    assert "  where: 1/model.py, line 10: y = " in shown[2]


def test_each_of_several_waiting_requests_gets_the_error(tmp_path: Path) -> None:
    """A `return` inside the loop answers one request and forgets the others of its batch."""
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
            assert "request(s) and returned 1 response(s)." in answer
            assert "1/model.py, line 12: return responses" in answer
            assert "Move `return` out of the loop over the requests" in answer
        server.unload("first_only", timeout=20)


def test_a_model_that_went_wrong_unloads_at_once(tmp_path: Path) -> None:
    write(tmp_path, "silent", CONFIG, ANSWERS)
    with Triton(tmp_path, models=["silent"]) as server:
        with pytest.raises(InferenceServerException, match="execute returned None"):
            ask(server, "http", "silent")
        server.unload("silent", timeout=20)  # before, it waited for its requests for ever


def test_a_wrong_answer_to_a_warm_up_is_logged(tmp_path: Path) -> None:
    """Triton 24.10 crashes now and then where a warm-up fails, so the model is loaded."""
    name = "forgotten_return"
    warmup = (
        'model_warmup [ { name: "twice" batch_size: 3 count: 2 inputs { key: "x" value '
        "{ data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } } ]\n"
    )
    write(tmp_path, name, CONFIG + warmup, WRONG[name][1])
    with Triton(tmp_path) as server:
        for _ in range(4):
            start = server.log_size()
            server.load(name)
            until = time.monotonic() + 10  # the stub's message reaches the log a little later
            while "ModelMistake: " not in server.log_text(start) and time.monotonic() < until:
                time.sleep(0.02)
            assert "ModelMistake: " in server.log_text(start)
            with pytest.raises(InferenceServerException) as caught:
                ask(server, "grpc", name)
            error = explain(caught.value, server, name)
            assert error.where.startswith(WRONG[name][3])
            server.unload(name, timeout=20)


def test_a_decoupled_model_streams_what_its_config_lacks(tmp_path: Path) -> None:
    body = SENDS_ONE.replace("INAL)\n", "INAL * 0)\n") + (
        "            y = pb_utils.Tensor('z', x)\n"
        "            sender.send(pb_utils.InferenceResponse([y]))\n"
        "            sender.send(flags=FINAL)\n"
    )
    write(tmp_path, "stream", DECOUPLED, body)
    with Triton(tmp_path, models=["stream"]) as server:
        first, second, last = streamed(server, "stream")
        assert first.as_numpy("y").tolist() == [[2, 4]]
        assert list(second.get_response().outputs) == list(last.get_response().outputs) == []
        (warning,) = model_warnings.of(server, "stream")
        assert 'an output "z", which its config does not have' in warning.what
        assert warning.where.startswith("1/model.py, line 12: y = ")


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


#: Triton's own messages for these models, if there are any.
UPSTREAM = {
    "one_response": ("not-a-list", "Return a list"),
    "too_many": ("number-of-responses", "one InferenceResponse for each"),
    "two_returns": ("number-of-responses", "one InferenceResponse for each"),
    "array": ("not-a-response", "Return [pb_utils.InferenceResponse("),
    "unknown_input": ("tensor-is-none", "The inputs of unknown_input are x and maybe"),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server without the checks, with models of WRONG and SLOPPY."""
    models = {name: {**WRONG, **SLOPPY}[name] for name in [*UPSTREAM, "forgotten_return", *SLOPPY]}
    repository = tmp_path_factory.mktemp("models")
    for name, (config, body, *_) in models.items():
        write(repository, name, config, body)
    with Triton(repository, models=[*models], plain=True, start_timeout=300) as server:
        yield server


@pytest.mark.parametrize("name", UPSTREAM)
def test_what_triton_says_by_itself_is_explained(plain: Triton, name: str) -> None:
    rule, todo = UPSTREAM[name]
    with pytest.raises(InferenceServerException) as caught:
        ask(plain, "http", name)
    error = explain(caught.value, plain, name)
    assert isinstance(error, RequestError)
    assert error.rule == rule
    assert todo in error.todo


@pytest.mark.parametrize("name", LEFT_TO_TRITON)
def test_an_error_of_triton_has_its_words(plain: Triton, checked: Triton, name: str) -> None:
    messages = []
    for server in (plain, checked):
        with pytest.raises(InferenceServerException) as caught:
            ask(server, "http", name)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("name", [name for name in SLOPPY if name != "never_final"])
def test_what_triton_sends_by_itself(plain: Triton, name: str) -> None:
    """The laptop server answers the same: see above."""
    for protocol in ("http", "grpc"):
        assert outputs(plain, protocol, name) == SLOPPY[name][-1]


def test_what_waits_for_ever_by_itself(plain: Triton) -> None:
    """This is why we refuse such models. If it changes upstream, the refusal can be removed."""
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
