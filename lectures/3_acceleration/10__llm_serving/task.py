"""The task of 10__llm_serving: a long prompt no longer stops the answers of the others."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import httpx
import numpy as np

import setup
from workbook.lessons import files
from workbook.lessons.tasks import CannotTell, NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_LONG, _SHORT = 400, 8  # tokens of a prompt
#: The other answer's tokens are enough for a prompt in many small steps that is sent late as well.
_ROUNDS, _OTHER = 7, 120
#: Tokens that another answer gets while the long prompt is read, more than with a short one: one
#: per step. Between the second and the third number, and the fourth and the fifth, nothing is said.
_ONE_STEP, _LEAST, _MOST, _TOO_MANY = 2, 4, 16, 22
#: Tokens while a short prompt is read. It takes one step, where it does not wait for the other
#: answer's end: then they are more than 100.
_AT_ONCE, _WAITS = 10, 40
_WORDS = ("the", "of", "a", "to", "is", "in", "and", "or", "if", "for", "not", "be", "list")


def start(folder: Path) -> Server:
    """Start a server with the engine as the notebook has it."""
    files.place(folder, Path(__file__).parent / "models/engine")
    setup.prepare_engine(folder)
    return laboratory(folder)


@define(
    "serving.pause",
    hints=(
        "A step computes a token for each answer under way, and all tokens of a new prompt. Which "
        "argument limits the tokens of one step? Look into the list of vLLM's engine arguments, "
        "which the text above the task links to.",
        "The limit must not be below the number of requests that may be under way, which "
        "`max_num_seqs` sets. Eight are enough here. Both stand in `{models}/engine/1/model.json`, "
        "beside the four arguments that it has.",
        "400 tokens in 5 to 16 steps: between 30 and 80 tokens per step.",
    ),
)
def pause(server: Server) -> None:
    """`engine` reads a prompt of 400 tokens in 5 to 16 steps, and other answers go on meanwhile."""
    if not server.ready("engine"):
        raise NotYet("The model engine is not loaded.")
    _meanwhile(server, _SHORT)  # warm
    found = [[_meanwhile(server, tokens) for tokens in (_LONG, _SHORT)] for _ in range(_ROUNDS)]
    long, short = (sorted(counts) for counts in zip(*found, strict=True))
    # A busy machine sends a prompt late, and counts more tokens. So the second smallest counts.
    more = long[1] - short[1]
    is_one_step = more <= _ONE_STEP and median(long) - median(short) < _LEAST
    if short[1] >= _WAITS or is_one_step:
        raise NotYet(
            "While the long prompt is read, another answer should get 5 to 16 tokens more than "
            f"with a short one. It gets {max(more, 0)} more, and {short[1]} with a short one: the "
            "prompt is read in one step, or waits for the other's end."
        )
    if more >= _TOO_MANY and short[1] <= _AT_ONCE:
        raise NotYet(
            f"Another answer gets {more} tokens while the long prompt is read: its user waits for "
            "many small steps."
        )
    if short[1] > _AT_ONCE or not _LEAST <= more <= _MOST:
        raise CannotTell(
            f"Another answer got {long} tokens with a long prompt, {short} with a short."
        )


def _meanwhile(server: Server, tokens: int) -> int:
    """How many tokens another answer gets from the sending of a prompt to its first token."""
    random = np.random.default_rng()
    times: list[float] = []
    failed: list[NotYet] = []
    went, answered = threading.Event(), threading.Event()

    def go_on() -> None:
        try:
            for came in _stream(server, "def f(x):", _OTHER):
                times.append(came)
                if len(times) == 5:
                    went.set()
                if answered.is_set():
                    break
        except NotYet as error:
            failed.append(error)
        went.set()

    other = threading.Thread(target=go_on)
    other.start()
    went.wait(60)
    sent = time.perf_counter()
    try:
        first = next(iter(_stream(server, " ".join(random.choice(_WORDS, tokens)), 1)))
    finally:
        answered.set()
        other.join()
    if failed:
        raise failed[0]
    return sum(sent < came < first for came in times)


def _stream(server: Server, prompt: str, tokens: int) -> Iterator[float]:
    """When each piece of an answer comes.

    Raises:
        NotYet: the server answers with an error.
    """
    given = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    body = {"text_input": prompt, "sampling_parameters": json.dumps(given), "stream": True}
    url = f"{server.url}/v2/models/engine/generate_stream"
    with httpx.stream("POST", url, json=body, timeout=300, trust_env=False) as answer:
        for line in filter(None, answer.iter_lines()):
            if "error" in (piece := json.loads(line.removeprefix("data: "))):
                raise NotYet(f"The server answers: {piece['error']}")
            yield time.perf_counter()
