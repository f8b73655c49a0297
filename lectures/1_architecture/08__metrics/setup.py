"""For 08__metrics: services to measure, perf_analyzer's reports of them, and figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from tritonclient.grpc import InferInput

from workbook import measure
from workbook.lessons.files import place
from workbook.lessons.premises import Premise
from workbook.lessons.workspace import copy
from workbook.measure import style
from workbook.server import Server

#: Service → its number of instances, the sleep per execution (ms), the numbers per request.
SERVICES = {
    "anton": (1, 15, 4),
    "berta": (8, 60, 4),
    "clara": (2, 0, 2_000_000),
    "doris": (1, 0, 4),
    "emil": (1, 15, 4),
}
SPANS = ["queue", "compute_input", "compute_infer", "compute_output"]
REASONS = ["REJECTED", "CANCELED", "BACKEND", "OTHER"]
_COUNTED_S = 0.4  # the server counts a request a moment after it has answered
HERE = Path(__file__).parent / "models"


def services(models: Path) -> None:
    """Make the models: digits without a batcher, the services, and two that refuse requests."""
    copy(models, "digits_onnx", "digits", {"dynamic_batching { }": ""})
    for name in SERVICES:
        add(models, name)
    for name in ("full", "hasty"):
        place(models, HERE / "service", name=name)
        place(models, HERE / name)


def add(models: Path, name: str) -> None:
    """Copy the service of this notebook into a repository, with its own config.

    Args:
        models: the repository.
        name: one of `SERVICES`.
    """
    count, ms, numbers = SERVICES[name]
    place(models, HERE / "service", name=name)
    file = models / name / "config.pbtxt"
    text = file.read_text("utf-8").replace("count: 1", f"count: {count}")
    text = text.replace('string_value: "0"', f'string_value: "{ms}"')
    file.write_text(text.replace("[ 4 ]", f"[ {numbers} ]"), "utf-8")


def memory_of_linux() -> int:
    """Return the machine's memory in bytes, as /proc/meminfo says it."""
    return 1024 * int(Path("/proc/meminfo").read_text("utf-8").split()[1])


def counters(server: Server, model: str) -> pd.Series:
    """Return a model's counters by name. A failure counter's name ends with its reason."""
    time.sleep(_COUNTED_S)
    table = measure.metrics(server)
    own = table[(table["model"] == model) & (table["kind"] == "counter")]
    names = own["metric"] + own["reason"].where(own["reason"] == "", " " + own["reason"])
    return own.groupby(names)["value"].sum()


def load(server: Server, model: str, clients: int = 8, requests: int = 48) -> None:
    """Let clients send a request after each answer."""
    x = np.zeros((1, SERVICES[model][2]), np.float32)
    tensor = InferInput("x", list(x.shape), "FP32").set_data_from_numpy(x)
    client = server.grpc_client()
    try:
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(lambda _: client.infer(model, [tensor]), range(requests)))
    finally:
        client.close()


def split(server: Server, model: str, clients: int = 8) -> pd.Series:
    """Measure the parts of a request's time under load, in milliseconds per request."""
    before = counters(server, model)
    load(server, model, clients)
    grown = counters(server, model) - before
    requests = grown["nv_inference_request_success"]
    return pd.Series(
        {part: grown[f"nv_inference_{part}_duration_us"] / requests / 1000 for part in SPANS}
    )


def counted(grown: pd.Series, requests: int) -> Premise:
    """Premise: the counter of successful requests grew by the number of requests sent."""
    found = int(grown["nv_inference_request_success"])
    return Premise(
        found == requests, f"{requests} requests were sent, and the server counted {found}"
    )


def all_went_wrong(table: pd.DataFrame) -> Premise:
    """Premise: each case ended with an error at the client, and no request came too late.

    On a busy machine a client may cancel a request before the server has it. Then 2 are counted.
    """
    silent = list(table.index[table["the client reads"] == ""])
    ended = Premise(not silent, f"these requests went well: {silent}")
    count = count_failures(table)
    return ended & Premise(count != "2", "one of the requests did not reach the server in time")


def reasons(table: pd.DataFrame) -> pd.Series:
    """Sum up the counters of failures by reason, from the table of the six requests."""
    return table[[f"failure {reason}" for reason in REASONS]].sum()


def count_failures(table: pd.DataFrame) -> str:
    """Return the option of the prediction that says how many of the six failures were counted."""
    return {0: "none"}.get(found := int(reasons(table).sum()), str(found))


def read(models: Path, *runs: str) -> pd.DataFrame:
    """Read perf_analyzer's reports of services, e.g. `anton.1.8.csv`: one instance, 8 clients.

    Returns:
        The columns of `measure.read_reports`, one row per service.

    Example:
        setup.read(models, "anton.1.8", "berta.8.8")
    """
    table = measure.read_reports(*(models / f"{run}.csv" for run in runs))
    table.index = pd.Index([run.partition(".")[0] for run in runs])
    return table


def read_rates(
    models: Path, name: str, instances: Sequence[int], clients: Sequence[int]
) -> pd.DataFrame:
    """Read the throughputs of a service: one row per number of clients, one column per number of
    instances."""
    return pd.DataFrame(
        {
            count: [
                read(models, f"{name}.{count}.{number}").loc[name, "throughput"]
                for number in clients
            ]
            for count in instances
        },
        index=list(clients),
    )


def shares(reports: pd.DataFrame) -> pd.DataFrame:
    """Return the parts of each service's time, as shares of 1: one column per part."""
    parts = reports[[f"{part}_ms" for part in SPANS]].set_axis(SPANS, axis=1)
    return parts.div(parts.sum(axis=1), axis=0)


def who_gains(gain: pd.Series) -> str:
    """Return the option of the prediction that names the services with 1.5 times the throughput."""
    faster = list(gain[gain >= 1.5].index)
    if len(faster) > 1:
        return "more than one"
    return f"{faster[0]} alone" if faster else "none"


def undisturbed(few: pd.DataFrame, many: pd.DataFrame) -> Premise:
    """Premise: berta, who only sleeps, reached over 70 % of the rate that 8 clients can reach."""
    rate = min(each.loc["berta", "throughput"] for each in (few, many))
    part = rate * SERVICES["berta"][1] / 1000 / 8
    return Premise(
        part > 0.7,
        f"berta reached {part:.0%} of the throughput that her sleep allows, because the machine is "
        "busy",
    )


def at_full_speed(rates: pd.DataFrame) -> Premise:
    """Premise: berta reached over 80 % of the possible rates, which compare 8 and 32 clients.

    Args:
        rates: requests per second, as `read_rates` returns them.
    """
    least = min(
        rates.loc[clients, instances] * SERVICES["berta"][1] / 1000 / min(clients, instances)
        for instances in (8, 16)
        for clients in (8, 32)
    )
    return Premise(least > 0.8, f"berta, who only sleeps, reached {least:.0%} of a rate")


def plot_shares(reports: pd.DataFrame) -> style.Picture:
    """Draw the parts of each service's time in the server, in per cent.

    Beside a service's name stand the sum of these parts, and what a client waits (the median).
    """
    percent = shares(reports) * 100
    whole = reports[[f"{part}_ms" for part in SPANS]].sum(axis=1)
    names = [
        f"{name}: {inside:.0f} ms (client: {wait:.0f} ms)"
        for name, inside, wait in zip(reports.index, whole, reports["p50_ms"], strict=True)
    ]
    figure = style.Picture(8.4, 1.1 + 0.42 * len(names), "Shares of a request's time per service")
    axes = figure.subplots()
    style.panel(axes, "Where a request's time in the server goes", below="% of this time", grid="x")
    left = np.zeros(len(names))
    for part in SPANS:
        axes.barh(names, percent[part], left=left, height=0.6, label=part, **style.fill(part))
        left = left + percent[part].to_numpy()
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    style.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def plot_rates(rates: pd.DataFrame) -> style.Picture:
    """Draw throughput over the number of clients, one line per number of instances."""
    summary = "; ".join(f"{count} instances: {list(rates[count].round(0))}" for count in rates)
    figure = style.Picture(6.4, 2.8, f"berta's requests per second. {summary}")
    axes = figure.subplots()
    style.panel(axes, "berta: requests per second", below="clients, each asks in a loop")
    for place_, count in enumerate(rates):
        axes.plot(rates.index, rates[count], marker=style.MARKS[place_],
                  color=style.COLOURS[place_], label=f"{count} instances")  # fmt: skip
    axes.set_xticks(list(rates.index))
    axes.set_ylim(bottom=0)
    style.legend(axes)
    return figure
