"""Read what perf_analyzer 2.51 writes: its CSV report, the counts it prints, its errors."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..common.errors import WorkbookError

#: Columns of the CSV report → our columns; times in the report are in microseconds.
_TIMES = {
    "Avg latency": "mean_ms",
    "p50 latency": "p50_ms",
    "p90 latency": "p90_ms",
    "p95 latency": "p95_ms",
    "p99 latency": "p99_ms",
    "Server Queue": "queue_ms",
    "Server Compute Input": "compute_input_ms",
    "Server Compute Infer": "compute_infer_ms",
    "Server Compute Output": "compute_output_ms",
}
_LEVELS = {"Concurrency": "concurrency", "Request Rate": "rate"}
#: With --percentile the report has no mean.
_OPTIONAL = {"Avg latency"}

#: A pattern of its error message → what to do. The first match is taken.
_ADVICE = (
    (
        r"failed to connect|Connection refused|Couldn't connect|Failed to connect",
        "Start the server with `workbook serve --detach`, or give the right address.",
    ),
    (
        r"Request for unknown model|is not found|is not ready",
        "Load the model first: `workbook status` shows what is loaded.",
    ),
    (
        r"batch-size must be <=|batching not supported|batch size .* not support",
        "Give a batch_size up to the model's max_batch_size.",
    ),
    (
        r"input .* contains dynamic shape|shape .* dynamic|provide shapes to send",
        "Give the dimensions, e.g. options=['--shape', 'INPUT:128'].",
    ),
    (
        r"Decoupled models must be run with",
        "Give streaming=True with protocol='grpc'.",
    ),
    (
        r"unrecognized option|Failed to parse|invalid option|Unsupported|must be specified",
        "Check `options` against `perf_analyzer --help` of version 2.51.",
    ),
    (
        r"missing tensor|supplied shape|[Ff]ailed to init manager inputs|JSON",
        "Check input_data: one array per input, named and shaped as in the model's config.",
    ),
)


def rows(text: str) -> list[dict[str, Any]]:
    """The rows of a CSV report.

    Returns:
        One dict per row: `concurrency` or `rate`, `throughput`, `responses` for decoupled models,
        and the latencies and server times in milliseconds, named as in `measure.perf`.

    Raises:
        WorkbookError: a column is missing, or a value is not a number.
    """
    try:
        table = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise _damaged(f"it is not CSV: {error}") from None
    table = [row for row in table if row]
    if len(table) < 2:
        raise _damaged("it has no rows")
    header = table[0]
    level = next((name for name in _LEVELS if name in header), None)
    needed = {"Inferences/Second", *(_TIMES.keys() - _OPTIONAL)}
    missing = sorted(needed - set(header))
    if level is None or missing:
        raise _damaged(f"columns are missing: {', '.join(missing) or ' or '.join(_LEVELS)}")
    found = []
    for number, cells in enumerate(table[1:], start=2):
        if len(cells) != len(header):
            raise _damaged(f"line {number} has {len(cells)} values for {len(header)} columns")
        given = dict(zip(header, cells, strict=True))
        row: dict[str, Any] = {_LEVELS[level]: _number(given[level], level, number)}
        if level == "Concurrency":
            row["concurrency"] = int(row["concurrency"])
        row["throughput"] = _number(given["Inferences/Second"], "Inferences/Second", number)
        if "Response Throughput" in given:
            row["responses"] = _number(given["Response Throughput"], "Response Throughput", number)
        for column, name in _TIMES.items():
            if column in given:
                row[name] = _number(given[column], column, number) / 1000
        found.append(row)
    return found


def read_reports(*files: str | Path) -> pd.DataFrame:
    """The reports that `perf_analyzer … -f FILE` wrote, as one table.

        !perf_analyzer -m eager -i grpc -u $TRITON_GRPC --request-rate-range 33 -f eager.csv
        measure.read_reports("eager.csv", "patient.csv")

    Returns:
        One row per level of load, with the columns of `measure.perf` up to `compute_output_ms`. The
        index, `report`, has the files' names without `.csv`.

    Raises:
        WorkbookError: a file is missing, or is not such a report.
    """
    found = []
    for file in map(Path, files):
        try:
            text = file.read_text("utf-8")
        except OSError as error:
            raise WorkbookError(
                f"The report cannot be read: {error.strerror}.",
                where=str(file),
                todo="Run the cell with perf_analyzer. What does it print?",
            ) from None
        found += [{"report": file.stem, **row} for row in rows(text)]
    return pd.DataFrame(found).set_index("report")


def counts(printed: str) -> dict[str, int]:
    """The counts that perf_analyzer prints but leaves out of its report.

    Returns:
        `requests` (answered, at the client), `inferences` and `executions` (at the server; of the
        model itself, not of an ensemble's parts).

    Raises:
        WorkbookError: a count is missing.
    """
    found = {}
    for name, label in (
        ("requests", "Request count"),
        ("inferences", "Inference count"),
        ("executions", "Execution count"),
    ):
        match = re.search(rf"^\s*{label}: (\d{{1,18}})\s*$", printed, re.MULTILINE)
        if match is None:
            raise _damaged(f"it does not print its '{label}'")
        found[name] = int(match[1])
    return found


_UNSTABLE = (
    "Failed to obtain stable measurement",
    "No valid requests recorded",
    "failed to find the requested model version",
)


def is_unstable(printed: str) -> bool:
    """Whether it ended for a reason that wider limits or longer windows can fix.

    Its windows differed too much, or in one of them nothing was answered. (Where the server
    counted nothing in a window, perf_analyzer reports that the model's version is missing.)
    """
    return any(message in printed for message in _UNSTABLE)


def failure(printed: str, errors: str, status: int, arguments: Sequence[str]) -> WorkbookError:
    """The exception for a failed run: perf_analyzer's message, and what to do about it."""
    text = errors.strip() or printed.strip()
    advice = next((todo for pattern, todo in _ADVICE if re.search(pattern, text)), "")
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.startswith(("Usage:", "WARNING", "===="))
    ]
    # The first lines say what is wrong; a wrong option prints the whole manual after them.
    shown = "\n  ".join(lines[:4]) or f"it ended with status {status} and printed nothing"
    return WorkbookError(
        f"perf_analyzer could not measure: {shown}",
        where=f"perf_analyzer {' '.join(arguments)}",
        todo=advice or "Send the model one request with tritonclient to see whether it answers.",
    )


def _number(text: str, column: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise _damaged(f"{column} in line {line} is {text!r}, not a number")
    return value


def _damaged(why: str) -> WorkbookError:
    return WorkbookError(
        f"perf_analyzer's report cannot be read: {why}.",
        todo="Run the measurement again; if it stays so, delete .workbook/tools and run "
        "`make setup`.",
    )
