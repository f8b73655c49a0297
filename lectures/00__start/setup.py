"""For 00__start: the table of models."""

from __future__ import annotations

import pandas as pd

from workbook.server import Server, all_models


def table(server: Server) -> pd.DataFrame:
    """The models that are ready, one row per backend, and whether a stand-in serves them."""
    models = [m for m in all_models.status(server) if m.state == "READY"]
    rows = [(m.backend, "stand-in" if m.stand_in else "Triton's own", m.name) for m in models]
    found = pd.DataFrame(rows, columns=["backend", "served by", "models"])
    pd.set_option("display.max_colwidth", None)
    return found.groupby(["backend", "served by"]).agg(", ".join)
