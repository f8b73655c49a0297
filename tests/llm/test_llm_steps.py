"""One step at a time: the tokenizer on the server (an ensemble), and on the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from llm_asking import PROMPT, hang_up
from llm_reference import reference, tokenizer
from llm_repository import put_models
from llm_waits import pending, shared_memory, wait_until

from workbook.server import Triton

pytestmark = pytest.mark.server

Array = Any
Next = Callable[[Triton, list[str]], Array]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server with the tokenizer, the step, and the ensemble of both."""
    repository = tmp_path_factory.mktemp("models")
    names = ("llama_tokenizer", "llama_onnx", "llama_next")
    put_models(repository, names)
    with Triton(repository) as server:
        for name in names:
            server.load(name)
        yield server


def infer(server: Triton, api: Any, model: str, tensors: dict[str, Array]) -> Any:
    """Ask a model over gRPC or HTTP."""
    kinds = {"O": "BYTES", "i": "INT64", "f": "FP32"}
    inputs = [
        api.InferInput(name, array.shape, kinds[array.dtype.kind]).set_data_from_numpy(array)
        for name, array in tensors.items()
    ]
    with server.grpc_client() if api is grpcclient else server.http_client() as client:
        return client.infer(model, inputs)


# -- the tokenizer on the server -------------------------------------------------------------------


def texts(prompts: list[str] | list[bytes]) -> Array:
    rows = [p.encode() if isinstance(p, str) else p for p in prompts]
    return np.array(rows, object).reshape(-1, 1)


def next_over(api: Any) -> Next:
    def ask(server: Triton, prompts: list[str]) -> Array:
        return infer(server, api, "llama_next", {"text_input": texts(prompts)}).as_numpy("logits")

    return ask


def next_over_generate(server: Triton, prompts: list[str]) -> Array:
    rows = []
    for prompt in prompts:
        url = f"{server.url}/v2/models/llama_next/generate"
        answer = httpx.post(url, json={"text_input": prompt}, timeout=60).json()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        rows.append(answer["logits"])
    return np.array(rows, np.float32)


road = pytest.mark.parametrize(
    "ask",
    [next_over(grpcclient), next_over(httpclient), next_over_generate],
    ids=["grpc", "http", "generate"],
)


@road
def test_the_ensemble_s_next_token_is_the_framework_s(steps: Triton, ask: Next) -> None:
    """Prompts of other lengths; over gRPC and HTTP they are rows of one request."""
    prompts = [PROMPT[: 5 + 4 * i] for i in range(8)]
    logits = ask(steps, prompts)
    assert logits.argmax(1).tolist() == [reference(prompt, 1)[0] for prompt in prompts]
    end = ask(steps, [PROMPT + tokenizer().eos_token])
    assert end.argmax() == tokenizer().eos_token_id


@road
@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("", "text 0 of the request is empty"),
        ("in " * 600, r"a text has 60\d tokens; the model's context length is 512"),
    ],
)
def test_the_ensemble_refuses_what_has_no_next_token(
    steps: Triton, ask: Next, prompt: str, words: str
) -> None:
    with pytest.raises(Exception, match=words):
        ask(steps, [prompt])
    assert ask(steps, [PROMPT]).argmax() == reference(PROMPT, 1)[0]


@pytest.mark.parametrize("api", [grpcclient, httpclient], ids=["grpc", "http"])
def test_the_ensemble_says_what_else_it_cannot_take(steps: Triton, api: Any) -> None:
    with pytest.raises(Exception, match="text 0 of the request is not UTF-8"):
        infer(steps, api, "llama_next", {"text_input": texts([b"\xff"])})
    tensors = {"text_input": texts([PROMPT]), "sampling_parameters": texts(["{}"])}
    with pytest.raises(Exception, match="sampling_parameters"):  # the client draws the tokens
        infer(steps, api, "llama_next", tensors)


# -- the tokenizer on the client -------------------------------------------------------------------


def nothing_yet(server: Triton) -> Array:
    """The cache before the first step: one column of zeros that the mask leaves out."""
    config = server.config("llama_onnx")
    dims = next(t["dims"] for t in config["input"] if t["name"] == "past")
    return np.zeros([1, *(1 if int(d) == -1 else int(d) for d in dims)], np.float32)


def start(server: Triton, ids: list[int]) -> dict[str, Array]:
    return {
        "input_ids": np.array([ids], np.int64),
        "attention_mask": np.array([[0, *[1] * len(ids)]], np.int64),
        "past": nothing_yet(server),
    }


def answer(server: Triton, api: Any, prompt: str, most: int) -> Iterator[int]:
    """The client's loop: greedy, with the cache sent back and forth, until the end token."""
    tensors = start(server, tokenizer()(prompt).input_ids)
    for _ in range(most):
        result = infer(server, api, "llama_onnx", tensors)
        token = int(result.as_numpy("logits")[0].argmax())
        if token == tokenizer().eos_token_id:
            return
        yield token
        tensors = {
            "input_ids": np.array([[token]], np.int64),
            "attention_mask": np.pad(tensors["attention_mask"], ((0, 0), (0, 1)), mode="edge"),
            "past": result.as_numpy("present"),
        }


protocol = pytest.mark.parametrize("api", [grpcclient, httpclient], ids=["grpc", "http"])


@protocol
def test_the_client_s_loop_answers_as_the_framework(steps: Triton, api: Any) -> None:
    assert list(answer(steps, api, PROMPT, 24)) == reference(PROMPT, 24)
    assert list(answer(steps, api, PROMPT + tokenizer().eos_token, 24)) == []


def test_the_tokenizer_on_the_server_and_on_the_client_agree(steps: Triton) -> None:
    ids = tokenizer()(PROMPT).input_ids
    result = infer(steps, grpcclient, "llama_onnx", start(steps, ids))
    on_server = next_over(grpcclient)(steps, [PROMPT])
    np.testing.assert_array_equal(on_server, result.as_numpy("logits"))
    # The returned cache holds the empty column and one column for each token.
    assert result.as_numpy("present").shape[3] == 1 + len(ids)


@protocol
@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([2048], r"idx=2048 must be within the inclusive range \[-2048,2047\]"),
        ([7] * 600, r"idx=512 must be within the inclusive range \[-512,511\]"),
        ([], "indices element out of data bounds"),
    ],
    ids=["no-such-token", "too-long", "empty"],
)
def test_the_step_refuses_numbers_that_it_cannot_continue(
    steps: Triton, api: Any, ids: list[int], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        infer(steps, api, "llama_onnx", start(steps, ids))
    assert list(answer(steps, api, PROMPT, 2)) == reference(PROMPT, 2)


# -- clients that go -------------------------------------------------------------------------------


def test_cancelled_steps_leave_nothing_behind(steps: Triton) -> None:
    """Each step uses 700 kB of the shared memory for requests; this memory is freed again."""
    ids = tokenizer()("in " * 500).input_ids

    def ignore(result: Any, error: Any) -> None:
        pass

    def cancel_some(client: Any) -> None:
        tensors = [
            grpcclient.InferInput(
                name, array.shape, "FP32" if name == "past" else "INT64"
            ).set_data_from_numpy(array)
            for name, array in start(steps, ids).items()
        ]
        calls = [client.async_infer("llama_onnx", tensors, ignore) for _ in range(16)]
        text = grpcclient.InferInput("text_input", [1, 1], "BYTES")
        text.set_data_from_numpy(texts(["in " * 500]))
        calls += [client.async_infer("llama_next", [text], ignore) for _ in range(16)]
        for call in calls:
            call.cancel()

    with steps.grpc_client() as client:
        for _ in range(3):
            cancel_some(client)
        wait_until(lambda: pending(steps, "llama_onnx") == 0)
        before = shared_memory(steps)
        for _ in range(10):
            cancel_some(client)
        wait_until(lambda: pending(steps, "llama_onnx") == 0)
    assert next_over(grpcclient)(steps, [PROMPT]).argmax() == reference(PROMPT, 1)[0]
    assert shared_memory(steps) - before < 20_000_000


def test_clients_that_hang_up_leave_the_ensemble_well(steps: Triton) -> None:
    with ThreadPoolExecutor(4) as pool:
        body = {"text_input": "in " * 500}
        for number in range(12):
            pool.submit(hang_up, steps, "llama_next", body, "generate", 0.005 * number)
    assert next_over_generate(steps, [PROMPT]).argmax() == reference(PROMPT, 1)[0]
    wait_until(lambda: pending(steps, "llama_onnx") == 0)
