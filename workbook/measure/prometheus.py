"""`metrics`: the server's metrics endpoint, in Prometheus' text format, as a DataFrame."""

from __future__ import annotations

import re

import pandas as pd
from prometheus_client.parser import text_string_to_metric_families

from ..common.errors import WorkbookError
from ..server import Server
from .server_argument import as_server


def metrics(server: Server | str | None = None) -> pd.DataFrame:
    """Every sample that the server's metrics endpoint shows at this moment.

    Args:
        server: a server, the URL of its HTTP endpoint, or None for the one that is running. For
            a URL, metrics are read from its port plus 2, which is Triton's default.

    Returns:
        One row per sample: `metric`, `kind` (counter, gauge, summary, …), one column per label
        (`model`, `version`, `gpu_uuid`, … as far as they occur; empty where a sample lacks it)
        and `value`.

    Raises:
        ServerError: nothing answers at the metrics endpoint.
        WorkbookError: the answer is not in Prometheus' text format.

    Example:
        table = measure.metrics(server)
        table.query("metric == 'nv_inference_count' and model == 'square'")["value"]
    """
    connection = as_server(server)
    return from_text(connection.metrics())


def from_text(text: str) -> pd.DataFrame:
    """The table of `metrics` from a text in Prometheus' exposition format.

    Raises:
        WorkbookError: the text is something else, or damaged.
    """
    # The parser writes counters with the ending _total, which Triton's names do not have.
    written = set(re.findall(r"^[A-Za-z_:][\w:]*", text, re.MULTILINE))
    rows = []
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name if sample.name in written else sample.name.removesuffix("_total")
                rows.append((name, family.type, sample.labels, float(sample.value)))
    # The parser has no exception of its own: damaged text raises any of these.
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise WorkbookError(
            f"The metrics are not in Prometheus' text format: {error}",
            todo="Is the address that of a Triton server's metrics endpoint (usually port 8002)?",
        ) from None
    labels = list(dict.fromkeys(["model", "version", *(key for row in rows for key in row[2])]))
    return pd.DataFrame(
        [(name, kind, *(own.get(key, "") for key in labels), value)
         for name, kind, own, value in rows],
        columns=["metric", "kind", *labels, "value"],
    )  # fmt: skip
