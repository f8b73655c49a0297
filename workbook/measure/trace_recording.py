"""`recording`: switch a server's tracing on for a block of code, and read the traces."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ..common.errors import WorkbookError
from ..server import Server
from .trace_tables import COLUMNS, traces

# The server counts a request and writes its trace some milliseconds after the answer.
_WAIT_SECONDS = 5.0
_POLL_SECONDS = 0.1


@dataclass
class Recording:
    """What a server traced: `spans`, a table as of `traces`, is filled when the block ends."""

    spans: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=COLUMNS))


@contextmanager
def recording(server: Server) -> Iterator[Recording]:
    """Trace every request that is sent inside the `with` block.

    The server must have been started with a trace file, e.g. `trace={"file": …, "level": "OFF"}`;
    the trace extension can change all settings of a running server but this one.

    Raises:
        WorkbookError: the server has no trace file.

    Example:
        tracing = {"file": "/tmp/trace.json", "rate": 1, "level": "OFF"}
        with Triton("models", trace=tracing) as server:
            server.load("square")
            with measure.recording(server) as recorded:
                measure.send(server, "square", measure.every(1, count=6))
        measure.plot_timeline(recorded.spans)
    """
    file = Path(str(server.request("GET", "/v2/trace/setting").get("trace_file") or ""))
    if not file.name:
        raise WorkbookError(
            "The server has no trace file.",
            where=server.url,
            todo='Start one with Triton(…, trace={"file": PATH, "rate": 1, "level": "OFF"}).',
        )
    past = set(_read(file)["trace"])
    before = _answered(server)
    made = Recording()
    # log_frequency 1: each trace gets a file of its own as soon as it ends. Otherwise traces that
    # ended would wait for those that a direct sequence batcher keeps open for long.
    _switch(server, trace_level=["TIMESTAMPS"], trace_rate="1", trace_count="-1", log_frequency="1")
    try:
        yield made
    finally:
        _switch(server, trace_level=["OFF"])
        deadline = time.monotonic() + _WAIT_SECONDS
        counted = -1
        while time.monotonic() < deadline:
            earlier, counted = counted, _answered(server) - before
            spans = _read(file)
            made.spans = spans[~spans["trace"].isin(past)].reset_index(drop=True)
            ended = made.spans[made.spans["span"] == "request"]
            if earlier == counted <= ended["trace"].nunique():
                break  # the count has not risen since the last look, and all traces are written
            time.sleep(_POLL_SECONDS)


def _switch(server: Server, **settings: Any) -> None:
    server.request("POST", "/v2/trace/setting", json=settings)


def _answered(server: Server) -> int:
    return sum(int(m["inference_stats"]["success"]["count"]) for m in server.statistics())


def _read(file: Path) -> pd.DataFrame:
    """The spans that were written so far; an empty table before the first."""
    if not any(path.stat().st_size for path in file.parent.glob(f"{file.name}*")):
        return pd.DataFrame(columns=COLUMNS)
    return traces(file)
