"""vLLM's engine behind Triton's interface: with NVIDIA's client shape, streams, ends and errors."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as aioclient
from conftest import put_models
from llm_asking import PROMPT, events, grpc_pieces, inputs
from llm_waits import cancelled, metrics, wait_until

from workbook.errors import LoadError
from workbook.server import Triton

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: run `make vllm`"
)
GREEDY = {"temperature": 0, "max_tokens": 24, "ignore_eos": True}
LONG = {"temperature": 0, "max_tokens": 480, "ignore_eos": True}


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server with the tiny Llama on vLLM, and on Hugging Face to compare with."""
    repository = tmp_path_factory.mktemp("models")
    put_models(repository, ("llama_vllm", "llama_hf"))
    with Triton(repository) as server:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda name: server.load(name, timeout=280), ("llama_vllm", "llama_hf")))
        yield server


def generate(server: Triton, model: str = "llama_vllm", **body: Any) -> dict[str, Any]:
    if not isinstance(body.get("sampling_parameters", ""), str):
        body["sampling_parameters"] = json.dumps(body["sampling_parameters"])
    url = f"{server.url}/v2/models/{model}/generate"
    return httpx.post(url, json=body, timeout=120).json()  # type: ignore[no-any-return]


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_load_says_how_to_install_it(tmp_path: Any) -> None:
    put_models(tmp_path, ("llama_vllm",))
    with Triton(tmp_path) as server, pytest.raises(LoadError, match="make vllm"):
        server.load("llama_vllm")


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
def test_greedy_answers_are_hugging_face_s_token_by_token(vllm: Triton) -> None:
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
    assert answers == [
        generate(vllm, "llama_hf", text_input=prompt, sampling_parameters=GREEDY)["token_ids"]
        for prompt in prompts
    ]


@needs_vllm
def test_nvidia_s_client_shape(vllm: Triton) -> None:
    """Requests as the sample client of NVIDIA's backend makes them: numbers as strings, the same
    parameters as a tensor and as the request's own, several prompts on one asynchronous stream."""
    given = {"temperature": "0.1", "top_p": "0.95", "max_tokens": "10"}

    def request(prompt: str, number: int) -> dict[str, Any]:
        return {
            "model_name": "llama_vllm",
            "inputs": inputs(aioclient, prompt, False, True, given),
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
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"text_input": ""}, "The decoder prompt cannot be empty"),
        ({"text_input": "in " * 600}, "maximum context length is 512 tokens"),
        ({"sampling_parameters": {"temperature": -1}}, "temperature must be non-negative"),
        ({"sampling_parameters": {"temperature": "hot"}}, "temperature is 'hot'"),
        ({"sampling_parameters": {"beams": 4}}, "sampling parameter 'beams' is not one of vLLM's"),
        ({"sampling_parameters": "{"}, "sampling_parameters is not JSON"),
        ({"sampling_parameters": "[]"}, "must be a JSON object"),
        ({"sampling_parameters": {"lora_name": "x"}}, "LoRA feature is not enabled"),
        ({"stream": True, "exclude_input_in_output": False}, "When streaming"),
    ],
)
def test_a_bad_request_says_what_is_wrong(vllm: Triton, body: dict[str, Any], words: str) -> None:
    assert words in generate(vllm, **{"text_input": "x", **body})["error"]
    assert "text_output" in generate(vllm, text_input=PROMPT, sampling_parameters=GREEDY)


def running(server: Triton) -> float:
    """How many requests the engine works on or holds back, as it says itself."""
    return sum(
        metrics(server, f"vllm:num_requests_{state}", "llama_vllm")
        for state in ("running", "waiting")
    )


@needs_vllm
def test_a_cancelled_stream_ends_in_the_engine_too(vllm: Triton) -> None:
    before = cancelled(vllm)
    with vllm.grpc_client() as client:
        client.start_stream(lambda result, error: None)
        for number in range(4):
            asked = inputs(grpcclient, PROMPT, False, True, LONG)
            client.async_stream_infer("llama_vllm", asked, request_id=str(number))
        wait_until(lambda: running(vllm) > 0)
        client.stop_stream(cancel_requests=True)
    wait_until(lambda: cancelled(vllm) >= before + 1)
    generate(vllm, text_input=PROMPT, sampling_parameters=GREEDY)  # a step that counts anew
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


@needs_vllm
def test_unloading_ends_the_engine_s_processes(vllm: Triton) -> None:
    """Last: it takes the model away."""
    assert vllm.pid is not None
    family = psutil.Process(vllm.pid).children(recursive=True)
    engine = [process for process in family if "VLLM" in process.name() + str(process.cmdline())]
    assert engine
    vllm.unload("llama_vllm")
    wait_until(lambda: not any(lives(process) for process in engine))
    assert "Segfault" not in vllm.log_text()


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
