"""For 08__metrics: services to measure, requests that fail, and clients that send in a loop."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tritonclient.grpc import InferInput
from tritonclient.utils import InferenceServerException

from workbook import measure, zoo
from workbook.lessons.premises import Premise, attempt
from workbook.lessons.workspace import copy
from workbook.measure import style
from workbook.server import Server

#: Service → its number of instances, the sleep per execution (ms), the numbers per request.
SERVICES = {"anton": (1, 15, 4), "berta": (8, 60, 4), "clara": (2, 0, 2_000_000)}
SPANS = ["queue", "compute_input", "compute_infer", "compute_output"]
REASONS = ["REJECTED", "CANCELED", "BACKEND", "OTHER"]
REQUESTS = {"anton": 64, "berta": 128, "clara": 40}  # per load
_COUNTED_S = 0.4  # the server counts a request a moment after it has answered

_POLICY = "dynamic_batching {{ default_queue_policy {{ {} }} }}"
HERE = Path(__file__).parent / "models"


def services(models: Path) -> None:
    """Make the models: digits without a batcher, the services, a slow one, three that refuse."""
    copy(models, "digits_onnx", "digits", {"dynamic_batching { }": ""})
    for name, (count, _, _) in SERVICES.items():
        add(models, name, count)
    add(models, "doris")
    add(models, "emil")
    add(models, "full", batching=_POLICY.format("max_queue_size: 1"))
    hasty = "timeout_action: REJECT default_timeout_microseconds: 30000"
    add(models, "hasty", batching=_POLICY.format(hasty))


def add(models: Path, name: str, count: int = 1, batching: str = "") -> None:
    """Copy the service of this notebook into a repository, and change its config.

    Args:
        models: the repository.
        name: the service's name there.
        count: the number of instances.
        batching: the batching section of its config; with one, an execution has one row.
    """
    home = models / name
    text = (HERE / "service/config.pbtxt").read_text("utf-8").replace("count: 1", f"count: {count}")
    if batching:
        text = text.replace("max_batch_size: 8", "max_batch_size: 1") + f"{batching}\n"
    if not home.is_dir():  # if only the config changes, Triton adds or removes instances
        shutil.copytree(HERE / "service", home)
    (home / "config.pbtxt").write_text(text, "utf-8")


def send_at_once(server: Server, model: str, ms: float, rows: int = 1, count: int = 1) -> list[str]:
    """Send `count` requests to a service at once; returns each one's error, "" for none."""
    x = np.full((rows, 4), ms, np.float32)
    plan = [measure.Request(f"r{i}", i, inputs={"x": x}) for i in range(count)]
    return [str(error) for error in measure.send(server, model, plan)["error"]]


def send_rows(server: Server, model: str, sizes: list[int]) -> None:
    """Send pictures of digits to a model: one request per size, one after the other."""
    source = server.config(model)["input"][0]["name"]
    pictures = zoo.data.digits().x_test
    for size in sizes:
        measure.send(server, model, [measure.Request("r", inputs={source: pictures[:size]})])


def counters(server: Server, model: str) -> pd.Series:
    """Return a model's counters by name. A failure counter's name ends with its reason."""
    time.sleep(_COUNTED_S)
    table = measure.metrics(server)
    own = table[(table["model"] == model) & (table["kind"] == "counter")]
    names = own["metric"] + own["reason"].where(own["reason"] == "", " " + own["reason"])
    return own.groupby(names)["value"].sum()


def go_wrong(server: Server) -> pd.DataFrame:
    """Make one request fail in each of six places.

    Returns:
        One row per case: the error that the client reads, and the growth of the counters of
        success and of failure, by reason.
    """
    cases: dict[str, tuple[str, Callable[[], list[str]]]] = {
        "9 rows where 8 are allowed": ("anton", lambda: send_at_once(server, "anton", 1, rows=9)),
        "the queue is full": ("full", lambda: send_at_once(server, "full", 120, count=3)),
        "waited too long": ("hasty", lambda: send_at_once(server, "hasty", 120, count=2)),
        "the client gave up": ("hasty", lambda: _give_up(server)),
        "the model raises": ("anton", lambda: send_at_once(server, "anton", -1)),
        "the model answers with an error": ("anton", lambda: send_at_once(server, "anton", np.nan)),
    }
    rows = {}
    for case, (model, run) in cases.items():
        before = counters(server, model)
        errors = run()
        if model == "hasty":  # a refusal may be counted late, because the batcher sleeps
            time.sleep(0.6)
        grown = counters(server, model) - before
        wrong = [error for error in errors if error]
        served = len(errors) - len(wrong)
        rows[case] = {
            "the client reads": (wrong or ["nothing"])[0].partition("\n")[0][:60],
            "success": int(grown["nv_inference_request_success"]) - served,
        } | {reason: int(grown[f"nv_inference_request_failure {reason}"]) for reason in REASONS}
    return pd.DataFrame(rows).T


def _give_up(server: Server) -> list[str]:
    """Let one request be computed, and cancel a second one that waits behind it."""
    client = server.grpc_client()
    found: list[Any] = []
    try:
        x = np.full((1, 4), 120, np.float32)
        tensor = InferInput("x", list(x.shape), "FP32").set_data_from_numpy(x)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(client.infer, "hasty", [tensor])
            time.sleep(0.03)
            call = client.async_infer("hasty", [tensor], lambda result, error: found.append(error))
            time.sleep(0.01)
            call.cancel()
            first.result()
        return ["", "the client reads nothing: it has cancelled"]
    except InferenceServerException as error:
        return [str(error.message()), ""]
    finally:
        client.close()


def load(server: Server, model: str, clients: int = 8, requests: int = 0) -> float:
    """Let clients send a request after each answer; returns requests per second."""
    requests = requests or REQUESTS.get(model, 48)
    _, ms, numbers = SERVICES.get(model, (1, 15, 4))
    x = np.full((1, numbers), ms, np.float32)
    tensor = InferInput("x", list(x.shape), "FP32").set_data_from_numpy(x)
    client = server.grpc_client()
    try:
        client.is_server_live()
        began = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(lambda _: client.infer(model, [tensor]), range(requests)))
        return requests / (time.perf_counter() - began)
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
    """Premise: each case of `go_wrong` ended with an error at the client."""
    silent = list(table.index[table["the client reads"] == "nothing"])
    return Premise(not silent, f"these requests went well: {silent}")


def only_slept(parts: pd.DataFrame) -> Premise:
    """Premise: berta's executions took hardly longer than their sleep."""
    ms, sleep = parts.loc["berta", "compute_infer"], SERVICES["berta"][1]
    return Premise(
        ms < 1.25 * sleep,
        f"berta took {ms:.0f} ms though she only sleeps {sleep} ms, because the machine is busy",
    )


def undisturbed(rates: list[pd.Series]) -> Premise:
    """Premise: with 8 clients and 8 instances, berta reached over 70 % of the possible rate."""
    part = min(rate["berta"] for rate in rates) * SERVICES["berta"][1] / 1000 / 8
    return Premise(
        part > 0.7,
        f"berta reached {part:.0%} of the throughput that her sleep allows, because the machine is "
        "busy",
    )


def full_speed(rates: Callable[[int], pd.Series]) -> tuple[pd.Series, pd.Series]:
    """Measure the rates with 8 and with 16 instances, again where `at_full_speed` is false."""
    return attempt(lambda: (rates(8), rates(16)), at_full_speed)


def at_full_speed(rates: tuple[pd.Series, pd.Series]) -> Premise:
    """Premise: berta reached over 80 % of the possible rates, which compare 8 and 32 clients.

    Args:
        rates: requests per second by the number of clients, with 8 and with 16 instances.
    """
    parts = [
        rate[clients] * SERVICES["berta"][1] / 1000 / min(clients, instances)
        for rate, instances in zip(rates, (8, 16), strict=True)
        for clients in (8, 32)
    ]
    return Premise(min(parts) > 0.8, f"berta, who only sleeps, reached {min(parts):.0%} of a rate")


def plot_shares(parts: pd.DataFrame) -> style.Picture:
    """Draw the parts of each service's time, in per cent, with the total beside its name."""
    whole = parts.sum(axis=1)
    shares = parts.div(whole, axis=0) * 100
    shares.index = pd.Index([f"{name}: {whole[name]:.0f} ms" for name in shares.index])
    figure = style.Picture(8.4, 1.1 + 0.42 * len(parts), "Shares of a request's time per service")
    axes = figure.subplots()
    style.panel(axes, "Where a request's time goes", below="% of its time in the server", grid="x")
    left = pd.Series(0.0, index=shares.index)
    for part in parts.columns:
        axes.barh(list(shares.index), shares[part], left=left, height=0.6, label=str(part),
                  **style.fill(part))  # fmt: skip
        left = left + shares[part]
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    style.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def plot_rates(rates: Mapping[str, pd.Series]) -> style.Picture:
    """Draw throughput over the number of clients, one line per number of instances."""
    summary = "; ".join(f"{name}: {list(line.round(0))}" for name, line in rates.items())
    figure = style.Picture(6.4, 2.8, f"berta's requests per second. {summary}")
    axes = figure.subplots()
    style.panel(axes, "berta: requests per second", below="clients, each asks in a loop")
    for place, (name, line) in enumerate(rates.items()):
        axes.plot(line.index, line, marker=style.MARKS[place], color=style.COLOURS[place],
                  label=name)  # fmt: skip
    axes.set_xticks(list(next(iter(rates.values())).index))
    axes.set_ylim(bottom=0)
    style.legend(axes)
    return figure
