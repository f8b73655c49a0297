"""Triton's trace files as a table of spans: which request was where, and when.

The trace extension (docs/user_guide/trace.md of triton-inference-server/server) writes a JSON
array of small records: one that names the model, and one a timestamp, each with the id of its
trace. A span is the time between two timestamps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import WorkbookError

#: span: (the timestamp it begins with, the one it ends with), in the order of a request's life.
SPANS = {
    "request": ("REQUEST_START", "REQUEST_END"),
    "receive": ("HTTP_RECV_START", "HTTP_RECV_END"),
    "queue": ("QUEUE_START", "COMPUTE_START"),
    "compute_input": ("COMPUTE_START", "COMPUTE_INPUT_END"),
    "compute_infer": ("COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
    "compute_output": ("COMPUTE_OUTPUT_START", "COMPUTE_END"),
    "send": ("HTTP_SEND_START", "HTTP_SEND_END"),
}
COLUMNS = ["trace", "parent", "request_id", "model", "version", "span", "start_ms", "ms"]


def traces(path: Path | str) -> pd.DataFrame:
    """Read a trace file, and those which the server numbered after it (`FILE.0`, `FILE.1`, …).

    The server writes the file when it stops or when `log_frequency` traces are full. A file that
    is cut off in the middle gives all that is whole in it.

    Args:
        path: the file that was given as the trace extension's `file`.

    Returns:
        One row a span: `trace` (the server's number of the request), `parent` (of the request
        that caused it, in ensembles and BLS; 0 for none), `request_id` (what the client gave),
        `model`, `version`, `span` (request, receive, queue, compute_input, compute_infer,
        compute_output, send), `start_ms` since the first timestamp of all, and `ms`, its length.
        A span whose end was not recorded is left out.

    Raises:
        WorkbookError: no such file, or it holds no trace at all.
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


def _records(raw: bytes) -> Iterator[dict[str, Any]]:
    """The whole records of JSON arrays, as far as they go; what is cut off or foreign is passed."""
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
