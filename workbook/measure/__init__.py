"""Put load on a server, read its statistics and traces as DataFrames, and draw them.

    from workbook import measure

    table = measure.perf(server, "digits_onnx", concurrency=[1, 2, 4, 8, 16])
    measure.plot_load(table)                # throughput and latency as the load grows

    before = measure.statistics(server, "digits_onnx")
    measure.send(server, "digits_onnx", measure.every(5, count=20))
    change = measure.difference(before, measure.statistics(server, "digits_onnx"))

    with measure.recording(server) as recorded:     # a server that was started with a trace file
        measure.send(server, "digits_onnx", measure.every(1, count=6))
    measure.plot_timeline(recorded.spans)

`server` is a `Server` or `Triton`, the URL of an HTTP endpoint, or None for the running server.
A plot is the last expression of a notebook's cell, and shows itself.

| to | use |
|---|---|
| put load on a model | `perf` (perf_analyzer), or a plan: `Request`, `every`, `send` |
| read perf_analyzer's reports | `read_reports` |
| read what the server counted | `statistics`, `difference`, `counted`, `batch_sizes`, `metrics` |
| see each request | `recording`, `traces`, `executions` |
| see processes and bytes | `processes`, `Tap` |
| draw | `plot_load`, `plot_timeline`, `plot_bars`, `watch` (while load runs) |
"""

from .bar_plot import plot_bars
from .live_view import watch
from .perf_analyzer import perf
from .perf_output import read_reports
from .plots import plot_load
from .process_table import processes
from .prometheus import metrics
from .request_plan import Request, every, send
from .server_statistics import batch_sizes, counted, difference, statistics
from .tap import Tap
from .timeline_plot import plot_timeline
from .trace_recording import recording
from .trace_tables import executions, traces

__all__ = [
    "Request",
    "Tap",
    "batch_sizes",
    "counted",
    "difference",
    "every",
    "executions",
    "metrics",
    "perf",
    "plot_bars",
    "plot_load",
    "plot_timeline",
    "processes",
    "read_reports",
    "recording",
    "send",
    "statistics",
    "traces",
    "watch",
]
