"""The measuring room: load a server, read what it counts, and look at the result.

from workbook import measure

table = measure.perf(server, "digits_onnx", concurrency=[1, 2, 4, 8, 16])
measure.plot_load(table)
"""

from .counts import batch_sizes, difference, statistics
from .load import perf
from .plots import plot_load
from .prometheus import metrics
from .timeline import traces

__all__ = ["batch_sizes", "difference", "metrics", "perf", "plot_load", "statistics", "traces"]
