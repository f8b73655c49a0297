"""The measuring room: load a server, read what it counts, and look at the result.

from workbook import measure

table = measure.perf(server, "digits_onnx", concurrency=[1, 2, 4, 8, 16])
measure.plot_load(table)
"""

from .bars import plot_bars
from .counts import batch_sizes, difference, statistics
from .lanes import plot_timeline
from .live import watch
from .load import perf
from .plots import plot_batches, plot_load
from .processes import processes
from .prometheus import metrics
from .recording import recording
from .timeline import executions, traces
from .visits import Visit, every, send
from .wire import Tap

__all__ = [
    "Tap",
    "Visit",
    "batch_sizes",
    "difference",
    "every",
    "executions",
    "metrics",
    "perf",
    "plot_bars",
    "plot_batches",
    "plot_load",
    "plot_timeline",
    "processes",
    "recording",
    "send",
    "statistics",
    "traces",
    "watch",
]
