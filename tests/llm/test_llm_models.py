"""The language models but vLLM's: each over each protocol, its ends and its errors."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from llm_asking import (
    PROMPT,
    Answer,
    events,
    grpc_pieces,
    inputs,
    over_events,
    over_generate,
    over_grpc,
    over_grpc_stream,
    over_http,
)
from llm_waits import cancelled, pending, wait_until

from workbook import zoo
from workbook.server import Triton

Ask = Callable[[Triton, str, str, Any], Answer]
#: Model and road; a decoupled model answers on streams, and on the generate endpoint.
WAYS: dict[str, tuple[str, Ask]] = {
    "hf-grpc": ("llama_hf", over_grpc),
    "hf-http": ("llama_hf", over_http),
    "hf-generate": ("llama_hf", over_generate),
    "hf-generate_stream": ("llama_hf", over_events),
    "stream-grpc": ("llama_stream", over_grpc_stream),
    "stream-generate": ("llama_stream", over_generate),
    "stream-generate_stream": ("llama_stream", over_events),
    "bls-grpc": ("chat_bls", over_grpc),
    "bls-http": ("chat_bls", over_http),
    "bls-generate": ("chat_bls", over_generate),
}
GREEDY = {"temperature": 0, "max_tokens": 24, "ignore_eos": True}
way = pytest.mark.parametrize(("model", "ask"), WAYS.values(), ids=list(WAYS))
one_each = pytest.mark.parametrize(
    ("model", "ask"),
    [WAYS[name] for name in ("hf-grpc", "stream-grpc", "bls-http", "hf-generate")],
)


@functools.cache
def reference(prompt: str, number: int) -> list[int]:
    """The likeliest tokens by the framework itself, in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = zoo.checkpoint("llama_tiny")
    words, model = (auto.from_pretrained(place) for auto in (AutoTokenizer, AutoModelForCausalLM))
    ids = words(prompt, return_tensors="pt").input_ids
    for _ in range(number):
        with torch.inference_mode():
            best = model.eval()(ids).logits[0, -1].argmax()
        ids = torch.cat([ids, best.reshape(1, 1)], 1)
    return ids[0, -number:].tolist()  # type: ignore[no-any-return]


@functools.cache
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(zoo.checkpoint("llama_tiny"))


@way
def test_greedy_answers_are_the_framework_s_token_by_token(
    llms: Triton, model: str, ask: Ask
) -> None:
    answer = ask(llms, model, PROMPT, GREEDY)
    assert answer.tokens == reference(PROMPT, 24)
    assert answer.text == tokenizer().decode(answer.tokens, skip_special_tokens=True)
    assert answer.reason == "length"


@pytest.mark.parametrize("model", ["llama_hf", "chat_bls"])
def test_a_batch_of_unequal_prompts_and_lengths_answers_as_each_alone(
    llms: Triton, model: str
) -> None:
    """Eight at once, padded on the left, ended one by one."""
    asked = [(PROMPT[: 5 + 4 * i], 3 + 5 * i) for i in range(8)]
    before = batches(llms, model)

    def ask(prompt: str, number: int) -> list[int]:
        return over_grpc(llms, model, prompt, {**GREEDY, "max_tokens": number}).tokens

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda a: ask(*a), asked))
    assert answers == [reference(prompt, number) for prompt, number in asked]
    assert any(size > 1 for size in batches(llms, model) - before)


def batches(server: Triton, model: str) -> set[int]:
    return {int(entry["batch_size"]) for entry in server.statistics(model)[0]["batch_stats"]}


@one_each
def test_an_answer_ends_before_a_stop_text(llms: Triton, model: str, ask: Ask) -> None:
    whole = ask(llms, model, PROMPT, GREEDY).text
    stop = whole[len(whole) // 2 :][:4]
    answer = ask(llms, model, PROMPT, {**GREEDY, "stop": ["not there", stop]})
    assert answer.text == whole[: whole.index(stop)]
    assert answer.reason == "stop"


@one_each
def test_an_answer_ends_with_the_context(llms: Triton, model: str, ask: Ask) -> None:
    prompt = "in " * 500
    room = 512 - len(tokenizer()(prompt).input_ids)
    answer = ask(llms, model, prompt, {**GREEDY, "max_tokens": 10_000})
    assert (len(answer.tokens), answer.reason) == (room, "length")


@pytest.mark.parametrize("model", ["llama_stream", "chat_bls"])
def test_a_seed_makes_a_drawn_answer_the_same(llms: Triton, model: str) -> None:
    def ask(seed: int) -> list[int]:
        given = {"seed": seed, "top_p": 0.9, "max_tokens": 12, "ignore_eos": True}
        return over_generate(llms, model, PROMPT, given).tokens

    assert ask(1) == ask(1) != ask(2)


@one_each
@pytest.mark.parametrize(
    ("prompt", "given", "words"),
    [
        ("", {}, "the prompt is empty"),
        ("in " * 600, {}, r"the prompt has 60\d tokens; the model's context length is 512"),
        ("x", {"temperature": -1}, "temperature is -1; it must lie between 0 and 100"),
        ("x", {"top_p": 0}, "top_p is 0; it must lie between"),
        ("x", {"max_tokens": "many"}, "max_tokens is 'many'; it must be a number"),
        ("x", {"max_tokens": 0}, "max_tokens is 0; it must lie between 1"),
        ("x", {"beams": 4}, "there is no sampling parameter 'beams'"),
        ("x", {"stop": [3]}, r"stop is \[3\]; it must be a text or a list"),
        ("x", "[]", "sampling_parameters must be a JSON object"),
        ("x", "{", "sampling_parameters is not JSON"),
    ],
)
def test_a_bad_request_says_what_is_wrong(
    llms: Triton, model: str, ask: Ask, prompt: str, given: Any, words: str
) -> None:
    with pytest.raises(Exception, match=words):
        ask(llms, model, prompt, given)
    assert ask(llms, model, PROMPT, GREEDY).tokens == reference(PROMPT, 24)


@pytest.mark.parametrize("model", ["llama_hf", "chat_bls"])
def test_a_bad_request_spoils_no_batch(llms: Triton, model: str) -> None:
    def ask(number: int) -> Any:
        try:
            given = {"max_tokens": -1} if number == 3 else GREEDY
            return over_grpc(llms, model, PROMPT, given).tokens
        except Exception as error:
            return str(error)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, range(6)))
    assert "max_tokens is -1" in answers.pop(3)
    assert answers == [reference(PROMPT, 24)] * 5


def test_prompts_that_are_not_utf8(llms: Triton) -> None:
    for model in ("llama_hf", "chat_bls"):
        with pytest.raises(Exception, match="text_input is not UTF-8"):
            over_grpc(llms, model, b"\xff\xfe", GREEDY)
    with pytest.raises(Exception, match="text_input is not UTF-8"):
        list(grpc_pieces(llms, "llama_stream", b"\xff\xfe", GREEDY))


# -- streams ---------------------------------------------------------------------------------------


def test_a_stream_gives_one_token_at_a_time_and_in_order(llms: Triton) -> None:
    pieces = list(grpc_pieces(llms, "llama_stream", PROMPT, GREEDY))
    assert [len(piece.tokens) for piece in pieces] == [1] * 24
    assert [token for piece in pieces for token in piece.tokens] == reference(PROMPT, 24)
    assert [piece.reason for piece in pieces] == [""] * 23 + ["length"]
    assert len(list(events(llms, "llama_stream", PROMPT, GREEDY))) == 24


def test_without_stream_all_comes_in_one_piece(llms: Triton) -> None:
    (piece,) = grpc_pieces(llms, "llama_stream", PROMPT, GREEDY, stream=False)
    assert piece.tokens == reference(PROMPT, 24)


def test_a_letter_of_several_bytes_is_never_cut(llms: Triton) -> None:
    """Random weights, drawn without bounds, make many broken letters; none comes in parts."""
    given = {"temperature": 50.0, "seed": 5, "max_tokens": 120, "ignore_eos": True}
    pieces = list(grpc_pieces(llms, "llama_stream", PROMPT, given))
    tokens = [token for piece in pieces for token in piece.tokens]
    whole = tokenizer().decode(tokens, skip_special_tokens=True)
    assert "".join(piece.text for piece in pieces) == whole


LONG = {"temperature": 0, "max_tokens": 500, "ignore_eos": True}


def test_a_cancelled_stream_ends_at_the_model_too(llms: Triton) -> None:
    before = cancelled(llms)
    first = threading.Event()
    with llms.grpc_client() as client:
        client.start_stream(lambda result, error: first.set())
        for number in range(8):
            asked = inputs(grpcclient, PROMPT, False, True, LONG)
            client.async_stream_infer("llama_stream", asked, request_id=str(number))
        assert first.wait(60)
        client.stop_stream(cancel_requests=True)
    wait_until(lambda: cancelled(llms) > before)
    assert over_generate(llms, "llama_stream", PROMPT, GREEDY).tokens == reference(PROMPT, 24)


@pytest.mark.parametrize("model", ["llama_hf", "chat_bls"])
def test_a_cancelled_request_ends_at_the_model_too(llms: Triton, model: str) -> None:
    before = cancelled(llms)
    deadline = time.monotonic() + 60
    with llms.grpc_client() as client:
        # Cancelled too early it never begins, too late it has ended: the pause finds its length.
        while cancelled(llms) == before:
            assert time.monotonic() < deadline
            asked = inputs(grpcclient, PROMPT, True, None, LONG)
            call = client.async_infer(model, asked, lambda result, error: None)
            time.sleep(0.15)
            call.cancel()
            time.sleep(0.3)
    assert over_generate(llms, model, PROMPT, GREEDY).tokens == reference(PROMPT, 24)


HANGS_UP = """
import json, sys, httpx
body = {"text_input": "The", "stream": True, "sampling_parameters": sys.argv[2]}
with httpx.stream("POST", sys.argv[1], json=body, timeout=60) as answer:
    for line in answer.iter_lines():
        print(line, flush=True)
"""


def test_a_client_that_is_killed_leaves_the_model_well(llms: Triton) -> None:
    url = f"{llms.url}/v2/models/llama_stream/generate_stream"
    command = [sys.executable, "-c", HANGS_UP, url, json.dumps(LONG)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("data: ")
        program.kill()
    assert over_generate(llms, "llama_stream", PROMPT, GREEDY).tokens == reference(PROMPT, 24)
    wait_until(lambda: pending(llms, "llama_stream") == 0)


# -- one step: the tokenizer on the server, and on the client --------------------------------------


def test_the_tokenizer_on_the_server_and_on_the_client_agree(llms: Triton) -> None:
    answer = httpx.post(
        f"{llms.url}/v2/models/llama_next/generate", json={"text_input": PROMPT}, timeout=60
    ).json()
    on_server = np.array(answer["logits"], np.float32)

    ids = np.array([tokenizer()(PROMPT).input_ids], np.int64)
    config = llms.config("llama_onnx")
    dims = next(t["dims"] for t in config["input"] if t["name"] == "past")
    past = np.zeros([1, *(1 if int(d) == -1 else int(d) for d in dims)], np.float32)
    mask = np.array([[0, *[1] * ids.shape[1]]], np.int64)
    tensors = {"input_ids": ids, "attention_mask": mask, "past": past}
    with llms.grpc_client() as client:
        result = client.infer(
            "llama_onnx",
            [
                grpcclient.InferInput(
                    name, array.shape, "FP32" if name == "past" else "INT64"
                ).set_data_from_numpy(array)
                for name, array in tensors.items()
            ],
        )
    on_client = result.as_numpy("logits")[0]
    np.testing.assert_array_equal(on_server, on_client)
    assert on_client.argmax() == reference(PROMPT, 1)[0]
    # The cache that comes back holds the empty column and one for each token.
    assert result.as_numpy("present").shape[3] == 1 + ids.shape[1]


@pytest.mark.parametrize(
    ("text", "words"), [("", "text 0 of the request is empty"), ("in " * 600, "context length")]
)
def test_the_ensemble_refuses_what_has_no_next_token(llms: Triton, text: str, words: str) -> None:
    url = f"{llms.url}/v2/models/llama_next/generate"
    assert words in httpx.post(url, json={"text_input": text}, timeout=60).json()["error"]


def test_a_loop_without_its_model_says_so(llms: Triton) -> None:
    llms.unload("llama_next")
    llms.unload("llama_onnx")
    try:
        with pytest.raises(Exception, match="llama_onnx"):
            over_generate(llms, "chat_bls", PROMPT, GREEDY)
    finally:
        llms.load("llama_onnx")
        llms.load("llama_next")
    assert over_generate(llms, "chat_bls", PROMPT, GREEDY).tokens == reference(PROMPT, 24)
