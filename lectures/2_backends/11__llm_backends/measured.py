"""For 11__llm_backends: what an engine counts, how fast it is, and Transformers beside it.

measured.speeds(lab, "vllm_model")          # tokens per second, served and in this process
measured.counts(lab, "vllm_model")          # the engine's metrics, from Triton's metrics port
measured.most_running(lab, "vllm_model")    # how many requests it computes together
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import psutil

from setup import has_vllm, weights
from workbook import measure
from workbook.lessons.premises import Premise
from workbook.measure import generation
from workbook.server import Server, Triton

#: Prompts of different lengths, in tokens.
PROMPTS = ('The "with" statement is used', "A class definition", "def f(x):", "An empty list")
#: How many clients ask at the same time, and how many answers they get in one measurement.
CLIENTS, ANSWERS = 8, 24
#: Tokens of these answers: a few long ones among short ones.
LENGTHS = generation.mixed_lengths(ANSWERS, least=8, most=96)
_ROUNDS = 3
_LOOKING, _LONGEST = 1.5, 20.0  # seconds


def speeds(server: Server, model: str) -> pd.DataFrame:
    """Tokens per second of the same answers: served to 1 and 8 clients, and in this process.

    The server and this process take turns, so that other programs disturb both alike. In-process,
    Transformers answers one prompt after the other, or in batches of 8 that end with their longest.

    Transformers computes with one thread: for so small a network more threads only wait.

    Returns:
        One row per way: `tokens per s`, the best of the rounds, and `spread`, the best over the
        second best: programs that disturb one round spoil no figure.
    """
    lengths = LENGTHS[: ANSWERS // 3]
    ways: dict[str, Callable[[], float]] = {
        "served, 1 client": lambda: _served(server, model, lengths, 1),
        f"served, {CLIENTS} clients": lambda: _served(server, model, LENGTHS, CLIENTS),
        "in-process, one by one": lambda: _in_process(lengths, 1),
        f"in-process, batches of {CLIENTS}": lambda: _in_process(LENGTHS, CLIENTS),
    }
    generate(PROMPTS, 4)  # warm
    rounds = [{name: way() for name, way in ways.items()} for _ in range(_ROUNDS)]
    rows = {}
    for name in ways:
        second, best = sorted(each[name] for each in rounds)[-2:]
        rows[name] = {"tokens per s": best, "spread": best / second}
    return pd.DataFrame(rows).T


def as_expected(gain: float) -> bool:
    """Whether 8 clients gain over one what this engine gives: with vLLM they do, else they wait."""
    return gain > 1.3 if has_vllm() else gain < 1.7


def repeated(table: pd.DataFrame) -> Premise:
    """Premise: the two best rounds of each way in a table of `speeds` agreed."""
    way, apart = str(table["spread"].idxmax()), float(table["spread"].max())
    return Premise(
        apart < 1.6,
        f"of {_ROUNDS} rounds of {way!r}, the best had {apart:.1f} times the tokens per second of "
        "the second best; other programs may have taken the cores",
    )


def _served(server: Server, model: str, lengths: Sequence[int], clients: int) -> float:
    table = generation.load(server, model, PROMPTS, lengths, clients=clients)
    return generation.tokens_per_second(table)


@functools.cache
def _network() -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.disable_progress_bar()
    network = AutoModelForCausalLM.from_pretrained(weights()).eval()
    return AutoTokenizer.from_pretrained(weights()), network


def _in_process(lengths: Sequence[int], batch: int) -> float:
    """Useful tokens per second of Transformers in this process, in static batches."""
    began = time.perf_counter()
    for first in range(0, len(lengths), batch):
        wanted = lengths[first : first + batch]
        generate([PROMPTS[(first + n) % len(PROMPTS)] for n in range(len(wanted))], max(wanted))
    return sum(lengths) / (time.perf_counter() - began)


def generate(prompts: Sequence[str], tokens: int) -> list[str]:
    """Write the likeliest tokens after each prompt, by Transformers in this process, as one batch.

    Args:
        tokens: the number of tokens for each prompt.
    """
    import torch

    words, network = _network()
    given = words(list(prompts), padding=True, return_tensors="pt")
    with torch.inference_mode():
        found = network.generate(
            **given, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
            pad_token_id=words.pad_token_id,
        )  # fmt: skip
    new = found[:, given["input_ids"].shape[1] :]
    return [words.decode(row, skip_special_tokens=True) for row in new]


def counts(server: Server, model: str) -> pd.Series[float]:
    """The engine's own counters and gauges of a model on Triton's metrics port."""
    table = measure.metrics(server)
    own = table["metric"].str.match(r"(vllm|transformers):") & (table["model"] == model)
    plain = own & ~table["metric"].str.contains("_bucket|_created")
    return table[plain].set_index("metric")["value"]


def count(server: Server, model: str, name: str, *, least: float = 0.0) -> float:
    """One of `counts`, by its name without the engine's prefix; 0 where it is not reported.

    Args:
        least: wait until it is as large, for five seconds at most: an engine counts a step after
            it has sent the step's tokens.
    """
    deadline = time.monotonic() + 5
    while True:
        found = counts(server, model)
        value = float(found[found.index.str.endswith(f":{name}")].sum())
        if value >= least or time.monotonic() > deadline:
            return value
        time.sleep(0.05)


def most_running(server: Server, model: str, tokens: int = 48) -> int:
    """How many requests the engine computed together at most, while 8 clients asked.

    The clients ask again and again, for `_LOOKING` seconds: the metric comes some time after the
    step of the engine that it is of, and a fast machine answers all clients before. On a busy
    machine it comes later still, so they go on until it has come, for `_LONGEST` seconds at most.

    Args:
        tokens: how long each answer is.

    Returns:
        0 where the metric did not come.
    """
    seen, done = [0.0], threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.append(count(server, model, "num_requests_running"))
            done.wait(0.02)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        began = time.monotonic()
        while time.monotonic() < began + (_LOOKING if max(seen) else _LONGEST):
            generation.load(server, model, PROMPTS, [tokens] * CLIENTS, clients=CLIENTS)
    finally:
        done.set()
        watcher.join()
    return int(max(seen))


def memory_mb(server: Triton, model: str) -> float:
    """Memory of a model's process and of the engine's processes that it has started, in MB."""
    table = measure.processes(server)
    found = 0.0
    for pid in table.loc[table["model"] == model, "pid"]:
        own = psutil.Process(int(pid))
        found += sum(each.memory_full_info().uss for each in [own, *own.children(recursive=True)])
    return found / 1e6
