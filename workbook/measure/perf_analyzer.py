"""`perf`: put load on a model with perf_analyzer, and return its measurements as a DataFrame."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..common.errors import WorkbookError
from ..server import Server
from . import perf_install, perf_output
from .server_argument import as_server

Example = Mapping[str, npt.NDArray[Any]]
InputData = Literal["random", "zero"] | Path | str | Example | Sequence[Example]

#: perf_analyzer accepts a measurement when its last three windows differ by at most this many
#: percent. This value accepts any: it is for the second try, whose row has `stable` False.
_ANY_SPREAD = 1_000_000
#: How many times longer the windows of the third try are, where one held no answer at all.
_LONGER = 8


def perf(
    server: Server | str | None,
    model: str,
    *,
    concurrency: int | Iterable[int] = 1,
    rate: float | Iterable[float] | None = None,
    protocol: Literal["grpc", "http"] = "grpc",
    batch_size: int = 1,
    input_data: InputData = "random",
    version: int | str = "",
    interval_ms: int = 1000,
    stability: float = 20.0,
    trials: int = 10,
    streaming: bool = False,
    options: Sequence[str] = (),
    timeout: float = 300.0,
) -> pd.DataFrame:
    """Put load on a model with perf_analyzer and measure, one level of load after the other.

    At each level perf_analyzer measures windows of `interval_ms` until three in a row agree
    within `stability` percent in throughput and latency. Where `trials` windows were not enough,
    the level is measured once more, whatever its spread, and its row has `stable` False.

    Args:
        server: a server, the URL of its HTTP endpoint, or None for the one that is running.
        model: the model's name. `version`: one version of it; by default the newest.
        concurrency: how many requests are sent and not yet answered at any time: a number, or
            several, one level each.
        rate: requests per second to send instead, whether or not they are answered in time.
        protocol: `grpc`, or `http` (with binary tensors; add `--input-tensor-format=json` and
            `--output-tensor-format=json` to `options` for JSON).
        batch_size: rows in each request.
        input_data: `random` (random bits: floating-point inputs hold NaN, and numbers so small
            that a processor computes with them slowly), `zero`, the path of a JSON file or folder
            in perf_analyzer's own format, or arrays by input name (one example without the batch
            dimension, or a list of examples that are sent in turn).
        streaming: one gRPC stream per connection, as decoupled models need.
        options: further options of perf_analyzer 2.51, e.g. ["--shape", "x:8,3"] for an input with
            variable dimensions, ["--sequence-length", "20"] for a sequence model.
        timeout: seconds that one run of perf_analyzer may take; a level takes up to three.

    Returns:
        One row per level: `concurrency` (or `rate`), `throughput` (inferences per second),
        `responses` (responses per second, decoupled models only), `mean_ms`, `p50_ms`, `p90_ms`,
        `p95_ms`, `p99_ms` (latency at the client), `queue_ms`, `compute_input_ms`,
        `compute_infer_ms`, `compute_output_ms` (means at the server),
        `requests`, `inferences`, `executions` (in the accepted windows), and `stable`.

    Raises:
        WorkbookError: perf_analyzer refused or failed; its own message is in the error.

    Example:
        table = measure.perf(server, "digits_onnx", concurrency=[1, 4, 16], batch_size=8)
        table[["concurrency", "throughput", "p50_ms", "p99_ms"]]
    """
    connection = as_server(server)
    levels = _levels(concurrency, rate)
    with tempfile.TemporaryDirectory(prefix="perf-") as scratch:
        fixed = [
            *("-m", model, "-i", protocol, "-b", str(batch_size)),
            *("-u", connection.grpc_url if protocol == "grpc" else urlsplit(connection.url).netloc),
            *("--input-data", _input_data(input_data, Path(scratch))),
            *(["-x", str(version)] if version else []),
            *(["--streaming", "--async"] if streaming else []),
            *options,
        ]
        switch = "--concurrency-range" if rate is None else "--request-rate-range"
        rows = []
        for level in levels:
            arguments = [*fixed, switch, f"{level:g}"]
            rows.append(_level(arguments, interval_ms, stability, trials, scratch, timeout))
    return pd.DataFrame(rows)


def _level(
    arguments: Sequence[str],
    interval_ms: int,
    stability: float,
    trials: int,
    scratch: str,
    timeout: float,
) -> dict[str, Any]:
    """One level's row: measured as asked, else accepting any spread, else with longer windows."""
    tries = (
        (interval_ms, stability, trials),
        (interval_ms, _ANY_SPREAD, 3),
        (_LONGER * interval_ms, _ANY_SPREAD, 3),
    )
    for window, spread, windows in tries:
        limits = ["-p", str(window), "-s", f"{spread:g}", "-r", str(windows)]
        row = _measure([*arguments, *limits], scratch, timeout)
        if row is not None:
            return {**row, "stable": spread <= stability}
    raise WorkbookError(
        f"Nothing was answered within three windows of {_LONGER * interval_ms} ms.",
        where=" ".join(arguments),
        todo="Give a longer interval_ms: it must be longer than a request takes.",
    )


def _levels(concurrency: int | Iterable[int], rate: float | Iterable[float] | None) -> list[float]:
    chosen = concurrency if rate is None else rate
    levels = [chosen] if isinstance(chosen, int | float) else list(chosen)
    if not levels or any(level <= 0 for level in levels):
        raise WorkbookError(
            f"{chosen!r} is no level of load.",
            where="concurrency" if rate is None else "rate",
            todo="Give one number above zero, or several, e.g. concurrency=[1, 2, 4, 8].",
        )
    return [float(level) for level in levels]


def _input_data(data: InputData, scratch: Path) -> str:
    """The value of --input-data; arrays are written to a file in perf_analyzer's JSON format."""
    if isinstance(data, str | Path):
        if data not in ("random", "zero") and not Path(data).exists():
            raise WorkbookError(
                "The input data are not there.",
                where=str(data),
                todo='Give "random", "zero", an existing file or folder, or arrays by input name.',
            )
        return str(data)
    examples = [data] if isinstance(data, Mapping) else list(data)
    rows = [{name: _tensor(array) for name, array in example.items()} for example in examples]
    path = scratch / "input.json"
    path.write_text(json.dumps({"data": rows}), encoding="utf-8")
    return str(path)


def _tensor(array: npt.NDArray[Any]) -> dict[str, Any]:
    array = np.asarray(array)
    flat = [x.decode("utf-8") if isinstance(x, bytes) else x for x in array.ravel().tolist()]
    return {"content": flat, "shape": list(array.shape)}


def _measure(arguments: Sequence[str], scratch: str, timeout: float) -> dict[str, Any] | None:
    """Run perf_analyzer for one level: a row, or None where it found no stable measurement."""
    binary, env = perf_install.command()
    result = Path(scratch) / "result.csv"
    with contextlib.suppress(FileNotFoundError):
        result.unlink()
    try:
        done = subprocess.run(
            [str(binary), *arguments, "-f", str(result), "--verbose-csv"],
            env=env,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WorkbookError(
            f"perf_analyzer was not done after {timeout:.0f} s and was ended.",
            where=" ".join(arguments),
            todo="Does the model answer at all? Try one request; else give a larger timeout.",
        ) from None
    if done.returncode != 0 or not result.is_file():
        if perf_output.is_unstable(done.stdout + done.stderr):
            return None
        raise perf_output.failure(done.stdout, done.stderr, done.returncode, arguments)
    (row,) = perf_output.rows(result.read_text(encoding="utf-8"))
    return {**row, **perf_output.counts(done.stdout)}
