"""Put load on a language model, and measure tokens per second.

Several clients ask at the same time, and each asks again as soon as it has its answer. The lengths
of the answers are given beforehand and are the same for every way of serving, so that tokens per
second can be compared: only tokens that a client asked for count.

    lengths = generation.mixed_lengths(32)
    ways = {
        "static": generation.load(server, "llama_hf", prompts, lengths, clients=8),
        "continuous": generation.load(server, "llama_vllm", prompts, lengths, clients=8),
    }
    generation.plot_answers(ways)
"""

from __future__ import annotations

import contextlib
import heapq
import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import numpy as np
import pandas as pd
from matplotlib.patches import Patch

from ..common.errors import RequestError
from ..server import Server
from .style import COLOURS, GREY, Picture, panel

#: Answers that end within this many seconds of each other were in one static batch.
_TOGETHER = 0.05


def mixed_lengths(number: int, *, least: int = 8, most: int = 256, seed: int = 0) -> list[int]:
    """Lengths of answers in tokens, `least` to `most`, evenly spaced on a log scale, shuffled."""
    lengths = np.geomspace(least, most, number).round().astype(int)
    return [int(n) for n in np.random.default_rng(seed).permutation(lengths)]


def load(
    server: Server,
    model: str,
    prompts: Sequence[str],
    lengths: Sequence[int],
    *,
    clients: int,
    stream: bool = False,
    static: bool = False,
) -> pd.DataFrame:
    """Ask a language model for answers of given lengths, and time them.

    Temperature is 0: the model gives the likeliest token each time.

    Args:
        server: a running server.
        model: a language model of the course: it takes `text_input` and `sampling_parameters`.
        prompts: taken in turn.
        lengths: tokens of each answer, in the order of asking.
        clients: how many clients ask at the same time.
        stream: ask for each token as soon as it is made; without it, `first` equals `end`.
        static: ask in static batches: each client asks once, and all wait for the last answer
            before they ask again.

    Returns:
        One row per request, in the order of asking: `client`, `sent`, `first` (token), `end`
        (seconds since the first request was sent), `tokens`, `text`.

    Raises:
        RequestError: a request failed.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(lengths)):
        waiting.put(number)
    rows: dict[int, dict[str, Any]] = {}
    failed: list[Exception] = []
    together = threading.Barrier(clients if static else 1)

    def work(client: int) -> None:
        while not failed:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                together.abort()  # this client ends: the others stop waiting for it
                return
            prompt = prompts[number % len(prompts)]
            try:
                row = _ask(http, server, model, prompt, lengths[number], stream)
            except Exception as error:
                failed.append(error)
                together.abort()
                return
            rows[number] = {"client": client, **row}
            with contextlib.suppress(threading.BrokenBarrierError):
                together.wait()

    # One client for all threads, made before the clock starts: making it takes a while.
    http = httpx.Client(timeout=600, trust_env=False, limits=httpx.Limits(max_connections=None))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    http.close()
    if failed:
        message = str(failed[0])
        raise RequestError(f"{model} failed under load.", model=model, message=message)
    table = pd.DataFrame([rows[number] for number in range(len(lengths))])
    times = ["sent", "first", "end"]
    table[times] -= table["sent"].min()
    return table


def tokens_per_second(answers: pd.DataFrame) -> float:
    """Tokens that were asked for, per second from the first request to the last answer."""
    return float(answers["tokens"].sum() / (answers["end"].max() - answers["sent"].min()))


def rows_at_work(lengths: Sequence[int], rows: int) -> tuple[float, float]:
    """The mean number of rows of a batch that make a useful token per step, computed from lengths.

    A static batch takes the next `rows` answers and ends with the longest of them. In a continuous
    batch the next answer takes the row of one that has ended.

    Args:
        lengths: tokens of each answer, in the order of asking.
        rows: the batch size.

    Returns:
        The mean for static batches, and for a continuous one; both at most `rows`.
    """
    steps = sum(max(lengths[i : i + rows]) for i in range(0, len(lengths), rows))
    ends = [0] * rows
    for length in lengths:
        heapq.heapreplace(ends, ends[0] + length)
    return sum(lengths) / steps, sum(lengths) / max(ends)


def plot_answers(ways: Mapping[str, pd.DataFrame], *, title: str = "") -> Picture:
    """Draw when each client's answers were made, one panel per way of serving.

    One bar per answer, one row of bars per client. Where a server makes static batches, all answers
    of a batch end when the longest does: the pale part of a bar is the time in which its row was
    computed for nothing. In a gap the client waits before it asks again.

    Args:
        ways: tables of `load` by name; a name that ends in "static" is drawn as static batches.
        title: a line above the figure.
    """
    figure = Picture(8.4, 1.1 + 1.7 * len(ways), title)
    panels = figure.subplots(len(ways), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, table) in zip(panels, ways.items(), strict=True):
        rate = tokens_per_second(table)
        panel(axes, f"{name}: {rate:.0f} tokens/s", below="seconds", grid="x")
        useful = _useful_ends(table) if name.endswith("static") else table["end"]
        for row, end in zip(table.itertuples(), useful, strict=True):
            colour = COLOURS[row.Index % len(COLOURS)]
            lane = {"y": row.client, "height": 0.8, "left": row.sent, "color": colour}
            axes.barh(width=row.end - row.sent, alpha=0.25, **lane)
            axes.barh(width=end - row.sent, **lane)
        axes.set_yticks(clients := sorted(table["client"].unique()))
        axes.set_yticklabels([str(client + 1) for client in clients], fontsize=8)
        axes.set_ylabel("client", color=GREY)
    meanings = {"tokens that were asked for": 1.0, "computed, and thrown away": 0.25}
    figure.legend(
        handles=[Patch(color=GREY, alpha=alpha, label=text) for text, alpha in meanings.items()],
        loc="outside upper right",
        ncols=2,
        frameon=False,
        fontsize=9,
        labelcolor=GREY,
    )
    if title:
        figure.suptitle(title, color=GREY, fontsize=12, x=0.01, ha="left")
    return figure


def _useful_ends(table: pd.DataFrame) -> list[float]:
    """When each answer of a static batch had its last token, estimated from the longest answer."""
    ends = []
    for row in table.itertuples():
        batch = table[(table["end"] - row.end).abs() < _TOGETHER]
        ends.append(row.sent + (row.end - row.sent) * row.tokens / batch["tokens"].max())
    return ends


def _ask(
    http: httpx.Client, server: Server, model: str, prompt: str, length: int, stream: bool
) -> dict[str, Any]:
    given = {"temperature": 0, "max_tokens": length, "ignore_eos": True}
    body: dict[str, Any] = {
        "text_input": prompt,
        "sampling_parameters": json.dumps(given),
        "exclude_input_in_output": True,  # ignored by a model without such an input
    }
    url = f"{server.url}/v2/models/{model}/generate"
    sent = time.perf_counter()
    if not stream:
        answer = http.post(url, json=body).json()
        end = first = time.perf_counter()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        text = answer["text_output"]
        return {"sent": sent, "first": first, "end": end, "tokens": length, "text": text}
    text, first, end = "", 0.0, 0.0
    with http.stream("POST", f"{url}_stream", json={**body, "stream": True}) as events:
        for line in events.iter_lines():
            if line:
                piece = json.loads(line.removeprefix("data: "))
                if "error" in piece:
                    raise RuntimeError(piece["error"])
                end = time.perf_counter()
                first = first or end
                text += piece["text_output"]
    return {"sent": sent, "first": first, "end": end, "tokens": length, "text": text}
