"""Triton's trace files as tables: when each request waited and was computed, and with which others.

The trace extension (docs/user_guide/trace.md of triton-inference-server/server) writes a JSON
array of small records: one that names the model, and one per timestamp, each with the id of its
trace (one trace per request). A span is the time between two timestamps. Requests of one execution
have exactly the same timestamps of the computation; this is how executions are recognized.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..common.errors import WorkbookError

#: span → (its first timestamp, its last timestamp), in the order in which a request passes them.
SPANS = {
    "request": ("REQUEST_START", "REQUEST_END"),
    "receive": ("HTTP_RECV_START", "HTTP_RECV_END"),
    "queue": ("QUEUE_START", "COMPUTE_START"),
    "compute_input": ("COMPUTE_START", "COMPUTE_INPUT_END"),
    "compute_infer": ("COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
    "compute_output": ("COMPUTE_OUTPUT_START", "COMPUTE_END"),
    "send": ("HTTP_SEND_START", "HTTP_SEND_END"),
}
#: The columns of `executions`.
PLACES = [
    *("trace", "parent", "request_id", "model", "version"),
    *("execution", "size", "place", "lane", "queued_ms", "start_ms", "end_ms"),
]
COLUMNS = ["trace", "parent", "request_id", "model", "version", "span", "start_ms", "ms"]


def traces(path: Path | str) -> pd.DataFrame:
    """Read a trace file, and those which the server numbered after it (`FILE.0`, `FILE.1`, …).

    The server writes the file when it stops, or each time `log_frequency` traces have ended. Of a
    file that is cut off in the middle, the complete records are read.

    Args:
        path: the file that was given as the trace extension's `file`.

    Returns:
        One row per span: `trace` (the server's number of the request), `parent` (the number of
        the request that caused it, in ensembles and BLS; 0 for none), `request_id` (what the
        client gave), `model`, `version`, `span` (request, receive, queue, compute_input,
        compute_infer, compute_output, send), `start_ms` since the first timestamp of all, and
        `ms`, its length. A span whose end was not recorded is left out.

    Raises:
        WorkbookError: no such file, or it holds no trace at all.

    Example:
        spans = measure.traces("/tmp/trace.json")
        spans.query("span == 'queue'").groupby("model")["ms"].mean()    # mean wait per model
    """
    path = Path(path)
    numbered = [p for p in path.parent.glob(f"{path.name}.*") if p.suffix[1:].isdecimal()]
    numbered.sort(key=lambda p: int(p.suffix[1:]))
    files = ([path] if path.is_file() else []) + numbered
    if not files:
        raise WorkbookError(
            "There is no trace file.",
            where=str(path),
            todo="Start the server with a trace `file` and `level` TIMESTAMPS, send requests, and "
            "stop it: the file is written at the end, or when log_frequency traces are full.",
        )
    records = [record for file in files for record in _records(file.read_bytes())]
    if not records and any(file.stat().st_size > len("[]\n") for file in files):
        raise WorkbookError(
            "The file holds no trace that could be read.",
            where=str(files[0]),
            todo="Is it the file that the server wrote as its trace?",
        )
    return _table(records)


def executions(spans: pd.DataFrame) -> pd.DataFrame:
    """Which request was computed in which execution, and with which others.

    Triton's traces do not name the instance that computed. What can be known is the `lane`:
    executions of a model that overlap in time must have run on different instances, and get
    different lanes. So there are at most as many lanes as instances.

    Args:
        spans: a table of `traces`.

    Returns:
        One row per computed request, sorted by when it began to wait: `trace`, `parent`,
        `request_id`, `model`, `version`; `execution` (numbered from 1 over all models), `size`
        (how many requests the execution has), `place` (the request's position in it, from 0),
        `lane` (from 0, per model); `queued_ms`, `start_ms`, `end_ms`: when the request began to
        wait, and when its computation began and ended, in milliseconds since the first wait.

    Example:
        table = measure.executions(recorded.spans)
        table.groupby("execution")["request_id"].agg(list)      # the requests of each execution
    """
    wide = spans.pivot_table(
        index=["trace", "parent", "request_id", "model", "version"],
        columns="span",
        values=["start_ms", "ms"],
        aggfunc="first",
    )
    begin, length = ("start_ms", "compute_input"), ("ms", "compute_output")
    if wide.empty or begin not in wide or length not in wide:
        times = dict.fromkeys(("queued_ms", "start_ms", "end_ms"), float)
        return pd.DataFrame(columns=PLACES).astype(times)
    table = wide.index.to_frame(index=False)
    table["queued_ms"] = wide["start_ms", "queue"].to_numpy()
    table["start_ms"] = wide[begin].to_numpy()
    table["end_ms"] = (wide["start_ms", "compute_output"] + wide[length]).to_numpy()
    table = table.dropna().sort_values(["queued_ms", "trace"], ignore_index=True)
    same = table.groupby(["model", "version", "start_ms"], sort=False)
    first = same["start_ms"].transform("first").rank(method="dense")
    table["execution"] = pd.factorize(
        pd.Series(list(zip(first, table["model"], table["version"], strict=True))), sort=True
    )[0] + 1  # fmt: skip
    table["size"] = same["trace"].transform("size")
    table["place"] = same.cumcount()
    table["lane"] = table["execution"].map(_lanes(table))
    origin = table["queued_ms"].min()
    for name in ("queued_ms", "start_ms", "end_ms"):
        table[name] -= origin
    return table[PLACES]


def in_order(came: Mapping[str, float]) -> list[str]:
    """The names of requests in the order in which they were sent.

    Requests that are sent at the same time reach the server in any order. A plan numbers them as
    they are sent (`request_plan.every`), so the numbers decide among names that begin alike.

    >>> in_order({"r2": 0.1, "r10": 0.2, "late": 9.0, "r1": 0.3})
    ['r1', 'r2', 'r10', 'late']

    Args:
        came: name → when the request reached the server.
    """
    alike: dict[str, list[str]] = {}
    for name in came:
        alike.setdefault(name.rstrip("0123456789"), []).append(name)
    sent: dict[str, float] = {}
    for start, names in alike.items():
        names.sort(key=lambda name: int(name.removeprefix(start) or 0))
        sent |= zip(names, sorted(came[name] for name in names), strict=True)
    return sorted(sent, key=lambda name: sent[name])


def _lanes(table: pd.DataFrame) -> dict[int, int]:
    """The lane of each execution: the lowest of its model that is free when it starts."""
    free: dict[tuple[str, str], list[float]] = {}
    chosen = {}
    for row in table.drop_duplicates("execution").sort_values("start_ms").itertuples():
        ends = free.setdefault((row.model, row.version), [])
        lane = next((i for i, end in enumerate(ends) if end <= row.start_ms), len(ends))
        ends[lane : lane + 1] = [row.end_ms]
        chosen[row.execution] = lane
    return chosen


def _records(raw: bytes) -> Iterator[dict[str, Any]]:
    """The complete records of JSON arrays; what is cut off or no record is skipped."""
    text = raw.decode("utf-8", errors="replace")
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            record, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(record.get("id"), int):
                yield record
        at = text.find("{", end)


def _table(records: list[dict[str, Any]]) -> pd.DataFrame:
    about: dict[int, dict[str, Any]] = {}
    stamps: dict[int, dict[str, int]] = {}
    for record in records:
        if "model_name" in record:
            about[record["id"]] = record
        for stamp in _list(record.get("timestamps")):
            if isinstance(stamp, dict) and isinstance(stamp.get("ns"), int):
                # A decoupled model gives several responses; the first of a kind begins a span.
                stamps.setdefault(record["id"], {}).setdefault(str(stamp.get("name")), stamp["ns"])
    origin = min((ns for own in stamps.values() for ns in own.values()), default=0)
    rows = []
    for trace, own in stamps.items():
        model = about.get(trace, {})
        for span, (begin, end) in SPANS.items():
            if begin in own and end in own:
                rows.append((
                    trace,
                    model.get("parent_id", 0),
                    str(model.get("request_id", "")),
                    str(model.get("model_name", "")),
                    str(model.get("model_version", "")),
                    span,
                    (own[begin] - origin) / 1e6,
                    (own[end] - own[begin]) / 1e6,
                ))  # fmt: skip
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.sort_values(["start_ms", "trace"], ignore_index=True)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
