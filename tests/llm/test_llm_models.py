"""All language models except vLLM's: each over each protocol, how answers end, and errors."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tritonclient.grpc as grpcclient
from llm_asking import (
    PROMPT,
    Answer,
    cancel_many,
    events,
    grpc_pieces,
    hang_up,
    inputs,
    over_events,
    over_generate,
    over_grpc,
    over_grpc_stream,
    over_http,
)
from llm_reference import reference, tokenizer
from llm_waits import cancelled, pending, shared_memory, wait_until

from workbook.common.errors import RequestError
from workbook.measure import generation
from workbook.server import Triton

pytestmark = pytest.mark.server

Ask = Callable[[Triton, str, str, Any], Answer]
#: Models and protocols; a decoupled model answers on streams, and on the generate endpoint.
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
    "bls-generate_stream": ("chat_bls", over_events),
}
GREEDY = {"temperature": 0, "max_tokens": 24, "ignore_eos": True}
way = pytest.mark.parametrize(("model", "ask"), WAYS.values(), ids=list(WAYS))
one_each = pytest.mark.parametrize(
    ("model", "ask"),
    [WAYS[name] for name in ("hf-grpc", "stream-grpc", "bls-http", "hf-generate")],
)


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
    requests = [(PROMPT[: 5 + 4 * i], 3 + 5 * i) for i in range(8)]
    before = batches(llms, model)

    def ask(prompt: str, number: int) -> list[int]:
        return over_grpc(llms, model, prompt, {**GREEDY, "max_tokens": number}).tokens

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda a: ask(*a), requests))
    assert answers == [reference(prompt, number) for prompt, number in requests]
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


@way
def test_an_answer_ends_where_the_model_says_so(llms: Triton, model: str, ask: Ask) -> None:
    """After the token of the end these weights say the end: such a prompt has no answer."""
    prompt = PROMPT + tokenizer().eos_token
    answer = ask(llms, model, prompt, {"temperature": 0, "max_tokens": 24})
    assert answer == Answer("", [], "stop")
    on = ask(llms, model, prompt, GREEDY)
    assert (on.tokens, on.reason) == (reference(prompt, 24), "length")


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


def test_a_model_of_many_answers_is_asked_on_a_stream(llms: Triton) -> None:
    for ask in (over_grpc, over_http):
        with pytest.raises(Exception, match="decoupled transaction policy"):
            ask(llms, "llama_stream", PROMPT, GREEDY)


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
    """Random weights at a high temperature make many broken characters; no character is split."""
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
            tensors = inputs(grpcclient, PROMPT, False, True, LONG)
            client.async_stream_infer("llama_stream", tensors, request_id=str(number))
        assert first.wait(60)
        client.stop_stream(cancel_requests=True)
    wait_until(lambda: cancelled(llms) > before)
    assert over_generate(llms, "llama_stream", PROMPT, GREEDY).tokens == reference(PROMPT, 24)


@pytest.mark.parametrize("model", ["llama_hf", "chat_bls"])
def test_a_cancelled_request_ends_at_the_model_too(llms: Triton, model: str) -> None:
    before = cancelled(llms)
    deadline = time.monotonic() + 60
    with llms.grpc_client() as client:
        # If cancelled too early, the answer never begins; if too late, it has ended. So this is
        # repeated until it meets the answer.
        while cancelled(llms) == before:
            assert time.monotonic() < deadline
            tensors = inputs(grpcclient, PROMPT, True, None, LONG)
            call = client.async_infer(model, tensors, lambda result, error: None)
            time.sleep(0.15)
            call.cancel()
            time.sleep(0.3)
    assert over_generate(llms, model, PROMPT, GREEDY).tokens == reference(PROMPT, 24)


@pytest.mark.parametrize("model", ["llama_hf", "llama_stream", "chat_bls"])
def test_cancelled_requests_leave_nothing_behind(llms: Triton, model: str) -> None:
    """Each fills 200 kB of the memory through which requests go; they are given back."""
    large = json.dumps(LONG) + " " * 200_000
    for _ in range(3):
        cancel_many(llms, model, 8, large)
    before = shared_memory(llms)
    for _ in range(10):
        cancel_many(llms, model, 8, large)
        assert over_generate(llms, model, PROMPT, GREEDY).tokens == reference(PROMPT, 24)
    assert pending(llms, model) == 0
    assert shared_memory(llms) - before < 8_000_000  # of 16,000,000


@pytest.mark.parametrize("road", ["generate", "generate_stream"])
@pytest.mark.parametrize("model", ["llama_hf", "llama_stream", "chat_bls"])
def test_a_client_that_hangs_up_leaves_the_model_well(llms: Triton, model: str, road: str) -> None:
    body = {"text_input": PROMPT, "sampling_parameters": json.dumps(LONG)}
    for seconds in (0.0, 0.05, 0.2):
        hang_up(llms, model, body, road, seconds)
    assert over_generate(llms, model, PROMPT, GREEDY).tokens == reference(PROMPT, 24)
    wait_until(lambda: pending(llms, model) == 0)


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


def test_a_load_gets_the_same_answers_with_and_without_streaming(llms: Triton) -> None:
    """The comparison of ways to serve counts on this."""
    lengths, prompts = [3, 9, 5, 12, 4, 7], ("def", "The class statement")
    whole = generation.load(llms, "llama_stream", prompts, lengths, clients=3)
    pieces = generation.load(llms, "llama_stream", prompts, lengths, clients=3, stream=True)
    with pytest.raises(RequestError, match="failed under load"):
        generation.load(llms, "llama_stream", ["x " * 600], [3], clients=1)
    assert list(whole["text"]) == list(pieces["text"])
    for table in (whole, pieces):
        assert list(table["tokens"]) == lengths
        assert set(table["client"]) <= {0, 1, 2}
        assert ((table["sent"] < table["first"]) & (table["first"] <= table["end"])).all()
    assert (pieces["first"] < pieces["end"]).all()
    assert generation.tokens_per_second(whole) == pytest.approx(40 / whole["end"].max(), rel=0.05)


def test_static_batches_wait_for_their_longest_answer(llms: Triton) -> None:
    """The clients ask again together; a failed request ends the load, and no client hangs."""
    lengths = [2, 30, 4, 6, 3, 20]
    table = generation.load(
        llms, "llama_stream", ("def",), lengths, clients=2, stream=True, static=True
    )
    assert list(table["tokens"]) == lengths
    for first in (2, 4):
        batch = table.iloc[first : first + 2]
        assert set(batch["client"]) == {0, 1}
        assert batch["sent"].min() >= table["end"].iloc[first - 2 : first].max()
    with pytest.raises(RequestError, match="failed under load"):
        generation.load(llms, "llama_stream", ["def", "x " * 600], [3] * 4, clients=2, static=True)


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
