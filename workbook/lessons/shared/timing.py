"""How long calls take: one by one, and several ways in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd


def median_ms(action: Callable[..., object], *given: Any, times: int = 5, **options: Any) -> float:
    """The median of the milliseconds that a call takes, after one to warm up.

    Args:
        action: what is called.
        given: its arguments by position.
        times: how often it is called and timed.
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
    """The milliseconds that each of several ways takes, in turn, so that all meet the same load.

    Args:
        ways: functions without arguments, by name.
        times: how often each is called and timed.

    Returns:
        One row per turn, one column per way.

    Example:
        timing.by_turns({"HTTP": ask_http, "gRPC": ask_grpc}, times=300).quantile(0.05)
    """
    rows = [{name: median_ms(way, times=1) for name, way in ways.items()} for _ in range(times)]
    return pd.DataFrame(rows)
