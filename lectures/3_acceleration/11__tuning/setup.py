"""For 11__tuning: the network, the simulator's forecast, fronts, premises, and processor time."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import shutil
import time
import timeit
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbook.lessons import formats, scoreboard, simulator
from workbook.lessons.premises import Premise, steady
from workbook.lessons.shared import quiet
from workbook.measure import style
from workbook.server import Triton

#: A simulated execution takes its time ± this share, and how often a client sends.
_SCATTER, _ROUNDS = 0.1, 10


def prepare(models: Path) -> None:
    """Write the network as ONNX for the model `given`. Warnings of exporters are hidden."""
    quiet.hide_warnings()
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of the older exporter
    formats.save_onnx(models / "given/1/model.onnx")


def forecast(measured: pd.DataFrame, settings: pd.DataFrame) -> pd.DataFrame:
    """What the simulator says of settings: throughput, p99, and pictures per execution.

    It says by which factor a setting differs from the measured one with the same instances,
    threads and clients, batches of up to 16 and no delay.

    Args:
        measured: the better turns of `at_work/sweep.py`, with the settings as the index.
        settings: their columns.
    """
    known, found = dict(pairs(measured)), {}
    for (instances, threads, clients), group in settings.groupby(
        ["instances", "threads", "clients"]
    ):
        base, alone = known[instances, threads].loc[clients], known[1, threads]["done"]
        counts = [count for count, other in known if other == threads]
        costs = [_per_picture(known[count, threads]["done"]) for count in counts]
        factors = np.maximum(1, np.divide(costs, costs[0]))
        pause = float(
            max(0.05, base[["Client Send", "Network+Server Send/Recv", "Client Recv"]].sum() / 1000)
        )
        slower = dict(zip(range(1, 5), np.interp(range(1, 5), counts, factors), strict=True))
        run = partial(_simulate, execution_ms(alone), slower, pause, instances, clients)
        there = run(16, 0)
        for place, batch, delay_ms in group[["batch", "delay_ms"]].itertuples():
            here = run(batch, delay_ms)
            per_s, p99_ms, _ = np.divide(here, there)
            found[place] = base["per_s"] * per_s, base["p99_ms"] * p99_ms, here[2]
    columns = ["per_s", "p99_ms", "pictures"]
    return settings.join(pd.DataFrame.from_dict(found, orient="index", columns=columns))


def pairs(measured: pd.DataFrame) -> Iterator[tuple[tuple[int, int], pd.DataFrame]]:
    """The measured runs with batches of up to 16 and no delay, by instances and threads."""
    for (instances, threads), _ in measured.groupby(["instances", "threads"]):
        yield (instances, threads), measured.loc[(instances, threads, 16, 0)]


def execution_ms(executions: pd.Series) -> tuple[float, float]:
    """A line through the executions of several runs: milliseconds per execution, and per picture.

    Args:
        executions: JSON, by pictures: how many executions there were, and their milliseconds.
    """
    total = _total(executions)
    mean = total["ms"] / total["count"]
    if len(mean) < 2:
        return 0.0, float(mean.iloc[0] / mean.index[0])
    weights = np.sqrt(total["count"]) / mean
    each, fixed = np.polyfit(mean.index, mean, 1, w=weights)
    return max(0.0, float(fixed)), max(0.01, float(each))


def _total(executions: pd.Series) -> pd.DataFrame:
    """Executions and their milliseconds, by pictures."""
    runs = [pd.DataFrame(json.loads(text)) for text in executions]
    return pd.concat([run.set_axis(run.index.astype(int)) for run in runs]).groupby(level=0).sum()


def _per_picture(executions: pd.Series) -> float:
    total = _total(executions)
    return float(total["ms"].sum() / (total.index * total["count"]).sum())


def _simulate(
    ms: tuple[float, float],
    slower: Mapping[int, float],
    pause: float,
    instances: int,
    clients: int,
    batch: int,
    delay_ms: int,
) -> tuple[float, float, float]:
    """Throughput, p99 and pictures per execution, for clients that each wait for their answers."""
    random = np.random.default_rng(0)
    batching = simulator.DynamicBatching(max_queue_delay_us=1000 * delay_ms)
    result = simulator.simulate(
        simulator.Model(max_batch_size=batch, instances=instances, batching=batching),
        simulator.clients(clients, _ROUNDS, pause_ms=pause),
        slower=lambda running: slower[running],
        duration_ms=lambda rows: (ms[0] + ms[1] * rows) * random.normal(1, _SCATTER),
    )
    took = result.requests["answered_ms"] - result.requests["queued_ms"] + pause
    rate = 1000 * clients / took.mean()
    return rate, float(np.percentile(took, 99)), float(result.executions["rows"].mean())


def draw(
    target_ms: float, front: Callable[[pd.DataFrame], pd.DataFrame], **tables: pd.DataFrame
) -> style.Picture:
    """Throughput against p99, one panel per table, with its Pareto front and the target."""
    figure = style.Picture(4.2 * len(tables), 3.6, f"Throughput against p99, for {list(tables)}")
    panels = np.atleast_1d(figure.subplots(1, len(tables)))
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        style.panel(axes, f"{name}: pictures per second", below="p99, ms")
        axes.plot(table["p99_ms"], table["per_s"], "o", color=style.COLOURS[0], alpha=0.5)
        best = front(table)
        axes.step(best["p99_ms"], best["per_s"], where="post", color=style.COLOURS[3])
        axes.axvline(target_ms, color=style.GREY, linewidth=0.8, linestyle=":")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    return figure


def repeated(table: pd.DataFrame, factor: float = 2) -> Premise:
    """Premise: of most settings, the two turns differ in throughput by less than this factor."""
    return steady([1.0, table["spread"].median()], factor)


def add_row(server: Triton, best: tuple[int, ...], noise: float) -> None:
    """Add the step to the scoreboard, unless it would show noise only.

    Args:
        best: the settings of `tuned`, and for how many clients.
        noise: the throughput of a copy of given over that of given.
    """
    instances, threads, batch, delay_ms, clients = map(int, best)
    if (instances, threads, batch, delay_ms) == (2, 1, 16, 0):
        print("No row: the choice is given itself.")
    elif not 0.9 < noise < 1.1:
        print(f"No row: a copy of given has {noise:.2f} times its throughput.")
    else:
        # In the figure, the bar begins where that of notebook 04, which has the same model, ended.
        shutil.copytree(
            server.repository / "given", server.repository / "compiled", dirs_exist_ok=True
        )
        server.load("compiled")
        other: dict[str, Any] = {}
        if clients != scoreboard.LOAD:
            other = {
                "measured": partial(formats.under_load, load=clients),
                "load": f"{clients} clients",
            }
        scoreboard.add(
            server,
            "tuning",
            before="compiled",
            after="tuned",
            what=f"{instances} instances, {threads} threads, batch {batch}, delay {delay_ms} ms",
            **other,
        )


@dataclasses.dataclass(frozen=True)
class ProcessorTime:
    """Where the processor time of a picture goes.

    Attributes:
        of_picture: milliseconds per picture. `network`: the network alone, in batches of eight,
            with one thread, without a server; `server`: all else that the server and its processes
            do; `client`: perf_analyzer.
        per_s: pictures per second that were measured.
        cores: that this process may use.
    """

    of_picture: dict[str, float]
    per_s: float
    cores: int

    @property
    def busy(self) -> float:
        """How many cores the three kept busy."""
        return self.per_s * sum(self.of_picture.values()) / 1000

    @property
    def most(self) -> float:
        """Pictures per second if all cores were busy."""
        return 1000 * self.cores / sum(self.of_picture.values())


def processor_time(server: Triton, model: str, clients: int) -> ProcessorTime:
    """Measure which processor time a picture takes while clients ask for one each.

    Args:
        model: an ONNX model; its file is computed in this process as well.
    """
    batch = formats.pictures()[:8]
    call = partial(formats.in_process(server.repository / model / "1/model.onnx"), batch)
    alone = min(timeit.repeat(call, number=10, repeat=5, timer=time.process_time)) / 10
    network = 1000 * alone / len(batch)
    before = _used(server, model)
    found = formats.under_load(server, model, clients)
    in_server, client, pictures = np.subtract(_used(server, model), before)
    spent = {
        "network": network,
        "server": 1000 * in_server / pictures - network,
        "client": 1000 * client / pictures,
    }
    return ProcessorTime(spent, float(found["throughput"]), len(os.sched_getaffinity(0)))


def _used(server: Triton, model: str) -> tuple[float, float, int]:
    """Processor seconds of the server, and of programs like perf_analyzer; answered pictures."""
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)  # those that have ended
    return (
        scoreboard.processor_seconds(server),
        programs.ru_utime + programs.ru_stime,
        formats.computed(server, model)[1],
    )
