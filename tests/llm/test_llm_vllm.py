"""vLLM's engine behind Triton's interface: with NVIDIA's client shape, streams, ends and errors."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import tritonclient.grpc.aio as aioclient
from fastapi.testclient import TestClient
from llm_asking import (
    PROMPT,
    cancel_many,
    events,
    grpc_pieces,
    hang_up,
    inputs,
    over_grpc,
    over_http,
)
from llm_reference import reference, tokenizer
from llm_repository import put_models
from llm_waits import cancelled, metrics, pending, shared_memory, wait_until

from workbook.common import paths
from workbook.common.errors import LoadError
from workbook.llm.openai import app
from workbook.server import Triton

pytestmark = pytest.mark.server

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM is not installed: run `make vllm`, or `make test ALL=yes`",
)
GREEDY = {"temperature": 0, "max_tokens": 24, "ignore_eos": True}
LONG = {"temperature": 0, "max_tokens": 480, "ignore_eos": True}


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server with the tiny Llama on vLLM."""
    repository = tmp_path_factory.mktemp("models")
    put_models(repository, ("llama_vllm",))
    with Triton(repository) as server:
        server.load("llama_vllm", timeout=280)
        yield server


def generate(server: Triton, **body: Any) -> dict[str, Any]:
    if not isinstance(body.get("sampling_parameters", ""), str):
        body["sampling_parameters"] = json.dumps(body["sampling_parameters"])
    url = f"{server.url}/v2/models/llama_vllm/generate"
    return httpx.post(url, json=body, timeout=120).json()  # type: ignore[no-any-return]


LOADS = """
import sys
from workbook.common.errors import LoadError
from workbook.server import Triton
with Triton(sys.argv[1]) as server:
    try:
        server.load("llama_vllm")
    except LoadError as error:
        print(error)
"""


@pytest.mark.quick
def test_without_vllm_the_load_says_how_to_install_it(tmp_path: Path) -> None:
    """In an environment with all of this one's packages but that."""
    put_models(tmp_path / "models", ("llama_vllm",))
    venv.create(tmp_path / "venv", with_pip=False)
    packages = tmp_path / "venv" / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for found in Path(sysconfig.get_path("purelib")).iterdir():
        if not (found.name.startswith("vllm") or (packages / found.name).exists()):
            (packages / found.name).symlink_to(found)
    python = [str(tmp_path / "venv/bin/python"), "-c", LOADS, str(tmp_path / "models")]
    done = subprocess.run(python, capture_output=True, text=True, check=False, cwd=paths.root())
    assert "vLLM is not installed here" in done.stdout, done.stderr
    assert "run `make vllm`" in done.stdout


#: A "model" that is no folder → the message, with a hub that knows only facebook/opt-125m.
NO_FOLDER = {
    "TODO": ("and the hub has no model of this name", "holds model.json, and no folder"),
    "checkpoint": ("and the hub has no model of this name", "checkpoint"),
    "models/m/1/checkpoint": ("not a name that the hub can have", "e.g. as"),
    "facebook/opt-125m": ("", 'Write "max_num_seqs"'),
}


class Hub(BaseHTTPRequestHandler):
    """Stands in for the hub's address of a model's description."""

    def do_GET(self) -> None:
        """Describe the one model, refuse every other name."""
        known = self.path.split("?")[0] == "/api/models/facebook/opt-125m"
        self.send_response(200 if known else 404)
        if not known:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()
        if known:
            self.wfile.write(b'{"id": "facebook/opt-125m"}')

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def no_folder(repository: Path, name: str) -> Path:
    """A model with the weights `name`, and an argument that ends the engine before its start."""
    folder = repository / f"m_{len([*repository.iterdir()])}"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text('backend: "vllm"\n')
    arguments = {"model": name, "max_num_sequences": 4}
    (folder / "1" / "model.json").write_text(json.dumps(arguments, indent=2))
    return folder


@needs_vllm
def test_a_model_that_is_no_folder_is_refused_before_the_engine_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.server_port}")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    (repository := tmp_path / "models").mkdir()
    with Triton(repository) as server:
        for name, (why, todo) in NO_FOLDER.items():
            folder = no_folder(repository, name)
            with pytest.raises(LoadError) as caught:
                server.load(folder.name, timeout=280)
            error = caught.value
            assert error.rule == ("engine-weights" if why else "engine-argument-unknown")
            assert ("engine did not start" in error.message) == (not why)
            assert why in error.what
            assert todo in error.todo
            if why:
                assert f'no folder "{name}" (looked for in {repository})' in error.what
                assert error.where == f'1/model.json, line 2: "model": "{name}",'
    hub.shutdown()


@needs_vllm
def test_a_model_that_is_no_folder_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    (repository := tmp_path / "models").mkdir()
    for offline, why in (("0", "the hub cannot be reached"), ("1", "HF_HUB_OFFLINE forbids")):
        monkeypatch.setenv("HF_HUB_OFFLINE", offline)
        folder = no_folder(repository, "facebook/opt-125m")
        with Triton(repository) as server, pytest.raises(LoadError) as caught:
            server.load(folder.name, timeout=280)
        assert why in caught.value.what
        assert "A name on the hub needs a network." in caught.value.todo


@needs_vllm
def test_the_config_is_completed_as_upstream_completes_it(vllm: Triton) -> None:
    config = vllm.config("llama_vllm")
    assert {(t["name"], t["data_type"]) for t in config["input"]} == {
        ("text_input", "TYPE_STRING"),
        ("stream", "TYPE_BOOL"),
        ("sampling_parameters", "TYPE_STRING"),
        ("exclude_input_in_output", "TYPE_BOOL"),
        ("return_finish_reason", "TYPE_BOOL"),
        ("return_cumulative_logprob", "TYPE_BOOL"),
        ("return_logprobs", "TYPE_BOOL"),
        ("return_num_input_tokens", "TYPE_BOOL"),
        ("return_num_output_tokens", "TYPE_BOOL"),
    }
    assert [t["name"] for t in config["input"] if not t["optional"]] == ["text_input"]
    assert {(t["name"], t["data_type"]) for t in config["output"]} == {
        ("text_output", "TYPE_STRING"),
        ("finish_reason", "TYPE_STRING"),
        ("cumulative_logprob", "TYPE_FP32"),
        ("logprobs", "TYPE_STRING"),
        ("num_input_tokens", "TYPE_UINT32"),
        ("num_output_tokens", "TYPE_UINT32"),
    }
    assert config["model_transaction_policy"]["decoupled"]
    assert config["max_batch_size"] == 0
    assert config["instance_group"][0]["kind"] == "KIND_MODEL"


@needs_vllm
def test_greedy_answers_are_the_framework_s_token_by_token(vllm: Triton) -> None:
    """Both in float32; eight prompts of other lengths at once on vLLM, one by one on the other."""
    prompts = [PROMPT[: 5 + 4 * i] for i in range(8)]

    def ask(prompt: str) -> list[int]:
        answer = generate(
            vllm,
            text_input=prompt,
            sampling_parameters={**GREEDY, "logprobs": 0},
            return_logprobs=True,
        )
        return [int(next(iter(entry))) for entry in json.loads(answer["logprobs"])]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, prompts))
    assert answers == [reference(prompt, 24) for prompt in prompts]


@needs_vllm
@pytest.mark.parametrize("streaming", [False, True])
def test_nvidia_s_client_shape(vllm: Triton, streaming: bool) -> None:
    """Requests as the sample client of NVIDIA's backend makes them: numbers as strings, the same
    parameters as a tensor and as the request's own, several prompts on one asynchronous stream."""
    given = {"temperature": "0.1", "top_p": "0.95", "max_tokens": "10"}

    def request(prompt: str, number: int) -> dict[str, Any]:
        return {
            "model_name": "llama_vllm",
            "inputs": inputs(aioclient, prompt, False, streaming, given),
            "outputs": [aioclient.InferRequestedOutput("text_output")],
            "request_id": str(number),
            "parameters": given,
        }

    async def run() -> dict[str, bytes]:
        texts: dict[str, bytes] = {str(i): b"" for i in range(4)}

        async def requests() -> Any:
            for i in range(4):
                yield request(PROMPT[: 10 + i], i)

        async with aioclient.InferenceServerClient(vllm.grpc_url) as client:
            ends = 0
            async for result, error in client.stream_infer(requests()):
                assert error is None
                response = result.get_response()
                texts[response.id] += result.as_numpy("text_output")[0]
                ends += response.parameters["triton_final_response"].bool_param
                if ends == 4:
                    break
        return texts

    texts = asyncio.run(run())
    assert all(texts.values())
    for number, text in texts.items():
        assert text.startswith(PROMPT[: 10 + int(number)].encode()) == (not streaming)


@needs_vllm
def test_what_else_can_be_asked_for(vllm: Triton) -> None:
    answer = generate(
        vllm,
        text_input=PROMPT,
        sampling_parameters={**GREEDY, "logprobs": 1},
        exclude_input_in_output=True,
        return_finish_reason=True,
        return_cumulative_logprob=True,
        return_logprobs=True,
        return_num_input_tokens=True,
        return_num_output_tokens=True,
    )
    assert answer["finish_reason"] == "length"
    assert (answer["num_output_tokens"], len(json.loads(answer["logprobs"]))) == (24, 24)
    chosen = [max(p["logprob"] for p in entry.values()) for entry in json.loads(answer["logprobs"])]
    assert answer["cumulative_logprob"] == pytest.approx(sum(chosen), abs=1e-3)
    assert not answer["text_output"].startswith(PROMPT)
    whole = generate(vllm, text_input=PROMPT, sampling_parameters=GREEDY)
    assert whole["text_output"] == PROMPT + answer["text_output"]
    assert set(whole) == {"model_name", "model_version", "text_output"}


@needs_vllm
def test_a_stream_comes_in_order_and_adds_up(vllm: Triton) -> None:
    whole = generate(
        vllm, text_input=PROMPT, sampling_parameters=GREEDY, exclude_input_in_output=True
    )["text_output"]
    pieces = list(grpc_pieces(vllm, "llama_vllm", PROMPT, GREEDY))
    assert "".join(piece.text for piece in pieces) == whole
    assert len(pieces) > 4
    assert "".join(e["text_output"] for e in events(vllm, "llama_vllm", PROMPT, GREEDY)) == whole


@needs_vllm
def test_an_answer_ends_before_a_stop_text(vllm: Triton) -> None:
    ask = {"text_input": PROMPT, "exclude_input_in_output": True, "return_finish_reason": True}
    whole = generate(vllm, **ask, sampling_parameters=GREEDY)["text_output"]
    stop = whole[len(whole) // 2 :][:4]
    answer = generate(vllm, **ask, sampling_parameters={**GREEDY, "stop": [stop]})
    assert (answer["text_output"], answer["finish_reason"]) == (whole[: whole.index(stop)], "stop")


@needs_vllm
def test_an_answer_ends_where_the_model_says_so(vllm: Triton) -> None:
    ask = {"text_input": PROMPT + tokenizer().eos_token, "exclude_input_in_output": True}
    ask |= {"return_finish_reason": True, "return_num_output_tokens": True}
    answer = generate(vllm, **ask, sampling_parameters={**GREEDY, "ignore_eos": False})
    assert (answer["text_output"], answer["finish_reason"]) == ("", "stop")
    on = generate(vllm, **ask, sampling_parameters=GREEDY)
    assert (on["num_output_tokens"], on["finish_reason"]) == (24, "length")


@needs_vllm
def test_an_answer_ends_with_the_context(vllm: Triton) -> None:
    answer = generate(
        vllm,
        text_input="in " * 500,
        sampling_parameters={**GREEDY, "max_tokens": 10_000},
        return_finish_reason=True,
        return_num_input_tokens=True,
        return_num_output_tokens=True,
    )
    assert answer["num_input_tokens"] + answer["num_output_tokens"] == 512
    assert answer["finish_reason"] == "length"


@needs_vllm
def test_a_seed_makes_a_drawn_answer_the_same(vllm: Triton) -> None:
    def ask(seed: int) -> str:
        given = {**GREEDY, "temperature": 1.0, "top_p": 0.9, "seed": seed}
        return str(generate(vllm, text_input=PROMPT, sampling_parameters=given)["text_output"])

    assert ask(1) == ask(1) != ask(2)


@needs_vllm
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"text_input": ""}, "The decoder prompt cannot be empty"),
        ({"text_input": "in " * 600}, "maximum context length is 512 tokens"),
        ({"sampling_parameters": {"temperature": -1}}, "temperature must be non-negative"),
        ({"sampling_parameters": {"temperature": "hot"}}, "temperature is 'hot': Expected"),
        ({"sampling_parameters": {"max_tokens": True}}, "max_tokens is True: Expected `int"),
        ({"sampling_parameters": {"max_tokens": 0}}, "max_tokens must be at least 1"),
        ({"sampling_parameters": {"stop": [3]}}, "stop is [3]: Expected `str`"),
        ({"sampling_parameters": {"seed": 2**70}}, f"seed is {2**70}: can't serialize ints"),
        ({"sampling_parameters": {"logit_bias": {"9999": 1}}}, "out-of-vocab"),
        ({"sampling_parameters": {"structured_outputs": {"regex": "("}}}, "regex"),
        ({"sampling_parameters": {"beams": 4}}, "sampling parameter 'beams' is not one of vLLM's"),
        ({"sampling_parameters": "{"}, "sampling_parameters is not JSON"),
        ({"sampling_parameters": "[]"}, "must be a JSON object"),
        ({"sampling_parameters": {"lora_name": "x"}}, "LoRA feature is not enabled"),
        ({"stream": True, "exclude_input_in_output": False}, "When streaming"),
    ],
)
def test_a_bad_request_says_what_is_wrong(vllm: Triton, body: dict[str, Any], words: str) -> None:
    assert words in generate(vllm, **{"text_input": "x", **body})["error"]
    if "stream" not in body:
        given = body.get("sampling_parameters", {})
        with pytest.raises(Exception) as caught:  # noqa: PT011 - its words are compared
            list(grpc_pieces(vllm, "llama_vllm", body.get("text_input", "x"), given))
        assert words in str(caught.value)
    assert "text_output" in generate(vllm, text_input=PROMPT, sampling_parameters=GREEDY)


@needs_vllm
def test_what_only_grpc_can_send_wrongly(vllm: Triton) -> None:
    with pytest.raises(Exception, match="text_input is not UTF-8"):
        list(grpc_pieces(vllm, "llama_vllm", b"\xff\xfe", GREEDY))
    for ask in (over_grpc, over_http):
        with pytest.raises(Exception, match="decoupled transaction policy"):
            ask(vllm, "llama_vllm", PROMPT, GREEDY)


def running(server: Triton) -> float:
    """How many requests the engine computes or holds back, as it reports itself."""
    return sum(
        metrics(server, f"vllm:num_requests_{state}", "llama_vllm")
        for state in ("running", "waiting")
    )


@needs_vllm
def test_a_cancelled_stream_ends_in_the_engine_too(vllm: Triton) -> None:
    before = cancelled(vllm)

    def seen() -> bool:  # on a busy machine all may have ended before they could be cancelled
        cancel_many(vllm, "llama_vllm", 4, LONG)
        time.sleep(0.3)
        return cancelled(vllm) > before

    wait_until(seen)
    generate(vllm, text_input=PROMPT, sampling_parameters=GREEDY)  # this step updates the count
    wait_until(lambda: running(vllm) == 0)


@needs_vllm
def test_cancelled_requests_leave_nothing_behind(vllm: Triton) -> None:
    """Neither in the memory through which requests go, 200 kB each, nor in the engine's cache."""
    large = json.dumps(LONG) + " " * 200_000
    for _ in range(3):
        cancel_many(vllm, "llama_vllm", 8, large)
    before = shared_memory(vllm)
    for _ in range(10):
        cancel_many(vllm, "llama_vllm", 8, large)
        assert "text_output" in generate(vllm, text_input=PROMPT, sampling_parameters=GREEDY)
    assert shared_memory(vllm) - before < 8_000_000  # of 16,000,000
    wait_until(lambda: running(vllm) == 0)
    assert metrics(vllm, "vllm:gpu_cache_usage_perc", "llama_vllm") == 0
    assert pending(vllm, "llama_vllm") == 0


@needs_vllm
@pytest.mark.parametrize("road", ["generate", "generate_stream"])
def test_a_client_that_hangs_up_leaves_the_engine_well(vllm: Triton, road: str) -> None:
    body = {"text_input": PROMPT, "sampling_parameters": json.dumps(LONG)}
    for seconds in (0.0, 0.05, 0.2):
        hang_up(vllm, "llama_vllm", body, road, seconds)
    assert "text_output" in generate(vllm, text_input=PROMPT, sampling_parameters=GREEDY)
    wait_until(lambda: running(vllm) == 0)


HANGS_UP = """
import sys, httpx
body = {"text_input": "The", "stream": True, "sampling_parameters": sys.argv[2]}
with httpx.stream("POST", sys.argv[1], json=body, timeout=60) as answer:
    for line in answer.iter_lines():
        print(line, flush=True)
"""


@needs_vllm
def test_a_client_that_is_killed_leaves_the_engine_well(vllm: Triton) -> None:
    url = f"{vllm.url}/v2/models/llama_vllm/generate_stream"
    command = [sys.executable, "-c", HANGS_UP, url, json.dumps(LONG)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("data: ")
        program.kill()
    assert "text_output" in generate(vllm, text_input=PROMPT, sampling_parameters=GREEDY)
    wait_until(lambda: running(vllm) == 0)


@needs_vllm
def test_its_own_figures_are_on_the_metrics_port(vllm: Triton) -> None:
    name = "vllm:generation_tokens_total"
    before = metrics(vllm, name, "llama_vllm")
    generate(vllm, text_input=PROMPT, sampling_parameters=GREEDY)
    wait_until(lambda: metrics(vllm, name, "llama_vllm") == before + 24)
    assert metrics(vllm, "vllm:time_to_first_token_seconds_count", "llama_vllm") > 0


# -- through OpenAI's API --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def openai_api(vllm: Triton) -> Iterator[TestClient]:
    with TestClient(app(vllm)) as client:
        yield client


def post(openai_api: TestClient, path: str, **body: Any) -> dict[str, Any]:
    answer = openai_api.post(f"/v1/{path}", json={"model": "llama_vllm", "temperature": 0, **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def streamed(openai_api: TestClient, path: str, **body: Any) -> list[dict[str, Any]]:
    """The first choice of each piece of a streamed answer."""
    sent = {"model": "llama_vllm", "temperature": 0, "stream": True, **body}
    with openai_api.stream("POST", f"/v1/{path}", json=sent) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line)["choices"][0] for line in lines]


@needs_vllm
def test_log_probabilities_of_a_completion(openai_api: TestClient) -> None:
    body = {"prompt": PROMPT, "max_tokens": 12, "logprobs": 3}
    choice = post(openai_api, "completions", **body)["choices"][0]
    found, text = choice["logprobs"], choice["text"]
    assert len(found["tokens"]) == 12
    assert "".join(found["tokens"]) == text
    for token, offset, drawn, top in zip(
        found["tokens"],
        found["text_offset"],
        found["token_logprobs"],
        found["top_logprobs"],
        strict=True,
    ):
        assert text[offset:].startswith(token)
        assert drawn == max(top.values()) == top[token] < 0
        assert len(top) == 3
    joined: dict[str, list[Any]] = {name: [] for name in found}
    for piece in streamed(openai_api, "completions", **body):
        for name, values in (piece["logprobs"] or {}).items():
            joined[name] += values
    assert joined["tokens"] == found["tokens"]
    assert joined["text_offset"] == found["text_offset"]
    assert joined["token_logprobs"] == pytest.approx(found["token_logprobs"], abs=1e-3)


@needs_vllm
@pytest.mark.parametrize("top", [None, 0, 4])
def test_log_probabilities_of_a_chat(openai_api: TestClient, top: int | None) -> None:
    more = {} if top is None else {"top_logprobs": top}
    body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 8, "logprobs": True}
    choice = post(openai_api, "chat/completions", **body, **more)["choices"][0]
    content = choice["logprobs"]["content"]
    assert "".join(entry["token"] for entry in content) == choice["message"]["content"]
    for entry in content:
        assert bytes(entry["bytes"]).decode() == entry["token"]
        assert len(entry["top_logprobs"]) == (top or 0)
        assert not top or entry["top_logprobs"][0]["token"] == entry["token"]
        assert [t["logprob"] for t in entry["top_logprobs"]] == sorted(
            (t["logprob"] for t in entry["top_logprobs"]), reverse=True
        )
    silent = post(openai_api, "chat/completions", **{**body, "logprobs": False})["choices"][0]
    assert silent["logprobs"] is None


@needs_vllm
@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_of_a_schema(openai_api: TestClient, streams: bool) -> None:
    schema = {
        "type": "object",
        "properties": {"short": {"type": "boolean"}, "size": {"enum": ["small", "large"]}},
        "required": ["short", "size"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "size", "schema": schema}}
    body = {"messages": [{"role": "user", "content": PROMPT}], "response_format": form}
    if streams:
        pieces = streamed(openai_api, "chat/completions", **body)
        text = "".join(piece["delta"].get("content", "") for piece in pieces)
    else:
        text = post(openai_api, "chat/completions", **body)["choices"][0]["message"]["content"]
    found = json.loads(text)
    assert found.keys() == {"short", "size"}
    assert found["size"] in ("small", "large")


@needs_vllm
def test_an_answer_that_is_a_json_object(openai_api: TestClient) -> None:
    body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 64}
    form = {"type": "json_object"}
    answer = post(openai_api, "chat/completions", **body, response_format=form)["choices"][0]
    assert answer["message"]["content"].startswith("{")
    if answer["finish_reason"] == "stop":
        assert isinstance(json.loads(answer["message"]["content"]), dict)


@needs_vllm
def test_an_impossible_token_has_the_least_log_probability(openai_api: TestClient) -> None:
    """With a schema most tokens are impossible: minus infinity, which JSON cannot hold."""
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": 1}}}
    body = {"messages": [{"role": "user", "content": "x"}], "response_format": form}
    more = {"logprobs": True, "top_logprobs": 20}
    choice = post(openai_api, "chat/completions", **body, **more)["choices"][0]
    assert choice["message"]["content"] == "1"
    first = choice["logprobs"]["content"][0]["top_logprobs"]
    assert len(first) == 20
    assert min(entry["logprob"] for entry in first) == -9999.0


@needs_vllm
def test_a_schema_that_cannot_be_used_is_refused(openai_api: TestClient) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}
    body = {"model": "llama_vllm", "messages": [{"role": "user", "content": "x"}]}
    answer = openai_api.post("/v1/chat/completions", json={**body, "response_format": form})
    assert answer.status_code == 400
    assert "nothing" in answer.json()["error"]["message"]


@needs_vllm
def test_structured_outputs_as_upstream_takes_them(vllm: Triton) -> None:
    """A text of JSON, and, here, also an object."""
    choice = {"choice": ["yes", "no"]}
    for given in (json.dumps(choice), choice):
        answer = generate(
            vllm,
            text_input=PROMPT,
            exclude_input_in_output=True,
            sampling_parameters={"temperature": 0, "structured_outputs": given},
        )
        assert answer["text_output"] in ("yes", "no")
    refused = generate(vllm, text_input="x", sampling_parameters={"structured_outputs": "{"})
    assert "structured_outputs is not JSON" in refused["error"]


# -- the engine's end: these take the model away, so they come last -------------------------------


def engine_processes(server: Triton) -> list[psutil.Process]:
    assert server.pid is not None
    family = psutil.Process(server.pid).children(recursive=True)
    living = [process for process in family if lives(process)]
    return [process for process in living if "VLLM" in process.name() + str(process.cmdline())]


def lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@needs_vllm
@pytest.mark.parametrize(
    ("arguments", "bound", "one"),
    [
        ({}, "nobind", True),
        ({"distributed_executor_backend": "mp"}, "nobind", False),
        ({"tensor_parallel_size": 2}, "nobind", False),
        ({}, "0-1", False),
    ],
)
def test_one_process_unless_more_is_asked_for(
    arguments: dict[str, Any], bound: str, one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs

    from workbook.backends.vllm import one_process

    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", bound)
    assert one_process.needs_one_process(AsyncEngineArgs(model="any", **arguments)) == one


@needs_vllm
def test_unloading_ends_the_engine_s_process(vllm: Triton) -> None:
    """It is one: no further process computes the steps. Its sockets' files go, too."""
    engine = engine_processes(vllm)
    assert len(engine) == 1
    sockets = [Path(c.laddr) for c in engine[0].net_connections("unix") if "vllm-" in c.laddr]
    assert any(path.exists() for path in sockets)
    vllm.unload("llama_vllm")
    wait_until(lambda: not any(lives(process) for process in engine))
    assert not any(path.parent.exists() for path in sockets)
    assert "Segfault" not in vllm.log_text()


@needs_vllm
def test_a_killed_process_s_model_is_loaded_again(vllm: Triton) -> None:
    """The stream under way ends with an error, and nothing of the old engine stays."""
    vllm.load("llama_vllm", timeout=280)
    ask = {"text_input": PROMPT, "sampling_parameters": GREEDY}

    def seen() -> bool:  # on a busy machine the stream may have ended before its process
        engine = engine_processes(vllm)
        text = said_of_a_kill(vllm, engine)
        wait_until(lambda: not any(lives(process) for process in engine))
        wait_until(lambda: "text_output" in generate(vllm, **ask), 120)
        return "The process of model 'llama_vllm' has ended: signal 9" in text

    assert any(seen() for _ in range(3))


def said_of_a_kill(server: Triton, engine: list[psutil.Process]) -> str:
    """Kill the engine's stub after a stream's first event; return the rest of the stream."""
    parents = [process.parent() for process in engine]
    (stub,) = {p for p in parents if p is not None and "stub" in p.name()}
    body = {"text_input": PROMPT, "stream": True, "sampling_parameters": json.dumps(LONG)}
    url = f"{server.url}/v2/models/llama_vllm/generate_stream"
    with httpx.stream("POST", url, json=body, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        stub.kill()
        return "".join(lines)


@needs_vllm
def test_an_engine_that_dies_is_told_and_its_model_unloaded(vllm: Triton) -> None:
    vllm.load("llama_vllm", timeout=280)
    for process in engine_processes(vllm):
        process.kill()
    ask = {"text_input": PROMPT, "sampling_parameters": GREEDY}
    # The next request gets the error, and then the model is unloaded.
    wait_until(lambda: "error" in generate(vllm, **ask) and not vllm.ready("llama_vllm"))
    assert "the engine is not healthy" in vllm.log_text()
