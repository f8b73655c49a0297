"""Time calls: one function alone, or several functions in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd


def median_ms(action: Callable[..., object], *given: Any, times: int = 5, **options: Any) -> float:
    """Return the median time of a call in milliseconds, after one call to warm up.

    Args:
        action: the function to call.
        given: its positional arguments.
        times: the number of timed calls.
        options: its arguments by name.

    Example:
        timing.median_ms(client.infer, "square", [tensor], times=50)
    """
    took = []
    for _ in range(times + 1):
        began = time.perf_counter()
        action(*given, **options)
        took.append((time.perf_counter() - began) * 1000)
    return float(np.median(took[1:]))


def by_turns(ways: Mapping[str, Callable[[], object]], *, times: int) -> pd.DataFrame:
    """Time several functions in turn, so that other programs disturb all of them alike.

    Args:
        ways: functions without arguments, by name.
        times: the number of timed calls of each.

    Returns:
        Milliseconds: one row per turn, one column per function.

    Example:
        timing.by_turns({"HTTP": ask_http, "gRPC": ask_grpc}, times=300).quantile(0.05)
    """
    rows = [{name: median_ms(way, times=1) for name, way in ways.items()} for _ in range(times)]
    return pd.DataFrame(rows)
