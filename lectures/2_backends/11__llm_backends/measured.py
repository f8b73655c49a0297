"""For 11__llm_backends: what an engine counts.

measured.counts(lab, "vllm_model")          # the engine's metrics, from Triton's metrics port
measured.most_running(lab, "vllm_model")    # how many requests it computes together
"""

from __future__ import annotations

import threading
import time

import pandas as pd

from setup import has_vllm
from workbook import measure
from workbook.lessons.premises import Premise
from workbook.measure import generation
from workbook.server import Server

#: Prompts of different lengths, in tokens.
PROMPTS = ('The "with" statement is used', "A class definition", "def f(x):", "An empty list")
#: How many clients ask at the same time.
CLIENTS = 8
_LOOKING, _LONGEST = 1.5, 20.0  # seconds


def as_expected(gain: float) -> bool:
    """Whether 8 clients gain over one what this engine gives: with vLLM they do, else they wait."""
    return gain > 1.3 if has_vllm() else gain < 1.7


def repeated(rounds: pd.DataFrame) -> Premise:
    """Premise: the two best rounds of each way agreed. A program that disturbs one spoils nothing.

    Args:
        rounds: tokens per second; one row per round, one column per way.
    """
    spread = rounds.max() / rounds.apply(lambda way: way.nlargest(2).iloc[-1])
    return Premise(
        spread.max() < 1.6,
        f"of {len(rounds)} rounds of {spread.idxmax()!r}, the best had {spread.max():.1f} times "
        "the tokens per second of the second best; other programs may have taken the cores",
    )


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
