"""The statistics endpoint as DataFrames: each model's requests, executions, batch sizes, times.

Source of the fields: the statistics extension in triton-inference-server/server's protocol
documents. Times there are sums in nanoseconds; counts are sums since the model was loaded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..common.errors import WorkbookError
from ..server import Server
from .server_argument import as_server

_SPANS = ("queue", "compute_input", "compute_infer", "compute_output")
_COUNTS = ("requests", "failures", "inferences", "executions", "cache_hits", "cache_misses")
_NS = ("request_ns", *(f"{span}_ns" for span in _SPANS))
_KEYS = ["model", "version"]


def statistics(server: Server | str | None = None, model: str | None = None) -> pd.DataFrame:
    """What the server counted for each model since it was loaded.

    Args:
        server: a server, the URL of its HTTP endpoint, or None for the one that is running.
        model: one model only; by default all that are loaded.

    Returns:
        One row per model and version, with the columns
        `model`, `version`;
        `requests`, `failures`: requests that were answered, and that failed;
        `inferences`: rows inferred (a request of batch 8 counts 8); `executions`: batches that the
        model computed; `batch_size`: mean inferences per execution, NaN before the first;
        `cache_hits`, `cache_misses`: of the response cache;
        `request_ms`, `queue_ms`, `compute_input_ms`, `compute_infer_ms`, `compute_output_ms`:
        mean times per request in milliseconds, NaN before the first (with a response cache, the
        compute times are means over the misses);
        `request_ns`, `queue_ns`, …: the same times as sums over all requests, in nanoseconds;
        `batches`: a dict from batch size to the number of executions with it.

    Raises:
        ServerError: no server there, or no such model.

    Example:
        row = measure.statistics(server, "digits_onnx").iloc[0]
        print(row["requests"], row["executions"], row["batch_size"], row["queue_ms"])
    """
    connection = as_server(server)
    return from_records(connection.statistics(model))


def from_records(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The table of `statistics` from the records of the endpoint's `model_stats`.

    Raises:
        WorkbookError: a record lacks a field of the statistics extension.
    """
    rows = []
    for record in records:
        try:
            rows.append(_row(record))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise WorkbookError(
                f"The statistics do not have the fields of the protocol: {error!r}",
                where="GET /v2/models/stats",
                todo="Is the address that of a Triton server's HTTP endpoint?",
            ) from None
    return _with_means(pd.DataFrame(rows, columns=[*_KEYS, *_COUNTS, *_NS, "batches"]))


def difference(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """What the server counted between two calls of `statistics`, in the same columns.

    A model that was loaded in between counts from zero; one that is gone is left out.

    Raises:
        WorkbookError: a count went down, so the server or a model was started again in between.

    Example:
        before = measure.statistics(server, "digits_onnx")
        measure.send(server, "digits_onnx", measure.every(0, count=16))
        change = measure.difference(before, measure.statistics(server, "digits_onnx"))
        print(change.iloc[0]["batches"])        # e.g. {1: 2, 7: 2}: executions by batch size
    """
    old = {(row["model"], row["version"]): row for row in before.to_dict("records")}
    rows = []
    for new in after.to_dict("records"):
        key = (new["model"], new["version"])
        row = {name: new[name] for name in (*_KEYS, *_COUNTS, *_NS)}
        earlier = old.get(key)
        if earlier is not None:
            row |= {name: new[name] - earlier[name] for name in (*_COUNTS, *_NS)}
        past: Mapping[int, int] = earlier["batches"] if earlier is not None else {}
        batches = {size: n - past.get(size, 0) for size, n in new["batches"].items()}
        if any(row[name] < 0 for name in _COUNTS):
            raise WorkbookError(
                f"The counts of {new['model']} went down between the two measurements.",
                where=f"model {new['model']}, version {new['version']}",
                todo="The model was loaded again in between: take `before` after the last load.",
            )
        row["batches"] = {size: n for size, n in batches.items() if n}
        rows.append(row)
    return _with_means(pd.DataFrame(rows, columns=[*_KEYS, *_COUNTS, *_NS, "batches"]))


def counted(
    server: Server | str | None, model: str, before: pd.DataFrame, requests: int
) -> pd.DataFrame:
    """What the server has counted since `before`, once it has counted all requests.

    The server counts a request a moment after it has answered, and an execution after that.

    Args:
        server, model: as in `statistics`.
        before: of `statistics`.
        requests: how many were sent since then.

    Returns:
        As `difference`. After two seconds, what there is.

    Raises:
        ServerError, WorkbookError: as `statistics` and `difference`.
    """
    deadline = time.monotonic() + 2
    change = difference(before, statistics(server, model))
    while time.monotonic() < deadline:
        time.sleep(0.02)
        earlier, change = change, difference(before, statistics(server, model))
        settled = change[[*_COUNTS]].equals(earlier[[*_COUNTS]])
        if settled and change[["requests", "failures"]].to_numpy().sum() >= requests:
            break
    return change


def batch_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """How many executions had which batch size, from a table of `statistics` or `difference`.

    Returns:
        One row per model, version and batch size: `model`, `version`, `batch_size`, `executions`,
        and `share`, their part of the model's executions (0 to 1).

    Example:
        measure.batch_sizes(change).set_index("batch_size")["share"]
    """
    rows = [
        {"model": row["model"], "version": row["version"], "batch_size": size, "executions": n,
         "share": n / sum(row["batches"].values())}
        for row in table.to_dict("records")
        for size, n in sorted(row["batches"].items())
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=[*_KEYS, "batch_size", "executions", "share"])


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    times = record["inference_stats"]
    row: dict[str, Any] = {
        "model": str(record["name"]),
        "version": str(record["version"]),
        "requests": int(times["success"]["count"]),
        "failures": int(times["fail"]["count"]),
        "inferences": int(record["inference_count"]),
        "executions": int(record["execution_count"]),
        "cache_hits": int(times["cache_hit"]["count"]),
        "cache_misses": int(times["cache_miss"]["count"]),
        "request_ns": int(times["success"]["ns"]),
    }
    row |= {f"{span}_ns": int(times[span]["ns"]) for span in _SPANS}
    row["batches"] = {
        int(entry["batch_size"]): int(entry["compute_infer"]["count"])
        for entry in record.get("batch_stats", [])
    }
    return row


def _with_means(table: pd.DataFrame) -> pd.DataFrame:
    """Add the means, and put the columns in the order that `statistics` documents."""
    requests = table["requests"].astype(float)
    computed = requests - table["cache_hits"]
    queue_and_total = {"request_ns", "queue_ns"}
    for name in _NS:
        count = requests if name in queue_and_total else computed
        table[f"{name[:-3]}_ms"] = table[name] / count.where(count > 0) / 1e6
    executions = table["executions"].astype(float)
    table["batch_size"] = table["inferences"] / executions.where(executions > 0)
    means = [f"{name[:-3]}_ms" for name in _NS]
    return table[[*_KEYS, *_COUNTS[:4], "batch_size", *_COUNTS[4:], *means, *_NS, "batches"]]
