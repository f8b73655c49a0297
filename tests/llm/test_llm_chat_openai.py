"""`workbook chat` and `workbook openai`, on a real server with the real clients."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi.testclient import TestClient
from llm_asking import PROMPT, over_generate
from llm_repository import put_models
from llm_waits import cancelled, wait_until

from workbook import zoo
from workbook.common import paths
from workbook.common.errors import RequestError, WorkbookError
from workbook.llm import chat, tokenizer
from workbook.llm.openai import app
from workbook.server import Server, Triton

pytestmark = pytest.mark.server

GREEDY = {"temperature": 0, "max_tokens": 16}
QUESTION = [{"role": "user", "content": "Coroutines"}]


@pytest.fixture(scope="module")
def api(llms: Triton) -> Iterator[str]:
    """The address of the OpenAI-compatible API, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app(llms), port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}/v1"
    server.should_exit = True
    thread.join()


def greedy(server: Triton, prompt: str, number: int = 16) -> str:
    given = {"temperature": 0, "max_tokens": number}
    return over_generate(server, "llama_hf", prompt, given).text


# -- workbook chat ---------------------------------------------------------------------------------


def workbook(
    server: Triton, *words: str, typed: str = "", command: str = "chat"
) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "workbook.cli", command, *words],
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={
            **os.environ,
            "TRITON_URL": server.url,
            "TRITON_GRPC_URL": server.grpc_url,
            "TRITON_REPOSITORY": str(server.repository),
        },
    )


def test_the_language_models_are_found(llms: Triton) -> None:
    assert set(chat.language_models(llms)) == {"llama_hf", "llama_stream", "chat_bls"}


@pytest.mark.parametrize("model", ["llama_hf", "llama_stream", "chat_bls"])
def test_a_chat_is_a_prompt_by_the_template(llms: Triton, model: str) -> None:
    text = chat.prompt(llms, model, QUESTION)
    assert text == "<|user|>\nCoroutines</s>\n<|assistant|>\n"
    pieces = [p["text_output"] for p in chat.stream(llms, model, text, GREEDY)]
    assert "".join(pieces) == greedy(llms, text)
    assert (len(pieces) > 1) == (model == "llama_stream")


def test_the_command_answers_a_question(llms: Triton) -> None:
    done = workbook(llms, "llama_stream", "Coroutines", "--temperature=0", "--max-tokens=16")
    assert done.returncode == 0, done.stderr
    assert done.stdout == greedy(llms, chat.prompt(llms, "llama_hf", QUESTION)) + "\n"


def test_the_command_keeps_the_conversation(llms: Triton) -> None:
    options = ("llama_stream", "--temperature=0", "--max-tokens=8")
    done = workbook(llms, *options, typed="Coroutines\n\nWhy?\n")
    assert done.returncode == 0, done.stderr
    first = greedy(llms, chat.prompt(llms, "llama_hf", QUESTION), 8)
    turns = [
        *QUESTION,
        {"role": "assistant", "content": first},
        {"role": "user", "content": "Why?"},
    ]
    second = greedy(llms, chat.prompt(llms, "llama_hf", turns), 8)
    assert second in done.stdout.partition(first)[2]


def test_a_conversation_that_is_too_long_loses_its_oldest_turns(llms: Triton) -> None:
    options = ("llama_stream", "--temperature=0", "--max-tokens=64")
    questions = [f"Question {n} " + "in " * 100 for n in range(6)]
    done = workbook(llms, *options, typed="\n".join(questions) + "\n")
    assert done.returncode == 0, done.stderr
    assert "the oldest turns are left out" in done.stderr
    assert "did not answer" not in done.stderr
    turns = [{"role": "user", "content": question.strip()} for question in questions]
    kept = chat.newest_that_fit(llms, "llama_stream", [*turns, *turns, turns[-1]], 64)
    found = tokenizer.read(llms.repository / "llama_stream")
    assert found is not None
    assert found.count(found.prompt(kept)) <= 512 - 64
    assert kept[-1] == turns[-1]
    assert len(kept) % 2 == 1


def test_a_question_that_is_refused_does_not_end_the_conversation(llms: Triton) -> None:
    typed = "in " * 600 + "\nCoroutines\n"
    done = workbook(llms, "llama_stream", "--temperature=0", "--max-tokens=16", typed=typed)
    assert done.returncode == 0, done.stderr
    assert "context length is 512" in done.stderr
    assert greedy(llms, chat.prompt(llms, "llama_hf", QUESTION)) in done.stdout


def test_the_command_names_the_models_it_knows(llms: Triton) -> None:
    done = workbook(llms, "llama_onnx", "Coroutines")
    assert done.returncode == 1
    assert "'llama_onnx' is not a language model that is ready" in done.stderr
    assert "llama_hf" in done.stderr


@pytest.fixture(scope="module")
def without_llms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server without a language model; `llama_hf` can be added to its repository."""
    repository = tmp_path_factory.mktemp("without")
    shutil.copytree(paths.root() / "model_repository" / "square", repository / "square")
    with Triton(repository) as server:
        server.load("square")
        yield server


def test_without_a_language_model_both_commands_say_what_to_run(without_llms: Triton) -> None:
    repository = without_llms.repository
    for command, words in (("chat", ("llama_hf", "Hello")), ("openai", ())):
        done = workbook(without_llms, *words, command=command)
        assert done.returncode == 1, command
        assert "The server has no language model that is ready" in done.stderr
        assert all(todo in done.stderr for todo in ("workbook models llama", "make vllm"))
        assert "http://127.0.0.1:9000" not in done.stdout
    # Configs without weights, as git has them, are not yet a language model.
    committed = paths.root() / "model_repository" / "llama_hf"
    shutil.copytree(committed, repository / "llama_hf", ignore=shutil.ignore_patterns("checkpoint"))
    with pytest.raises(WorkbookError) as caught:
        chat.check_any(without_llms)
    assert "workbook models llama" in caught.value.todo
    # The tokenizer of the ensemble is built too, but cannot be asked for a text.
    shutil.rmtree(repository / "llama_hf")
    put_models(repository, ("llama_hf", "llama_tokenizer"))
    with pytest.raises(WorkbookError, match="no language model that is ready") as caught:
        chat.check(without_llms, "llama_hf")
    assert caught.value.todo.startswith("Load those that are built (llama_hf): `workbook serve")
    without_llms.load("llama_hf")
    chat.check_any(without_llms)


def test_an_empty_question_is_none(llms: Triton) -> None:
    done = workbook(llms, "llama_stream", " ")
    assert (done.returncode, "The question is empty" in done.stderr) == (1, True)


def test_openai_on_a_port_that_is_taken(llms: Triton) -> None:
    done = workbook(llms, "--port", llms.url.rpartition(":")[2], command="openai")
    assert done.returncode == 1
    assert "Address already in use" in done.stderr
    assert "--port" in done.stderr


def test_a_refusal_is_the_server_s_own(llms: Triton) -> None:
    with pytest.raises(RequestError, match="llama_stream did not answer") as caught:
        list(chat.stream(llms, "llama_stream", "in " * 600, GREEDY))
    assert "context length is 512" in caught.value.message
    with pytest.raises(WorkbookError, match="is not a language model"):
        chat.check(llms, "nobody")


# -- OpenAI's clients ------------------------------------------------------------------------------


def test_models(api: str) -> None:
    listed = httpx.get(f"{api}/models").json()
    assert listed["object"] == "list"
    assert {m["id"] for m in listed["data"]} == {"llama_hf", "llama_stream", "chat_bls"}
    assert httpx.get(f"{api}/models/chat_bls").json()["owned_by"] == "triton"
    assert httpx.get(f"{api}/models/nobody").status_code == 404


@pytest.mark.parametrize("model", ["llama_hf", "llama_stream", "chat_bls"])
def test_a_completion(llms: Triton, api: str, model: str) -> None:
    body = {"model": model, "prompt": PROMPT, "temperature": 0}
    answer = httpx.post(f"{api}/completions", json=body, timeout=60).json()
    choice = answer["choices"][0]
    assert choice["text"] == greedy(llms, PROMPT)
    assert choice["finish_reason"] == "length"
    found = tokenizer.read(llms.repository / model)
    assert found is not None
    tokens = found.count(PROMPT)
    assert answer["usage"] == {
        "prompt_tokens": tokens,
        "completion_tokens": 16,
        "total_tokens": tokens + 16,
    }


def stream(url: str, body: dict[str, Any]) -> list[Any]:
    with httpx.stream("POST", url, json={**body, "stream": True}, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("streams", [False, True])
def test_several_choices_per_prompt(api: str, streams: bool) -> None:
    """Each is what a request of its own gets, with the next seed."""
    prompts = ["The class statement", "Coroutines"]
    body = {"model": "llama_stream", "temperature": 0.9, "max_tokens": 12}

    def one(prompt: str, seed: int) -> str:
        alone = {**body, "prompt": prompt, "seed": seed}
        found = httpx.post(f"{api}/completions", json=alone, timeout=60).json()
        return str(found["choices"][0]["text"])

    wanted = [one(prompt, seed) for prompt in prompts for seed in (7, 8, 9)]
    several = {**body, "prompt": prompts, "n": 3, "seed": 7}
    texts = [""] * 6
    if streams:
        for piece in stream(f"{api}/completions", several):
            choice = piece["choices"][0]
            texts[choice["index"]] += choice["text"]
    else:
        answer = httpx.post(f"{api}/completions", json=several, timeout=60).json()
        texts = [choice["text"] for choice in answer["choices"]]
        assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    assert texts == wanted
    assert len(set(texts)) > 2


def test_a_chat_that_streams(llms: Triton, api: str) -> None:
    body = {"model": "llama_stream", "messages": QUESTION, "temperature": 0, "max_tokens": 16}
    *pieces, last = stream(f"{api}/chat/completions", body)
    text = "".join(piece["choices"][0]["delta"]["content"] for piece in pieces)
    assert text == greedy(llms, chat.prompt(llms, "llama_hf", QUESTION))
    assert {piece["choices"][0]["finish_reason"] for piece in pieces} == {None}
    assert last["choices"][0]["finish_reason"] == "length"
    assert [i for i, p in enumerate(pieces) if "role" in p["choices"][0]["delta"]] == [0]
    assert last["choices"][0]["delta"] == {}
    assert {piece["object"] for piece in pieces} == {"chat.completion.chunk"}
    assert len({piece["id"] for piece in [*pieces, last]}) == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("completions", {"prompt": ""}, 400, "the prompt is empty"),
        ("completions", {"prompt": "in " * 600}, 400, "context length is 512"),
        ("completions", {"prompt": "x", "temperature": -1}, 400, "temperature is -1"),
        ("completions", {"prompt": "x", "temperature": "hot"}, 400, "temperature:"),
        ("completions", {"prompt": "x", "n": 0}, 400, "n: "),
        ("completions", {"prompt": "x", "logprobs": 2}, 400, "logprobs: not supported by llama"),
        ("completions", {"prompt": "x", "logprobs": 6}, 400, "logprobs: "),
        ("completions", {"prompt": "x", "logprobs": 1, "echo": True}, 400, "echo and logprobs"),
        ("completions", {"prompt": "x", "best_of": 2}, 400, "best_of: not supported here"),
        ("completions", {"prompt": "x", "logit_bias": {}}, 400, "logit_bias: not supported here"),
        ("chat/completions", {"messages": QUESTION, "tools": []}, 400, "tools: not supported"),
        ("chat/completions", {"messages": QUESTION, "top_logprobs": 2}, 400, "needs logprobs"),
        ("chat/completions", {"messages": QUESTION, "logprobs": True}, 400, "by llama_stream; a"),
        (
            "chat/completions",
            {"messages": QUESTION, "response_format": {"type": "json_object"}},
            400,
            "response_format: not supported by llama_stream; a model of vLLM's backend can",
        ),
        (
            "chat/completions",
            {"messages": QUESTION, "response_format": {"type": "json_schema"}},
            400,
            "json_schema belongs to",
        ),
        ("completions", {"prompt": "x", "whatever": 2}, 400, "whatever: not supported here"),
        ("completions", {"prompt": "x", "min_p": 0.5}, 400, "min_p"),
        ("completions", {"prompt": []}, 400, "prompt"),
        ("completions", {}, 400, "prompt: Field required"),
        ("completions", {"prompt": "x", "model": "nobody"}, 404, "is not a language model"),
        ("chat/completions", {"messages": []}, 400, "messages:"),
        ("chat/completions", {"messages": [{"role": "me", "content": ""}]}, 400, "role"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_errors(
    api: str, path: str, body: dict[str, Any], status: int, words: str, streams: bool
) -> None:
    request = {"model": "llama_stream", "stream": streams, **body}
    answer = httpx.post(f"{api}/{path}", json=request, timeout=60)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_prompts_together_have_a_choice_each(llms: Triton, api: str) -> None:
    prompts = [PROMPT, "A module"]
    body = {"model": "llama_hf", "prompt": prompts, "temperature": 0, "echo": True}
    answer = httpx.post(f"{api}/completions", json=body, timeout=60).json()
    want = [text + greedy(llms, text) for text in prompts]
    assert [choice["text"] for choice in answer["choices"]] == want
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["usage"]["completion_tokens"] == 32
    pieces = stream(f"{api}/completions", {**body, "model": "llama_stream"})
    texts = ["", ""]
    for piece in pieces:
        texts[piece["choices"][0]["index"]] += piece["choices"][0]["text"]
    assert texts == want
    ends = [p["choices"][0]["index"] for p in pieces if p["choices"][0]["finish_reason"]]
    assert sorted(ends) == [0, 1]


def test_choices_are_made_at_the_same_time(llms: Triton, api: str) -> None:
    """Four choices of a model that computes eight at once: their pieces come in turns.

    The first choice may be computed alone; the others wait for it, and are then a batch.
    """
    body = {"model": "llama_stream", "prompt": PROMPT, "n": 4, "max_tokens": 32, "seed": 1}
    order = [p["choices"][0]["index"] for p in stream(f"{api}/completions", body)]
    assert set(order) == {0, 1, 2, 3}
    spans = [order[order.index(i) : len(order) - order[::-1].index(i)] for i in range(4)]
    assert max(len(set(span)) for span in spans) >= 3


def test_any_text_is_a_format_of_every_model(api: str) -> None:
    body = {"model": "llama_hf", "messages": QUESTION, "response_format": {"type": "text"}}
    answer = httpx.post(f"{api}/chat/completions", json={**body, "max_tokens": 4}, timeout=60)
    assert answer.status_code == 200, answer.text


def test_a_turn_of_the_assistant_may_have_no_content(api: str) -> None:
    turns = [*QUESTION, {"role": "assistant", "content": None}, *QUESTION]
    body = {"model": "llama_hf", "messages": turns, "max_tokens": 4}
    answer = httpx.post(f"{api}/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text


def test_health_and_metrics_are_triton_s(api: str) -> None:
    root = api.removesuffix("/v1")
    assert httpx.get(f"{root}/health").status_code == 200
    assert httpx.get(f"{root}/health/ready").status_code == 200
    assert "nv_inference_request_success" in httpx.get(f"{root}/metrics").text


def test_without_a_server_the_api_says_so() -> None:
    server = Server("http://localhost:9", grpc="localhost:9", metrics="http://localhost:9/metrics")
    client = TestClient(app(server), raise_server_exceptions=False)
    request = {"model": "llama_stream", "prompt": "x"}
    answers = [client.post("/v1/completions", json=request), client.get("/v1/models")]
    answers += [client.get("/metrics")]
    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["error"]["type"] == "server_error"
    assert client.get("/health").status_code == 503


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_leaves_ends_its_answer_and_nobody_else_s(
    llms: Triton, api: str, streams: bool
) -> None:
    body = {"model": "llama_stream", "prompt": PROMPT, "max_tokens": 480, "stream": streams}
    before = cancelled(llms)

    def leave(after: float) -> None:
        with (
            contextlib.suppress(httpx.HTTPError),
            httpx.stream("POST", f"{api}/completions", json=body, timeout=after) as answer,
        ):
            next(answer.iter_lines())

    # On a busy machine a client may leave before its question has reached the model.
    for seconds in (0.3, 0.6, 1.2, 2.4):
        leave(seconds)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: cancelled(llms) > before, 15)
            break
    assert cancelled(llms) > before
    again = {"model": "llama_stream", "prompt": PROMPT, "temperature": 0}
    answer = httpx.post(f"{api}/completions", json=again, timeout=60).json()
    assert answer["choices"][0]["text"] == greedy(llms, PROMPT)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "/v1/nothing", b"", 404, "GET /v1/nothing is not known here"),
        ("GET", "/v1/chat/completions", b"", 405, "GET /v1/chat/completions is not known here"),
        ("POST", "/v1/completions", b'{"model": 1,', 400, "the body is not JSON: "),
        ("POST", "/v1/completions", b"\xff\xfe", 400, "body"),
        ("POST", "/v1/completions", b"", 400, "the body: Field required"),
        ("POST", "/v1/completions", b"[1]", 400, "the body: "),
    ],
)
def test_mistakes_are_answered_in_openai_s_form(
    api: str, method: str, path: str, body: bytes, status: int, words: str
) -> None:
    typed = {"Content-Type": "application/json"}
    address = api.removesuffix("/v1") + path
    answer = httpx.request(method, address, content=body, headers=typed)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"


#: A language model that fails as the prompt says. It counts no tokens.
FAULTY = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().ravel()[0]
            sender = request.get_response_sender()
            if text == b"ends":
                os._exit(3)
            if text == b"slow":
                time.sleep(3)
            pieces = [b"one", b" two", b" three"]
            if text == b"raises":
                raise ValueError("a fault of the model")
            if text == b"refuses":
                failure = pb_utils.TritonError("as you wished", pb_utils.TritonError.INVALID_ARG)
                sender.send(pb_utils.InferenceResponse([], failure), flags=1)
                continue
            for piece in pieces:
                tensor = pb_utils.Tensor("text_output", np.array([piece], dtype=object))
                sender.send(pb_utils.InferenceResponse([tensor]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
FAULTY_CONFIG = """
backend: "python"
input [{ name: "text_input" data_type: TYPE_STRING dims: [ 1 ] },
       { name: "sampling_parameters" data_type: TYPE_STRING dims: [ 1 ] }]
output [{ name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }]
model_transaction_policy { decoupled: true }
instance_group [{ kind: KIND_CPU count: 1 }]
max_batch_size: 1
dynamic_batching {
  default_queue_policy {
    max_queue_size: 1 timeout_action: REJECT default_timeout_microseconds: 500000
  }
}
"""


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[TestClient]:
    """OpenAI's API for a server with the faulty model alone."""
    folder = tmp_path / "faulty"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(FAULTY_CONFIG)
    (folder / "1" / "model.py").write_text(FAULTY)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(zoo.checkpoint("llama_tiny") / name, folder / "1" / name)
    with Triton(tmp_path, models=["faulty"]) as server:
        yield TestClient(app(server), raise_server_exceptions=False)


@pytest.mark.parametrize("streams", [False, True])
def test_the_server_s_faults_keep_their_status(faulty: TestClient, streams: bool) -> None:
    """A client tries again what had a 5xx. What it has asked wrongly it does not."""

    def ask(prompt: str) -> tuple[int, Any]:
        body = {"model": "faulty", "prompt": prompt, "stream": streams}
        answer = faulty.post("/v1/completions", json=body)
        return answer.status_code, answer.json()["error"]

    status, error = ask("refuses")
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert error["message"] == "as you wished"
    status, error = ask("raises")
    assert (status, error["type"]) == (500, "server_error")
    assert "a fault of the model" in error["message"]
    with ThreadPoolExecutor(6) as pool:  # one is executed, the queue holds one more for 0.5 s
        answers = list(pool.map(lambda _: ask_any(faulty, "slow"), range(6)))
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {answer.status_code for answer in refused} == {503}
    messages = " ".join(answer.json()["error"]["message"] for answer in refused)
    assert "Exceeds maximum queue size" in messages
    assert "timeout expired" in messages
    status, error = ask("ends")
    assert (status, error["type"]) == (503, "server_error")


def ask_any(client: TestClient, prompt: str) -> httpx.Response:
    return client.post("/v1/completions", json={"model": "faulty", "prompt": prompt})


def test_tokens_are_counted_once_whether_the_answer_streams_or_not(faulty: TestClient) -> None:
    """Also for a model that counts no tokens itself: its tokenizer counts them."""
    body = {"model": "faulty", "prompt": "Coroutines"}  # one prompt, because its queue is short
    usage = faulty.post("/v1/completions", json=body).json()["usage"]
    assert usage["completion_tokens"] > 0
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    more = {"stream": True, "stream_options": {"include_usage": True}}
    lines = faulty.post("/v1/completions", json=body | more).text.splitlines()
    pieces = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert pieces[-1]["usage"] == usage


def test_fields_without_an_effect_are_taken(api: str) -> None:
    body = {"model": "llama_hf", "prompt": PROMPT, "temperature": 0}
    more = {"store": True, "metadata": {"a": "b"}, "service_tier": "auto", "user": "u"}
    more |= {"parallel_tool_calls": True, "safety_identifier": "s", "prompt_cache_key": "k"}
    more |= {"seed": None, "n": None, "logit_bias": None, "stop": None}
    plain = httpx.post(f"{api}/completions", json=body, timeout=60).json()
    found = httpx.post(f"{api}/completions", json=body | more, timeout=60)
    assert found.status_code == 200, found.text
    assert found.json()["choices"] == plain["choices"]
    turns = {"model": "llama_hf", "messages": QUESTION, "max_tokens": 4, **more}
    assert httpx.post(f"{api}/chat/completions", json=turns, timeout=60).status_code == 200


def test_the_official_client(llms: Triton, api: str) -> None:
    openai = pytest.importorskip("openai", reason="the openai client is not installed")
    with openai.OpenAI(base_url=api, api_key="none", max_retries=0) as client:
        assert "chat_bls" in {model.id for model in client.models.list()}
        request = {
            "model": "llama_stream",
            "messages": QUESTION,
            "temperature": 0,
            "max_tokens": 16,
        }
        text = greedy(llms, chat.prompt(llms, "llama_hf", QUESTION))
        answer = client.chat.completions.create(**request)
        assert answer.choices[0].message.content == text
        pieces = client.chat.completions.create(**request, stream=True)
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == text
        parts = [{"role": "user", "content": [{"type": "text", "text": "Coroutines"}]}]
        more = {"stream": True, "stream_options": {"include_usage": True}}
        *pieces, last = client.chat.completions.create(**{**request, "messages": parts}, **more)
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == text
        assert (last.choices, last.usage) == ([], answer.usage)
        done = client.completions.create(model="llama_hf", prompt=PROMPT, temperature=0)
        assert done.choices[0].text == greedy(llms, PROMPT)
        with pytest.raises(openai.BadRequestError, match="temperature is -1"):
            client.completions.create(model="llama_hf", prompt=PROMPT, temperature=-1)
        with pytest.raises(openai.NotFoundError, match="is not a language model"):
            client.completions.create(model="nobody", prompt=PROMPT)
