"""`perf`: load a model with the real perf_analyzer and return what it measured as a DataFrame."""

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
from . import analyzer, perf_output
from .reach import reach

Example = Mapping[str, npt.NDArray[Any]]
InputData = Literal["random", "zero"] | Path | str | Example | Sequence[Example]

#: perf_analyzer judges a measurement by the spread of its last three windows, in percent. One so
#: wide accepts any: it is the second try, whose result is marked as not stable.
_ANY_SPREAD = 1_000_000
#: How much longer windows become where in one of them nothing was answered.
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
    shape: Mapping[str, Sequence[int]] | None = None,
    version: int | str = "",
    interval_ms: int = 1000,
    stability: float = 20.0,
    trials: int = 10,
    streaming: bool = False,
    sequence_length: int | None = None,
    options: Sequence[str] = (),
    timeout: float = 300.0,
) -> pd.DataFrame:
    """Load a model from outside and measure, one level of load after the other.

    At each level perf_analyzer measures windows of `interval_ms` until three in a row agree
    within `stability` percent in throughput and latency. Where `trials` windows were not enough,
    the level is measured once more, whatever its spread, and its row has `stable` False.

    Args:
        server: a server, the URL of its HTTP endpoint, or None for the one that is running.
        model: the model's name. `version`: one version of it; by default the newest.
        concurrency: how many requests to keep under way: a number, or several.
        rate: requests a second to send instead, whether or not they are answered in time.
        protocol: `grpc`, or `http` (with binary tensors; add `--input-tensor-format=json` and
            `--output-tensor-format=json` to `options` for JSON).
        batch_size: rows in each request.
        input_data: `random`, `zero`, the path of a JSON file or folder in perf_analyzer's own
            format, or arrays by input name (one example without the batch dimension, or a list
            of examples that are sent in turn).
        shape: dimensions for inputs with variable ones, without the batch dimension.
        streaming: one gRPC stream a connection, as decoupled models need.
        sequence_length: requests in a sequence, for sequence models (perf_analyzer varies it by
            20 %; `--sequence-length-variation` in `options` changes that).
        options: further options of perf_analyzer 2.51, as a list of words.
        timeout: seconds that one level may take.

    Returns:
        One row a level: `concurrency` (or `rate`), `throughput` (inferences a second),
        `responses` (responses a second, decoupled models only), `mean_ms`, `p50_ms`, `p90_ms`,
        `p95_ms`, `p99_ms` (latency at the client), `queue_ms`, `compute_input_ms`,
        `compute_infer_ms`, `compute_output_ms` (means at the server, to a microsecond),
        `requests`, `inferences`, `executions` (in the windows that count), and `stable`.

    Raises:
        WorkbookError: perf_analyzer refused or failed; its own words are in the error.
    """
    connection = reach(server)
    levels = _levels(concurrency, rate)
    with tempfile.TemporaryDirectory(prefix="perf-") as scratch:
        fixed = [
            *("-m", model, "-i", protocol, "-b", str(batch_size)),
            *("-u", connection.grpc_url if protocol == "grpc" else urlsplit(connection.url).netloc),
            *("--input-data", _input_data(input_data, Path(scratch))),
            *(["-x", str(version)] if version else []),
            *(["--streaming", "--async"] if streaming else []),
            *(["--sequence-length", str(sequence_length)] if sequence_length else []),
        ]
        for name, dims in (shape or {}).items():
            fixed += ["--shape", f"{name}:{','.join(map(str, dims))}"]
        fixed += options
        switch = "--concurrency-range" if rate is None else "--request-rate-range"
        rows = []
        for level in levels:
            words = [*fixed, switch, f"{level:g}"]
            rows.append(_level(words, interval_ms, stability, trials, scratch, timeout))
    return pd.DataFrame(rows)


def _level(
    words: Sequence[str],
    interval_ms: int,
    stability: float,
    trials: int,
    scratch: str,
    timeout: float,
) -> dict[str, Any]:
    """One level's row: first as asked, then taking any spread, then with longer windows."""
    tries = (
        (interval_ms, stability, trials),
        (interval_ms, _ANY_SPREAD, 3),
        (_LONGER * interval_ms, _ANY_SPREAD, 3),
    )
    for window, spread, windows in tries:
        limits = ["-p", str(window), "-s", f"{spread:g}", "-r", str(windows)]
        row = _measure([*words, *limits], scratch, timeout)
        if row is not None:
            return {**row, "stable": spread <= stability}
    raise WorkbookError(
        f"Nothing was answered within three windows of {_LONGER * interval_ms} ms.",
        where=" ".join(words),
        todo="Give a longer interval_ms: it must be longer than a request takes.",
    )


def _levels(concurrency: int | Iterable[int], rate: float | Iterable[float] | None) -> list[float]:
    chosen = concurrency if rate is None else rate
    levels = [chosen] if isinstance(chosen, int | float) else list(chosen)
    if not levels or any(level <= 0 for level in levels):
        raise WorkbookError(
            f"There is no load in {chosen!r}.",
            where="concurrency" if rate is None else "rate",
            todo="Give one number above zero, or several, e.g. concurrency=[1, 2, 4, 8].",
        )
    return [float(level) for level in levels]


def _input_data(data: InputData, scratch: Path) -> str:
    """The word for --input-data; arrays are written to a file in perf_analyzer's JSON format."""
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


def _measure(words: Sequence[str], scratch: str, timeout: float) -> dict[str, Any] | None:
    """Run perf_analyzer for one level: a row, or None where more patience may bring one."""
    binary, env = analyzer.command()
    result = Path(scratch) / "result.csv"
    with contextlib.suppress(FileNotFoundError):
        result.unlink()
    try:
        done = subprocess.run(
            [str(binary), *words, "-f", str(result), "--verbose-csv"],
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
            where=" ".join(words),
            todo="Does the model answer at all? Try one request; else give a larger timeout.",
        ) from None
    if done.returncode != 0 or not result.is_file():
        if perf_output.is_unstable(done.stdout + done.stderr):
            return None
        raise perf_output.failure(done.stdout, done.stderr, done.returncode, words)
    (row,) = perf_output.rows(result.read_text(encoding="utf-8"))
    return {**row, **perf_output.counts(done.stdout)}
